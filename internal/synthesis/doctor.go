package synthesis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"signalbox/internal/artifact"
	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// Store is what the doctor asks of the artifact store.
type Store interface {
	// Verify reads every file and compares it with the sizes by digest.
	Verify(ctx context.Context, known map[string]int64) (artifact.Report, error)
	// RemoveLeftover deletes bytes that were last stored before then.
	RemoveLeftover(sha string, before time.Time) (bool, error)
}

// Credentials are the secrets for peers. The doctor learns no value.
type Credentials interface {
	// Problems says of each credential that cannot be sent now why, by its name.
	// It may wait some seconds for a keyring.
	Problems() map[string]string
}

// leftoverAge is how old stored bytes without an artifact are when they count
// as left over. Bytes get their row within seconds or never.
const leftoverAge = 24 * time.Hour

// Doctor looks for what is stuck, orphaned or inconsistent in the data, and for
// credentials without a value. It is safe for concurrent use.
type Doctor struct {
	journal     *journal.Journal
	store       Store
	credentials Credentials
}

// NewDoctor makes a Doctor.
func NewDoctor(j *journal.Journal, s Store, c Credentials) *Doctor {
	return &Doctor{journal: j, store: s, credentials: c}
}

// Severity says how bad a finding is.
type Severity string

// The severities.
const (
	// Note: nothing is wrong, but somebody should look.
	Note Severity = "note"
	// Warning: something does not go on by itself.
	Warning Severity = "warning"
	// Fault: data is lost or contradicts itself.
	Fault Severity = "fault"
)

// Finding is one thing that the doctor saw.
type Finding struct {
	Code     FindingCode `json:"code"`
	Severity Severity    `json:"severity"`
	// Subject is what it is about, as a person names it.
	Subject     string `json:"subject"`
	Explanation string `json:"explanation"`
	Remedy      string `json:"remedy"`
	// Repairable tells that Repair mends it, and that this is provably safe.
	Repairable bool `json:"repairable"`
}

// FindingCode names a kind of finding.
type FindingCode string

// The findings. Repair knows those of Repairable.
const (
	// RequestOrphan: a request waits, and its attempt is over or lost.
	RequestOrphan FindingCode = "request_orphan"
	// LeaseOrphan: a lease is held by an attempt that holds none.
	LeaseOrphan FindingCode = "lease_orphan"
	// TaskBehind: a task's state does not follow from that of its attempt.
	TaskBehind FindingCode = "task_behind"
	// JobBehind: a job's state does not follow from those of its tasks.
	JobBehind FindingCode = "job_behind"
	// LeaseMissing: an attempt that may run does not hold its agent.
	LeaseMissing FindingCode = "lease_missing"
	// AttemptForeign: a live attempt belongs to an owner that is gone.
	AttemptForeign FindingCode = "attempt_foreign"
	// WaitingForNothing: an attempt waits, and no request of it is open.
	WaitingForNothing FindingCode = "waiting_for_nothing"
	// Overdue: a job runs although its deadline and the time to stop passed.
	Overdue FindingCode = "overdue"
	// UnknownOutcome: an attempt's outcome is unknown and unresolved.
	UnknownOutcome FindingCode = "unknown_outcome"
	// BytesMissing: an artifact's bytes are not in the store.
	BytesMissing FindingCode = "bytes_missing"
	// BytesDamaged: stored bytes do not match their digest.
	BytesDamaged FindingCode = "bytes_damaged"
	// BytesOrphan: stored bytes belong to no artifact.
	BytesOrphan FindingCode = "bytes_orphan"
	// BytesStrange: the store holds something that it did not make.
	BytesStrange FindingCode = "bytes_strange"
	// CredentialUnset: a credential for a peer has no value that can be sent.
	CredentialUnset FindingCode = "credential_unset"
)

// Repairable lists the findings that Repair mends, in the order in which it
// does: a later one may follow from an earlier one.
var Repairable = []FindingCode{RequestOrphan, LeaseOrphan, TaskBehind, JobBehind, BytesOrphan}

