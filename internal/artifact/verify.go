package artifact

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"signalbox/internal/coord"
)

// Report is what Verify found. Digests are in ascending order.
type Report struct {
	// Count and Bytes are those of all files that are named by a digest.
	Count int   `json:"count"`
	Bytes int64 `json:"bytes"`
	// Missing digests are known to the journal and not on disk.
	Missing []string `json:"missing,omitempty"`
	// Damaged digests are on disk with bytes that do not match, known or not.
	Damaged []string `json:"damaged,omitempty"`
	// Orphans are intact and unknown to the journal: a Put whose row was never
	// committed. They are safe to remove while no Put is under way.
	Orphans []Ref `json:"orphans,omitempty"`
	// Strange are paths within the store that it did not make.
	Strange []string `json:"strange,omitempty"`
}

// Verify reads every file of the store and compares it with known, the sizes
// of the artifacts that the journal holds by digest. A size that differs is
// damage. It changes nothing.
func (s *Store) Verify(ctx context.Context, known map[string]int64) (Report, error) {
	var rep Report
	seen := map[string]bool{}
	fans, err := os.ReadDir(s.dir)
	if err != nil {
		return Report{}, diskError("listing the artifact directory", err)
	}
	for _, fan := range fans {
		if fan.Name() == tempDir {
			continue
		}
		if !fan.IsDir() || len(fan.Name()) != 2 {
			rep.Strange = append(rep.Strange, fan.Name())
			continue
		}
		files, err := os.ReadDir(filepath.Join(s.dir, fan.Name()))
		if err != nil {
			return Report{}, diskError("listing the artifact directory", err)
		}
		for _, f := range files {
			if ctx.Err() != nil {
				return Report{}, context.Cause(ctx)
			}
			sha := fan.Name() + f.Name()
			if !isDigest(sha) || !f.Type().IsRegular() {
				rep.Strange = append(rep.Strange, filepath.Join(fan.Name(), f.Name()))
				continue
			}
			if err := s.verifyOne(sha, known, &rep); err != nil {
				// Removed since it was listed: not there, so not seen.
				if errors.Is(err, &coord.Error{Code: coord.NotFound}) {
					continue
				}
				return Report{}, fmt.Errorf("verifying artifact %s: %w", sha, err)
			}
			seen[sha] = true
		}
	}
	for sha := range known {
		if !seen[sha] {
			rep.Missing = append(rep.Missing, sha)
		}
	}
	slices.Sort(rep.Missing)
	return rep, nil
}

func (s *Store) verifyOne(sha string, known map[string]int64, rep *Report) error {
	info, err := os.Lstat(s.path(sha))
	if errors.Is(err, os.ErrNotExist) {
		return coord.Errorf(coord.NotFound, "there is no artifact %s", sha)
	}
	if err != nil {
		return diskError("reading an artifact", err)
	}
	intact, err := s.check(sha)
	if err != nil {
		return err
	}
	rep.Count++
	rep.Bytes += info.Size()
	size, isKnown := known[sha]
	switch {
	case !intact || isKnown && size != info.Size():
		rep.Damaged = append(rep.Damaged, sha)
	case !isKnown:
		rep.Orphans = append(rep.Orphans, Ref{SHA256: sha, Size: info.Size()})
	}
	return nil
}
