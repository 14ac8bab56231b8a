package certification

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/provider"
	"signalbox/internal/sandbox"
	"signalbox/internal/testrun"
)

// Prover is an adapter that can show, without a model, that its agents' own
// tools do no harm.
type Prover interface {
	Prove(ctx context.Context, t provider.Target) ([]coord.ProbeResult, error)
}

// Agents gives the directory's entries.
type Agents interface {
	List(ctx context.Context) ([]coord.Agent, error)
	// Usable gives an agent with a fresh inspection.
	Usable(ctx context.Context, id coord.AgentID) (coord.Agent, error)
}

// Runners gives the programs of this machine that run tests.
type Runners interface {
	// Programs gives all that are installed.
	Programs(ctx context.Context) []coord.IdentityFile
	// Program gives that of one runner.
	Program(ctx context.Context, runner string) (coord.IdentityFile, error)
}

// Options are what a Certification needs.
type Options struct {
	Journal  *journal.Journal
	Box      *sandbox.Box
	Agents   Agents
	Adapters map[coord.Route]provider.Adapter
	Runners  Runners
	// Scratch is an existing folder for the agents that are probed.
	Scratch string
	Logger  *slog.Logger
}

// Certification makes certificates and says which hold. It is safe for
// concurrent use; certificates are made one after the other.
type Certification struct {
	o      Options
	making chan struct{} // holds the one token
}

// New makes a Certification.
func New(o Options) *Certification {
	c := &Certification{o: o, making: make(chan struct{}, 1)}
	c.making <- struct{}{}
	return c
}

// Standing is a certificate and whether it holds now.
type Standing struct {
	Certificate coord.Certificate `json:"certificate"`
	// Void says why it does not hold; "" when it does.
	Void string `json:"void,omitempty"`
}

// List gives the kept certificates, newest first.
func (c *Certification) List(ctx context.Context) ([]Standing, error) {
	certs, err := c.kept(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]Standing, len(certs))
	for i, cert := range certs {
		out[i] = Standing{cert, c.void(cert, cert.Facts.Files)}
	}
	return out, nil
}

func (c *Certification) kept(ctx context.Context) (certs []coord.Certificate, err error) {
	err = c.o.Journal.View(ctx, func(v *journal.View) (err error) {
		certs, err = v.Certificates()
		return err
	})
	return certs, err
}

// void says why a certificate does not hold for programs, "" when it does.
func (c *Certification) void(cert coord.Certificate, programs []coord.IdentityFile) string {
	var others []coord.IdentityFile
	for _, f := range programs {
		if f.Role == coord.FileRunner || f.Role == coord.FileAgent {
			others = append(others, f)
		}
	}
	now, err := c.o.Box.Facts(cert.Facts.Tier, others)
	if err != nil {
		return told(err)
	}
	return cert.Void(now, c.o.Journal.Now())
}

// holding gives the newest certificate that holds for programs, and for one
// configuration of an agent if it is named, or says why the newest of them does
// not.
func (c *Certification) holding(ctx context.Context, programs []coord.IdentityFile, agent coord.AgentID, revision int) (coord.Certificate, error) {
	certs, err := c.kept(ctx)
	if err != nil {
		return coord.Certificate{}, err
	}
	why := "there is none"
	for _, cert := range certs {
		covered := !slices.ContainsFunc(programs, func(f coord.IdentityFile) bool {
			return !slices.ContainsFunc(cert.Facts.Files, func(g coord.IdentityFile) bool { return f.Role == g.Role && f.Path == g.Path })
		})
		if !covered || cert.Facts.Agent != agent || cert.Facts.Revision != revision {
			continue
		}
		reason := c.void(cert, programs)
		if reason == "" {
			return cert, nil
		}
		if why == "there is none" {
			why = reason
		}
	}
	return coord.Certificate{}, coord.Errorf(coord.Stale, "no certificate holds for this (%s): make one with 'signalbox sandbox certify'", why)
}

// told is an error's text as far as it is meant to be shown.
func told(err error) string {
	if coord.CodeOf(err) == coord.Internal {
		return "the machine cannot be looked at; the log has the cause"
	}
	return err.Error()
}

// programsOf are the files of an agent as a certificate covers them.
func programsOf(a coord.Agent) []coord.IdentityFile {
	var out []coord.IdentityFile
	for _, f := range a.Inspection.Identity.Files {
		out = append(out, coord.IdentityFile{Role: coord.FileAgent, Path: f.Path})
	}
	return out
}

// tooled reports whether an agent works with Signalbox's tools alone, as was
// measured or as it is configured and a certificate may prove; if not, why.
func tooled(a coord.Agent) (bool, string) {
	const unknown = "nothing shows that it works with Signalbox's tools alone"
	if a.Inspection == nil {
		return false, unknown
	}
	at := slices.IndexFunc(a.Inspection.Capabilities, func(k coord.Capability) bool { return k.Name == coord.CapabilityTools })
	switch {
	case at < 0:
		return false, unknown
	case a.Inspection.Capabilities[at].Has:
		return true, ""
	}
	return false, unknown + ": " + a.Inspection.Capabilities[at].Detail
}

