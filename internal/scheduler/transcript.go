package scheduler

import (
	"strings"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/redact"
)

// maxPieces is how many pieces of text wait in the order in which they came.
const maxPieces = 8

// transcript gathers what an agent writes: redacted as it comes, in pieces to
// be committed, and the answer as a whole.
type transcript struct {
	redactor *redact.Redactor
	streams  map[string]*redact.Stream
	pieces   []coord.Text
	open     strings.Builder // the text of the last piece, while it grows
	size     int             // of pieces, the open one included
	due      time.Time
	text     strings.Builder // the answer so far
	kept     map[string]int  // bytes by channel
	dropped  int64           // bytes of the answer beyond coord.MaxAnswerText
}

func newTranscript(r *redact.Redactor) transcript {
	return transcript{redactor: r, streams: map[string]*redact.Stream{}, kept: map[string]int{}}
}

// add takes a piece as the agent wrote it.
func (t *transcript) add(piece coord.Text, now time.Time) {
	stream := t.streams[piece.Channel]
	if stream == nil {
		stream = t.redactor.Stream()
		t.streams[piece.Channel] = stream
	}
	t.push(piece.Channel, stream.Write(piece.Text), now)
}

// push takes text that is safe to be kept.
func (t *transcript) push(channel, safe string, now time.Time) {
	kept, cut := cutText(safe, coord.MaxAnswerText-t.kept[channel])
	if cut && channel == coord.ChannelMessage {
		t.dropped += int64(len(safe) - len(kept))
	}
	if kept == "" {
		return
	}
	t.kept[channel] += len(kept)
	if channel == coord.ChannelMessage {
		t.text.WriteString(kept)
	}
	if len(t.pieces) == 0 {
		t.due = now.Add(coord.TextFlush)
	}
	t.size += len(kept)
	if n := len(t.pieces); n == 0 || t.pieces[n-1].Channel != channel {
		if earlier := t.earlier(channel); earlier != nil {
			earlier.Text += kept
			return
		}
		t.shut()
		t.pieces = append(t.pieces, coord.Text{Channel: channel})
	}
	t.open.WriteString(kept)
}

// restate replaces the answer by what the provider says that it is in the end.
func (t *transcript) restate(answer string) {
	safe := t.redactor.String(answer)
	kept, _ := cutText(safe, coord.MaxAnswerText)
	t.text.Reset()
	t.text.WriteString(kept)
	t.dropped = int64(len(safe) - len(kept))
}

// earlier gives the piece that takes text of a channel out of turn: an agent
// that changes its channel at each byte must not make an event of each.
func (t *transcript) earlier(channel string) *coord.Text {
	if len(t.pieces) < maxPieces {
		return nil
	}
	for i := len(t.pieces) - 2; i >= 0; i-- {
		if t.pieces[i].Channel == channel {
			return &t.pieces[i]
		}
	}
	return nil
}

// shut completes the last piece.
func (t *transcript) shut() {
	if n := len(t.pieces); n > 0 {
		t.pieces[n-1].Text = t.open.String()
		t.open.Reset()
	}
}

// waiting reports whether text waits to be committed; due says until when.
func (t *transcript) waiting() bool { return len(t.pieces) > 0 }

// full reports whether the waiting text is to be committed at once.
func (t *transcript) full() bool { return t.size >= coord.MaxTextChunk }

// take gives the text to be committed, in pieces of at most coord.MaxTextChunk
// bytes; at the end also what was held back as the possible beginning of a
// secret.
func (t *transcript) take(end bool) []coord.Text {
	if end {
		for _, channel := range []string{coord.ChannelThought, coord.ChannelMessage} {
			if stream := t.streams[channel]; stream != nil {
				t.push(channel, stream.Flush(), time.Time{})
			}
		}
	}
	t.shut()
	var chunks []coord.Text
	for _, p := range t.pieces {
		rest := p.Text
		for more := true; more; {
			p.Text, more = cutText(rest, coord.MaxTextChunk)
			rest = rest[len(p.Text):]
			chunks = append(chunks, p)
			more = more && p.Text != "" // what is no UTF-8 has no place to cut
		}
	}
	t.pieces, t.size = nil, 0
	return chunks
}
