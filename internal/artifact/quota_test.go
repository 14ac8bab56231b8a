package artifact

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/coord"
)

func TestReserveRefusesWhatABoundForbidsAndNamesIt(t *testing.T) {
	limits := Limits{Artifact: 20, Job: 50, Total: 100}
	for _, c := range []struct {
		name  string
		used  map[coord.JobID]int64
		job   coord.JobID
		bytes int64
		code  coord.Code
		says  string
	}{
		{name: "nothing used", job: "a", bytes: 20},
		{name: "nothing asked", used: map[coord.JobID]int64{"a": 50}, job: "a", bytes: 0},
		{name: "exactly the rest of the job", used: map[coord.JobID]int64{"a": 40}, job: "a", bytes: 10},
		{name: "exactly the rest of all", used: map[coord.JobID]int64{"b": 50, "c": 40}, job: "a", bytes: 10},
		{name: "above one artifact", job: "a", bytes: 21, code: coord.Limit, says: "an artifact may hold 20 bytes"},
		{name: "above the job", used: map[coord.JobID]int64{"a": 40}, job: "a", bytes: 11, code: coord.Limit, says: "job a may hold 50 bytes, 40 are taken"},
		{name: "above all", used: map[coord.JobID]int64{"b": 50, "c": 41}, job: "a", bytes: 10, code: coord.Limit, says: "together may hold 100 bytes, 91 are taken"},
		{name: "use is above the bound already", used: map[coord.JobID]int64{"a": 70}, job: "a", bytes: 1, code: coord.Limit, says: "70 are taken"},
		{name: "negative", job: "a", bytes: -1, code: coord.Invalid, says: "negative"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := NewQuota(limits, sum(c.used), c.used)
			before := q.Total()
			r, err := q.Reserve(c.job, c.bytes)
			if coord.CodeOf(err) != c.code {
				t.Fatalf("got error %v, want code %q", err, c.code)
			}
			if err != nil {
				if !strings.Contains(err.Error(), c.says) {
					t.Errorf("%q does not say %q", err, c.says)
				}
				if after := q.Total(); after != before {
					t.Errorf("a refusal changed %+v to %+v", before, after)
				}
				return
			}
			if got := q.Job(c.job).Reserved; got != c.bytes {
				t.Errorf("%d bytes are reserved, want %d", got, c.bytes)
			}
			r.Release()
		})
	}
}

func sum(used map[coord.JobID]int64) (n int64) {
	for _, u := range used {
		n += u
	}
	return n
}

