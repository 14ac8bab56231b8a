package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
	"signalbox/internal/filehash"
)

// Run runs a program to its end and returns when nothing of it is left. An
// error means that the program did not run: Unsupported names the stage that
// refused and the remedy, Stale that the program is not the one expected,
// Invalid and Limit that the spec cannot be confined. How the program ended
// is in the outcome. The context's end is Cancelled, or TimedOut at its
// deadline.
func (b *Box) Run(ctx context.Context, s Spec) (Outcome, error) {
	began := time.Now()
	if err := s.check(b.dir); err != nil {
		return Outcome{}, err
	}
	if !slices.Contains(tiers, s.Tier) {
		return Outcome{}, coord.Errorf(coord.Unsupported, "There is no tier %q on this system.", s.Tier)
	}
	id, sum, err := filehash.Of(s.Program)
	if err != nil {
		return Outcome{}, unreadable(err)
	}
	if s.SHA256 != "" && s.SHA256 != sum {
		return Outcome{}, coord.Errorf(coord.Stale, "The program of a confined run is not the one that was approved: its content is another.")
	}
	b.runs.RLock()
	defer b.runs.RUnlock()
	if b.life.Err() != nil {
		return Outcome{}, context.Cause(b.life)
	}
	b.started.Do(func() { go b.starter.run() })
	out, err := b.once(ctx, s, id, false)
	if r, ok := errors.AsType[*refusal](err); ok {
		switch r.stage {
		case stageOverlay:
			out, err = b.once(ctx, s, id, true)
		case stageStart:
			// The program did not run: its stage was ended while it waited.
			out, err = b.once(ctx, s, id, false)
		}
		if r, ok := errors.AsType[*refusal](err); ok {
			return Outcome{}, r.public()
		}
	}
	if err != nil {
		return Outcome{}, err
	}
	out.SHA256, out.Wall = sum, time.Since(began)
	return out, nil
}

// once makes one try with a stage of its own. copied asks for a private copy of
// the workspace even where changes could be laid over it.
func (b *Box) once(ctx context.Context, s Spec, id filehash.State, copied bool) (out Outcome, err error) {
	if ctx.Err() != nil {
		return Outcome{}, context.Cause(ctx)
	}
	// A stage that has to be started does so while the workspace is scanned.
	w, err := b.starter.stage(s.Tier)
	if err != nil {
		return Outcome{}, err
	}
	defer func() {
		w.served = err == nil
		err = errors.Join(err, w.end())
		b.starter.retire(w)
	}()
	masks, err := scan(s.Workspace)
	if err != nil {
		return Outcome{}, err
	}
	o, err := arrange(s, w.dir, id, masks, copied)
	if err != nil {
		return Outcome{}, err
	}
	r := &run{spec: s, stage: w}
	defer context.AfterFunc(b.life, func() { r.kill(Cancelled) })()
	out, err = r.supervise(ctx, o)
	out.Hidden = len(masks)
	return out, err
}

// order is what a stage is told, over a pipe: neither arguments nor environment
// of a process are private.
type order struct {
	Tier    coord.Tier     `json:"tier"`
	Program string         `json:"program"`
	ID      filehash.State `json:"id"`
	// Argv has the program's name first.
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	// Dir is where the program sees the workspace, Source where it is. Layer,
	// if any, lies over it. Start is the directory below Dir to start in.
	Dir     string   `json:"dir"`
	Start   string   `json:"start"`
	Source  string   `json:"source"`
	Layer   string   `json:"layer"`
	Masks   []mask   `json:"masks"`
	Reads   []string `json:"reads"`
	Root    string   `json:"root"`
	Scratch string   `json:"scratch"`
	Report  bool     `json:"report"`
	Limits  Limits   `json:"limits"`
}

// newOrder is what all systems have in common.
func newOrder(s Spec, dir runDir, id filehash.State) order {
	fill := func(list []string) []string {
		out := make([]string, len(list))
		for i, v := range list {
			out[i] = strings.ReplaceAll(v, ScratchArg, dir.scratch())
		}
		return out
	}
	return order{
		Tier: s.Tier, Program: s.Program, ID: id, Argv: append([]string{s.Program}, fill(s.Args)...),
		Env: append(baseEnv(dir.scratch()), fill(s.Env)...), Dir: s.Workspace, Source: s.Workspace, Start: s.Dir,
		Reads: s.Reads, Root: dir.root(), Scratch: dir.scratch(), Report: s.Report, Limits: s.Limits,
	}
}

