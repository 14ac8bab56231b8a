package jsonl

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"signalbox/internal/coord"
)

// smallBuffer is what a Reader holds between large frames. Nearly all protocol
// messages fit, and a hundred idle connections stay cheap.
const smallBuffer = 16 << 10

// maxEmptyReads is how often in a row a source may return nothing without an
// error before it counts as broken.
const maxEmptyReads = 100

var (
	// ErrFrameTooLarge ends the stream: the peer sent a line above the limit.
	// The rest of the line was not read, so nothing after it can be trusted.
	ErrFrameTooLarge = &coord.Error{Code: coord.Limit, Message: "The peer sent a line longer than the frame limit; it must send smaller messages."}
	// ErrInvalidUTF8 concerns one frame, which was consumed: the next call to
	// Next reads on. The caller counts such frames and bounds them.
	ErrInvalidUTF8 = &coord.Error{Code: coord.Invalid, Message: "The peer sent a line that is not valid UTF-8."}
)

// Reader takes frames from a byte stream. It is for one goroutine.
type Reader struct {
	src io.Reader
	max int
	buf []byte
	// buf[start:end] is read and not yet returned; buf[start:scanned] is known
	// to hold no line end, so a frame that arrives in many pieces is searched
	// once.
	start, scanned, end int
	err                 error
}

// NewReader makes a Reader of frames of at most maxFrame bytes, line end not
// counted.
func NewReader(src io.Reader, maxFrame int) *Reader {
	return &Reader{src: src, max: maxFrame, buf: make([]byte, smallBuffer)}
}

// Next returns the next line without its LF or CRLF. The bytes are valid until
// the next call. Only LF ends a line: U+2028, U+2029 and a lone CR are content.
//
// The end of the stream after a whole line is io.EOF; after a part of one it
// is io.ErrUnexpectedEOF, and the part is dropped. ErrInvalidUTF8 leaves the
// Reader usable, every other error is final and returned again.
func (r *Reader) Next() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	for {
		if i := bytes.IndexByte(r.buf[r.scanned:r.end], '\n'); i >= 0 {
			return r.take(r.scanned + i)
		}
		r.scanned = r.end
		if r.oversize() {
			return nil, r.fail(ErrFrameTooLarge)
		}
		if err := r.fill(); err != nil {
			if errors.Is(err, io.EOF) && r.end > r.start {
				err = io.ErrUnexpectedEOF
			}
			return nil, r.fail(err)
		}
	}
}

// take cuts the line that ends with the LF at index at.
func (r *Reader) take(at int) ([]byte, error) {
	line := r.buf[r.start:at]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	r.start, r.scanned = at+1, at+1
	if len(line) > r.max {
		return nil, r.fail(ErrFrameTooLarge)
	}
	if !utf8.Valid(line) {
		return nil, ErrInvalidUTF8
	}
	return line, nil
}

// oversize reports that what is pending cannot become a frame any more. One
// byte above the limit is possible while it may be the CR of a CRLF.
func (r *Reader) oversize() bool {
	n := r.end - r.start
	return n > r.max+1 || n == r.max+1 && r.buf[r.end-1] != '\r'
}

// fill makes room and reads once.
func (r *Reader) fill() error {
	pending := r.end - r.start
	switch {
	case pending < smallBuffer && len(r.buf) > smallBuffer:
		// The large frame is gone: go back to the small buffer.
		r.move(make([]byte, smallBuffer))
	case r.end < len(r.buf):
	case r.start > 0:
		r.move(r.buf)
	default:
		r.move(make([]byte, min(2*len(r.buf), max(r.max+2, smallBuffer))))
	}
	for range maxEmptyReads {
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		if n > 0 {
			// An error that comes with bytes comes again without them.
			return nil
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

func (r *Reader) move(to []byte) {
	n := copy(to, r.buf[r.start:r.end])
	r.buf, r.start, r.scanned, r.end = to, 0, r.scanned-r.start, n
}

func (r *Reader) fail(err error) error {
	r.err, r.buf, r.start, r.scanned, r.end = err, nil, 0, 0, 0
	return err
}
