// Package jsonl frames newline-delimited JSON over pipes: one line, one
// message, as the stdio transports of ACP and of Codex have it.
//
// It promises that nothing a peer does grows memory beyond the frame limit,
// that frames are never merged, split or interleaved, that a peer which stops
// reading cannot hold a writer for longer than the write timeout, and that a
// failed write says how many bytes left, because that decides whether work was
// sent. It looks at bytes only: whether a line is the expected JSON is for the
// protocol above.
package jsonl
