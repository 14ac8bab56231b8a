package planning

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox/internal/coord"
)

// Validate completes a plan and gives it back. Every fault is told at once, as
// the Fields of an Invalid error: the plan's own, agents that are unknown,
// removed or disabled, operations for which an agent's evidence is missing, and
// workspaces that are not what they must be.
func (p *Planner) Validate(ctx context.Context, plan coord.Plan) (coord.Plan, error) {
	return p.validate(ctx, plan, nil)
}

func (p *Planner) validate(ctx context.Context, plan coord.Plan, inputs map[string][]coord.Input) (coord.Plan, error) {
	plan = plan.Completed()
	faults := keepInputs(&plan, inputs)
	faults = append(faults, plan.Validate()...)
	if len(plan.Tasks) <= coord.MaxTasks { // else every look would be one too many
		more, err := p.lookUp(ctx, plan)
		if err != nil {
			return plan, err
		}
		faults = append(faults, more...)
	}
	return plan, coord.InvalidFields("the plan has faults", faults)
}

// lookUp gives the faults that only the directory and the disk know.
func (p *Planner) lookUp(ctx context.Context, plan coord.Plan) ([]coord.Field, error) {
	var f []coord.Field
	for i, t := range plan.Tasks {
		at := fmt.Sprintf("/tasks/%d", i)
		if coord.ValidAgentID(string(t.Agent)) {
			a, err := p.agents.Get(ctx, t.Agent)
			if err != nil && coord.CodeOf(err) != coord.NotFound {
				return nil, err
			}
			f = append(f, p.agentFaults(ctx, at, t, a, err == nil)...)
			f = append(f, stateFaults(at, t, a)...)
		}
		if t.Workspace != "" && filepath.IsAbs(t.Workspace) && filepath.Clean(t.Workspace) == t.Workspace {
			if fault := p.workspaceFault(t.Workspace); fault != "" {
				f = append(f, coord.Field{Pointer: at + "/workspace", Message: fault})
			}
		}
	}
	return f, nil
}

// agentFaults gives what keeps an agent from a task.
func (p *Planner) agentFaults(ctx context.Context, at string, t coord.PlanTask, a coord.Agent, known bool) []coord.Field {
	fault := func(pointer, format string, args ...any) []coord.Field {
		return []coord.Field{{Pointer: at + pointer, Message: fmt.Sprintf(format, args...)}}
	}
	switch {
	case !known:
		return fault("/agent", "no agent is registered under this id; see 'signalbox agent list'")
	case a.Removed:
		return fault("/agent", "this agent was removed; register it again or take another")
	case !a.Enabled:
		return fault("/agent", "this agent is disabled; enable it with 'signalbox agent enable %s'", a.ID)
	case t.Workspace != "" && a.Route.Askable():
		return fault("/workspace", "agent %s works elsewhere and cannot see a folder of this machine; say in the instruction what it needs to know", a.ID)
	case a.Inspection == nil || a.Inspection.Revision != a.Revision || a.Inspection.Problem != "":
		return nil // no evidence yet; freezing inspects
	}
	return p.operationFaults(ctx, at, t, a)
}

// stateFaults tells where an agent could change the workspace by itself.
func stateFaults(at string, t coord.PlanTask, a coord.Agent) []coord.Field {
	for _, dir := range a.Config.State {
		if t.Workspace != "" && (within(t.Workspace, dir) || within(dir, t.Workspace)) {
			return []coord.Field{{Pointer: at + "/workspace", Message: fmt.Sprintf("holds the folder %s or lies in it, where agent %s keeps its state and may write unasked", dir, a.ID)}}
		}
	}
	return nil
}

// operationFaults tells of operations that neither an inspection nor a
// certificate supports.
func (p *Planner) operationFaults(ctx context.Context, at string, t coord.PlanTask, a coord.Agent) []coord.Field {
	can := a.Inspection.Operations
	var why map[coord.Operation]string
	if p.proven != nil && slices.ContainsFunc(t.Operations, func(op coord.Operation) bool { return !slices.Contains(can, op) }) {
		var more []coord.Operation
		more, why = p.proven.Certified(ctx, a, t.Tests)
		can = slices.Concat(can, slices.DeleteFunc(more, func(op coord.Operation) bool { return slices.Contains(can, op) }))
	}
	var f []coord.Field
	for n, op := range t.Operations {
		if !slices.Contains(coord.Operations, op) || slices.Contains(can, op) {
			continue
		}
		message := fmt.Sprintf("nothing shows that agent %s can do this here; it can: %s", a.ID, words(can))
		if why[op] != "" {
			message += "; " + why[op]
		}
		f = append(f, coord.Field{Pointer: fmt.Sprintf("%s/operations/%d", at, n), Message: message})
	}
	return f
}

func words(ops []coord.Operation) string {
	if len(ops) == 0 {
		return "nothing"
	}
	out := make([]string, len(ops))
	for i, op := range ops {
		out[i] = string(op)
	}
	return strings.Join(out, ", ")
}

// workspaceFault says what is wrong with a folder to work in, "" when nothing
// is. The path is absolute and clean.
func (p *Planner) workspaceFault(path string) string {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "there is no such folder"
	case err != nil:
		return "cannot be looked at; check the permissions of the folders above it"
	case !info.IsDir():
		return "not a folder"
	}
	real, err := filepath.EvalSymlinks(path)
	switch {
	case err != nil:
		return "cannot be resolved; check the permissions of the folders above it"
	case real != path:
		return "goes through a symbolic link, which could point elsewhere when the work runs; write " + real
	case path == "/":
		return "the whole disk is no workspace; name the project's folder"
	case p.dataDir != "" && (within(path, p.dataDir) || within(p.dataDir, path)):
		return "holds Signalbox's own data or lies in it; an agent must not reach that"
	}
	return ""
}

// within reports whether one clean path is the other or lies in it.
func within(in, out string) bool {
	return in == out || strings.HasPrefix(in, strings.TrimSuffix(out, "/")+"/")
}
