package redact

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"signalbox/internal/redact/redacttest"
)

type valuer struct{ text string }

func (v valuer) LogValue() slog.Value { return slog.GroupValue(slog.String("inner", v.text)) }

type stringer struct{ text string }

func (s stringer) String() string { return s.text }

func TestHandlerHidesCanariesWhereverTheyAreLogged(t *testing.T) {
	for i, c := range redacttest.Canaries() {
		t.Run(fmt.Sprintf("%d_%s", i, c.Kind), func(t *testing.T) {
			var out bytes.Buffer
			log := slog.New(New().Handler(slog.NewTextHandler(&out, nil)))
			log.Info(c.Context)
			log.Info("string", "text", c.Context)
			log.Info("error", "err", fmt.Errorf("wrapped: %w", errors.New(c.Context)))
			log.Info("bytes", "body", []byte(c.Context))
			log.Info("struct", "value", struct{ Inner string }{c.Context})
			log.Info("pointer", "value", &struct{ Inner string }{c.Context})
			log.Info("stringer", "value", stringer{c.Context})
			log.Info("valuer", "value", valuer{c.Context})
			log.Info("group", slog.Group("g", slog.Group("h", "text", c.Context)))
			log.With("bound", c.Context).WithGroup("g").Info("with", "x", 1)
			log.Info("key", c.Context, 1)
			text := out.String()
			quoted := fmt.Sprintf("%q", c.Secret)
			if strings.Contains(text, c.Secret) || strings.Contains(text, quoted[1:len(quoted)-1]) {
				t.Errorf("the secret is in\n%s", text)
			}
			if n := strings.Count(text, "[redacted:"+c.Kind+"]"); n != 11 {
				t.Errorf("%d markers, want 11, in\n%s", n, text)
			}
		})
	}
}

func TestHandlerHidesAValueWhoseKeyPromisesASecret(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(New().Handler(slog.NewTextHandler(&out, nil)))
	log.Info("in", "password", "tr0ub4dor3", "job", "job_01HZX3M9Q8K7V6T5S4R3P2N1M0", "seq", 12)
	if got := out.String(); !strings.HasSuffix(got, "msg=in password=[redacted:assigned-secret] job=job_01HZX3M9Q8K7V6T5S4R3P2N1M0 seq=12\n") {
		t.Errorf("got %s", got)
	}
}

func TestHandlerAsksTheNextOneForItsLevel(t *testing.T) {
	h := New().Handler(slog.NewTextHandler(&bytes.Buffer{}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if h.Enabled(t.Context(), slog.LevelInfo) || !h.Enabled(t.Context(), slog.LevelWarn) {
		t.Error("the level is not that of the next handler")
	}
}