// Certified gives the operations beyond its inspection that an agent may be
// given now, and why not the others. tests are the files of tests that it is
// granted; testing needs a certificate for the runner of each, and without
// files, for any.
func (c *Certification) Certified(ctx context.Context, a coord.Agent, tests []string) ([]coord.Operation, map[coord.Operation]string) {
	ok, reason := tooled(a)
	if ok {
		if _, err := c.holding(ctx, programsOf(a), a.ID, a.Revision); err != nil {
			ok, reason = false, told(err)
		}
	}
	if !ok {
		return nil, map[coord.Operation]string{coord.Read: reason, coord.Write: reason, coord.Test: reason}
	}
	out := []coord.Operation{coord.Read, coord.Write}
	if reason = c.untested(ctx, tests); reason != "" {
		return out, map[coord.Operation]string{coord.Test: reason}
	}
	return append(out, coord.Test), nil
}

// untested says why files of tests cannot be run confined, "" when they can.
func (c *Certification) untested(ctx context.Context, files []string) string {
	if len(files) == 0 {
		return c.untestable(ctx)
	}
	var whys, seen []string
	for _, file := range files {
		runner, err := testrun.RunnerOf(file)
		if err != nil {
			return told(err)
		}
		if slices.Contains(seen, runner) {
			continue
		}
		seen = append(seen, runner)
		program, err := c.o.Runners.Program(ctx, runner)
		if err == nil {
			_, err = c.holding(ctx, []coord.IdentityFile{program}, "", 0)
		}
		if err != nil {
			whys = append(whys, fmt.Sprintf("%s is run by %s: %s", file, runner, told(err)))
		}
	}
	return strings.Join(whys, "; ")
}

// untestable says why nothing at all can be run confined. Each run looks for
// its own runner again.
func (c *Certification) untestable(ctx context.Context) string {
	why := "no program that runs tests was found: bun, node, python3 or go"
	for _, p := range c.o.Runners.Programs(ctx) {
		_, err := c.holding(ctx, []coord.IdentityFile{p}, "", 0)
		if err == nil {
			return ""
		}
		why = told(err)
	}
	return why
}

// Certify makes the probes of the sandbox, for every program that runs tests,
// and those of every enabled agent that works with Signalbox's tools. It gives
// what it made; a certificate that does not hold is among it, for its table.
// The error is for what could not even be tried.
func (c *Certification) Certify(ctx context.Context, by coord.Actor) ([]Standing, error) {
	if by.Role != coord.RoleOperator {
		return nil, coord.Errorf(coord.Forbidden, "only a credential of role %s may do this", coord.RoleOperator)
	}
	select {
	case <-c.making:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { c.making <- struct{}{} }()
	sandboxed, err := c.o.Box.Certify(ctx, sandbox.CertifyOptions{Programs: c.o.Runners.Programs(ctx), Clock: c.o.Journal.Now})
	if err != nil {
		return nil, err
	}
	made := []coord.Certificate{sandboxed}
	agents, err := c.o.Agents.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range agents {
		cert, ok, err := c.agent(ctx, a, sandboxed)
		if err != nil {
			return nil, err
		}
		if ok {
			made = append(made, cert)
		}
	}
	var out []Standing
	for _, cert := range made {
		err := c.o.Journal.Update(ctx, func(tx *journal.Tx) (err error) {
			cert, err = tx.AddCertificate(cert, by)
			return err
		})
		if err != nil {
			return out, err
		}
		out = append(out, Standing{cert, c.void(cert, cert.Facts.Files)})
	}
	return out, nil
}

// agent makes the certificate of an agent; false when it cannot have one.
func (c *Certification) agent(ctx context.Context, a coord.Agent, of coord.Certificate) (coord.Certificate, bool, error) {
	prover, can := c.o.Adapters[a.Route].(Prover)
	if !can || !a.Enabled || a.Removed {
		return coord.Certificate{}, false, nil
	}
	a, err := c.o.Agents.Usable(ctx, a.ID)
	if ok, _ := tooled(a); err != nil || !ok {
		if err != nil {
			c.o.Logger.Info("an agent was not certified", "agent", a.ID, "err", err)
		}
		return coord.Certificate{}, false, ctx.Err()
	}
	cert := coord.Certificate{Issued: c.o.Journal.Now()}
	if cert.Facts, err = c.o.Box.Facts(of.Facts.Tier, programsOf(a)); err != nil {
		return cert, false, err
	}
	cert.Facts.Agent, cert.Facts.Revision = a.ID, a.Revision
	scratch, err := os.MkdirTemp(c.o.Scratch, "certify-*")
	if err != nil {
		return cert, false, fmt.Errorf("making a folder for probes: %w", err)
	}
	defer func() {
		if err := os.RemoveAll(scratch); err != nil {
			c.o.Logger.Warn("the folder of a certification could not be removed", "agent", a.ID, "err", err)
		}
	}()
	cert.Probes, err = prover.Prove(ctx, provider.Target{Agent: a.ID, Revision: a.Revision, Config: a.Config, Scratch: scratch})
	if err != nil {
		if ctx.Err() != nil {
			return cert, false, context.Cause(ctx)
		}
		// That it could not be probed is told in its own table, and keeps nothing
		// from the others.
		c.o.Logger.Warn("an agent could not be probed", "agent", a.ID, "code", coord.CodeOf(err), "err", err)
		cert.Probes = []coord.ProbeResult{{Name: "probes", Attempts: "make the probes: " + told(err), Verdict: coord.ProbeBroken, Outside: "ok", Inside: "ERROR"}}
	}
	for i := range cert.Probes {
		cert.Probes[i].Name = strings.Join([]string{string(a.ID), cert.Probes[i].Name}, ": ")
	}
	return cert, true, nil
}
