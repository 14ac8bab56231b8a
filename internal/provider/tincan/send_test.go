package tincan_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/filehash/filehashtest"
	"signalbox/internal/provider"
	"signalbox/internal/provider/tincan/tincantest"
)

var dialects = []string{"json", "text"}

// Whatever ask does, there is one submission at most and one run of ask, and
// what is not certain is unknown.
func TestHandOverSaysNoMoreThanIsCertain(t *testing.T) {
	for _, c := range []struct {
		name       string
		fault      tincantest.Fault
		json, text coord.HandedOver
		took       int
	}{
		{"a pending answer is a receipt", tincantest.None, coord.HandedAll, coord.HandedAll, 1},
		{"a reply at once names its request in JSON alone", tincantest.AtOnce, coord.HandedAll, coord.HandedUnknown, 1},
		{"exit 1 without output after the request was taken is unknown", tincantest.Lost, coord.HandedUnknown, coord.HandedUnknown, 1},
		{"exit 1 without output before the request was taken looks the same", tincantest.Unreachable, coord.HandedUnknown, coord.HandedUnknown, 0},
		{"a refusal on standard error decides nothing", tincantest.Stranger, coord.HandedUnknown, coord.HandedUnknown, 0},
		{"exit 0 without output is unknown", tincantest.Silent, coord.HandedUnknown, coord.HandedUnknown, 1},
		{"a killed program is unknown", tincantest.Killed, coord.HandedUnknown, coord.HandedUnknown, 1},
		{"a flood is unknown", tincantest.Flood, coord.HandedUnknown, coord.HandedUnknown, 1},
		{"a flood on standard error beside an answer is a receipt", tincantest.StderrFlood, coord.HandedAll, coord.HandedAll, 1},
		{"output that is no answer is unknown", tincantest.Garbage, coord.HandedUnknown, coord.HandedUnknown, 1},
		{"half an answer is unknown", tincantest.Half, coord.HandedUnknown, coord.HandedUnknown, 1},
		{"an answer with more behind it is unknown", tincantest.Trailing, coord.HandedUnknown, coord.HandedUnknown, 1},
		{"an answer without an id is unknown", tincantest.NoID, coord.HandedUnknown, coord.HandedUnknown, 1},
		{"an answer that names another peer is unknown", tincantest.OtherPeer, coord.HandedUnknown, coord.HandedUnknown, 1},
		{"an answer that names another sender is unknown where it names one", tincantest.OtherAgent, coord.HandedUnknown, coord.HandedAll, 1},
		{"a notice is no request", tincantest.Notify, coord.HandedUnknown, coord.HandedUnknown, 1},
		{"a status that does not exist has an id all the same", tincantest.Strange, coord.HandedAll, coord.HandedAll, 1},
		{"an exit code that contradicts is a failure in text alone", tincantest.WrongExit, coord.HandedAll, coord.HandedUnknown, 1},
	} {
		for i, dialect := range dialects {
			t.Run(c.name+", "+dialect, func(t *testing.T) {
				t.Parallel()
				want := []coord.HandedOver{c.json, c.text}[i]
				b := newBench(t, dialect, tincantest.Script{Old: dialect == "text", Ask: c.fault})
				s := b.prepare("the work")
				got, err := s.Send(t.Context())
				if got != want || (err == nil) != (want == coord.HandedAll) {
					t.Fatalf("Send gave %q, %v; want %q", got, err, want)
				}
				if again, err := s.Send(t.Context()); again == coord.HandedAll || err == nil {
					t.Errorf("the second Send gave %q, %v", again, err)
				}
				if want == coord.HandedAll {
					if e, text := b.last(s); e.End == nil || e.End.State != coord.AttemptCompleted || text != "done: the work" {
						t.Errorf("the last event is %+v, the text %q", e, text)
					}
				} else {
					b.unknown(s)
				}
				if n := len(b.submissions()); n != c.took {
					t.Errorf("the relay took %d requests, want %d", n, c.took)
				}
				if n := len(b.calls("ask")); n != 1 {
					t.Errorf("ask was run %d times", n)
				}
			})
		}
	}
}

// unknown checks that a session which is lost says so and no more.
func (b *bench) unknown(s provider.Session) {
	b.t.Helper()
	all := b.events(s)
	if len(all) != 1 || all[0].Lost == nil || all[0].Lost.Activity != coord.MayRun || all[0].Lost.Reason == "" {
		b.t.Errorf("there came %+v", all)
	}
	if a := b.close(s); a != coord.MayRun {
		b.t.Errorf("Close gave %q", a)
	}
}

