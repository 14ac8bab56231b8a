package bridge_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"signalbox/internal/coord"
	"signalbox/internal/provider/acp/bridge"
	"signalbox/internal/toolwire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is what only a hanging test needs.
const patience = 20 * time.Second

var errPatience = errors.New("it did not come within 20 s")

// owner is a session that notes what it is told.
type owner struct {
	calls     chan bridge.Caller
	withdrawn chan string

	mu        sync.Mutex
	arguments []string
	ignored   map[string]int
}

func (o *owner) Called(c bridge.Caller, tool string, arguments json.RawMessage) {
	o.mu.Lock()
	o.arguments = append(o.arguments, tool+" "+string(arguments))
	o.mu.Unlock()
	o.calls <- c
}

func (o *owner) Withdrawn(c bridge.Caller) { o.withdrawn <- c.ID() }

func (o *owner) Ignored(why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ignored[why]++
}

func (o *owner) seen() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.ignored)
}

var offered = []toolwire.Tool{{Name: "list", Description: "Lists.", Schema: json.RawMessage(`{"type":"object"}`)}}

// open makes a server that is closed and awaited at the end of the test.
func open(t *testing.T, dir string, options bridge.Options) (*bridge.Server, *owner) {
	t.Helper()
	o := &owner{calls: make(chan bridge.Caller, 100), withdrawn: make(chan string, 100), ignored: map[string]int{}}
	s, err := bridge.New(dir, offered, o, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		s.Wait()
	})
	return s, o
}

func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sbt") //nolint:usetesting // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "sockets")
}

// client speaks the wire by hand.
type client struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, s *bridge.Server) *client {
	t.Helper()
	c, err := net.Dial("unix", s.Socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(patience))
	return &client{t, c, bufio.NewReaderSize(c, 1<<16)}
}

func (c *client) say(line string) *client {
	_, _ = io.WriteString(c, line+"\n")
	return c
}

func (c *client) hello(token string) *client {
	return c.say(fmt.Sprintf(`{"hello":{"version":%d,"token":%q}}`, toolwire.Version, token))
}

// hears reads one line that must contain what is wanted.
func (c *client) hears(want string) string {
	c.t.Helper()
	line, err := c.in.ReadString('\n')
	if err != nil || !strings.Contains(line, want) {
		c.t.Fatalf("read %q, %v; want %q", line, err, want)
	}
	return line
}

// ends reads to the end of the connection, which must come by the other side.
func (c *client) ends() string {
	c.t.Helper()
	rest, err := io.ReadAll(c.in)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("the connection does not end; it said %q", rest)
	}
	return string(rest)
}

func await[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatal(errPatience)
		panic("unreachable")
	}
}

// eventually polls for what another goroutine does.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errPatience)
	defer cancel()
	for tick := time.Tick(5 * time.Millisecond); !is(); {
		select {
		case <-tick:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, context.Cause(ctx))
		}
	}
}

func TestACallerListsToolsCallsThemAndGetsTheAnswer(t *testing.T) {
	s, o := open(t, short(t), bridge.Options{})
	c := dial(t, s).hello(s.Token())
	c.hears(`{"welcome":{"version":1,"tools":[{"name":"list","description":"Lists.","schema":{"type":"object"}}]}}`)
	c.say(`{"call":{"id":3,"tool":"list","arguments":{"path":"a b"}}}`)
	caller := await(t, o.calls)
	if o.arguments[0] != `list {"path":"a b"}` || caller.ID() != "call-1-3" {
		t.Errorf("called %q as %s", o.arguments, caller.ID())
	}
	if n, err := caller.Answer(t.Context(), "a.txt", false); n == 0 || err != nil {
		t.Errorf("Answer gave %d, %v", n, err)
	}
	c.hears(`{"result":{"id":3,"text":"a.txt"}}`)
	if n, err := caller.Answer(t.Context(), "again", false); n != 0 || err == nil {
		t.Errorf("the second answer gave %d, %v", n, err)
	}
}

func TestOnlyTheTokenOfTheAttemptIsListenedTo(t *testing.T) {
	s, o := open(t, short(t), bridge.Options{})
	other, _ := open(t, short(t), bridge.Options{})
	if len(s.Token()) != 64 || s.Token() == other.Token() {
		t.Fatalf("the tokens are %q and %q, want 256 random bits each", s.Token(), other.Token())
	}
	for _, token := range []string{"", "x", other.Token(), s.Token()[:63], s.Token() + "0", strings.ToUpper(s.Token()) + " "} {
		c := dial(t, s).hello(token).say(`{"call":{"id":1,"tool":"list","arguments":{}}}`)
		c.hears(`{"refused":{"reason":"The token is not the one of this attempt."}}`)
		if rest := c.ends(); rest != "" {
			t.Errorf("after the refusal comes %q", rest)
		}
	}
	dial(t, s).say(`{"call":{"id":1,"tool":"list","arguments":{}}}`).hears("The first message must be a hello.")
	dial(t, s).say(fmt.Sprintf(`{"hello":{"version":2,"token":%q}}`, s.Token())).hears("another release")
	if len(o.calls) > 0 || s.Reached() {
		t.Error("a stranger's call was taken")
	}
	if seen := o.seen(); seen["tool_token"] != 6 || seen["tool_stranger"] != 1 || seen["tool_version"] != 1 {
		t.Errorf("counted %v", seen)
	}
}

