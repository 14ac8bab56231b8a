package scheduler

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/provider"
	"signalbox/internal/provider/providertest"
)

func completes(after time.Duration, text string) providertest.Script {
	return providertest.Script{Steps: []providertest.Step{
		{Do: providertest.Accept},
		{Do: providertest.Say, Text: text, After: after},
		{Do: providertest.End, State: coord.AttemptCompleted},
	}}
}

func TestIndependentTasksRunTogetherAndADependantGetsTheirResultsAsData(t *testing.T) {
	script := func(w provider.Work) providertest.Script { return completes(time.Second, "result of "+string(w.Agent)) }
	live(t, script, func(w *world) {
		w.approve(plan(time.Hour, []string{"a", "x"}, []string{"b", "y"}, []string{"c", "x", "a", "b"}))
		w.expect("running a:running b:running c:blocked")
		w.sleep(1500 * time.Millisecond)
		w.expect("running a:completed b:completed c:running")
		w.sleep(2 * time.Second)
		w.expect("completed a:completed b:completed c:completed")

		prompt := w.fake.Sent()[2].Prompt
		for _, want := range []string{"do c", `Result of task "a" by agent x`, "> result of x", `Result of task "b" by agent y`, "> result of y"} {
			if !strings.Contains(prompt, want) {
				t.Errorf("the dependant's prompt lacks %q:\n%s", want, prompt)
			}
		}
		a := w.attempt("c")
		if a.Statement == nil || a.Statement.Text != "result of x" || a.Statement.Agent != "x" || a.Statement.Artifact == "" {
			t.Errorf("the result is not attributed: %+v", a.Statement)
		}
		if a.Receipt == nil || a.Prompt != digest(prompt) {
			t.Errorf("receipt %v, prompt digest %s", a.Receipt, a.Prompt)
		}
		if n := w.leases(); n != 0 {
			t.Errorf("%d leases are left", n)
		}
	})
}

func TestAtMostFourTasksRunAndOneForEachAgent(t *testing.T) {
	live(t, providertest.Always(completes(10*time.Second, "ok")), func(w *world) {
		w.approve(plan(time.Hour, []string{"a", "a1"}, []string{"b", "a2"}, []string{"c", "a3"}, []string{"d", "a3"}, []string{"e", "a4"}, []string{"f", "a5"}))
		w.expect("running a:running b:running c:running d:ready e:running f:ready")
		w.sleep(11 * time.Second)
		w.expect("running a:completed b:completed c:completed d:running e:completed f:running")
	})
}

func TestWhatSentNothingIsTriedThreeTimesInAll(t *testing.T) {
	live(t, providertest.Always(providertest.Script{Setup: providertest.SetupCrash}), func(w *world) {
		w.approve(plan(time.Hour, []string{"a", "x"}, []string{"b", "y", "a"}))
		w.sleep(time.Minute)
		w.expect("failed a:failed b:skipped")
		if n := len(w.fake.Prepared()); n != coord.MaxAttempts {
			t.Errorf("%d attempts were made, want %d", n, coord.MaxAttempts)
		}
		if n := len(w.fake.Sent()); n != 0 {
			t.Errorf("%d prompts were sent", n)
		}
	})
}

func TestWhatCannotBeMendedByTryingAgainIsTriedOnce(t *testing.T) {
	live(t, providertest.Always(providertest.Script{Setup: providertest.SetupAuth}), func(w *world) {
		w.approve(plan(time.Hour, []string{"a", "x"}))
		w.sleep(time.Minute)
		w.expect("failed a:failed")
		if a := w.attempt("a"); a.State != coord.AttemptNotSent || a.Cause != provider.CauseAuth || a.Number != 1 {
			t.Errorf("the attempt is %s (%s), number %d", a.State, a.Cause, a.Number)
		}
	})
}

