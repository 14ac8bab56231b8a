package process

import (
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The tree under test is pid 100, started at 1000. The worker is pid 50, a
// child of serve, 40.
func TestPickTakesTheTreeAndNothingElse(t *testing.T) {
	around := []entry{
		{pid: 1, session: 1, start: 1},
		{pid: 40, parent: 1, group: 40, session: 40, start: 500},
		{pid: 50, parent: 40, group: 40, session: 40, start: 600},
		{pid: 60, parent: 1, group: 60, session: 60, start: 2000},
	}
	root := entry{pid: 100, parent: 50, group: 100, session: 100, start: 1000}
	cases := []struct {
		name   string
		table  []entry
		marked []int
		known  []key
		want   []int
	}{
		{name: "nothing left"},
		{name: "root alone", table: []entry{root}, want: []int{100}},
		{name: "zombie root keeps its session", want: []int{100, 101},
			table: []entry{{pid: 100, parent: 50, session: 100, start: 1000, zombie: true}, {pid: 101, parent: 1, session: 100, start: 1001}}},
		{name: "children listed before their parents", want: []int{7, 8, 100},
			table: []entry{{pid: 7, parent: 8, session: 7, start: 1002}, {pid: 8, parent: 100, session: 8, start: 1001}, root}},
		{name: "pid used again", table: []entry{{pid: 100, parent: 1, group: 100, session: 100, start: 5000}, {pid: 101, parent: 100, session: 100, start: 5001}}},
		{name: "session number used again by one that is gone", table: []entry{{pid: 101, parent: 1, group: 100, session: 100, start: 5001}}},
		{name: "marked daemon proves its session", want: []int{100 + 1, 102}, marked: []int{101},
			table: []entry{{pid: 101, parent: 1, session: 101, start: 1001}, {pid: 102, parent: 1, session: 101, start: 1002}}},
		{name: "marked zombie is not asked", marked: []int{101}, table: []entry{{pid: 101, parent: 1, session: 101, start: 1001, zombie: true}}},
		{name: "remembered daemon", want: []int{101, 102}, known: []key{{101, 1001}},
			table: []entry{{pid: 101, parent: 1, session: 101, start: 1001}, {pid: 102, parent: 101, session: 102, start: 1002}}},
		{name: "remembered pid used again", known: []key{{101, 1001}}, table: []entry{{pid: 101, parent: 1, session: 101, start: 1009}}},
		{name: "older than the root", marked: []int{101}, table: []entry{{pid: 101, parent: 100, session: 100, start: 999}}},
		{name: "same tick as the root", table: []entry{root, {pid: 101, parent: 100, session: 100, start: 1000}}, want: []int{100, 101}},
		{name: "kernel threads share session 0", marked: []int{101}, want: []int{101},
			table: []entry{{pid: 101, parent: 1, start: 1001}, {pid: 102, parent: 2, start: 1001}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			known := map[key]bool{}
			for _, k := range c.known {
				known[k] = true
			}
			id := Identity{PID: 100, StartTime: 1000, Group: 100}
			got := pick(slices.Concat(around, c.table), id, known, 50, func(pid int) bool { return slices.Contains(c.marked, pid) })
			var pids []int
			for _, e := range got {
				pids = append(pids, e.pid)
			}
			if diff := cmp.Diff(c.want, pids); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPickSparesTheWorkerThatAnAgentStarted(t *testing.T) {
	// An agent (100) ran a shell (101), that ran serve (102) and its worker (103).
	all := []entry{
		{pid: 100, parent: 1, session: 100, start: 1000},
		{pid: 101, parent: 100, session: 100, start: 1001},
		{pid: 102, parent: 101, session: 100, start: 1002},
		{pid: 103, parent: 102, session: 100, start: 1003},
		{pid: 104, parent: 101, session: 100, start: 1004},
	}
	got := pick(all, Identity{PID: 100, StartTime: 1000}, nil, 103, func(int) bool { return true })
	if len(got) != 1 || got[0].pid != 104 {
		t.Errorf("picked %+v", got)
	}
}

func TestSendLeavesAProcessAloneWhoseStartTimeDiffers(t *testing.T) {
	cmd := exec.Command("/bin/sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	e, ok, err := lookup(cmd.Process.Pid)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	reused := e
	reused.start--
	// The first fatal signal is the one that the exit status tells.
	if err := send([]entry{reused}, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := send([]entry{e}, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the right one ended with %v", err)
	}
	if err := send([]entry{e}, syscall.SIGKILL); err != nil {
		t.Errorf("signalling what is gone: %v", err)
	}
}
