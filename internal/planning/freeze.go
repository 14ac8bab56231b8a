package planning

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/workspace"
)

// secretMark is how a replaced secret begins in kept text.
const secretMark = "[redacted:"

// Freeze makes a draft exact and keeps it on the job, for a person to approve
// by its digest. Agents whose inspection is older than coord.InspectionTTL are
// inspected anew, up to coord.MaxRunning at once. What keeps tasks from being
// frozen is told of all of them at once. It is Stale when the draft was revised
// meanwhile, and a Conflict when the job is no draft.
func (p *Planner) Freeze(ctx context.Context, ref coord.JobRef, by coord.Actor) (coord.Job, error) {
	if err := mayDraft(by); err != nil {
		return coord.Job{}, err
	}
	job, err := p.job(ctx, ref)
	if err != nil {
		return job, err
	}
	if job.State != coord.JobDraft {
		return job, coord.Errorf(coord.Conflict, "job %d is %s: only a draft is frozen", job.Number, job.State)
	}
	kept := map[string][]coord.Input{}
	for _, t := range job.Plan.Tasks {
		kept[t.Key] = t.Inputs
	}
	plan, err := p.validate(ctx, job.Plan, kept)
	if err != nil {
		return job, err
	}
	agents, err := p.inspect(ctx, plan)
	if err != nil {
		return job, err
	}
	bases, err := p.bases(ctx, plan)
	if err != nil {
		return job, err
	}
	frozen, err := freeze(plan, agents, bases, p.journal.Now())
	if err != nil {
		return job, err
	}
	revision := job.Revision
	err = p.journal.Update(ctx, func(tx *journal.Tx) (err error) {
		if job, err = tx.Job(ref); err != nil {
			return err
		}
		if job.State != coord.JobDraft || job.Revision != revision {
			return coord.Errorf(coord.Stale, "job %d was changed while it was frozen: look at it and freeze it again", job.Number)
		}
		job.Plan, job.Frozen = plan, &frozen
		if err := tx.PutPlan(&job); err != nil {
			return err
		}
		// The digest is of what is kept. Only a path could still hold a secret
		// here: the draft and the configurations went through the journal.
		if again, err := digest(*job.Frozen); err != nil || again != frozen.Digest {
			return errors.Join(err, coord.Errorf(coord.Invalid, "a path of job %d looks like a secret, so the plan cannot be kept exactly: rename the folder", job.Number))
		}
		return tx.PutJob(job, &by)
	})
	return job, err
}

// inspect gives every agent of the plan with a fresh inspection, or tells of
// all that are not usable.
func (p *Planner) inspect(ctx context.Context, plan coord.Plan) (map[coord.AgentID]coord.Agent, error) {
	var (
		mu     sync.Mutex
		agents = map[coord.AgentID]coord.Agent{}
		failed = map[coord.AgentID]error{}
		asked  []coord.AgentID
		group  errgroup.Group
	)
	group.SetLimit(coord.MaxRunning)
	for _, t := range plan.Tasks {
		if slices.Contains(asked, t.Agent) {
			continue
		}
		asked = append(asked, t.Agent)
		group.Go(func() error {
			a, err := p.agents.Usable(ctx, t.Agent)
			mu.Lock()
			defer mu.Unlock()
			if agents[t.Agent] = a; err != nil {
				failed[t.Agent] = err
			}
			return nil
		})
	}
	_ = group.Wait() // the failures are in failed
	return agents, p.inspectionFaults(ctx, plan, agents, failed)
}

// inspectionFaults puts what inspections found against the plan's tasks.
func (p *Planner) inspectionFaults(ctx context.Context, plan coord.Plan, agents map[coord.AgentID]coord.Agent, failed map[coord.AgentID]error) error {
	out := coord.Error{Code: coord.Invalid, Message: "the plan cannot be frozen"}
	for i, t := range plan.Tasks {
		at := fmt.Sprintf("/tasks/%d", i)
		err := failed[t.Agent]
		if err == nil {
			out.Fields = append(out.Fields, p.operationFaults(ctx, at, t, agents[t.Agent])...)
			continue
		}
		var known *coord.Error
		if !errors.As(err, &known) || known.Code == coord.Internal {
			return err
		}
		// The code is that of an agent that cannot be used: unlike a fault of
		// the plan, it can be mended without another plan.
		out.Code = known.Code
		out.Fields = append(out.Fields, coord.Field{Pointer: at + "/agent", Message: known.Message})
	}
	if len(out.Fields) == 0 {
		return nil
	}
	return &out
}