// symptom is a finding with its mending, nil where a person must decide.
type symptom struct {
	Finding
	mend func(*journal.Tx) error
}

// Check gives every finding. It changes nothing. It reads all stored bytes,
// which takes some seconds for each GiB, and every credential.
func (d *Doctor) Check(ctx context.Context) ([]Finding, error) {
	out := []Finding{}
	now, generation := d.journal.Now(), d.journal.Generation()
	problems := d.credentials.Problems() // not within the transaction: a keyring may take its time
	err := d.journal.View(ctx, func(v *journal.View) error {
		seen, err := examine(v, now, generation)
		if err != nil {
			return err
		}
		for _, s := range seen {
			out = append(out, s.Finding)
		}
		agents, err := v.Agents()
		out = append(out, credentialFindings(agents, problems)...)
		return err
	})
	if err != nil {
		return nil, err
	}
	rep, err := d.verify(ctx)
	if err != nil {
		return nil, err
	}
	return append(out, bytesFindings(rep)...), nil
}

// verify compares the store with the artifacts that the journal knows.
func (d *Doctor) verify(ctx context.Context) (artifact.Report, error) {
	known := map[string]int64{}
	err := d.journal.View(ctx, func(v *journal.View) error {
		artifacts, err := v.AllArtifacts()
		for _, a := range artifacts {
			if a.Removed == nil && a.SHA256 != "" {
				known[a.SHA256] = a.Size
			}
		}
		return err
	})
	if err != nil {
		return artifact.Report{}, err
	}
	return d.store.Verify(ctx, known)
}

// Repair mends findings of the codes given, all of Repairable when none is, and
// gives what it mended. Everything in the journal is looked at again in the
// same transaction that mends it; stored bytes without an artifact go once they
// are a day old. A code that cannot be repaired is Invalid.
func (d *Doctor) Repair(ctx context.Context, codes ...FindingCode) ([]Finding, error) {
	for _, c := range codes {
		if !slices.Contains(Repairable, c) {
			return nil, coord.Errorf(coord.Invalid, "findings of this kind need a person's decision; repaired are: %v", Repairable)
		}
	}
	if len(codes) == 0 {
		codes = Repairable
	}
	var out []Finding
	err := d.journal.Update(ctx, func(tx *journal.Tx) error {
		out = []Finding{}
		for _, c := range Repairable {
			if !slices.Contains(codes, c) {
				continue
			}
			seen, err := examine(&tx.View, tx.Now(), tx.Generation())
			if err != nil {
				return err
			}
			for _, s := range seen {
				if s.Code != c {
					continue
				}
				if err := s.mend(tx); err != nil {
					return err
				}
				out = append(out, s.Finding)
			}
		}
		return nil
	})
	if err != nil || !slices.Contains(codes, BytesOrphan) {
		return out, err
	}
	gone, err := d.removeLeftovers(ctx)
	return append(out, gone...), err
}

// removeLeftovers deletes stored bytes that belong to no artifact and are old
// enough that none will come.
func (d *Doctor) removeLeftovers(ctx context.Context) ([]Finding, error) {
	rep, err := d.verify(ctx)
	if err != nil {
		return nil, err
	}
	var out []Finding
	before := d.journal.Now().Wall.Add(-leftoverAge)
	for _, orphan := range rep.Orphans {
		gone, err := d.store.RemoveLeftover(orphan.SHA256, before)
		if err != nil {
			return out, err
		}
		if gone {
			out = append(out, bytesOrphan(orphan))
		}
	}
	return out, nil
}

// chart is the part of the journal that is examined: nothing in it grows with
// history.
type chart struct {
	now        coord.Moment
	generation int64
	jobs       []coord.Job
	tasks      map[coord.JobID][]coord.Task
	attempts   map[coord.AttemptID]coord.Attempt
	requests   []coord.Request
	leases     []journal.Lease
}