func TestACrashAfterTheSendIsUnknownAndNothingIsSentAgain(t *testing.T) {
	live(t, providertest.Always(completes(time.Minute, "late")), func(w *world) {
		w.approve(plan(time.Hour, []string{"a", "x"}, []string{"b", "y", "a"}))
		w.crash()
		w.begin()
		w.sleep(2 * time.Minute)
		w.expect("needs_attention a:unknown b:blocked")
		a := w.attempt("a")
		if a.Activity != coord.Ended || a.Receipt == nil || len(a.Evidence) == 0 {
			t.Errorf("the unknown attempt: activity %s, receipt %v, evidence %v", a.Activity, a.Receipt, a.Evidence)
		}
		if n := len(w.fake.Sent()); n != 1 {
			t.Errorf("the work was sent %d times", n)
		}
		if n := w.leases(); n != 0 {
			t.Errorf("an attempt that cannot run holds %d leases", n)
		}
	})
}

func TestACrashInPreparationIsNotSentAndTriedAgain(t *testing.T) {
	n := 0
	script := func(provider.Work) providertest.Script {
		n++
		s := completes(0, "ok")
		if n == 1 {
			s.SetupDelay = time.Minute
		}
		return s
	}
	live(t, script, func(w *world) {
		w.approve(plan(time.Hour, []string{"a", "x"}))
		if got := w.attempt("a").State; got != coord.AttemptPreparing {
			t.Fatalf("the attempt is %s", got)
		}
		w.crash()
		w.begin()
		w.sleep(5 * time.Second)
		w.expect("completed a:completed")
		if a := w.attempt("a"); a.Number != 2 {
			t.Errorf("attempt %d completed", a.Number)
		}
	})
}

func ask(then ...providertest.Step) providertest.Script {
	return providertest.Script{Steps: append([]providertest.Step{
		{Do: providertest.Ask, Name: "q", Text: "run ls", Options: providertest.YesNo()},
		{Do: providertest.Await, Name: "q"},
	}, then...)}
}

func TestARequestWaitsForTheOperatorAndTheAnswerReachesTheAgent(t *testing.T) {
	script := ask(providertest.Step{Do: providertest.Say, Text: "done"}, providertest.Step{Do: providertest.End, State: coord.AttemptCompleted})
	live(t, providertest.Always(script), func(w *world) {
		w.approve(plan(time.Hour, []string{"a", "x"}))
		w.sleep(10 * time.Minute)
		w.expect("running a:waiting")
		r := w.requests()[0]
		w.update(func(tx *journal.Tx) error {
			_, err := tx.DecideRequest(r.ID, coord.Choice{On: coord.DecisionDeny, By: operator})
			return err
		})
		w.sleep(time.Second)
		w.expect("completed a:completed")
		r = w.requests()[0]
		if r.Decision != coord.DecisionDenied || r.Delivery != coord.DeliveryDelivered || r.Decided.By.Credential != "crd_1" {
			t.Errorf("the request is %s, %s, by %+v", r.Decision, r.Delivery, r.Decided.By)
		}
		if got := w.fake.Answered(r.Attempt); len(got) != 1 || got[0].Option != "no" {
			t.Errorf("the agent was answered %+v", got)
		}
	})
}

func TestACrashWithdrawsOpenRequestsAndALaterApprovalConflicts(t *testing.T) {
	live(t, providertest.Always(ask()), func(w *world) {
		w.approve(plan(time.Hour, []string{"a", "x"}))
		r := w.requests()[0]
		w.crash()
		w.begin()
		w.expect("needs_attention a:unknown")
		after := w.requests()[0]
		if after.Decision != coord.DecisionWithdrawn || after.Decided.Reason == "" {
			t.Errorf("the request is %s because %q", after.Decision, after.Decided.Reason)
		}
		err := w.journal.Update(context.Background(), func(tx *journal.Tx) error {
			_, err := tx.DecideRequest(r.ID, coord.Choice{On: coord.DecisionApprove, By: operator})
			return err
		})
		if coord.CodeOf(err) != coord.Conflict {
			t.Errorf("approving after the loss gave %v", err)
		}
	})
}

func TestADecisionThatWasNotDeliveredBeforeACrashIsUndeliverable(t *testing.T) {
	live(t, providertest.Always(ask()), func(w *world) {
		w.approve(plan(time.Hour, []string{"a", "x"}))
		r := w.requests()[0]
		w.scheduler.mu.Lock()
		w.scheduler.busy[r.ID] = true // the delivery is held up
		w.scheduler.mu.Unlock()
		w.update(func(tx *journal.Tx) error {
			_, err := tx.DecideRequest(r.ID, coord.Choice{On: coord.DecisionApprove, By: operator})
			return err
		})
		w.crash()
		w.begin()
		after := w.requests()[0]
		if after.Decision != coord.DecisionApproved || after.Delivery != coord.DeliveryUndeliverable {
			t.Errorf("the request is %s, %s", after.Decision, after.Delivery)
		}
	})
}