func TestDefaultLimitsAreThoseOfCoord(t *testing.T) {
	want := Limits{Artifact: 20 << 20, Job: 200 << 20, Total: 2 << 30}
	if diff := cmp.Diff(want, DefaultLimits()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestCommitKeepsTheStoredSizeAndGivesTheRestBack(t *testing.T) {
	q := NewQuota(Limits{Artifact: 20, Job: 50, Total: 100}, 0, nil)
	r, err := q.Reserve("a", 20)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Commit(21); coord.CodeOf(err) != coord.Limit {
		t.Errorf("a commit above the reservation gave %v", err)
	}
	if err := r.Commit(7); err != nil {
		t.Fatal(err)
	}
	r.Release()
	if diff := cmp.Diff(Usage{Used: 7}, q.Job("a")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if err := r.Commit(1); coord.CodeOf(err) != coord.Conflict {
		t.Errorf("a second commit gave %v", err)
	}
}

func TestFreeRefusesMoreThanIsUsed(t *testing.T) {
	q := NewQuota(DefaultLimits(), 5, map[coord.JobID]int64{"a": 5})
	if err := q.Free("a", 6); coord.CodeOf(err) != coord.Internal {
		t.Errorf("got %v", err)
	}
	if err := q.Free("a", 5); err != nil {
		t.Error(err)
	}
	if got := q.Total(); got != (Usage{}) {
		t.Errorf("%+v is left", got)
	}
}

func TestFreeTakesWhatEndedBeforeFromTheTotal(t *testing.T) {
	q := NewQuota(DefaultLimits(), 12, map[coord.JobID]int64{"a": 5})
	if err := q.Free("ended", 7); err != nil {
		t.Error(err)
	}
	if got, of := q.Total(), q.Job("a"); got != (Usage{Used: 5}) || of != (Usage{Used: 5}) {
		t.Errorf("%+v is left, %+v of it of the job that goes on", got, of)
	}
	if err := q.Free("ended", 6); coord.CodeOf(err) != coord.Internal {
		t.Errorf("more than is used: got %v", err)
	}
}

func TestQuotaDoesNotChangeTheCallersMap(t *testing.T) {
	used := map[coord.JobID]int64{"a": 5}
	if err := NewQuota(DefaultLimits(), 5, used).Free("a", 5); err != nil {
		t.Fatal(err)
	}
	if used["a"] != 5 {
		t.Errorf("the map holds %d", used["a"])
	}
}

func TestReservationsAtOnceNeverPassTheBound(t *testing.T) {
	q := NewQuota(Limits{Artifact: 10, Job: 50, Total: 50}, 0, nil)
	var wg sync.WaitGroup
	granted := make(chan int64, 100)
	for range 20 {
		wg.Go(func() {
			r, err := q.Reserve("a", 10)
			if err == nil && r.Commit(10) == nil {
				granted <- 10
			}
		})
	}
	wg.Wait()
	if len(granted) != 5 || q.Total() != (Usage{Used: 50}) {
		t.Errorf("%d reservations were granted, usage %+v", len(granted), q.Total())
	}
}

// TestQuotaAgreesWithAModel compares the running sums with sums that are made
// anew from a list of everything that is held.
func TestQuotaAgreesWithAModel(t *testing.T) {
	limits := Limits{Artifact: 20, Job: 50, Total: 100}
	rapid.Check(t, func(t *rapid.T) {
		type held struct {
			job   coord.JobID
			bytes int64
			res   *Reservation
		}
		var reserved []held
		used := map[coord.JobID]int64{}
		q := NewQuota(limits, 0, nil)
		job := rapid.SampledFrom([]coord.JobID{"a", "b", "c"})
		sums := func(of coord.JobID) (ofJob, total Usage) {
			for _, h := range reserved {
				total.Reserved += h.bytes
				if h.job == of {
					ofJob.Reserved += h.bytes
				}
			}
			for j, n := range used {
				total.Used += n
				if j == of {
					ofJob.Used += n
				}
			}
			return ofJob, total
		}
		take := func(t *rapid.T) held {
			if len(reserved) == 0 {
				t.Skip("nothing is reserved")
			}
			i := rapid.IntRange(0, len(reserved)-1).Draw(t, "reservation")
			h := reserved[i]
			reserved = append(reserved[:i:i], reserved[i+1:]...)
			return h
		}
		t.Repeat(map[string]func(*rapid.T){
			"reserve": func(t *rapid.T) {
				j, n := job.Draw(t, "job"), rapid.Int64Range(0, 25).Draw(t, "bytes")
				ofJob, total := sums(j)
				fits := n <= limits.Artifact && ofJob.Used+ofJob.Reserved+n <= limits.Job && total.Used+total.Reserved+n <= limits.Total
				r, err := q.Reserve(j, n)
				if fits != (err == nil) || err != nil && !errors.Is(err, &coord.Error{Code: coord.Limit}) {
					t.Fatalf("fits is %v and Reserve gave %v", fits, err)
				}
				if err == nil {
					reserved = append(reserved, held{j, n, r})
				}
			},
			"commit": func(t *rapid.T) {
				h := take(t)
				n := rapid.Int64Range(0, h.bytes).Draw(t, "size")
				if err := h.res.Commit(n); err != nil {
					t.Fatal(err)
				}
				used[h.job] += n
			},
			"release": func(t *rapid.T) {
				h := take(t)
				h.res.Release()
				h.res.Release()
			},
			"free": func(t *rapid.T) {
				j := job.Draw(t, "job")
				n := rapid.Int64Range(0, used[j]).Draw(t, "bytes")
				if err := q.Free(j, n); err != nil {
					t.Fatal(err)
				}
				used[j] -= n
			},
			"": func(t *rapid.T) {
				for _, j := range []coord.JobID{"a", "b", "c"} {
					ofJob, total := sums(j)
					if q.Job(j) != ofJob || q.Total() != total {
						t.Fatalf("job %s: %+v of %+v, want %+v of %+v", j, q.Job(j), q.Total(), ofJob, total)
					}
				}
			},
		})
	})
}
