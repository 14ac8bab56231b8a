package journal_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

func TestArtifactSpaceCountsAllAndTheJobsThatAreNotSettled(t *testing.T) {
	j := openMemory(t)
	want := map[coord.JobID]int64{}
	err := j.Update(t.Context(), func(tx *journal.Tx) error {
		for _, c := range []struct {
			state coord.JobState
			sizes []int64
			told  int64
		}{
			{coord.JobRunning, []int64{3, 4}, 7},
			{coord.JobAttention, []int64{3}, 3},
			{coord.JobRunning, []int64{0}, 0}, // a reference takes nothing
			{coord.JobCompleted, []int64{20, 30}, 0},
			{coord.JobFailed, []int64{100}, 0},
		} {
			job, err := tx.AddJob(coord.Job{})
			if err != nil {
				return err
			}
			job.State = c.state
			if err := tx.PutJob(job, nil); err != nil {
				return err
			}
			for _, n := range c.sizes {
				if _, err := tx.AddArtifact(coord.Artifact{Job: job.ID, SHA256: "a", Size: n}); err != nil {
					return err
				}
			}
			if c.told > 0 {
				want[job.ID] = c.told
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var total int64
	var open map[coord.JobID]int64
	err = j.View(t.Context(), func(v *journal.View) (err error) {
		total, open, err = v.ArtifactSpace()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if total != 160 {
		t.Errorf("all take %d bytes, want 160", total)
	}
	if diff := cmp.Diff(want, open); diff != "" {
		t.Errorf("the space of each open job (-want +got):\n%s", diff)
	}
}
