package coord

// Statement is what an agent said in the end. It is a claim: it proves that
// the agent said it, no more.
type Statement struct {
	Agent AgentID `json:"agent"`
	// By is "agent", or "operator" for an adopted result.
	By string `json:"by"`
	// Text is the first MaxStatement bytes, redacted.
	Text string `json:"text"`
	// Bytes and SHA256 are those of the whole text as kept.
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Cut tells that Text is not the whole; the artifact is.
	Cut bool `json:"cut,omitempty"`
	// Dropped counts the bytes beyond MaxAnswerText, which were not kept.
	Dropped  int64      `json:"dropped,omitempty"`
	Artifact ArtifactID `json:"artifact,omitempty"`
	At       Moment     `json:"at"`
}

// Artifact is bytes that were kept, with their origin.
type Artifact struct {
	ID      ArtifactID `json:"id"`
	Job     JobID      `json:"job"`
	Task    TaskID     `json:"task"`
	Attempt AttemptID  `json:"attempt"`
	Agent   AgentID    `json:"agent"`
	Name    string     `json:"name"`
	Media   string     `json:"media"`
	Size    int64      `json:"size"`
	SHA256  string     `json:"sha256"`
	// Origin is "said" (part of what the agent sent) or "made" (by Signalbox).
	Origin string `json:"origin"`
	// Redacted tells that secrets were replaced before hashing.
	Redacted bool   `json:"redacted,omitempty"`
	At       Moment `json:"at"`
	// Removed is when the bytes were deleted; the rest stays as a tombstone.
	Removed *Moment `json:"removed,omitempty"`
	// Reference is an address that the agent named instead of sending bytes. It
	// is never opened.
	Reference string `json:"reference,omitempty"`
}

// Result is a job's outcome with every statement attributed.
type Result struct {
	Job    JobID        `json:"job"`
	Number int64        `json:"number"`
	Title  string       `json:"title"`
	State  JobState     `json:"state"`
	Digest string       `json:"digest"`
	Tasks  []TaskResult `json:"tasks"`
	Usage  Usage        `json:"usage"`
}

// TaskResult is one task's part of a result.
type TaskResult struct {
	Key       string     `json:"key"`
	Title     string     `json:"title"`
	Agent     AgentID    `json:"agent"`
	State     TaskState  `json:"state"`
	Reason    string     `json:"reason,omitempty"`
	Attempt   AttemptID  `json:"attempt,omitempty"`
	Statement *Statement `json:"statement,omitempty"`
	// Partial is what an attempt wrote that did not complete.
	Partial   string     `json:"partial,omitempty"`
	Receipt   *Receipt   `json:"receipt,omitempty"`
	Artifacts []Artifact `json:"artifacts,omitempty"`
	Usage     Usage      `json:"usage"`
	Requests  []Request  `json:"requests,omitempty"`
}
