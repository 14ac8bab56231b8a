package sse

import (
	"bytes"
	"errors"
	"io"
)

// bufferSize is how much is read at once. Lines within it are not copied.
const bufferSize = 32 << 10

// byteOrderMark is ignored at the start of a stream, and only there.
var byteOrderMark = []byte("\xef\xbb\xbf")

// Reader reads the events of one stream. It is not safe for concurrent use.
type Reader struct {
	src    io.Reader
	limits Limits
	err    error // sticky

	buf        []byte
	start, end int   // unread part of buf
	total      int64 // bytes read from src

	line   []byte // a line that did not lie in buf as a whole
	skipLF bool   // the last line ended in CR: an LF that follows belongs to it
	begun  bool   // the first line, which may start with a mark, is done

	typ      string
	data     []byte
	fault    []byte
	hasData  bool
	hasFault bool
	hasType  bool
	id       string // as the lines since the last dispatch left it
	lastID   string
}

// NewReader reads from src, holding at most one read buffer and two buffers of
// the longest line or event.
func NewReader(src io.Reader, limits Limits) *Reader {
	return &Reader{src: src, limits: limits, buf: make([]byte, bufferSize)}
}

// LastID is the id that resumes the stream after the events dispatched so far,
// "" without one. An id sent without data moves it too: a filtered stream
// heartbeats that way.
func (r *Reader) LastID() string { return r.lastID }

// Next gives the next event. It fails with io.EOF at a clean end, with one of
// the errors of this package, or with what the source failed with; then every
// later call fails likewise.
func (r *Reader) Next() (Event, error) {
	if r.err != nil {
		return Event{}, r.err
	}
	r.hasType = false
	r.data, r.hasData = r.data[:0], false
	r.fault, r.hasFault = r.fault[:0], false
	for {
		line, whole, err := r.readLine()
		if err == nil && len(line) > 0 {
			err = r.field(line, whole)
		}
		if err != nil {
			r.err = err
			return Event{}, err
		}
		if len(line) > 0 {
			continue
		}
		r.lastID = r.id
		if r.hasData || r.hasFault {
			return r.event(), nil
		}
		r.hasType = false
	}
}

// Ready reports whether the next event has been read from the source as a whole,
// so that Next does not wait for it. False says nothing: of streams whose lines
// end otherwise than in LF it is not known.
func (r *Reader) Ready() bool {
	return r.err == nil && bytes.Contains(r.buf[r.start:r.end], []byte("\n\n"))
}

func (r *Reader) event() Event {
	e := Event{Type: "message", Data: r.data}
	if r.hasType && r.typ != "" {
		e.Type = r.typ
	}
	if r.hasFault {
		e.Fault = r.fault
	}
	return e
}

// field takes one line that is not blank. A line that is not whole lies in
// r.line, whose memory may be taken over.
func (r *Reader) field(line []byte, whole bool) error {
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) { // the conversion does not allocate
	case "data":
		return r.addData(value, whole)
	case "event":
		r.hasType = true
		if r.typ != string(value) { // most streams repeat one name: keep it
			r.typ = string(value)
		}
	case "error":
		r.hasFault = true
		r.fault = append(r.fault[:0], value...)
	case "id":
		// The standard ignores an id with NUL: it could not be sent back in a
		// header.
		if bytes.IndexByte(value, 0) < 0 && r.id != string(value) {
			r.id = string(value)
		}
	default:
		// Comments (empty name), retry, which a caller's own back-off stands
		// for, and unknown fields.
		return nil
	}
	return r.checkEvent(0)
}

func (r *Reader) addData(value []byte, whole bool) error {
	if !r.hasData {
		r.hasData = true
		if err := r.checkEvent(len(value)); err != nil {
			return err
		}
		if whole {
			r.data = append(r.data, value...)
			return nil
		}
		// A long line changes hands instead of being copied: an event of the
		// largest size is held once.
		r.line, r.data = r.data[:0], value
		return nil
	}
	if err := r.checkEvent(1 + len(value)); err != nil {
		return err
	}
	r.data = append(append(r.data, '\n'), value...)
	return nil
}

func (r *Reader) checkEvent(more int) error {
	have := len(r.data) + len(r.fault)
	if r.hasType {
		have += len(r.typ)
	}
	if have+more > r.limits.Event {
		return ErrEventTooLarge
	}
	return nil
}

// readLine gives the next line without its end. Whole tells that it lies in
// the read buffer and so is valid until the next read only.
func (r *Reader) readLine() (line []byte, whole bool, err error) {
	r.line = r.line[:0]
	for {
		if r.skipLF && r.start < r.end {
			r.skipLF = false
			if r.buf[r.start] == '\n' {
				r.start++
			}
		}
		part := r.buf[r.start:r.end]
		stop := bytes.IndexByte(part, '\n')
		if stop < 0 {
			stop = len(part)
		}
		if cr := bytes.IndexByte(part[:stop], '\r'); cr >= 0 {
			stop = cr
		}
		if len(r.line)+stop > r.limits.Line {
			return nil, false, ErrLineTooLong
		}
		if stop < len(part) {
			r.start += stop + 1
			r.skipLF = part[stop] == '\r'
			if len(r.line) == 0 {
				return r.trimMark(part[:stop]), true, nil
			}
			r.line = append(r.line, part[:stop]...)
			return r.trimMark(r.line), false, nil
		}
		r.line = append(r.line, part...)
		if err := r.fill(); err != nil {
			if errors.Is(err, io.EOF) && (len(r.line) > 0 || r.hasData || r.hasFault || r.hasType) {
				err = ErrIncomplete
			}
			return nil, false, err
		}
	}
}

func (r *Reader) trimMark(line []byte) []byte {
	if r.begun {
		return line
	}
	r.begun = true
	return bytes.TrimPrefix(line, byteOrderMark)
}

// fill replaces the read buffer, which is used up, by the next bytes.
func (r *Reader) fill() error {
	r.start, r.end = 0, 0
	room := r.limits.Total - r.total
	if room <= 0 {
		room = 1 // is there anything more, or does the stream end here?
	}
	for range 100 {
		n, err := r.src.Read(r.buf[:min(int64(len(r.buf)), room)])
		if n > 0 {
			r.total += int64(n)
			if r.total > r.limits.Total {
				return ErrStreamTooLarge
			}
			r.end = n
			return nil // an error comes again with the next read
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}
