// Package acp carries out the route to agents that speak the Agent Client
// Protocol, version 1, on their standard streams.
//
// It promises what the port asks for, and for this protocol: an agent gets no
// file system and no terminal of ours; its environment is built from nothing;
// its whole process tree is gone when a session is closed or lost; nothing it
// prints can grow memory or be mistaken for an answer; its permission requests
// go to the operator with its own options, and none is ever chosen by place.
//
// The connection and the dozen message types are our own. The facts about the
// protocol are those of the stable schema v1 (protocol version 1) as the
// TypeScript SDK 2.4.0 ships it.
package acp
