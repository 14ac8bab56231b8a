package synthesis

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sync"

	"signalbox/internal/coord"
)

// Report is what the verification of an archive found.
type Report struct {
	Job    coord.JobID `json:"job"`
	Number int64       `json:"number"`
	// Digest is that of the plan that was approved, "" when none was.
	Digest string `json:"digest,omitempty"`
	// Members and Bytes are what was read and matches.
	Members int   `json:"members"`
	Bytes   int64 `json:"bytes"`
	// Absent counts what the archive says it does not hold: artifacts, and the
	// frozen plan of a job that ended long ago.
	Absent int `json:"absent,omitempty"`
	// Faults are sentences; none means that the archive is whole.
	Faults []string `json:"faults,omitempty"`
}

func (r *Report) fault(format string, args ...any) {
	switch {
	case len(r.Faults) < maxFaults:
		r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
	case len(r.Faults) == maxFaults:
		r.Faults = append(r.Faults, "there are more faults than are listed here")
	}
}

const (
	// maxFaults bounds what is told of a broken archive.
	maxFaults = 50
	// maxMembers bounds the members of an archive. 64 tasks with three attempts
	// each keep far fewer artifacts; a list of millions is an attack.
	maxMembers = 10_000
	// maxDocument bounds a member that is read into memory.
	maxDocument = 64 << 20
	// maxUnpacked bounds all members together: artifacts, and as much again for
	// documents and events.
	maxUnpacked = 4 * coord.MaxJobArtifacts
)

