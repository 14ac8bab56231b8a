package sandbox

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"signalbox/internal/coord"
)

// Spec is one run.
type Spec struct {
	Tier coord.Tier
	// Program is the absolute path of the executable, with its links resolved.
	Program string
	// SHA256, in hex, is what the program must be; "" takes what is there.
	SHA256 string
	// Args follow the program's own name. ScratchArg in one of them stands for
	// the scratch directory.
	Args []string
	// Env is added to the few variables that every run has (see baseEnv).
	Env []string
	// Workspace is the absolute path of the directory that the program sees
	// read-only and starts in, with its links resolved.
	Workspace string
	// Dir, relative to the workspace, is where the program starts; "" is the
	// workspace itself.
	Dir string
	// Changes lie over the workspace, ordered by nothing; at most
	// coord.MaxChanges, none twice.
	Changes []Change
	// Reads are more directories and files that the program may read: its
	// runtime's libraries. Absent ones are left out.
	Reads  []string
	Limits Limits
	// Report asks for a pipe at ReportPath, on which the program may hand over
	// at most coord.MaxTestReport bytes beside its output.
	Report bool
}

// ScratchArg in an argument or variable stands for the scratch directory.
const ScratchArg = "{scratch}"

// Change is a file that differs from the workspace.
type Change struct {
	// Path is relative to the workspace, with slashes.
	Path string
	// Content is the path of a file on this machine with the new content; ""
	// for a file that is deleted.
	Content string
	Mode    coord.FileMode
}

// Limits bound a run. Each must be positive.
type Limits struct {
	// Wall is the time from the start; the context may end it earlier.
	Wall time.Duration
	// CPU is processor time, in whole seconds.
	CPU time.Duration
	// Output bounds standard output and error together, Data private memory,
	// FileSize one file, Scratch all files of the scratch space (tier 1 only).
	Output, Data, FileSize, Scratch int64
	// Files bounds the open descriptors.
	Files int
}

// DefaultLimits are those of a run of tests.
func DefaultLimits() Limits {
	return Limits{
		Wall: coord.TestTimeout, CPU: coord.TestTimeout, Output: coord.MaxTestOutput,
		// Bun runs without its compiler, and slowly, below 3 GiB, and does not
		// start at 256 MiB (measured with 1.4.5).
		Data: 4 << 30, FileSize: 64 << 20, Scratch: 256 << 20, Files: 1024,
	}
}

// Ending is why a run ended.
type Ending string

// The endings.
const (
	Exited      Ending = "exited"
	TimedOut    Ending = "timed_out"
	OutputLimit Ending = "output_limit"
	Cancelled   Ending = "cancelled"
)

// Outcome is what a run came to.
type Outcome struct {
	Ending Ending
	// Exit is the exit status, -1 after a signal, which Signal then names.
	Exit   int
	Signal string
	// Output is what the program wrote to both streams, cut at its bound;
	// Report what it wrote to the report.
	Output, Report []byte
	// Gone is the proof that nothing of the run is left: its processes were
	// awaited and its group, or control group, is empty.
	Gone bool
	// SHA256 is that of the program that ran.
	SHA256 string
	// Layers are the restrictions that were in force, for people.
	Layers []string
	// LandlockABI is that of the kernel, 0 on macOS.
	LandlockABI int
	// Hidden is how many paths of the workspace the program could not see.
	Hidden int
	// Wall is the time from the call to the end, Kill from the decision to end
	// it to the end, 0 where it ended by itself.
	Wall, Kill time.Duration
}

// check refuses a spec that could not be confined as it says.
func (s Spec) check(dir string) error {
	l := s.Limits
	for _, p := range []struct{ what, path string }{{"program", s.Program}, {"workspace", s.Workspace}} {
		if !filepath.IsAbs(p.path) || filepath.Clean(p.path) != p.path || strings.ContainsRune(p.path, 0) {
			return coord.Errorf(coord.Invalid, "The %s of a confined run is not a clean absolute path.", p.what)
		}
	}
	switch {
	case s.Workspace == "/":
		return coord.Errorf(coord.Invalid, "The root of the file system cannot be a workspace.")
	case within(dir, s.Workspace) || within(s.Workspace, dir):
		return coord.Errorf(coord.Invalid, "The workspace and the directory for scratch space lie in each other; choose another data directory (--data).")
	case l.Wall <= 0 || l.CPU < time.Second || l.Output <= 0 || l.Data <= 0 || l.FileSize <= 0 || l.Scratch <= 0 || l.Files <= 3:
		return coord.Errorf(coord.Invalid, "A confined run has a limit that is not positive.")
	case s.Dir != "" && !filepath.IsLocal(s.Dir):
		return coord.Errorf(coord.Invalid, "A confined run starts outside of its workspace.")
	case len(s.Changes) > coord.MaxChanges:
		return coord.Errorf(coord.Limit, "A confined run may have %d changed files.", coord.MaxChanges)
	}
	seen := map[string]bool{}
	for _, c := range s.Changes {
		if !filepath.IsLocal(c.Path) || filepath.Clean(c.Path) != c.Path || c.Path == "." || seen[c.Path] {
			return coord.Errorf(coord.Invalid, "A changed file of a confined run is outside of the workspace, or is named twice.")
		}
		if slices.ContainsFunc(strings.Split(c.Path, "/"), coord.HiddenName) {
			return coord.Errorf(coord.Invalid, "A changed file of a confined run has the name of a credential or of metadata.")
		}
		seen[c.Path] = true
	}
	for _, text := range slices.Concat(s.Args, s.Env) {
		if strings.ContainsRune(text, 0) {
			return coord.Errorf(coord.Invalid, "An argument or variable of a confined run holds a NUL byte.")
		}
	}
	return nil
}

// within reports whether path is root or below it. Both are clean.
func within(path, root string) bool {
	return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/")
}

// baseEnv is what every run has. There is no PATH to find anything in, and no
// name of the operator's.
func baseEnv(scratch string) []string {
	return []string{
		"HOME=" + scratch, "TMPDIR=" + scratch, "XDG_CACHE_HOME=" + scratch + "/.cache",
		"PATH=/nonexistent", "LANG=C.UTF-8", "TZ=UTC", "CI=1", "NO_COLOR=1", "DO_NOT_TRACK=1",
	}
}

// refused is the error of a stage that does not let a run be confined.
func refused(stage, why, remedy string) *coord.Error {
	return coord.Errorf(coord.Unsupported, "This machine does not let a program be confined: %s failed (%s). %s", stage, why, remedy)
}
