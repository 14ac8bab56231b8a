package synthesis

import (
	"context"
	"io"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// pageEvents is how many events one short read transaction gives.
const pageEvents = 256

// Bytes is what synthesis asks of the artifact store. A reader gives an error
// instead of io.EOF when the bytes do not match their digest.
type Bytes interface {
	Open(sha string) (io.ReadCloser, int64, error)
}

// Synthesis reads a journal. It is safe for concurrent use.
type Synthesis struct {
	journal *journal.Journal
	bytes   Bytes
}

// New makes a Synthesis on a journal and the bytes of its artifacts.
func New(j *journal.Journal, bytes Bytes) *Synthesis { return &Synthesis{journal: j, bytes: bytes} }

// record is one consistent state of a job with all that belongs to it.
type record struct {
	job       coord.Job
	tasks     []coord.Task
	attempts  []coord.Attempt
	requests  []coord.Request
	artifacts []coord.Artifact
	// summary is all that is kept of a job that ended long ago.
	summary *coord.Result
	// head is the last event that this state comes from.
	head int64
}

// record reads a job in one read transaction.
func (s *Synthesis) record(ctx context.Context, ref coord.JobRef) (record, error) {
	var r record
	err := s.journal.View(ctx, func(v *journal.View) (err error) {
		if r.job, err = v.Job(ref); err != nil {
			return err
		}
		switch kept, err := v.Summary(r.job.ID); coord.CodeOf(err) {
		case "":
			r.summary = &kept
		case coord.NotFound:
		default:
			return err
		}
		if r.tasks, err = v.Tasks(r.job.ID); err != nil {
			return err
		}
		if r.attempts, err = v.Attempts(r.job.ID); err != nil {
			return err
		}
		if r.requests, err = v.JobRequests(r.job.ID); err != nil {
			return err
		}
		if r.artifacts, err = v.Artifacts(r.job.ID); err != nil {
			return err
		}
		r.head, err = v.Head()
		return err
	})
	return r, err
}

// events gives the events that f chooses up to head to use, page by page, each
// page in a read transaction of its own, until use says that it has enough.
func (s *Synthesis) events(ctx context.Context, f journal.EventFilter, head int64, use func(coord.Event) (more bool, err error)) error {
	for after := int64(0); after < head; {
		var page []coord.Event
		err := s.journal.View(ctx, func(v *journal.View) (err error) {
			page, err = v.Events(after, f, pageEvents)
			return err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, e := range page {
			if e.Seq > head {
				return nil
			}
			if more, err := use(e); err != nil || !more {
				return err
			}
			after = e.Seq
		}
	}
	return nil
}
