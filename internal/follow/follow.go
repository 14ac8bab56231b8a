package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"signalbox/internal/approval"
	"signalbox/internal/client"
	"signalbox/internal/coord"
	"signalbox/internal/screen"
)

// ErrNeeded ends what only the operator can take further.
var ErrNeeded = errors.New("the operator is needed")

// errDone ends a stream of events whose job is over.
var errDone = errors.New("done")

// Job is one job on a screen.
type Job struct {
	*screen.Screen
	client *client.Client
	job    coord.Job
	// through waits on when the operator is needed and cannot be asked, and when
	// an outcome is unknown.
	through bool
	// Operator puts an open request before whoever decides it; its error ends the
	// following. New sets it: the person at the terminal is asked. Without one, how
	// to decide it is written, and ErrNeeded ends the following unless through.
	Operator func(ctx context.Context, r coord.Request) error

	keys map[coord.TaskID]string
	// texts are what the tasks write.
	texts *screen.Live
	asked map[coord.RequestID]bool
	// told are the effects that were told of, shown what was last said of a task.
	told  map[coord.RequestID]bool
	shown map[string]string
}

// New makes a job ready to be followed on a screen. With through, neither a need
// of the operator where nobody can be asked nor an unknown outcome ends it.
func New(s *screen.Screen, c *client.Client, j coord.Job, through bool) *Job {
	f := &Job{
		Screen: s, client: c, job: j, through: through,
		keys: map[coord.TaskID]string{}, texts: screen.NewLive(s), asked: map[coord.RequestID]bool{},
		told: map[coord.RequestID]bool{}, shown: map[string]string{},
	}
	if f.Operator = f.tell; s.Asks {
		f.Operator = f.ask
	}
	return f
}

// over reports whether nothing more happens to a job by itself.
func over(s coord.JobState) bool { return s == coord.JobDraft || coord.Jobs.Final(s) }

// Run follows from a cursor of the events on, until the job is over or, without
// through, its outcome is unknown, and gives its state then. The error is
// ErrNeeded when the operator is, the cause of ctx when that ended, or what went
// wrong. The job itself goes on whatever the error. On a screen of JSON the job's
// result is what is written.
func (f *Job) Run(ctx context.Context, cursor string) (coord.JobState, error) {
	tasks, err := f.client.Tasks(ctx, string(f.job.ID))
	if err != nil {
		return f.job.State, err
	}
	for _, t := range tasks {
		f.keys[t.ID] = t.Key
	}
	err = f.catchUp(ctx)
	if err == nil {
		err = f.client.Follow(ctx, client.Filter{Job: string(f.job.ID), After: cursor}, func(e coord.Event) error { return f.event(ctx, e) })
	}
	if err != nil && !errors.Is(err, errDone) && !errors.Is(err, ErrNeeded) {
		if ctx.Err() != nil {
			_ = f.texts.Flush() // the end of ctx is what is told
			f.Say("job %d runs on; stop it with signalbox job cancel %d", f.job.Number, f.job.Number)
		}
		return f.job.State, err
	}
	if ferr := f.texts.Flush(); ferr != nil {
		return f.job.State, ferr
	}
	if f.JSON {
		r, rerr := f.client.Result(ctx, string(f.job.ID))
		if rerr == nil {
			rerr = f.Document(r)
		}
		if rerr != nil {
			return f.job.State, rerr
		}
	}
	f.end()
	if errors.Is(err, errDone) {
		err = nil
	}
	return f.job.State, err
}

// end says how a job ended and where to look further.
func (f *Job) end() {
	n := f.job.Number
	f.Say("%s  job %d", f.Styles(screen.IsTerminal(f.Beside())).Mark(string(f.job.State)), n)
	switch f.job.State {
	case coord.JobAttention:
		f.Say("the outcome of a task is not known: signalbox inbox")
	case coord.JobCompleted, coord.JobFailed, coord.JobCancelled:
		f.Say("what was said, and by whom: signalbox job result %d", n)
	case coord.JobDraft:
		f.Say("it was not approved yet: signalbox job run %d", n)
	case coord.JobRunning:
		f.Say("it waits for you: signalbox inbox")
	}
}