// bases gives the change sets that tasks start from, by the tasks' keys.
func (p *Planner) bases(ctx context.Context, plan coord.Plan) (map[string]*coord.FrozenBase, error) {
	out := map[string]*coord.FrozenBase{}
	var faults []coord.Field
	err := p.journal.View(ctx, func(v *journal.View) error {
		for i, t := range plan.Tasks {
			if t.Base == "" {
				continue
			}
			ref, err := coord.ParseChangeSetRef(t.Base)
			if err != nil {
				return err // the plan was validated
			}
			c, err := v.ChangeSet(ref)
			var fault string
			switch {
			case coord.CodeOf(err) == coord.NotFound:
				fault = "there is no such change set"
			case err != nil:
				return err
			case c.Base.Path != t.Workspace:
				fault = "this change set is of another workspace, " + c.Base.Path
			case c.State == coord.ChangeSetDiscarded:
				fault = "this change set was discarded"
			default:
				out[t.Key] = new(c.Frozen())
				continue
			}
			faults = append(faults, coord.Field{Pointer: fmt.Sprintf("/tasks/%d/base", i), Message: fault})
		}
		return nil
	})
	if err == nil {
		err = coord.InvalidFields("the plan cannot be frozen", faults)
	}
	return out, err
}

// freeze makes a validated plan exact.
func freeze(plan coord.Plan, agents map[coord.AgentID]coord.Agent, bases map[string]*coord.FrozenBase, at coord.Moment) (coord.Frozen, error) {
	f := coord.Frozen{Plan: plan, At: at}
	for _, t := range plan.Tasks {
		a := agents[t.Agent]
		one := coord.FrozenTask{Key: t.Key, Agent: a.ID, Revision: a.Revision, Config: a.Config, Host: a.Host, Identity: a.Inspection.Identity, Base: bases[t.Key]}
		if t.Workspace != "" {
			space, notes, err := workspace.Identify(t.Workspace)
			if err != nil {
				return f, err
			}
			one.Space = &space
			if slices.Contains(t.Operations, coord.Write) {
				f.Warnings = append(f.Warnings, prefixed("task "+t.Key+": ", notes)...)
			}
		}
		f.Tasks = append(f.Tasks, one)
	}
	f.Warnings = append(f.Warnings, warnings(plan, agents)...)
	slices.Sort(f.Warnings)
	f.Warnings = slices.Compact(f.Warnings)
	var err error
	f.Digest, err = digest(f)
	return f, err
}

// warnings are facts that a person should know before approving.
func warnings(plan coord.Plan, agents map[coord.AgentID]coord.Agent) []string {
	var out []string
	for _, t := range plan.Tasks {
		a := agents[t.Agent]
		out = append(out, prefixed("agent "+string(a.ID)+": ", a.Inspection.Warnings)...)
		confined := slices.ContainsFunc(a.Inspection.Capabilities, func(c coord.Capability) bool { return c.Name == coord.CapabilityConfined && c.Has })
		switch {
		case confined:
		case a.Route.Askable():
			out = append(out, fmt.Sprintf("agent %s: it works elsewhere, and what it does there Signalbox neither sees nor stops", a.ID))
		case len(a.Config.State) > 0:
			out = append(out, fmt.Sprintf("agent %s: it may by itself read files and send what it read; it may write only to its own state: %s", a.ID, strings.Join(a.Config.State, ", ")))
		default:
			out = append(out, fmt.Sprintf("agent %s: its own tools are not confined; what it does without asking, Signalbox cannot stop", a.ID))
		}
		if strings.Contains(t.Instruction, secretMark) {
			out = append(out, "task "+t.Key+": the instruction held a secret, which was replaced; the agent will not get it")
		}
	}
	return out
}

func prefixed(prefix string, notes []string) []string {
	out := make([]string, len(notes))
	for i, n := range notes {
		out[i] = prefix + n
	}
	return out
}

// digest is the SHA-256, in hex, of what a person approves.
func digest(f coord.Frozen) (string, error) {
	b, err := f.Digestible()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
