package tincan

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"signalbox/internal/clock"
	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// Timing holds the bounds in time; tests with real processes use shorter ones.
type Timing struct {
	// Command bounds one run of the program.
	Command time.Duration
	// First and Most are the shortest and the longest pause between two looks at
	// a request, Failed the longest after looks that failed.
	First, Most, Failed time.Duration
}

// DefaultTiming is what the product uses.
var DefaultTiming = Timing{Command: coord.TincanTimeout, First: coord.TincanFirstPoll, Most: coord.TincanPoll, Failed: coord.TincanFailedPoll}

// Options are what an Adapter may be given; zero values are the product's, but
// for Scratch.
type Options struct {
	// Scratch is an existing folder in which each process gets a private one.
	Scratch string
	Timing  Timing
	Clock   coord.Clock
	// Lookup reads the worker's environment, of which HOME is handed on.
	Lookup func(string) (string, bool)
	Logger *slog.Logger
}

// Adapter carries out the Tincan route.
type Adapter struct {
	starter stdio.Starter
	o       Options
}

// New makes an Adapter.
func New(starter stdio.Starter, o Options) *Adapter {
	if o.Timing == (Timing{}) {
		o.Timing = DefaultTiming
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
	return &Adapter{starter: starter, o: o}
}

// Route is tincan.
func (a *Adapter) Route() coord.Route { return coord.RouteTincan }

// requestHandle is what a handle of version 1 holds: with the receipt, which has
// the request's id and the time, all that is needed to ask about a request, and
// what was sent to whom as whom.
type requestHandle struct {
	// Profile names the revision of the agent that the work was sent with.
	Profile string `json:"profile"`
	// Identity is the program and the profile file as they were then.
	Identity coord.Identity `json:"identity"`
	// Agent is who we are under the profile, Relay where, without a password.
	Agent   string `json:"agent"`
	Relay   string `json:"relay"`
	Peer    string `json:"peer"`
	Dialect string `json:"dialect"`
	// Text is the SHA-256 of what was sent, in hex.
	Text string `json:"text_sha256"`
}

// openHandle reads a handle of ours.
func openHandle(h coord.Handle) (requestHandle, error) {
	var d requestHandle
	if h.Version != 1 || json.Unmarshal(h.Data, &d) != nil || !word(d.Peer) || !word(d.Agent) || d.Dialect != dialectJSON && d.Dialect != dialectText ||
		pathOf(d.Identity, roleLauncher) == "" || pathOf(d.Identity, roleProfile) == "" {
		return d, coord.Errorf(coord.Invalid, "the attempt's handle is not one of this version")
	}
	return d, nil
}

// receiptKind is the kind of receipts whose reference is a request's id.
const receiptKind = "request"

// Prepare compares the program and the profile with what was approved, and asks
// the relay for its agents: what cannot be reached now is told while nothing was
// sent yet, as it could not be told later.
func (a *Adapter) Prepare(ctx context.Context, w provider.Work) (provider.Session, error) {
	c, err := settings(w.Config)
	if err != nil {
		return nil, &provider.Unsent{Cause: provider.CauseConfig, Message: stdio.Shown(err)}
	}
	if why := unfit(w); why != "" {
		return nil, &provider.Unsent{Cause: provider.CauseConfig, Message: why}
	}
	now, p, err := identify(w.Config.Executable, c.Profile)
	if coord.CodeOf(err) == coord.Unauthenticated {
		return nil, &provider.Unsent{Cause: provider.CauseAuth, Message: stdio.Shown(err)}
	}
	if err := stdio.Stale(w.Identity, now, err); err != nil {
		return nil, err
	}
	if err := a.reachable(ctx, programOf(now), c.Peer); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(w.Prompt))
	d := requestHandle{Profile: fmt.Sprintf("%s@%d", w.Agent, w.Revision), Identity: now, Agent: p.Agent, Relay: p.relay(), Peer: c.Peer, Dialect: c.Dialect, Text: hex.EncodeToString(sum[:])}
	d.Identity.Version = ""
	h, err := provider.EncodeHandle(1, d)
	if err != nil {
		return nil, err
	}
	return newSession(a, w.Attempt, d, h, w.Prompt), nil
}

