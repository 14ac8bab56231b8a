package tincan

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// The names of the capabilities that an inspection tells. That a relay lists a
// peer, or a peer is online, is no statement about any work.
const (
	capabilityListed = "peer listed"
	capabilityOnline = "peer online"
	capabilityJSON   = "answers in JSON"
	capabilityFollow = "can be asked after a restart"
	capabilityCancel = "can be stopped"
	capabilityInput  = "asks and takes answers"
)

// Inspect looks at the program's version and help text, and asks the relay for
// its agents. It neither joins nor takes anything from an inbox.
func (a *Adapter) Inspect(ctx context.Context, t provider.Target) (coord.Inspection, error) {
	in := coord.Inspection{Agent: t.Agent, Revision: t.Revision, At: a.o.Clock(), Auth: coord.AuthUnknown}
	c, err := settings(t.Config)
	var p profile
	if err == nil {
		in.Identity, p, err = identify(t.Config.Executable, c.Profile)
	}
	if err != nil {
		in.Problem = stdio.Shown(err)
		if coord.CodeOf(err) == coord.Unauthenticated {
			in.Auth, in.AuthHint = coord.AuthRequired, joinHint(c)
		}
		return in, nil
	}
	if p.open {
		in.Warnings = append(in.Warnings, "Other users of this machine may read the profile, and with it the relay's key; run 'chmod 600' on it.")
	}
	a.probe(ctx, c, programOf(in.Identity), &in)
	if ctx.Err() != nil {
		return in, context.Cause(ctx)
	}
	in.Warnings = append(in.Warnings,
		"While a text is handed over, other users of this machine can see it in the list of processes.",
		"tincan may look for its relay elsewhere and repeat a call by itself, and a relay offers a request again when its peer does not finish in time; a peer can get one text twice.")
	in.Capabilities = append(in.Capabilities,
		coord.Capability{Name: capabilityFollow, Has: true, Evidence: coord.Declared, Detail: "by the request's id, as " + stdio.Clip(p.Agent, coord.MaxTitle) + " at " + stdio.Clip(p.relay(), coord.MaxTitle)},
		coord.Capability{Name: capabilityCancel, Evidence: coord.Declared, Detail: "tincan withdraws only what no peer has taken"},
		coord.Capability{Name: capabilityInput, Evidence: coord.Declared})
	if in.Problem == "" {
		in.Operations = []coord.Operation{coord.Research}
	}
	return in, nil
}

func joinHint(c coord.TincanConfig) string {
	return "Run 'tincan join CODE --relay URL' with TINCAN_CONFIG=" + c.Profile + "; Signalbox joins nobody."
}

// probe fills in what the program and its relay show.
func (a *Adapter) probe(ctx context.Context, c coord.TincanConfig, p program, in *coord.Inspection) {
	problem := func(f *failure, what string, out output) {
		if f != nil {
			in.Problem = f.reason
			return
		}
		in.Problem = fmt.Sprintf("tincan %s ended with code %d%s.", what, out.code, out.hint.because())
	}
	out, f := a.run(ctx, p, "version")
	if f != nil {
		problem(f, "version", out)
		return
	}
	version := strings.Join(strings.Fields(string(out.stdout)), " ")
	if out.code != 0 || version == "" {
		in.Warnings = append(in.Warnings, "The program does not tell its version.")
	} else {
		in.Identity.Version = "tincan " + stdio.Clip(version, maxVersion)
	}
	if out, f = a.run(ctx, p, "ask", "--help"); f != nil || out.code != 0 {
		problem(f, "ask --help", out)
		return
	}
	speaks := bytes.Contains(out.stdout, []byte("--json"))
	in.Capabilities = append(in.Capabilities, coord.Capability{Name: capabilityJSON, Has: speaks, Evidence: coord.Measured, Detail: "by its help text"})
	switch {
	case c.Dialect == dialectJSON && !speaks:
		in.Problem = "This version of tincan does not know --json; register the peer with the dialect text, or update tincan."
		return
	case c.Dialect == dialectText && speaks:
		in.Warnings = append(in.Warnings, "This version of tincan knows --json, by which answers are told apart with more certainty; register the peer with the dialect json.")
	}
	if out, f = a.run(ctx, p, "agents"); f != nil || out.code != 0 {
		problem(f, "agents", out)
		if f == nil && out.hint == hintStranger {
			in.Auth, in.AuthHint = coord.AuthRequired, "Run 'tincan rejoin' with TINCAN_CONFIG="+c.Profile+"; Signalbox joins nobody."
		}
		return
	}
	in.Auth = coord.AuthReady
	rows, relay := parseAgents(out.stdout)
	if relay != "" {
		in.Capabilities = append(in.Capabilities, coord.Capability{Name: "relay", Has: true, Evidence: coord.Measured, Detail: "version " + stdio.Quote(relay)})
	}
	peer, ok := listed(rows, c.Peer)
	in.Capabilities = append(in.Capabilities, coord.Capability{Name: capabilityListed, Has: ok, Evidence: coord.Measured, Detail: fmt.Sprintf("agents of the relay: %d", len(rows))})
	if !ok {
		in.Problem = "The relay does not list a peer named exactly " + stdio.Quote(c.Peer) + "."
		return
	}
	in.Capabilities = append(in.Capabilities, coord.Capability{Name: capabilityOnline, Has: peer.online, Evidence: coord.Declared, Detail: "the relay says " + stdio.Quote(peer.detail)})
	if !peer.online {
		in.Warnings = append(in.Warnings, "The relay calls the peer offline; what is sent waits there for it, for a day at most.")
	}
}