// catchUp looks at what happened before the stream begins.
func (f *Job) catchUp(ctx context.Context) error {
	if over(f.job.State) {
		return errDone
	}
	if f.job.State == coord.JobAttention && !f.through {
		return errDone
	}
	in, err := f.client.Inbox(ctx)
	if err != nil {
		return err
	}
	for _, r := range in.Requests {
		if r.Job == f.job.ID {
			if err := f.needed(ctx, r.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// event writes one event.
func (f *Job) event(ctx context.Context, e coord.Event) error {
	switch e.Kind {
	case coord.AttemptText:
		var t coord.Text
		if err := json.Unmarshal(e.Data, &t); err != nil {
			return err
		}
		if f.JSON || t.Channel != coord.ChannelMessage {
			return nil
		}
		return f.texts.Write(f.named(f.keys[e.Task]), t.Text)
	case coord.AttemptActed:
		var act coord.Activity
		if err := json.Unmarshal(e.Data, &act); err != nil || act.Status != coord.ActivityStalled {
			return err
		}
		if err := f.texts.Flush(); err != nil {
			return err
		}
		f.Say("%s shows no progress, and is waited for: signalbox attempt show %d/%[1]s", f.keys[e.Task], f.job.Number)
	case coord.ChangesMoved:
		var c struct {
			Number int64                `json:"number"`
			State  coord.ChangeSetState `json:"state"`
			Files  int                  `json:"files"`
		}
		if err := json.Unmarshal(e.Data, &c); err != nil {
			return err
		}
		if c.State == coord.ChangeSetOpen {
			if err := f.texts.Flush(); err != nil {
				return err
			}
			f.Say("%s changed and held back: signalbox review c%d", screen.Plural(c.Files, "file"), c.Number)
		}
	case coord.TaskChanged:
		var t struct {
			Key    string          `json:"key"`
			State  coord.TaskState `json:"state"`
			Reason string          `json:"reason"`
		}
		if err := json.Unmarshal(e.Data, &t); err != nil {
			return err
		}
		f.keys[e.Task] = t.Key
		if err := f.texts.End(f.named(t.Key)); err != nil {
			return err
		}
		f.task(t.Key, t.State, t.Reason)
	case coord.RequestChanged:
		var r struct {
			Decision coord.DecisionState `json:"decision"`
			Effect   coord.EffectState   `json:"effect"`
		}
		if err := json.Unmarshal(e.Data, &r); err != nil {
			return err
		}
		switch {
		case r.Decision == coord.DecisionOpen:
			return f.needed(ctx, e.Request)
		case r.Decision == coord.DecisionApproved && coord.Effects.Final(r.Effect):
			return f.effect(ctx, e.Request)
		}
	case coord.JobChanged:
		var j struct {
			State coord.JobState `json:"state"`
		}
		if err := json.Unmarshal(e.Data, &j); err != nil {
			return err
		}
		f.job.State = j.State
		if over(j.State) || j.State == coord.JobAttention && !f.through {
			return errDone
		}
	default:
	}
	return nil
}

// named is a task's key where the job has several: the text of an only task
// needs no name.
func (f *Job) named(key string) string {
	if len(f.keys) < 2 {
		return ""
	}
	return key
}

// task says that a task came to another state, if that tells a person
// something: that it waits is told by its request.
func (f *Job) task(key string, state coord.TaskState, reason string) {
	switch state {
	case coord.TaskBlocked, coord.TaskReady, coord.TaskWaiting:
		return
	default:
	}
	text := f.Styles(screen.IsTerminal(f.Beside())).Mark(string(state)) + "  " + key
	if reason != "" {
		text += "  (" + screen.OneLine(reason, coord.MaxReason) + ")"
	}
	// It waits for a moment at each request that the plan grants.
	if f.shown[key] != text {
		f.shown[key] = text
		f.Say("%s", text)
	}
}

// effect says what Signalbox did because of an approval, once.
func (f *Job) effect(ctx context.Context, id coord.RequestID) error {
	if f.told[id] {
		return nil
	}
	f.told[id] = true
	r, err := f.client.Request(ctx, string(id))
	if err != nil || !r.Kind.Effective() {
		return err
	}
	if err := f.texts.Flush(); err != nil {
		return err
	}
	f.Effect(f.Beside(), r)
	return nil
}

// needed puts a request before the operator, once.
func (f *Job) needed(ctx context.Context, id coord.RequestID) error {
	if f.asked[id] {
		return nil
	}
	f.asked[id] = true
	r, err := f.client.Request(ctx, string(id))
	if err != nil || r.Decision != coord.DecisionOpen {
		return err
	}
	if err := f.texts.Flush(); err != nil {
		return err
	}
	f.Request(f.Beside(), r)
	return f.Operator(ctx, r)
}

// tell says how a request is decided where nobody can be asked.
func (f *Job) tell(_ context.Context, r coord.Request) error {
	how := fmt.Sprintf("approve r%d --digest %s", r.Number, r.Digest)
	if r.Kind == coord.Question {
		how = fmt.Sprintf("answer r%d --digest %s --text …", r.Number, r.Digest)
	}
	f.Say("     decide it: signalbox request %s\n     or: signalbox request deny r%d", how, r.Number)
	if f.through {
		return nil
	}
	return ErrNeeded
}

// ask lets the person at the terminal decide a request.
func (f *Job) ask(ctx context.Context, r coord.Request) error {
	d := approval.Decision{Digest: r.Digest}
	if r.Kind == coord.Question {
		fmt.Fprint(f.Beside(), "your answer (empty to refuse): ")
		line, err := f.ReadLine(ctx)
		if err != nil {
			return Declined(ctx, err)
		}
		d.Decision, d.Answer = coord.DecisionAnswer, strings.TrimSpace(line)
		if d.Answer == "" {
			d.Decision = coord.DecisionDeny
		}
	} else {
		yes, err := f.Ask(ctx, "allow it once?")
		if err != nil {
			return Declined(ctx, err)
		}
		if d.Decision = coord.DecisionDeny; yes {
			d.Decision = coord.DecisionApprove
		}
	}
	return f.Decide(ctx, r, d)
}

// Decide records a decision. That someone else was first stands, and is told.
func (f *Job) Decide(ctx context.Context, r coord.Request, d approval.Decision) error {
	r, err := f.client.Decide(ctx, string(r.ID), d)
	if coord.CodeOf(err) == coord.Conflict {
		f.Say("%v", err)
		return nil
	}
	if err == nil {
		f.Say("r%d is %s", r.Number, r.Decision)
	}
	return err
}

// Declined is the end of a question that was not answered with yes: no answer at
// all, which err may say, counts as no. Where ctx ended meanwhile, its cause is
// why there was none.
func Declined(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return ErrNeeded
}
