package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox/internal/clock"
	"signalbox/internal/coord"
	"signalbox/internal/process"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// Options are what an Adapter may be given; zero values are the product's.
type Options struct {
	Timing provider.Timing
	Clock  coord.Clock
	// Lookup reads the worker's environment.
	Lookup func(string) (string, bool)
	Logger *slog.Logger
	// Secret is told every value that only an agent is to know, under the name
	// of its variable, before the agent starts: what is known is redacted.
	Secret func(name, value string)
	// Version is told to agents as the client's.
	Version string
	// Program is the absolute path of this program, which agents start for the
	// tools of Signalbox, and Sockets the private folder for their sockets; it
	// is made when it is not there. Without them no tools can be offered.
	Program string
	Sockets string
	// Scratch is the folder in which Signalbox makes folders for agents. Agents
	// that are confined to their own state get a private one there, and may
	// write to the folder of their work if it is one of those. Without it no
	// agent can be confined.
	Scratch string
	// Lab and Model are for proofs; without them nothing can be proven.
	Lab   Lab
	Model func(Script) (Model, error)
}

// Adapter carries out the ACP route.
type Adapter struct {
	starter stdio.Starter
	o       Options
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
	o.Version = or(o.Version, "0")
	return &Adapter{starter: starter, o: o}
}

// Route is acp.
func (a *Adapter) Route() coord.Route { return coord.RouteACP }

// sessionHandle is what a handle of version 1 holds.
type sessionHandle struct {
	SessionID string `json:"session_id"`
	Dir       string `json:"dir"`
	// Load is whether the agent said that it can load sessions.
	Load bool `json:"load,omitempty"`
}

// start starts the agent of a configuration.
func (a *Adapter) start(ctx context.Context, dir string, config coord.AgentConfig, bind func(*stdio.Conn) stdio.Handler) (*stdio.Conn, error) {
	if why := floating(config.Executable, config.Args); why != "" {
		return nil, &provider.Unsent{Cause: provider.CauseConfig, Message: why}
	}
	config = pointed(config)
	own, err := a.confine(dir, &config)
	if err != nil {
		return nil, err
	}
	env, err := stdio.Environment(config, a.o.Lookup, a.o.Secret)
	if err != nil {
		own.remove(a.o.Logger)
		return nil, &provider.Unsent{Cause: provider.CauseConfig, Message: stdio.Shown(err)}
	}
	p, err := stdio.Start(ctx, a.starter, process.Spec{Path: config.Executable, Args: config.Args, Env: env, Dir: dir, Writes: own.writes})
	if err != nil {
		own.remove(a.o.Logger)
		return nil, err
	}
	return stdio.NewConn(p, stdio.Options{Timing: a.o.Timing, JSONRPC: "2.0", Ended: func() { own.remove(a.o.Logger) }}, bind), nil
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
	case errors.As(err, &rpc) && rpc.Code == codeAuthRequired:
		return &provider.Unsent{Cause: provider.CauseAuth, Message: "The agent refused a session until somebody logs it in, or its quota is used up; see 'agent inspect'."}
	case errors.As(err, &rpc):
		return &provider.Unsent{Cause: provider.CauseProtocol, Message: fmt.Sprintf("The agent answered %s with error %d; see 'agent inspect'.", step, rpc.Code)}
	case ctx.Err() != nil:
		return stdio.GivenUp(ctx)
	}
	return &provider.Unsent{Cause: provider.CauseSpawn, Message: "The agent could not be talked to; the log has the cause.", Transient: true}
}

// initialize opens the protocol. Only version 1 is accepted: what another
// version's messages mean is not known here.
func (a *Adapter) initialize(ctx context.Context, c *stdio.Conn) (initializeResult, error) {
	var r initializeResult
	err := c.Call(ctx, methodInitialize, initializeParams{
		ProtocolVersion: protocolVersion, ClientInfo: implementation{Name: "signalbox", Title: "Signalbox", Version: a.o.Version},
	}, &r)
	if err != nil {
		return r, err
	}
	if string(r.ProtocolVersion) != "1" {
		return r, &stdio.Fault{Cause: provider.CauseVersion, Reason: "The agent answered with protocol version " + stdio.Quote(string(r.ProtocolVersion)) + "; Signalbox speaks version 1 only."}
	}
	return r, nil
}

// open makes a session and sets its mode. The agent starts the servers, which
// may be none but not nil.
func (a *Adapter) open(ctx context.Context, c *stdio.Conn, dir string, config coord.AgentConfig, servers []mcpServer) (newResult, error) {
	var r newResult
	err := c.Call(ctx, methodNew, newParams{Meta: sessionMeta(config.Preset), Cwd: dir, MCPServers: servers}, &r)
	if rpc, ok := errors.AsType[*stdio.RPCError](err); ok && rpc.Code == stdio.CodeInvalidParams && len(servers) > 0 {
		return r, &provider.Unsent{Cause: provider.CauseConfig, Message: "The agent refused a session with the tools of Signalbox; it takes no tool servers, so it can do research only."}
	}
	if err != nil {
		return r, err
	}
	if r.SessionID == "" || len(r.SessionID) > maxSessionID {
		return r, &stdio.Fault{Cause: provider.CauseProtocol, Reason: "The agent's answer to session/new has no usable session id."}
	}
	if config.Mode == "" {
		return r, nil
	}
	return r, a.setMode(ctx, c, r, config.Mode)
}

