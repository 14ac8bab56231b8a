package cli

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"signalbox/internal/coord"
	"signalbox/internal/netguard"
)

// peerFlags are the flags that describe a peer: an agent that is reached, not
// started.
type peerFlags struct {
	card, origin, version, credential, ca, keys string
	private                                     bool
	tincan, profile, dialect                    string
}

func (f *peerFlags) add(c *cobra.Command, credentials cobra.CompletionFunc) {
	c.Flags().StringVar(&f.card, "a2a", "", "URL of an A2A peer's card, fetched exactly as it stands here")
	c.Flags().StringVar(&f.origin, "origin", "", "exact origin that an A2A peer's work goes to (default: that of its card)")
	c.Flags().StringVar(&f.version, "a2a-version", "", "version of the protocol, 0.3 or 1.0; nothing falls back to the other")
	c.Flags().StringVar(&f.credential, "credential", "", "NAME of a [credentials.NAME] whose value the A2A peer's origin is sent")
	c.Flags().BoolVar(&f.private, "private", false, "the A2A peer's names resolve to private addresses alone; with it, http is allowed")
	c.Flags().StringVar(&f.ca, "ca", "", "FILE of certificates (PEM) to trust for the A2A peer in place of the system's")
	c.Flags().StringVar(&f.keys, "keys", "", "FILE of keys (JSON Web Key Set) that the A2A peer's card must be signed with to be called verified")
	c.Flags().StringVar(&f.tincan, "tincan", "", "exact name of a Tincan peer, reached by the program tincan")
	c.Flags().StringVar(&f.profile, "profile", "", "FILE that tincan takes as its configuration, which says who you are there")
	c.Flags().StringVar(&f.dialect, "dialect", "", "what tincan answers in: json, or text where it does not know --json (default json)")
	_ = c.RegisterFlagCompletionFunc("credential", credentials)
	_ = c.RegisterFlagCompletionFunc("a2a-version", cobra.FixedCompletions([]string{"0.3", "1.0"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("dialect", cobra.FixedCompletions([]string{"json", "text"}, cobra.ShellCompDirectiveNoFileComp))
	for _, file := range []string{"ca", "keys", "profile"} {
		_ = c.MarkFlagFilename(file)
	}
}

// apply puts what the flags say into a configuration. What is missing or does
// not fit is told by the directory, with the rest.
func (f *peerFlags) apply(c *cobra.Command, cfg *coord.AgentConfig) error {
	given := c.Flags().Changed
	text := func(flag, value string, into *string) {
		if given(flag) {
			*into = value
		}
	}
	file := func(flag, value string, into *string) error {
		if !given(flag) {
			return nil
		}
		*into = ""
		if value == "" {
			return nil
		}
		path, err := filepath.Abs(value)
		*into = path
		return err
	}
	if f.card != "" && cfg.A2A == nil {
		cfg.Route, cfg.A2A = coord.RouteA2A, &coord.A2AConfig{}
	}
	if f.tincan != "" && cfg.Tincan == nil {
		cfg.Route, cfg.Tincan = coord.RouteTincan, &coord.TincanConfig{Dialect: "json"}
	}
	if p := cfg.A2A; p != nil {
		text("a2a", f.card, &p.Card)
		text("origin", f.origin, &p.Origin)
		text("a2a-version", f.version, &p.Version)
		text("credential", f.credential, &p.Credential)
		if given("private") {
			p.Private = f.private
		}
		if p.Origin == "" {
			if u, err := netguard.ParseURL(p.Card); err == nil {
				p.Origin = netguard.OriginOf(u)
			}
		}
		for _, one := range []struct {
			flag, value string
			into        *string
		}{{"ca", f.ca, &p.CA}, {"keys", f.keys, &p.Keys}} {
			if err := file(one.flag, one.value, one.into); err != nil {
				return err
			}
		}
		return stray(c, "tincan", "profile", "dialect")
	}
	if p := cfg.Tincan; p != nil {
		text("tincan", f.tincan, &p.Peer)
		text("dialect", f.dialect, &p.Dialect)
		if err := file("profile", f.profile, &p.Profile); err != nil {
			return err
		}
		return stray(c, "a2a", "origin", "a2a-version", "credential", "private", "ca", "keys")
	}
	return stray(c, "origin", "a2a-version", "credential", "private", "ca", "keys", "profile", "dialect")
}

// stray refuses flags that say something about another kind of agent.
func stray(c *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if c.Flags().Changed(name) {
			return coord.Errorf(coord.Invalid, "--%s says nothing about this kind of agent: it goes with %s", name, kindOf(name))
		}
	}
	return nil
}

func kindOf(flag string) string {
	switch flag {
	case "tincan", "profile", "dialect":
		return "--tincan"
	default:
		return "--a2a"
	}
}
