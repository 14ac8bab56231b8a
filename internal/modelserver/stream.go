package modelserver

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"signalbox/internal/sse"
)

// pieceSize is the length of a streamed piece, in characters: small enough
// that an answer is seen to grow.
const pieceSize = 12

// pieces cuts an answer for streaming.
func pieces(answer string) []string {
	var out []string
	for runes := []rune(answer); len(runes) > 0; {
		n := min(pieceSize, len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}

// stream is an event stream to one client. After a failed write, or when the
// client has gone, nothing more is written.
type stream struct {
	ctx   context.Context
	delay time.Duration
	out   *sse.Writer
	conn  *http.ResponseController
	err   error
}

func newStream(w http.ResponseWriter, r *http.Request, delay time.Duration) *stream {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	return &stream{ctx: r.Context(), delay: delay, out: sse.NewWriter(w), conn: http.NewResponseController(w)}
}

// send writes one event.
func (s *stream) send(name string, body object) {
	data, err := json.Marshal(body)
	if err != nil {
		s.err = err
	}
	s.raw(name, data)
}

func (s *stream) raw(name string, data []byte) {
	if s.err == nil {
		s.err = s.out.Event("", name, data)
	}
	if s.err == nil {
		s.err = s.conn.Flush()
	}
}

// pause waits before a piece.
func (s *stream) pause() {
	if s.delay <= 0 || s.err != nil {
		return
	}
	timer := time.NewTimer(s.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ctx.Done():
		s.err = context.Cause(s.ctx)
	}
}
