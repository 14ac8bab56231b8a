package artifact

import (
	"maps"
	"sync"

	"signalbox/internal/coord"
)

// Limits are the bounds of a Quota, in bytes.
type Limits struct {
	// Artifact bounds one reservation.
	Artifact int64
	// Job bounds what one job has stored and reserved.
	Job int64
	// Total bounds what all jobs have stored and reserved together.
	Total int64
}

// DefaultLimits are the bounds of coord.
func DefaultLimits() Limits {
	return Limits{Artifact: coord.MaxArtifact, Job: coord.MaxJobArtifacts, Total: coord.MaxArtifacts}
}

// Quota accounts for the space of artifacts. It is pure bookkeeping in memory:
// the journal's rows are the truth, from which the caller rebuilds it at start.
// Bytes that two jobs share are counted for each of them, because each may
// outlive the other. It is safe for concurrent use.
type Quota struct {
	limits Limits

	mu       sync.Mutex
	used     map[coord.JobID]int64
	reserved map[coord.JobID]int64
	total    int64 // used and reserved of all jobs
}

// NewQuota makes a Quota in which all jobs together already use total bytes, and
// each job that may store more uses the bytes given: what the others use counts
// in the total alone, so that a start does not read the whole history. Use above
// a bound is accepted, since it has happened; it only refuses more.
func NewQuota(limits Limits, total int64, used map[coord.JobID]int64) *Quota {
	q := &Quota{limits: limits, used: maps.Clone(used), reserved: map[coord.JobID]int64{}, total: total}
	if q.used == nil {
		q.used = map[coord.JobID]int64{}
	}
	return q
}

// Reserve sets bytes aside for job until the Reservation is committed or
// released. It refuses with coord.Limit and names the bound that is in the way.
func (q *Quota) Reserve(job coord.JobID, bytes int64) (*Reservation, error) {
	if bytes < 0 {
		return nil, coord.Errorf(coord.Invalid, "a reservation of artifact space cannot be negative")
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	held := q.used[job] + q.reserved[job]
	switch {
	case bytes > q.limits.Artifact:
		return nil, coord.Errorf(coord.Limit, "an artifact may hold %d bytes and this one needs %d: split it or keep less of it", q.limits.Artifact, bytes)
	case bytes > q.limits.Job-held:
		return nil, coord.Errorf(coord.Limit, "the artifacts of job %s may hold %d bytes, %d are taken and %d more are needed: continue in a new job", job, q.limits.Job, held, bytes)
	case bytes > q.limits.Total-q.total:
		return nil, coord.Errorf(coord.Limit, "all artifacts together may hold %d bytes, %d are taken and %d more are needed: export and remove finished jobs", q.limits.Total, q.total, bytes)
	}
	q.reserved[job] += bytes
	q.total += bytes
	return &Reservation{quota: q, job: job, bytes: bytes}, nil
}

// Free gives back bytes that job had stored and that are removed now. Giving
// back more than is used is a fault of the caller and is refused whole.
func (q *Quota) Free(job coord.JobID, bytes int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	of, known := q.used[job]
	if !known { // it ended under an earlier owner
		of = q.usage().Used
	}
	if bytes < 0 || bytes > of {
		return coord.Errorf(coord.Internal, "job %s was to free %d bytes of artifacts and uses at most %d", job, bytes, of)
	}
	q.total -= bytes
	if !known {
		return nil
	}
	if q.used[job] -= bytes; q.used[job] == 0 {
		delete(q.used, job)
	}
	return nil
}

// Usage is what a Quota holds at one moment, in bytes.
type Usage struct {
	Used     int64 `json:"used"`
	Reserved int64 `json:"reserved"`
}

// Job gives the usage of one job that may store more.
func (q *Quota) Job(job coord.JobID) Usage {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Usage{Used: q.used[job], Reserved: q.reserved[job]}
}

// Total gives the usage of all jobs together.
func (q *Quota) Total() Usage {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.usage()
}

func (q *Quota) usage() Usage {
	var u Usage
	for _, n := range q.reserved {
		u.Reserved += n
	}
	u.Used = q.total - u.Reserved
	return u
}

// Reservation is space set aside for one artifact. It ends once: by Commit or
// by Release, whichever comes first.
type Reservation struct {
	quota *Quota
	job   coord.JobID
	bytes int64
	ended bool // guarded by quota.mu
}

// Commit turns the reservation into use of size bytes and gives the rest back.
// A size above the reservation is refused with coord.Limit and changes nothing.
func (r *Reservation) Commit(size int64) error {
	r.quota.mu.Lock()
	defer r.quota.mu.Unlock()
	if r.ended {
		return coord.Errorf(coord.Conflict, "this reservation of artifact space has ended already: reserve again")
	}
	if size < 0 || size > r.bytes {
		return coord.Errorf(coord.Limit, "%d bytes were reserved for the artifact and %d were stored: reserve what is stored", r.bytes, size)
	}
	r.end()
	r.quota.used[r.job] += size
	r.quota.total += size
	return nil
}

// Release gives the whole reservation back. After Commit, or a second time, it
// does nothing, so it can be deferred.
func (r *Reservation) Release() {
	r.quota.mu.Lock()
	defer r.quota.mu.Unlock()
	if !r.ended {
		r.end()
	}
}

func (r *Reservation) end() {
	q := r.quota
	r.ended = true
	q.total -= r.bytes
	if q.reserved[r.job] -= r.bytes; q.reserved[r.job] == 0 {
		delete(q.reserved, r.job)
	}
}
