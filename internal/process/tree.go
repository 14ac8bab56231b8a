package process

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"signalbox/internal/clock"
	"signalbox/internal/coord"
)

const (
	// poll is how often a dying tree is looked at. One look reads the whole
	// process table, some milliseconds on a busy machine.
	poll = 10 * time.Millisecond
	// freezeTime bounds how long a tree that keeps forking is stopped before it
	// is killed anyway.
	freezeTime = 4 * time.Second
	// calmLooks is how many looks in a row must agree when none of them was
	// sure, because processes of others came and went during each.
	calmLooks = 8
)

// KillTree ends the process and all its descendants on this machine and
// returns when none is left: SIGTERM, coord.KillGrace, then everything is
// stopped so that nothing can fork any more, and SIGKILL, repeated for at most
// coord.KillWindow. An identity of an earlier boot has nothing left to end. The
// host of the identity is not looked at.
//
// Found are: the process, the chains of parents down from it, what carries the
// marker or writes to the tree's stderr, and every session in which one of
// these is. Not found is a descendant whose every living tie is cut at once: no
// parent in the tree, an environment without the marker, its output elsewhere,
// and nobody proven to be ours in its session.
func KillTree(ctx context.Context, id Identity) error {
	boot, err := clock.BootID()
	if err != nil {
		return err
	}
	if boot != id.BootID {
		return nil
	}
	return newTree(id).end(ctx)
}

// tree is a process with its descendants. What was found once is remembered,
// because the way that led to it may be gone at the next look.
type tree struct {
	id          Identity
	mu          sync.Mutex
	known, dead map[key]bool
}

func newTree(id Identity) *tree { return &tree{id: id, known: map[key]bool{}, dead: map[key]bool{}} }

// look is what one reading of the process table shows of a tree.
type look struct {
	live []entry
	// changed says that a process appeared or died since the look before.
	changed bool
	// sure says that the look cannot have missed a process whose parent ended
	// while the table was read. A death is such a case too: the table lists
	// the parent, and by the time its line is read it has passed the baton.
	sure bool
}

// members looks at the process table.
func (t *tree) members() (look, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all, sure, err := table()
	if err != nil {
		return look{}, err
	}
	l := look{sure: sure}
	for _, e := range pick(all, t.id, t.known, os.Getpid(), func(pid int) bool { return marked(pid, t.id) }) {
		l.changed = l.changed || !t.known[e.key()] || e.zombie && !t.dead[e.key()]
		t.known[e.key()] = true
		if !e.zombie {
			l.live = append(l.live, e)
			continue
		}
		t.dead[e.key()] = true
		if e.parent == os.Getpid() && e.pid != t.id.PID {
			// Where the worker is pid 1 of a container, orphans become its
			// children and nobody else would reap them. The process itself is
			// reaped by who started it.
			_, _ = syscall.Wait4(e.pid, nil, syscall.WNOHANG, nil)
		}
	}
	return l, nil
}

// pick decides which entries of a process table belong to the tree of id.
//
// A number is not enough: pids, and with them the numbers of sessions, are
// used again. Nothing that started before the root belongs to it. The root is
// pid and start time. A session belongs to the tree when one process in it is
// proven to: no process can enter a session from outside, and its number is
// not given away while anything is in it. The caller and its ancestors are
// never members, even when signalbox was started by an agent.
func pick(all []entry, id Identity, known map[key]bool, self int, marked func(pid int) bool) []entry {
	byPID := make(map[int]entry, len(all))
	for _, e := range all {
		byPID[e.pid] = e
	}
	spared := map[int]bool{0: true, 1: true}
	for pid := self; !spared[pid]; pid = byPID[pid].parent {
		spared[pid] = true
	}
	ours, sessions := map[int]bool{}, map[int]bool{}
	add := func(e entry) {
		ours[e.pid] = true
		if e.session > 1 {
			sessions[e.session] = true
		}
	}
	var others []entry
	for _, e := range all {
		switch {
		case spared[e.pid] || e.start < id.StartTime:
		case e.key() == id.key() || known[e.key()] || !e.zombie && marked(e.pid):
			add(e)
		default:
			others = append(others, e)
		}
	}
	for grown := true; grown; {
		grown = false
		for _, e := range others {
			if !ours[e.pid] && (ours[e.parent] || sessions[e.session]) {
				add(e)
				grown = true
			}
		}
	}
	var members []entry
	for _, e := range all {
		if ours[e.pid] {
			members = append(members, e)
		}
	}
	return members
}

// end kills until nothing is left.
func (t *tree) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, coord.KillWindow, coord.Errorf(coord.Unavailable,
		"The processes of pid %d did not end within %s after they were killed; end them by hand.", t.id.PID, coord.KillWindow))
	defer cancel()
	if ended, err := t.await(ctx, 0); ended || err != nil {
		return err
	}
	first, err := t.members()
	if err != nil {
		return err
	}
	_ = send(first.live, syscall.SIGTERM)
	// A stopped process takes SIGTERM only when it goes on.
	_ = send(first.live, syscall.SIGCONT)
	if ended, err := t.await(ctx, coord.KillGrace); ended || err != nil {
		return err
	}
	for {
		live, err := t.freeze()
		if err != nil {
			return err
		}
		// One that may not be signalled must not save the others; it is told
		// when it is what remains.
		refused := send(live, syscall.SIGKILL)
		if ended, err := t.await(ctx, 10*poll); ended {
			return nil
		} else if err != nil {
			return errors.Join(err, refused)
		}
	}
}

// freeze stops the tree until a look at it shows nobody new, so that no fork
// can slip past the killing, and returns the members. Killing at once would
// cut the chains of parents that lead to the newest.
func (t *tree) freeze() ([]entry, error) {
	stopped := map[key]bool{}
	calm := 0
	for begin := time.Now(); ; {
		l, err := t.members()
		if err != nil {
			return nil, err
		}
		calm++
		if l.changed {
			calm = 0
		}
		for _, e := range l.live {
			if !stopped[e.key()] {
				stopped[e.key()], calm = true, 0
				_ = send([]entry{e}, syscall.SIGSTOP)
			}
		}
		if calm > 0 && l.sure || calm >= calmLooks || time.Since(begin) > freezeTime {
			return l.live, nil
		}
	}
}

// await polls until nothing of the tree lives (true), something still does
// after d (false) or ctx ends (its cause).
func (t *tree) await(ctx context.Context, d time.Duration) (bool, error) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	calm := 0
	for begin := time.Now(); ; {
		l, err := t.members()
		if err != nil {
			return false, err
		}
		calm++
		if len(l.live) > 0 || l.changed {
			calm = 0
		}
		switch {
		case calm > 0 && l.sure || calm >= calmLooks:
			return true, nil
		case len(l.live) > 0 && time.Since(begin) >= d:
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// send signals each process that is still the one that was found. A process
// that ended meanwhile is no error.
func send(to []entry, sig syscall.Signal) error {
	var all []error
	for _, e := range to {
		// On Linux FindProcess opens a pidfd, so between the check of the
		// start time and the signal the pid cannot pass to another process.
		p, err := os.FindProcess(e.pid)
		if err != nil {
			continue
		}
		now, ok, err := lookup(e.pid)
		if ok && now.start == e.start && err == nil {
			err = p.Signal(sig)
		}
		_ = p.Release()
		if err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH) {
			all = append(all, coord.Errorf(coord.Unavailable, "Process %d cannot be ended, end it by hand: %w", e.pid, err))
		}
	}
	return errors.Join(all...)
}