func (w *world) cancel(key string) {
	w.t.Helper()
	w.update(func(tx *journal.Tx) error {
		_, err := tx.CancelAttempt(w.latest(tx, key), coord.CauseOperator, operator)
		return err
	})
	synctest.Wait()
}

func (w *world) latest(tx *journal.Tx, key string) coord.AttemptID {
	w.t.Helper()
	jobs, err := tx.Jobs(0, 1)
	if err != nil {
		w.t.Fatal(err)
	}
	a, err := tx.Attempt(coord.AttemptRef{Task: coord.TaskRef{Job: coord.JobRef{ID: jobs[0].ID}, Key: key}})
	if err != nil {
		w.t.Fatal(err)
	}
	return a.ID
}

func TestAStopIsToldAsWhatItIs(t *testing.T) {
	long := func(on providertest.OnCancel) providertest.Script {
		s := completes(time.Minute, "done")
		s.Cancel = on
		return s
	}
	overtaken := long(providertest.CancelObey)
	overtaken.CancelSteps = []providertest.Step{{Do: providertest.Say, Text: "x"}, {Do: providertest.End, State: coord.AttemptCompleted}}
	for _, c := range []struct {
		name     string
		script   providertest.Script
		wait     time.Duration
		attempt  coord.AttemptState
		cancel   coord.CancelState
		activity coord.ActivityState
		job      string
	}{
		{"confirmed by the provider", long(providertest.CancelObey), time.Second, coord.AttemptCancelled, coord.CancelConfirmed, "", "cancelled a:cancelled"},
		{"another end came first", overtaken, time.Second, coord.AttemptCompleted, coord.CancelOvertaken, "", "completed a:completed"},
		{"still waiting within the window", long(providertest.CancelIgnore), 29 * time.Second, coord.AttemptWorking, coord.CancelRequested, "", "running a:running"},
		{"no word within the window", long(providertest.CancelIgnore), 31 * time.Second, coord.AttemptUnknown, coord.CancelUnknown, coord.Ended, "needs_attention a:unknown"},
		{"the route cannot", long(providertest.CancelCannot), time.Second, coord.AttemptUnknown, coord.CancelUnsupported, coord.MayRun, "needs_attention a:unknown"},
		{"the route cannot, and the end is found later", long(providertest.CancelCannot), 2 * time.Minute, coord.AttemptCompleted, coord.CancelOvertaken, "", "completed a:completed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.script.Steps = append([]providertest.Step{{Do: providertest.Say, Text: "working"}}, c.script.Steps...)
			live(t, providertest.Always(c.script), func(w *world) {
				w.approve(plan(time.Hour, []string{"a", "x"}))
				w.sleep(time.Second)
				w.cancel("a")
				w.sleep(c.wait)
				a := w.attempt("a")
				if a.State != c.attempt || a.Cancel.State != c.cancel || a.Activity != c.activity {
					t.Errorf("attempt %s (%s), cancellation %s, activity %q", a.State, a.Reason, a.Cancel.State, a.Activity)
				}
				w.expect(c.job)
				if n := len(w.fake.Sent()); n != 1 {
					t.Errorf("sent %d times", n)
				}
			})
		})
	}
}

func TestAStopBeforeTheSendIsFinalAndSendsNothing(t *testing.T) {
	s := completes(0, "ok")
	s.SetupDelay = time.Minute
	live(t, providertest.Always(s), func(w *world) {
		w.approve(plan(time.Hour, []string{"a", "x"}))
		w.cancel("a")
		w.expect("cancelled a:cancelled")
		w.sleep(2 * time.Minute)
		if a := w.attempt("a"); a.State != coord.AttemptCancelled || a.Cancel.State != coord.CancelConfirmed || len(w.fake.Sent()) != 0 {
			t.Errorf("attempt %s, cancellation %s, %d sent", a.State, a.Cancel.State, len(w.fake.Sent()))
		}
	})
}