func TestTextThatLooksLikeFlagsIsSentAsItIs(t *testing.T) {
	for _, dialect := range dialects {
		for _, text := range []string{"--help", "-h", "--", "-- x", "--notify --wait 20s", "-", "$(id) `id` \\ \"'", " a\n\tb ", "ünï\u2028", "a\x1b[31m"} {
			t.Run(dialect, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, dialect, tincantest.Script{Old: dialect == "text"})
				b.last(b.send(text))
				if got := b.submissions(); len(got) != 1 || got[0].Body != text || got[0].To != tincantest.DefaultPeer || got[0].From != "signalbox" {
					t.Errorf("the relay took %+v", got)
				}
			})
		}
	}
}

func TestPeerThatLooksLikeAFlagIsAPeer(t *testing.T) {
	for _, dialect := range dialects {
		b := newBench(t, dialect, tincantest.Script{Old: dialect == "text", Agents: "--notify online wake=poll last seen 3s ago\n"})
		b.config.Tincan.Peer = "--notify"
		b.last(b.send("x"))
		if got := b.submissions(); len(got) != 1 || got[0].To != "--notify" {
			t.Errorf("the relay took %+v", got)
		}
	}
}

func TestProcessesGetFixedArgumentsAndAnEmptyEnvironment(t *testing.T) {
	for _, name := range []string{"TINCAN_RELAY", "TINCAN_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "LANG", "TINCAN_TOKEN"} {
		t.Setenv(name, "http://elsewhere.example")
	}
	for _, dialect := range dialects {
		t.Run(dialect, func(t *testing.T) {
			b := newBench(t, dialect, tincantest.Script{Old: dialect == "text"})
			b.inspect()
			b.last(b.send("the work"))
			id := b.submissions()[0].ID
			ask, get := []string{"ask", "--json", "--wait", "0s", "--", "muse", "the work"}, []string{"get", "--json", "--", id}
			if dialect == "text" {
				ask, get = []string{"ask", "--wait", "0s", "--", "muse", "the work"}, []string{"get", "--", id}
			}
			calls, err := tincantest.Calls(b.dir)
			if err != nil {
				t.Fatal(err)
			}
			var args [][]string
			for _, c := range calls {
				args = append(args, c.Args)
				slices.Sort(c.Env)
				want := []string{"HOME=" + b.home, "PATH=/usr/local/bin:/usr/bin:/bin", "TINCAN_CONFIG=" + b.config.Tincan.Profile}
				if diff := cmp.Diff(want, c.Env); diff != "" {
					t.Errorf("the environment of %s: %s", c.Args[0], diff)
				}
				if filepath.Dir(c.Dir) != b.scratch || c.Stdin {
					t.Errorf("%s ran in %s with input %v", c.Args[0], c.Dir, c.Stdin)
				}
			}
			if diff := cmp.Diff([][]string{{"version"}, {"ask", "--help"}, {"agents"}, {"agents"}, ask, get, get}, args); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTextThatCannotBeHandedOverIsRefusedBefore(t *testing.T) {
	b := newBench(t, "json", tincantest.Script{Statuses: []string{"answered"}, Reply: "yes"})
	for name, text := range map[string]string{"too long": strings.Repeat("x", coord.MaxTincanText+1), "NUL": "a\x00b", "not UTF-8": "a\xffb"} {
		s, err := b.adapter.Prepare(t.Context(), b.work(text))
		if u, ok := errors.AsType[*provider.Unsent](err); s != nil || !ok || u.Cause != provider.CauseConfig || u.Transient {
			t.Errorf("%s: Prepare gave %v, %v", name, s, err)
		}
	}
	if n := len(b.submissions()) + len(b.calls("agents")); n > 0 {
		t.Errorf("%d processes ran for texts that were refused", n)
	}
	longest := strings.Repeat("x", coord.MaxTincanText)
	if e, _ := b.last(b.send(longest)); e.End == nil || e.End.State != coord.AttemptCompleted {
		t.Errorf("the last event is %+v", e)
	}
	if got := b.submissions(); len(got) != 1 || got[0].Body != longest {
		t.Error("the longest text did not arrive as it was")
	}
}

// copied gives a tincan of its own, which a test may change.
func (b *bench) copied() string {
	b.t.Helper()
	from, err := os.Open(b.config.Executable)
	if err != nil {
		b.t.Fatal(err)
	}
	defer from.Close()
	path := filepath.Join(b.t.TempDir(), "tincan")
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o700)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		b.t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		b.t.Fatal(err)
	}
	b.config.Executable = path
	return path
}

func TestProgramThatDoesNotStartSendsNothing(t *testing.T) {
	b := newBench(t, "json", tincantest.Script{})
	path := b.copied()
	s := b.prepare("the work")
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Send(t.Context()); got != coord.HandedNothing || err == nil {
		t.Errorf("Send gave %q, %v", got, err)
	}
	if a := b.close(s); a != coord.Ended {
		t.Errorf("Close gave %q", a)
	}
	if n := len(b.submissions()); n > 0 {
		t.Errorf("the relay took %d requests", n)
	}
}

func TestHangingProgramIsKilledWithAllThatItStarted(t *testing.T) {
	for _, fault := range []tincantest.Fault{tincantest.Hang, tincantest.HangAfter} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			timing := testTiming
			timing.Command = 2 * time.Second
			b := newTimedBench(t, "json", tincantest.Script{Ask: fault}, timing)
			s := b.prepare("the work")
			if got, err := s.Send(t.Context()); got != coord.HandedUnknown || err == nil {
				t.Errorf("Send gave %q, %v", got, err)
			}
			b.unknown(s)
			b.nothingSleeps(1)
			if n := len(b.submissions()); n != 1 {
				t.Errorf("the relay took %d requests", n)
			}
		})
	}
}

