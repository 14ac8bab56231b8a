package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	modelRounds = 21
	relayRounds = 7
	// relayDeltas of 64 characters make an answer of nearly the 16 MiB that the
	// model agent takes at most.
	relayDeltas = 60_000
	// pythonCode is what a model client in Python begins with.
	pythonCode = "import asyncio, json, ssl, urllib.request; print()"
)

// measureModelAgent takes the model agent's start against those of other
// programs, and what it relays of a model's streamed answer.
func measureModelAgent(ctx context.Context, b *bench) ([]figure, error) {
	python, version, err := realPython(ctx)
	if err != nil {
		return nil, err
	}
	var agents, pythons, bares []time.Duration
	for i := range modelRounds + 1 {
		agent, err := b.initialized(ctx)
		if err != nil {
			return nil, err
		}
		other, err := firstLine(ctx, python, "-c", pythonCode)
		if err != nil {
			return nil, err
		}
		bare, err := firstLine(ctx, b.hello)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			agents, pythons, bares = append(agents, agent), append(pythons, other), append(bares, bare)
		}
	}
	start := ms(median(agents))
	figures := []figure{
		atMost("model-agent to initialize, of Python", start/ms(median(pythons)), 0.125, "of Python",
			fmt.Sprintf("Python %s with its imports: %.0f ms; the model agent: %.1f ms", version, ms(median(pythons)), start)),
		atMost("model-agent to initialize, above Go", start-ms(median(bares)), 5, "ms", fmt.Sprintf("a bare Go program: %.1f ms", ms(median(bares)))),
	}
	relay, err := b.measureRelay(ctx)
	return append(figures, relay...), err
}

// realPython finds the interpreter itself: what is called python3 may be a
// shell script that looks for it.
func realPython(ctx context.Context) (path, version string, err error) {
	out, err := exec.CommandContext(ctx, "python3", "-c", "import platform, sys; print(sys.executable); print(platform.python_version())").Output()
	if err != nil {
		return "", "", fmt.Errorf("the yardstick needs python3: %w", err)
	}
	path, version, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
	path, err = filepath.EvalSymlinks(path)
	return path, version, err
}

// initialized takes the time of the model agent's start, up to its answer.
func (b *bench) initialized(ctx context.Context) (time.Duration, error) {
	p, err := pipe(ctx, b.program, "model-agent", "--base-url", "http://127.0.0.1:9/v1", "--model", "none")
	if err != nil {
		return 0, err
	}
	answer, err := p.ask(askInitialize)
	took := time.Since(p.at)
	if err == nil && !bytes.Contains(answer, []byte(`"result"`)) {
		err = fmt.Errorf("the model agent answered %s", answer)
	}
	return took, errors.Join(err, p.end())
}

// measureRelay streams an answer through the model agent, and in turn to a
// plain reader that throws it away.
func (b *bench) measureRelay(ctx context.Context) (_ []figure, err error) {
	wire, chars := answer()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	begun := make(chan time.Time, 1)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A client that goes away is noticed at its end.
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		begun <- time.Now()
		_, _ = w.Write(wire)
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() { err = errors.Join(err, server.Close(), ignoreClosed(<-served)) }()
	base := "http://" + listener.Addr().String() + "/v1"
	var relayed, plain []float64
	var peak float64
	for i := range relayRounds + 1 {
		ended, hwm, err := b.relay(ctx, base, chars)
		if err != nil {
			return nil, err
		}
		rate := float64(len(wire)) / 1e6 / ended.Sub(<-begun).Seconds()
		if ended, err = discard(ctx, base+"/responses"); err != nil {
			return nil, err
		}
		reading := float64(len(wire)) / 1e6 / ended.Sub(<-begun).Seconds()
		peak = max(peak, hwm)
		if i > 0 {
			relayed, plain = append(relayed, rate), append(plain, reading)
		}
	}
	return []figure{
		atLeast("model-agent relays", median(relayed), 50, "MB/s", fmt.Sprintf("a reader that throws the stream away: %.0f MB/s", median(plain))),
		atMost("model-agent's peak", peak, 20, "MB", fmt.Sprintf("an answer of %.1f MB on the wire", float64(len(wire))/1e6)),
	}, nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// answer is a streamed answer as the Responses API gives it, and the number of
// characters of its text.
func answer() (wire []byte, chars int) {
	const delta = "Sixty-four characters are about what a fast model sends at once."
	var b bytes.Buffer
	for i := range relayDeltas {
		_, _ = fmt.Fprintf(&b, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":%d,\"item_id\":\"msg_0123456789\",\"output_index\":0,\"content_index\":0,\"delta\":%q,\"logprobs\":[]}\n\n", i, delta)
	}
	b.WriteString("event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_0123456789\",\"status\":\"completed\",\"output\":[]}}\n\n")
	return b.Bytes(), relayDeltas * len(delta)
}

// relay lets the model agent answer one prompt. It gives when the answer had
// ended, and the peak of the agent's memory in MB.
func (b *bench) relay(ctx context.Context, base string, chars int) (ended time.Time, peak float64, err error) {
	const most = "16777216"
	// The key is read from a variable that is there in any case.
	p, err := pipe(ctx, b.program, "model-agent", "--base-url", base, "--model", "none", "--api-key-env", "PATH", "--max-response-bytes", most, "--max-output-bytes", most)
	if err != nil {
		return ended, 0, err
	}
	if _, err := p.ask(askInitialize); err != nil {
		return ended, 0, err
	}
	opened, err := p.ask(askNew)
	if err != nil {
		return ended, 0, err
	}
	_, rest, _ := bytes.Cut(opened, []byte(`"sessionId":"`))
	session, _, _ := bytes.Cut(rest, []byte(`"`))
	if _, err := io.WriteString(p.in, askPrompt(string(session))+"\n"); err != nil {
		return ended, 0, err
	}
	prefix, got := []byte(`"text":"`), 0
	for {
		line, err := p.out.ReadSlice('\n')
		if err != nil {
			return ended, 0, err
		}
		if _, text, found := bytes.Cut(line, prefix); found {
			got += bytes.IndexByte(text, '"')
			continue
		}
		ended = time.Now()
		if got != chars || !bytes.Contains(line, []byte("end_turn")) {
			return ended, 0, fmt.Errorf("the model agent relayed %d of %d characters and answered %s", got, chars, line)
		}
		break
	}
	peak, err = memory(p.cmd.Process.Pid, "VmHWM")
	return ended, peak, errors.Join(err, p.end())
}

// discard reads the same stream and gives when it had ended.
func discard(ctx context.Context, address string) (time.Time, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, http.NoBody)
	if err != nil {
		return time.Time{}, err
	}
	res, err := loopback.Do(req)
	if err != nil {
		return time.Time{}, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return time.Now(), errors.Join(err, res.Body.Close())
}
