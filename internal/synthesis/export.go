package synthesis

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"slices"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// The format of an archive.
const (
	archiveFormat  = "signalbox-job"
	archiveVersion = 1
	manifestName   = "manifest.json"
	eventsName     = "events.ndjson"
	frozenName     = "frozen.json"
	artifactFolder = "artifacts/"
)

// manifest lists what an archive holds. It is the last member.
type manifest struct {
	Format  string      `json:"format"`
	Version int         `json:"version"`
	Job     coord.JobID `json:"job"`
	Number  int64       `json:"number"`
	// Head is the last event of the journal that the archive knows.
	Head    int64    `json:"head"`
	Members []member `json:"members"`
	// Absent are artifacts whose bytes are not in the archive, and the frozen
	// plan when it was not kept, and why.
	Absent []absent `json:"absent,omitempty"`
}

type member struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

type absent struct {
	SHA256 string `json:"sha256,omitempty"`
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

const readme = `This archive holds the evidence of one Signalbox job.

manifest.json   every other member with its size and SHA-256
job.json        the job, with its grant: who approved which plan, and when
plan.json       the plan as drafted
frozen.json     the plan as approved, made exact; its digest is in the grant
result.json     what came of it, each statement with who made it
tasks.json, attempts.json, requests.json, artifacts.json
                what Signalbox recorded of each
events.ndjson   the journal's events about the job, one a line, in order
artifacts/      kept bytes, each under its SHA-256

A statement is what an agent says. A receipt proves that the agent had the
work. Only what is marked as made by Signalbox was done by Signalbox. Secrets
were replaced before anything was kept. "signalbox verify FILE" checks this
archive without the journal it came from.
`

// Export writes a job as one zip archive. The same journal gives the same
// bytes. Artifacts whose bytes were removed or are damaged are named in the
// manifest with the reason; everything else fails the export.
func (s *Synthesis) Export(ctx context.Context, ref coord.JobRef, w io.Writer) error {
	r, err := s.record(ctx, ref)
	if err != nil {
		return err
	}
	result, err := s.result(ctx, r)
	if err != nil {
		return err
	}
	a := archive{zip: zip.NewWriter(w), manifest: manifest{
		Format: archiveFormat, Version: archiveVersion, Job: r.job.ID, Number: r.job.Number, Head: r.head,
	}}
	if err := a.add("README.txt", []byte(readme)); err != nil {
		return err
	}
	head := r.job
	head.Plan, head.Frozen = coord.Plan{}, nil
	documents := []struct {
		name string
		doc  any
	}{
		{"job.json", head}, {"plan.json", r.job.Plan}, {frozenName, r.job.Frozen}, {"result.json", result},
		{"tasks.json", r.tasks}, {"attempts.json", r.attempts}, {"requests.json", r.requests}, {"artifacts.json", r.artifacts},
	}
	for _, d := range documents {
		if err := a.addJSON(d.name, d.doc); err != nil {
			return err
		}
	}
	if r.summary != nil {
		a.manifest.Absent = append(a.manifest.Absent, absent{"", frozenName, "removed by retention with the attempts and requests; the result is what is kept"})
	}
	if err := s.exportEvents(ctx, &a, r); err != nil {
		return err
	}
	if err := s.exportArtifacts(ctx, &a, r); err != nil {
		return err
	}
	return a.close()
}

// exportEvents writes the events as they are read.
func (s *Synthesis) exportEvents(ctx context.Context, a *archive, r record) error {
	m, err := a.open(eventsName)
	if err != nil {
		return err
	}
	err = s.events(ctx, journal.EventFilter{Job: r.job.ID}, r.head, func(e coord.Event) (bool, error) {
		line, err := json.Marshal(e)
		if err != nil {
			return false, err
		}
		_, err = m.Write(append(line, '\n'))
		return true, err
	})
	a.done(m)
	return err
}

// exportArtifacts writes each kept content once, however many artifacts share
// it. The bytes are read whole before they are written, so that damage is found
// while there is nothing in the archive yet; coord.MaxArtifact bounds them.
func (s *Synthesis) exportArtifacts(ctx context.Context, a *archive, r record) error {
	seen := map[string]bool{}
	for _, one := range r.artifacts {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch {
		case one.Removed != nil:
			a.manifest.Absent = append(a.manifest.Absent, absent{one.SHA256, one.Name, "removed by retention at " + wall(*one.Removed)})
			continue
		case one.SHA256 == "":
			a.manifest.Absent = append(a.manifest.Absent, absent{"", one.Name, "a reference, which is never opened"})
			continue
		case seen[one.SHA256]:
			continue
		}
		seen[one.SHA256] = true
		b, err := s.read(one.SHA256)
		switch code := coord.CodeOf(err); {
		case code == coord.NotFound:
			a.manifest.Absent = append(a.manifest.Absent, absent{one.SHA256, one.Name, "the bytes are missing from the store"})
		case code == coord.Stale:
			a.manifest.Absent = append(a.manifest.Absent, absent{one.SHA256, one.Name, "the stored bytes do not match their digest"})
		case err != nil:
			return err
		default:
			if err := a.add(artifactFolder+one.SHA256, b); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Synthesis) read(sha string) ([]byte, error) {
	f, _, err := s.bytes.Open(sha)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, coord.MaxArtifact+1))
	if err == nil && len(b) > coord.MaxArtifact {
		err = coord.Errorf(coord.Stale, "artifact %s is larger than any artifact may be", sha)
	}
	return b, err
}

// archive writes members and notes their digests. No member has a time, so the
// bytes depend on the content only.
type archive struct {
	zip      *zip.Writer
	manifest manifest
}

// content is a member that is being written.
type content struct {
	member
	w    io.Writer
	hash hash.Hash
}

func (c *content) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.hash.Write(b[:n])
	c.Size += int64(n)
	return n, err
}

func (a *archive) open(name string) (*content, error) {
	w, err := a.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
	if err != nil {
		return nil, fmt.Errorf("writing %s into the archive: %w", name, err)
	}
	return &content{member: member{Name: name}, w: w, hash: sha256.New()}, nil
}

func (a *archive) done(c *content) {
	c.SHA256 = hex.EncodeToString(c.hash.Sum(nil))
	a.manifest.Members = append(a.manifest.Members, c.member)
}

func (a *archive) add(name string, b []byte) error {
	c, err := a.open(name)
	if err != nil {
		return err
	}
	if _, err := c.Write(b); err != nil {
		return fmt.Errorf("writing %s into the archive: %w", name, err)
	}
	a.done(c)
	return nil
}

func (a *archive) addJSON(name string, doc any) error {
	b, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	return a.add(name, append(b, '\n'))
}

// close writes the manifest, which cannot list itself.
func (a *archive) close() error {
	m := a.manifest
	m.Members = slices.Clone(m.Members)
	if err := a.addJSON(manifestName, m); err != nil {
		return err
	}
	if err := a.zip.Close(); err != nil {
		return fmt.Errorf("finishing the archive: %w", err)
	}
	return nil
}
