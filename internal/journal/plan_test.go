package journal

import (
	"path/filepath"
	"strings"
	"testing"
)

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
