package codex_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/modelserver"
	"signalbox/internal/provider"
)

func call(name, arguments string) modelserver.Tool {
	return modelserver.Tool{Name: name, Arguments: arguments}
}

func script(steps ...modelserver.Step) modelserver.Options {
	return modelserver.Options{Script: []modelserver.Reply{{Answer: "Done.", Steps: steps}}}
}

func calls(all ...modelserver.Tool) modelserver.Step { return modelserver.Step{Calls: all} }

// outputs are what the model was answered to its calls in the last request.
func (r *real) outputs() []string {
	requests := r.model.Requests()
	var out []string
	for _, o := range requests[len(requests)-1].Outputs {
		out = append(out, o.Text)
	}
	return out
}

func TestCallsAreCarriedOutAndAnswered(t *testing.T) {
	eachVersion(t, func(t *testing.T, version string) {
		r := newReal(t, version, "gpt-6-astra", script(
			modelserver.Step{Say: "I look first.", Calls: []modelserver.Tool{call("workspace_read", `{"path":"a"}`)}},
			calls(call("workspace_write", `{"path":"b"}`))))
		s := r.send(t, r.work("1", "Edit.", tools()...))
		first := s.until(provider.EventCall)
		c := last(first).Call
		if c.Tool != "read" || string(c.Arguments) != `{"path":"a"}` || c.Origin.Session == "" || c.Origin.Turn != first[0].Receipt.Reference || c.Origin.Item == "" || c.Origin.Request == "" {
			t.Errorf("the call is %+v", c)
		}
		if got := textOf(first, coord.ChannelThought); got != "I look first." {
			t.Errorf("on its way the agent said %q", got)
		}
		s.respond(provider.Answer{Request: c.Origin.Request, Result: &provider.Result{Text: "the content of a"}})
		c = last(s.until(provider.EventCall)).Call
		s.respond(provider.Answer{Request: c.Origin.Request, Result: &provider.Result{Text: "denied by the operator", Failed: true}})
		if end, text := s.finish(); end.State != coord.AttemptCompleted || strings.TrimSpace(text) != "Done." {
			t.Errorf("the end is %+v, the text %q", end, text)
		}
		if diff := cmp.Diff([]string{"the content of a", "denied by the operator"}, r.outputs()); diff != "" {
			t.Error(diff)
		}
	})
}

// 0.163.0 makes one call after the other of those that a model makes at once.
func TestCallsInParallelAreEachAnsweredInAnyOrder(t *testing.T) {
	var all []modelserver.Tool
	for i := range coord.MaxCalls + 4 {
		all = append(all, call("workspace_read", fmt.Sprintf(`{"path":"%d"}`, i)))
	}
	r := newReal(t, "0.171.0", "mock-model", script(calls(all...)))
	s := r.send(t, r.work("1", "Read.", tools()...))
	var open []*provider.Call
	refused := 0
	for len(open) < coord.MaxCalls || refused < 4 {
		e := s.next()
		switch {
		case e.Call != nil:
			open = append(open, e.Call)
		case e.Activity != nil && e.Activity.Status == "refused":
			refused++
		case e.End != nil || e.Lost != nil:
			t.Fatalf("there came %+v", e)
		}
	}
	slices.Reverse(open)
	var group sync.WaitGroup
	for _, c := range open {
		group.Go(func() {
			s.respond(provider.Answer{Request: c.Origin.Request, Result: &provider.Result{Text: "content for " + string(c.Arguments)}})
		})
	}
	group.Wait()
	if end, _ := s.finish(); end.State != coord.AttemptCompleted {
		t.Errorf("the end is %+v", end)
	}
	answered := 0
	for i, text := range r.outputs() {
		if text == fmt.Sprintf(`content for {"path":"%d"}`, i) {
			answered++
		} else if !strings.Contains(text, "wait for their answers") {
			t.Errorf("call %d was answered %q", i, text)
		}
	}
	if answered != coord.MaxCalls {
		t.Errorf("%d calls were answered", answered)
	}
}

func TestCallsOfToolsThatWereNotOfferedDoNothing(t *testing.T) {
	rogue := []modelserver.Tool{
		call("exec_command", `{"cmd":"touch HOME/rogue"}`), call("shell", `{"command":["touch","HOME/rogue"]}`),
		call("shell_command", `{"command":"touch HOME/rogue"}`), call("local_shell", `{"command":["touch","HOME/rogue"]}`),
		call("apply_patch", `{"input":"*** Begin Patch\n*** Add File: HOME/rogue\n+x\n*** End Patch"}`),
		call("write_stdin", `{"session_id":1,"chars":"x"}`), call("view_image", `{"path":"HOME/config.toml"}`),
		call("spawn_agent", `{"message":"go"}`), call("exec", `{"input":"1"}`), call("web_search", `{"query":"x"}`),
		call("update_plan", `{"plan":[]}`), call("list_mcp_resources", `{}`), call("workspace_delete", `{}`), call("read", `{"path":"a"}`),
	}
	eachVersion(t, func(t *testing.T, version string) {
		for _, slug := range []string{"mock-model", "gpt-6-astra"} {
			t.Run(slug, func(t *testing.T) {
				o := script(calls(slices.Clone(rogue)...)) // the versions run at once
				r := newReal(t, version, slug, o)
				for i := range rogue {
					o.Script[0].Steps[0].Calls[i].Arguments = strings.ReplaceAll(rogue[i].Arguments, "HOME", r.home)
				}
				s := r.send(t, r.work("1", "Go astray.", tools()...))
				for _, e := range s.until(provider.EventEnd) {
					if e.Call != nil || e.Request != nil {
						t.Errorf("there came %+v", e)
					}
				}
				for i, text := range r.outputs() {
					if !strings.Contains(text, "unsupported call") {
						t.Errorf("%s was answered %q", rogue[i].Name, text)
					}
				}
				if len(r.outputs()) != len(rogue) {
					t.Errorf("%d calls were answered", len(r.outputs()))
				}
				if r.exists("rogue") {
					t.Error("a file was made")
				}
			})
		}
	})
}

