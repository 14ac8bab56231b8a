package a2a

import (
	"context"
	"fmt"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/a2a/signature"
	"signalbox/internal/provider/stdio"
)

// maxListed bounds how many skills and modes of a card are told.
const maxListed = 16

// Inspect fetches the card and asks the chosen interface for a task that cannot
// exist. It sends no work, logs in nowhere, and believes nothing that the card
// says of itself but tells it as the peer's claim.
func (a *Adapter) Inspect(ctx context.Context, t provider.Target) (coord.Inspection, error) {
	in := coord.Inspection{Agent: t.Agent, Revision: t.Revision, At: a.o.Clock(), Auth: coord.AuthUnknown}
	problem := func(err error, what string) (coord.Inspection, error) {
		if ctx.Err() != nil {
			return in, context.Cause(ctx)
		}
		u := unsent(ctx, what, err)
		in.Problem = u.Message
		if u.Cause == provider.CauseAuth {
			in.Auth, in.AuthHint = coord.AuthRequired, hint
		}
		return in, nil
	}
	c, err := configOf(t.Config)
	if err != nil {
		return problem(err, "its card")
	}
	k, err := a.fetchCard(ctx, c)
	if err != nil {
		return problem(err, "its card")
	}
	if in.Identity, err = k.identity(c); err != nil {
		in.Problem = stdio.Shown(err)
		return in, nil
	}
	in.Capabilities = k.capabilities()
	verified, warning := k.verify(c.Keys)
	in.Capabilities = append(in.Capabilities, verified)
	if warning != "" {
		in.Warnings = append(in.Warnings, warning)
	}
	in.Warnings = append(in.Warnings, k.warnings(c)...)
	address, tenant, err := k.choose(c)
	if err != nil {
		return problem(err, "its card")
	}
	if k.wantsCredential() && c.Credential == "" {
		in.Auth, in.AuthHint = coord.AuthRequired, hint
		in.Problem = "The peer's card asks for a credential, and none is configured."
		return in, nil
	}
	e := a.endpoint(c, handle{Version: c.Version, URL: address, Tenant: tenant})
	if err := e.probe(ctx, a.o.Timing.Setup); err != nil {
		return problem(err, "a task that does not exist")
	}
	in.Capabilities = append(in.Capabilities, coord.Capability{Name: "tasks by " + jsonRPC + " " + c.Version, Has: true, Evidence: coord.Measured, Detail: clip(address, coord.MaxReason)})
	in.Auth = coord.AuthReady
	in.Operations = []coord.Operation{coord.Research}
	return in, nil
}

// hint says how a peer gets its credential.
const hint = "Put a [credentials.NAME] with the peer's exact origin into the configuration file (signalbox.toml in the data directory), and name it in the agent's registration."

// capabilitySigned is the name of the capability that a card's signature was
// verified with a key of the operator.
const capabilitySigned = "card signature verified"

// verify tells whether a signature of the card was made with a key of the file,
// and what the operator should be warned of. Without a file nothing is verified.
func (k *card) verify(file string) (coord.Capability, string) {
	c := coord.Capability{Name: capabilitySigned, Evidence: coord.Measured}
	switch {
	case len(k.Signatures) == 0 && file == "":
		c.Detail = "not verified: the card has no signature"
		return c, ""
	case file == "":
		c.Detail = "not verified: no keys are configured that it could be verified with"
		return c, ""
	}
	key, why := signature.Verify(k.raw, file)
	if why != "" {
		c.Detail = "not verified: " + why
		return c, "The card's signature is not verified although keys are configured: " + why + "."
	}
	c.Has, c.Detail = true, "with the configured key "+quote(key)
	return c, ""
}

// capabilities are what the card claims.
func (k *card) capabilities() []coord.Capability {
	var skills []string
	for i, s := range k.Skills {
		if i == maxListed {
			skills = append(skills, fmt.Sprintf("and %d more", len(k.Skills)-maxListed))
			break
		}
		skills = append(skills, or(s.Name, s.ID))
	}
	modes := k.InputModes[:min(len(k.InputModes), maxListed)]
	out := []coord.Capability{
		{Name: "card", Has: true, Evidence: coord.Declared, Detail: quoted(k.Name + ": " + k.Description)},
		{Name: "skills", Has: len(k.Skills) > 0, Evidence: coord.Declared, Detail: quoted(strings.Join(skills, ", "))},
		{Name: "streaming", Has: k.Capabilities.Streaming, Evidence: coord.Declared},
		{Name: "input modes", Has: len(modes) > 0, Evidence: coord.Declared, Detail: quoted(strings.Join(modes, ", "))},
	}
	for _, name := range []string{"cancel", "input in the same task", "follow after a restart"} {
		out = append(out, coord.Capability{Name: name, Has: true, Evidence: coord.Declared, Detail: "by the protocol; whether the peer does it shows when it is asked"})
	}
	return out
}

// quoted marks a peer's words as such, within the bound of a quotation.
func quoted(s string) string {
	if strings.Trim(s, ": ") == "" {
		return ""
	}
	return quote(s)
}

// warnings are what the operator should know of a card.
func (k *card) warnings(c coord.A2AConfig) []string {
	var out []string
	if access, err := cardAccess(c); err == nil && access.Origin != c.Origin {
		out = append(out, "The card comes from "+access.Origin+" and the work goes to "+c.Origin+"; the credential goes to the latter alone.")
	}
	for _, x := range k.Capabilities.Extension {
		if x.Required {
			out = append(out, "The card requires the extension "+quote(x.URI)+", which Signalbox does not have; the peer may refuse the work.")
		}
	}
	if m := k.InputModes; len(m) > 0 && !takesText(m) {
		out = append(out, "The card does not say that the peer takes plain text, which is all that it is sent.")
	}
	if len(k.Interfaces) == 0 && k.Protocol != "" && !sameVersion(k.Protocol, c.Version) {
		out = append(out, "The card says version "+quote(k.Protocol)+"; the registered "+c.Version+" is what is spoken.")
	}
	return out[:min(len(out), maxListed)]
}

func takesText(modes []string) bool {
	for _, m := range modes {
		if m == "text" || m == "*/*" || strings.HasPrefix(m, "text/") {
			return true
		}
	}
	return false
}
