package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
)

// The points of a landing, in their order, at which a crash test ends the
// process. Between any two of them Look tells what became of the step.
const (
	pointChecked   = "workspace.land.checked"   // the path is as it was approved
	pointWritten   = "workspace.land.written"   // the new content is durable under the temporary name
	pointExchanged = "workspace.land.exchanged" // the new content has the path
	pointVerified  = "workspace.land.verified"  // what was displaced is what was to be
	pointRemoved   = "workspace.land.removed"   // the temporary name is gone
)

// Apply does one step, and gives it with its end. The caller has made the step
// durable before, calls Apply once, and makes the end durable after; if it
// cannot know whether Apply ran it calls Look. Nothing of somebody else's is
// overwritten: what Apply displaces it looks at, and it gives back what is not
// what was approved. A write through a handle that was opened before the
// exchange and happens after the look is lost; nothing can see it.
//
// ctx ends Apply only before the path is touched.
func Apply(ctx context.Context, r *Root, store Store, step coord.LandingStep) coord.LandingStep {
	l := &lander{r: r, step: step}
	var err error
	defer func() {
		if l.dir != nil {
			_ = l.dir.Close()
		}
	}()
	switch step.Kind {
	case coord.StepCreate:
		err = l.create(ctx, store)
	case coord.StepReplace:
		err = l.replace(ctx, store)
	case coord.StepRemove:
		err = l.remove(ctx)
	default:
		err = coord.Errorf(coord.Invalid, "%q is no kind of step", step.Kind)
	}
	switch {
	case err == nil:
	case l.step.State == "":
		l.end(coord.StepFailed, err.Error())
	default:
		l.step.Note = strings.TrimPrefix(l.step.Note+"; it may not outlive a power cut, because flushing it failed", "; ")
	}
	return l.step
}

// lander is one step under way.
type lander struct {
	r    *Root
	step coord.LandingStep
	dir  *os.File
	base string
}

func (l *lander) end(state coord.StepState, note string) {
	l.step.State, l.step.Note = state, note
}

func (l *lander) foreign(note string) { l.end(coord.StepForeign, note) }

// fd is the folder of the path.
func (l *lander) fd() int { return int(l.dir.Fd()) }

// enter opens the folder of the path.
func (l *lander) enter() error {
	names, err := splitFile(l.step.Path)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(l.step.Temp, ".signalbox-") || unspeakable(l.step.Temp) != "" || strings.Contains(l.step.Temp, "/") {
		return coord.Errorf(coord.Invalid, "%s is no temporary name of a landing", quote(l.step.Temp))
	}
	l.base = names[len(names)-1]
	l.dir, err = l.r.folder(l.step.Path, names[:len(names)-1])
	return err
}

// current looks whether the path is as it was approved. False without an error
// means that it is not, which is then the end of the step.
func (l *lander) current() (stat, bool, error) {
	content, s, err := l.r.readIn(l.dir, l.step.Path, l.base)
	if err == nil {
		switch sum := Sum(content); {
		case sum != l.step.Before:
			l.foreign("the file was changed after this change was made")
			return s, false, nil
		case l.step.BeforeMode != 0 && s.perm() != l.step.BeforeMode:
			l.foreign("the permissions of the file were changed after this change was made")
			return s, false, nil
		case s.special():
			return s, false, refusal(l.step.Path, "it gives a program other rights than its caller's, which landing would take away")
		}
		return s, true, nil
	}
	if unreadable(err) {
		l.foreign(err.Error())
		err = nil
	}
	return s, false, err
}

// unreadable reports an error that says that there is something else than a
// file that may be read, or nothing.
func unreadable(err error) bool {
	return slices.Contains([]coord.Code{coord.NotFound, coord.Invalid, coord.Limit}, coord.CodeOf(err))
}

