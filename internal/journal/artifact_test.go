package journal_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

func TestArtifactSpaceCountsTheBytesThatEachJobKeeps(t *testing.T) {
	j := openMemory(t)
	err := j.Update(t.Context(), func(tx *journal.Tx) error {
		for _, a := range []coord.Artifact{
			{Job: "job_1", SHA256: "a", Size: 3},
			{Job: "job_1", SHA256: "b", Size: 4},
			{Job: "job_2", SHA256: "a", Size: 3},
			{Job: "job_3", Reference: "https://example.org/report"},
		} {
			if _, err := tx.AddArtifact(a); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var space map[coord.JobID]int64
	err = j.View(t.Context(), func(v *journal.View) (err error) {
		space, err = v.ArtifactSpace()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// A reference takes nothing, so its job is not listed.
	if diff := cmp.Diff(map[coord.JobID]int64{"job_1": 7, "job_2": 3}, space); diff != "" {
		t.Errorf("the space of each job (-want +got):\n%s", diff)
	}
}
