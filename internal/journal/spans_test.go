package journal

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox/internal/coord"
)

// alternating appends n events, of two jobs in turn, each with an attempt.
func alternating(tx *Tx, n int) {
	for i := range n {
		job := []coord.JobID{"job_a", "job_b"}[i%2]
		tx.Append(coord.Event{Kind: coord.AttemptText, Job: job, Attempt: coord.AttemptID("att_of_" + job)})
	}
}

// found are the sequences of the events of one of those jobs, by its attempt.
func found(t *testing.T, j *Journal, job coord.JobID) (seqs []int64) {
	t.Helper()
	err := j.View(t.Context(), func(v *View) error {
		events, err := v.Events(0, EventFilter{Job: job, Attempt: coord.AttemptID("att_of_" + job)}, 1<<20)
		for _, e := range events {
			seqs = append(seqs, e.Seq)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return seqs
}

func TestEventsOfAnOlderJournalAreFoundAfterItsMigration(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := prepareDir(dir); err != nil {
		t.Fatal(err)
	}
	o := testOptions(dir)
	old := &Journal{dir: dir, clock: o.Clock, log: o.Logger}
	var err error
	if old.db, err = openDatabase(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if err := old.migrateTo(t.Context(), steps(t)[:3]); err != nil {
		t.Fatal(err)
	}
	for seq := 1; seq <= 700; seq++ {
		job := []string{"job_b", "job_a"}[seq%2]
		doc := fmt.Sprintf(`{"seq":%d,"kind":"attempt.text","job":%q,"attempt":"att_of_%[2]s","at":{}}`, seq, job)
		if _, err := old.db.writer.ExecContext(t.Context(), `INSERT INTO events (seq, kind, job, attempt, doc) VALUES ($1, 'attempt.text', $2, $3, $4)`, seq, job, "att_of_"+job, doc); err != nil {
			t.Fatal(err)
		}
	}
	identity := `{"pid":1,"marker":"m","writes":["/w"]}`
	if _, err := old.db.writer.ExecContext(t.Context(), `INSERT INTO processes (id, generation, doc) VALUES ($1, 0, $2)`, identity, `{"owner":"att_1","generation":0,"identity":`+identity+`}`); err != nil {
		t.Fatal(err)
	}
	if err := old.db.close(); err != nil {
		t.Fatal(err)
	}
	j, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for i, job := range []coord.JobID{"job_a", "job_b"} {
		if got := found(t, j, job); len(got) != 350 || got[0] != int64(i+1) || got[349] != int64(i+699) {
			t.Errorf("of %s are found %v", job, got)
		}
	}
	// A process of that time is forgotten under the identity that is read of it.
	err = j.Update(t.Context(), func(tx *Tx) error {
		all, err := tx.Processes(j.Generation())
		if err != nil || len(all) != 1 {
			return fmt.Errorf("recorded are %+v, %w", all, err)
		}
		if err := tx.EndProcess([]byte(`{"pid":1,"marker":"m"}`)); err != nil {
			return err
		}
		if all, err = tx.Processes(j.Generation()); err != nil || len(all) != 0 {
			return fmt.Errorf("left are %+v, %w", all, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestPrunedEventsTakeTheirSpansAlongAndNoOthers(t *testing.T) {
	j, err := Open(t.Context(), testOptions(filepath.Join(t.TempDir(), "data")))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.Update(t.Context(), func(tx *Tx) error { alternating(tx, 800); return nil }); err != nil {
		t.Fatal(err)
	}
	left := int64(0)
	for _, c := range []struct{ through, spans int64 }{{254, 8}, {255, 6}, {256, 6}, {300, 6}, {511, 4}, {767, 2}, {799, 2}} {
		if err := j.Update(t.Context(), func(tx *Tx) error {
			_, err := tx.PruneEvents(j.Now().Wall.Add(time.Hour), int(c.through-left))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		left = c.through
		for i, job := range []coord.JobID{"job_a", "job_b"} {
			want := 0
			for seq := left + 1; seq <= 800; seq++ {
				if (seq-1)%2 == int64(i) {
					want++
				}
			}
			if got := found(t, j, job); len(got) != want || want > 0 && got[0] <= left {
				t.Errorf("after pruning to %d, %d events of %s are found, want %d", left, len(got), job, want)
			}
		}
		if err := j.View(t.Context(), func(v *View) error {
			spans, err := scalar[int64](v, `SELECT COUNT(*) FROM spans`)
			if spans != c.spans {
				t.Errorf("after pruning to %d there are %d entries of spans, want %d", left, spans, c.spans)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
}

func TestEventsAreFoundByKeyAndNeverSorted(t *testing.T) {
	j, err := Open(t.Context(), testOptions(filepath.Join(t.TempDir(), "data")))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for _, f := range []EventFilter{{}, {Job: "job"}, {Job: "job", Attempt: "attempt"}} {
		err := j.View(t.Context(), func(v *View) error {
			query, args := f.query(1, 2)
			rows, err := v.q.QueryContext(v.ctx, "EXPLAIN QUERY PLAN "+query, args...)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var id, parent, unused int
				var step string
				if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
					return err
				}
				if !strings.HasPrefix(step, "SEARCH ") {
					t.Errorf("%+v: %s", f, step)
				}
			}
			return rows.Err()
		})
		if err != nil {
			t.Error(err)
		}
	}
}
