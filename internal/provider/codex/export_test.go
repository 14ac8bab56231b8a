package codex

import "signalbox/internal/coord"

// Identify gives the identity that Prepare will compare.
func Identify(c coord.AgentConfig) (coord.Identity, error) { return identify(c) }
