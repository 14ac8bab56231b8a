package codex_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/modelserver"
	"signalbox/internal/provider"
)

func TestCodexAnswers(t *testing.T) {
	eachVersion(t, func(t *testing.T, version string) {
		r := newReal(t, version, "mock-model", modelserver.Options{Script: []modelserver.Reply{{Match: "signal", Answer: "The line is clear, all of it."}}})
		s := r.send(t, r.work("1", "Set the signal."))
		all := s.until(provider.EventEnd)
		if all[0].Kind != provider.EventReceipt || all[0].Receipt.Kind != "turn" {
			t.Errorf("first came %+v", all[0])
		}
		if end := last(all).End; end.State != coord.AttemptCompleted || textOf(all, coord.ChannelMessage) != "The line is clear, all of it." {
			t.Errorf("the end is %+v, the text %q", end, textOf(all, coord.ChannelMessage))
		}
		if !slices.ContainsFunc(all, func(e provider.Event) bool { return e.Usage != nil && e.Usage.TotalTokens > 0 }) {
			t.Error("no usage came")
		}
	})
}

// offered is what a model may be offered beside Signalbox's own tools.
const offered = "request_user_input"

func TestModelGetsOurToolsAndNoOthers(t *testing.T) {
	eachVersion(t, func(t *testing.T, version string) {
		for _, slug := range []string{"mock-model", "gpt-6-astra", "gpt-5.6-luna", "gpt-5.5"} {
			t.Run(slug, func(t *testing.T) {
				r := newReal(t, version, slug, modelserver.Options{})
				s := r.send(t, r.work("1", "Say something.", tools()...))
				if end, _ := s.finish(); end.State != coord.AttemptCompleted {
					t.Errorf("the end is %+v", end)
				}
				s.close()
				for _, request := range r.model.Requests() {
					if diff := cmp.Diff([]string{offered, "workspace_read", "workspace_write"}, request.Tools); diff != "" || request.Model != slug {
						t.Errorf("model %s got tools %s", request.Model, diff)
					}
				}
				for _, trace := range []string{"notified", "mcp"} {
					if _, err := os.Stat(filepath.Join(r.home, trace)); err == nil {
						t.Errorf("a program of the user's configuration ran: %s", trace)
					}
				}
			})
		}
	})
}
