// Package demo shows Signalbox at work without an account, a model or a
// network: a scripted model on loopback, a small agent that asks before it
// acts, and a plan for both.
//
// It promises to use nothing that an operator could not use: the demo drives
// the same processes, the same API and the same agents' protocol.
package demo
