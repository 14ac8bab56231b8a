package codex

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"signalbox/internal/coord"
	"signalbox/internal/process"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// maxWarnings bounds what is repeated of Codex's own warnings.
const maxWarnings = 8

// Inspect starts Codex with threads that are not kept, and ends it again. It
// sends nothing to a model but to one on loopback, which tells what tools it
// was offered, and logs nobody in.
func (a *Adapter) Inspect(ctx context.Context, t provider.Target) (coord.Inspection, error) {
	in := coord.Inspection{Agent: t.Agent, Revision: t.Revision, At: a.o.Clock(), Auth: coord.AuthUnknown}
	var err error
	if in.Identity, err = identify(t.Config); err != nil {
		in.Problem = stdio.Shown(err)
		return in, nil
	}
	a.probe(ctx, t, &in)
	if ctx.Err() != nil {
		return in, context.Cause(ctx)
	}
	if in.Problem == "" && in.Auth != coord.AuthRequired {
		in.Operations = []coord.Operation{coord.Research}
		if has(in.Capabilities, coord.CapabilityTools) {
			in.Operations = append(in.Operations, coord.Read)
		}
	}
	return in, nil
}

func has(all []coord.Capability, name string) bool {
	for _, c := range all {
		if c.Name == name {
			return c.Has
		}
	}
	return false
}

// probe fills in what a running Codex shows.
func (a *Adapter) probe(ctx context.Context, t provider.Target, in *coord.Inspection) {
	var mu sync.Mutex
	var warnings []string
	l, err := a.launch(ctx, t.Config, func(c *stdio.Conn) stdio.Handler {
		return &bystander{c: c, warned: func(text string) {
			mu.Lock()
			defer mu.Unlock()
			if len(warnings) < maxWarnings {
				warnings = append(warnings, "Codex warns: "+stdio.Quote(text))
			}
		}}
	})
	defer func() {
		a.finishProbe(ctx, l, in)
		mu.Lock()
		defer mu.Unlock()
		in.Warnings = append(in.Warnings, warnings...)
	}()
	if err != nil {
		in.Problem = unsent(ctx, methodInitialize, err).Message
		return
	}
	in.Identity.Version = "codex-cli " + l.version
	in.Capabilities = append(in.Capabilities, coord.Capability{Name: "app-server", Has: true, Evidence: coord.Measured, Detail: "state and login in " + stdio.Clip(l.home, coord.MaxReason)})
	if temporary(l.home) {
		in.Warnings = append(in.Warnings, "Codex keeps its state in a folder for temporary files; after a restart of this machine its login and threads may be gone.")
	}
	a.account(ctx, l, in)
	if in.Auth == coord.AuthRequired || in.Problem != "" {
		return
	}
	want, err := inForce(ctx, l)
	var r threadResult
	if err == nil {
		if err = l.conn.Call(ctx, methodThread, threadOf(l, []dynamicTool{}, true, want), &r); err == nil {
			err = r.check(want, true)
		}
	}
	if err != nil {
		in.Problem = unsent(ctx, methodThread, err).Message
		return
	}
	tools := a.surface(ctx, l, want, r.Model)
	if tools.Has && !proven(l.version) {
		tools.Has, tools.Detail = false, fmt.Sprintf("version %s was not tested, tested are %s; %s", l.version, strings.Join(Proven, ", "), tools.Detail)
	}
	if !tools.Has {
		in.Warnings = append(in.Warnings, "It is for research only: "+tools.Detail+".")
	}
	in.Capabilities = append(in.Capabilities, tools, coord.Capability{
		Name: coord.CapabilityConfined, Has: tools.Has, Evidence: coord.Measured, Detail: "it has no tools of its own; " + tools.Detail,
	})
	in.Capabilities = append(in.Capabilities,
		coord.Capability{Name: "sandbox read-only without network", Has: true, Evidence: coord.Measured, Detail: "as Codex says of a new thread"},
		coord.Capability{Name: "model", Has: true, Evidence: coord.Measured, Detail: stdio.Clip(r.Model+" of "+r.Provider, coord.MaxTitle)})
}

// account fills in whether somebody is logged in.
func (a *Adapter) account(ctx context.Context, l launched, in *coord.Inspection) {
	var r accountResult
	if err := l.conn.Call(ctx, methodAccount, map[string]bool{"refreshToken": false}, &r); err != nil {
		in.Problem = unsent(ctx, methodAccount, err).Message
		return
	}
	switch {
	case r.Account != nil:
		in.Auth = coord.AuthReady
		in.Capabilities = append(in.Capabilities, coord.Capability{Name: "account", Has: true, Evidence: coord.Measured, Detail: stdio.Clip(strings.TrimSpace(r.Account.Type+" "+r.Account.Plan), coord.MaxTitle)})
	case r.Requires:
		in.Auth, in.AuthHint = coord.AuthRequired, "R"+strings.TrimPrefix(loginHint, "r")
		in.Problem = "Codex wants a login; Signalbox does not log anybody in."
	default:
		in.Auth = coord.AuthReady
		in.Capabilities = append(in.Capabilities, coord.Capability{Name: "account", Evidence: coord.Measured, Detail: "its model provider needs none"})
	}
}

// temporary reports whether a folder is one for temporary files.
func temporary(dir string) bool {
	for _, tmp := range []string{"/tmp", "/var/tmp", "/private/tmp"} {
		if rel, err := filepath.Rel(tmp, dir); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			return true
		}
	}
	return false
}

// finishProbe ends Codex and notes whether the end of its input was enough.
func (a *Adapter) finishProbe(ctx context.Context, l launched, in *coord.Inspection) {
	err := a.leave(ctx, l)
	if l.conn == nil {
		return
	}
	exit, waited := l.conn.Exit(context.WithoutCancel(ctx))
	switch {
	case err != nil || waited != nil:
		in.Problem = "Codex's processes could not all be ended."
	case in.Problem == "":
		in.Capabilities = append(in.Capabilities, coord.Capability{
			Name: "exits at end of input", Has: exit.Ending == process.AfterClose, Evidence: coord.Measured, Detail: fmt.Sprintf("within %s", a.o.Timing.Grace),
		})
	}
	if n := l.conn.Noise(); n > 0 {
		in.Warnings = append(in.Warnings, fmt.Sprintf("It prints on its protocol stream what is not protocol: %d lines; more than %d end an attempt.", n, coord.MaxNoiseLines))
	}
}
