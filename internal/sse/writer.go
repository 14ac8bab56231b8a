package sse

import (
	"bytes"
	"io"
	"strings"

	"signalbox/internal/coord"
)

// Writer writes the frames of one stream, each with one call of Write. It does
// not flush: who owns the connection does. It is not safe for concurrent use.
type Writer struct {
	dst io.Writer
	buf []byte
}

// NewWriter writes to dst.
func NewWriter(dst io.Writer) *Writer { return &Writer{dst: dst} }

// Event writes one event. An empty id or name is left out. Nil data makes a
// frame without data, which moves the reader's last id and dispatches nothing;
// other data is split into one line each at CR, LF or CRLF, so that CR comes
// out as LF. An id or name that could break the frame is Invalid.
func (w *Writer) Event(id, name string, data []byte) error {
	if strings.ContainsAny(id, "\r\n\x00") {
		return coord.Errorf(coord.Invalid, "the id of an event holds a line end or NUL; use plain text")
	}
	if strings.ContainsAny(name, "\r\n") {
		return coord.Errorf(coord.Invalid, "the name of an event holds a line end; use plain text")
	}
	w.buf = w.buf[:0]
	if id != "" {
		w.line("id: ", []byte(id))
	}
	if name != "" {
		w.line("event: ", []byte(name))
	}
	if data != nil {
		w.lines("data: ", data)
	}
	return w.end()
}

// Comment writes a comment, which readers ignore: a heartbeat that keeps
// intermediaries from closing an idle connection.
func (w *Writer) Comment(text string) error {
	w.buf = w.buf[:0]
	w.lines(": ", []byte(text))
	return w.end()
}

func (w *Writer) line(prefix string, text []byte) {
	w.buf = append(w.buf, prefix...)
	w.buf = append(w.buf, text...)
	w.buf = append(w.buf, '\n')
}

func (w *Writer) lines(prefix string, text []byte) {
	for {
		stop := bytes.IndexAny(text, "\r\n")
		if stop < 0 {
			break
		}
		w.line(prefix, text[:stop])
		if text[stop] == '\r' && stop+1 < len(text) && text[stop+1] == '\n' {
			stop++
		}
		text = text[stop+1:]
	}
	w.line(prefix, text)
}

func (w *Writer) end() error {
	w.buf = append(w.buf, '\n')
	_, err := w.dst.Write(w.buf)
	return err
}
