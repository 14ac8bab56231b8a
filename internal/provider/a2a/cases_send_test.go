package a2a

import (
	"errors"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

// fieldCase is a failure that somebody met with another client of A2A, and what
// this one must do instead. The numbers are those of the list of failures that
// the adapter was made against.
type fieldCase struct {
	name string
	run  func(t *testing.T, p *peer)
}

func runCases(t *testing.T, cases []fieldCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { both(t, c.run) })
	}
}

func TestFieldFailuresOfSendingAndStreams(t *testing.T) { runCases(t, sendCases) }

var sendCases = []fieldCase{
	{"01 the connection dies after the work was sent and before a receipt", func(t *testing.T, p *peer) {
		p.on("stream", (*call).abort)
		at := p.begin()
		if l := at.loses(); l.Cause != provider.CauseGone {
			t.Errorf("the loss is %+v", l)
		}
		if _, err := at.adapter.Reattach(t.Context(), at.work, at.session.Handle(), nil); !errors.Is(err, provider.ErrGone) {
			t.Errorf("Reattach gave %v", err)
		}
		v, err := at.adapter.Reconcile(t.Context(), at.work, at.session.Handle(), nil)
		if err != nil || v.Finding != provider.FoundNothing || len(v.Evidence) == 0 {
			t.Errorf("Reconcile gave %+v, %v", v, err)
		}
		p.once()
	}},
	{"02 a stream is answered with an error in JSON", func(t *testing.T, p *peer) {
		p.on("stream", func(c *call) { c.fail(-32602, "no such skill") })
		e, _ := p.begin().last()
		if e.End == nil || e.End.State != coord.AttemptRejected || !strings.Contains(e.End.Reason, `-32602 "no such skill"`) {
			t.Errorf("it ended with %s", told1(e))
		}
		p.once()
	}},
	{"02 a stream is answered with a task in JSON, which is a receipt", func(t *testing.T, p *peer) {
		p.on("stream", func(c *call) { c.reply(c.wrap("task", c.at("completed", c.text("a", "done")))) })
		if got := p.begin().ends(coord.AttemptCompleted); got != "done" {
			t.Errorf("the answer is %q", got)
		}
		p.once()
	}},
	{"03 an error is labelled as text", func(t *testing.T, p *peer) {
		p.on("stream", func(c *call) {
			c.Header().Set("Content-Type", "text/plain")
			c.raw(c.failure(-32603, "out of order"))
		})
		e, _ := p.begin().last()
		if e.End == nil || e.End.State != coord.AttemptFailed || !strings.Contains(e.End.Reason, "out of order") {
			t.Errorf("it ended with %s", told1(e))
		}
		p.once()
	}},
	{"04 a status of HTTP in place of a stream is told with its body", func(t *testing.T, p *peer) {
		p.on("stream", func(c *call) {
			c.WriteHeader(http.StatusServiceUnavailable)
			c.raw("upstream is down")
		})
		if l := p.begin().loses(); !strings.Contains(l.Reason, "503") || !strings.Contains(l.Reason, "upstream is down") {
			t.Errorf("the loss is %+v", l)
		}
		p.once()
	}},
	{"04 an error comes with a status of HTTP", func(t *testing.T, p *peer) {
		p.on("stream", func(c *call) {
			c.WriteHeader(http.StatusBadRequest)
			c.raw(c.failure(-32602, "no"))
		})
		if e, _ := p.begin().last(); e.End == nil || e.End.State != coord.AttemptRejected {
			t.Errorf("it ended with %s", told1(e))
		}
	}},
	{"05 a stream comes as lines of JSON", func(t *testing.T, p *peer) {
		p.on("stream", func(c *call) {
			c.Header().Set("Content-Type", "application/x-ndjson")
			c.raw(c.response(c.wrap("task", c.at("working"))) + "\n")
		})
		if l := p.begin().loses(); l.Cause != provider.CauseProtocol {
			t.Errorf("the loss is %+v", l)
		}
		p.once()
	}},
	{"06 lines end in CR, in pieces", func(t *testing.T, p *peer) {
		p.on("stream", func(c *call) {
			for _, r := range []any{c.wrap("task", c.at("working")), c.piece("a", "done", false), c.moved("completed")} {
				s := "data: " + c.response(r) + "\r\r"
				c.raw(s[:7], s[7:len(s)-1], s[len(s)-1:])
			}
		})
		p.on("get", func(c *call) { c.reply(c.at("completed", c.text("a", "done"))) })
		if got := p.begin().ends(coord.AttemptCompleted); got != "done" {
			t.Errorf("the answer is %q", got)
		}
	}},
	{"07 lines end in CRLF, data has several, and half an event counts for nothing", func(t *testing.T, p *peer) {
		p.on("stream", func(c *call) {
			s := c.response(c.wrap("task", c.at("working")))
			head, tail, _ := strings.Cut(s, `,"id"`)
			c.raw("\xef\xbb\xbfdata: " + head + "\r\ndata: ,\"id\"" + tail + "\r\n\r\n")
			c.raw("data: " + c.response(c.moved("completed"))) // it is not over
		})
		gets := 0
		p.on("get", func(c *call) {
			if gets++; gets < 3 {
				c.reply(c.at("working"))
				return
			}
			c.reply(c.at("failed"))
		})
		p.on("subscribe", func(c *call) { c.fail(codeUnsupported, "no") })
		p.begin().ends(coord.AttemptFailed)
		p.once()
	}},
	{"08 an event of 1 MB passes", func(t *testing.T, p *peer) {
		long := strings.Repeat("x", 1<<20)
		p.on("stream", func(c *call) {
			c.events(c.wrap("task", c.at("working")), c.piece("a", long, false), c.moved("completed"))
		})
		p.on("get", func(c *call) { c.reply(c.at("completed", c.text("a", long))) })
		if got := p.begin().ends(coord.AttemptCompleted); got != long {
			t.Errorf("the answer has %d bytes", len(got))
		}
	}},
	{"08 and 09 an event without end is given up, and the task asked for", func(t *testing.T, p *peer) {
		p.on("stream", func(c *call) {
			c.events(c.wrap("task", c.at("working")))
			c.raw("data: ")
			line := strings.Repeat("x", 1<<16)
			for range 200 << 20 >> 16 { // 200 MB at most
				if _, err := c.Write([]byte(line)); err != nil {
					return
				}
			}
		})
		p.on("get", func(c *call) { c.reply(c.at("completed", c.text("a", "done"))) })
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		if got := p.begin().ends(coord.AttemptCompleted); got != "done" {
			t.Errorf("the answer is %q", got)
		}
		runtime.ReadMemStats(&after)
		if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 128<<20 {
			t.Errorf("memory grew by %d MB", grown>>20)
		}
		p.once()
	}},
	{"10 a stream that ends before the task does completes nothing", func(t *testing.T, p *peer) {
		p.on("stream", func(c *call) { c.events(c.wrap("task", c.at("working")), c.piece("a", "half", false)) })
		p.on("subscribe", func(c *call) { c.events(c.wrap("task", c.at("working", c.text("a", "half")))) })
		gets := 0
		p.on("get", func(c *call) {
			if gets++; gets < 4 {
				c.reply(c.at("working", c.text("a", "half")))
				return
			}
			c.reply(c.at("completed", c.text("a", "half and half")))
		})
		if got := p.begin().ends(coord.AttemptCompleted); got != "half and half" || p.count("subscribe") == 0 {
			t.Errorf("the answer is %q after %d subscriptions", got, p.count("subscribe"))
		}
		p.once()
	}},
	{"11 events lost between two streams are in the task, and nothing is there twice", func(t *testing.T, p *peer) {
		p.on("stream", func(c *call) { c.events(c.wrap("task", c.at("working")), c.piece("a", "a", false)) })
		p.on("subscribe", func(c *call) {
			c.events(c.wrap("task", c.at("working", c.text("a", "abc"))), c.piece("a", "d", true), c.moved("completed"))
		})
		p.on("get", func(c *call) {
			if c.count("subscribe") == 0 {
				c.reply(c.at("working", c.text("a", "abc")))
				return
			}
			c.reply(c.at("completed", c.text("a", "abcd")))
		})
		e, all := p.begin().last()
		if e.End == nil || e.End.State != coord.AttemptCompleted || answerOf(all) != "abcd" || e.End.Answer != nil {
			t.Errorf("it ended with %s, %q", told1(e), answerOf(all))
		}
		p.once()
	}},
	{"12 a task that works for ever is told as stalled, and not failed", func(t *testing.T, p *peer) {
		p.on("stream", func(c *call) { c.events(c.wrap("task", c.at("working"))) })
		p.on("get", func(c *call) { c.reply(c.at("working")) })
		p.on("subscribe", func(c *call) { c.fail(codeUnsupported, "no") })
		at := p.begin()
		all := at.until(provider.EventActivity)
		if a := all[len(all)-1].Activity; a.Status != "stalled" {
			t.Errorf("the activity is %+v", a)
		}
		asked := p.count("get")
		deadline := time.After(10 * time.Second)
		for p.count("get") < asked+3 { // it goes on
			select {
			case <-deadline:
				t.Fatal("the task is not asked for any more")
			case <-time.After(time.Millisecond):
			}
		}
		p.once()
	}},
	{"13 a stream that says nothing has the task asked for beside it", func(t *testing.T, p *peer) {
		p.on("stream", func(c *call) { c.events(c.wrap("task", c.at("working"))) })
		p.on("subscribe", func(c *call) { c.raw(": here\n\n"); c.mute() })
		p.on("get", func(c *call) {
			if c.n < 2 {
				c.reply(c.at("working"))
				return
			}
			c.reply(c.at("completed", c.text("a", "done")))
		})
		if got := p.begin().ends(coord.AttemptCompleted); got != "done" {
			t.Errorf("the answer is %q", got)
		}
	}},
	{"13 a subscription that is never answered is given up", func(t *testing.T, p *peer) {
		p.on("stream", func(c *call) { c.events(c.wrap("task", c.at("working"))) })
		p.on("subscribe", func(c *call) { c.mute() })
		p.on("get", func(c *call) {
			if c.n == 0 {
				c.reply(c.at("working"))
				return
			}
			c.reply(c.at("completed", c.text("a", "done")))
		})
		timing := fast
		timing.Call, timing.Gone = 200*time.Millisecond, 10*time.Second // a busy machine may answer late, too
		if got := p.beginWith(timing).ends(coord.AttemptCompleted); got != "done" {
			t.Errorf("the answer is %q", got)
		}
	}},
	{"14 a peer that does not answer before the work is done is unknown after a time", func(t *testing.T, p *peer) {
		p.silent = true
		p.on("send", func(c *call) { c.mute() })
		timing := fast
		timing.Receipt = time.Second // the request must arrive within it
		if l := p.beginWith(timing).loses(); !strings.Contains(l.Reason, "named no task") {
			t.Errorf("the loss is %+v", l)
		}
		p.once()
	}},
	{"15 the wish not to wait is in the version's own words, and nothing else is", func(t *testing.T, p *peer) {
		p.silent = true
		p.on("send", func(c *call) { c.reply(c.wrap("task", c.at("completed"))) })
		at := p.begin()
		at.ends(coord.AttemptCompleted)
		c := p.last("send")
		d, err := openHandle(at.session.Handle())
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{
			v03: `{"message":{"kind":"message","messageId":"` + d.MessageID + `","role":"user","parts":[{"kind":"text","text":"the work"}]},"configuration":{"blocking":false}}`,
			v10: `{"message":{"messageId":"` + d.MessageID + `","role":"ROLE_USER","parts":[{"text":"the work"}]},"configuration":{"returnImmediately":true}}`,
		}[p.version]
		if diff := cmp.Diff(want, string(c.params)); diff != "" {
			t.Errorf("the request (-want +got):\n%s", diff)
		}
		for _, name := range []string{"card", "get", "send"} {
			if got, want := p.last(name).header.Get("A2A-Version"), map[string]string{v10: "1.0"}[p.version]; got != want {
				t.Errorf("%s has A2A-Version %q", name, got)
			}
		}
	}},
}