func TestAnEndlessLineEndsItsConnection(t *testing.T) {
	s, o := open(t, short(t), bridge.Options{})
	endless := func(c *client, most int) {
		t.Helper()
		_ = c.SetWriteDeadline(time.Now().Add(patience))
		sent, err := io.Copy(c.Conn, io.LimitReader(zeros{}, int64(most)*8))
		if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes of one line were taken (%v), want the connection closed near %d", sent, err, most)
		}
	}
	endless(dial(t, s), 1<<20) // of which the kernel buffers some hundred KiB
	c := dial(t, s).hello(s.Token())
	c.hears("welcome")
	endless(c, toolwire.MaxCall)
	if seen := o.seen(); seen["tool_stranger"] != 1 || seen["tool_protocol"] != 1 {
		t.Errorf("counted %v", seen)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

func TestAThousandStrangersKeepNobodyOut(t *testing.T) {
	s, o := open(t, short(t), bridge.Options{})
	before := runtime.NumGoroutine()
	for range 1000 {
		dial(t, s)
	}
	c := dial(t, s).hello(s.Token())
	c.hears("welcome")
	c.say(`{"call":{"id":1,"tool":"list","arguments":{}}}`)
	caller := await(t, o.calls)
	if _, err := caller.Answer(t.Context(), "here", false); err != nil {
		t.Fatal(err)
	}
	c.hears("here")
	eventually(t, "the strangers to be sent away", func() bool { return o.seen()["tool_connections"] >= 1000-32 && runtime.NumGoroutine() <= before+40 })
}

func TestAStrangerWhoSaysNothingIsSentAway(t *testing.T) {
	s, o := open(t, short(t), bridge.Options{Hello: 50 * time.Millisecond})
	if said := dial(t, s).ends(); said != "" {
		t.Errorf("it was told %q", said)
	}
	c := dial(t, s)
	_, _ = io.WriteString(c, `{"hello":{"ver`)
	c.ends()
	if n := o.seen()["tool_stranger"]; n != 2 {
		t.Errorf("%d strangers were counted", n)
	}
	// One that showed the token may be silent for as long as it likes.
	quiet := dial(t, s).hello(s.Token())
	quiet.hears("welcome")
	dial(t, s).ends()
	quiet.say(`{"call":{"id":1,"tool":"list","arguments":{}}}`)
	await(t, o.calls)
}

func TestACallerWhoGoesHasWithdrawnItsCalls(t *testing.T) {
	s, o := open(t, short(t), bridge.Options{})
	c := dial(t, s).hello(s.Token())
	c.hears("welcome")
	c.say(`{"call":{"id":1,"tool":"list","arguments":{}}}`).say(`{"call":{"id":2,"tool":"list","arguments":{}}}`)
	one, two := await(t, o.calls), await(t, o.calls)
	c.say(`{"withdraw":{"id":1}}`).say(`{"withdraw":{"id":1}}`).say(`{"withdraw":{"id":9}}`)
	if got := await(t, o.withdrawn); got != one.ID() {
		t.Errorf("%s was withdrawn, want %s", got, one.ID())
	}
	_ = c.Close()
	if got := await(t, o.withdrawn); got != two.ID() {
		t.Errorf("%s was withdrawn, want %s", got, two.ID())
	}
	for _, caller := range []bridge.Caller{one, two} {
		if n, err := caller.Answer(t.Context(), "late", false); n != 0 || coord.CodeOf(err) != coord.NotFound {
			t.Errorf("%s: the answer gave %d, %v", caller.ID(), n, err)
		}
	}
}

func TestACallerWhoBreaksTheProtocolIsSentAway(t *testing.T) {
	s, o := open(t, short(t), bridge.Options{})
	for _, line := range []string{
		`{"hello":{"version":1,"token":"x"}}`, `{"approve":{}}`, `not json`, `{}`, "\xff",
		`{"call":{"id":0,"tool":"list","arguments":{}}}`,
	} {
		c := dial(t, s).hello(s.Token())
		c.hears("welcome")
		c.say(line)
		c.ends()
	}
	c := dial(t, s).hello(s.Token())
	c.hears("welcome")
	c.say(`{"call":{"id":5,"tool":"list","arguments":{}}}`)
	caller := await(t, o.calls)
	c.say(`{"call":{"id":5,"tool":"list","arguments":{}}}`)
	c.ends()
	if got := await(t, o.withdrawn); got != caller.ID() {
		t.Errorf("%s was withdrawn", got)
	}
	if n := o.seen()["tool_protocol"]; n != 7 {
		t.Errorf("%d breaches were counted", n)
	}
}

func TestCallsThatCannotBeAreRefusedToTheModel(t *testing.T) {
	s, o := open(t, short(t), bridge.Options{})
	c := dial(t, s).hello(s.Token())
	c.hears("welcome")
	c.say(`{"call":{"id":1,"tool":"shell","arguments":{}}}`).hears(`{"result":{"id":1,"text":"There is no such tool.","failed":true}}`)
	c.say(`{"call":{"id":2,"tool":"list","arguments":"` + strings.Repeat("x", coord.MaxCallArguments) + `"}}`).hears(`"failed":true`)
	c.say(`{"call":{"id":3,"tool":"list","arguments":"` + strings.Repeat("x", coord.MaxCallArguments-2) + `"}}`)
	caller := await(t, o.calls)
	if _, err := caller.Answer(t.Context(), strings.Repeat("y", toolwire.MaxReply), false); err != nil {
		t.Errorf("an answer that is too long: %v", err)
	}
	c.hears(`{"result":{"id":3,"text":"The answer is too long to be handed over.","failed":true}}`)
}

func TestOneCallerTooManyIsRefusedUntilAnotherGoes(t *testing.T) {
	s, _ := open(t, short(t), bridge.Options{})
	var all []*client
	for range 8 {
		c := dial(t, s).hello(s.Token())
		c.hears("welcome")
		all = append(all, c)
	}
	dial(t, s).hello(s.Token()).hears("at most 8")
	_ = all[0].Close()
	eventually(t, "a place for another", func() bool {
		line, err := dial(t, s).hello(s.Token()).in.ReadString('\n')
		return err == nil && strings.Contains(line, "welcome")
	})
}

func TestNothingIsAcceptedAfterClose(t *testing.T) {
	s, o := open(t, short(t), bridge.Options{})
	caller, stranger := dial(t, s).hello(s.Token()), dial(t, s)
	caller.hears("welcome")
	caller.say(`{"call":{"id":1,"tool":"list","arguments":{}}}`)
	call := await(t, o.calls)
	s.Close()
	s.Close()
	s.Wait()
	caller.ends()
	stranger.ends()
	if got := await(t, o.withdrawn); got != call.ID() {
		t.Errorf("%s was withdrawn", got)
	}
	if n, err := call.Answer(t.Context(), "late", false); n != 0 || err == nil {
		t.Errorf("the answer gave %d, %v", n, err)
	}
	if _, err := os.Lstat(s.Socket()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	if _, err := net.Dial("unix", s.Socket()); err == nil {
		t.Error("the socket still accepts")
	}
	if left, err := os.ReadDir(filepath.Dir(s.Socket())); len(left) != 0 || err != nil {
		t.Errorf("%v is left, %v", left, err)
	}
}

func TestTheSocketIsForOneUser(t *testing.T) {
	for name, dir := range map[string]string{
		"short":                              short(t),
		"longer than a socket's name may be": filepath.Join(long(t), "sockets"),
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := open(t, dir, bridge.Options{})
			for path, want := range map[string]fs.FileMode{dir: fs.ModeDir | 0o700, s.Socket(): fs.ModeSocket | 0o600} {
				if info, err := os.Lstat(path); err != nil || info.Mode() != want {
					t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
				}
			}
		})
	}
	for name, mode := range map[string]fs.FileMode{"a group may look": 0o750, "all may pass": 0o711} {
		t.Run(name, func(t *testing.T) {
			dir := short(t)
			if err := os.Mkdir(dir, mode); err != nil {
				t.Fatal(err)
			}
			if _, err := bridge.New(dir, offered, &owner{}, bridge.Options{}); coord.CodeOf(err) != coord.Invalid {
				t.Errorf("New gave %v", err)
			}
		})
	}
	t.Run("a link is not a folder", func(t *testing.T) {
		dir := short(t)
		if err := os.Symlink(t.TempDir(), dir); err != nil {
			t.Fatal(err)
		}
		if _, err := bridge.New(dir, offered, &owner{}, bridge.Options{}); coord.CodeOf(err) != coord.Invalid {
			t.Errorf("New gave %v", err)
		}
	})
}

// long is a folder whose path is longer than the name of a socket may be.
func long(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("deep", 30))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}
