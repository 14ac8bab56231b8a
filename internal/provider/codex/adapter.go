package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"signalbox/internal/clock"
	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// The bounds of single members of Codex's messages.
const (
	maxID   = 256
	maxName = 64
)

// toolPrefix begins the names under which a model gets Signalbox's tools, so
// that none can be taken for one of Codex's own.
const toolPrefix = "workspace_"

// Preset is the name of the suggestion for Codex, and Note what a person should
// know before registering it.
const (
	Preset = "codex"
	Note   = "Run 'codex login' first. A model may be chosen with the arguments -c and model=\"NAME\". Its own tools are turned off; threads are kept in its home beside yours."
)

// instructions take the place of those for a developer in Codex's own, whose
// base instructions speak of a shell and of patches.
const instructions = "This session is run by Signalbox. There is no shell, no patch tool, no network and no other agent here. " +
	"The tools that are offered are all there are, and the only way to files. A call may take long, because a person may have to agree to it first; " +
	"a refused call is an answer: go another way, or say what stands in the way. Without tools, answer from what the message says. " +
	"End with the result in plain words."

// Options are what an Adapter may be given; zero values are the product's, but
// for Scratch.
type Options struct {
	// Scratch is an existing folder in which each Codex gets a private one.
	Scratch string
	Timing  provider.Timing
	Clock   coord.Clock
	// Lookup reads the worker's environment.
	Lookup func(string) (string, bool)
	Logger *slog.Logger
	// Secret is told every value that only an agent is to know, under the name
	// of its variable, before the agent starts: what is known is redacted.
	Secret func(name, value string)
	// Version is told to Codex as the client's.
	Version string
	// Lab makes the probes of Prove.
	Lab Lab
}

// Adapter carries out the Codex route.
type Adapter struct {
	starter stdio.Starter
	o       Options
	starts  gates
}

