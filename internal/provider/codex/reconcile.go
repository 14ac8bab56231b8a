package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// bystander is the handler of a connection that carries no attempt.
type bystander struct {
	c *stdio.Conn
	// warned takes what Codex warns of, if set.
	warned func(string)
}

// Notify takes warnings.
func (b *bystander) Notify(method string, params json.RawMessage) {
	var n struct {
		Message string `json:"message"`
		Summary string `json:"summary"`
	}
	if b.warned != nil && (method == "warning" || method == "configWarning") && stdio.Decode(params, &n) == nil {
		b.warned(n.Message + n.Summary)
	}
}

// Ask refuses: nothing was asked of Codex.
func (b *bystander) Ask(id json.RawMessage, method string, _ json.RawMessage) {
	b.c.Refuse(id, stdio.CodeNoMethod, "this client does not offer "+stdio.Cut(method, stdio.MaxQuote))
}

// Gone is told to the calls that wait.
func (*bystander) Gone(provider.Lost) {}

// Reconcile reads the thread in a new process, without resuming it. A turn that
// is missing there, or that was cut off by the death of its process, proves
// nothing: Codex writes a turn down a moment after it says that it started.
func (a *Adapter) Reconcile(ctx context.Context, w provider.Work, h coord.Handle, r *coord.Receipt) (provider.Verdict, error) {
	d, err := openHandle(h)
	if err != nil {
		return provider.Verdict{}, err
	}
	v := provider.Verdict{Finding: provider.FoundNothing}
	now, err := identify(w.Config)
	if err = stdio.Stale(w.Identity, now, err); err != nil {
		v.Evidence = []string{fmt.Sprintf("Codex was not asked. %v", err)}
		return v, nil
	}
	l, err := a.launch(ctx, w.Config, func(c *stdio.Conn) stdio.Handler { return &bystander{c: c} })
	v = a.look(ctx, v, d, r, l, err)
	if failed := a.leave(ctx, l); failed != nil {
		v.Evidence = append(v.Evidence, "The process started to ask Codex could not be ended.")
	}
	if ctx.Err() != nil {
		return v, context.Cause(ctx)
	}
	return v, nil
}

// look asks a Codex that was started for it, if it was.
func (a *Adapter) look(ctx context.Context, v provider.Verdict, d threadHandle, r *coord.Receipt, l launched, err error) provider.Verdict {
	switch {
	case err != nil:
		v.Evidence = []string{"Codex could not be started. " + unsent(ctx, methodInitialize, err).Message}
		return v
	case l.home != d.Home:
		v.Evidence = []string{"Codex was not asked: it keeps its state in another folder now than when the attempt began."}
		return v
	}
	var found turnsResult
	err = l.conn.Call(ctx, methodTurns, turnsParams{Thread: d.Thread, View: "full"}, &found)
	return judge(v, d, r, found, err)
}

// leave ends a Codex that carried no attempt.
func (a *Adapter) leave(ctx context.Context, l launched) error {
	if l.conn != nil {
		if _, err := l.conn.Close(ctx); err != nil {
			return err
		}
	}
	if err := l.discard(); err != nil {
		a.o.Logger.Warn("the private folder of a Codex could not be removed", "error", err)
	}
	return nil
}

// judge puts what was found in sentences.
func judge(v provider.Verdict, d threadHandle, r *coord.Receipt, found turnsResult, err error) provider.Verdict {
	var rpc *stdio.RPCError
	switch {
	case errors.As(err, &rpc):
		v.Finding = provider.NotFound
		v.Evidence = append(v.Evidence, "Codex does not have the thread, which does not prove that it never had it: "+rpc.Error()+".")
		return v
	case err != nil:
		v.Evidence = append(v.Evidence, "Codex could not be asked. "+stdio.Reason(err.Error()))
		return v
	}
	v.Evidence = append(v.Evidence, fmt.Sprintf("Codex has the thread, with %d turns.", len(found.Data)))
	for _, t := range found.Data {
		if t.message(d.Message) || r != nil && r.Kind == "turn" && t.ID == r.Reference {
			return t.verdict(v)
		}
	}
	v.Finding = provider.NotFound
	v.Evidence = append(v.Evidence, "The attempt's turn is not in it. Codex writes a turn down after it says that it started, so this does not prove that it never ran.")
	return v
}

// message reports whether a turn began with the message of that id.
func (t turn) message(id string) bool {
	for _, i := range t.Items {
		if i.Type == "userMessage" && i.Client == id {
			return true
		}
	}
	return false
}

// statement is the answer that a turn holds.
func (t turn) statement() string {
	var parts []string
	for _, i := range t.Items {
		if i.Type == "agentMessage" && i.Phase != "commentary" && strings.TrimSpace(i.Text) != "" {
			parts = append(parts, i.Text)
		}
	}
	return strings.Join(parts, "\n\n")
}

func (t turn) verdict(v provider.Verdict) provider.Verdict {
	text := t.statement()
	v.Text = stdio.Cut(text, coord.MaxStatement)
	if len(v.Text) < len(text) {
		v.Evidence = append(v.Evidence, fmt.Sprintf("The turn's answer has %d bytes, of which the first are kept.", len(text)))
	}
	switch {
	case t.Status == "completed" || t.Status == "failed":
		v.Finding, v.Activity = provider.FoundEnded, coord.Ended
		v.End = t.end(text != "", false)
		v.Evidence = append(v.Evidence, "The turn is "+t.Status+".")
	case t.Status == "interrupted" && t.Completed != nil:
		// Also what becomes of a turn whose process is told to end, by the end
		// of its input or by SIGTERM.
		v.Finding, v.Activity = provider.FoundEnded, coord.Ended
		v.End = &provider.End{State: coord.AttemptCancelled, Cause: provider.CauseCancelled, Reason: "Codex wrote down that the turn was interrupted, by a stop or because its process was told to end."}
		v.Evidence = append(v.Evidence, "The turn is interrupted, with the time of its end.")
	case t.Status == "interrupted":
		v.Evidence = append(v.Evidence, "The turn was cut off by the death of its process: it has no time of an end, and calls of tools that were under way are not in it. What Signalbox did for it is in its own journal.")
	default:
		v.Evidence = append(v.Evidence, "The turn is in the state "+stdio.Quote(t.Status)+".")
	}
	return v
}
