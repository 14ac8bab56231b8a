package journal

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"signalbox/internal/coord"
	"signalbox/internal/fault"
	"signalbox/internal/journal/ownerlock"
)

// The files of a journal, in its directory.
const (
	databaseName = "journal.db"
	lockName     = "owner.lock"
	reserveName  = "reserve"
)

// openSpace is the free space below which Open gives up the reserve at once:
// SQLite needs some to open at all, and the operator must be able to look at
// what runs and to stop it.
const openSpace = 4 << 20

// Options says where a journal is and what it needs. Clock, Redact and Logger
// are required, and either Dir or Memory.
type Options struct {
	// Dir is the data directory. It is made with mode 0700; the files in it
	// have mode 0600.
	Dir string
	// Memory holds the database instead of a directory, for model tests. It
	// has no files, so no lock file, reserve or backup either.
	Memory *Memory
	// Clock is the source of time.
	Clock coord.Clock
	// Redact is applied to every string of every document that is stored. It
	// must be safe for concurrent use and must be its own fixed point.
	Redact func(string) string
	// Logger receives what an operator of the machine must know.
	Logger *slog.Logger
	// Wait is how long Open waits for another owner that is draining; zero
	// refuses at once.
	Wait time.Duration
}

func (o Options) validate() error {
	var missing []error
	if o.Clock == nil {
		missing = append(missing, errors.New("journal: Options.Clock is required"))
	}
	if o.Redact == nil {
		missing = append(missing, errors.New("journal: Options.Redact is required"))
	}
	if o.Logger == nil {
		missing = append(missing, errors.New("journal: Options.Logger is required"))
	}
	if (o.Dir == "") == (o.Memory == nil) {
		missing = append(missing, errors.New("journal: exactly one of Options.Dir and Options.Memory is required"))
	}
	return errors.Join(missing...)
}

// Journal is an open journal. Its methods are safe for concurrent use.
type Journal struct {
	dir    string
	memory *Memory
	owned  bool // memory was acquired
	clock  coord.Clock
	redact func(string) string
	log    *slog.Logger

	db      *database
	lock    *ownerlock.Lock
	reserve *reserve

	// The writer's alone; entropy and newest are for ids.
	entropy *ulid.MonotonicEntropy
	newest  uint64 // milliseconds of the newest id
	spanned spanned

	epoch      string
	generation int64
	// opened is when this owner opened the journal, with the wall time of the
	// last event where the clock said less.
	opened coord.Moment
	// last is the moment of the last event before that.
	last coord.Moment

	control, text chan *operation
	closing       chan struct{} // closed when Close begins
	failed        chan struct{} // closed when the journal can no longer be written
	written       chan struct{} // closed when the writer goroutine has ended
	kept          chan struct{} // closed when the keeper goroutine has ended
	closeOnce     sync.Once
	closeErr      error

	mu      sync.Mutex
	err     error
	head    int64
	moved   int64
	waiters map[int64]chan struct{} // by the sequence that must be passed
}

// Open takes the ownership of the journal in o.Dir (or of o.Memory), brings
// its schema up to date after a backup, and starts the writer.
//
// It is a Conflict when another process owns the journal, Unavailable when the
// directory, the disk or the file system does not allow one, Unsupported when
// the database was made by a newer version, and Invalid when it is damaged or
// belongs to another program. Each says what to do.
func Open(ctx context.Context, o Options) (_ *Journal, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	j := &Journal{
		dir: o.Dir, memory: o.Memory, clock: o.Clock, redact: o.Redact, log: o.Logger,
		control: make(chan *operation, maxBatch),
		text:    make(chan *operation, maxBatch),
		closing: make(chan struct{}),
		failed:  make(chan struct{}),
		written: make(chan struct{}),
		kept:    make(chan struct{}),
		waiters: make(map[int64]chan struct{}),
		entropy: ulid.Monotonic(rand.Reader, 0),
	}
	defer func() {
		if err != nil {
			_ = j.release() // the first error is the one to tell
		}
	}()
	if err := j.own(ctx, o.Wait); err != nil {
		return nil, err
	}
	if j.memory != nil {
		j.db = j.memory.db
	} else if j.db, err = openDatabase(ctx, j.dir); err != nil {
		return nil, err
	}
	if err := j.migrate(ctx); err != nil {
		return nil, err
	}
	if err := j.begin(ctx); err != nil {
		return nil, err
	}
	if j.lock != nil {
		if err := j.lock.SetGeneration(j.generation); err != nil {
			return nil, err
		}
	}
	go j.write()
	go j.keep()
	return j, nil
}

