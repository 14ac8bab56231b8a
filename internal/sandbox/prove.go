package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
	"signalbox/internal/sandbox/probe"
)

// probeTimeout bounds one attempt: it is a handful of calls.
const probeTimeout = 20 * time.Second

var errProbeSlow = errors.New("an attempt took longer than 20 seconds")

// accepted are the probes that a tier is documented to permit. Without a file
// system of its own, names and sizes outside can be asked for, those in hidden
// directories can be listed, and scratch space is on the operator's disk.
var accepted = map[coord.Tier][]string{
	coord.TierLandlock: {"stat_outside", "list_hidden", "scratch_size"},
	coord.TierSeatbelt: {"stat_outside", "scratch_size"},
}

// Prove makes every probe, first outside and then inside of a tier. An error
// means that the probes could not be made; what they found is in the results.
func (b *Box) Prove(ctx context.Context, tier coord.Tier) ([]coord.ProbeResult, error) {
	helper, err := b.helperPath()
	if err != nil {
		return nil, err
	}
	l, err := newLab(ctx, helper)
	if err != nil {
		return nil, err
	}
	defer l.close()
	all := probe.All()
	results := make([]coord.ProbeResult, len(all))
	// Each outside attempt before each inside one: they make and remove the same
	// files, and what an attempt used up is no proof for the next.
	for i, p := range all {
		word, err := l.outside(ctx, helper, p)
		if err != nil {
			return nil, err
		}
		results[i] = coord.ProbeResult{Name: p.Name, Attempts: p.What, Outside: word}
	}
	if err := l.restore(); err != nil {
		return nil, labError(err)
	}
	var group errgroup.Group
	group.SetLimit(2)
	for i, p := range all {
		group.Go(func() error {
			word, err := b.inside(ctx, l, helper, tier, p)
			results[i].Inside = word
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, p := range all {
		judge(&results[i], p.Must, slices.Contains(accepted[tier], p.Name))
	}
	return results, nil
}

// judge draws the verdict from what an attempt gave outside and inside.
func judge(r *coord.ProbeResult, must, accept bool) {
	switch {
	case r.Outside != "ok":
		r.Verdict = coord.ProbeNotProven
	case must && r.Inside == "ok":
		r.Verdict = coord.ProbeWorks
	case must:
		r.Verdict = coord.ProbeBroken
	case r.Inside == "ok":
		r.Verdict, r.Accepted = coord.ProbePermitted, accept
	default:
		r.Verdict = coord.ProbeDenied
	}
}

// restore puts back what the outside attempts used up.
func (l *lab) restore() error {
	return errors.Join(l.files(), os.RemoveAll(l.Outside+"/dir"), os.RemoveAll(l.Outside+"/made-link"), os.RemoveAll(l.Scratch), os.MkdirAll(l.Scratch, 0o700))
}

// arguments are those of the program that makes an attempt.
func (l *lab) arguments(p probe.Probe, scratch string) ([]string, error) {
	aims := l.Lab
	aims.Scratch = scratch
	text, err := json.Marshal(aims) //nolint:gosec // the secret is bait, made for this one table
	return []string{probeArg, p.Name, string(text)}, err
}

// racing runs do while somebody exchanges the link, if the probe asks for it.
func (l *lab) racing(p probe.Probe, do func()) {
	if !p.Race {
		do()
		return
	}
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() { l.swap(stop) })
	do()
	close(stop)
	swapper.Wait()
}

// outside makes an attempt as any program of this user would.
func (l *lab) outside(ctx context.Context, helper string, p probe.Probe) (word string, err error) {
	args, err := l.arguments(p, l.Scratch)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, errProbeSlow)
	defer cancel()
	cmd := exec.CommandContext(ctx, helper, args...)
	cmd.Dir = l.Workspace
	var text []byte
	l.racing(p, func() { text, err = cmd.Output() })
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		return "", labError(err)
	}
	return firstWord(text, "ended"), nil
}

// inside makes it confined.
func (b *Box) inside(ctx context.Context, l *lab, helper string, tier coord.Tier, p probe.Probe) (word string, err error) {
	args, err := l.arguments(p, ScratchArg)
	if err != nil {
		return "", err
	}
	limits := DefaultLimits()
	limits.Wall, limits.FileSize, limits.Scratch = probeTimeout, labFileSize, labScratch
	var out Outcome
	l.racing(p, func() {
		out, err = b.Run(ctx, Spec{Tier: tier, Program: helper, Args: args, Workspace: l.Workspace, Limits: limits})
	})
	if err != nil {
		return "", err
	}
	if out.Ending == Cancelled {
		return "", context.Cause(ctx)
	}
	if !out.Gone {
		// Something outlived the run: the worst that an attempt can reach.
		return "ok", nil
	}
	otherwise := string(out.Ending)
	if out.Signal != "" {
		otherwise = out.Signal
	}
	return firstWord(out.Output, otherwise), nil
}

// firstWord is what an attempt printed: nothing else of its output is kept, and
// no word that is not one of ours.
func firstWord(text []byte, otherwise string) string {
	line, _, _ := bytes.Cut(text, []byte{'\n'})
	word := string(line)
	if word == "ok" || word == "WRONG" || word == "ERROR" || isErrno(word) {
		return word
	}
	return otherwise
}

func isErrno(word string) bool {
	return strings.HasPrefix(word, "E") && len(word) < 20 && errnoNames()[word]
}

// errnoNames are the names of this system's errors.
var errnoNames = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	for n := range 256 {
		if name := unix.ErrnoName(syscall.Errno(n)); name != "" {
			names[name] = true
		}
	}
	return names
})
