package sandbox

import (
	"errors"
	"os"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/filehash"
)

// waiting is a stage that waits for its order. Until then it holds nothing but
// the ends of its pipes, and in tier 1 namespaces of its own; it ends when the
// other ends are closed, and with the thread that started it.
type waiting struct {
	tier  coord.Tier
	dir   runDir
	pipes *pipes
	group *group
	proc  *os.Process
	// ended is closed when the process was awaited; state and err are its end.
	ended chan struct{}
	state *os.ProcessState
	err   error

	// served tells that it came as far as running the program.
	served bool

	since  time.Time
	helper filehash.State
	mounts *mounts
}

// stageEnv lets the runtime of a stage start fewer threads, which exec has to
// end; the program sees none of it.
var stageEnv = []string{"GOMAXPROCS=1", "GOGC=off"}

// begin starts a stage. The kernel ends it with the calling thread.
func begin(tier coord.Tier, helper, dir string) (w *waiting, err error) {
	w = &waiting{tier: tier, ended: make(chan struct{}), since: time.Now()}
	// Both are asked before the stage has what they tell of.
	if w.helper, err = identifyPath(helper); err != nil {
		return nil, helperError(err)
	}
	w.mounts = watchMounts()
	if w.dir, err = newRunDir(dir, tier); err != nil {
		return nil, errors.Join(err, w.mounts.close())
	}
	if w.pipes, err = newPipes(); err != nil {
		return nil, errors.Join(err, w.mounts.close(), w.dir.remove())
	}
	w.group = newGroup(w.dir)
	if err := w.start(helper); err != nil {
		w.group.close()
		w.pipes.close()
		return nil, errors.Join(err, w.mounts.close(), w.dir.remove())
	}
	w.pipes.closeTheirs()
	go func() {
		defer close(w.ended)
		w.state, w.err = w.proc.Wait()
	}()
	return w, nil
}

func (w *waiting) start(helper string) (err error) {
	attr := &os.ProcAttr{Dir: "/", Env: stageEnv, Files: w.pipes.theirs, Sys: stageAttr(w.tier, w.group)}
	argv := []string{"signalbox", stageArg}
	if w.proc, err = os.StartProcess(helper, argv, attr); err != nil && w.group != nil {
		// A container may refuse to start into a control group.
		w.group.close()
		w.group = nil
		attr.Sys = stageAttr(w.tier, nil)
		w.proc, err = os.StartProcess(helper, argv, attr)
	}
	if err != nil {
		return &refusal{stage: stageClone, err: err}
	}
	return nil
}

// fits reports whether a stage is what one that is started now would be: it
// lives, is not older than life, its program is the same, and it sees the same
// mounts.
func (w *waiting) fits(helper string, life time.Duration) bool {
	select {
	case <-w.ended:
		return false
	default:
	}
	id, err := identifyPath(helper)
	return err == nil && id == w.helper && time.Since(w.since) < life && (w.tier != tiers[0] || !w.mounts.changed())
}

// end ends what is left of a stage and of what it became, and removes what that
// wrote. The empty directories are left to close, because a disk may take longer
// to remove a directory than a program takes to run.
func (w *waiting) end() error {
	select {
	case <-w.ended:
	default:
		w.group.kill()
		_ = w.proc.Kill() // that it has ended meanwhile is no fault
		<-w.ended
	}
	return w.dir.empty()
}

// close ends a stage and gives back all that it had. Sweep takes what cannot be
// removed.
func (w *waiting) close() {
	_ = w.end()
	w.group.close()
	w.pipes.close()
	_ = errors.Join(w.mounts.close(), w.dir.remove())
}