// reply is one line of a stage on its status pipe. Several may come; the first
// is Ready or a failure.
type reply struct {
	Ready  bool     `json:"ready,omitempty"`
	ABI    int      `json:"abi,omitempty"`
	Layers []string `json:"layers,omitempty"`
	// Failed names the step that failed; Errno is its error in decimal, Why the
	// text for errors that have no number.
	Failed string `json:"failed,omitempty"`
	Errno  string `json:"errno,omitempty"`
	Why    string `json:"why,omitempty"`
	// Ended tells how the program ended, where the stage started it.
	Ended  bool          `json:"ended,omitempty"`
	Exit   int           `json:"exit,omitempty"`
	Signal int           `json:"signal,omitempty"`
	CPU    time.Duration `json:"cpu,omitempty"`
}

// run supervises one process tree.
type run struct {
	spec  Spec
	stage *waiting

	mu     sync.Mutex
	ending Ending
	killed time.Time
}

// kill ends the run, for the first reason that is given.
func (r *run) kill(why Ending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ending != "" {
		return
	}
	r.ending, r.killed = why, time.Now()
	r.stage.group.kill()
	// A process handle of Go never hits another process. The first process is
	// the last to be alive: of a PID namespace, or of one that cannot fork.
	_ = r.stage.proc.Kill()
}

// supervise gives a stage its order and stays with it to the end.
func (r *run) supervise(ctx context.Context, o order) (Outcome, error) {
	w, p := r.stage, r.stage.pipes
	w.group.limit(r.spec.Limits)
	var readers sync.WaitGroup
	var output, report []byte
	var replies []reply
	readers.Go(func() { replies = readReplies(p.status) })
	readers.Go(func() {
		var over bool
		if output, over = readAtMost(p.output, r.spec.Limits.Output); over {
			r.kill(OutputLimit)
		}
		_, _ = io.Copy(io.Discard, p.output)
	})
	if o.Report {
		readers.Go(func() {
			report, _ = readAtMost(p.report, coord.MaxTestReport)
			_, _ = io.Copy(io.Discard, p.report)
		})
	}
	timer := time.AfterFunc(r.spec.Limits.Wall, func() { r.kill(TimedOut) })
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			r.kill(TimedOut)
		} else {
			r.kill(Cancelled)
		}
	})
	// Whoever ends the run ends this too.
	sendOrder(p.order, o)
	<-w.ended
	timer.Stop()
	stop()
	ended := time.Now()
	gone := w.err == nil && errors.Is(unix.Kill(-w.proc.Pid, 0), unix.ESRCH) && w.group.empty()
	// All writers are gone, so the pipes end; should one have escaped, it must
	// not hold us, and Gone tells.
	p.endBy(ended.Add(time.Second))
	readers.Wait()
	if w.err != nil {
		return Outcome{}, &coord.Error{Code: coord.Unavailable, Message: "A confined run could not be awaited.", Err: w.err}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := Outcome{Ending: r.ending, Output: output, Report: report, Gone: gone}
	if r.ending != "" {
		out.Kill = ended.Sub(r.killed)
	}
	return out, conclude(&out, replies, w.state, r.spec.Limits)
}

// conclude completes an outcome from what the stage and the kernel told.
func conclude(out *Outcome, replies []reply, state *os.ProcessState, limits Limits) error {
	status, _ := state.Sys().(syscall.WaitStatus)
	exit, signal, cpu := status.ExitStatus(), syscall.Signal(0), state.UserTime()+state.SystemTime()
	if status.Signaled() {
		exit, signal = -1, status.Signal()
	}
	var ready bool
	for _, r := range replies {
		switch {
		case r.Failed != "" && out.Ending == "":
			return r.refusal()
		case r.Ready:
			ready = true
			out.LandlockABI, out.Layers = r.ABI, r.Layers
		case r.Ended:
			exit, signal, cpu = r.Exit, syscall.Signal(r.Signal), r.CPU
		}
	}
	if !ready && out.Ending == "" {
		return &refusal{stage: stageStart, err: fmt.Errorf("it ended with %s", state)}
	}
	if out.Ending == "" {
		out.Ending = Exited
		if signal == syscall.SIGXCPU || signal == syscall.SIGKILL && cpu >= limits.CPU {
			out.Ending = TimedOut
		}
	}
	out.Exit = exit
	if signal != 0 {
		out.Exit, out.Signal = -1, unix.SignalName(signal)
	}
	return nil
}

// sendOrder writes an order. A stage that is gone tells so by its exit.
func sendOrder(w *os.File, o order) {
	_ = json.NewEncoder(w).Encode(o)
	_ = w.Close()
}

// readReplies reads the lines of a stage. What does not parse is no reply, and
// a run without one is refused.
func readReplies(r io.Reader) []reply {
	var all []reply
	lines := bufio.NewScanner(io.LimitReader(r, 64<<10))
	for lines.Scan() {
		var one reply
		if json.Unmarshal(lines.Bytes(), &one) == nil {
			all = append(all, one)
		}
	}
	return all
}

// readAtMost reads to the end, or until there is more than limit.
func readAtMost(r io.Reader, limit int64) (b []byte, over bool) {
	b, _ = io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(b)) > limit {
		return b[:limit], true
	}
	return b, false
}
