// Package probe holds the attempts to break out of the sandbox.
package probe
