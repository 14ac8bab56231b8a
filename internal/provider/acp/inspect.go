package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/process"
	"signalbox/internal/provider"
	"signalbox/internal/provider/acp/catalog"
	"signalbox/internal/provider/stdio"
)

// bystander is the handler of a connection that carries no attempt.
type bystander struct {
	c        *stdio.Conn
	onUpdate func(json.RawMessage)
}

// Notify passes updates on, if they are wanted.
func (b *bystander) Notify(method string, params json.RawMessage) {
	if method == methodUpdate && b.onUpdate != nil {
		b.onUpdate(params)
	}
}

// Ask refuses: nothing was asked of the agent.
func (b *bystander) Ask(id json.RawMessage, method string, _ json.RawMessage) {
	if method != methodPermission {
		refuse(b.c, id, method)
		return
	}
	b.c.Reply(stdio.Outgoing{ID: id, Result: chosen("")})
}

// Gone is seen by who waits for an answer.
func (*bystander) Gone(provider.Lost) {}

// Inspect starts the agent, opens a session in the scratch folder and ends it
// again. It sends no prompt and logs nobody in.
func (a *Adapter) Inspect(ctx context.Context, t provider.Target) (coord.Inspection, error) {
	in := coord.Inspection{Agent: t.Agent, Revision: t.Revision, At: a.o.Clock(), Auth: coord.AuthUnknown}
	if !filepath.IsAbs(t.Config.Executable) {
		in.Problem = "The agent's executable must be an absolute path."
		return in, nil
	}
	if why := notAnEndpoint(t.Config.Executable); why != "" {
		in.Problem = why
		return in, nil
	}
	var err error
	if in.Identity, err = a.identify(t.Config); err != nil {
		in.Problem = stdio.Shown(err)
		return in, nil
	}
	a.probe(ctx, t, &in)
	if ctx.Err() != nil {
		return in, context.Cause(ctx)
	}
	in.Warnings = append(in.Warnings, warnings(t.Config)...)
	if in.Problem == "" && in.Auth != coord.AuthRequired {
		in.Operations = []coord.Operation{coord.Research}
		// Planning warns of this before each approval.
		in.Capabilities = append(in.Capabilities, a.capabilities(t.Config)...)
	}
	return in, nil
}

// probe fills in what a running agent shows.
func (a *Adapter) probe(ctx context.Context, t provider.Target, in *coord.Inspection) {
	c, err := a.start(ctx, t.Scratch, t.Config, func(c *stdio.Conn) stdio.Handler { return &bystander{c: c} })
	if err != nil {
		in.Problem = unsent(ctx, "the start", err).Message
		return
	}
	defer func() { a.finishProbe(ctx, c, in) }()
	r, err := a.initialize(ctx, c)
	if err != nil {
		in.Problem = unsent(ctx, methodInitialize, err).Message
		return
	}
	in.Identity.Version = stdio.Clip(strings.TrimSpace(r.AgentInfo.Name+" "+r.AgentInfo.Version), coord.MaxTitle)
	in.Capabilities = append(in.Capabilities, coord.Capability{Name: "initialize", Has: true, Evidence: coord.Measured, Detail: "protocol version 1"})
	in.Capabilities = append(in.Capabilities, declared(r)...)
	opened, err := a.open(ctx, c, t.Scratch, t.Config, []mcpServer{})
	var rpc *stdio.RPCError
	switch {
	case err == nil:
		in.Auth = coord.AuthReady
		in.Capabilities = append(in.Capabilities, coord.Capability{Name: methodNew, Has: true, Evidence: coord.Measured, Detail: modes(opened)})
	case errors.As(err, &rpc) && rpc.Code == codeAuthRequired:
		in.Auth = coord.AuthRequired
		in.AuthHint = loginHint(t.Config, r.AuthMethods)
		in.Problem = "The agent wants a login, or its quota is used up; Signalbox does not log anybody in."
	case errors.As(err, &rpc):
		in.Problem = stdio.Reason("The agent answered session/new with " + rpc.Error() + ".")
	default:
		in.Problem = unsent(ctx, methodNew, err).Message
	}
}

// finishProbe ends the agent and notes whether the end of its input was enough.
func (a *Adapter) finishProbe(ctx context.Context, c *stdio.Conn, in *coord.Inspection) {
	_, err := c.Close(ctx)
	exit, waited := c.Exit(context.WithoutCancel(ctx))
	switch {
	case err != nil || waited != nil:
		in.Problem = or(in.Problem, "The agent's processes could not all be ended.")
	case in.Problem == "":
		in.Capabilities = append(in.Capabilities, coord.Capability{
			Name: "exits at end of input", Has: exit.Ending == process.AfterClose, Evidence: coord.Measured,
			Detail: fmt.Sprintf("within %s", a.o.Timing.Grace),
		})
	}
	if n := c.Noise(); n > 0 {
		in.Warnings = append(in.Warnings, fmt.Sprintf("It prints on its protocol stream what is not protocol: %d lines; more than %d end an attempt.", n, coord.MaxNoiseLines))
	}
}

func declared(r initializeResult) []coord.Capability {
	has := func(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
	c := r.Capabilities
	var out []coord.Capability
	for _, d := range []struct {
		name string
		has  bool
	}{
		{methodPrompt, true}, {methodCancel, true}, {methodPermission, true},
		{methodLoad, c.LoadSession}, {"session/resume", has(c.Session.Resume)}, {"session/list", has(c.Session.List)}, {"session/close", has(c.Session.Close)},
		{"prompt image", c.Prompt.Image}, {"prompt audio", c.Prompt.Audio}, {"prompt embedded context", c.Prompt.EmbeddedContext},
	} {
		out = append(out, coord.Capability{Name: d.name, Has: d.has, Evidence: coord.Declared})
	}
	return out
}

// modes names the session modes that the agent offers.
func modes(r newResult) string {
	if r.Modes == nil {
		return ""
	}
	var names []string
	for _, m := range r.Modes.Available {
		names = append(names, stdio.Cut(m.ID, maxName))
	}
	return stdio.Clip("modes "+strings.Join(names, ", ")+"; default "+r.Modes.Current, coord.MaxReason)
}

// notAnEndpoint says why well-known programs are no ACP agents.
func notAnEndpoint(executable string) string {
	switch filepath.Base(executable) {
	case "claude":
		return "The program claude does not speak ACP; install @agentclientprotocol/claude-agent-acp and register the path of its program."
	case "codex":
		return "The program codex does not speak ACP; register it with the preset codex, whose route is codex."
	}
	return ""
}

// loginHint says how a person logs the agent in.
func loginHint(c coord.AgentConfig, methods []authMethod) string {
	var parts []string
	if p, ok := catalog.Preset(c.Preset); ok && p.Login != "" {
		parts = append(parts, p.Login)
	}
	for i, m := range methods {
		if i == maxMethods {
			break
		}
		if m.Type == "terminal" {
			parts = append(parts, "Run "+stdio.Quote(strings.Join(append([]string{c.Executable}, m.Args...), " "))+" in a terminal.")
			continue
		}
		parts = append(parts, "The agent offers "+stdio.Quote(strings.TrimSpace(or(m.Name, m.ID)+" "+m.Description))+".")
	}
	if len(parts) == 0 {
		return "Log the agent in with its own program, as the user that runs signalbox serve."
	}
	return stdio.Reason(strings.Join(parts, " "))
}

// maxMethods bounds the login methods that are told.
const maxMethods = 8