// own prepares the directory and takes its lock, or takes the memory.
func (j *Journal) own(ctx context.Context, wait time.Duration) error {
	if j.memory != nil {
		err := j.memory.acquire()
		j.owned = err == nil
		return err
	}
	if err := prepareDir(j.dir); err != nil {
		return err
	}
	lock, err := ownerlock.Acquire(ctx, filepath.Join(j.dir, lockName), j.clock, wait)
	if err != nil {
		return err
	}
	j.lock = lock
	j.reserve = &reserve{path: filepath.Join(j.dir, reserveName)}
	if err := j.reserve.make(); err != nil {
		// Not fatal: the operator must be able to look at a full disk.
		j.log.Warn("the disk reserve could not be made; on a full disk even a cancellation may fail", "err", err)
	}
	free, err := j.Free()
	if err != nil {
		return err
	}
	if free < openSpace && j.reserve.release() {
		j.log.Error("the disk is full: the reserve was released, and only control operations are written until there is space")
	}
	return nil
}

// begin starts this owner's generation and reads where the journal stands.
func (j *Journal) begin(ctx context.Context) error {
	w := j.db.writer
	if err := w.run(ctx, "BEGIN IMMEDIATE"); err != nil {
		return openFailed(err)
	}
	err := func() error {
		epoch, err := meta(ctx, w, "epoch")
		if err != nil {
			return err
		}
		if epoch == "" {
			epoch = randomID()
			if err := setMeta(ctx, w, "epoch", epoch); err != nil {
				return err
			}
		}
		last, err := meta(ctx, w, "generation")
		if err != nil {
			return err
		}
		var generation int64
		if last != "" {
			if generation, err = strconv.ParseInt(last, 10, 64); err != nil {
				return coord.Errorf(coord.Invalid, "the journal's generation is not a number: the database is damaged; restore a backup")
			}
		}
		generation++
		if err := setMeta(ctx, w, "generation", strconv.FormatInt(generation, 10)); err != nil {
			return err
		}
		j.epoch, j.generation = epoch, generation
		return j.readHead(ctx)
	}()
	if err == nil {
		fault.Point("journal.begin.before")
		err = w.run(ctx, "COMMIT")
		fault.Point("journal.begin.after")
	}
	if err != nil {
		_ = w.run(context.WithoutCancel(ctx), "ROLLBACK") // the first error is the one to tell
		return openFailed(err)
	}
	return nil
}

func (j *Journal) readHead(ctx context.Context) error {
	j.opened = j.clock()
	j.last = j.opened
	v := View{ctx: ctx, q: j.db.writer}
	last, err := list[coord.Event](&v, `SELECT doc FROM events ORDER BY seq DESC LIMIT 1`)
	if err != nil {
		return err
	}
	if len(last) == 1 {
		j.head, j.moved, j.last = last[0].Seq, last[0].Seq, last[0].At
		if j.opened.Wall.Before(last[0].At.Wall) {
			j.opened.Wall = last[0].At.Wall
		}
	}
	return nil
}

// Close ends the journal: operations that run are finished, those that wait
// are refused, views are awaited, and the ownership is given up last. It is
// safe to call more than once.
func (j *Journal) Close() error {
	j.closeOnce.Do(func() {
		close(j.closing)
		<-j.written
		<-j.kept
		j.closeErr = j.release()
	})
	return j.closeErr
}

// release gives up what Open took, in reverse.
func (j *Journal) release() error {
	if j.memory != nil {
		if j.owned {
			j.memory.release()
		}
		return nil
	}
	var errs []error
	if j.db != nil {
		errs = append(errs, j.db.close())
	}
	if j.lock != nil {
		errs = append(errs, j.lock.Release())
	}
	return errors.Join(errs...)
}

