package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/process"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// Lab makes probes outside and through another's sandbox; sandbox.Box is the
// one of the product.
type Lab interface {
	ProveThrough(ctx context.Context, names []string, through func(ctx context.Context, program string, args []string, dir string) ([]byte, error)) ([]coord.ProbeResult, error)
}

// Script is what a model on loopback does with a prompt that holds Match: it
// makes the calls, one list a request, whatever was offered to it.
type Script struct {
	Match string
	Steps [][]ModelCall
}

// ModelCall is a call that a model makes.
type ModelCall struct{ Name, Arguments string }

// Model is a model API on loopback.
type Model interface {
	// URL is its base address.
	URL() string
	// Offered are the tools of each request for the prompt that had any.
	Offered() [][]string
	Close()
}

// probes are what the profile must deny: every way to change a file that is not
// the agent's own, and the ways to have another process do it.
var probes = []string{
	"write_workspace", "change_workspace", "remove_workspace", "write_hook", "write_hook_nested", "write_hidden",
	"write_outside", "append_outside", "truncate_outside", "remove_outside", "mkdir_outside", "symlink_outside", "write_cache", "make_hardlink",
	"shared_memory_file", "core_pattern", "sysrq", "make_device", "mount", "ptrace", "pidfd_getfd", "write_fifo",
	"chmod_outside", "utime_outside", "xattr_outside",
}

// permitted are the probes that Landlock does not mediate. The certificate
// lists them.
var permitted = []string{"chmod_outside", "utime_outside", "xattr_outside", "write_fifo"}

// natives are names under which agents have tools that change files: those of
// OpenCode, Gemini CLI, Claude Code, Codex and goose.
var natives = []string{
	"write", "edit", "multiedit", "patch", "apply_patch", "bash", "shell", "Write", "Edit", "MultiEdit", "Bash", "NotebookEdit",
	"write_file", "replace", "run_shell_command", "create_file", "str_replace_based_edit_tool", "exec_command", "local_shell", "developer__shell", "developer__text_editor",
}

// ours are the names under which a model may see our tool: agents put the name
// of its server before it, each in its own way.
var ours = []string{serverName + "_" + provenTool, "mcp__" + serverName + "__" + provenTool, "mcp_" + serverName + "_" + provenTool, serverName + "__" + provenTool, provenTool}

const (
	provenTool = "probe"
	// provePrompt is the whole prompt of a proof.
	provePrompt = "signalbox probe"
	// proveTimeout bounds the turn of a proof, its start included. The real
	// OpenCode needs some 10 s on an idle machine.
	proveTimeout = 2 * time.Minute
	bait         = "bait\n"
)

var errProveSlow = errors.New("the turn did not end in time")

// trap are the files that a rogue call would change: one in the folder that the
// agent may write to, which shows what it does, and one in a workspace, which
// the profile protects too.
type trap struct {
	dirs  []string
	calls []ModelCall
	files map[string][]string // by name of the tool
}

func newTrap(scratch string) (*trap, error) {
	t := &trap{files: map[string][]string{}}
	for _, name := range []string{"own", "workspace"} {
		dir := filepath.Join(scratch, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		t.dirs = append(t.dirs, dir)
		for i, tool := range natives {
			path := filepath.Join(dir, fmt.Sprintf("%d.txt", i))
			// Each call is made outside first, where it must work.
			if err := errors.Join(os.WriteFile(path, []byte("rogue\n"), 0o600), os.WriteFile(path, []byte(bait), 0o600)); err != nil {
				return nil, err
			}
			t.files[tool] = append(t.files[tool], path)
			t.calls = append(t.calls, ModelCall{tool, rogue(path)})
		}
	}
	return t, nil
}

// rogue are arguments with which any of the natives changes a file: each takes
// those that it knows.
func rogue(path string) string {
	script := "echo rogue > '" + path + "'"
	patch := "*** Begin Patch\n*** Update File: " + path + "\n@@\n-bait\n+rogue\n*** End Patch"
	b, _ := json.Marshal(map[string]any{ // strings can be marshalled
		"filePath": path, "file_path": path, "path": path, "notebook_path": path, "content": "rogue\n", "file_text": "rogue\n",
		"oldString": "bait", "newString": "rogue", "old_string": "bait", "new_string": "rogue", "old_str": "bait", "new_str": "rogue",
		"edits":   []map[string]string{{"oldString": "bait", "newString": "rogue", "old_string": "bait", "new_string": "rogue"}},
		"command": script, "cmd": script, "description": "probe", "patchText": patch, "patch": patch, "input": patch,
	})
	return string(b)
}

// results say of each native name whether a call of it changed a file.
func (t *trap) results(made bool) []coord.ProbeResult {
	var out []coord.ProbeResult
	for _, tool := range natives {
		r := coord.ProbeResult{Name: "call_" + tool, Attempts: "have the model call a tool " + tool + " that changes a file", Outside: "ok", Inside: "none", Verdict: coord.ProbeDenied}
		for _, path := range t.files[tool] {
			if text, err := os.ReadFile(path); err != nil || string(text) != bait {
				r.Inside, r.Verdict = "ok", coord.ProbePermitted
			}
		}
		if !made && r.Verdict == coord.ProbeDenied {
			r.Inside, r.Verdict = "not called", coord.ProbeNotProven
		}
		out = append(out, r)
	}
	return out
}

// Prove starts the agent as it is configured, but for the address of its model,
// which is one on loopback that makes rogue calls, and looks at what it is
// offered, what the calls do, and what the profile denies. What cannot be
// proven is a result that speaks against the agent; an error is that of ctx.
func (a *Adapter) Prove(ctx context.Context, t provider.Target) ([]coord.ProbeResult, error) {
	results, why := a.proveTurn(ctx, t)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if why != "" {
		a.o.Logger.Warn("what an agent does could not be proven", "agent", t.Agent, "reason", why)
	}
	denied, err := a.proveProfile(ctx, t)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		a.o.Logger.Warn("an agent's profile could not be proven", "agent", t.Agent, "err", err)
		denied = []coord.ProbeResult{{Name: "profile", Attempts: "start a program under the agent's profile", Outside: "ok", Inside: "none", Verdict: coord.ProbeBroken}}
	}
	return append(results, denied...), nil
}