// settings checks a configuration. What is set for other routes would be set in
// vain here, which the operator must not be left to believe.
func settings(c coord.AgentConfig) (coord.TincanConfig, error) {
	t := c.Tincan
	switch {
	case t == nil:
		return coord.TincanConfig{}, coord.Errorf(coord.Invalid, "The agent's configuration has no Tincan peer.")
	case !word(t.Peer):
		return *t, coord.Errorf(coord.Invalid, "The name of the Tincan peer is missing or has characters that a name cannot have.")
	case t.Dialect != dialectJSON && t.Dialect != dialectText:
		return *t, coord.Errorf(coord.Invalid, "The dialect of the Tincan program is neither json nor text.")
	case len(c.Args)+len(c.Env)+len(c.EnvFromEnv)+len(c.RandomEnv)+len(c.State) > 0 || c.Mode != "" || c.ModelURL != "":
		return *t, coord.Errorf(coord.Invalid, "The Tincan program gets fixed arguments and an empty environment; remove arguments, variables, state, mode and model from the agent's configuration.")
	}
	return *t, nil
}

// unfit says why work cannot be given to a Tincan peer, "" when it can.
func unfit(w provider.Work) string {
	switch {
	case len(w.Tools) > 0:
		return "A Tincan peer cannot be offered Signalbox's tools; give it research alone."
	case len(w.Prompt) > coord.MaxTincanText:
		return fmt.Sprintf("The text for the Tincan peer has %d bytes, more than the %d that can be handed over; shorten the instruction or what the task needs.", len(w.Prompt), coord.MaxTincanText)
	case !utf8.ValidString(w.Prompt) || strings.ContainsRune(w.Prompt, 0):
		return "The text for the Tincan peer has bytes that cannot be handed over: NUL, or such as are not UTF-8."
	}
	return ""
}

// reachable reports whether the relay answers and lists the peer. Its errors are
// *provider.Unsent.
func (a *Adapter) reachable(ctx context.Context, p program, peer string) error {
	out, failed := a.run(ctx, p, "agents")
	switch {
	case ctx.Err() != nil:
		return stdio.GivenUp(ctx)
	case failed != nil:
		return &provider.Unsent{Cause: failed.cause, Message: failed.reason, Transient: failed.transient}
	case out.code != 0 && out.hint == hintStranger:
		return &provider.Unsent{Cause: provider.CauseAuth, Message: "The relay does not take the Tincan profile for a joined agent; join again with 'tincan rejoin'."}
	case out.code != 0:
		return &provider.Unsent{Cause: provider.CauseGone, Message: fmt.Sprintf("The relay did not list its agents: tincan ended with code %d%s.", out.code, out.hint.because()), Transient: out.hint == hintNone}
	}
	rows, _ := parseAgents(out.stdout)
	if _, ok := listed(rows, peer); !ok {
		return &provider.Unsent{Cause: provider.CauseConfig, Message: "The relay does not list the peer " + stdio.Quote(peer) + "."}
	}
	return nil
}

// Reattach follows a request under the profile that it was sent with.
func (a *Adapter) Reattach(_ context.Context, w provider.Work, h coord.Handle, r *coord.Receipt) (provider.Session, error) {
	d, err := openHandle(h)
	if err != nil {
		return nil, err
	}
	if r == nil || r.Kind != receiptKind || !validID(r.Reference) {
		return nil, coord.Errorf(coord.Unsupported, "without the id of its request a Tincan attempt cannot be followed")
	}
	s := newSession(a, w.Attempt, d, h, "")
	s.resume(r.Reference)
	return s, nil
}

// look asks the relay about a request, by the program and under the profile of
// the handle, which must be what they were. Its errors are *provider.Unsent when
// they are not, *coord.Error when that cannot be told, as while the program
// writes its profile, *failure and mismatch.
func (a *Adapter) look(ctx context.Context, d requestHandle, id string) (answer, error) {
	p := programOf(d.Identity)
	now, _, err := identify(p.executable, p.profile)
	if err != nil {
		return answer{}, err
	}
	if err := stdio.Stale(d.Identity, now, nil); err != nil {
		return answer{}, err
	}
	args := []string{"get", "--json", "--", id}
	if d.Dialect == dialectText {
		args = []string{"get", "--", id}
	}
	out, failed := a.run(ctx, p, args...)
	if failed != nil {
		return answer{}, failed
	}
	if len(out.stdout) == 0 {
		return answer{}, mismatch(fmt.Sprintf("tincan could not ask the relay: it ended with code %d and no answer%s.", out.code, out.hint.because()))
	}
	return parse(asked{dialect: d.Dialect, agent: d.Agent, peer: d.Peer, id: id}, out)
}

var _ provider.Adapter = (*Adapter)(nil)
