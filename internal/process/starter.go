package process

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"signalbox/internal/clock"
	"signalbox/internal/coord"
	"signalbox/internal/fault"
)

// Ledger keeps which processes may exist, across the death of the worker.
type Ledger interface {
	// Started records a process before its program runs. It is durable when
	// it returns without an error.
	Started(ctx context.Context, id Identity) error
	// Ended records that nothing of the process's tree is left. Ending what
	// is not recorded, or has ended, is no error.
	Ended(ctx context.Context, id Identity) error
}

// Spec says what to start.
type Spec struct {
	// Path is the absolute path of a binary or of a script with a #! line. No
	// shell is involved.
	Path string
	// Args are the arguments after the program's name.
	Args []string
	// Env is the whole environment, as Environment builds it. Start adds
	// MarkerEnv and nothing else.
	Env []string
	// Dir is the absolute working directory.
	Dir string
	// Writes, unless nil, are the only folders in which the program and all that
	// it starts may make, change, rename and remove files, besides devices such
	// as /dev/null. Each is the canonical path of an existing folder. Reading,
	// running programs and the network stay as they are; so do modes, owners,
	// times and attributes of files on Linux. Start gives Unsupported where the
	// system cannot do this.
	Writes []string
}

// Starter starts programs behind gates.
type Starter struct {
	executable, host string
	ledger           Ledger
}

// New makes a Starter. executable is our own binary, whose main calls GateMain
// first (see Executable); host goes into the identities.
func New(executable, host string, ledger Ledger) *Starter {
	return &Starter{executable: executable, host: host, ledger: ledger}
}

// Start starts a program and returns when it runs, that is, when exec has
// replaced the gate.
//
// The order is: spawn a gate, read its identity, commit the identity to the
// ledger, let the gate go. After an error nothing of the child is left, or the
// ledger still holds what is. The error's code says whether another try can
// help: NotFound, Invalid and Limit are faults of the Spec (the errno of what
// failed is in the chain), Unavailable is not.
//
// The child leads a session of its own. A process group alone would leave it
// on the operator's terminal, where it could read the keyboard and get the
// signals of Ctrl-C; and a session, unlike a group, cannot be entered from
// outside, which is what proves its members to be ours.
func (s *Starter) Start(ctx context.Context, spec Spec) (*Process, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	return s.launch(ctx, spec)
}

// launch starts a program, whose spec was checked, behind a gate of its own.
func (s *Starter) launch(ctx context.Context, spec Spec) (*Process, error) {
	g, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	return g.become(ctx, spec)
}

// begin starts a gate and commits its identity.
func (s *Starter) begin(ctx context.Context) (*gated, error) {
	boot, err := clock.BootID()
	if err != nil {
		return nil, err
	}
	marker := rand.Text()
	g, err := spawn(s.executable, marker)
	if err != nil {
		return nil, err
	}
	e, ok, err := lookup(g.proc.Pid)
	if err == nil && !ok {
		err = &coord.Error{Code: coord.Internal, Message: "The process table does not list a child of this process."}
	}
	if err != nil {
		// Without its identity it can be ended only as our child, which is
		// safe as long as it is not reaped.
		_ = g.proc.Kill()
		_, _ = g.proc.Wait()
		g.close()
		_ = g.stdin.Close()
		_ = g.stdout.Close()
		_ = g.stderr.Close()
		return nil, err
	}
	id := Identity{Host: s.host, BootID: boot, PID: e.pid, StartTime: e.start, Group: e.group, Marker: marker, Stderr: pipeInode(g.stderr)}
	g.process = newProcess(id, g, s.ledger)
	fault.Point("process.started.before")
	if err := s.ledger.Started(ctx, id); err != nil {
		return nil, errors.Join(err, g.discard(context.WithoutCancel(ctx)))
	}
	fault.Point("process.started.after")
	return g, nil
}

// become lets a gate go and gives what it is then, or ends it.
func (g *gated) become(ctx context.Context, spec Spec) (*Process, error) {
	defer g.close()
	err := g.release(ctx, spec)
	if err == nil {
		return g.process, nil
	}
	// The caller's context may be what failed, and the clean-up must not.
	if left := g.discard(context.WithoutCancel(ctx)); left != nil {
		// The orders of a gate that lives may still be taken: no other is begun.
		return nil, &coord.Error{Code: coord.Unavailable, Message: "The gate of " + filepath.Base(spec.Path) + " could not be ended; try again.", Err: left}
	}
	return nil, err
}

// discard ends a gate, or what it became.
func (g *gated) discard(ctx context.Context) error {
	g.close()
	defer g.process.Close()
	return g.process.Kill(ctx)
}

