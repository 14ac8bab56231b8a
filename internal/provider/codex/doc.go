// Package codex carries out the route to the Codex command line, through its
// app-server: JSON-RPC in lines on standard streams.
//
// It promises what the port asks for, and for Codex: an attempt has a thread of
// its own and never an existing chat; the login of the user is used where it
// is, without a copy, and the user's configuration is not written; every setting
// that gives the model a tool of Codex's own is overridden, what Codex answers
// is compared with what was asked for, and work is not sent when they differ;
// the tools of Signalbox are the only ones that a model gets, beside a question
// to the operator; what Codex asks to be approved for its own tools is declined
// at once; calls that run something outside of every sandbox, such as
// thread/shellCommand and process/spawn, are never sent.
//
// The facts about the protocol are those of codex 0.163.0 and 0.171.0 (app-server
// v2 with its experimental part), measured with the real programs.
package codex
