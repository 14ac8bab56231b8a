package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"signalbox/internal/client"
	"signalbox/internal/coord"
)

const (
	streamUpdates = 10_000
	streamRounds  = 9
)

// measureStream sends updates the whole way: from the agent's pipe through the
// adapter, the scheduler and the journal to a reader of the event stream at the
// front door. The yardstick reads and decodes the same lines from the same
// agent and does nothing else.
func measureStream(ctx context.Context, b *bench) (_ []figure, err error) {
	w, err := b.start(ctx, filepath.Join(b.dir, "stream"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	if err := w.add(ctx, b, "burst", "burst", strconv.Itoa(streamUpdates)); err != nil {
		return nil, err
	}
	before, err := w.peak()
	if err != nil {
		return nil, err
	}
	var ratios []float64
	var whole, plain []time.Duration
	for round := range streamRounds + 1 {
		text, reading, err := b.readOnly(ctx)
		if err != nil {
			return nil, err
		}
		got, took, err := w.stream(ctx, len(text))
		if err != nil {
			return nil, err
		}
		if got[stampSize:] != text[stampSize:] {
			return nil, fmt.Errorf("the agent wrote %d bytes of text, and the %d that arrived are others", len(text), len(got))
		}
		if round == 0 {
			continue
		}
		whole, plain = append(whole, took), append(plain, reading)
		ratios = append(ratios, reading.Seconds()/took.Seconds())
	}
	after, err := w.peak()
	if err != nil {
		return nil, err
	}
	return []figure{
		atLeast("10,000 updates to a reader", median(ratios), 0.5, "of reading",
			fmt.Sprintf("reading and decoding the lines: %.0f ms; the whole way: %.0f ms, none lost", ms(median(plain)), ms(median(whole)))),
		atMost("peak growth by them", after-before, 20, "MB", fmt.Sprintf("peaks of serve and worker before: %.0f MB", before)),
	}, nil
}

// peak is the most memory that serve and its worker have had.
func (w *world) peak() (float64, error) {
	door, err := memory(w.door, "VmHWM")
	if err != nil {
		return 0, err
	}
	worker, err := memory(w.worker, "VmHWM")
	return door + worker, err
}

// stream runs the agent as a job and reads its text, n bytes of it, at the
// front door. The time is from the start of the turn to the last byte.
func (w *world) stream(ctx context.Context, n int) (string, time.Duration, error) {
	ref, digest, err := w.frozen(ctx, "burst")
	if err != nil {
		return "", 0, err
	}
	cursor, err := w.Now(ctx)
	if err != nil {
		return "", 0, err
	}
	if _, err := w.Run(ctx, ref, digest); err != nil {
		return "", 0, err
	}
	var text strings.Builder
	var last time.Time
	err = w.Follow(ctx, client.Filter{Job: ref, Kinds: []coord.EventKind{coord.AttemptText}, After: cursor}, func(e coord.Event) error {
		var piece coord.Text
		if err := json.Unmarshal(e.Data, &piece); err != nil {
			return err
		}
		text.WriteString(piece.Text)
		if text.Len() < n {
			return nil
		}
		last = time.Now()
		return errEnough
	})
	if !errors.Is(err, errEnough) {
		return "", 0, err
	}
	if _, err := w.finished(ctx, ref, cursor); err != nil {
		return "", 0, err
	}
	begun, err := turnOf(text.String())
	return text.String(), last.Sub(begun), err
}

// readOnly reads the same lines from the same agent. The time is from the start
// of the turn to the last line.
func (b *bench) readOnly(ctx context.Context) (string, time.Duration, error) {
	p, err := pipe(ctx, b.agent, "burst", strconv.Itoa(streamUpdates))
	if err != nil {
		return "", 0, err
	}
	for _, line := range []string{askInitialize, askNew} {
		if _, err := p.ask(line); err != nil {
			return "", 0, err
		}
	}
	if _, err := p.in.Write([]byte(askPrompt("s") + "\n")); err != nil {
		return "", 0, err
	}
	var text strings.Builder
	for range streamUpdates {
		line, err := p.out.ReadSlice('\n')
		if err != nil {
			return "", 0, err
		}
		var m struct {
			JSONRPC string `json:"jsonrpc"`
			Method  string `json:"method"`
			Params  struct {
				SessionID string `json:"sessionId"`
				Update    struct {
					Variant string `json:"sessionUpdate"`
					Content struct {
						Type string `json:"type"`
						Text string `json:"text"`
					} `json:"content"`
				} `json:"update"`
			} `json:"params"`
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return "", 0, err
		}
		text.WriteString(m.Params.Update.Content.Text)
	}
	last := time.Now()
	if _, err := p.out.ReadSlice('\n'); err != nil { // the answer
		return "", 0, err
	}
	if err := p.end(); err != nil {
		return "", 0, err
	}
	begun, err := turnOf(text.String())
	return text.String(), last.Sub(begun), err
}

// stampSize is the length of the time that begins the agent's text.
const stampSize = 19

// turnOf is when the turn began that an agent's text is of.
func turnOf(text string) (time.Time, error) {
	if len(text) < stampSize {
		return time.Time{}, fmt.Errorf("the agent did not tell the time")
	}
	ns, err := strconv.ParseInt(text[:stampSize], 10, 64)
	return time.Unix(0, ns), err
}
