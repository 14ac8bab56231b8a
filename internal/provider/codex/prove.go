package codex

import (
	"context"
	"errors"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// Lab makes probes outside and through another's sandbox; sandbox.Box is the
// one of the product.
type Lab interface {
	ProveThrough(ctx context.Context, names []string, through func(ctx context.Context, program string, args []string, dir string) ([]byte, error)) ([]coord.ProbeResult, error)
}

// The probes of the sandbox in which Codex puts what its model would start. It
// does not keep files from being read, and nothing here says it does: the model
// has no tool to start anything with.
var probes = []string{
	"write_workspace", "change_workspace", "remove_workspace", "write_hook", "write_outside", "append_outside", "remove_outside", "mkdir_outside", "write_cache",
	"tcp_connect", "udp_send", "unix_connect_outside", "abstract_connect",
}

// probeMillis bounds one attempt in Codex's sandbox.
const probeMillis = 20_000

type execParams struct {
	Command   []string       `json:"command"`
	Cwd       string         `json:"cwd"`
	Policy    map[string]any `json:"sandboxPolicy"`
	TimeoutMs int            `json:"timeoutMs"`
}

type execResult struct {
	Exit   int    `json:"exitCode"`
	Stdout string `json:"stdout"`
}

// Prove shows that Codex's own sandbox, read-only and without network, holds on
// this machine, and that its model gets no tools but those of Signalbox. It
// starts Codex and no turn.
func (a *Adapter) Prove(ctx context.Context, t provider.Target) (results []coord.ProbeResult, err error) {
	in, err := a.Inspect(ctx, t)
	if err != nil {
		return nil, err
	}
	tools := coord.ProbeResult{Name: "native_tools", Attempts: "find a tool of Codex's own among those that a model gets", Outside: "ok", Inside: "none", Verdict: coord.ProbeDenied}
	if !has(in.Capabilities, coord.CapabilityTools) {
		tools.Inside, tools.Verdict = "ok", coord.ProbePermitted
	}
	l, err := a.launch(ctx, t.Config, func(c *stdio.Conn) stdio.Handler { return &bystander{c: c, warned: func(string) {}} })
	defer func() { err = errors.Join(err, a.leave(ctx, l)) }()
	if err != nil {
		return nil, unproven(ctx, err)
	}
	results, err = a.o.Lab.ProveThrough(ctx, probes, func(ctx context.Context, program string, args []string, dir string) ([]byte, error) {
		var r execResult
		err := l.conn.Call(ctx, methodExec, execParams{
			Command: append([]string{program}, args...), Cwd: dir, TimeoutMs: probeMillis,
			Policy: map[string]any{"type": "readOnly", "networkAccess": false},
		}, &r)
		return []byte(r.Stdout), err
	})
	if err != nil {
		return nil, unproven(ctx, err)
	}
	return append([]coord.ProbeResult{tools}, results...), nil
}

// unproven is why the probes could not be made.
func unproven(ctx context.Context, err error) error {
	return &coord.Error{Code: coord.Unavailable, Message: "Codex could not be probed: " + unsent(ctx, methodExec, err).Message, Err: err}
}
