package stdio_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"signalbox/internal/coord"
	"signalbox/internal/process"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

func TestMain(m *testing.M) {
	process.GateMain()
	goleak.VerifyTestMain(m)
}

// ledger keeps nothing: who may be left is seen by the tests of process.
type ledger struct{}

func (ledger) Started(context.Context, process.Identity) error { return nil }
func (ledger) Ended(context.Context, process.Identity) error   { return nil }

// owner hears what a connection tells.
type owner struct {
	c       *stdio.Conn
	notices []string
	lost    chan provider.Lost
	ended   atomic.Int32
}

func (o *owner) Notify(method string, _ json.RawMessage) { o.notices = append(o.notices, method) }
func (o *owner) Ask(id json.RawMessage, method string, _ json.RawMessage) {
	o.c.Refuse(id, stdio.CodeNoMethod, method)
}
func (o *owner) Gone(l provider.Lost) { o.lost <- l }

// connect starts a shell script as an agent.
func connect(t *testing.T, jsonrpc, script string) *owner {
	t.Helper()
	self, err := process.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := stdio.Start(t.Context(), process.New(self, "host", ledger{}), process.Spec{
		Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	o := &owner{lost: make(chan provider.Lost, 1)}
	options := stdio.Options{JSONRPC: jsonrpc, Timing: provider.Timing{Setup: 20 * time.Second, Write: 200 * time.Millisecond, Grace: 5 * time.Second}, Ended: func() { o.ended.Add(1) }}
	stdio.NewConn(p, options, func(c *stdio.Conn) stdio.Handler {
		o.c = c
		return o
	})
	t.Cleanup(func() {
		for range 2 {
			if state, err := o.c.Close(context.Background()); err != nil || state != coord.Ended {
				t.Errorf("it closes as %s, %v", state, err)
			}
		}
		if n := o.ended.Load(); n != 1 {
			t.Errorf("its end was told %d times", n)
		}
	})
	return o
}

func TestLossIsToldWithItsCause(t *testing.T) {
	for name, c := range map[string]struct{ script, cause, reason string }{
		"an exit":                        {"exit 3", provider.CauseGone, "status 3"},
		"a signal":                       {"kill -9 $$", provider.CauseGone, "signal SIGKILL"},
		"a child that holds the output":  {"sleep 1000 & exit 4", provider.CauseGone, "status 4"},
		"an output that ended":           {"exec >&-; sleep 1000", provider.CauseGone, "closed its output"},
		"more noise than is tolerated":   {"yes log", provider.CauseNoise, "not protocol"},
		"a version that is not demanded": {`yes '{"jsonrpc":"1.0","method":"a"}'`, provider.CauseNoise, "not protocol"},
		"answers that are not read":      {`yes '{"jsonrpc":"2.0","id":1,"method":"a"}'`, provider.CauseWriteTimeout, "did not read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := <-connect(t, "2.0", c.script).lost
			if l.Cause != c.cause || !strings.Contains(l.Reason, c.reason) || l.Activity != coord.Ended {
				t.Errorf("the loss is %+v", l)
			}
		})
	}
}

func TestCallIsAnsweredByItsOwnIDOnly(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		want   func(error) bool
	}{
		"after others":   {`{"id":"1","result":{"a":9}} {"id":7,"result":{"a":9}} {"id":1,"result":{"a":5}} {"id":1,"result":{"a":9}}`, func(err error) bool { return err == nil }},
		"an error":       {`{"id":1,"error":{"code":-5,"message":"no"}}`, func(err error) bool { e, ok := errors.AsType[*stdio.RPCError](err); return ok && e.Code == -5 }},
		"no structure":   {`{"id":1,"result":null}`, isFault(provider.CauseProtocol)},
		"an end instead": {``, isFault(provider.CauseGone)},
	} {
		t.Run(name, func(t *testing.T) {
			o := connect(t, "", "read line; printf '%s\\n' '"+strings.ReplaceAll(c.answer, "} {", "}' '{")+"'")
			var got struct{ A int }
			err := o.c.Call(t.Context(), "a", nil, &got)
			if !c.want(err) || err == nil && got.A != 5 {
				t.Errorf("it gives %+v, %v", got, err)
			}
		})
	}
}

func isFault(cause string) func(error) bool {
	return func(err error) bool {
		f, ok := errors.AsType[*stdio.Fault](err)
		return ok && f.Cause == cause
	}
}

func TestNoticesAreToldAndNoiseIsCounted(t *testing.T) {
	o := connect(t, "2.0", `printf '%s\n' hello '{"jsonrpc":"2.0","method":"a"}' '' '{"method":"b"}' '{"jsonrpc":"2.0","method":"c","params":{}}'`)
	<-o.lost
	if got := strings.Join(o.notices, " "); got != "a c" || o.c.Noise() != 2 {
		t.Errorf("the notices are %q, the noise %d lines", got, o.c.Noise())
	}
}

func TestHandOverSaysWhatMayHaveArrived(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		params string
		close  bool
		want   coord.HandedOver
	}{
		"all of it": {"cat >/dev/null", "x", false, coord.HandedAll},
		"a part":    {"sleep 1000", strings.Repeat("x", 1<<20), false, coord.HandedUnknown},
		"nothing":   {"cat >/dev/null", "x", true, coord.HandedNothing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := connect(t, "2.0", c.script)
			if c.close {
				if _, err := o.c.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			handed, err := o.c.HandOver(t.Context(), stdio.Outgoing{Method: "a", Params: c.params})
			if handed != c.want || (err == nil) != (handed == coord.HandedAll) {
				t.Errorf("it was handed over as %s, %v", handed, err)
			}
		})
	}
}

func TestRefusalOfAReusedIDComesAfterTheAnswerToTheFirst(t *testing.T) {
	o := connect(t, "", `while read -r line; do case $line in
		*method*) echo '{"id":1,"result":{}}';;
		*error*) echo '{"method":"refused"}'; exit;;
		*result*) echo '{"method":"answered"}';;
	esac; done`)
	earlier := stdio.NewPending()
	refused := make(chan struct{})
	go func() {
		defer close(refused)
		o.c.RefuseReused(&earlier, json.RawMessage(`"q"`))
	}()
	// What was written before this is answered before.
	var nothing struct{}
	if err := o.c.Call(t.Context(), "a", nil, &nothing); err != nil {
		t.Fatal(err)
	}
	outcome, err := o.c.Answer(t.Context(), json.RawMessage(`"q"`), "yes")
	if err != nil {
		t.Fatal(err)
	}
	earlier.Settle(outcome)
	<-refused
	<-o.lost
	if got := strings.Join(o.notices, " "); got != "answered refused" {
		t.Errorf("the agent got %q", got)
	}
}