// New makes an Adapter.
func New(starter stdio.Starter, o Options) *Adapter {
	if o.Timing == (provider.Timing{}) {
		o.Timing = provider.DefaultTiming
	}
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Lookup == nil {
		o.Lookup = os.LookupEnv
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Secret == nil {
		o.Secret = func(string, string) {}
	}
	if o.Version == "" {
		o.Version = "0"
	}
	return &Adapter{starter: starter, o: o}
}

// Route is codex.
func (a *Adapter) Route() coord.Route { return coord.RouteCodex }

// threadHandle is what a handle of version 1 holds.
type threadHandle struct {
	Thread string `json:"thread"`
	// Message is the id that Codex keeps with the prompt: the attempt's.
	Message string `json:"message"`
	// Codex is the version that the thread was made with, Home the folder that
	// holds it.
	Codex string `json:"codex"`
	Home  string `json:"home"`
}

// openHandle reads a handle of ours.
func openHandle(h coord.Handle) (threadHandle, error) {
	var d threadHandle
	if h.Version != 1 || json.Unmarshal(h.Data, &d) != nil || d.Thread == "" || d.Message == "" || !filepath.IsAbs(d.Home) {
		return d, coord.Errorf(coord.Invalid, "the attempt's handle is not one of this version")
	}
	return d, nil
}

// Prepare starts Codex and a thread of the attempt's own, and checks, beside
// it, that the program is the one that was approved.
func (a *Adapter) Prepare(ctx context.Context, w provider.Work) (provider.Session, error) {
	s := newSession(a.o.Clock, a.o.Logger.With("attempt", w.Attempt), w)
	type found struct {
		identity coord.Identity
		err      error
	}
	hashed := make(chan found, 1)
	go func() {
		id, err := identify(w.Config)
		hashed <- found{id, err}
	}()
	err := a.prepare(ctx, s, w)
	// The goroutine above ends by itself: it only reads files.
	now := <-hashed
	// Another program is the reason to tell, however its start went.
	if changed := stdio.Stale(w.Identity, now.identity, now.err); err == nil || now.err == nil && changed != nil {
		err = changed
	}
	if err != nil {
		u := unsent(ctx, "the preparation", err)
		if _, closeErr := s.Close(context.WithoutCancel(ctx)); closeErr != nil {
			s.logger.Warn("a Codex that was not used could not be ended", "error", closeErr)
		}
		return nil, u
	}
	return s, nil
}

func (a *Adapter) prepare(ctx context.Context, s *session, w provider.Work) error {
	tools, err := s.offer(w.Tools)
	if err != nil {
		return err
	}
	s.launched, err = a.launch(ctx, w.Config, func(c *stdio.Conn) stdio.Handler {
		s.c = c
		return s
	})
	if err != nil {
		return unsent(ctx, methodInitialize, err)
	}
	if len(w.Tools) > 0 && !proven(s.launched.version) {
		return &provider.Unsent{Cause: provider.CauseVersion, Message: fmt.Sprintf(
			"Codex %s was not proven to give a model no tools but Signalbox's, so it is for research only; proven are %s.", s.launched.version, strings.Join(Proven, ", "))}
	}
	opened, err := a.open(ctx, s.launched, tools)
	if err != nil {
		return unsent(ctx, methodThread, err)
	}
	s.mu.Lock()
	s.thread = opened.Thread.ID
	s.mu.Unlock()
	s.handle, err = provider.EncodeHandle(1, threadHandle{Thread: opened.Thread.ID, Message: string(w.Attempt), Codex: s.launched.version, Home: s.launched.home})
	return err
}

// open checks the account and what is in force, and starts a thread that is
// kept.
func (a *Adapter) open(ctx context.Context, l launched, tools []dynamicTool) (r threadResult, err error) {
	var account accountResult
	if err := l.conn.Call(ctx, methodAccount, map[string]bool{"refreshToken": false}, &account); err != nil {
		return r, err
	}
	if account.Requires && account.Account == nil {
		return r, &provider.Unsent{Cause: provider.CauseAuth, Message: "Codex wants a login first; " + loginHint}
	}
	want, err := inForce(ctx, l)
	if err != nil {
		return r, err
	}
	if err := l.conn.Call(ctx, methodThread, threadOf(l, tools, false, want), &r); err != nil {
		return r, err
	}
	return r, r.check(want, false)
}

// threadOf are the settings of a thread in the private folder: the workspace has
// files that Codex would read as its configuration.
func threadOf(l launched, tools []dynamicTool, ephemeral bool, want effective) threadParams {
	p := threadParams{
		Cwd: l.dir, ApprovalPolicy: approvalPolicy, Reviewer: reviewer, Sandbox: sandboxMode, History: historyMode, Ephemeral: ephemeral,
		Environments: []any{}, Tools: tools, Instructions: instructions, Config: want.override(),
	}
	if ephemeral {
		p.History = ""
	}
	return p
}

// loginHint says how a person logs Codex in.
const loginHint = "run 'codex login' as the user that runs signalbox serve."

// inForce reads what configuration is in force for the private folder.
func inForce(ctx context.Context, l launched) (e effective, err error) {
	var r configResult
	if err := l.conn.Call(ctx, methodConfig, map[string]any{"includeLayers": false, "cwd": l.dir}, &r); err != nil {
		return e, err
	}
	if stdio.Decode(r.Config, &e) != nil {
		return e, &stdio.Fault{Cause: provider.CauseProtocol, Reason: "Codex's answer to config/read is not what the protocol asks for."}
	}
	if name := e.differs(); name != "" {
		return e, &provider.Unsent{Cause: provider.CauseConfig, Message: "Codex does not follow Signalbox's setting of " + name + ", as when an administrator's configuration overrides it; nothing was sent."}
	}
	return e, nil
}

// unsent says why preparation failed.
func unsent(ctx context.Context, step string, err error) *provider.Unsent {
	var known *provider.Unsent
	var f *stdio.Fault
	var rpc *stdio.RPCError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &f):
		return f.Unsent()
	case errors.As(err, &rpc):
		return &provider.Unsent{Cause: provider.CauseProtocol, Message: stdio.Reason("Codex answered " + step + " with " + rpc.Error() + ".")}
	case ctx.Err() != nil:
		return stdio.GivenUp(ctx)
	}
	return &provider.Unsent{Cause: provider.CauseSpawn, Message: "Codex could not be talked to; the log has the cause.", Transient: true}
}

// Reattach cannot be: a turn ends with its process.
func (a *Adapter) Reattach(context.Context, provider.Work, coord.Handle, *coord.Receipt) (provider.Session, error) {
	return nil, provider.ErrGone
}

var _ provider.Adapter = (*Adapter)(nil)
