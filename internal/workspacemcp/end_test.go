package workspacemcp_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/toolwire"
)

const over = "failed=true Signalbox does not take calls any more: the attempt ended, or its worker did. Nothing more can be done with this tool."

func init() {
	plays["cancel"] = func(a *agent) {
		ctx := context.Background()
		c := a.connect(ctx, a.command())
		done := make(chan struct{})
		go func() {
			defer close(done)
			a.call(ctx, c, "open", "read", map[string]any{})
		}()
		a.expect("session/cancel")
		<-done
		a.call(ctx, c, "after", "read", map[string]any{})
		a.end("cancelled")
	}
	plays["end"] = func(a *agent) {
		ctx := context.Background()
		c := a.connect(ctx, a.command())
		done := make(chan struct{})
		go func() {
			defer close(done)
			a.call(ctx, c, "open", "read", map[string]any{})
		}()
		a.await("end")
		a.end("end_turn")
		<-done
		a.call(ctx, c, "after", "read", map[string]any{})
		late := a.connect(ctx, a.command())
		a.call(ctx, late, "late", "read", map[string]any{})
		_, err := late.ListTools(ctx, nil)
		a.note("results", "list: "+err.Error())
	}
	plays["early"] = func(a *agent) { a.end("end_turn") }
}

func TestACancelledTurnAnswersItsCallsAsCancelled(t *testing.T) {
	b := newBench(t, "cancel")
	turn := b.run("work")
	call := turn.until(provider.EventCall).Call
	if got, err := turn.session.Cancel(t.Context()); got != provider.CancelAsked || err != nil {
		t.Fatalf("Cancel gave %q, %v", got, err)
	}
	turn.answer(call.Origin.Request, "late", false, provider.Undeliverable)
	turn.ends(coord.AttemptCancelled)
	cancelled := "failed=true The work is being cancelled; the call was not carried out."
	b.results("open: "+cancelled, "after: "+cancelled)
}

func TestNothingIsAcceptedAfterTheEndOfTheTurn(t *testing.T) {
	b := newBench(t, "end")
	turn := b.run("work")
	call := turn.until(provider.EventCall).Call
	sockets, err := filepath.Glob(filepath.Join(b.options.Sockets, "*"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("the sockets are %v, %v", sockets, err)
	}
	b.touch("end")
	turn.ends(coord.AttemptCompleted)
	if _, err := os.Lstat(sockets[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	turn.answer(call.Origin.Request, "late", false, provider.Undeliverable)
	gone := "The tools of Signalbox cannot be reached: there is no socket. The attempt ended, or the agent runs in a sandbox or a container that hides Signalbox's folder."
	b.results("open: "+over, "after: "+over, "late: failed=true "+gone, `list: calling "tools/list": `+gone)
}

func TestASessionIsClosedWhileACallIsOpen(t *testing.T) {
	b := newBench(t, "end")
	turn := b.run("work")
	call := turn.until(provider.EventCall).Call
	if activity, err := turn.session.Close(t.Context()); activity != coord.Ended || err != nil {
		t.Fatalf("Close: %v, %v", activity, err)
	}
	turn.answer(call.Origin.Request, "late", false, provider.Undeliverable)
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errPatience)
	defer cancel()
	if e, err := turn.session.Next(ctx); err != nil || e.Kind != provider.EventLost || e.Lost.Cause != provider.CauseShutdown {
		t.Errorf("the next event is %+v, %v", e, err)
	}
}

func TestAnAgentThatNeverComesForItsToolsIsToldOf(t *testing.T) {
	b := newBench(t, "early")
	turn := b.run("work")
	if e := turn.until(provider.EventActivity); e.Activity.Kind != "tools" || e.Activity.Status != "unreached" {
		t.Errorf("the activity is %+v", e.Activity)
	}
	turn.ends(coord.AttemptCompleted)
}

func TestADataFolderWithALongNameHasSocketsToo(t *testing.T) {
	b := newBench(t, "cancel")
	long := filepath.Join(t.TempDir(), strings.Repeat("deep", 40))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	b.options.Sockets = filepath.Join(long, "sockets")
	turn := b.run("work")
	turn.answer(turn.until(provider.EventCall).Call.Origin.Request, "here", false, provider.Delivered)
	b.results("open: failed=false here")
}

func TestWorkIsNotSentWithoutItsTools(t *testing.T) {
	for name, c := range map[string]struct {
		play string
		set  func(*bench)
		says string
	}{
		"the agent refuses tool servers": {"refuse", func(*bench) {}, "takes no tool servers"},
		"the worker has no program":      {"early", func(b *bench) { b.options.Program = "" }, "not set up"},
		"the worker has no folder":       {"early", func(b *bench) { b.options.Sockets = "" }, "not set up"},
		"others may look into the folder": {"early", func(b *bench) {
			if err := os.Mkdir(b.options.Sockets, 0o755); err != nil {
				b.t.Fatal(err)
			}
		}, "mode 0700"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.play)
			c.set(b)
			_, err := b.prepare("work")
			var u *provider.Unsent
			if !errors.As(err, &u) || u.Cause != provider.CauseConfig || u.Transient || !strings.Contains(u.Message, c.says) {
				t.Errorf("Prepare gave %#v", err)
			}
		})
	}
}

