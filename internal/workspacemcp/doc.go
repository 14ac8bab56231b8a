// Package workspacemcp is `signalbox workspace-mcp`: the tools of one attempt as
// a server of the Model Context Protocol on standard input and output, for an
// agent to start.
//
// It promises to be a pipe and no more. It holds no file, no journal and no
// rule: what it can do is what the worker offers on the socket that the
// agent's environment names. It forwards a bounded number of calls, in any
// order; a cancelled call is withdrawn, and so are all when it ends. When the
// worker cannot be reached or goes, each call gets an error that says so, and
// the agent lives on.
//
// The protocol is our own dozen lines of it, for the reason in
// docs/adr/0005-dependencies.md; the tests drive it with the client of the
// official SDK.
package workspacemcp