// write puts the approved content under the temporary name, for the owner of
// like, and makes it durable.
func (l *lander) write(ctx context.Context, store Store, like *stat) (ours stat, err error) {
	content, err := contentOf(ctx, store, l.step.After)
	if err != nil {
		return stat{}, err
	}
	if ctx.Err() != nil {
		return stat{}, context.Cause(ctx)
	}
	fd, err := openAt(l.fd(), l.step.Temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return stat{}, trouble(path.Join(path.Dir(l.step.Path), l.step.Temp), err)
	}
	f := os.NewFile(uintptr(fd), l.step.Temp)
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
		if err != nil {
			l.drop()
			err = trouble(l.step.Path, err)
		}
	}()
	if _, err = f.Write(content); err != nil {
		return stat{}, err
	}
	if ours, err = statAt(fd, ""); err != nil {
		return stat{}, err
	}
	if like != nil && (like.uid != ours.uid || like.gid != ours.gid) {
		if err := unix.Fchown(fd, int(like.uid), int(like.gid)); err != nil {
			return stat{}, coord.Errorf(coord.Unsupported, "%s belongs to another user or group, which landing cannot keep: change its owner or edit it yourself", quote(l.step.Path))
		}
	}
	if err := unix.Fchmod(fd, uint32(l.step.Mode)); err != nil {
		return stat{}, err
	}
	if err := f.Sync(); err != nil {
		return stat{}, err
	}
	return statAt(fd, "")
}

// drop removes the temporary name, which holds nothing but ours.
func (l *lander) drop() { _ = unix.Unlinkat(l.fd(), l.step.Temp, 0) }

// finish removes what was displaced and approved to go.
func (l *lander) finish() error {
	l.r.at(pointVerified)
	l.end(coord.StepLanded, "the former content is still there as "+quote(l.step.Temp))
	// Durable first: after a power cut the path must not be found with neither
	// content.
	if err := l.dir.Sync(); err != nil {
		return err
	}
	if unix.Unlinkat(l.fd(), l.step.Temp, 0) == nil {
		l.r.at(pointRemoved)
		l.end(coord.StepLanded, "")
	}
	return l.dir.Sync()
}

func (l *lander) create(ctx context.Context, store Store) error {
	landed := false
	defer func() {
		if !landed {
			l.unmakeFolders()
		}
	}()
	if err := l.makeFolders(); err != nil {
		return err
	}
	if err := l.enter(); err != nil {
		return err
	}
	if s, err := statAt(l.fd(), l.base); err == nil {
		l.foreign("there is " + s.kind() + " at the path by now")
		return nil
	}
	l.r.at(pointChecked)
	if _, err := l.write(ctx, store, nil); err != nil {
		return err
	}
	l.r.at(pointWritten)
	if err := place(l.fd(), l.step.Temp, l.base); err != nil {
		l.drop()
		if errors.Is(err, unix.EEXIST) {
			l.foreign("a file was made at the path meanwhile")
			return nil
		}
		return trouble(l.step.Path, unable(err))
	}
	landed = true
	l.r.at(pointExchanged)
	l.end(coord.StepLanded, "")
	return l.dir.Sync()
}

func (l *lander) replace(ctx context.Context, store Store) error {
	if err := l.enter(); err != nil {
		if coord.CodeOf(err) == coord.NotFound {
			l.foreign(err.Error())
			return nil
		}
		return err
	}
	was, ok, err := l.current()
	if err != nil || !ok {
		return err
	}
	l.r.at(pointChecked)
	ours, err := l.write(ctx, store, &was)
	if err != nil {
		return err
	}
	l.r.at(pointWritten)
	if err := exchange(l.fd(), l.step.Temp, l.base); err != nil {
		l.drop()
		if errors.Is(err, unix.ENOENT) {
			l.foreign("the file was removed meanwhile")
			return nil
		}
		return trouble(l.step.Path, unable(err))
	}
	l.r.at(pointExchanged)
	if l.displacedIsApproved(was) {
		return l.finish()
	}
	return l.giveBack(ours)
}

// displacedIsApproved looks at what is under the temporary name now.
func (l *lander) displacedIsApproved(was stat) bool {
	content, s, err := l.r.readIn(l.dir, l.step.Path, l.step.Temp)
	return err == nil && Sum(content) == l.step.Before && s.perm() == was.perm() && s.uid == was.uid && s.gid == was.gid
}

// giveBack puts what was displaced to its path again, if ours is still there.
func (l *lander) giveBack(ours stat) error {
	if l.holdsOurs(l.base, ours) {
		if err := exchange(l.fd(), l.step.Temp, l.base); err != nil {
			l.diverged()
			return l.dir.Sync()
		}
		// Somebody may have come between the look and the exchange.
		if l.holdsOurs(l.step.Temp, ours) {
			l.drop()
			l.foreign("the file was changed while it was exchanged, and the change was put back")
			return l.dir.Sync()
		}
	}
	l.diverged()
	return l.dir.Sync()
}

