package acp

import "signalbox/internal/coord"

// Identify gives the identity that Prepare will compare.
func Identify(a *Adapter, c coord.AgentConfig) (coord.Identity, error) { return a.identify(c) }
