// Package api is the HTTP API of Signalbox, the one contract for browser,
// command line and MCP.
//
// It promises:
//
//   - Reads answer {"data": ...}; errors are application/problem+json with a
//     code of coord and never repeat what was sent. An error without a code is
//     a fault of ours: it is logged under an id, and only the id is shown.
//   - Each operation has a role. Who asks is found out by whoever serves the
//     API (As), and nothing in a request itself can say it.
//   - A mutation with an Idempotency-Key happens once; asking again with the
//     key gives the first answer.
//   - Event streams are pages of the journal read by cursor. A slow reader
//     slows only itself, and no read transaction waits for a network.
//
// The OpenAPI document (Document) is generated from the operations here.
package api