// serve runs the program by itself and gives what it says to three requests.
func serve(t *testing.T, socket, token string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, toolwire.Command)
	cmd.Env = []string{toolwire.SocketEnv + "=" + socket, toolwire.TokenEnv + "=" + token}
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}
{"jsonrpc":"2.0","id":2,"method":"resources/list"}
{"jsonrpc":"2.0","id":null,"method":"ping"}
[{"jsonrpc":"2.0","id":3,"method":"ping"}]
nonsense
`)
	all, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(all), cmd.ProcessState.ExitCode()
}

func TestAToolServerThatCannotReachTheWorkerSaysWhy(t *testing.T) {
	// Names of tests are too long for the path of a socket.
	dir, err := os.MkdirTemp("", "sbt") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := func(name string, answer func(net.Conn)) string {
		path := filepath.Join(dir, name)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		if answer == nil {
			_ = l.Close()
			return path
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if c, err := l.Accept(); err == nil {
				answer(c)
				_ = c.Close()
			}
		}()
		t.Cleanup(func() {
			_ = l.Close()
			<-done
		})
		return path
	}
	for name, c := range map[string]struct{ socket, token, says string }{
		"nothing is set":  {"", "", "SIGNALBOX_WORKSPACE_SOCKET"},
		"no socket":       {filepath.Join(dir, "none"), "x", "there is no socket"},
		"a dead socket":   {socket("dead", nil), "x", "the worker ended"},
		"a silent hangup": {socket("hangup", func(net.Conn) {}), "x", "the attempt ended, or its worker did"},
		"a refusal": {socket("refuse", func(c net.Conn) {
			_, _ = c.Read(make([]byte, 4096))
			_, _ = c.Write([]byte(`{"refused":{"reason":"The token is wrong."}}` + "\n"))
		}), "secret-token", "Signalbox refused this tool server: The token is wrong."},
		"another version": {socket("version", func(c net.Conn) {
			_, _ = c.Read(make([]byte, 4096))
			_, _ = c.Write([]byte(`{"welcome":{"version":2,"tools":[]}}` + "\n"))
		}), "x", "another release"},
	} {
		t.Run(name, func(t *testing.T) {
			out, code := serve(t, c.socket, c.token)
			if code != 1 || strings.Count(out, c.says) != 2 || strings.Contains(out, "secret-token") {
				t.Errorf("it exits with %d and says, once to the operator and once to the model:\n%s", code, out)
			}
			for _, want := range []string{
				`"id":"a","result":{"protocolVersion":"2025-03-26","capabilities":{"tools":{}}`,
				`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text",`, `"isError":true}}`,
				`{"jsonrpc":"2.0","id":2,"error":{"code":-32601,`,
				`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`,
			} {
				if !strings.Contains(out, want) {
					t.Errorf("the answers lack %s:\n%s", want, out)
				}
			}
		})
	}
}
