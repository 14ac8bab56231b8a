package coord

import (
	"fmt"
	"strconv"
	"strings"
)

// Typed identifiers. All but AgentID are a prefix, an underscore and a ULID,
// made by the journal; an AgentID is the operator's own word for the agent.
type (
	// AgentID names an agent in plans, configuration and commands.
	AgentID string
	// JobID is "job_" and a ULID.
	JobID string
	// TaskID is "tsk_" and a ULID.
	TaskID string
	// AttemptID is "att_" and a ULID.
	AttemptID string
	// RequestID is "req_" and a ULID.
	RequestID string
	// ArtifactID is "art_" and a ULID.
	ArtifactID string
	// CredentialID is "crd_" and a ULID.
	CredentialID string
	// CertificateID is "cft_" and a ULID.
	CertificateID string
)

// The prefixes of the typed identifiers.
const (
	JobPrefix         = "job_"
	TaskPrefix        = "tsk_"
	AttemptPrefix     = "att_"
	RequestPrefix     = "req_"
	ArtifactPrefix    = "art_"
	CredentialPrefix  = "crd_"
	CertificatePrefix = "cft_"
)

// ulidAlphabet is Crockford's base 32, in which a ULID is written: 26 characters
// for 128 bits, so that the first is at most 7.
const ulidAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// ValidAgentID reports whether s may name an agent: 1 to 64 of a-z, 0-9, dot,
// underscore and hyphen, starting with a letter or digit.
func ValidAgentID(s string) bool {
	if s == "" || len(s) > 64 || strings.IndexByte("._-", s[0]) >= 0 {
		return false
	}
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("._-", c) >= 0) {
			return false
		}
	}
	return true
}

// ValidKey reports whether s may be a task's key; the rule is that of agents.
func ValidKey(s string) bool { return ValidAgentID(s) }

// validULID reports whether s is prefix and a ULID.
func validULID(s, prefix string) bool {
	rest, ok := strings.CutPrefix(s, prefix)
	if !ok || len(rest) != 26 || rest[0] > '7' {
		return false
	}
	for _, c := range []byte(rest) {
		if strings.IndexByte(ulidAlphabet, c) < 0 {
			return false
		}
	}
	return true
}

// JobRef is how a person or program names a job: by number or by id.
type JobRef struct {
	Number int64
	ID     JobID
}

// ParseJobRef reads "12" or "job_…".
func ParseJobRef(s string) (JobRef, error) {
	if validULID(s, JobPrefix) {
		return JobRef{ID: JobID(s)}, nil
	}
	if n, ok := number(s); ok {
		return JobRef{Number: n}, nil
	}
	return JobRef{}, Errorf(Invalid, "%s is not a job: write its number (12) or its id (job_…)", quote(s))
}

// TaskRef is how a person or program names a task: by job and key, or by id.
type TaskRef struct {
	Job JobRef
	Key string
	ID  TaskID
}

// ParseTaskRef reads "12/fix", "job_…/fix" or "tsk_…".
func ParseTaskRef(s string) (TaskRef, error) {
	if validULID(s, TaskPrefix) {
		return TaskRef{ID: TaskID(s)}, nil
	}
	job, key, ok := strings.Cut(s, "/")
	if ok && ValidKey(key) {
		if j, err := ParseJobRef(job); err == nil {
			return TaskRef{Job: j, Key: key}, nil
		}
	}
	return TaskRef{}, Errorf(Invalid, "%s is not a task: write job/key (12/fix) or its id (tsk_…)", quote(s))
}

// AttemptRef names an attempt: by id, or a task's latest (Number 0) or its
// Number-th one.
type AttemptRef struct {
	Task   TaskRef
	Number int
	ID     AttemptID
}

// ParseAttemptRef reads "att_…", "12/fix" (its latest attempt) or "12/fix/2".
func ParseAttemptRef(s string) (AttemptRef, error) {
	if validULID(s, AttemptPrefix) {
		return AttemptRef{ID: AttemptID(s)}, nil
	}
	if t, err := ParseTaskRef(s); err == nil {
		return AttemptRef{Task: t}, nil
	}
	if i := strings.LastIndexByte(s, '/'); i > 0 {
		t, err := ParseTaskRef(s[:i])
		if n, ok := number(s[i+1:]); err == nil && ok && n <= MaxAttempts {
			return AttemptRef{Task: t, Number: int(n)}, nil
		}
	}
	return AttemptRef{}, Errorf(Invalid, "%s is not an attempt: write job/key (12/fix), job/key/number (12/fix/1) or its id (att_…)", quote(s))
}

// RequestRef names a request: by number or by id.
type RequestRef struct {
	Number int64
	ID     RequestID
}

// ParseRequestRef reads "r7" or "req_…".
func ParseRequestRef(s string) (RequestRef, error) {
	if validULID(s, RequestPrefix) {
		return RequestRef{ID: RequestID(s)}, nil
	}
	if rest, ok := strings.CutPrefix(s, "r"); ok {
		if n, ok := number(rest); ok {
			return RequestRef{Number: n}, nil
		}
	}
	return RequestRef{}, Errorf(Invalid, "%s is not a request: write its number (r7) or its id (req_…)", quote(s))
}

// number reads a positive decimal number without sign or leading zero.
func number(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 || s[0] == '+' || s[0] == '0' {
		return 0, false
	}
	return n, true
}

// quote shows a short input back; a long one could be anything, so only its
// length is told.
func quote(s string) string {
	if len(s) > 64 {
		return fmt.Sprintf("an input of %d bytes", len(s))
	}
	return strconv.Quote(s)
}
