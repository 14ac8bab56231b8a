package cli

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

// following is one job as it is followed on a screen.
type following struct {
	*app
	client  *client.Client
	job     coord.Job
	through bool
	// operator puts an open request before whoever decides it. Its error ends
	// the following.
	operator func(ctx context.Context, r coord.Request) error

	keys map[coord.TaskID]string
	// texts are what the tasks write.
	texts *screen.Live
	asked map[coord.RequestID]bool
	// told are the effects that were told of, shown what was last said of a task.
	told  map[coord.RequestID]bool
	shown map[string]string
}

// errDone ends a stream of events whose job is over.
var errDone = errors.New("done")

// over reports whether nothing more happens to a job by itself.
func over(s coord.JobState) bool { return s == coord.JobDraft || coord.Jobs.Final(s) }

// run follows from a cursor on. It gives the job's exit code.
func (f *following) run(ctx context.Context, cursor string) error {
	f.keys, f.texts, f.asked = map[coord.TaskID]string{}, screen.NewLive(f.Screen), map[coord.RequestID]bool{}
	f.told, f.shown = map[coord.RequestID]bool{}, map[string]string{}
	tasks, err := f.client.Tasks(ctx, string(f.job.ID))
	if err != nil {
		return err
	}
	for _, t := range tasks {
		f.keys[t.ID] = t.Key
	}
	err = f.catchUp(ctx)
	if err == nil {
		err = f.client.Follow(ctx, client.Filter{Job: string(f.job.ID), After: cursor}, func(e coord.Event) error { return f.event(ctx, e) })
	}
	if errors.Is(err, errDone) {
		err = jobExit(f.job.State)
	}
	var code exitCode
	if err != nil && !errors.As(err, &code) {
		if errors.Is(err, errInterrupted) {
			_ = f.texts.Flush() // the interrupt is what is told
			f.Say("job %d runs on; stop it with signalbox job cancel %d", f.job.Number, f.job.Number)
		}
		return err
	}
	if ferr := f.texts.Flush(); ferr != nil {
		return ferr
	}
	if f.JSON {
		r, rerr := f.client.Result(ctx, string(f.job.ID))
		if rerr == nil {
			rerr = f.Document(r)
		}
		if rerr != nil {
			return rerr
		}
	}
	f.end()
	return err
}

// end says how a job ended and where to look further.
func (f *following) end() {
	n := f.job.Number
	f.Say("%s  job %d", f.Styles(screen.IsTerminal(f.Err)).Mark(string(f.job.State)), n)
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
func (f *following) catchUp(ctx context.Context) error {
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
func (f *following) event(ctx context.Context, e coord.Event) error {
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
		f.Say("%s shows no progress, and is waited for: signalbox attempt explain %d/%[1]s", f.keys[e.Task], f.job.Number)
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
func (f *following) named(key string) string {
	if len(f.keys) < 2 {
		return ""
	}
	return key
}

// task says that a task came to another state, if that tells a person
// something: that it waits is told by its request.
func (f *following) task(key string, state coord.TaskState, reason string) {
	switch state {
	case coord.TaskBlocked, coord.TaskReady, coord.TaskWaiting:
		return
	default:
	}
	text := f.Styles(screen.IsTerminal(f.Err)).Mark(string(state)) + "  " + key
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
func (f *following) effect(ctx context.Context, id coord.RequestID) error {
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
	f.Effect(f.Err, r)
	return nil
}

// needed puts a request before the operator, once.
func (f *following) needed(ctx context.Context, id coord.RequestID) error {
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
	f.Request(f.Err, r)
	return f.operator(ctx, r)
}

// tell says how a request is decided where nobody can be asked.
func (f *following) tell(_ context.Context, r coord.Request) error {
	how := fmt.Sprintf("approve r%d --digest %s", r.Number, r.Digest)
	if r.Kind == coord.Question {
		how = fmt.Sprintf("answer r%d --digest %s --text …", r.Number, r.Digest)
	}
	f.Say("     decide it: signalbox request %s\n     or: signalbox request deny r%d", how, r.Number)
	if f.through {
		return nil
	}
	return exitCode(exitNeeded)
}

// ask lets the person at the terminal decide a request.
func (f *following) ask(ctx context.Context, r coord.Request) error {
	d := approval.Decision{Digest: r.Digest}
	if r.Kind == coord.Question {
		fmt.Fprint(f.Err, "your answer (empty to refuse): ")
		line, err := f.ReadLine(ctx)
		if err != nil {
			return declined(err)
		}
		d.Decision, d.Answer = coord.DecisionAnswer, strings.TrimSpace(line)
		if d.Answer == "" {
			d.Decision = coord.DecisionDeny
		}
	} else {
		yes, err := f.Ask(ctx, "allow it once?")
		if err != nil {
			return declined(err)
		}
		if d.Decision = coord.DecisionDeny; yes {
			d.Decision = coord.DecisionApprove
		}
	}
	return f.decide(ctx, r, d)
}

// decide records a decision. That someone else was first stands, and is told.
func (f *following) decide(ctx context.Context, r coord.Request, d approval.Decision) error {
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
