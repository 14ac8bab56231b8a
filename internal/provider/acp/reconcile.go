package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// replay collects what a loaded session says again.
type replay struct {
	session string
	mu      sync.Mutex
	updates int
	asked   excerpt
	said    excerpt
}

// excerpt keeps its first bytes and knows whether that is all.
type excerpt struct {
	b   strings.Builder
	max int
	cut bool
}

func (t *excerpt) add(s string) {
	if room := t.max - t.b.Len(); len(s) > room {
		s, t.cut = strings.ToValidUTF8(s[:room], ""), true
	}
	t.b.WriteString(s)
}

func (r *replay) take(params json.RawMessage) {
	p, err := readUpdate(params)
	if err != nil || p.SessionID != r.session {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.updates++
	var b block
	if stdio.Decode(p.Update.Content, &b) != nil || b.Type != "text" {
		return
	}
	switch p.Update.Variant {
	case "user_message_chunk":
		r.asked.add(b.Text)
	case "agent_message_chunk":
		r.said.add(b.Text)
	}
}

// Reconcile looks whether the agent still has the session and what it holds.
// It decides nothing: a replay shows what was kept, not whether the turn ended
// or whether another process still works on it.
func (a *Adapter) Reconcile(ctx context.Context, w provider.Work, h coord.Handle, _ *coord.Receipt) (provider.Verdict, error) {
	d, err := openHandle(h)
	if err != nil {
		return provider.Verdict{}, err
	}
	v := provider.Verdict{Finding: provider.FoundNothing}
	if !d.Load {
		v.Evidence = []string{"The agent cannot load earlier sessions, so it was not asked."}
		return v, nil
	}
	now, err := a.identify(w.Config)
	if err = stdio.Stale(w.Identity, now, err); err != nil {
		v.Evidence = []string{"The agent was not asked. " + err.Error()}
		return v, nil
	}
	// The prompt, and some room for what the agent wrote around it.
	r := &replay{session: d.SessionID, asked: excerpt{max: len(w.Prompt) + coord.MaxTextChunk}, said: excerpt{max: coord.MaxStatement}}
	c, err := a.start(ctx, d.Dir, w.Config, func(c *stdio.Conn) stdio.Handler { return &bystander{c: c, onUpdate: r.take} })
	if err != nil {
		v.Evidence = []string{"The agent could not be started. " + unsent(ctx, "the start", err).Message}
		return v, nil
	}
	asked := a.load(ctx, c, w, d)
	if _, err := c.Close(ctx); err != nil {
		v.Evidence = append(v.Evidence, "The processes started to ask the agent could not all be ended.")
	}
	if ctx.Err() != nil {
		return v, context.Cause(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.verdict(v, asked, w.Prompt), nil
}

func (a *Adapter) load(ctx context.Context, c *stdio.Conn, w provider.Work, d sessionHandle) error {
	r, err := a.initialize(ctx, c)
	if err != nil {
		return err
	}
	if !r.Capabilities.LoadSession {
		return &stdio.Fault{Cause: provider.CauseProtocol, Reason: "The agent does not load sessions any more."}
	}
	return c.Call(ctx, methodLoad, newParams{Meta: sessionMeta(w.Config.Preset), SessionID: d.SessionID, Cwd: d.Dir, MCPServers: []mcpServer{}}, nil)
}

// verdict puts what was seen in sentences.
func (r *replay) verdict(v provider.Verdict, err error, prompt string) provider.Verdict {
	var rpc *stdio.RPCError
	switch {
	case errors.As(err, &rpc) && rpc.Code == codeNotFound:
		v.Finding = provider.NotFound
		v.Evidence = append(v.Evidence, "The agent answered that it has no such session, which does not prove that it never had it.")
		return v
	case errors.As(err, &rpc):
		v.Evidence = append(v.Evidence, "The agent could not load the session: "+rpc.Error()+".")
		return v
	case err != nil:
		v.Evidence = append(v.Evidence, "The agent could not be asked. "+stdio.Reason(err.Error()))
		return v
	}
	v.Text = r.said.b.String()
	v.Evidence = append(v.Evidence, fmt.Sprintf("The agent still has the session and replayed %d updates.", r.updates))
	if strings.Contains(r.asked.b.String(), prompt) {
		v.Evidence = append(v.Evidence, "The prompt is part of the session.")
	} else {
		v.Evidence = append(v.Evidence, "The prompt is not part of what the agent replayed.")
	}
	switch {
	case v.Text == "":
		v.Evidence = append(v.Evidence, "The session holds no answer.")
	case r.said.cut:
		v.Evidence = append(v.Evidence, fmt.Sprintf("The session holds an answer, of which the first %d bytes are kept; whether it is whole is not known.", len(v.Text)))
	default:
		v.Evidence = append(v.Evidence, fmt.Sprintf("The session holds %d bytes of an answer; whether it is whole is not known.", len(v.Text)))
	}
	v.Evidence = append(v.Evidence, "A loaded session does not show how its turn ended, so the outcome stays unknown.")
	return v
}
