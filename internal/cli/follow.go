package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"signalbox/internal/approval"
	"signalbox/internal/client"
	"signalbox/internal/coord"
)

// following is one job as it is followed on a screen.
type following struct {
	*app
	client  *client.Client
	ctx     context.Context
	job     coord.Job
	keys    map[coord.TaskID]string
	through bool
	// lines holds what each task has written of its present line.
	lines map[string]*strings.Builder
	asked map[coord.RequestID]bool
}

// catchUp looks at what happened before the stream begins.
func (f *following) catchUp() error {
	if over(f.job.State) {
		return errDone
	}
	if f.job.State == coord.JobAttention && !f.through {
		return errDone
	}
	in, err := f.client.Inbox(f.ctx)
	if err != nil {
		return err
	}
	for _, r := range in.Requests {
		if r.Job == f.job.ID {
			if err := f.needed(r.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// event writes one event.
func (f *following) event(e coord.Event) error {
	switch e.Kind {
	case coord.AttemptText:
		var t coord.Text
		if err := json.Unmarshal(e.Data, &t); err != nil {
			return err
		}
		return f.text(f.keys[e.Task], t)
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
		f.flushTask(t.Key)
		f.task(t.Key, t.State, t.Reason)
	case coord.RequestChanged:
		var r struct {
			Decision coord.DecisionState `json:"decision"`
		}
		if err := json.Unmarshal(e.Data, &r); err != nil {
			return err
		}
		if r.Decision == coord.DecisionOpen {
			return f.needed(e.Request)
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

// text writes what an agent wrote: as it comes where there is one task, else
// whole lines with the task's key before each.
func (f *following) text(key string, t coord.Text) error {
	if f.json || t.Channel != coord.ChannelMessage {
		return nil
	}
	text := clean(t.Text)
	if len(f.keys) < 2 {
		_, err := io.WriteString(f.Out, text)
		f.line(key).WriteString(text[strings.LastIndexByte(text, '\n')+1:])
		if strings.HasSuffix(text, "\n") {
			f.line(key).Reset()
		}
		return err
	}
	b := f.line(key)
	b.WriteString(text)
	for {
		line, rest, found := strings.Cut(b.String(), "\n")
		if !found {
			return nil
		}
		if _, err := fmt.Fprintf(f.Out, "%s │ %s\n", key, line); err != nil {
			return err
		}
		b.Reset()
		b.WriteString(rest)
	}
}

func (f *following) line(key string) *strings.Builder {
	if f.lines[key] == nil {
		f.lines[key] = &strings.Builder{}
	}
	return f.lines[key]
}

// flushTask ends a task's present line.
func (f *following) flushTask(key string) {
	b := f.lines[key]
	if b == nil || b.Len() == 0 || f.json {
		return
	}
	if len(f.keys) < 2 {
		fmt.Fprintln(f.Out)
	} else {
		fmt.Fprintf(f.Out, "%s │ %s\n", key, b.String())
	}
	b.Reset()
}

func (f *following) flush() {
	for key := range f.lines {
		f.flushTask(key)
	}
}

func (f *following) task(key string, state coord.TaskState, reason string) {
	st := f.styles(isTerminal(f.Err))
	text := st.mark(string(state)) + "  " + key
	if reason != "" {
		text += "  (" + clean(reason) + ")"
	}
	f.say("%s", text)
}

// needed puts a request before the operator: asks at a terminal, otherwise ends
// or waits on.
func (f *following) needed(id coord.RequestID) error {
	if f.asked[id] {
		return nil
	}
	f.asked[id] = true
	r, err := f.client.Request(f.ctx, string(id))
	if err != nil || r.Decision != coord.DecisionOpen {
		return err
	}
	f.flush()
	f.request(f.Err, r)
	if !f.asks {
		f.say("decide it: signalbox request approve r%d --digest %s, or request deny r%d", r.Number, r.Digest, r.Number)
		if f.through {
			return nil
		}
		return exitCode(exitNeeded)
	}
	d := approval.Decision{Digest: r.Digest}
	if r.Kind == coord.Question {
		fmt.Fprint(f.Err, "your answer (empty to refuse): ")
		line, err := f.readLine()
		if err != nil {
			return err
		}
		d.Decision, d.Answer = coord.DecisionAnswer, strings.TrimSpace(line)
		if d.Answer == "" {
			d.Decision = coord.DecisionDeny
		}
	} else {
		yes, err := f.ask("allow it?")
		if err != nil {
			return err
		}
		if d.Decision = coord.DecisionDeny; yes {
			d.Decision = coord.DecisionApprove
		}
	}
	r, err = f.client.Decide(f.ctx, string(id), d)
	if coord.CodeOf(err) == coord.Conflict {
		f.say("%v", err) // someone else was first, which stands
		return nil
	}
	if err == nil {
		f.say("r%d is %s", r.Number, r.Decision)
	}
	return err
}
