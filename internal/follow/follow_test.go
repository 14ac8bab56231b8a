package follow

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"signalbox/internal/coord"
	"signalbox/internal/screen"
)

func TestThatAnAgentShowsNoProgressIsToldWithoutItsWords(t *testing.T) {
	for status, want := range map[string]string{
		coord.ActivityStalled: "survey shows no progress, and is waited for: signalbox attempt show 12/survey\n",
		"in_progress":         "",
	} {
		var told strings.Builder
		f := New(screen.New(nil, io.Discard, &told), nil, coord.Job{Number: 12}, false)
		f.keys["tsk_1"] = "survey"
		data, err := json.Marshal(coord.Activity{Kind: "status", Title: "words of the agent", Status: status})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.event(t.Context(), coord.Event{Kind: coord.AttemptActed, Task: "tsk_1", Data: data}); err != nil {
			t.Fatal(err)
		}
		if told.String() != want {
			t.Errorf("%s is told as %q, want %q", status, told.String(), want)
		}
	}
}

// That a question was not answered never ends a command with success, and an
// interrupt stays one.
func TestAQuestionThatIsNotAnsweredWithYesIsANeed(t *testing.T) {
	interrupt := errors.New("interrupt")
	running, ended := t.Context(), func() context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(interrupt)
		return ctx
	}()
	for _, c := range []struct {
		name     string
		ctx      context.Context
		err, end error
	}{
		{"no", running, nil, ErrNeeded},
		{"no answer", running, io.EOF, ErrNeeded},
		{"an interrupt", ended, interrupt, interrupt},
		{"the end of the input by an interrupt", ended, io.EOF, interrupt},
		{"no, and then an interrupt", ended, nil, ErrNeeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Declined(c.ctx, c.err); !errors.Is(got, c.end) {
				t.Errorf("it ends with %v, want %v", got, c.end)
			}
		})
	}
}
