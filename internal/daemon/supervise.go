package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/fault"
	"signalbox/internal/process"
)

// The pauses between two starts of a worker that keeps dying: from minPause,
// doubled up to maxPause, and from the beginning once one has lived for
// steadyLife.
const (
	minPause   = 100 * time.Millisecond
	maxPause   = 10 * time.Second
	steadyLife = time.Minute
)

// endWindow is how long a worker that was asked to end may take before it is
// killed: draining, settling, and closing the journal.
const endWindow = coord.DrainWindow + coord.KillWindow + 5*time.Second

// supervisor keeps a worker running.
type supervisor struct {
	executable string
	args       []string
	stderr     io.Writer
	log        *slog.Logger
	// ready is called once, when the first worker answers.
	ready func() error

	now      atomic.Pointer[link]
	wasReady bool // some worker was
}

// link is the way to the worker, or why there is none.
type link struct {
	transport *http.Transport
	down      *coord.Error
}

func down(why string) *link { return &link{down: coord.Errorf(coord.Unavailable, "%s", why)} }

// RoundTrip sends a request to the worker, if there is one.
func (s *supervisor) RoundTrip(r *http.Request) (*http.Response, error) {
	l := s.now.Load()
	if l.down != nil {
		return nil, l.down
	}
	res, err := l.transport.RoundTrip(r)
	if err != nil {
		return nil, wentAway(err)
	}
	return res, nil
}

// wentAway tells of a worker that ended before its whole answer was there.
func wentAway(err error) error {
	return &coord.Error{Code: coord.Unavailable, Message: "the worker went away while it was asked: see what became of it before asking again", Err: err}
}

// Run starts workers one after another until ctx ends or the operator stops
// Signalbox. The error of a first worker that refuses to start is given.
func (s *supervisor) Run(ctx context.Context) error {
	s.now.Store(down("the worker is starting: try again in a moment"))
	pause := minPause
	for {
		began := time.Now()
		refused, err := s.live(ctx)
		switch {
		case errors.Is(err, ErrOperatorStop):
			return nil
		case ctx.Err() != nil && !s.wasReady:
			return nil // it was ended before it could handle signals, or refused: nobody waits for it any more
		case ctx.Err() != nil:
			return err
		case !s.wasReady && err == nil:
			return coord.Errorf(coord.Unavailable, "the worker ended before it was ready, and did not say why")
		case !s.wasReady:
			return err
		}
		if time.Since(began) > steadyLife {
			pause = minPause
		}
		s.log.Error("the worker ended and is started again", "err", err, "pause", pause.String())
		if refused {
			s.now.Store(down("the worker does not start: " + err.Error()))
		} else {
			s.now.Store(down("the worker ended unexpectedly and is being started again: try again in a moment"))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, maxPause)
	}
}

// live starts a worker, watches over it, and returns when it is gone. refused
// tells that it did not want to start, and err why.
func (s *supervisor) live(ctx context.Context) (refused bool, err error) {
	if ctx.Err() != nil {
		return false, nil
	}
	p, err := s.start()
	if err != nil {
		return true, &coord.Error{Code: coord.Unavailable, Message: "the worker cannot be started: check that the program still exists and that this machine can start processes", Err: err}
	}
	defer p.close()
	greeting, left := context.WithCancelCause(context.WithoutCancel(ctx))
	greeted := make(chan struct{})
	go func() {
		defer close(greeted)
		greet(greeting, p.transport)
	}()
	defer func() {
		left(ErrShutdown)
		<-greeted
	}()
	exited := make(chan error, 1)
	go func() { exited <- p.cmd.Wait() }()
	reports := readReports(p.reports)
	stopping := ctx.Done()
	var kill <-chan time.Time
	for {
		select {
		case r, open := <-reports:
			if !open {
				reports = nil
				p.transport.CloseIdleConnections()
				continue
			}
			if failed := s.hear(r, p); failed != nil {
				refused, err = r.State == workerRefused, failed
				if r.State == workerReady { // and that could not be told to anybody
					_ = p.cmd.Process.Signal(syscall.SIGTERM)
				}
			}
		case <-stopping:
			stopping = nil
			// It may be gone already; then its exit is the next thing seen.
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
			timer := time.NewTimer(endWindow)
			defer timer.Stop()
			kill = timer.C
		case <-kill:
			s.log.Error("the worker did not end in time and is killed", "pid", p.cmd.Process.Pid)
			_ = p.cmd.Process.Kill()
		case exit := <-exited:
			// What it wrote before is still in the pipe.
			for reports != nil {
				r, open := <-reports
				if !open {
					break
				}
				if failed := s.hear(r, p); failed != nil {
					refused, err = r.State == workerRefused, failed
				}
			}
			if err == nil && exit != nil {
				err = coord.Errorf(coord.Unavailable, "the worker ended: %s; its log says more", exit.Error())
			}
			return refused, err
		}
	}
}

// hear takes a report. Its error is why the worker ends.
func (s *supervisor) hear(r report, p *started) error {
	switch r.State {
	case workerReady:
		fault.Point("door.ready")
		s.now.Store(&link{transport: p.transport})
		s.log.Info("the worker is ready", "pid", p.cmd.Process.Pid)
		if s.wasReady {
			return nil
		}
		if err := s.ready(); err != nil {
			return err
		}
		s.wasReady = true
		return nil
	case workerStopped:
		return ErrOperatorStop
	case workerRefused:
		_ = p.conn.Close() // nothing but the greeting was ever sent on it
	}
	return coord.Errorf(r.Code, "%s", r.Message)
}

// started is a running worker as the front door holds it.
type started struct {
	cmd       *exec.Cmd
	conn      net.Conn
	transport *http.Transport
	reports   *os.File
}

// close gives up what belongs to a worker that is gone.
func (p *started) close() {
	p.transport.CloseIdleConnections()
	// The other ends are gone; there is nothing that could be lost.
	_ = p.conn.Close()
	_ = p.reports.Close()
}

// start starts a worker process with its end of the link.
func (s *supervisor) start() (*started, error) {
	ours, theirs, err := process.SocketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	conn, err := connection(ours)
	if err != nil {
		return nil, err
	}
	reports, write, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	defer write.Close()
	// Not CommandContext: the worker is asked to end and gets its time for it.
	cmd := &exec.Cmd{
		Path: s.executable, Args: append([]string{s.executable}, s.args...),
		Env:        append(workerEnvironment(os.Environ()), fault.Env()...),
		Stderr:     s.stderr,
		ExtraFiles: []*os.File{theirs, write}, // linkFD, reportFD
		// A group of its own: Ctrl-C on a terminal is for the front door, which
		// then ends the worker in order.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
		// Should something of the worker's still hold its stderr, it must not
		// keep the next worker from being started.
		WaitDelay: coord.KillGrace,
	}
	fault.Point("door.start.before")
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, conn.Close(), reports.Close())
	}
	fault.Point("door.start.after")
	return &started{cmd, conn, transportOn(conn), reports}, nil
}

// workerEnvironment leaves Signalbox's own variables out: a token that the
// operator keeps in one of them is none of the worker's business, and what the
// worker needs it gets as arguments.
func workerEnvironment(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, "SIGNALBOX_") })
}
