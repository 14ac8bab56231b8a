package workspace

import (
	"bytes"
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
)

// Sight is what Look finds at the path of a step.
type Sight string

// The sights.
const (
	// Before: the path is as it was before the step.
	Before Sight = "before"
	// After: the path is as the step was to leave it.
	After Sight = "after"
	// Foreign: it is neither, or something else than was approved lies under
	// the temporary name.
	Foreign Sight = "foreign"
)

// Look says what became of a step that was begun and whose end is not known.
// It only looks. The note is for a person: it says what lies under the
// temporary name, if anything does.
func Look(r *Root, step coord.LandingStep) (Sight, string, error) {
	l := &lander{r: r, step: step}
	if err := l.enter(); err != nil {
		if coord.CodeOf(err) == coord.NotFound {
			// Not even the folder is there.
			return sightOf(step, "", ""), "", nil
		}
		if coord.CodeOf(err) == coord.Invalid {
			return Foreign, err.Error(), nil
		}
		return "", "", err
	}
	defer l.dir.Close()
	// The temporary name first: what is there keeps its content, while the
	// path may be edited at any time.
	temp, err := l.sum(step.Temp)
	if err != nil {
		return "", "", err
	}
	at, err := l.sum(l.base)
	if err != nil {
		return "", "", err
	}
	sight := sightOf(step, at, temp)
	note := ""
	switch {
	case temp == "":
	case sight == Foreign:
		note = "beside it, " + quote(step.Temp) + " holds what was there or what was to be"
	default:
		note = quote(step.Temp) + " is left over beside it"
	}
	return sight, note, nil
}

// other stands for what is no readable file.
const other = "other"

// sum gives the digest of name, "" when there is nothing, other for what
// cannot be read by the rules.
func (l *lander) sum(name string) (string, error) {
	content, _, err := l.r.readIn(l.dir, l.step.Path, name)
	switch {
	case err == nil:
		return Sum(content), nil
	case coord.CodeOf(err) == coord.NotFound:
		return "", nil
	case unreadable(err):
		return other, nil
	}
	return "", err
}

// sightOf judges by the digests at the path and under the temporary name, ""
// where there is nothing.
func sightOf(step coord.LandingStep, at, temp string) Sight {
	switch {
	case at == step.Before && step.Kind == coord.StepRemove && temp != "":
		// Whatever was moved away, somebody made the path anew.
		return Foreign
	case at == step.Before:
		return Before
	case at == step.After && (temp == "" || temp == step.Before || temp == step.After):
		return After
	}
	return Foreign
}

// Tidy removes the temporary file of a step that was begun, if it holds
// nothing but what was approved to go or to come, whole or cut off by the end
// of the process, and reports whether the temporary name is free. It touches no
// other name, and what it removes is in the store.
func Tidy(ctx context.Context, r *Root, store Store, step coord.LandingStep) (bool, error) {
	l := &lander{r: r, step: step}
	if err := l.enter(); err != nil {
		if coord.CodeOf(err) == coord.NotFound {
			return true, nil
		}
		return false, err
	}
	defer l.dir.Close()
	temp, _, err := l.r.readIn(l.dir, step.Path, step.Temp)
	if unreadable(err) {
		return coord.CodeOf(err) == coord.NotFound, nil
	}
	if err != nil {
		return false, err
	}
	at, err := l.sum(l.base)
	if err != nil {
		return false, err
	}
	ours := false
	switch sightOf(step, at, Sum(temp)) {
	case After:
		ours = true
	case Before:
		content, err := store.Get(ctx, step.After)
		if err != nil {
			return false, err
		}
		ours = bytes.HasPrefix(content, temp)
	case Foreign:
	}
	if !ours {
		return false, nil
	}
	if err := unix.Unlinkat(l.fd(), step.Temp, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return false, trouble(step.Path, err)
	}
	return true, l.dir.Sync()
}
