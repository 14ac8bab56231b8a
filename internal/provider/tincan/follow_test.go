package tincan_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/tincan/tincantest"
)

func TestStatusesOfARelay(t *testing.T) {
	for _, c := range []struct {
		name     string
		statuses string
		mute     bool
		state    coord.AttemptState // "" for a loss
		cause    string
		acts     []string
		text     string
	}{
		{"answered completes", "queued delivered claimed answered", false, coord.AttemptCompleted, "", []string{"claimed"}, "the reply"},
		{"answered with nothing is an empty result", "answered", true, coord.AttemptFailed, provider.CauseEmpty, nil, ""},
		{"failed fails with the peer's words", "claimed failed", false, coord.AttemptFailed, provider.CauseProviderError, []string{"claimed"}, "the reply"},
		{"declined is a refusal", "delivered declined", false, coord.AttemptRejected, provider.CauseRefused, nil, "the reply"},
		{"cancelled was withdrawn by somebody", "queued cancelled", false, coord.AttemptCancelled, provider.CauseCancelled, nil, ""},
		{"expired without a claim fails", "queued delivered expired", false, coord.AttemptFailed, "expired", nil, ""},
		{"expired after a claim is unknown", "claimed expired", false, "", "expired", []string{"claimed"}, ""},
		{"expired after a claim that ran out is unknown", "claimed queued expired", false, "", "expired", []string{"claimed", "queued"}, ""},
		{"a request that is offered again is told and followed", "claimed queued claimed answered", false, coord.AttemptCompleted, "", []string{"claimed", "queued", "claimed"}, "the reply"},
	} {
		for _, dialect := range dialects {
			t.Run(c.name+", "+dialect, func(t *testing.T) {
				t.Parallel()
				script := tincantest.Script{Old: dialect == "text", Statuses: strings.Fields(c.statuses), Reply: "the reply"}
				if c.mute {
					script.Reply, script.Mute = "", true
				}
				b := newBench(t, dialect, script)
				s := b.send("the work")
				all := b.events(s)
				var acts []string
				text := ""
				for _, e := range all {
					if e.Activity != nil {
						acts = append(acts, e.Activity.Status)
					}
					if e.Text != nil {
						text += e.Text.Text
					}
				}
				last := all[len(all)-1]
				switch {
				case c.state == "" && (last.Lost == nil || last.Lost.Cause != c.cause || last.Lost.Activity != coord.MayRun):
					t.Errorf("the last event is %+v", last)
				case c.state != "" && (last.End == nil || last.End.State != c.state || last.End.Cause != c.cause):
					t.Errorf("the last event is %+v %+v", last, last.End)
				}
				if diff := cmp.Diff(c.acts, acts); diff != "" || text != c.text {
					t.Errorf("the text is %q, the activities %s", text, diff)
				}
				want := coord.Ended
				if c.state == "" {
					want = coord.MayRun
				}
				if a := b.close(s); a != want {
					t.Errorf("Close gave %q", a)
				}
				if n := len(b.submissions()); n != 1 {
					t.Errorf("the relay took %d requests", n)
				}
			})
		}
	}
}

// A look that tells nothing of this request changes nothing, and is made again.
func TestLooksThatGoWrongAreMadeAgain(t *testing.T) {
	for _, dialect := range dialects {
		for _, fault := range []tincantest.Fault{
			tincantest.Unreachable, tincantest.Stranger, tincantest.Lost, tincantest.Silent, tincantest.Killed, tincantest.StderrFlood, tincantest.Garbage, tincantest.Half,
			tincantest.NoID, tincantest.OtherID, tincantest.OtherPeer, tincantest.OtherAgent, tincantest.OtherReply, tincantest.Strange, tincantest.WrongExit, tincantest.Notify,
		} {
			for _, status := range []string{"answered", "cancelled"} {
				if fault == tincantest.OtherReply && status == "cancelled" {
					continue // without a reply
				}
				if dialect == "text" && status == "answered" && slices.Contains([]tincantest.Fault{tincantest.NoID, tincantest.OtherID, tincantest.Half}, fault) {
					continue // a reply in text names no request and has no end of its own
				}
				t.Run(dialect+" "+string(fault)+" "+status, func(t *testing.T) {
					t.Parallel()
					b := newBench(t, dialect, tincantest.Script{Old: dialect == "text", Gets: []tincantest.Fault{fault}, Statuses: []string{status, "answered"}})
					e, _ := b.last(b.send("the work"))
					want := coord.AttemptCompleted
					if status == "cancelled" {
						want = coord.AttemptCancelled
					}
					if e.End == nil || e.End.State != want {
						t.Errorf("the last event is %+v", e)
					}
					gets := len(b.calls("get"))
					if fault != tincantest.StderrFlood && (dialect == "json" || fault != tincantest.OtherAgent) && gets < 2 {
						t.Errorf("there were %d looks", gets)
					}
				})
			}
		}
	}
}

