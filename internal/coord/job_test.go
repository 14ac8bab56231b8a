package coord_test

import (
	"testing"
	"time"

	"signalbox/internal/coord"
)

func TestJobFollowsItsTasks(t *testing.T) {
	const (
		blocked, ready, running, waiting     = coord.TaskBlocked, coord.TaskReady, coord.TaskRunning, coord.TaskWaiting
		done, failed, stopped, skipped, lost = coord.TaskCompleted, coord.TaskFailed, coord.TaskCancelled, coord.TaskSkipped, coord.TaskUnknown
	)
	task := func(key string, s coord.TaskState, needs ...string) coord.Task {
		return coord.Task{Key: key, State: s, Needs: needs}
	}
	cases := []struct {
		name  string
		state coord.JobState
		tasks []coord.Task
		want  coord.JobEvent
	}{
		{"all completed", coord.JobRunning, []coord.Task{task("a", done), task("b", done)}, coord.JobComplete},
		{"one still runs", coord.JobRunning, []coord.Task{task("a", failed), task("b", running)}, ""},
		{"one waits for the operator", coord.JobRunning, []coord.Task{task("a", waiting)}, ""},
		{"failed beats cancelled", coord.JobRunning, []coord.Task{task("a", failed), task("b", stopped)}, coord.JobFail},
		{"skipped is failed", coord.JobRunning, []coord.Task{task("a", done), task("b", skipped)}, coord.JobFail},
		{"cancelled", coord.JobRunning, []coord.Task{task("a", done), task("b", stopped)}, coord.JobCancel},
		{"unknown beats failed", coord.JobRunning, []coord.Task{task("a", failed), task("b", lost)}, coord.JobStick},
		{"unknown while another moves", coord.JobRunning, []coord.Task{task("a", lost), task("b", ready)}, ""},
		{"only dependants of an unknown are left", coord.JobRunning,
			[]coord.Task{task("a", lost), task("b", blocked, "a"), task("c", blocked, "b")}, coord.JobStick},
		{"another branch is still blocked by what moves", coord.JobRunning,
			[]coord.Task{task("a", lost), task("b", running), task("c", blocked, "b")}, ""},
		{"stuck already", coord.JobAttention, []coord.Task{task("a", lost)}, ""},
		{"resolved, and a dependant may go", coord.JobAttention, []coord.Task{task("a", done), task("b", ready, "a")}, coord.JobMove},
		{"resolved and over", coord.JobAttention, []coord.Task{task("a", failed)}, coord.JobFail},
		{"adopted and over", coord.JobAttention, []coord.Task{task("a", done)}, coord.JobComplete},
		{"a draft follows nothing", coord.JobDraft, []coord.Task{task("a", done)}, ""},
		{"an ended job follows nothing", coord.JobFailed, []coord.Task{task("a", done)}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := coord.Job{State: c.state}.Follow(c.tasks)
			if got != c.want {
				t.Errorf("Follow = %q, want %q", got, c.want)
			}
			if got != "" {
				if _, err := coord.Jobs.Next(c.state, got); err != nil {
					t.Errorf("the table does not list it: %v", err)
				}
			}
		})
	}
}

