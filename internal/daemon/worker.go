package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"signalbox/internal/api"
	"signalbox/internal/clock"
	"signalbox/internal/coord"
	"signalbox/internal/heap"
	"signalbox/internal/journal"
	"signalbox/internal/redact"
)

// Ground is what a worker stands on when it is built.
type Ground struct {
	Journal  *journal.Journal
	Redactor *redact.Redactor
	Logger   *slog.Logger
	// Dir is the data directory, Host this machine's name.
	Dir, Host string
}

// Parts are what a worker runs.
type Parts struct {
	api.Stages
	Loop Loop
	// Keeper removes what was kept long enough; nil where nothing is removed.
	Keeper Keeper
	// Close ends what the parts keep open or waiting, when all work is over.
	Close func()
}

// Keeper works beside the loop until its context ends.
type Keeper interface{ Run(ctx context.Context) }

// Loop is the scheduler as a process sees it.
type Loop interface {
	// Run works until ctx ends, and returns when everything is settled.
	Run(ctx context.Context) error
	// Drain admits nothing more; the channel is closed when nothing runs.
	Drain() <-chan struct{}
}

// Build makes the parts of a worker. Its error keeps the worker from starting.
type Build func(ctx context.Context, g Ground) (Parts, error)

// WorkerOptions say what a worker needs; all are required.
type WorkerOptions struct {
	// Dir is the data directory.
	Dir     string
	Version string
	Build   Build
	// Stderr gets the log.
	Stderr io.Writer
}

// The reasons for which a worker ends.
var (
	// ErrShutdown: the front door ended, or a signal came.
	ErrShutdown = errors.New("signalbox is shutting down")
	// ErrOperatorStop: the operator asked for it.
	ErrOperatorStop = errors.New("the operator stopped signalbox")
	// ErrReported marks the error of a worker that refused to start: its front
	// door was told and shows it, so nobody else needs to.
	ErrReported = errors.New("the front door was told")
)

// Worker serves the API to the front door that started this process, until one
// of the reasons to end comes. It is nil after an orderly end.
func Worker(ctx context.Context, o WorkerOptions) error {
	heap.Pace()
	link, reports, err := inherited()
	if err != nil {
		return err
	}
	redactor := redact.New()
	log := slog.New(redactor.Handler(slog.NewTextHandler(o.Stderr, nil))).With("process", "worker")
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer onSignal(func() { end(ErrShutdown) })()

	w := &worker{WorkerOptions: o, log: log, redactor: redactor, end: end, drain: make(chan struct{}, 1)}
	w.handler.Store(new(http.Handler(http.HandlerFunc(starting))))
	server := serverOn(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { (*w.handler.Load()).ServeHTTP(rw, r) }), func() { end(ErrShutdown) })
	server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listenOn(link)) }()

	err = w.run(ctx, reports)
	if err != nil && !errors.Is(err, ErrReported) {
		log.Error("the worker ends", "err", err)
	}
	w.handler.Store(new(http.Handler(http.HandlerFunc(starting))))
	// The end of the reports tells the front door to let the link go, once the
	// answers under way have arrived. It may be gone itself.
	_ = reports.Close()
	bounded, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), coord.KillGrace, ErrShutdown)
	defer cancel()
	if err := server.Shutdown(bounded); err != nil {
		log.Debug("the link was cut", "err", errors.Join(err, server.Close()))
	}
	if closed := <-served; !errors.Is(closed, http.ErrServerClosed) {
		err = errors.Join(err, closed)
	}
	return err
}

// starting answers while the journal is not open.
func starting(w http.ResponseWriter, _ *http.Request) {
	// The front door is gone if this cannot be written.
	_ = api.WriteProblem(w, api.NewProblem(coord.Errorf(coord.Unavailable, "the worker is starting or stopping: try again in a moment")))
}

// onSignal calls do at the first SIGTERM or SIGINT, and gives what undoes it.
func onSignal(do func()) func() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-signals:
			do()
		case <-done:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
		<-ended
	}
}

type worker struct {
	WorkerOptions
	log      *slog.Logger
	redactor *redact.Redactor
	end      context.CancelCauseFunc
	drain    chan struct{} // asked to drain
	stopped  atomic.Bool   // by the operator
	handler  atomic.Pointer[http.Handler]
}