func TestARequestThatComesAfterTheStopIsBornWithdrawn(t *testing.T) {
	s := completes(time.Minute, "done")
	s.CancelSteps = []providertest.Step{{Do: providertest.Ask, Name: "q", Text: "once more", Options: providertest.YesNo()}, {Do: providertest.End, State: coord.AttemptCancelled, After: time.Second}}
	live(t, providertest.Always(s), func(w *world) {
		w.approve(plan(time.Hour, []string{"a", "x"}))
		w.cancel("a")
		w.sleep(2 * time.Second)
		w.expect("cancelled a:cancelled")
		if r := w.requests(); len(r) != 1 || r[0].Decision != coord.DecisionWithdrawn {
			t.Errorf("requests: %+v", r)
		}
	})
}

func TestTheCancelWindowCountsWakingTimeAndTheDeadlineCountsSleep(t *testing.T) {
	s := completes(time.Hour, "done")
	s.Cancel = providertest.CancelIgnore
	live(t, providertest.Always(s), func(w *world) {
		w.approve(plan(90*time.Minute, []string{"a", "x"}))
		w.cancel("a")
		w.shift(func() { w.slept += time.Hour })
		w.sleep(20 * time.Second)
		if a := w.attempt("a"); a.Cancel.State != coord.CancelRequested {
			t.Errorf("sleep ran the window down: %s", a.Cancel.State)
		}
		w.sleep(11 * time.Second)
		if a := w.attempt("a"); a.Cancel.State != coord.CancelUnknown {
			t.Errorf("the window did not end: %s", a.Cancel.State)
		}
	})
	live(t, providertest.Always(completes(time.Hour, "done")), func(w *world) {
		w.approve(plan(time.Hour, []string{"a", "x"}, []string{"b", "y", "a"}))
		w.shift(func() { w.wall -= 24 * time.Hour }) // no clock change moves a deadline
		w.sleep(10 * time.Minute)
		w.expect("running a:running b:blocked")
		w.shift(func() { w.slept += 50 * time.Minute })
		w.sleep(2 * time.Second)
		w.expect("failed a:failed b:skipped")
		if a := w.attempt("a"); a.State != coord.AttemptCancelled || a.Cancel.Cause != coord.CauseDeadline {
			t.Errorf("the attempt is %s by %s", a.State, a.Cancel.Cause)
		}
	})
}

func TestTheDeadlineSurvivesAReboot(t *testing.T) {
	live(t, providertest.Always(completes(time.Hour, "done")), func(w *world) {
		w.approve(plan(time.Hour, []string{"a", "x"}, []string{"b", "x"}))
		w.sleep(10 * time.Minute)
		w.crash()
		w.shift(func() { w.boot, w.start, w.wall = "boot-2", time.Now(), 55*time.Minute })
		w.begin()
		w.sleep(time.Second)
		w.expect("needs_attention a:unknown b:skipped")
	})
}

func TestOpenRequestsExpireAtTheDeadline(t *testing.T) {
	live(t, providertest.Always(ask()), func(w *world) {
		w.approve(plan(time.Minute, []string{"a", "x"}))
		w.sleep(2 * time.Minute)
		w.expect("failed a:failed")
		if r := w.requests()[0]; r.Decision != coord.DecisionExpired {
			t.Errorf("the request is %s", r.Decision)
		}
	})
}

func TestTheOperatorResolvesAnUnknown(t *testing.T) {
	for _, c := range []struct {
		how  coord.ResolutionKind
		want string
	}{
		{coord.Adopted, "running a:completed b:running"},
		{coord.NeverRan, "failed a:failed b:skipped"},
		{coord.Abandoned, "failed a:failed b:skipped"},
	} {
		t.Run(string(c.how), func(t *testing.T) {
			live(t, providertest.Always(completes(time.Minute, "x")), func(w *world) {
				w.approve(plan(time.Hour, []string{"a", "x"}, []string{"b", "y", "a"}))
				w.crash()
				w.begin()
				w.expect("needs_attention a:unknown b:blocked")
				w.update(func(tx *journal.Tx) error {
					_, err := tx.ResolveAttempt(w.latest(tx, "a"), coord.Resolution{How: c.how, Reason: "looked at the logs", By: operator})
					return err
				})
				w.sleep(time.Second)
				w.expect(c.want)
				if a := w.attempt("a"); a.State != coord.AttemptUnknown {
					t.Errorf("a resolution is no observation, but the attempt is %s", a.State)
				}
			})
		})
	}
}

