package acp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"signalbox/internal/provider"
)

const burstUpdates = 10_000

// burstLines are updates of about 200 bytes each.
func burstLines() string {
	var b strings.Builder
	for i := range burstUpdates {
		b.WriteString(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"` + peerSession + `","update":` + chunk(fmt.Sprintf("%05d %s", i, strings.Repeat("x", 60))) + "}}\n")
	}
	return b.String()
}

func init() {
	peers["bench"] = func(p *peer) {
		lines := burstLines()
		prompt := p.prompted()
		p.raw(lines)
		p.end(prompt, "end_turn")
		p.rest()
	}
	peers["bench raw"] = func(p *peer) {
		lines := burstLines()
		p.read()
		p.raw(lines)
	}
}

// BenchmarkUpdates measures 10,000 updates from an agent through the adapter.
func BenchmarkUpdates(b *testing.B) {
	bench := newBench(b, "bench")
	for b.Loop() {
		b.StopTimer()
		s := bench.prepare("x")
		b.StartTimer()
		if _, err := s.Send(b.Context()); err != nil {
			b.Fatal(err)
		}
		for {
			e, err := s.Next(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if e.Kind == provider.EventEnd {
				break
			}
		}
		b.StopTimer()
		if _, err := s.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(b.N)*burstUpdates/b.Elapsed().Seconds(), "updates/s")
}

// BenchmarkReadAndDecode is what it is compared with: the same lines from the
// same process, read and decoded.
func BenchmarkReadAndDecode(b *testing.B) {
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		b.StopTimer()
		cmd := exec.CommandContext(b.Context(), exe, "peer", "bench raw", b.TempDir())
		in, err := cmd.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if _, err := io.WriteString(in, "go\n"); err != nil {
			b.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; n < burstUpdates && lines.Scan(); n++ {
			var v map[string]any
			if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(b.N)*burstUpdates/b.Elapsed().Seconds(), "updates/s")
}
