package modelagent

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// BenchmarkRelay runs the real process on a streamed answer of 64-character
// deltas that nearly fills the largest response, and reports the bytes of the
// stream per second, from the start of the process to its last answer, and its
// peak memory. The aims are 50 MB/s and 20 MB.
func BenchmarkRelay(b *testing.B) {
	for name, tt := range map[string]struct{ body, end string }{
		string(apiResponses): {
			"event: response.output_text.delta\ndata: " + `{"type":"response.output_text.delta","sequence_number":12,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"` + strings.Repeat("relay it ", 7) + `."}` + "\n\n",
			completed,
		},
		string(apiChat): {
			"data: " + `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"` + strings.Repeat("relay it ", 7) + `."},"finish_reason":null}]}` + "\n\n",
			chatStop + chatDone,
		},
	} {
		b.Run(name, func(b *testing.B) {
			count := (maxBytes - 1000) / len(tt.body)
			chunk := bytes.Repeat([]byte(tt.body), 100)
			server := benchServer(b, func(w http.ResponseWriter) {
				for range count / 100 {
					_, _ = w.Write(chunk)
				}
				_, _ = io.WriteString(w, tt.end)
			})
			wire := int64(count / 100 * len(chunk))
			b.SetBytes(wire)
			var peak int64
			var busy time.Duration
			for b.Loop() {
				state := relayOnce(b, name, server, count/100*6400)
				peak = max(peak, peakMemory(state))
				busy += state.UserTime() + state.SystemTime()
			}
			b.ReportMetric(float64(peak)/1e6, "peak-MB")
			// What one processor would do with nothing else on it.
			b.ReportMetric(float64(wire)*float64(b.N)/1e6/busy.Seconds(), "MB/cpu-s")
		})
	}
}

// relayOnce runs one agent to its answer and gives how it ended.
func relayOnce(b *testing.B, api, url string, text int) *os.ProcessState {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(self, "--api", api, "--base-url", url, "--model", "m", "--max-response-bytes", fmt.Sprint(maxBytes), "--max-output-bytes", fmt.Sprint(maxBytes))
	cmd.Env = []string{agentMark + "=1", "MODEL_API_KEY=" + secret}
	stdin, _ := cmd.StdinPipe()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	fmt.Fprintln(stdin, initialize)
	fmt.Fprintln(stdin, newSession)
	buf := make([]byte, 64<<10)
	var head []byte
	for bytes.Count(head, []byte("\n")) < 2 {
		n, err := stdout.Read(buf)
		if err != nil {
			b.Fatal(err)
		}
		head = append(head, buf[:n]...)
	}
	_, id, _ := bytes.Cut(head, []byte(`"sessionId":"`))
	fmt.Fprintln(stdin, promptFrame(string(id[:36]), "go"))
	got := 0
	var tail []byte
	for !bytes.Contains(tail, []byte(`"stopReason":"end_turn"`)) {
		n, err := stdout.Read(buf)
		if err != nil {
			b.Fatalf("after %d bytes: %v", got, err)
		}
		got += n
		tail = append(tail[:0:0], buf[max(0, n-200):n]...)
	}
	if got < text {
		b.Fatalf("%d bytes for %d bytes of text", got, text)
	}
	stdin.Close()
	_ = cmd.Wait()
	return cmd.ProcessState
}

func benchServer(b *testing.B, write func(http.ResponseWriter)) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		write(w)
	}))
	b.Cleanup(s.Close)
	return s.URL
}