func TestTaskFollowsItsAttempt(t *testing.T) {
	type attempt = coord.Attempt
	stopped := func(c coord.CancelCause, s coord.CancelState) coord.Cancellation {
		return coord.Cancellation{State: s, Cause: c}
	}
	cases := []struct {
		name    string
		task    coord.TaskState
		tries   int
		attempt attempt
		want    coord.TaskEvent
	}{
		{"works", coord.TaskRunning, 1, attempt{State: coord.AttemptWorking}, ""},
		{"works again", coord.TaskWaiting, 1, attempt{State: coord.AttemptWorking}, coord.TaskResume},
		{"is found working", coord.TaskUnknown, 1, attempt{State: coord.AttemptWorking}, coord.TaskResume},
		{"asks", coord.TaskRunning, 1, attempt{State: coord.AttemptWaiting}, coord.TaskAsk},
		{"asks on", coord.TaskWaiting, 1, attempt{State: coord.AttemptWaiting}, ""},
		{"completed", coord.TaskRunning, 1, attempt{State: coord.AttemptCompleted}, coord.TaskComplete},
		{"completed, seen again", coord.TaskCompleted, 1, attempt{State: coord.AttemptCompleted}, ""},
		{"failed", coord.TaskWaiting, 1, attempt{State: coord.AttemptFailed}, coord.TaskFail},
		{"refused", coord.TaskRunning, 1, attempt{State: coord.AttemptRejected}, coord.TaskFail},
		{"stopped by the operator", coord.TaskRunning, 1, attempt{State: coord.AttemptCancelled, Cancel: stopped(coord.CauseOperator, coord.CancelConfirmed)}, coord.TaskCancel},
		{"stopped by the deadline", coord.TaskRunning, 1, attempt{State: coord.AttemptCancelled, Cancel: stopped(coord.CauseDeadline, coord.CancelConfirmed)}, coord.TaskFail},
		{"lost", coord.TaskRunning, 1, attempt{State: coord.AttemptUnknown}, coord.TaskLose},
		{"still lost", coord.TaskUnknown, 1, attempt{State: coord.AttemptUnknown}, ""},
		{"adopted", coord.TaskUnknown, 1, attempt{State: coord.AttemptUnknown, Resolution: &coord.Resolution{How: coord.Adopted}}, coord.TaskComplete},
		{"never ran", coord.TaskUnknown, 1, attempt{State: coord.AttemptUnknown, Resolution: &coord.Resolution{How: coord.NeverRan}}, coord.TaskFail},
		{"abandoned", coord.TaskUnknown, 1, attempt{State: coord.AttemptUnknown, Resolution: &coord.Resolution{How: coord.Abandoned}}, coord.TaskFail},
		{"not sent, may pass", coord.TaskRunning, 1, attempt{State: coord.AttemptNotSent, Transient: true}, coord.TaskAgain},
		{"not sent, seen again", coord.TaskReady, 1, attempt{State: coord.AttemptNotSent, Transient: true}, ""},
		{"not sent, will not pass", coord.TaskRunning, 1, attempt{State: coord.AttemptNotSent}, coord.TaskFail},
		{"not sent once too often", coord.TaskRunning, coord.MaxAttempts, attempt{State: coord.AttemptNotSent, Transient: true}, coord.TaskFail},
		{"not sent while the operator stops it", coord.TaskRunning, 1,
			attempt{State: coord.AttemptNotSent, Transient: true, Cancel: stopped(coord.CauseOperator, coord.CancelConfirmed)}, coord.TaskCancel},
		{"not sent while the deadline stops it", coord.TaskRunning, 1,
			attempt{State: coord.AttemptNotSent, Transient: true, Cancel: stopped(coord.CauseDeadline, coord.CancelConfirmed)}, coord.TaskFail},
		{"not sent while Signalbox stops", coord.TaskRunning, 1,
			attempt{State: coord.AttemptNotSent, Transient: true, Cancel: stopped(coord.CauseShutdown, coord.CancelConfirmed)}, coord.TaskAgain},
		{"being prepared", coord.TaskRunning, 1, attempt{State: coord.AttemptPreparing}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got, _ := (coord.Task{State: c.task, Attempts: c.tries}).Follow(c.attempt); got != c.want {
				t.Errorf("Follow = %q, want %q", got, c.want)
			}
		})
	}
}

func TestWhatATaskFollowsIsAlwaysListed(t *testing.T) {
	for _, ts := range coord.Tasks.States() {
		for _, as := range coord.Attempts.States() {
			on, _ := coord.Task{State: ts}.Follow(coord.Attempt{State: as})
			if on == "" {
				continue
			}
			if _, err := coord.Tasks.Next(ts, on); err != nil {
				t.Errorf("task %s with attempt %s: %v", ts, as, err)
			}
		}
	}
}

func TestADeadlineIsNotPushedOutByAClockThatWasSetRightBeforeARestart(t *testing.T) {
	at := func(wall string, boot string, since time.Duration) coord.Moment {
		w, err := time.Parse(time.TimeOnly, wall)
		if err != nil {
			t.Fatal(err)
		}
		return coord.Moment{Wall: w, BootID: boot, Boot: since, Awake: since}
	}
	for _, c := range []struct {
		name               string
		started, last, now coord.Moment
		begun              coord.Moment
		want               time.Duration
	}{
		{"ahead when it began", at("13:00:00", "a", time.Hour), at("12:10:00", "a", 70*time.Minute), at("12:30:00", "b", 20*time.Minute), at("12:10:00", "b", 0), 90 * time.Minute},
		{"right all the time", at("12:00:00", "a", time.Hour), at("12:10:00", "a", 70*time.Minute), at("12:30:00", "b", 10*time.Minute), at("12:20:00", "b", 0), 90 * time.Minute},
		{"set back while it was off", at("12:00:00", "a", time.Hour), at("12:10:00", "a", 70*time.Minute), at("12:30:00", "b", 20*time.Minute), at("12:10:00", "b", 0), 90 * time.Minute},
		{"not started anew", at("12:00:00", "a", time.Hour), at("12:10:00", "a", 70*time.Minute), at("09:00:00", "a", 90*time.Minute), at("12:20:00", "a", 80*time.Minute), 90 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := coord.Job{Deadline: coord.Duration(2 * time.Hour), Started: &c.started}
			if got := j.CarryOver(c.last, c.begun).Left(c.now); got != c.want {
				t.Errorf("%s are left, want %s", got, c.want)
			}
			if again := j.CarryOver(c.last, c.begun).CarryOver(c.now, c.begun).Left(c.now); again != c.want {
				t.Errorf("counted twice: %s are left, want %s", again, c.want)
			}
		})
	}
}
