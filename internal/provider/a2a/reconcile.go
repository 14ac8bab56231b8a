package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"signalbox/internal/coord"
	"signalbox/internal/jsonwalk"
	"signalbox/internal/provider"
)

// The bounds of looking for a task without its id.
const (
	listPage  = 100
	listPages = 5
	// listHistory is how many messages of each task are looked at: the one with
	// the work is among the first.
	listHistory = 10
)

// Reconcile asks for the task. Without a receipt, 1.0 lets it be looked for
// among the peer's tasks by the id of our message; that it is not found there
// proves nothing.
func (a *Adapter) Reconcile(ctx context.Context, w provider.Work, h coord.Handle, r *coord.Receipt) (provider.Verdict, error) {
	d, err := openHandle(h)
	if err != nil {
		return provider.Verdict{}, err
	}
	c, err := configOf(w.Config)
	if err != nil {
		return provider.Verdict{}, err
	}
	e := a.endpoint(c, d)
	v := provider.Verdict{Finding: provider.FoundNothing}
	if r != nil && r.Kind != receiptTask {
		v.Evidence = []string{"The peer answered without a task, so there is none that it could be asked for."}
		return v, nil
	}
	var t *task
	if r != nil {
		t, err = e.get(ctx, a.o.Timing.Call, r.Reference, 0)
	} else {
		t, err = e.find(ctx, a.o.Timing, d.MessageID)
	}
	var rpc *rpcError
	switch {
	case ctx.Err() != nil:
		return v, context.Cause(ctx)
	case errors.As(err, &rpc) && rpc.code == codeNotFound && r != nil:
		v.Finding = provider.NotFound
		v.Evidence = []string{"The peer answered that it has no such task, which does not prove that it never had it."}
		return v, nil
	case err != nil:
		v.Evidence = []string{clip("The peer could not be asked: "+told(err)+".", coord.MaxReason)}
		return v, nil
	case t == nil && e.methods().list == "":
		v.Evidence = []string{"The peer named no task for this work, and A2A " + d.Version + " has no way to look for one."}
		return v, nil
	case t == nil:
		v.Evidence = []string{"The peer named no task for this work, and none was found by the id of the message, which does not prove that it has none."}
		return v, nil
	}
	return verdict(r, t), nil
}

// verdict puts a task in the words of the port.
func verdict(r *coord.Receipt, t *task) provider.Verdict {
	v := provider.Verdict{Finding: provider.FoundWorking, Evidence: []string{fmt.Sprintf("The peer has the task %s, which is %s.", quote(t.ID), t.Status.state)}}
	if r == nil {
		v.Evidence = append(v.Evidence, "It was found by the id of our message in its history.")
	}
	if !t.Status.state.terminal() {
		return v
	}
	var all view
	all.snapshot(t.Artifacts)
	v.Finding, v.End, v.Activity = provider.FoundEnded, endOf(t.Status, false), coord.Ended
	if v.End.State == coord.AttemptCompleted {
		all.closing(t.Status.Message)
	}
	v.Text = all.told()
	if n := all.files; n > 0 {
		v.Evidence = append(v.Evidence, fmt.Sprintf("It has %d files or pieces of data, which are not kept here.", n))
	}
	return v
}

// find looks for the task whose history has a message.
func (e *endpoint) find(ctx context.Context, timing Timing, messageID string) (*task, error) {
	method := e.methods().list
	if method == "" {
		return nil, nil
	}
	token := ""
	for range listPages {
		result, err := e.call(ctx, timing.Call, method, struct {
			Tenant        string `json:"tenant,omitempty"`
			PageSize      int    `json:"pageSize"`
			PageToken     string `json:"pageToken,omitempty"`
			HistoryLength int    `json:"historyLength"`
		}{e.tenant, listPage, token, listHistory})
		if err != nil {
			return nil, err
		}
		for raw := range jsonwalk.Elements(jsonwalk.Member(result, "tasks")) {
			t, err := readTask(e.version, json.RawMessage(raw))
			if err == nil && contains(t.History, messageID) {
				return e.get(ctx, timing.Call, t.ID, 0) // the list leaves artifacts out
			}
		}
		next, _ := jsonwalk.Text(jsonwalk.Member(result, "nextPageToken"))
		if token = string(next); token == "" {
			break
		}
	}
	return nil, nil
}