// nothingSleeps checks that so many processes were left behind and are gone.
func (b *bench) nothingSleeps(want int) {
	b.t.Helper()
	pids, err := tincantest.Sleepers(b.dir)
	if err != nil || len(pids) != want {
		b.t.Fatalf("the processes left behind were %v, %v", pids, err)
	}
	for _, pid := range pids {
		b.await("the end of a process that was left behind", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	}
}

func TestStopWaitsForAHandOverThatHasBegun(t *testing.T) {
	b := newBench(t, "json", tincantest.Script{Delay: 300 * time.Millisecond})
	s := b.prepare("the work")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		b.await("a submission", func() bool { all, _ := tincantest.Submissions(b.dir); return len(all) > 0 })
		cancel(errors.New("stopped"))
	}()
	if got, err := s.Send(ctx); got != coord.HandedAll || err != nil {
		t.Errorf("Send gave %q, %v", got, err)
	}
	if e, _ := b.last(s); e.End == nil {
		t.Errorf("the last event is %+v", e)
	}
}

func TestClosingEndsAHandOverAsUnknown(t *testing.T) {
	b := newBench(t, "json", tincantest.Script{Ask: tincantest.Hang})
	s := b.prepare("the work")
	closed := make(chan coord.ActivityState)
	go func() {
		b.await("a submission", func() bool { all, _ := tincantest.Submissions(b.dir); return len(all) > 0 })
		a, _ := s.Close(context.Background())
		closed <- a
	}()
	if got, err := s.Send(t.Context()); got != coord.HandedUnknown || err == nil {
		t.Errorf("Send gave %q, %v", got, err)
	}
	if a := <-closed; a != coord.MayRun {
		t.Errorf("Close gave %q", a)
	}
}

func TestStopBeforeTheHandOverSendsNothing(t *testing.T) {
	b := newBench(t, "json", tincantest.Script{})
	s := b.prepare("the work")
	if got, err := s.Cancel(t.Context()); got != provider.CancelAsked || err != nil {
		t.Errorf("Cancel gave %q, %v", got, err)
	}
	if got, err := s.Send(t.Context()); got != coord.HandedNothing || err == nil {
		t.Errorf("Send gave %q, %v", got, err)
	}
	if n := len(b.submissions()); n > 0 {
		t.Errorf("the relay took %d requests", n)
	}
}

