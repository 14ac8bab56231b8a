package scheduler

import (
	"strings"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/redact"
)

// transcript gathers what an agent writes: redacted as it comes, in pieces to
// be committed, and the answer as a whole.
type transcript struct {
	redactor *redact.Redactor
	streams  map[string]*redact.Stream
	pieces   []coord.Text
	size     int // of pieces
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
	if n := len(t.pieces); n > 0 && t.pieces[n-1].Channel == channel {
		t.pieces[n-1].Text += kept
	} else {
		t.pieces = append(t.pieces, coord.Text{Channel: channel, Text: kept})
	}
	t.size += len(kept)
}

// waiting reports whether text waits to be committed; due says until when.
func (t *transcript) waiting() bool { return len(t.pieces) > 0 }

// full reports whether the waiting text is to be committed at once.
func (t *transcript) full() bool { return t.size >= coord.MaxTextChunk }

// take gives the text to be committed; at the end also what was held back as
// the possible beginning of a secret.
func (t *transcript) take(end bool) []coord.Text {
	if end {
		for _, channel := range []string{coord.ChannelThought, coord.ChannelMessage} {
			if stream := t.streams[channel]; stream != nil {
				t.push(channel, stream.Flush(), time.Time{})
			}
		}
	}
	pieces := t.pieces
	t.pieces, t.size = nil, 0
	return pieces
}
