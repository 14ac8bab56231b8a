// Package a2a carries out the route of agents on the network that speak A2A
// (Agent2Agent), version 0.3 or 1.0, over JSON-RPC.
//
// It promises what the port promises, and beside that: the version is the
// registered one and nothing falls back to another; work and answers go to the
// registered origin alone; the task's id is told before anything else that the
// peer says; a response counts only when it carries the id of its request, and
// a task only when it is ours; whatever goes wrong after work was sent, short of
// the peer's own answer to that request, is unknown. What decides a task's state
// is what the peer answers when it is asked for the task: a stream that ends, a
// cancellation that was accepted and a silence decide nothing. Files that a peer
// names by address are told and never fetched.
//
// The transport is our own, on the standard library: the SDKs at hand lose the
// receipt, take other tasks' answers for ours, or read without bound. What is
// said here of versions comes from the schema of A2A 0.3.0 and the proto of
// 1.0.1, what is said of servers was measured with @a2a-js/sdk 0.3.14 and 1.3.0
// and with a2a-go 2.4.0.
package a2a
