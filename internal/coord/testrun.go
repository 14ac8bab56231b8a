package coord

// TestRun is one run of tests exactly as it is to be made. An approval binds
// all of it, so that a changed program or a changed file makes it stale.
type TestRun struct {
	// Runner is "bun", "go", "node" or "python".
	Runner string `json:"runner"`
	// Program is the file that runs, with its links resolved.
	Program string `json:"program"`
	SHA256  string `json:"sha256"`
	// Args follow the program; nothing of them is the agent's but the files.
	Args  []string   `json:"args"`
	Files []TestFile `json:"files"`
}

// TestFile is a file of tests as the run would find it.
type TestFile struct {
	// Path is relative to the workspace.
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// TestOutcome is how a run of tests came out.
type TestOutcome string

// The outcomes. Only Passed means that at least one test ran and none failed.
const (
	TestsPassed      TestOutcome = "passed"
	TestsFailed      TestOutcome = "failed"
	TestsCancelled   TestOutcome = "cancelled"
	TestsTimedOut    TestOutcome = "timed_out"
	TestsOutputLimit TestOutcome = "output_limit"
	TestsRefused     TestOutcome = "refused"
)

// TestReport is what Signalbox saw of a run of tests that it made.
type TestReport struct {
	Outcome TestOutcome `json:"outcome"`
	// Reason says why, where the outcome alone does not.
	Reason  string `json:"reason,omitempty"`
	Passed  int    `json:"passed"`
	Failed  int    `json:"failed"`
	Skipped int    `json:"skipped"`
	// Content is the SHA-256, in hex, over the change set as it was tested; ""
	// when there was none.
	Content string `json:"content,omitempty"`
	// Output is the artifact with what the run wrote, redacted.
	Output ArtifactID `json:"output,omitempty"`
}
