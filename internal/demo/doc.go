// Package demo shows Signalbox at work without an account, a model or a
// network: a scripted model on loopback, a small agent that asks before it
// acts, a plan for both, and the show that takes it from the draft to the result.
//
// It promises to use nothing that an operator could not use: the show drives
// the same processes, the same API and the same agents' protocol.
package demo