// What is not as it was approved is found before anything is sent.
func TestStaleProgramOrProfileSendsNothing(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(b *bench) error
		cause  string
	}{
		{"another program", func(b *bench) error {
			return os.WriteFile(b.config.Executable, []byte("another"), 0o700)
		}, provider.CauseStale},
		{"no program", func(b *bench) error { return os.Remove(b.config.Executable) }, provider.CauseStale},
		{"another agent", func(b *bench) error {
			_, err := tincantest.Profile(b.dir, "somebody", "http://relay.example")
			return err
		}, provider.CauseStale},
		{"another relay", func(b *bench) error {
			_, err := tincantest.Profile(b.dir, "signalbox", "http://relay.elsewhere.example")
			return err
		}, provider.CauseStale},
		{"another proxy", func(b *bench) error {
			return os.WriteFile(b.config.Tincan.Profile, []byte(`{"agent":"signalbox","relay":"http://relay.example","proxy":"socks5://elsewhere.example"}`), 0o600)
		}, provider.CauseStale},
		{"no profile", func(b *bench) error { return os.Remove(b.config.Tincan.Profile) }, provider.CauseStale},
		{"nobody's profile", func(b *bench) error {
			_, err := tincantest.Profile(b.dir, "", "http://relay.example")
			return err
		}, provider.CauseAuth},
		{"a peer that the relay does not list any more", func(b *bench) error {
			return tincantest.Script{Agents: "muse2 online wake=poll last seen 3s ago\nMuse online wake=poll last seen 3s ago\n"}.Write(b.dir)
		}, provider.CauseConfig},
		{"a relay that does not know us any more", func(b *bench) error {
			return tincantest.Script{List: tincantest.Stranger}.Write(b.dir)
		}, provider.CauseAuth},
		{"variables for the program", func(b *bench) error {
			b.config.Env = map[string]string{"TINCAN_RELAY": "http://elsewhere.example"}
			return nil
		}, provider.CauseConfig},
		{"arguments for the program", func(b *bench) error { b.config.Args = []string{"--notify"}; return nil }, provider.CauseConfig},
		{"no peer", func(b *bench) error { b.config.Tincan = nil; return nil }, provider.CauseConfig},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, "json", tincantest.Script{})
			b.copied()
			w := b.work("the work")
			if err := c.change(b); err != nil {
				t.Fatal(err)
			}
			w.Config = b.config
			s, err := b.adapter.Prepare(t.Context(), w)
			if u, ok := errors.AsType[*provider.Unsent](err); s != nil || !ok || u.Cause != c.cause || u.Message == "" || u.Transient {
				t.Errorf("Prepare gave %v, %+v; want %s", s, err, c.cause)
			}
			if n := len(b.submissions()) + len(b.calls("ask")); n > 0 {
				t.Errorf("there were %d processes or requests", n)
			}
		})
	}
}

func TestProgramThatWasOverwrittenIsStaleThoughItsHashWasRemembered(t *testing.T) {
	b := newBench(t, "json", tincantest.Script{})
	b.copied()
	program := b.config.Executable
	filehashtest.Settle(t, program)
	before := b.work("the work")
	if again := b.work("the work"); len(before.Identity.Diff(again.Identity)) > 0 {
		t.Errorf("without a change it is %+v", again.Identity)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(program, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte("another"), info.Size()-7)
	if err := errors.Join(err, f.Close(), os.Chtimes(program, info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}
	s, err := b.adapter.Prepare(t.Context(), before)
	if u, ok := errors.AsType[*provider.Unsent](err); s != nil || !ok || u.Cause != provider.CauseStale {
		t.Errorf("Prepare gave %v, %v", s, err)
	}
}

// The program writes the relay's key, addresses and the time anew each day.
func TestProfileThatTheProgramRewroteIsNotStale(t *testing.T) {
	b := newBench(t, "json", tincantest.Script{Statuses: []string{"claimed", "claimed", "claimed", "answered"}})
	w := b.work("the work")
	rewrite := func() {
		text := `{"agent":"signalbox","relay_urls":["http://relay.example","http://100.64.0.7"],"relay_key":"tkey-another","relay":"http://relay.example","relay_info_at":"2026-10-27T08:00:00Z"}`
		if err := os.WriteFile(b.config.Tincan.Profile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rewrite()
	s, err := b.adapter.Prepare(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close(s)
	if got, err := s.Send(t.Context()); got != coord.HandedAll || err != nil {
		t.Fatalf("Send gave %q, %v", got, err)
	}
	rewrite()
	if e, _ := b.last(s); e.End == nil || e.End.State != coord.AttemptCompleted {
		t.Errorf("the last event is %+v", e)
	}
}

func TestRelayThatIsNotThereIsFoundWhileNothingIsSent(t *testing.T) {
	b := newBench(t, "json", tincantest.Script{List: tincantest.Unreachable})
	s, err := b.adapter.Prepare(t.Context(), b.work("the work"))
	if u, ok := errors.AsType[*provider.Unsent](err); s != nil || !ok || !u.Transient {
		t.Errorf("Prepare gave %v, %v", s, err)
	}
}