func TestReplyIsKeptAsItIs(t *testing.T) {
	for _, dialect := range dialects {
		for _, reply := range []string{"one\ntwo\n", "<a href=\"x\">&</a>", "muse replied (failed):\nno", "{\"outcome\":\"failed\"}", "Request req_1 to muse ended: expired", "\u2028\t\x01", strings.Repeat("a long reply ", 20_000)} {
			t.Run(dialect, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, dialect, tincantest.Script{Old: dialect == "text", Reply: reply})
				e, text := b.last(b.send("the work"))
				if e.End == nil || e.End.State != coord.AttemptCompleted || text != reply {
					t.Errorf("the last event is %+v; %d bytes of %d came", e, len(text), len(reply))
				}
			})
		}
	}
}

func TestAttachmentsAreReferencesThatNobodyFetches(t *testing.T) {
	b := newBench(t, "json", tincantest.Script{Attachments: []tincantest.Attachment{
		{ID: "att_7", Name: strings.Repeat("n", 1000) + ".txt", MIME: "text/plain", Size: 12}, {ID: "../ bad", Name: "x"}, {ID: "", Name: "y"},
	}})
	var got []provider.Content
	for _, e := range b.events(b.send("the work")) {
		if e.Content != nil {
			got = append(got, *e.Content)
		}
	}
	if len(got) != 1 || got[0].Reference != "tincan:attachment/att_7" || len(got[0].Name) > coord.MaxName || got[0].Bytes != nil {
		t.Errorf("the contents are %+v", got)
	}
	if n := len(b.calls("attachment")); n > 0 {
		t.Errorf("%d attachments were fetched", n)
	}
}

// receipt sends and gives what a later process has.
func (b *bench) receipt(s provider.Session) (coord.Handle, *coord.Receipt) {
	b.t.Helper()
	e, err := s.Next(b.t.Context())
	if err != nil || e.Receipt == nil {
		b.t.Fatalf("Next gave %+v, %v", e, err)
	}
	return s.Handle(), e.Receipt
}