// memberName is every name that Export gives: no folder but one, so that no
// name can lead out of where somebody unpacks it.
var memberName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:README\.txt|(?:manifest|job|plan|frozen|result|tasks|attempts|requests|artifacts)\.json|events\.ndjson|artifacts/[0-9a-f]{64})$`)
})

// Verify checks an archive that Export made, with nothing but the archive: that
// each member is there and has the size and digest that the manifest lists,
// that nothing else is, that artifacts have their names, and that the approved
// digest is that of the frozen plan. What does not match is in Report.Faults; an
// error means that it is no archive of a job at all.
func Verify(r io.ReaderAt, size int64) (Report, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return Report{}, coord.Errorf(coord.Invalid, "this is not a zip archive: name a file that 'signalbox job export' made")
	}
	if len(z.File) > maxMembers {
		return Report{}, coord.Errorf(coord.Limit, "the archive has %d members; an export has at most %d", len(z.File), maxMembers)
	}
	var rep Report
	files := map[string]*zip.File{}
	for i, f := range z.File {
		switch {
		case !memberName().MatchString(f.Name):
			rep.fault("member %d has a name that no export gives", i+1)
		case !f.Mode().IsRegular():
			rep.fault("member %s is not a plain file", f.Name)
		case files[f.Name] != nil:
			rep.fault("member %s is there twice", f.Name)
		default:
			files[f.Name] = f
		}
	}
	m, err := readManifest(files[manifestName])
	if err != nil {
		return rep, err
	}
	delete(files, manifestName)
	rep.Job, rep.Number, rep.Absent = m.Job, m.Number, len(m.Absent)
	documents := rep.compare(m, files)
	rep.checkDigests(documents, slices.ContainsFunc(m.Absent, func(a absent) bool { return a.Name == frozenName }))
	return rep, nil
}

func readManifest(f *zip.File) (manifest, error) {
	var m manifest
	if f == nil {
		return m, coord.Errorf(coord.Invalid, "the archive has no %s: name a file that 'signalbox job export' made", manifestName)
	}
	b, err := unpack(f, maxDocument)
	if err != nil {
		return m, coord.Errorf(coord.Invalid, "the archive's %s cannot be read", manifestName)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	if err := dec.Decode(&m); err != nil || m.Format != archiveFormat {
		return m, coord.Errorf(coord.Invalid, "the archive's %s is not that of an export", manifestName)
	}
	if m.Version != archiveVersion {
		return m, coord.Errorf(coord.Unsupported, "the archive has format version %d, and this program reads version %d: use the version that made it", m.Version, archiveVersion)
	}
	return m, nil
}

// compare reads every member against the manifest, and gives the documents
// that further checks need.
func (r *Report) compare(m manifest, files map[string]*zip.File) map[string][]byte {
	documents := map[string][]byte{}
	listed := map[string]bool{}
	left := int64(maxUnpacked)
	for _, want := range m.Members {
		if listed[want.Name] {
			r.fault("the manifest lists %s twice", short(want.Name))
			continue
		}
		listed[want.Name] = true
		f := files[want.Name]
		switch {
		case f == nil:
			r.fault("member %s is missing", short(want.Name))
			continue
		case want.Size < 0 || want.Size > left:
			r.fault("member %s would unpack to more than an export may hold", want.Name)
			continue
		}
		left -= want.Size
		keep := want.Name == "job.json" || want.Name == frozenName || want.Name == "requests.json"
		b, n, sum, err := digestOf(f, want.Size, keep && want.Size <= maxDocument)
		switch {
		case err != nil:
			r.fault("member %s cannot be read", want.Name)
		case n != want.Size:
			r.fault("member %s has another size than the manifest says", want.Name)
		case sum != want.SHA256:
			r.fault("member %s has other content than the manifest says", want.Name)
		case len(want.Name) == len(artifactFolder)+2*sha256.Size && want.Name != artifactFolder+sum:
			r.fault("member %s has other content than its name says", want.Name)
		default:
			r.Members++
			r.Bytes += n
			documents[want.Name] = b
		}
	}
	var extra []string
	for name := range files {
		if !listed[name] {
			extra = append(extra, name)
		}
	}
	slices.Sort(extra)
	for _, name := range extra {
		r.fault("member %s is not in the manifest", name)
	}
	for _, name := range []string{"job.json", "plan.json", frozenName, "result.json", "tasks.json", "attempts.json", "requests.json", "artifacts.json", eventsName} {
		if !listed[name] {
			r.fault("the manifest does not list %s", name)
		}
	}
	return documents
}

// short keeps a name from an unknown manifest from filling the screen.
func short(name string) string {
	if len(name) > 100 {
		return cut(name, 100) + "..."
	}
	return name
}

// checkDigests compares what was approved and decided with its digests. Of a
// job that ended long ago the plan is pruned, and Absent tells of it.
func (r *Report) checkDigests(documents map[string][]byte, pruned bool) {
	var job coord.Job
	var frozen *coord.Frozen
	if json.Unmarshal(documents["job.json"], &job) != nil || json.Unmarshal(documents[frozenName], &frozen) != nil {
		return // told as missing or different already
	}
	if job.ID != r.Job {
		r.fault("job.json is of another job than the manifest")
	}
	if frozen != nil {
		b, err := frozen.Digestible()
		sum := sha256.Sum256(b)
		if err != nil || hex.EncodeToString(sum[:]) != frozen.Digest {
			r.fault("frozen.json does not have the digest that it states")
		}
	}
	if job.Grant != nil {
		r.Digest = job.Grant.Digest
		if frozen == nil && !pruned || frozen != nil && frozen.Digest != job.Grant.Digest {
			r.fault("the grant is for another plan than frozen.json")
		}
	}
	var requests []coord.Request
	if json.Unmarshal(documents["requests.json"], &requests) != nil {
		return
	}
	for _, q := range requests {
		if q.ComputeDigest() != q.Digest {
			r.fault("request r%d does not ask for what its digest says", q.Number)
		}
	}
}

// digestOf reads a member up to one byte more than it should have.
func digestOf(f *zip.File, size int64, keep bool) (b []byte, n int64, sum string, err error) {
	in, err := f.Open()
	if err != nil {
		return nil, 0, "", err
	}
	defer in.Close()
	h := sha256.New()
	var out io.Writer = h
	var buf bytes.Buffer
	if keep {
		out = io.MultiWriter(h, &buf)
	}
	n, err = io.Copy(out, io.LimitReader(in, size+1))
	return buf.Bytes(), n, hex.EncodeToString(h.Sum(nil)), err
}

func unpack(f *zip.File, limit int64) ([]byte, error) {
	b, n, _, err := digestOf(f, limit, true)
	if err == nil && n > limit {
		err = coord.Errorf(coord.Limit, "%s is larger than %d bytes", f.Name, limit)
	}
	return b, err
}
