package stdio

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/process"
	"signalbox/internal/provider"
)

// Starter starts programs; process.Spare is the one of the product.
type Starter interface {
	Start(ctx context.Context, spec process.Spec) (*process.Process, error)
}

// Start starts a program. Its errors are *provider.Unsent.
func Start(ctx context.Context, s Starter, spec process.Spec) (*process.Process, error) {
	p, err := s.Start(ctx, spec)
	switch {
	case err == nil:
		return p, nil
	case ctx.Err() != nil:
		return nil, GivenUp(ctx)
	}
	transient := false
	switch coord.CodeOf(err) {
	case coord.NotFound, coord.Invalid, coord.Limit, coord.Unsupported:
	default:
		transient = true
	}
	return nil, &provider.Unsent{Cause: provider.CauseSpawn, Message: Shown(err), Transient: transient}
}

// Environment builds a child's whole environment from a configuration. Values
// of RandomEnv are new at each call and known to nobody else; secret is told
// every value that only the agent is to know, before the agent starts.
func Environment(c coord.AgentConfig, lookup func(string) (string, bool), secret func(name, value string)) ([]string, error) {
	fixed := maps.Clone(c.Env)
	if fixed == nil {
		fixed = map[string]string{}
	}
	for _, name := range c.RandomEnv {
		var b [32]byte
		_, _ = rand.Read(b[:]) // never fails, see crypto/rand
		fixed[name] = hex.EncodeToString(b[:])
		secret(name, fixed[name])
	}
	for _, name := range c.EnvFromEnv {
		if value, ok := lookup(name); ok {
			secret(name, value)
		}
	}
	return process.Environment(lookup, fixed, c.EnvFromEnv)
}

// Shown is the text of an error that may be shown.
func Shown(err error) string {
	if e, ok := errors.AsType[*coord.Error](err); ok && e.Code != coord.Internal {
		return e.Message
	}
	return "The agent could not be started; the log has the cause."
}

// Stale compares what was approved with what is there now, whose identity may
// have an err. Its errors are *provider.Unsent.
func Stale(approved, now coord.Identity, err error) error {
	if err != nil {
		return &provider.Unsent{Cause: provider.CauseStale, Message: Shown(err)}
	}
	if diff := approved.Diff(now); len(diff) > 0 {
		return &provider.Unsent{Cause: provider.CauseStale, Message: Reason("The agent is not the one that was approved: " + strings.Join(diff, "; ") + ".")}
	}
	return nil
}

// GivenUp says that the preparation was stopped by its context.
func GivenUp(ctx context.Context) *provider.Unsent {
	return &provider.Unsent{Cause: provider.CauseShutdown, Message: fmt.Sprintf("The preparation was stopped: %v.", context.Cause(ctx))}
}
