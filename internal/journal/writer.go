package journal

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"

	sqlite3 "modernc.org/sqlite/lib"

	"signalbox/internal/coord"
	"signalbox/internal/fault"
)

// A batch is what one COMMIT carries: at most maxBatch operations, and no
// further one after maxBatchBytes were written, so that a commit stays short.
const (
	maxBatch      = 256
	maxBatchBytes = 4 << 20
)

// operation is one Update on its way through the writer.
type operation struct {
	ctx     context.Context
	fn      func(*Tx) error
	control bool
	// taken is set by whoever comes first: the writer, which then answers, or
	// the caller, which then goes away.
	taken atomic.Bool
	done  chan error
	err   error
	ends  []func(committed bool) // of the last run
}

// end tells what became of the last run.
func (op *operation) end(committed bool) {
	for _, fn := range op.ends {
		fn(committed)
	}
	op.ends = nil
}

// Update runs fn in the writer and returns after COMMIT. It is the control
// lane, for everything but an agent's text.
//
// fn sees all earlier operations and runs alone. An error or panic of fn
// undoes fn's writes and is returned; it touches no other operation. fn may
// run a second time when the disk was full, so it sets its results anew each
// time; it must not call Update or View, nor wait for anything.
//
// When ctx ends while the operation waits for its turn, nothing is written and
// the cause is returned; once it runs, its outcome is awaited. An error of the
// database is Unavailable (Conflict when another owner has taken over), closes
// Failed, and leaves open whether fn's writes are on the disk.
func (j *Journal) Update(ctx context.Context, fn func(*Tx) error) error {
	return j.submit(j.control, &operation{ctx: ctx, fn: fn, control: true, done: make(chan error, 1)})
}

// UpdateText is Update for an agent's text: it goes after everything that
// waits in the control lane, and it is refused, as Unavailable, on a full disk
// on which control operations still succeed.
func (j *Journal) UpdateText(ctx context.Context, fn func(*Tx) error) error {
	return j.submit(j.text, &operation{ctx: ctx, fn: fn, done: make(chan error, 1)})
}

func (j *Journal) submit(lane chan<- *operation, op *operation) error {
	if err := j.refused(op.ctx); err != nil {
		return err
	}
	select {
	case lane <- op:
	case <-op.ctx.Done():
		return context.Cause(op.ctx)
	case <-j.closing:
		return errClosed()
	case <-j.failed:
		return j.Err()
	}
	select {
	case err := <-op.done:
		return err
	case <-op.ctx.Done():
	case <-j.closing:
	case <-j.failed:
	}
	if op.taken.CompareAndSwap(false, true) {
		return j.refused(op.ctx)
	}
	return <-op.done
}

// refused says why an operation cannot be run now, nil if it can.
func (j *Journal) refused(ctx context.Context) error {
	select {
	case <-j.failed:
		return j.Err()
	case <-j.closing:
		return errClosed()
	case <-ctx.Done():
		return context.Cause(ctx)
	default:
		return nil
	}
}

func errClosed() error {
	return coord.Errorf(coord.Unavailable, "the journal is closed: Signalbox is stopping, try again when it runs")
}

// write is the writer goroutine, the only one that touches db.writer.
func (j *Journal) write() {
	defer close(j.written)
	for {
		op := j.next()
		if op == nil {
			select {
			case op = <-j.control:
			case op = <-j.text:
			case <-j.closing:
				return
			case <-j.failed:
				return
			}
		}
		j.batch(op)
	}
}

// next gives what waits, control first, or nil.
func (j *Journal) next() *operation {
	select {
	case op := <-j.control:
		return op
	default:
	}
	select {
	case op := <-j.control:
		return op
	case op := <-j.text:
		return op
	default:
		return nil
	}
}

// batch runs first and everything that waits in one transaction, commits, and
// only then makes it visible and answers.
func (j *Journal) batch(first *operation) {
	if j.memory != nil {
		defer j.memory.turn()()
	}
	var ops []*operation
	answered := false
	defer func() {
		if !answered {
			// fn ended the goroutine (runtime.Goexit, as testing's FailNow
			// does): nobody writes after this.
			j.finish(ops, coord.Errorf(coord.Internal, "an operation ended the journal's writer: it must return instead"))
		}
	}()
	head, moved, err := j.transact(func(tx *Tx) {
		for op := first; op != nil; op = j.gather(len(ops)) {
			if !op.taken.CompareAndSwap(false, true) {
				continue
			}
			ops = append(ops, op)
			j.runIn(tx, op)
			if tx.s.broken != nil || tx.s.undone || tx.s.written >= maxBatchBytes {
				return
			}
		}
	})
	if isFull(err) && j.reserve.release() {
		j.log.Error("the disk is full: the reserve was released, and only control operations are written until there is space")
		head, moved, err = j.transact(func(tx *Tx) {
			for _, op := range ops {
				op.end(false)
				if tx.s.broken == nil {
					j.runIn(tx, op)
				}
			}
		})
	}
	answered = true
	switch {
	case sqliteCode(err) == sqlite3.SQLITE_BUSY && len(ops) == 0:
		// Another program holds the database; nothing was begun.
		if first.taken.CompareAndSwap(false, true) {
			first.done <- openFailed(err)
		}
	case err != nil:
		if coord.CodeOf(err) == coord.Internal {
			err = writeFailed(err)
		}
		j.finish(ops, err)
	default:
		if head != j.Head() {
			j.publish(head, moved)
		}
		for _, op := range ops {
			op.end(true)
			op.done <- op.err
		}
	}
	// Those who were answered are about to send their next operation: let
	// them, so that they share the next COMMIT instead of missing it.
	runtime.Gosched()
}