// release lets a gate become the program.
func (g *gated) release(ctx context.Context, spec Spec) error {
	line, err := json.Marshal(orders{
		Path: []byte(spec.Path), Argv: bytesOf(append([]string{spec.Path}, spec.Args...)), Dir: []byte(spec.Dir),
		Env: bytesOf(slices.Concat(spec.Env, marking(g.process.id.Marker))), Writes: bytesOf(spec.Writes),
	})
	if err != nil {
		return err
	}
	if len(line) >= maxOrders {
		return execError(spec.Path, syscall.E2BIG)
	}
	// A gate that does not read or answer must not hold us.
	ctx, cancel := context.WithTimeoutCause(ctx, coord.GateTimeout, errGateGone)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = g.order.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	// The last moment at which the program provably never ran.
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_, err = g.order.Write(append(line, '\n'))
	fault.Point("process.go.after")
	said := make([]byte, maxStatus)
	n := 0
	for err == nil && n < len(said) {
		var more int
		more, err = g.order.Read(said[n:])
		n += more
	}
	switch {
	case n == 0:
		// It has died, or is as good as dead: what says nothing did nothing.
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errGateGone) {
			return cause
		}
		return &coord.Error{Code: coord.Unavailable, Message: "The gate of " + filepath.Base(spec.Path) + " ended before the program could start; try again.", Err: errors.Join(errGateGone, err)}
	case n < len(said) && !errors.Is(err, io.EOF):
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return &coord.Error{Code: coord.Unavailable, Message: "The program " + filepath.Base(spec.Path) + " was let go and did not start in time; try again.", Err: err}
	case n == 1:
		return nil // the socket closed at exec
	}
	mark, why := said[1], string(said[2:n])
	if mark == confineFailed {
		return coord.Errorf(coord.Unsupported, "The program %s was not started, because its writes cannot be restricted here: %s.", filepath.Base(spec.Path), why)
	}
	number, _ := strconv.Atoi(why)
	if mark == dirFailed {
		return dirError(spec.Path, syscall.Errno(number))
	}
	return execError(spec.Path, syscall.Errno(number))
}

// maxStatus bounds what a gate says.
const maxStatus = 1 << 10

// errGateGone: the gate said nothing, so the program never ran, and never will
// once the gate is dead.
var errGateGone = errors.New("the gate said nothing")

func dirError(path string, err error) error {
	return &coord.Error{Code: coord.NotFound, Message: "The working directory of " + filepath.Base(path) + " is not a directory that can be reached.", Err: err}
}

func execError(path string, errno syscall.Errno) error {
	e := &coord.Error{Code: coord.Invalid, Err: errno}
	name := filepath.Base(path)
	switch errno {
	case syscall.ENOENT:
		e.Code, e.Message = coord.NotFound, "The program "+name+" or the interpreter that it names does not exist; check the agent's executable."
	case syscall.EACCES, syscall.EPERM:
		e.Message = "The program " + name + " may not be executed by this user; check its mode and that of its directories."
	case syscall.ENOEXEC:
		e.Message = "The program " + name + " is neither a binary for this machine nor a script that begins with #!."
	case syscall.E2BIG:
		e.Code, e.Message = coord.Limit, "The arguments and the environment of "+name+" are larger than the system allows."
	default:
		e.Code, e.Message = coord.Unavailable, "The program "+name+" cannot be executed: "+errno.Error()+"."
	}
	return e
}

func (s Spec) check() error {
	switch {
	case !filepath.IsAbs(s.Path):
		return coord.Errorf(coord.Invalid, "The program to start must be an absolute path.")
	case !filepath.IsAbs(s.Dir):
		return coord.Errorf(coord.Invalid, "The working directory of %s must be an absolute path.", filepath.Base(s.Path))
	case strings.ContainsRune(s.Path+s.Dir+strings.Join(s.Args, ""), 0):
		return coord.Errorf(coord.Invalid, "The path, directory or an argument of the program to start holds a NUL.")
	}
	if st, err := os.Stat(s.Dir); err != nil || !st.IsDir() {
		return dirError(s.Path, err)
	}
	if err := s.checkWrites(); err != nil {
		return err
	}
	return checkEnv(s.Env)
}

// checkWrites looks at the folders that writes are restricted to. The gate is
// what makes sure; this is for an error that helps.
func (s Spec) checkWrites() error {
	for _, dir := range s.Writes {
		real, err := filepath.EvalSymlinks(dir)
		st, statErr := os.Stat(dir)
		switch {
		case !filepath.IsAbs(dir) || filepath.Clean(dir) != dir:
			return coord.Errorf(coord.Invalid, "The folder %s, to which the writes of %s are restricted, is not an absolute path without . or ...", dir, filepath.Base(s.Path))
		case err != nil || statErr != nil || !st.IsDir():
			return coord.Errorf(coord.NotFound, "The folder %s, to which the writes of %s are restricted, is not there; make it.", dir, filepath.Base(s.Path))
		case real != dir:
			return coord.Errorf(coord.Invalid, "The writes of %s cannot be restricted to %s, which goes through a symbolic link; name %s.", filepath.Base(s.Path), dir, real)
		}
	}
	return nil
}

// Sweep ends what is left of processes that an earlier worker recorded on this
// host, and records their end. Identities of other hosts are left alone. It
// returns after all of them are gone or have been tried.
func (s *Starter) Sweep(ctx context.Context, ids []Identity) error {
	errs := make([]error, len(ids))
	var all sync.WaitGroup
	for i, id := range ids {
		if id.Host != s.host {
			continue
		}
		all.Go(func() {
			fault.Point("process.sweep.before")
			if errs[i] = KillTree(ctx, id); errs[i] == nil {
				fault.Point("process.sweep.after")
				errs[i] = s.ledger.Ended(ctx, id)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
