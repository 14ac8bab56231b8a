package probe

// native are the attempts that only macOS knows: none beyond the portable ones.
func native() []Probe { return nil }
