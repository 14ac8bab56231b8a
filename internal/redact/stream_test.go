package redact

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"signalbox/internal/redact/redacttest"
)

func inPieces(r *Redactor, texts ...string) string {
	s := r.Stream()
	var out strings.Builder
	for _, text := range texts {
		out.WriteString(s.Write(text))
	}
	out.WriteString(s.Flush())
	return out.String()
}

func TestStreamGivesWhatStringGivesAtEverySplit(t *testing.T) {
	r := withExact()
	for i, c := range redacttest.Canaries() {
		t.Run(fmt.Sprintf("%d_%s", i, c.Kind), func(t *testing.T) {
			text := "before " + c.Context + " after hunter2hunter2."
			want := r.String(text)
			for a := range len(text) + 1 {
				if got := inPieces(r, text[:a], text[a:]); got != want {
					t.Fatalf("split at %d:\ngot  %q\nwant %q", a, got, want)
				}
				// The second cut moves by more than one, more so in long texts
				// (keys of many lines alike); the first meets every place.
				step := 1 + len(text)*len(text)/4_000
				for b := a; b <= len(text); b += step {
					if got := inPieces(r, text[:a], text[a:b], text[b:]); got != want {
						t.Fatalf("split at %d and %d:\ngot  %q\nwant %q", a, b, got, want)
					}
				}
			}
		})
	}
}

func TestStreamOfSingleBytesGivesWhatStringGives(t *testing.T) {
	r := withExact()
	for _, c := range redacttest.Canaries() {
		if got, want := inPieces(r, strings.Split(c.Context, "")...), r.String(c.Context); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestStreamGivesWhatStringGivesForAnyTextInAnyPieces(t *testing.T) {
	r := withExact()
	rapid.Check(t, func(t *rapid.T) {
		text := pieces().Draw(t, "text")
		var parts []string
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, min(len(rest), 40)).Draw(t, "piece")
			parts, rest = append(parts, rest[:n]), rest[n:]
		}
		if got, want := inPieces(r, parts...), r.String(text); got != want {
			t.Fatalf("pieces %q\ngot  %q\nwant %q", parts, got, want)
		}
	})
}

func TestStreamHoldsBackABoundedAmount(t *testing.T) {
	long := strings.Repeat("aB3", 100_000)
	for name, text := range map[string]string{
		"jwt header":    "eyJ" + long,
		"jwt":           "eyJ" + long[:2000] + "." + long,
		"token":         "gh" + "p_" + long,
		"quoted":        `password="` + long,
		"bare":          "password=" + long,
		"backslashes":   `password="` + strings.Repeat(`\`, 100_000),
		"url":           "https://user:" + long,
		"flag":          "--" + long,
		"pem":           "-----" + "BEGIN PRIVATE KEY-----\n" + strings.Repeat(" ", 100_000),
		"pem body":      "-----" + "BEGIN PRIVATE KEY-----\n" + long,
		"authorization": "Authorization: " + long,
		"marker":        "[redacted:" + long,
		"dashes":        strings.Repeat("-", 100_000),
		"jwt in value":  "--" + strings.Repeat("x", 58) + "token        eyJ" + long[:2000] + "." + long,
	} {
		t.Run(name, func(t *testing.T) {
			s := New().Stream()
			for rest := text; rest != ""; rest = rest[min(len(rest), 100):] {
				s.Write(rest[:min(len(rest), 100)])
				if held := len(s.text) - s.done; held > MaxHold {
					t.Fatalf("held back %d bytes", held)
				}
				if len(s.text) > MaxHold+lookbehind {
					t.Fatalf("kept %d bytes", len(s.text))
				}
			}
		})
	}
}

func TestStreamGivesPlainTextAtOnce(t *testing.T) {
	s := New().Stream()
	for _, text := range []string{"Hello", ", how are", " you? I am", " fine.\n", "x = 1\n"} {
		if got := s.Write(text); got != text {
			t.Errorf("%q gave %q", text, got)
		}
	}
	if got := s.Flush(); got != "" {
		t.Errorf("Flush gave %q", got)
	}
}

func TestStreamSeesValuesAddedLater(t *testing.T) {
	r := New()
	s := r.Stream()
	s.Write("first ")
	r.Add("LATE", "late-comer")
	if got := s.Write("late-comer.") + s.Flush(); got != "[redacted:LATE]." {
		t.Errorf("got %q", got)
	}
}

func TestStreamIsAsNewAfterFlush(t *testing.T) {
	s := New().Stream()
	secret := "gh" + "p_" + strings.Repeat("a1", 20)
	s.Write(secret)
	s.Flush()
	if got := s.Write("a1 goes on\n"); got != "a1 goes on\n" {
		t.Errorf("got %q", got)
	}
}
