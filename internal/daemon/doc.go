// Package daemon runs Signalbox as two processes: the front door (Serve),
// which stays up, takes secrets from requests and proxies, and the worker
// (Worker), which owns the journal, finds out who asks, and serves the API.
//
// It promises:
//
//   - The worker is reachable over one inherited socket pair and nothing else,
//     so that what a client showed, as the front door says it, cannot be forged
//     by another process of the same user, and is nothing that could be used
//     elsewhere: hashes instead of secrets. What a client sends under the
//     door's own headers or paths never gets through.
//   - The front door listens on loopback only, and answers only requests that
//     name it as their host and come from its own pages or from no page.
//   - A dead worker is started again with growing pauses, and the door says so
//     meanwhile. One that refuses to start at first ends the front door with
//     the reason.
//   - The front door's death, SIGTERM and the operator's stop all end the
//     worker the same way: nothing more is dispatched, what runs is drained,
//     streams are ended, the journal is closed last.
//   - No token is kept as it is, and none is inherited by a child.
package daemon