// finish fails the journal and answers ops with the reason.
func (j *Journal) finish(ops []*operation, err error) {
	j.fail(err)
	for _, op := range ops {
		op.end(false)
		op.done <- err
	}
}

// gather gives the next operation of a batch of n, or nil when it is complete.
func (j *Journal) gather(n int) *operation {
	if n >= maxBatch {
		return nil
	}
	return j.next()
}

// transact runs fill in a transaction of this generation and commits it. It
// gives what Head and Moved are after COMMIT. An error means that nothing may
// be relied on.
func (j *Journal) transact(fill func(*Tx)) (head, moved int64, err error) {
	ctx := context.Background() // the operations of a batch are not one caller's
	s := j.db.writer
	s.broken, s.written, s.undone = nil, 0, false
	defer func() {
		clear(s.writes) // for the collector
		s.writes = s.writes[:0]
		if err != nil {
			j.spanned = spanned{} // what it tells of was not kept
			// SQLite may have ended the transaction itself; then this fails.
			_ = s.run(ctx, "ROLLBACK")
		}
	}()
	if err := j.start(ctx, s); err != nil {
		return 0, 0, err
	}
	tx := &Tx{j: j, s: s, head: j.Head(), moved: j.Moved(), View: View{q: s}}
	fill(tx)
	if s.broken != nil {
		return 0, 0, s.broken
	}
	fault.Point("journal.commit.before")
	if err := s.run(ctx, "COMMIT"); err != nil {
		return 0, 0, err
	}
	fault.Point("journal.commit.after")
	return tx.head, tx.moved, nil
}

// start begins a transaction of this generation.
func (j *Journal) start(ctx context.Context, s *session) error {
	if err := s.run(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	var current int
	if err := s.QueryRowContext(ctx, `SELECT COUNT(*) FROM meta WHERE name = 'generation' AND value = $1`, strconv.FormatInt(j.generation, 10)).Scan(&current); err != nil {
		return err
	}
	if current != 1 {
		return coord.Errorf(coord.Conflict, "another worker has taken over this journal: this one must end")
	}
	return nil
}

// undo takes back what an operation wrote after the first kept writes: the
// transaction begins again, and what earlier operations wrote is written again.
// A savepoint for each operation would do the same at a price that all of them
// pay; few fail, and of those few had written. No other operation joins the
// transaction then, so that it is written anew once at most.
func (j *Journal) undo(s *session, kept int) error {
	ctx := context.Background()
	if err := s.run(ctx, "ROLLBACK"); err != nil {
		return err
	}
	if err := j.start(ctx, s); err != nil {
		return err
	}
	s.writes, s.undone = s.writes[:kept], true
	j.spanned = spanned{}
	for _, w := range s.writes {
		if _, err := s.ExecContext(ctx, w.query, w.args...); err != nil {
			return err
		}
	}
	return nil
}

// runIn runs one operation and leaves its outcome in op.err. When it failed,
// nothing of it is left.
func (j *Journal) runIn(tx *Tx, op *operation) {
	head, moved, mark := tx.head, tx.moved, len(tx.s.writes)
	tx.op, tx.ctx, tx.err, tx.now = op, op.ctx, nil, coord.Moment{}
	if !op.control && !j.reserve.held() {
		op.err = coord.Errorf(coord.Unavailable, "the disk of the data directory is full, and what is left is kept for control: free some space")
		return
	}
	op.err = j.call(tx, op)
	if op.err == nil {
		op.err = tx.err
	}
	if op.err != nil {
		op.end(false)
	}
	if tx.s.broken != nil || op.err == nil || len(tx.s.writes) == mark {
		return
	}
	tx.head, tx.moved = head, moved
	if err := j.undo(tx.s, mark); err != nil {
		tx.s.broken = err
	}
}

// call runs fn and turns its panic into an error.
func (j *Journal) call(tx *Tx, op *operation) (err error) {
	defer func() {
		if p := recover(); p != nil {
			j.log.Error("an operation of the journal panicked and was undone", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = coord.Errorf(coord.Internal, "an operation of the journal panicked and was undone: see the log")
		}
	}()
	return op.fn(tx)
}