func TestPauseAdmitsNothingMoreAndLetsWhatRunsFinish(t *testing.T) {
	live(t, providertest.Always(completes(time.Minute, "x")), func(w *world) {
		w.approve(plan(time.Hour, []string{"a", "x"}, []string{"b", "y", "a"}))
		if err := w.scheduler.SetPaused(context.Background(), true, operator); err != nil {
			t.Fatal(err)
		}
		w.sleep(2 * time.Minute)
		w.expect("running a:completed b:ready")
		if err := w.scheduler.SetPaused(context.Background(), false, operator); err != nil {
			t.Fatal(err)
		}
		w.sleep(2 * time.Minute)
		w.expect("completed a:completed b:completed")
	})
}

func TestDrainWaitsForWhatRuns(t *testing.T) {
	live(t, providertest.Always(completes(time.Minute, "x")), func(w *world) {
		w.approve(plan(time.Hour, []string{"a", "x"}, []string{"b", "y", "a"}))
		idle := w.scheduler.Drain()
		w.sleep(30 * time.Second)
		select {
		case <-idle:
			t.Error("idle while an attempt runs")
		default:
		}
		w.sleep(time.Minute)
		select {
		case <-idle:
		default:
			t.Error("not idle after the attempt")
		}
		w.expect("running a:completed b:ready")
	})
}

func TestStoppingCancelsWhatCouldNotBeFollowedLater(t *testing.T) {
	live(t, providertest.Always(completes(time.Hour, "x")), func(w *world) {
		w.approve(plan(2*time.Hour, []string{"a", "x"}, []string{"b", "y", "a"}))
		w.end()
		if n := w.fake.Open(); n != 0 {
			t.Errorf("%d sessions are open", n)
		}
		w.begin()
		w.sleep(time.Second)
		w.expect("cancelled a:cancelled b:cancelled")
	})
}

func TestAStopBeforeTheFirstLookIsNoFailure(t *testing.T) {
	live(t, providertest.Always(completes(time.Minute, "x")), func(w *world) {
		w.approve(plan(time.Hour, []string{"a", "x"}))
		w.crash()
		stopped, stop := context.WithCancelCause(context.Background())
		stop(nil)
		w.beginUnder(stopped)
		w.end()
		w.begin()
		w.expect("needs_attention a:unknown")
	})
}

func TestAnAskableRouteIsFollowedAgainAfterACrash(t *testing.T) {
	liveOn(t, coord.RouteA2A, providertest.Always(completes(time.Minute, "done")), func(w *world) {
		w.approve(plan(time.Hour, []string{"a", "x"}))
		w.sleep(time.Second)
		w.crash()
		w.begin()
		w.expect("running a:running")
		w.sleep(2 * time.Minute)
		w.expect("completed a:completed")
		if n := len(w.fake.Sent()); n != 1 {
			t.Errorf("sent %d times", n)
		}
	})
}