// holdsOurs reports whether name is the file that we wrote, as we wrote it.
func (l *lander) holdsOurs(name string, ours stat) bool {
	content, s, err := l.r.readIn(l.dir, l.step.Path, name)
	return err == nil && s.same(ours) && Sum(content) == l.step.After
}

func (l *lander) diverged() {
	l.end(coord.StepDiverged, "the file was changed while it was exchanged; what was there before is kept beside it as "+quote(l.step.Temp))
}

func (l *lander) remove(ctx context.Context) error {
	if err := l.enter(); err != nil {
		if coord.CodeOf(err) == coord.NotFound {
			l.foreign(err.Error())
			return nil
		}
		return err
	}
	was, ok, err := l.current()
	if err != nil || !ok {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l.r.at(pointChecked)
	if err := place(l.fd(), l.base, l.step.Temp); err != nil {
		if errors.Is(err, unix.ENOENT) {
			l.foreign("the file was removed meanwhile")
			return nil
		}
		return trouble(l.step.Path, unable(err))
	}
	l.r.at(pointExchanged)
	if l.displacedIsApproved(was) {
		return l.finish()
	}
	if err := place(l.fd(), l.step.Temp, l.base); err != nil {
		l.diverged()
		return l.dir.Sync()
	}
	l.foreign("the file was changed while it was removed, and was put back")
	return l.dir.Sync()
}

// unable says what the system's error means for an exchange.
func unable(err error) error {
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) {
		return cannotLand()
	}
	return err
}

func cannotLand() error {
	return coord.Errorf(coord.Unsupported, "the file system of the workspace cannot exchange two files in one step, without which a change could overwrite another: move the workspace to a local disk (ext4, xfs, btrfs, tmpfs, APFS)")
}

// makeFolders makes the folders of the path that are missing and notes them.
func (l *lander) makeFolders() error {
	names, err := splitFile(l.step.Path)
	if err != nil {
		return err
	}
	for i := range names[:len(names)-1] {
		dir, err := l.r.folder(l.step.Path, names[:i])
		if err != nil {
			return err
		}
		err = unix.Mkdirat(int(dir.Fd()), names[i], 0o755)
		if err == nil {
			l.step.Made = append(l.step.Made, path.Join(names[:i+1]...))
			err = dir.Sync()
		}
		_ = dir.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return trouble(l.step.Path, err)
		}
	}
	return nil
}

// unmakeFolders removes the made folders again, as far as they are empty.
func (l *lander) unmakeFolders() {
	for len(l.step.Made) > 0 {
		last := l.step.Made[len(l.step.Made)-1]
		dir, err := l.r.folder(last, strings.Split(last, "/")[:strings.Count(last, "/")])
		if err != nil {
			return
		}
		err = unix.Unlinkat(int(dir.Fd()), path.Base(last), unix.AT_REMOVEDIR)
		_ = dir.Close()
		if err != nil {
			return
		}
		l.step.Made = l.step.Made[:len(l.step.Made)-1]
	}
}

// CanLand tries the exchange that a landing stands on with two files of its
// own in the workspace, and removes them. It is Unsupported, with the reason
// and the remedy, where changes could be reviewed but never land.
func CanLand(r *Root) error {
	dir, err := r.folder(".", nil)
	if err != nil {
		return err
	}
	defer dir.Close()
	fd := int(dir.Fd())
	a := ".signalbox-probe-" + rand.Text()
	b := a + "-b"
	var inodes [2]stat
	for i, name := range []string{a, b} {
		f, err := openAt(fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
		if err != nil {
			return trouble(".", err)
		}
		defer func() { _ = unix.Unlinkat(fd, name, 0) }()
		inodes[i], err = statAt(f, "")
		_ = unix.Close(f)
		if err != nil {
			return err
		}
	}
	if err := exchange(fd, a, b); err != nil {
		return fmt.Errorf("trying to exchange files in the workspace: %w", unable(err))
	}
	s, err := statAt(fd, a)
	if err != nil {
		return err
	}
	if err := place(fd, a, b); !s.same(inodes[1]) || !errors.Is(err, unix.EEXIST) {
		return cannotLand()
	}
	return nil
}
