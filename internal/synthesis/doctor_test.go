package synthesis_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/credential/binding"
	"signalbox/internal/journal"
	"signalbox/internal/synthesis"
)

func (w *world) check() []synthesis.FindingCode {
	w.t.Helper()
	found, err := synthesis.NewDoctor(w.journal, w.store, w.secrets).Check(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	out := []synthesis.FindingCode{}
	for _, f := range found {
		if f.Explanation == "" || f.Remedy == "" || f.Subject == "" {
			w.t.Errorf("finding %+v explains nothing", f)
		}
		if f.Repairable != slices.Contains(synthesis.Repairable, f.Code) {
			w.t.Errorf("finding %s: repairable is %t", f.Code, f.Repairable)
		}
		out = append(out, f.Code)
	}
	return out
}

func (w *world) repair(codes ...synthesis.FindingCode) []synthesis.Finding {
	w.t.Helper()
	got, err := synthesis.NewDoctor(w.journal, w.store, w.secrets).Repair(w.t.Context(), codes...)
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// harm changes the database behind the journal's back.
func (w *world) harm(statement string) {
	w.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(w.dir, "journal.db"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(w.t.Context(), statement); err != nil {
		w.t.Fatal(err)
	}
}

// orphan stores bytes without a row, as of a time.
func (w *world) orphan(at time.Time) {
	w.t.Helper()
	stored, err := w.store.Put(w.t.Context(), strings.NewReader("orphan"), 100)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(w.dir, "artifacts", stored.SHA256[:2], stored.SHA256[2:]), at, at); err != nil {
		w.t.Fatal(err)
	}
}

func TestLeftoverThatIsStoredAgainStays(t *testing.T) {
	w := newWorld(t)
	w.now.Wall = time.Now().UTC() // the store dates by the real clock
	w.orphan(w.now.Wall.Add(-25 * time.Hour))
	if _, err := w.store.Put(t.Context(), strings.NewReader("orphan"), 100); err != nil {
		t.Fatal(err)
	}
	if got := w.repair(); len(got) != 0 {
		t.Errorf("removed %v", got)
	}
}

func TestAttemptOfAnEarlierWorkerIsFound(t *testing.T) {
	w := newWorld(t)
	w.dispatch(w.start("a"), "a", intend, receive)
	w.harm(`UPDATE attempts SET doc = json_set(doc, '$.generation', 0)`)
	if diff := cmp.Diff([]synthesis.FindingCode{synthesis.AttemptForeign}, w.check()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHealthyDataHasNoFindings(t *testing.T) {
	w := newWorld(t)
	j := w.start("ready", "works", "waits", "done")
	w.dispatch(j, "works", intend, receive)
	w.asks(w.dispatch(j, "waits", intend, receive))
	done := w.dispatch(j, "done", intend, receive)
	w.keeps(done, "report", "x")
	w.move(done, complete("done", "x"))
	if got := w.check(); len(got) != 0 {
		t.Errorf("findings %v", got)
	}
	if got := w.repair(); len(got) != 0 {
		t.Errorf("repaired %v", got)
	}
}

func TestDoctorExplainsAndRepairsOnlyWhatIsSafe(t *testing.T) {
	cases := []struct {
		name  string
		harm  func(w *world)
		want  []synthesis.FindingCode
		after []synthesis.FindingCode
	}{
		{"a lease of an attempt that is over", func(w *world) {
			a := w.dispatch(w.start("a"), "a", intend, receive, complete("a", "x"))
			w.do(func(tx *journal.Tx) error { return tx.Acquire("agent:a", a.ID, 1) })
		}, []synthesis.FindingCode{synthesis.LeaseOrphan}, nil},
		{"a lease of nobody", func(w *world) {
			w.do(func(tx *journal.Tx) error { return tx.Acquire("run", "att_nobody", 4) })
		}, []synthesis.FindingCode{synthesis.LeaseOrphan}, nil},
		{"a slot held by what may run", func(w *world) {
			a := w.dispatch(w.start("a"), "a", intend, coord.Change{On: coord.AttemptLose, Activity: coord.MayRun})
			w.do(func(tx *journal.Tx) error { return tx.Acquire("run", a.ID, 4) })
		}, []synthesis.FindingCode{synthesis.LeaseOrphan, synthesis.UnknownOutcome}, []synthesis.FindingCode{synthesis.UnknownOutcome}},
		{"an agent that is not held by what may run", func(w *world) {
			a := w.dispatch(w.start("a"), "a", intend, receive)
			w.do(func(tx *journal.Tx) error { return tx.ReleaseOne("agent:a", a.ID) })
		}, []synthesis.FindingCode{synthesis.LeaseMissing}, []synthesis.FindingCode{synthesis.LeaseMissing}},
		{"a request of an attempt that is over", func(w *world) {
			a := w.dispatch(w.start("a"), "a", intend, receive)
			r := w.asks(a)
			w.move(a, complete("a", "x"))
			w.do(func(tx *journal.Tx) error { return tx.PutRequest(r, nil) }) // as it was while open
		}, []synthesis.FindingCode{synthesis.RequestOrphan}, nil},
		{"an attempt that waits for nothing", func(w *world) {
			a := w.dispatch(w.start("a"), "a", intend, receive)
			r := w.asks(a)
			w.do(func(tx *journal.Tx) error { return tx.PutRequest(r.Lose("x", tx.Now()), nil) })
		}, []synthesis.FindingCode{synthesis.WaitingForNothing}, []synthesis.FindingCode{synthesis.WaitingForNothing}},
		{"a job behind its tasks", func(w *world) {
			j := w.start("a")
			w.dispatch(j, "a", intend, receive, complete("a", "x"))
			w.do(func(tx *journal.Tx) error { return tx.PutJob(j, nil) }) // as it was while running
		}, []synthesis.FindingCode{synthesis.JobBehind}, nil},
		{"a task behind its attempt", func(w *world) {
			w.dispatch(w.start("a"), "a", intend, receive, complete("a", "x"))
			w.harm(`UPDATE tasks SET state = 'running', doc = json_set(doc, '$.state', 'running')`)
			w.harm(`UPDATE jobs SET state = 'running', doc = json_set(doc, '$.state', 'running')`)
		}, []synthesis.FindingCode{synthesis.TaskBehind}, nil},
		{"a job long past its deadline", func(w *world) {
			w.start("a")
			w.now = w.now.Add(coord.DefaultDeadline + time.Hour)
		}, []synthesis.FindingCode{synthesis.Overdue}, []synthesis.FindingCode{synthesis.Overdue}},
		{"bytes of nobody, stored just now", func(w *world) {
			w.orphan(w.now.Wall)
		}, []synthesis.FindingCode{synthesis.BytesOrphan}, []synthesis.FindingCode{synthesis.BytesOrphan}},
		{"bytes of nobody, left over", func(w *world) {
			w.orphan(w.now.Wall.Add(-25 * time.Hour))
		}, []synthesis.FindingCode{synthesis.BytesOrphan}, nil},
		{"missing and damaged bytes, and a stranger", func(w *world) {
			a := w.dispatch(w.start("a"), "a", intend, receive)
			w.keeps(a, "m", "one")
			d := w.keeps(a, "d", "two")
			if err := w.store.Remove(digest([]byte("one"))); err != nil {
				w.t.Fatal(err)
			}
			folder := filepath.Join(w.dir, "artifacts")
			write(w.t, filepath.Join(folder, d.SHA256[:2], d.SHA256[2:]), []byte("other"))
			write(w.t, filepath.Join(folder, "notes.txt"), nil)
		}, []synthesis.FindingCode{synthesis.BytesMissing, synthesis.BytesDamaged, synthesis.BytesStrange},
			[]synthesis.FindingCode{synthesis.BytesMissing, synthesis.BytesDamaged, synthesis.BytesStrange}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.harm(w)
			if diff := cmp.Diff(c.want, w.check()); diff != "" {
				t.Fatalf("before (-want +got):\n%s", diff)
			}
			repaired := w.repair()
			for _, f := range repaired {
				if !f.Repairable {
					t.Errorf("repaired %s, which is not safe", f.Code)
				}
			}
			if len(repaired) != len(c.want)-len(c.after) {
				t.Errorf("repaired %v", repaired)
			}
			if c.after == nil {
				c.after = []synthesis.FindingCode{}
			}
			if diff := cmp.Diff(c.after, w.check()); diff != "" {
				t.Errorf("after (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDoctorRepairsWhatItWasAskedToAndNothingElse(t *testing.T) {
	w := newWorld(t)
	j := w.start("a")
	a := w.dispatch(j, "a", intend, receive, complete("a", "x"))
	w.do(func(tx *journal.Tx) error {
		if err := tx.PutJob(j, nil); err != nil {
			return err
		}
		return tx.Acquire("agent:a", a.ID, 1)
	})
	if got := w.repair(synthesis.LeaseOrphan); len(got) != 1 || got[0].Code != synthesis.LeaseOrphan {
		t.Errorf("repaired %v", got)
	}
	if diff := cmp.Diff([]synthesis.FindingCode{synthesis.JobBehind}, w.check()); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	_, err := synthesis.NewDoctor(w.journal, w.store, w.secrets).Repair(t.Context(), synthesis.UnknownOutcome)
	if coord.CodeOf(err) != coord.Invalid {
		t.Errorf("repairing an unknown outcome gave %v", err)
	}
}

func TestACredentialWithoutAValueIsFoundWithTheAgentsThatItKeepsFromWork(t *testing.T) {
	w := newWorld(t)
	const origin = "https://peer.example"
	w.secrets = binding.New(map[string]binding.Source{
		"set": {Env: "SET", Origin: origin}, "spare": {Env: "SPARE", Origin: origin}, "wanted": {Env: "WANTED", Origin: origin},
	}, binding.Options{Lookup: func(name string) (string, bool) {
		value, ok := map[string]string{"SET": "tok-1234567890"}[name]
		return value, ok
	}})
	w.do(func(tx *journal.Tx) error {
		for id, g := range map[coord.AgentID]struct {
			credential string
			enabled    bool
		}{"one": {"wanted", true}, "two": {"wanted", true}, "off": {"spare", false}, "fine": {"set", true}} {
			cfg := coord.AgentConfig{Route: coord.RouteA2A, A2A: &coord.A2AConfig{Card: origin, Origin: origin, Version: "1.0", Credential: g.credential}}
			if err := tx.PutAgent(coord.Agent{ID: id, Route: cfg.Route, Revision: 1, Enabled: g.enabled, Config: cfg}, ada); err != nil {
				return err
			}
		}
		return nil
	})
	found, err := synthesis.NewDoctor(w.journal, w.store, w.secrets).Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got [][3]string
	for _, f := range found {
		got = append(got, [3]string{string(f.Severity), f.Subject, f.Explanation})
	}
	want := [][3]string{
		{"note", "credential spare", "No agent is sent it: the credential spare has no value: the variable SPARE is not set where signalbox serve was started."},
		{"warning", "credential wanted", "No work for one, two: the credential wanted has no value: the variable WANTED is not set where signalbox serve was started."},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the doctor finds (-want +got):\n%s", diff)
	}
}
