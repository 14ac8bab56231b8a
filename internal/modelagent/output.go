package modelagent

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
)

const (
	// maxPiece bounds the text of one update, in characters.
	maxPiece = 2048
	// maxPending bounds what waits for a client that reads slowly, in bytes;
	// then the model's answer waits in the network.
	maxPending = 256 << 10
	// maxUnread bounds what waits all in all, in bytes. Answers may not wait
	// for room as text does, because the client may write before it reads; one
	// that lets megabytes of answers lie is broken.
	maxUnread = 4 << 20
)

// errEnded tells the producer of text that the prompt was answered meanwhile.
var errEnded = errors.New("the prompt has ended")

// output is stdout. One lock orders everything that is written, so nothing of
// an answer can follow the response that ended it. Text is appended to the
// last update for as long as the writer is busy with earlier bytes: updates
// are small when the model is slow and large when the client is.
type output struct {
	mu      sync.Mutex
	pending []byte
	piece   int    // characters in the update at the end of pending; 0: none is open
	prefix  []byte // of an update, up to its text
	live    bool   // a prompt is admitted and not answered
	closing bool

	wake chan struct{} // something to write, or closing
	room chan struct{} // pending was taken
	done chan struct{} // run has returned
}

func newOutput() *output {
	return &output{wake: make(chan struct{}, 1), room: make(chan struct{}, 1), done: make(chan struct{})}
}

// run writes until close has been called and nothing is left, or until w
// fails.
func (o *output) run(w io.Writer) {
	defer close(o.done)
	var taken []byte
	for {
		o.mu.Lock()
		o.closePiece()
		taken, o.pending = o.pending, taken[:0]
		closing := o.closing
		o.mu.Unlock()
		if len(taken) == 0 {
			if closing {
				return
			}
			<-o.wake
			continue
		}
		signal(o.room)
		if _, err := w.Write(taken); err != nil {
			return
		}
	}
}

// close lets run end once everything is written.
func (o *output) close() {
	o.mu.Lock()
	o.closing = true
	o.mu.Unlock()
	signal(o.wake)
}

// send writes one frame. It reports whether the client still reads.
func (o *output) send(frame []byte) bool {
	o.mu.Lock()
	o.add(frame)
	reads := len(o.pending) < maxUnread
	o.mu.Unlock()
	signal(o.wake)
	return reads
}

// begin admits text for a session.
func (o *output) begin(session string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.live = true
	o.prefix = append(strconv.AppendQuote([]byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":`), session),
		`,"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"`...)
}

// text relays text of the answer. It waits while the client does not read, and
// fails once the prompt has been answered or with the cause of ctx.
func (o *output) text(ctx context.Context, s []byte) error {
	for len(s) > 0 {
		o.mu.Lock()
		switch {
		case !o.live:
			o.mu.Unlock()
			return errEnded
		case len(o.pending) >= maxPending:
			o.mu.Unlock()
			select {
			case <-o.room:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		if o.piece == 0 {
			o.pending = append(o.pending, o.prefix...)
		}
		var taken, chars int
		o.pending, taken, chars = appendText(o.pending, s, maxPiece-o.piece)
		s = s[taken:]
		if o.piece += chars; o.piece == maxPiece {
			o.closePiece()
		}
		o.mu.Unlock()
		signal(o.wake)
	}
	return nil
}

// end answers the prompt, once: it reports whether this frame did.
func (o *output) end(frame []byte) bool {
	o.mu.Lock()
	was := o.live
	o.live = false
	if was {
		o.add(frame)
	}
	o.mu.Unlock()
	signal(o.wake)
	return was
}

func (o *output) add(frame []byte) {
	o.closePiece()
	o.pending = append(append(o.pending, frame...), '\n')
}

func (o *output) closePiece() {
	if o.piece > 0 {
		o.pending = append(o.pending, "\"}}}}\n"...)
		o.piece = 0
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
