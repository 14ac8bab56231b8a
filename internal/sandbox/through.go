package sandbox

import (
	"context"
	"slices"

	"signalbox/internal/coord"
	"signalbox/internal/sandbox/probe"
)

// ProveThrough makes the named probes, first outside and then through another's
// sandbox, such as an agent's own: through runs a program in dir there, and
// gives what it printed to standard output.
func (b *Box) ProveThrough(ctx context.Context, names []string, through func(ctx context.Context, program string, args []string, dir string) ([]byte, error)) ([]coord.ProbeResult, error) {
	helper, err := b.helperPath()
	if err != nil {
		return nil, err
	}
	l, err := newLab(ctx, helper)
	if err != nil {
		return nil, err
	}
	defer l.close()
	var probes []probe.Probe
	for _, p := range probe.All() {
		if slices.Contains(names, p.Name) {
			probes = append(probes, p)
		}
	}
	results := make([]coord.ProbeResult, len(probes))
	for i, p := range probes {
		word, err := l.outside(ctx, helper, p)
		if err != nil {
			return nil, err
		}
		results[i] = coord.ProbeResult{Name: p.Name, Attempts: p.What, Outside: word}
	}
	if err := l.restore(); err != nil {
		return nil, labError(err)
	}
	for i, p := range probes {
		args, err := l.arguments(p, l.Scratch)
		if err != nil {
			return nil, err
		}
		text, err := through(ctx, helper, args, l.Workspace)
		if err != nil {
			return nil, err
		}
		results[i].Inside = firstWord(text, "ended")
		judge(&results[i], p.Must, false)
	}
	return results, nil
}