func TestAQuestionOutlivesACrashOnAnAskableRouteAndIsAskedOnce(t *testing.T) {
	question := providertest.Script{Steps: []providertest.Step{{Do: providertest.Ask, Name: "q", Text: "Which colour?"}, {Do: providertest.Await, Name: "q"},
		{Do: providertest.Say, Text: "done"}, {Do: providertest.End, State: coord.AttemptCompleted}}}
	answer := func(w *world, id coord.RequestID) {
		w.update(func(tx *journal.Tx) error {
			_, err := tx.DecideRequest(id, coord.Choice{On: coord.DecisionAnswer, Answer: "red", By: operator})
			return err
		})
	}
	for _, c := range []struct {
		name   string
		before func(w *world, id coord.RequestID) // the crash
		open   int                                // requests after it, the newest of which is answered
		first  coord.DeliveryState
	}{
		{"while it is open", func(*world, coord.RequestID) {}, 1, coord.DeliveryDelivered},
		{"while its answer is on its way", func(w *world, id coord.RequestID) {
			w.update(func(tx *journal.Tx) error {
				r, err := tx.DecideRequest(id, coord.Choice{On: coord.DecisionAnswer, Answer: "red", By: operator})
				if err != nil {
					return err
				}
				if r, err = r.Deliver(coord.DeliveryStart, ""); err != nil {
					return err
				}
				return tx.PutRequest(r, nil)
			})
		}, 2, coord.DeliveryUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			liveOn(t, coord.RouteA2A, providertest.Always(question), func(w *world) {
				w.approve(plan(time.Hour, []string{"a", "x"}))
				w.sleep(time.Second)
				c.before(w, w.requests()[0].ID)
				w.crash()
				w.begin()
				w.sleep(time.Second)
				w.expect("running a:waiting")
				all := w.requests() // newest first
				if len(all) != c.open {
					t.Fatalf("there are %d requests, want %d", len(all), c.open)
				}
				answer(w, all[0].ID)
				w.sleep(time.Second)
				w.expect("completed a:completed")
				all = w.requests()
				if got := all[len(all)-1].Delivery; got != c.first {
					t.Errorf("the answer to the first request is %s, want %s", got, c.first)
				}
				if n := len(w.fake.Answered(w.attempt("a").ID)); n != 1 {
					t.Errorf("the agent was answered %d times", n)
				}
			})
		})
	}
}

func TestAnAnswerThatTheProviderRestatesIsTheStatement(t *testing.T) {
	s := providertest.Script{Steps: []providertest.Step{{Do: providertest.Say, Text: "a draft"},
		{Do: providertest.End, State: coord.AttemptCompleted, Text: "the answer, with hunter2-hunter2-hunter2"}}}
	live(t, providertest.Always(s), func(w *world) {
		w.secret.Add("PASS", "hunter2-hunter2-hunter2")
		w.approve(plan(time.Hour, []string{"a", "x"}))
		w.sleep(5 * time.Second)
		a := w.attempt("a")
		if want := "the answer, with [redacted:PASS]"; a.Statement == nil || a.Statement.Text != want {
			t.Errorf("the statement is %+v, want %q", a.Statement, want)
		}
	})
}

func TestSecretsInStreamedTextAreNotKept(t *testing.T) {
	secret := "hunter2-hunter2-hunter2"
	s := providertest.Script{Steps: []providertest.Step{
		{Do: providertest.Say, Text: "the value is hunter2-hun"},
		{Do: providertest.Say, Text: "ter2-hunter2, said the agent", After: time.Second},
		{Do: providertest.End, State: coord.AttemptCompleted, After: time.Second},
	}}
	live(t, providertest.Always(s), func(w *world) {
		w.secret.Add("PASS", secret)
		w.approve(plan(time.Hour, []string{"a", "x"}))
		w.sleep(5 * time.Second)
		a := w.attempt("a")
		if want := "the value is [redacted:PASS], said the agent"; a.Statement == nil || a.Statement.Text != want {
			t.Errorf("the statement is %+v, want %q", a.Statement, want)
		}
		w.view(func(v *journal.View) error {
			events, err := v.Events(0, journal.EventFilter{}, 1000)
			for _, e := range events {
				if strings.Contains(string(e.Data), "hunter2") {
					t.Errorf("event %d (%s) holds a part of the secret: %s", e.Seq, e.Kind, e.Data)
				}
			}
			return err
		})
	})
}

func TestAJobThatUsedItsTokensSendsNothingMore(t *testing.T) {
	s := providertest.Script{Steps: []providertest.Step{
		{Do: providertest.Spend, Usage: &coord.Usage{TotalTokens: 120, Source: "provider"}},
		{Do: providertest.Say, Text: "ok"},
		{Do: providertest.End, State: coord.AttemptCompleted},
	}}
	live(t, providertest.Always(s), func(w *world) {
		p := plan(time.Hour, []string{"a", "x"}, []string{"b", "y", "a"})
		p.Limits.Tokens = 100
		w.approve(p)
		w.sleep(time.Second)
		w.expect("failed a:completed b:failed")
		if n := len(w.fake.Sent()); n != 1 {
			t.Errorf("sent %d times", n)
		}
	})
}