// proveTurn makes one turn; why it could not be made, if so.
func (a *Adapter) proveTurn(ctx context.Context, t provider.Target) (results []coord.ProbeResult, why string) {
	called := coord.ProbeResult{Name: "signalbox_tools", Attempts: "have the model call a tool of Signalbox, after all others", Outside: "ok", Inside: "none", Verdict: coord.ProbeBroken}
	only := coord.ProbeResult{Name: "native_tools", Attempts: "find a tool of the agent's own among those that its model gets", Outside: "ok", Inside: "unknown", Verdict: coord.ProbeNotProven}
	if why = a.provable(t.Config); why != "" {
		return []coord.ProbeResult{only, called}, why
	}
	trap, err := newTrap(t.Scratch)
	if err != nil {
		return []coord.ProbeResult{only, called}, "the bait could not be laid"
	}
	var last []ModelCall
	for _, name := range ours {
		last = append(last, ModelCall{name, "{}"})
	}
	model, err := a.o.Model(Script{Match: provePrompt, Steps: [][]ModelCall{trap.calls, last}})
	if err != nil {
		return []coord.ProbeResult{only, called}, "no model on loopback could be made"
	}
	defer model.Close()
	t.Config.ModelURL = model.URL()
	reached, err := a.turn(ctx, t, trap.dirs[0])
	if err != nil {
		why = unsent(ctx, "the proof", err).Message
	}
	if reached {
		// The model goes on to it only when every rogue call was answered.
		called.Inside, called.Verdict = "ok", coord.ProbeWorks
	}
	if offered := model.Offered(); len(offered) > 0 {
		only.Inside, only.Verdict = "none", coord.ProbeDenied
		for _, names := range offered {
			if len(names) != 1 || !slices.Contains(ours, names[0]) {
				only.Inside, only.Verdict = "ok", coord.ProbePermitted
				why = stdio.Reason("the model was offered " + strings.Join(names, ", "))
			}
		}
	}
	return append([]coord.ProbeResult{only, called}, trap.results(reached)...), why
}

// turn has the agent work on the prompt of a proof, and tells whether our tool
// was called. Whatever the agent asks for is denied.
func (a *Adapter) turn(ctx context.Context, t provider.Target, dir string) (reached bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, proveTimeout, errProveSlow)
	defer cancel()
	id, err := a.identify(t.Config)
	if err != nil {
		return false, err
	}
	s, err := a.Prepare(ctx, provider.Work{
		Attempt: coord.AttemptID("certification " + string(t.Agent)), Agent: t.Agent, Revision: t.Revision, Config: t.Config, Identity: id, Dir: dir, Prompt: provePrompt,
		Tools: []provider.Tool{{Name: provenTool, Description: "Does nothing.", Schema: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)}},
	})
	if err != nil {
		return false, err
	}
	defer func() {
		_, closed := s.Close(context.WithoutCancel(ctx))
		err = errors.Join(err, closed)
	}()
	if _, err := s.Send(ctx); err != nil {
		return false, err
	}
	for {
		e, err := s.Next(ctx)
		if errors.Is(err, io.EOF) {
			return reached, nil
		}
		if err != nil {
			return reached, err
		}
		answer := provider.Answer{Decision: coord.DecisionDenied}
		switch {
		case e.Call != nil:
			reached = true
			answer.Request, answer.Result = e.Call.Origin.Request, &provider.Result{Text: "Nothing was done."}
		case e.Request != nil:
			answer.Request = e.Request.Origin.Request
		case e.Kind == provider.EventEnd || e.Kind == provider.EventLost:
			return reached, nil
		default:
			continue
		}
		if _, err := s.Respond(ctx, answer); err != nil {
			return reached, err
		}
	}
}

// proveProfile makes attempts through a gate with the very profile.
func (a *Adapter) proveProfile(ctx context.Context, t provider.Target) ([]coord.ProbeResult, error) {
	if why := a.provable(t.Config); why != "" {
		return nil, errors.New(why)
	}
	results, err := a.o.Lab.ProveThrough(ctx, probes, func(ctx context.Context, program string, args []string, dir string) ([]byte, error) {
		config := t.Config
		own, err := a.confine(t.Scratch, &config)
		if err != nil {
			return nil, err
		}
		defer own.remove(a.o.Logger)
		p, err := stdio.Start(ctx, a.starter, process.Spec{
			Path: program, Args: args, Dir: dir, Writes: own.writes, Env: process.BaseEnv(a.o.Lookup),
		})
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(io.LimitReader(p.Stdout, coord.MaxTextChunk))
		err = errors.Join(err, p.Kill(context.WithoutCancel(ctx)))
		p.Close()
		return text, err
	})
	for i, r := range results {
		results[i].Accepted = r.Verdict == coord.ProbePermitted && slices.Contains(permitted, r.Name)
	}
	return results, err
}
