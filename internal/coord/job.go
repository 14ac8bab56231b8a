package coord

import "time"

// Job is a plan on its way: drafted, approved, run.
type Job struct {
	ID JobID `json:"id"`
	// Number is the short name, from 1.
	Number int64    `json:"number"`
	State  JobState `json:"state"`
	// Revision counts the edits of the draft, from 1; If-Match carries it.
	Revision int `json:"revision"`
	// Plan is absent in lists.
	Plan Plan `json:"plan,omitzero"`
	// From says which job this one retries or continues.
	From *JobOrigin `json:"from,omitempty"`
	// Frozen is the exact plan of this revision, once made.
	Frozen *Frozen `json:"frozen,omitempty"`
	Grant  *Grant  `json:"grant,omitempty"`
	// Title, Deadline and Limits are those of the plan.
	Title    string   `json:"title"`
	Deadline Duration `json:"deadline"`
	Limits   Limits   `json:"limits,omitzero"`
	Drafted  Moment   `json:"drafted"`
	By       Actor    `json:"by"`
	Started  *Moment  `json:"started,omitempty"`
	// Spent is what of the deadline had passed at Counted, which is set when the
	// machine was started anew since.
	Spent   Duration `json:"spent,omitempty"`
	Counted *Moment  `json:"counted,omitempty"`
	Ended   *Moment  `json:"ended,omitempty"`
}

// JobOrigin ties a drafted-again job to the one before.
type JobOrigin struct {
	Job    JobID `json:"job"`
	Number int64 `json:"number"`
	// How is "retry" or "continue".
	How string `json:"how"`
}

// Left is the time until the deadline at now, sleep counted; negative when it
// has passed.
func (j Job) Left(now Moment) time.Duration {
	if j.Started == nil {
		return time.Duration(j.Deadline)
	}
	return time.Duration(j.Deadline-j.Spent) - now.Since(j.counted())
}

func (j Job) counted() Moment {
	if j.Counted != nil {
		return *j.Counted
	}
	return *j.Started
}

// CarryOver counts what passed before the machine was started anew: up to last,
// the last that is known of before, by the clock that no change of the wall
// clock moves, and from there to begun by the wall clock, never back. Without
// it, a wall clock that was ahead when the job began, and was set right before
// the machine was started anew, would push its deadline out.
func (j Job) CarryOver(last, begun Moment) Job {
	if j.Started == nil || j.counted().BootID == begun.BootID {
		return j
	}
	j.Spent += Duration(last.Since(j.counted()) + max(0, begun.Wall.Sub(last.Wall)))
	j.Counted = &begun
	return j
}

// Apply moves the job, or is a Conflict.
func (j Job) Apply(on JobEvent, at Moment) (Job, error) {
	to, err := Jobs.Next(j.State, on)
	if err != nil {
		return j, err
	}
	j.State = to
	if Jobs.Final(to) {
		j.Ended = &at
	}
	return j, nil
}

// Follow gives the event that the states of its tasks mean for a started job,
// "" when it stays as it is. While anything can move the job runs; then an
// unresolved unknown needs attention, else a failed or skipped task fails it,
// else a cancelled one cancels it, else it completed.
func (j Job) Follow(tasks []Task) JobEvent {
	if j.State != JobRunning && j.State != JobAttention {
		return ""
	}
	count := map[TaskState]int{}
	for _, t := range tasks {
		count[t.State]++
	}
	moving := count[TaskReady] + count[TaskRunning] + count[TaskWaiting]
	for _, t := range tasks {
		if t.State == TaskBlocked && !heldByUnknown(t, tasks) {
			moving++
		}
	}
	switch {
	case moving > 0:
		if j.State == JobAttention {
			return JobMove
		}
		return ""
	case count[TaskUnknown] > 0:
		if j.State == JobRunning {
			return JobStick
		}
		return ""
	case count[TaskFailed]+count[TaskSkipped] > 0:
		return JobFail
	case count[TaskCancelled] > 0:
		return JobCancel
	default:
		return JobComplete
	}
}

// heldByUnknown reports whether a blocked task cannot move until an unknown
// task above it is resolved.
func heldByUnknown(t Task, tasks []Task) bool {
	for _, need := range t.Needs {
		for _, n := range tasks {
			if n.Key == need && (n.State == TaskUnknown || n.State == TaskBlocked && heldByUnknown(n, tasks)) {
				return true
			}
		}
	}
	return false
}

// Task is one task of a started job.
type Task struct {
	ID    TaskID    `json:"id"`
	Job   JobID     `json:"job"`
	Key   string    `json:"key"`
	Index int       `json:"index"`
	Agent AgentID   `json:"agent"`
	State TaskState `json:"state"`
	// Needs are the keys of the tasks that this one waits for.
	Needs  []string `json:"needs,omitempty"`
	Writes bool     `json:"writes,omitempty"`
	// Reason says why the task is in its state, where the name does not.
	Reason string `json:"reason,omitempty"`
	// Attempts counts those made so far.
	Attempts int `json:"attempts"`
	// Attempt is the latest.
	Attempt AttemptID `json:"attempt,omitempty"`
	Changed Moment    `json:"changed"`
}

// Apply moves the task, or is a Conflict.
func (t Task) Apply(on TaskEvent, reason string, at Moment) (Task, error) {
	to, err := Tasks.Next(t.State, on)
	if err != nil {
		return t, err
	}
	t.State, t.Reason, t.Changed = to, reason, at
	return t, nil
}

// Follow gives the event and reason that the state of its latest attempt means
// for a task, "" when the task stays as it is: what its table does not list
// from here, such as a second end, is not meant.
func (t Task) Follow(a Attempt) (TaskEvent, string) {
	on, reason := t.meant(a)
	if _, err := Tasks.Next(t.State, on); err != nil {
		return "", ""
	}
	return on, reason
}

func (t Task) meant(a Attempt) (TaskEvent, string) {
	const late = "the deadline passed"
	deadline := a.Cancel.Cause == CauseDeadline
	switch a.State {
	case AttemptSending, AttemptAccepted, AttemptWorking:
		return TaskResume, ""
	case AttemptWaiting:
		return TaskAsk, ""
	case AttemptCompleted:
		return TaskComplete, ""
	case AttemptFailed, AttemptRejected:
		return TaskFail, a.Reason
	case AttemptCancelled:
		if deadline {
			return TaskFail, late
		}
		return TaskCancel, a.Reason
	case AttemptNotSent:
		switch stopped := a.Cancel.Cause != "" && a.Cancel.Cause != CauseShutdown; {
		case stopped && deadline:
			return TaskFail, late
		case stopped:
			return TaskCancel, a.Reason
		case a.Transient && t.Attempts < MaxAttempts:
			return TaskAgain, a.Reason
		}
		return TaskFail, a.Reason
	case AttemptUnknown:
		if a.Resolution != nil {
			return a.Resolution.follow()
		}
		return TaskLose, a.Reason
	case AttemptQueued, AttemptPreparing:
	}
	return "", ""
}
