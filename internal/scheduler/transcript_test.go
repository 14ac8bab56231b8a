package scheduler

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/redact"
)

func TestTextIsTakenInPiecesOfBoundedSize(t *testing.T) {
	text := newTranscript(redact.New())
	long := strings.Repeat("\u00e4 ", coord.MaxTextChunk)
	text.add(coord.Text{Channel: coord.ChannelMessage, Text: long}, time.Now())
	var got strings.Builder
	for i, p := range append(text.take(false), text.take(true)...) {
		if len(p.Text) == 0 || len(p.Text) > coord.MaxTextChunk || !utf8.ValidString(p.Text) {
			t.Errorf("piece %d has %d bytes", i, len(p.Text))
		}
		got.WriteString(p.Text)
	}
	if got.String() != long {
		t.Errorf("%d bytes came of %d", got.Len(), len(long))
	}
}

func TestTextIsTakenInOrderAndOnePieceForEachTurnOfAChannel(t *testing.T) {
	now := time.Now()
	text := newTranscript(redact.New())
	for _, p := range []coord.Text{
		{Channel: coord.ChannelMessage, Text: "one \n"}, {Channel: coord.ChannelMessage, Text: "two \n"},
		{Channel: coord.ChannelThought, Text: "hm \n"}, {Channel: coord.ChannelMessage, Text: "three \n"},
	} {
		text.add(p, now)
	}
	got := append(text.take(false), text.take(true)...)
	var said, thought strings.Builder
	for i, p := range got {
		if i > 0 && p.Text == "" {
			t.Errorf("piece %d is empty", i)
		}
		switch p.Channel {
		case coord.ChannelMessage:
			said.WriteString(p.Text)
		case coord.ChannelThought:
			thought.WriteString(p.Text)
		}
	}
	if diff := cmp.Diff([]string{"one \ntwo \nthree \n", "hm \n"}, []string{said.String(), thought.String()}); diff != "" {
		t.Errorf("the texts (-want +got):\n%s", diff)
	}
	if text.text.String() != said.String() {
		t.Errorf("the answer is %q and %q was taken", text.text.String(), said.String())
	}
	if text.waiting() || text.full() || len(text.take(true)) != 0 {
		t.Error("text waits after all of it was taken")
	}
}