// keep renews the owner's record and the disk reserve until the journal ends.
func (j *Journal) keep() {
	defer close(j.kept)
	if j.lock == nil {
		return
	}
	tick := time.NewTicker(coord.HeartbeatInterval)
	defer tick.Stop()
	for {
		select {
		case <-j.closing:
			return
		case <-tick.C:
		}
		if err := j.lock.Beat(); err != nil {
			j.log.Warn("the owner's record could not be renewed", "err", err)
		}
		if err := j.restoreReserve(); err != nil {
			j.log.Warn("the disk reserve could not be made again", "err", err)
		}
	}
}

// restoreReserve makes a released reserve again once there is room for twice
// as much, so that it is not released again at once.
func (j *Journal) restoreReserve() error {
	if j.reserve.held() {
		return nil
	}
	free, err := j.Free()
	if err != nil || free < 2*coord.ReserveSpace {
		return err
	}
	return j.reserve.make()
}

// Head is the sequence of the last committed event, 0 before the first.
func (j *Journal) Head() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.head
}

// Moved is the sequence of the last committed event that is more than what an
// agent says or does: those come all the time, and nothing is decided by them.
// The head at the time of Open counts as one.
func (j *Journal) Moved() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.moved
}

// Changed gives a channel that is closed as soon as Head is greater than
// after; at once, if it is already.
func (j *Journal) Changed(after int64) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.head > after {
		done := make(chan struct{})
		close(done)
		return done
	}
	c := j.waiters[after]
	if c == nil {
		c = make(chan struct{})
		j.waiters[after] = c
	}
	return c
}

// publish makes a committed head visible.
func (j *Journal) publish(head, moved int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.head, j.moved = head, moved
	for after, c := range j.waiters {
		if head > after {
			close(c)
			delete(j.waiters, after)
		}
	}
}

// Epoch is the random name of this journal's lineage. A cursor is good within
// one epoch only; a database restored from a backup begins a new one.
func (j *Journal) Epoch() string { return j.epoch }

// Generation numbers the owners of this journal; this one's is the greatest.
func (j *Journal) Generation() int64 { return j.generation }

// Now is the present moment. Its wall time is at least that of the last event
// when the journal was opened, and what has passed since: a clock set back
// while Signalbox was down neither pushes a deadline out nor stops it.
func (j *Journal) Now() coord.Moment {
	now := j.clock()
	if least := j.opened.Wall.Add(now.Since(j.opened)); now.Wall.Before(least) {
		now.Wall = least
	}
	return now
}

// Resumed gives the moment of the last event before this owner opened the
// journal, and the moment of the opening.
func (j *Journal) Resumed() (last, opened coord.Moment) { return j.last, j.opened }

// Failed is closed when the journal can no longer be written. The process is
// then to end: the next one finds what the disk really holds.
func (j *Journal) Failed() <-chan struct{} { return j.failed }

// Err says why Failed was closed, nil while it is open.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// fail closes Failed with the first cause.
func (j *Journal) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return
	}
	j.err = err
	j.log.Error("the journal can no longer be written", "err", err, "cause", errors.Unwrap(err))
	close(j.failed)
}

// Free is the space in bytes that this process may still use on the disk of
// Dir, the reserve not counted. In memory it is without bound.
func (j *Journal) Free() (uint64, error) {
	if j.memory != nil {
		return math.MaxUint64, nil
	}
	return freeSpace(j.dir)
}

// prepareDir makes dir private: mode 0700. A directory that others can enter
// is made private only when it is empty or already a journal's, because
// --data may name a directory that is somebody else's by mistake.
func prepareDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return dirFailed(dir, err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return dirFailed(dir, err)
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return dirFailed(dir, err)
	}
	if _, err := os.Stat(filepath.Join(dir, databaseName)); err != nil && len(entries) > 0 {
		return coord.Errorf(coord.Unavailable, "the data directory %s is open to other users and holds other files: name another directory with --data, or make it private with chmod 700", dir)
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a directory needs its x bit
		return dirFailed(dir, err)
	}
	return nil
}
