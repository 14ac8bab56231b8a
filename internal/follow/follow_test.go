package cli

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"signalbox/internal/coord"
	"signalbox/internal/screen"
)

func TestThatAnAgentShowsNoProgressIsToldWithoutItsWords(t *testing.T) {
	for status, want := range map[string]string{
		coord.ActivityStalled: "survey shows no progress, and is waited for: signalbox attempt explain 12/survey\n",
		"in_progress":         "",
	} {
		var told strings.Builder
		f := &following{app: &app{Screen: screen.New(nil, io.Discard, &told)}, job: coord.Job{Number: 12}, keys: map[coord.TaskID]string{"tsk_1": "survey"}}
		f.texts = screen.NewLive(f.Screen)
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
