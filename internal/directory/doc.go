// Package directory keeps the agents that plans may name: who they are, how
// they are started, and what was last observed about them.
//
// It promises three things. A configuration never changes: an edit makes a new
// numbered revision, and whoever froze an older one keeps it. Nothing secret is
// kept: a literal that looks like a secret is refused with the advice to name
// an environment variable instead. And looking is all it does: discovery reads
// the search path and starts nothing, inspection starts an agent without work,
// login or installation.
package directory
