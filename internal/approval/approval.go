package approval

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/workspace"
)

// Approval records the operator's acts. It is safe for concurrent use.
type Approval struct {
	journal  *journal.Journal
	contents workspace.Store
	admit    Admit
}

// Admit admits what may run of a job at once, in the operation that starts it.
// tasks are those of the job, as they were added.
type Admit func(tx *journal.Tx, job coord.Job, tasks []coord.Task) error

// New makes an Approval on a journal and on the contents of change sets. Without
// admit, which may be nil, a job that was started waits to be found.
func New(j *journal.Journal, contents workspace.Store, admit Admit) *Approval {
	return &Approval{j, contents, admit}
}

// operator refuses every other role.
func operator(by coord.Actor) error {
	if by.Role != coord.RoleOperator {
		return coord.Errorf(coord.Forbidden, "only a credential of role %s may do this", coord.RoleOperator)
	}
	return nil
}

// short is how a digest is written for people.
func short(digest string) string {
	if len(digest) > 12 {
		return digest[:12]
	}
	return digest
}

// text checks something that the operator wrote.
func text(pointer, s string, limit int) []coord.Field {
	switch {
	case len(s) > limit:
		return []coord.Field{{Pointer: pointer, Message: fmt.Sprintf("%d bytes; at most %d", len(s), limit)}}
	case !utf8.ValidString(s):
		return []coord.Field{{Pointer: pointer, Message: "not valid UTF-8"}}
	}
	return nil
}

// name is how an actor is named to somebody else.
func name(by coord.Actor) string {
	switch {
	case by.Door == coord.WorkerActor.Door:
		return "Signalbox itself"
	case by.Name != "":
		return by.Name + " (" + by.Door + ")"
	default:
		return "the operator (" + by.Door + ")"
	}
}

// undispatched reports whether nothing was started for a task yet.
func undispatched(t coord.Task) bool {
	return slices.Contains([]coord.TaskState{coord.TaskBlocked, coord.TaskReady}, t.State)
}
