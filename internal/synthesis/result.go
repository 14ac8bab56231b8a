package synthesis

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"unicode/utf8"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// Result gives what became of a job, at any time after it was started: for each
// task the statement of whoever made it, the receipt, the artifacts, the usage
// and the requests with decision, effect and delivery. What an attempt wrote
// that did not complete is Partial, at most coord.MaxStatement bytes. Of a job
// that ended long ago it is what was kept. A job that never ran is a Conflict.
func (s *Synthesis) Result(ctx context.Context, ref coord.JobRef) (coord.Result, error) {
	r, err := s.record(ctx, ref)
	if err != nil {
		return coord.Result{}, err
	}
	if r.job.Grant == nil {
		return coord.Result{}, coord.Errorf(coord.Conflict, "job %d never ran, so it has no result", r.job.Number)
	}
	return s.result(ctx, r)
}

func (s *Synthesis) result(ctx context.Context, r record) (coord.Result, error) {
	if r.summary != nil {
		return *r.summary, nil
	}
	out := coord.Result{Job: r.job.ID, Number: r.job.Number, Title: r.job.Title, State: r.job.State, Tasks: []coord.TaskResult{}}
	if r.job.Grant != nil {
		out.Digest = r.job.Grant.Digest
	}
	titles := map[string]string{}
	for _, t := range r.job.Plan.Tasks {
		titles[t.Key] = t.Title
	}
	for _, t := range r.tasks {
		one := coord.TaskResult{Key: t.Key, Title: titles[t.Key], Agent: t.Agent, State: t.State, Reason: t.Reason, Attempt: t.Attempt}
		var used []coord.Usage
		for _, a := range r.attempts {
			if a.Task != t.ID {
				continue
			}
			used = append(used, a.Usage)
			if a.ID != t.Attempt {
				continue
			}
			one.Statement, one.Receipt = a.Statement, a.Receipt
			if a.State != coord.AttemptCompleted && a.Sent != nil {
				var err error
				if one.Partial, err = s.written(ctx, a, r.head); err != nil {
					return out, err
				}
			}
		}
		one.Usage = sum(used)
		for _, a := range r.artifacts {
			if a.Task == t.ID {
				one.Artifacts = append(one.Artifacts, a)
			}
		}
		for _, q := range r.requests {
			if q.Task == t.ID {
				one.Requests = append(one.Requests, q)
			}
		}
		out.Tasks = append(out.Tasks, one)
	}
	var all []coord.Usage
	for _, a := range r.attempts {
		all = append(all, a.Usage)
	}
	out.Usage = sum(all)
	return out, nil
}

// written gives what an attempt wrote as its answer, the first part of it.
func (s *Synthesis) written(ctx context.Context, a coord.Attempt, head int64) (string, error) {
	var b strings.Builder
	err := s.events(ctx, journal.EventFilter{Job: a.Job, Attempt: a.ID}, head, func(e coord.Event) (bool, error) {
		if e.Kind != coord.AttemptText {
			return true, nil
		}
		var t coord.Text
		if err := json.Unmarshal(e.Data, &t); err != nil {
			return false, fmt.Errorf("the text of event %d cannot be read: %w", e.Seq, err)
		}
		if t.Channel == coord.ChannelMessage {
			b.WriteString(t.Text)
		}
		return b.Len() < coord.MaxStatement, nil
	})
	return cut(b.String(), coord.MaxStatement), err
}

// cut gives at most n bytes of s, whole characters only.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// sum adds up what attempts used. A member that is not alike in all of them,
// such as costs in two currencies, is left out: a wrong sum is worse than none.
func sum(used []coord.Usage) coord.Usage {
	var out coord.Usage
	cost, costs := new(big.Rat), 0
	decimals, first := 0, true
	alike := true
	for _, u := range used {
		if u == (coord.Usage{}) {
			continue
		}
		out.InputTokens += u.InputTokens
		out.OutputTokens += u.OutputTokens
		out.TotalTokens += u.TotalTokens
		if first {
			out.Source, first = u.Source, false
		} else if out.Source != u.Source {
			out.Source = ""
		}
		if u.Cost == "" {
			continue
		}
		one, ok := decimal(u.Cost)
		alike = alike && ok && (costs == 0 || out.Currency == u.Currency)
		if !alike {
			continue
		}
		costs, out.Currency = costs+1, u.Currency
		cost.Add(cost, one)
		if _, fraction, ok := strings.Cut(u.Cost, "."); ok {
			decimals = max(decimals, len(fraction))
		}
	}
	if !alike {
		out.Currency = ""
	} else if costs > 0 {
		out.Cost = cost.FloatString(decimals)
	}
	return out
}

// decimal reads a plain decimal number of bounded length. Fractions and
// exponents, which big.Rat would take, are no amounts of money.
func decimal(s string) (*big.Rat, bool) {
	if len(s) > 32 || strings.Trim(s, "0123456789.") != "" {
		return nil, false
	}
	return new(big.Rat).SetString(s)
}