func TestReceiptHasAllThatWasSentAndNoSecret(t *testing.T) {
	b := newBench(t, "json", tincantest.Script{Statuses: []string{"queued"}})
	if _, err := tincantest.Profile(b.dir, "signalbox", "http://user:pass-word-9@relay.example/x"); err != nil {
		t.Fatal(err)
	}
	s := b.send("the work")
	h, r := b.receipt(s)
	b.close(s)
	var got struct {
		Profile, Agent, Relay, Peer, Dialect string
		Identity                             coord.Identity
		Text                                 string `json:"text_sha256"`
	}
	if err := json.Unmarshal(h.Data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Profile != "muse@1" || got.Agent != "signalbox" || got.Peer != "muse" || got.Dialect != "json" || got.Relay != "http://user:xxxxx@relay.example/x" ||
		got.Text != fmt.Sprintf("%x", sha256.Sum256([]byte("the work"))) {
		t.Errorf("the handle is %s", h.Data)
	}
	if len(got.Identity.Files) != 2 || got.Identity.Files[1].Path != b.config.Tincan.Profile {
		t.Errorf("the identity is %+v", got.Identity)
	}
	if r.Kind != "request" || r.Reference != b.submissions()[0].ID || r.At == (coord.Moment{}) {
		t.Errorf("the receipt is %+v", r)
	}
	for _, secret := range []string{tincantest.Key, "pass-word-9", "the work"} {
		if strings.Contains(string(h.Data), secret) {
			t.Errorf("the handle has %q", secret)
		}
	}
}

// The profile that is selected now belongs to somebody else.
func TestRequestsAreAskedForUnderTheProfileTheyWereSentWith(t *testing.T) {
	for _, dialect := range dialects {
		t.Run(dialect, func(t *testing.T) {
			old := dialect == "text"
			b := newBench(t, dialect, tincantest.Script{Old: old, Statuses: []string{"claimed", "claimed", "claimed", "answered"}})
			s := b.send("the work")
			h, r := b.receipt(s)
			b.close(s)

			now := newBench(t, "json", tincantest.Script{})
			now.config.Tincan.Peer = "somebody-else"
			w := now.work("other work")
			v, err := now.adapter.Reconcile(t.Context(), w, h, r)
			if err != nil || v.Finding != provider.FoundWorking || v.End != nil {
				t.Errorf("Reconcile gave %+v, %v", v, err)
			}
			again, err := now.adapter.Reattach(t.Context(), w, h, r)
			if err != nil {
				t.Fatal(err)
			}
			if e, text := now.last(again); e.End == nil || e.End.State != coord.AttemptCompleted || text != "done: the work" {
				t.Errorf("the last event is %+v, the text %q", e, text)
			}
			now.close(again)
			v, err = now.adapter.Reconcile(t.Context(), w, h, r)
			if err != nil || v.Finding != provider.FoundEnded || v.End == nil || v.End.State != coord.AttemptCompleted || v.Text != "done: the work" {
				t.Errorf("Reconcile gave %+v, %v", v, err)
			}
			if calls, err := tincantest.Calls(now.dir); len(calls) > 0 || err != nil {
				t.Errorf("the selected profile was used for %+v, %v", calls, err)
			}
			if n := len(b.submissions()); n != 1 {
				t.Errorf("the relay took %d requests", n)
			}
		})
	}
}

func TestRequestsAreNotAskedForByAnotherProgramOrIdentity(t *testing.T) {
	for name, change := range map[string]func(b *bench) error{
		"another program": func(b *bench) error {
			if err := os.Rename(b.config.Executable, b.config.Executable+".old"); err != nil {
				return err
			}
			return os.WriteFile(b.config.Executable, []byte("another"), 0o700)
		},
		"another agent": func(b *bench) error {
			_, err := tincantest.Profile(b.dir, "somebody", "http://relay.example")
			return err
		},
		"another relay": func(b *bench) error {
			_, err := tincantest.Profile(b.dir, "signalbox", "http://relay.elsewhere.example")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "json", tincantest.Script{Statuses: []string{"queued"}})
			b.copied()
			s := b.send("the work")
			h, r := b.receipt(s)
			if err := change(b); err != nil {
				t.Fatal(err)
			}
			if e, _ := b.last(s); e.Lost == nil || e.Lost.Cause != provider.CauseStale || e.Lost.Activity != coord.MayRun {
				t.Errorf("the last event is %+v", e)
			}
			before := len(b.calls("get"))
			v, err := b.adapter.Reconcile(t.Context(), provider.Work{Attempt: "att_1"}, h, r)
			if err != nil || v.Finding != provider.FoundNothing || len(v.Evidence) != 1 {
				t.Errorf("Reconcile gave %+v, %v", v, err)
			}
			if n := len(b.calls("get")); n != before {
				t.Errorf("the relay was asked %d times more", n-before)
			}
		})
	}
}

func TestReconcile(t *testing.T) {
	for _, c := range []struct {
		name, statuses string
		fault          tincantest.Fault
		finding        provider.Finding
		state          coord.AttemptState
	}{
		{"queued", "queued", "", provider.FoundWorking, ""},
		{"delivered", "delivered", "", provider.FoundWorking, ""},
		{"claimed", "claimed", "", provider.FoundWorking, ""},
		{"answered", "answered", "", provider.FoundEnded, coord.AttemptCompleted},
		{"failed", "failed", "", provider.FoundEnded, coord.AttemptFailed},
		{"declined", "declined", "", provider.FoundEnded, coord.AttemptRejected},
		{"cancelled", "cancelled", "", provider.FoundEnded, coord.AttemptCancelled},
		{"expired, as claims were not watched", "expired", "", provider.FoundNothing, ""},
		{"the relay cannot be reached", "answered", tincantest.Lost, provider.FoundNothing, ""},
		{"another request", "claimed", tincantest.OtherID, provider.FoundNothing, ""},
		{"a flood", "answered", tincantest.Flood, provider.FoundNothing, ""},
	} {
		for _, dialect := range dialects {
			t.Run(c.name+", "+dialect, func(t *testing.T) {
				t.Parallel()
				// The session that sends it looks at nothing before it is closed.
				slow := testTiming
				slow.First, slow.Most = time.Hour, time.Hour
				b := newTimedBench(t, dialect, tincantest.Script{Old: dialect == "text", Statuses: strings.Fields(c.statuses), Gets: []tincantest.Fault{c.fault}, Reply: "the reply"}, slow)
				s := b.send("the work")
				h, r := b.receipt(s)
				b.close(s)
				v, err := b.adapter.Reconcile(t.Context(), provider.Work{Attempt: "att_1"}, h, r)
				if err != nil || v.Finding != c.finding || (v.End == nil) != (c.state == "") || v.End != nil && v.End.State != c.state || len(v.Evidence) == 0 {
					t.Errorf("Reconcile gave %+v, %v", v, err)
				}
				if n := len(b.submissions()); n != 1 {
					t.Errorf("the relay took %d requests", n)
				}
			})
		}
	}
}