// run opens the journal, runs the parts, and closes the journal last.
func (w *worker) run(ctx context.Context, reports io.Writer) (err error) {
	refuse := func(err error) error {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the front door went away meanwhile: nobody was refused
		}
		p := api.NewProblem(err)
		if p.Code == coord.Internal {
			w.log.Error("the worker cannot start", "err", err)
			p.Detail = "the worker met a fault of Signalbox while it started; its log has the details"
		}
		if told := writeReport(reports, report{State: workerRefused, Code: p.Code, Message: withFaults(p)}); told != nil {
			return errors.Join(err, told)
		}
		return errors.Join(err, ErrReported)
	}
	j, err := journal.Open(ctx, journal.Options{
		Dir: w.Dir, Clock: clock.System(), Redact: w.redactor.String, Logger: w.log, Wait: coord.OwnerWait,
	})
	if err != nil {
		return refuse(err)
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	host, err := os.Hostname()
	if err != nil {
		return refuse(err)
	}
	parts, err := w.Build(ctx, Ground{Journal: j, Redactor: w.redactor, Logger: w.log, Dir: w.Dir, Host: host})
	if err != nil {
		return refuse(err)
	}
	defer parts.Close()
	served := api.New(api.Options{
		Journal: j, Stages: parts.Stages, Logger: w.log, Host: host, Version: w.Version, Stop: w.stop,
	})
	// Streams hold no read transaction while they wait, but one that reads at
	// this moment would leave the write-ahead log behind.
	defer served.Close()
	desk := &desk{journal: j, log: w.log}
	if err := w.tell(ctx, j, coord.WorkerStarted); err != nil {
		return refuse(err)
	}
	w.handler.Store(new(desk.handler(served)))
	if err := writeReport(reports, report{State: workerReady}); err != nil {
		return err
	}
	keeping, stopKeeping := context.WithCancelCause(ctx)
	var keeper sync.WaitGroup
	if parts.Keeper != nil {
		keeper.Go(func() { parts.Keeper.Run(keeping) })
	}
	defer func() {
		stopKeeping(ErrShutdown)
		keeper.Wait()
	}()
	err = w.work(ctx, j, parts.Loop)
	if err == nil {
		err = w.tell(context.WithoutCancel(ctx), j, coord.WorkerStopped)
	}
	if err == nil && w.stopped.Load() {
		err = writeReport(reports, report{State: workerStopped})
	}
	return err
}

// shownFaults bounds the single faults in a report, which is one short line.
const shownFaults = 8

// withFaults is a problem's sentence with its places.
func withFaults(p *api.Problem) string {
	out := p.Detail
	for i, f := range p.Fields {
		if i == shownFaults {
			return fmt.Sprintf("%s; and %d more", out, len(p.Fields)-i)
		}
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		out += sep + f.Pointer + " " + f.Message
	}
	return out
}

// work runs the loop until a reason to end comes, and waits for it.
func (w *worker) work(ctx context.Context, j *journal.Journal, loop Loop) error {
	running, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	ran := make(chan error, 1)
	go func() { ran <- loop.Run(running) }()
	var idle <-chan struct{}
	for {
		select {
		case <-w.drain:
			idle = loop.Drain()
			continue
		case <-idle:
			stop(ErrOperatorStop)
		case <-ctx.Done():
			stop(context.Cause(ctx))
		case <-j.Failed():
			stop(j.Err())
			return errors.Join(j.Err(), w.settle(ran))
		case err := <-ran:
			if err == nil {
				err = coord.Errorf(coord.Internal, "the scheduler ended by itself")
			}
			return err
		}
		return w.settle(ran)
	}
}

// settle waits for the loop within its window.
func (w *worker) settle(ran <-chan error) error {
	window := time.NewTimer(coord.DrainWindow + coord.KillWindow)
	defer window.Stop()
	select {
	case err := <-ran:
		if errors.Is(err, ErrShutdown) || errors.Is(err, ErrOperatorStop) {
			return nil // told to end before it had begun: that is no failure
		}
		return err
	case <-window.C:
		return coord.Errorf(coord.Internal, "what runs could not be settled in time; the next start finds what became of it")
	}
}

// stop is the operator's: at once, or when nothing runs any more.
func (w *worker) stop(drain bool, by coord.Actor) {
	w.log.Info("a stop was asked for", "drain", drain, "name", by.Name)
	w.stopped.Store(true)
	if !drain {
		w.end(ErrOperatorStop)
		return
	}
	select {
	case w.drain <- struct{}{}:
	default: // asked for already
	}
}

// tell appends an event about this worker.
func (w *worker) tell(ctx context.Context, j *journal.Journal, kind coord.EventKind) error {
	data, err := json.Marshal(struct {
		Generation int64  `json:"generation"`
		Version    string `json:"version"`
	}{j.Generation(), w.Version})
	if err != nil {
		return err
	}
	return j.Update(ctx, func(tx *journal.Tx) error {
		tx.Append(coord.Event{Kind: kind, Data: data})
		return nil
	})
}