// examine reads the chart and gives its symptoms.
func examine(v *journal.View, now coord.Moment, generation int64) ([]symptom, error) {
	c := chart{now: now, generation: generation, tasks: map[coord.JobID][]coord.Task{}, attempts: map[coord.AttemptID]coord.Attempt{}}
	var err error
	if c.jobs, err = v.OpenJobs(); err != nil {
		return nil, err
	}
	for _, j := range c.jobs {
		if c.tasks[j.ID], err = v.Tasks(j.ID); err != nil {
			return nil, err
		}
		attempts, err := v.Attempts(j.ID)
		if err != nil {
			return nil, err
		}
		c.note(attempts)
	}
	open, err := v.OpenAttempts()
	if err != nil {
		return nil, err
	}
	c.note(open)
	if c.requests, err = v.PendingRequests(); err != nil {
		return nil, err
	}
	if c.leases, err = v.Leases(); err != nil {
		return nil, err
	}
	// Requests and leases may point to attempts of jobs that ended.
	for _, id := range c.pointed() {
		if _, known := c.attempts[id]; known {
			continue
		}
		a, err := v.Attempt(coord.AttemptRef{ID: id})
		if err == nil {
			c.attempts[id] = a
		} else if coord.CodeOf(err) != coord.NotFound {
			return nil, err
		}
	}
	return c.symptoms(), nil
}

func (c *chart) note(attempts []coord.Attempt) {
	for _, a := range attempts {
		c.attempts[a.ID] = a
	}
}

func (c *chart) pointed() []coord.AttemptID {
	var out []coord.AttemptID
	for _, r := range c.requests {
		out = append(out, r.Attempt)
	}
	for _, l := range c.leases {
		out = append(out, l.Holder)
	}
	return out
}

// credentialFindings tells of each credential that cannot be sent, and whom that
// keeps from work.
func credentialFindings(agents []coord.Agent, problems map[string]string) []Finding {
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(problems)) {
		severity, whom := Note, "No agent is sent it"
		var wanted []string
		for _, g := range agents {
			if g.Enabled && g.Config.A2A != nil && g.Config.A2A.Credential == name {
				wanted = append(wanted, string(g.ID))
			}
		}
		if len(wanted) > 0 {
			severity, whom = Warning, "No work for "+strings.Join(wanted, ", ")
		}
		sentence := problems[name]
		if !strings.HasSuffix(sentence, "?") {
			sentence += "."
		}
		out = append(out, Finding{CredentialUnset, severity, "credential " + name, whom + ": " + sentence,
			"Give it a value; 'signalbox credential list' says where each is looked for. For a variable, end serve and start it with the variable set.", false})
	}
	return out
}

// bytesFindings gives what is wrong with the stored bytes.
func bytesFindings(rep artifact.Report) []Finding {
	var out []Finding
	for _, sha := range rep.Missing {
		out = append(out, Finding{BytesMissing, Fault, "artifact " + sha, "The journal knows this artifact and its bytes are not in the store.",
			"Restore the file from a backup or from an export of its job; the rest of the record is whole.", false})
	}
	for _, sha := range rep.Damaged {
		out = append(out, Finding{BytesDamaged, Fault, "artifact " + sha, "The stored bytes do not match their digest: the disk or somebody changed them.",
			"Restore the file from a backup or from an export of its job, and check the disk.", false})
	}
	for _, ref := range rep.Orphans {
		out = append(out, bytesOrphan(ref))
	}
	for _, path := range rep.Strange {
		out = append(out, Finding{BytesStrange, Note, path, "The artifact folder holds something that Signalbox did not make.",
			"Look at it, and move it elsewhere.", false})
	}
	return out
}

func bytesOrphan(ref artifact.Ref) Finding {
	return Finding{BytesOrphan, Note, "artifact " + ref.SHA256,
		fmt.Sprintf("%d stored bytes belong to no artifact: they were stored just now, or a worker died before it recorded them.", ref.Size),
		"'signalbox doctor --repair' removes them once they are a day old.", true}
}
