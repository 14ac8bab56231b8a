package modelserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/e2e/peers"
)

var errPeer = errors.New("OpenCode did not do its part within 180 s")

// TestOpenCodeAsksBeforeItUsesTheTool shows that a real agent takes the script's
// tool call for a model's, asks for permission, and gives the answer after it.
func TestOpenCodeAsksBeforeItUsesTheTool(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "signal.txt")
	arguments, err := json.Marshal(map[string]string{"filePath": file, "content": "clear\n"})
	if err != nil {
		t.Fatal(err)
	}
	model, url := start(t, Options{Script: []Reply{{Match: "Set the signal", Answer: "The signal is set.", Tool: &Tool{Name: "write", Arguments: string(arguments)}}}})

	ctx, cancel := context.WithTimeoutCause(t.Context(), 180*time.Second, errPeer)
	defer cancel()
	cmd := peers.OpenCode(t, url+"/v1").Command(ctx)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait()
	}()

	lines := bufio.NewReaderSize(stdout, 1<<20)
	text, asked := "", 0
	// await reads to the answer with an id, allowing what is asked meanwhile.
	await := func(id string) map[string]any {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("OpenCode ends: %v (%v)", err, context.Cause(ctx))
			}
			var m struct {
				ID     json.RawMessage
				Method string
				Params struct {
					Update struct {
						SessionUpdate string
						Content       json.RawMessage
					}
					Options []struct{ OptionID, Kind string }
				}
				Result map[string]any
				Error  json.RawMessage
			}
			if json.Unmarshal([]byte(line), &m) != nil {
				continue
			}
			switch {
			case m.Method == "session/request_permission":
				asked++
				if _, err := os.Stat(file); err == nil {
					t.Error("the file is written before the permission")
				}
				for _, o := range m.Params.Options {
					if o.Kind == "allow_once" {
						fmt.Fprintf(stdin, `{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"selected","optionId":%q}}}`+"\n", m.ID, o.OptionID)
					}
				}
			case m.Method == "session/update" && m.Params.Update.SessionUpdate == "agent_message_chunk":
				var c struct{ Text string }
				_ = json.Unmarshal(m.Params.Update.Content, &c)
				text += c.Text
			case m.Method == "" && string(m.ID) == id:
				if m.Error != nil {
					t.Fatalf("OpenCode refuses: %s", m.Error)
				}
				return m.Result
			}
		}
	}
	_, _ = io.WriteString(stdin, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}`+"\n")
	await("0")
	fmt.Fprintf(stdin, `{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`+"\n", dir)
	session := await("1")["sessionId"]
	fmt.Fprintf(stdin, `{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"Set the signal to clear."}]}}`+"\n", session)
	if stop := await("2")["stopReason"]; stop != "end_turn" || asked == 0 || !strings.Contains(text, "The signal is set.") {
		t.Errorf("stop reason %v, asked %d times, text %q", stop, asked, text)
	}
	if content, err := os.ReadFile(file); string(content) != "clear\n" {
		t.Errorf("the file holds %q (%v)", content, err)
	}
	withTool, without := 0, 0
	for _, r := range model.Requests() {
		if slices.Contains(r.Tools, "write") {
			withTool++
		} else {
			without++
		}
	}
	if withTool != 2 || without > 1 {
		t.Errorf("%d requests with the tool, want the call and the answer; %d without, want at most a title", withTool, without)
	}
}
