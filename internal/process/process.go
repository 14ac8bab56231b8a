package process

import (
	"context"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
	"signalbox/internal/fault"
)

// Ending says what came before a process's exit.
type Ending string

// The endings. Which of two came first is decided here, at one place, so that
// an exit that we caused is never reported as a crash.
const (
	// ByItself: it exited while its input was open and nobody had ended it.
	ByItself Ending = "by_itself"
	// AfterClose: its input had been closed, which asks for an exit.
	AfterClose Ending = "after_close"
	// AfterKill: Kill had been called.
	AfterKill Ending = "after_kill"
)

// Exit is how a process ended.
type Exit struct {
	// Code is the exit status, -1 after a signal.
	Code int `json:"code"`
	// Signal names the signal that ended it (SIGKILL), or is empty.
	Signal string `json:"signal,omitempty"`
	// Ending says whether it ended by itself.
	Ending Ending `json:"ending"`
}

// Process is a running program. Whoever started it must call Kill, also after
// it exited by itself, because its descendants may live on; then Close.
type Process struct {
	// Stdin is its standard input: a pipe with write deadlines.
	Stdin *Stdin
	// Stdout is its standard output: a pipe with read deadlines. It ends when
	// the last process that holds it is gone, so drain it after Kill.
	Stdout *os.File

	id     Identity
	ledger Ledger
	tree   *tree
	stderr tail
	errEnd *os.File

	killing atomic.Bool
	turn    chan struct{} // one token; who holds it is in Kill
	ended   bool          // guarded by turn

	// over is called by Close.
	over func()

	done     chan struct{}
	exit     Exit // set before done is closed
	routines sync.WaitGroup
}

// Stdin is a child's input. It remembers that it was closed.
type Stdin struct {
	*os.File
	closed atomic.Bool
}

// Close closes the pipe. A blocked write ends.
func (s *Stdin) Close() error {
	s.closed.Store(true)
	return s.File.Close()
}

func newProcess(id Identity, g *gated, ledger Ledger) *Process {
	p := &Process{
		Stdin: &Stdin{File: g.stdin}, Stdout: g.stdout, errEnd: g.stderr,
		id: id, ledger: ledger, tree: newTree(id),
		turn: make(chan struct{}, 1), done: make(chan struct{}), over: func() {},
	}
	p.turn <- struct{}{}
	p.routines.Go(func() { _, _ = io.Copy(&p.stderr, p.errEnd) })
	p.routines.Go(func() { p.await(g.proc) })
	return p
}

// await reaps the process. Before that, while its pid still proves which
// session is its own, it looks at what the process leaves behind.
func (p *Process) await(proc *os.Process) {
	awaitExit(p.id.PID)
	exit := Exit{Code: -1, Ending: ByItself}
	switch {
	case p.killing.Load():
		exit.Ending = AfterKill
	case p.Stdin.closed.Load():
		exit.Ending = AfterClose
	}
	// An unreadable table is met again, and reported, by Kill.
	_, _ = p.tree.members()
	if state, err := proc.Wait(); err == nil {
		exit.Code = state.ExitCode()
		if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			exit.Signal = unix.SignalName(ws.Signal())
		}
	}
	p.exit = exit
	close(p.done)
}

// Identity is the identity that the ledger holds.
func (p *Process) Identity() Identity { return p.id }

// Done is closed when the process itself has exited. Descendants may be left,
// and output may still be in the pipe.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the exit of the process itself.
func (p *Process) Wait(ctx context.Context) (Exit, error) {
	select {
	case <-p.done:
		return p.exit, nil
	case <-ctx.Done():
		return Exit{}, context.Cause(ctx)
	}
}

// Stderr is the end of what the process wrote to its standard error so far, at
// most coord.MaxStderr bytes. It may hold secrets: it is for the operator on
// this machine, after redaction, and for no log.
func (p *Process) Stderr() string { return p.stderr.String() }

// Kill ends the whole tree and returns when nothing of it is left and the
// ledger says so. It may be called several times and at the same time. After
// an error the ledger still holds the process, and Kill may be called again.
func (p *Process) Kill(ctx context.Context) error {
	p.killing.Store(true)
	select {
	case <-p.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { p.turn <- struct{}{} }()
	if p.ended {
		return nil
	}
	fault.Point("process.kill.before")
	if err := p.tree.end(ctx); err != nil {
		return err
	}
	if _, err := p.Wait(ctx); err != nil {
		return err
	}
	fault.Point("process.kill.after")
	if err := p.ledger.Ended(ctx, p.id); err != nil {
		return err
	}
	p.ended = true
	return nil
}

// Close gives the pipes back and waits for what reads them. The process must
// have exited; Kill sees to that.
func (p *Process) Close() {
	_ = p.Stdin.Close()
	_ = p.Stdout.Close()
	<-p.done
	// What was written before the exit is still in the pipe and is read to its
	// end; what holds it open beyond that escaped Kill and must not hold us.
	_ = p.errEnd.SetReadDeadline(time.Now().Add(time.Second))
	p.routines.Wait()
	_ = p.errEnd.Close()
	p.over()
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	// Cutting only at twice the size makes it one copy per MaxStderr bytes.
	if extra := len(t.buf) - coord.MaxStderr; extra > coord.MaxStderr {
		t.buf = append(t.buf[:0], t.buf[extra:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf[max(0, len(t.buf)-coord.MaxStderr):])
}
