package process_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"signalbox/internal/coord"
	"signalbox/internal/process"
)

// spare gives a Spare behind which a gate waits, and the gate's identity.
func spare(t *testing.T, l *ledger) (*process.Spare, process.Identity) {
	t.Helper()
	s := process.NewSpare(process.New(executable(t), "host", l))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if left := l.open(); len(left) > 0 {
			t.Errorf("after Close the ledger holds %+v", left)
		}
	})
	p, err := s.Start(t.Context(), shell("/", "true"))
	if err != nil {
		t.Fatal(err)
	}
	over(t, p)
	return s, waits(t, l)
}

// over ends a process and all that belongs to it.
func over(t *testing.T, p *process.Process) {
	t.Helper()
	if err := p.Kill(context.Background()); err != nil {
		t.Errorf("Kill: %v", err)
	}
	p.Close()
}

// waits gives the one process of the ledger once there is one.
func waits(t *testing.T, l *ledger) process.Identity {
	t.Helper()
	eventually(t, "a gate waits", func() bool { return len(l.open()) == 1 })
	return l.open()[0]
}

func TestAfterAProgramTheGateOfTheNextOneWaitsAndBecomesIt(t *testing.T) {
	l := &ledger{}
	s, gate := spare(t, l)
	if alive, err := process.Alive(gate); !alive || err != nil {
		t.Fatalf("the gate is alive: %v, %v", alive, err)
	}
	l.started = func(id process.Identity) {
		if id != gate {
			return
		}
		t.Error("the gate was recorded once more")
	}
	p := startBy(t, s, shell("/", "read x; echo $$"))
	if p.Identity() != gate || !slices.Contains(l.open(), gate) {
		t.Errorf("started is %+v, recorded %+v; %+v waited", p.Identity(), l.open(), gate)
	}
}

func TestAGateThatDiedWhileItWaitedIsReplaced(t *testing.T) {
	l := &ledger{}
	s, gate := spare(t, l)
	if err := syscall.Kill(gate.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the gate is gone", func() bool { return !running(gate.PID) })
	p := startBy(t, s, shell("/", "read x"))
	if p.Identity() == gate || slices.Contains(l.open(), gate) {
		t.Errorf("started is %+v, recorded %+v; %+v had died", p.Identity(), l.open(), gate)
	}
}

func TestAFailedStartFromAWaitingGateSaysWhyAndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		spec process.Spec
		code coord.Code
	}{
		"absent program": {process.Spec{Path: filepath.Join(dir, "absent"), Dir: dir}, coord.NotFound},
		"huge arguments": {process.Spec{Path: "/bin/true", Args: []string{strings.Repeat("x", 4<<20)}, Dir: dir}, coord.Limit},
	} {
		l := &ledger{}
		s, gate := spare(t, l)
		l.started = func(process.Identity) { t.Errorf("%s: it was tried behind another gate", name) }
		p, err := s.Start(t.Context(), c.spec)
		if p != nil || coord.CodeOf(err) != c.code {
			t.Errorf("%s: Start = %v, %v", name, p, err)
		}
		if running(gate.PID) || slices.Contains(l.open(), gate) {
			t.Errorf("%s: the gate is left", name)
		}
	}
}

func TestProgramsThatStartTogetherShareNoGate(t *testing.T) {
	s, _ := spare(t, &ledger{})
	var all sync.WaitGroup
	ids := make([]process.Identity, 4)
	for i := range ids {
		all.Go(func() {
			p, err := s.Start(t.Context(), shell("/", "read x"))
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = p.Identity()
			over(t, p)
		})
	}
	all.Wait()
	for i, id := range ids {
		if id.PID == 0 || slices.Contains(ids[:i], id) {
			t.Errorf("started are %+v", ids)
		}
	}
}

func TestCloseEndsTheGateThatWaits(t *testing.T) {
	l := &ledger{}
	s, gate := spare(t, l)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if running(gate.PID) || len(l.open()) > 0 {
		t.Errorf("the gate runs: %v, recorded are %+v", running(gate.PID), l.open())
	}
	// A start is still served, and no gate waits behind it.
	recorded := 0
	l.started = func(process.Identity) { recorded++ }
	p, err := s.Start(t.Context(), shell("/", "true"))
	if err != nil {
		t.Fatal(err)
	}
	over(t, p)
	if err := s.Close(); err != nil { // it waits for what would be made
		t.Fatal(err)
	}
	if recorded != 1 || len(l.open()) > 0 {
		t.Errorf("%d processes were recorded, and left are %+v", recorded, l.open())
	}
}