// maxSessionID bounds an agent's session id.
const maxSessionID = 1 << 10

// setMode sets the mode that was configured, or fails: without it the agent
// might do unasked what the operator wants to be asked for.
func (a *Adapter) setMode(ctx context.Context, c *stdio.Conn, r newResult, mode string) error {
	var err error
	switch {
	case r.Modes != nil:
		var names []string
		for _, m := range r.Modes.Available {
			names = append(names, stdio.Cut(m.ID, maxName))
		}
		if !slices.Contains(names, mode) {
			return &provider.Unsent{Cause: provider.CauseConfig, Message: "The agent has no mode " + stdio.Quote(mode) + "; it offers " + stdio.Quote(strings.Join(names, ", ")) + "."}
		}
		err = c.Call(ctx, methodSetMode, setModeParams{r.SessionID, mode}, nil)
	default:
		at := slices.IndexFunc(r.ConfigOptions, func(o struct {
			ID       string `json:"id"`
			Category string `json:"category"`
		}) bool {
			return o.Category == "mode" || o.ID == "mode"
		})
		if at < 0 {
			return &provider.Unsent{Cause: provider.CauseConfig, Message: "The agent has no session modes, so its mode cannot be set to " + stdio.Quote(mode) + "; remove the mode from its configuration."}
		}
		err = c.Call(ctx, methodSetConfig, setConfigParams{r.SessionID, r.ConfigOptions[at].ID, mode}, nil)
	}
	if _, ok := errors.AsType[*stdio.RPCError](err); ok {
		return &provider.Unsent{Cause: provider.CauseConfig, Message: "The agent refused the mode " + stdio.Quote(mode) + "."}
	}
	return err
}

// Prepare starts the agent, opens a session in the work's folder and checks,
// beside it, that the program is the one that was approved.
func (a *Adapter) Prepare(ctx context.Context, w provider.Work) (provider.Session, error) {
	s := newSession(a.o.Clock, a.o.Logger.With("attempt", w.Attempt), w.Prompt)
	type found struct {
		identity coord.Identity
		err      error
	}
	hashed := make(chan found, 1)
	go func() {
		id, err := a.identify(w.Config)
		hashed <- found{id, err}
	}()
	handle, err := a.prepare(ctx, s, w)
	// The goroutine above ends by itself: it only reads files.
	now := <-hashed
	// Another program is the reason to tell, however its start went.
	if changed := stdio.Stale(w.Identity, now.identity, now.err); err == nil || now.err == nil && changed != nil {
		err = changed
	}
	if err != nil {
		u := unsent(ctx, "the preparation", err)
		if s.c != nil {
			if _, closeErr := s.Close(context.WithoutCancel(ctx)); closeErr != nil {
				s.logger.Warn("an agent that was not used could not be ended", "error", closeErr)
			}
		}
		return nil, u
	}
	s.handle = handle
	return s, nil
}

func (a *Adapter) prepare(ctx context.Context, s *session, w provider.Work) (coord.Handle, error) {
	c, err := a.start(ctx, w.Dir, w.Config, func(c *stdio.Conn) stdio.Handler {
		s.c = c
		return s
	})
	if err != nil {
		return coord.Handle{}, err
	}
	r, err := a.initialize(ctx, c)
	if err != nil {
		return coord.Handle{}, unsent(ctx, methodInitialize, err)
	}
	servers, err := a.offer(s, w.Tools)
	if err != nil {
		return coord.Handle{}, err
	}
	opened, err := a.open(ctx, c, w.Dir, w.Config, servers)
	if err != nil {
		return coord.Handle{}, unsent(ctx, methodNew, err)
	}
	s.mu.Lock()
	s.id = opened.SessionID
	s.mu.Unlock()
	return provider.EncodeHandle(1, sessionHandle{SessionID: opened.SessionID, Dir: w.Dir, Load: r.Capabilities.LoadSession})
}

// Reattach cannot be: a session ends with its process.
func (a *Adapter) Reattach(context.Context, provider.Work, coord.Handle, *coord.Receipt) (provider.Session, error) {
	return nil, provider.ErrGone
}

// openHandle reads a handle of ours.
func openHandle(h coord.Handle) (sessionHandle, error) {
	var d sessionHandle
	if h.Version != 1 || json.Unmarshal(h.Data, &d) != nil || d.SessionID == "" || !filepath.IsAbs(d.Dir) {
		return d, coord.Errorf(coord.Invalid, "the attempt's handle is not one of this version")
	}
	return d, nil
}

var _ provider.Adapter = (*Adapter)(nil)
