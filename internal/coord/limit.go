package coord

import "time"

// Bounds on everything that comes from outside or is kept. Sizes are bytes
// unless the name says otherwise.
const (
	// MaxFrame bounds one line or message of a provider. Agents send whole
	// files inside a tool call; 8 MiB holds them and keeps one attempt's
	// buffers small.
	MaxFrame = 8 << 20
	// MaxNoiseLines bounds how many lines that are not protocol an agent may
	// print on its protocol stream before the attempt fails: real agents print
	// a banner, a log that never ends is a broken one.
	MaxNoiseLines = 64
	// MaxPendingRequests bounds the open requests of one attempt: a person
	// cannot answer more, and a flood must not become a flood of rows.
	MaxPendingRequests = 32
	// MaxStderr bounds what is kept of a child's stderr, for diagnosis on this
	// machine only.
	MaxStderr = 64 << 10

	// MaxBody bounds a request body of the API: the largest plan fits.
	MaxBody = 4 << 20
	// MaxTasks bounds a plan: more cannot be reviewed by a person.
	MaxTasks = 64
	// MaxNeeds bounds the needs of one task.
	MaxNeeds = 16
	// MaxInstruction bounds one task's instruction.
	MaxInstruction = 64 << 10
	// MaxPeerName bounds the name of a Tincan peer: real ones are short words.
	MaxPeerName = 128
	// MaxTitle bounds titles and names, in characters.
	MaxTitle = 200
	// MaxReason bounds a written reason or a comment of the operator.
	MaxReason = 4 << 10
	// MaxAnswer bounds the operator's answer to a question.
	MaxAnswer = 16 << 10
	// MaxRequestContent bounds what an agent may put before the operator in
	// one request; longer content is cut and told as cut.
	MaxRequestContent = 64 << 10
	// MaxDecisions bounds a list of decisions: four running attempts can have
	// no more requests open.
	MaxDecisions = MaxRunning * MaxPendingRequests
	// MaxOptions bounds the options of one request.
	MaxOptions = 16

	// MaxCalls bounds the tool calls of one attempt that are unanswered at
	// once; agents make a handful in parallel.
	MaxCalls = 16
	// MaxCallArguments bounds one call's arguments: a file of MaxFile whose
	// every byte is escaped, and its path.
	MaxCallArguments = 1 << 20
	// MaxFile bounds one file that an agent reads or writes through Signalbox's
	// own tools: more is no source text, and a person cannot review it.
	MaxFile = 128 << 10
	// MaxPath bounds a path within a workspace, as Linux bounds a whole one.
	MaxPath = 4 << 10
	// MaxListed bounds the names that one listing gives.
	MaxListed = 2000
	// MaxChanges bounds the files of one change set: more cannot be reviewed.
	MaxChanges = 256
	// MaxName bounds one name of a path, in bytes, as the file systems of Linux
	// do.
	MaxName = 255
	// MaxDiff bounds the text of one file's diff: the diff of two files of
	// MaxFile fits unless nearly every line is empty.
	MaxDiff = 512 << 10

	// MaxTestFiles bounds the files of one run of tests: more is a suite, and the
	// operator approves each file.
	MaxTestFiles = 16
	// MaxTestOutput bounds what a run of tests may print. It is ended there: an
	// endless output is a fault of its own.
	MaxTestOutput = 64 << 10
	// MaxTestReport bounds a runner's own report, a few hundred bytes a test.
	MaxTestReport = 1 << 20
	// MaxTestRuns bounds how many runs one plan can grant without asking;
	// DefaultTestRuns is what naming tests grants.
	MaxTestRuns     = 100
	DefaultTestRuns = 20
	// TestTimeout bounds a run of tests, TestCaseTimeout one test where the
	// runner has such a bound. The operator waits for them.
	TestTimeout     = 2 * time.Minute
	TestCaseTimeout = 5 * time.Second
	// MaxHidden bounds the paths of a workspace that are hidden one by one from
	// a confined run; each is a mount.
	MaxHidden = 4096
	// MaxWorkspaceEntries bounds the files and folders of a workspace that are
	// looked at before a confined run: a second's work.
	MaxWorkspaceEntries = 500_000
	// MaxCopied and MaxCopiedFiles bound a private copy of a workspace, which is
	// made where changes cannot be laid over it.
	MaxCopied      = 1 << 30
	MaxCopiedFiles = 100_000
	// CertificateTTL is how long a certificate may be used.
	CertificateTTL = 2 * time.Hour

	// MaxArgs bounds the arguments of an agent's command, MaxEnv the variables
	// that its configuration sets: more cannot be reviewed by a person.
	MaxArgs = 64
	MaxEnv  = 64
	// MaxState bounds the folders in which an agent keeps its own state: those
	// of the XDG conventions are four.
	MaxState = 16
	// MaxArg bounds one argument, or one variable's value.
	MaxArg = 4 << 10

	// MaxSums bounds the sums of files that are remembered, some 200 bytes each:
	// those of sixty agents with four files. Beyond it some are read again.
	MaxSums = 256

	// MaxTextChunk is the size at which coalesced text is committed.
	MaxTextChunk = 16 << 10
	// TextFlush is the longest time for which text waits to be committed.
	TextFlush = 100 * time.Millisecond
	// MaxAnswerText bounds the text that one attempt may produce. What goes
	// beyond is counted, not kept, and the statement says so.
	MaxAnswerText = 2 << 20
	// MaxStatement bounds a statement held inline in a result; the whole text
	// is an artifact beside it.
	MaxStatement = 64 << 10
	// MaxProjection bounds what one need contributes to a dependant's prompt.
	MaxProjection = 16 << 10
	// MaxProjectionTotal bounds what all needs contribute together.
	MaxProjectionTotal = 64 << 10
	// MaxActivities bounds the activity entries (tool calls and the like) kept
	// of one attempt.
	MaxActivities = 1000
	// MaxContents bounds the pieces of content (files, addresses) kept of one
	// attempt. Their bytes have a quota; an address and an empty file weigh
	// nothing there, but each is a row.
	MaxContents = 256

	// MaxArtifact bounds one artifact.
	MaxArtifact = 20 << 20
	// MaxJobArtifacts bounds the artifacts of one job.
	MaxJobArtifacts = 200 << 20
	// MaxArtifacts bounds all artifacts with their reservations.
	MaxArtifacts = 2 << 30

	// MaxTincanText bounds what is handed to a Tincan peer: it is one argument of
	// a program, which Linux bounds at 128 KiB.
	MaxTincanText = 96 << 10
	// MaxTincanOutput bounds what one run of tincan prints: a reply of the relay's
	// own bound, 256 KiB, beside the text that it answers, as JSON.
	MaxTincanOutput = 1 << 20
	// MaxTincanProfile bounds a profile file, which has a few lines.
	MaxTincanProfile = 64 << 10
	// TincanTimeout bounds one run of tincan: one call of its relay, and one more
	// where it looks for the relay elsewhere.
	TincanTimeout = 30 * time.Second
	// TincanFirstPoll and TincanPoll are the first and the longest pause between
	// two looks at a request. Each look is a process and a call of the relay.
	// TincanFailedPoll is the longest after looks that failed.
	TincanFirstPoll  = time.Second
	TincanPoll       = 15 * time.Second
	TincanFailedPoll = time.Minute
	// TincanClaim is how long a relay keeps a peer's claim of a request: looks
	// that are closer to each other miss none.
	TincanClaim = 30 * time.Minute

	// KeepDetail is how long everything about an ended job is kept; then only
	// its result is.
	KeepDetail = 90 * 24 * time.Hour
	// KeepSummary is how long the result of an ended job is kept.
	KeepSummary = 365 * 24 * time.Hour
	// KeepAnswer is how long the answer to a request with an idempotency key is
	// given again: a client that lost it asks within minutes, and a queue that
	// stood still over a long weekend within days.
	KeepAnswer = 7 * 24 * time.Hour

	// MinFreeSpace is the free disk space below which nothing is dispatched.
	MinFreeSpace = 256 << 20
	// ReserveSpace is released on a full disk so that control commits (a
	// cancel, an end) can still be written.
	ReserveSpace = 64 << 20

	// MaxRunning is how many tasks run at once.
	MaxRunning = 4
	// MaxAttempts is how many attempts a task gets when each of them provably
	// sent nothing.
	MaxAttempts = 3
	// MaxDeadline is the longest time a grant may give.
	MaxDeadline = 2 * time.Hour
	// DefaultDeadline is used when a plan names none.
	DefaultDeadline = 30 * time.Minute
	// CancelWindow is how long, in waking time, a cancellation waits for the
	// provider's own confirmation.
	CancelWindow = 30 * time.Second
	// InspectionTTL is how long an inspection may be used.
	InspectionTTL = 10 * time.Minute
	// GateTimeout is how long a gate may take to become the program: some
	// milliseconds, or some seconds on a machine without a moment to spare.
	// One that somebody stopped takes for ever.
	GateTimeout = 10 * time.Second
	// SetupTimeout bounds each request to an agent before the prompt. Real
	// agents take up to 12 s to start cold.
	SetupTimeout = 45 * time.Second
	// InspectTimeout bounds a whole inspection, which makes up to three requests
	// to an agent that may start cold.
	InspectTimeout = 90 * time.Second
	// WriteTimeout bounds one write to a provider: one that reads nothing must
	// not hold its attempt. The front door gives the same to a request's header,
	// and to its body.
	WriteTimeout = 10 * time.Second
	// DrainWindow is how long a stopping worker waits for its attempts.
	DrainWindow = 30 * time.Second
	// KillGrace is how long a process tree has between the request to end and
	// being killed: enough to flush a file, too short to go on working.
	KillGrace = 2 * time.Second
	// KillWindow is how long a tree may take to vanish in all. Only a process
	// that the kernel holds (a dead network disk) takes longer, and it must not
	// hold the worker.
	KillWindow = 15 * time.Second
	// HeartbeatInterval is how often the owner's record is renewed.
	HeartbeatInterval = 2 * time.Second

	// OwnerWait is how long a starting worker waits for one that drains: its
	// DrainWindow, and the time to end what it started.
	OwnerWait = 40 * time.Second
	// MaxStreams bounds the event streams that are open at once. Each is a
	// goroutine and a window of a few KiB; a browser with many tabs has a dozen.
	MaxStreams = 512
	// EventPage is how many events an event stream reads at once.
	EventPage = 200
	// StreamBeat is how often an idle event stream sends something, so that
	// both ends notice a dead connection.
	StreamBeat = 15 * time.Second
	// StreamWrite bounds the writing of one page to a reader; one that takes
	// nothing for so long is cut off and may come back with its cursor.
	StreamWrite = 30 * time.Second
	// MaxPage bounds one page of a list of the API.
	MaxPage = 200
	// PairingTTL is how long a pairing link is good for: time enough to open it,
	// too short to be found later in a terminal's history.
	PairingTTL = 10 * time.Minute
	// SessionTTL is how long a browser stays signed in.
	SessionTTL = 30 * 24 * time.Hour
	// MaxURL bounds an address of a peer: what people and cards write has some
	// hundred bytes.
	MaxURL = 2 << 10
	// MaxHost bounds a host name, as the DNS does (RFC 1035, 2.3.4).
	MaxHost = 253
	// MaxNetAnswers bounds the addresses that a name may have: large services
	// give a dozen.
	MaxNetAnswers = 32
	// MaxNetHeaders bounds the header of a response, with every 1xx before it.
	MaxNetHeaders = 64 << 10
	// MaxNetConns bounds the connections to one registered peer: each running
	// attempt has a stream and a request beside it.
	MaxNetConns = 16
	// MaxNetDials bounds the connections that are made at once: a TLS handshake
	// takes some 50 KB, and a thousand at once took 100 MB (measured). Others wait.
	MaxNetDials = 16
	// HeapGrowth is how much the worker's heap may grow between two collections,
	// in percent, and HeapFloor what is counted as heap beside what there is, in
	// bytes. Go takes 100 and 4 MB. Together they let a small heap grow from 2 MB
	// to 6 and a large one by little more than a quarter. Measured against 40 and
	// 0: ten thousand updates reach a reader in 83 ms instead of 116, a stream is
	// read at 100 MB/s instead of 75, and a thousand peers that are polled at once
	// take 59 MB as before (73 with Go's own).
	HeapGrowth = 25
	HeapFloor  = 12 << 20
	// MaxNetPeers bounds the peers for which connections are kept ready. Beyond
	// it the connections of some are made anew.
	MaxNetPeers = 2048
	// MaxCA bounds a file of certificates; the system's whole list has 250 KiB.
	MaxCA = 1 << 20
	// MaxCredential bounds the value of a credential: signed tokens with many
	// claims have a few KiB, and servers refuse longer headers.
	MaxCredential = 8 << 10
	// NetLookup bounds the resolving of a name; resolvers ask twice within it.
	NetLookup = 10 * time.Second
	// NetDial bounds the connecting to all addresses of a name, NetHandshake the
	// TLS handshake: a slow mobile line takes 3 s for each.
	NetDial      = 10 * time.Second
	NetHandshake = 10 * time.Second
	// NetHeader bounds the time from the last byte of a request to the last of
	// the response's header. A peer that works before it answers takes long,
	// and one that takes longer is asked by id.
	NetHeader = 60 * time.Second
	// NetIdle is how long a response's body may give no byte. Peers send a
	// comment every 15 to 30 s on a stream, or nothing until there is news; a
	// stream that was cut is opened anew.
	NetIdle = 2 * time.Minute
	// NetKeep is how long a connection is kept for the next request. Node's
	// servers close one after 5 s, and a request that crosses the closing has
	// an unknown outcome.
	NetKeep = 4 * time.Second
)
