package block

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

func TestOneTrainInABlock(t *testing.T) {
	l := New(2)
	for i, step := range []struct {
		did, want bool
	}{
		{l.Enter(0, "A"), true},
		{l.Enter(0, "B"), false},
		{l.Enter(0, "A"), false},
		{l.Enter(1, "B"), true},
		{l.Leave(0, "B"), false},
		{l.Leave(0, "A"), true},
		{l.Leave(0, "A"), false},
		{l.Enter(0, "B"), true},
		{l.Enter(2, "C"), false},
		{l.Enter(-1, "C"), false},
		{l.Leave(9, "C"), false},
		{l.Leave(1, ""), false},
	} {
		if step.did != step.want {
			t.Errorf("step %d gives %v, want %v", i+1, step.did, step.want)
		}
	}
}

func TestOfManyOneEnters(t *testing.T) {
	l := New(1)
	var in atomic.Int32
	var wait sync.WaitGroup
	for i := range 50 {
		wait.Go(func() {
			if l.Enter(0, fmt.Sprint("train ", i)) {
				in.Add(1)
			}
		})
	}
	wait.Wait()
	if in.Load() != 1 {
		t.Errorf("%d trains are in one block", in.Load())
	}
}