func TestQuestionsGoToTheOperator(t *testing.T) {
	ask := `{"questions":[{"id":"q1","header":"Colour","question":"Which colour?","options":[{"label":"red","description":"stop"},{"label":"green","description":"go"}]}]}`
	eachVersion(t, func(t *testing.T, version string) {
		for name, c := range map[string]struct {
			answer provider.Answer
			want   string
		}{
			"answered": {provider.Answer{Decision: coord.DecisionAnswered, Text: "green"}, `"green"`},
			"denied":   {provider.Answer{Decision: coord.DecisionDenied}, `{"answers":{}}`},
		} {
			t.Run(name, func(t *testing.T) {
				r := newReal(t, version, "gpt-5.5", script(calls(call("request_user_input", ask))))
				s := r.send(t, r.work("1", "Ask."))
				q := last(s.until(provider.EventRequest)).Request
				if q.Kind != coord.Question || q.Content.Title != "Which colour?" || !strings.Contains(q.Content.Detail, "- green: go") || len(q.Options) > 0 {
					t.Errorf("the request is %+v", q)
				}
				c.answer.Request = q.Origin.Request
				s.respond(c.answer)
				if end, _ := s.finish(); end.State != coord.AttemptCompleted {
					t.Errorf("the end is %+v", end)
				}
				if got := r.outputs(); len(got) != 1 || !strings.Contains(got[0], c.want) {
					t.Errorf("the model was answered %q", got)
				}
			})
		}
	})
}

func TestStopInterruptsAndIsConfirmed(t *testing.T) {
	eachVersion(t, func(t *testing.T, version string) {
		t.Run("a model that hangs", func(t *testing.T) {
			r := newReal(t, version, "mock-model", script(modelserver.Step{Hang: true}))
			s := r.send(t, r.work("1", "Hang."))
			s.until(provider.EventReceipt)
			r.asked(1)
			start := time.Now()
			s.stop()
			if end, _ := s.finish(); end.State != coord.AttemptCancelled {
				t.Errorf("the end is %+v", end)
			}
			t.Logf("confirmed after %s", time.Since(start))
		})
		t.Run("before the turn is known", func(t *testing.T) {
			r := newReal(t, version, "mock-model", script(modelserver.Step{Hang: true}))
			s := r.send(t, r.work("1", "Hang."))
			s.stop()
			if end, _ := s.finish(); end.State != coord.AttemptCancelled {
				t.Errorf("the end is %+v", end)
			}
		})
		t.Run("a call that nobody answered", func(t *testing.T) {
			r := newReal(t, version, "mock-model", script(calls(call("workspace_read", `{"path":"a"}`))))
			s := r.send(t, r.work("1", "Read.", tools()...))
			c := last(s.until(provider.EventCall)).Call
			s.stop()
			if end, _ := s.finish(); end.State != coord.AttemptCancelled {
				t.Errorf("the end is %+v", end)
			}
			if got, err := s.Respond(t.Context(), provider.Answer{Request: c.Origin.Request, Result: &provider.Result{Text: "late"}}); got != provider.Undeliverable || err != nil {
				t.Errorf("Respond gave %q, %v", got, err)
			}
			if n := r.model.Count(); n != 1 {
				t.Errorf("the model was asked %d times", n)
			}
		})
	})
}

func (a attempt) stop() {
	a.t.Helper()
	if got, err := a.Cancel(a.t.Context()); got != provider.CancelAsked || err != nil {
		a.t.Fatalf("Cancel gave %q, %v", got, err)
	}
}

func TestFailuresOfTheModelEndTheTurn(t *testing.T) {
	eachVersion(t, func(t *testing.T, version string) {
		for status, cause := range map[int]string{400: provider.CauseProviderError, 401: provider.CauseAuth, 500: provider.CauseProviderError} {
			r := newReal(t, version, "mock-model", script(modelserver.Step{Status: status}))
			s := r.send(t, r.work("1", "Fail."))
			if end, _ := s.finish(); end.State != coord.AttemptFailed || end.Cause != cause || end.Reason == "" || len(end.Reason) > coord.MaxReason {
				t.Errorf("with status %d the end is %+v", status, end)
			}
			s.close()
		}
	})
}

func TestSeveralAgentsShareOneLogin(t *testing.T) {
	eachVersion(t, func(t *testing.T, version string) {
		r := newReal(t, version, "mock-model", modelserver.Options{})
		var group sync.WaitGroup
		fail := make(chan error, 4)
		for i := range 4 {
			w := r.work(fmt.Sprint(i), fmt.Sprintf("Task %d.", i))
			group.Go(func() { fail <- r.whole(t, w) })
		}
		group.Wait()
		close(fail)
		for err := range fail {
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// whole makes an attempt to its end.
func (r *real) whole(t *testing.T, w provider.Work) error {
	s, err := r.adapter.Prepare(t.Context(), w)
	if err != nil {
		return err
	}
	defer s.Close(t.Context())
	if _, err := s.Send(t.Context()); err != nil {
		return err
	}
	for {
		e, err := s.Next(t.Context())
		switch {
		case err != nil:
			return err
		case e.Lost != nil:
			return errors.New(e.Lost.Reason)
		case e.End != nil && e.End.State != coord.AttemptCompleted:
			return errors.New(e.End.Reason)
		case e.End != nil:
			return nil
		}
	}
}