func TestWithoutARequestsIDNothingIsAsked(t *testing.T) {
	b := newBench(t, "json", tincantest.Script{Ask: tincantest.Lost})
	s := b.prepare("the work")
	_, _ = s.Send(t.Context())
	for _, r := range []*coord.Receipt{nil, {Kind: "request"}, {Kind: "turn", Reference: "req_1"}, {Kind: "request", Reference: "req 1"}} {
		v, err := b.adapter.Reconcile(t.Context(), provider.Work{Attempt: "att_1"}, s.Handle(), r)
		if err != nil || v.Finding != provider.FoundNothing || v.Activity != "" || len(v.Evidence) != 1 {
			t.Errorf("Reconcile gave %+v, %v", v, err)
		}
		if again, err := b.adapter.Reattach(t.Context(), provider.Work{Attempt: "att_1"}, s.Handle(), r); again != nil || err == nil {
			t.Errorf("Reattach gave %v, %v", again, err)
		}
	}
	if n := len(b.calls("get")); n > 0 {
		t.Errorf("there were %d looks", n)
	}
}

// The program may be writing its profile when we read it.
func TestProfileThatIsHalfWrittenIsReadAgain(t *testing.T) {
	b := newBench(t, "json", tincantest.Script{Statuses: []string{"queued"}})
	s := b.send("the work")
	b.receipt(s)
	whole, err := os.ReadFile(b.config.Tincan.Profile)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][]byte{whole[:len(whole)/2], nil} {
		if err := os.WriteFile(b.config.Tincan.Profile, part, 0o600); err != nil {
			t.Fatal(err)
		}
		b.await("a look that reads it", func() bool { return strings.Contains(b.logs.String(), "is not a profile") })
		b.logs.Reset()
	}
	if err := os.WriteFile(b.config.Tincan.Profile, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	before := len(b.calls("get"))
	b.await("a look", func() bool { all, _ := tincantest.Calls(b.dir); return len(all) > before+2 })
	if a := b.close(s); a != coord.MayRun {
		t.Errorf("Close gave %q", a)
	}
}

// What the tests of the whole product choose by words.
func TestWordsOfATextChooseWhatTheStandInDoes(t *testing.T) {
	for word, want := range map[string]string{
		"": "completed", "hold": "nothing", "queue": "nothing", "fail": "failed", "decline": "rejected", "expire": "failed", "abandon": "lost",
		"requeue": "completed", "flaky": "completed", "lose": "unknown", "die": "unknown",
	} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "json", tincantest.Script{})
			if err := os.Remove(filepath.Join(b.dir, "script.json")); err != nil {
				t.Fatal(err)
			}
			s := b.prepare("Do it. [" + word + "]")
			handed, err := s.Send(t.Context())
			if (want == "unknown") != (handed == coord.HandedUnknown) || (err == nil) != (handed == coord.HandedAll) {
				t.Fatalf("Send gave %q, %v", handed, err)
			}
			if want == "nothing" {
				b.await("several looks", func() bool { all, _ := tincantest.Calls(b.dir); return len(all) > 5 })
				b.close(s)
			}
			last, text := b.last(s)
			switch {
			case last.End != nil && (string(last.End.State) != want || want == "completed" && text != tincantest.WordReply):
				t.Errorf("the end is %+v, the text %q", *last.End, text)
			case last.End == nil && (last.Lost == nil || !slices.Contains([]string{"lost", "nothing", "unknown"}, want)):
				t.Errorf("the last event is %+v", last)
			}
			if n := len(b.submissions()); n != 1 {
				t.Errorf("the relay took %d requests", n)
			}
		})
	}
}
