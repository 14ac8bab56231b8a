package modelagent

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"signalbox/internal/jsonl"
	"signalbox/internal/jsonwalk"
)

const (
	// frameOverhead is what a frame may have beside the prompt: the JSON
	// around it and its escapes.
	frameOverhead = 64 << 10
	// flushWindow is how long an ending process waits for its client to take
	// what was written and for its request to be torn down.
	flushWindow = 500 * time.Millisecond
)

// Causes that end a prompt.
var (
	errDeadline  = errors.New("the deadline has passed")
	errCancelled = errors.New("the client cancelled the prompt")
	errClosing   = errors.New("the client has gone")
)

// Main runs one agent on stdin and stdout until stdin ends or ctx does, and
// gives the exit code: 0, 2 for faulty arguments with one fixed line on
// stderr, 1 when stdout cannot be written. A prompt in progress is abandoned,
// which takes at most half a second. getenv is asked for the credential when a
// prompt is admitted, not before.
//
// A read of stdin that is under way when ctx ends cannot be stopped; it ends
// with the process.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) int {
	c, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "signalbox model-agent: "+err.Error())
		return 2
	}
	a := &agent{config: c, getenv: getenv, out: newOutput()}
	go a.out.run(stdout)
	return a.serve(ctx, stdin)
}

// agent is the protocol state of the one session. Only serve's goroutine
// touches it.
type agent struct {
	config config
	getenv func(string) string
	out    *output

	initialized bool
	session     string // "" before session/new
	turn        *turn  // nil before the one prompt is admitted
}

// turn is the one admitted prompt.
type turn struct {
	id     []byte
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// serve handles messages one by one. The prompt runs beside it.
func (a *agent) serve(ctx context.Context, stdin io.Reader) int {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errClosing)
	frames := make(chan frame)
	go read(ctx, stdin, a.config.maxPrompt+frameOverhead, frames)
	code := 0
	for open := true; open; {
		select {
		case f := <-frames:
			open, code = a.take(ctx, f)
		case <-ctx.Done():
			open = false
		case <-a.out.done: // the client reads no more
			open, code = false, 1
		}
	}
	cancel(errClosing)
	a.out.close()
	window := time.NewTimer(flushWindow)
	defer window.Stop()
	turnDone := make(chan struct{})
	if a.turn != nil {
		turnDone = a.turn.done
	} else {
		close(turnDone)
	}
	for _, done := range []chan struct{}{turnDone, a.out.done} {
		select {
		case <-done:
		case <-window.C:
			return code
		}
	}
	return code
}

// frame is one line of stdin, or why there is none.
type frame struct {
	line []byte
	err  error
}

func read(ctx context.Context, stdin io.Reader, limit int, to chan<- frame) {
	r := jsonl.NewReader(stdin, limit)
	for {
		line, err := r.Next()
		select {
		case to <- frame{bytes.Clone(line), err}:
		case <-ctx.Done():
			return
		}
		if err != nil && !errors.Is(err, jsonl.ErrInvalidUTF8) {
			return
		}
	}
}

// take handles one line. It reports whether to go on, and if not, with which
// exit code to end.
func (a *agent) take(ctx context.Context, f frame) (open bool, code int) {
	var answer []byte
	switch {
	case f.err == nil:
		answer = a.answer(ctx, f.line)
	case errors.Is(f.err, jsonl.ErrInvalidUTF8):
		answer = refusal(nil, codeParse, parseError)
	case errors.Is(f.err, jsonl.ErrFrameTooLarge):
		// The rest of the line was not read: what follows cannot be trusted.
		a.out.send(refusal(nil, codeInvalidRequest, frameLimit))
		return false, 0
	default:
		return false, 0
	}
	if answer != nil && !a.out.send(answer) {
		return false, 1
	}
	return true, 0
}

// answer handles one message and gives the frame that is due at once, if any.
func (a *agent) answer(ctx context.Context, line []byte) []byte {
	r, code, err := parseRequest(line)
	if err != nil {
		return refusal(nil, code, err)
	}
	answer, code, err := a.handle(ctx, r)
	if err != nil {
		return refusal(r.id, code, err)
	}
	return answer
}

// handle answers one request. No answer and no error: none is due now.
func (a *agent) handle(ctx context.Context, r request) ([]byte, int, error) {
	if r.method == "session/cancel" {
		// A notification by its nature, so it gets no answer even with an id.
		a.cancel(r.params)
		return nil, 0, nil
	}
	if r.id == nil {
		return nil, 0, nil
	}
	switch r.method {
	case "initialize":
		return a.initialize(r)
	case "session/new":
		return a.newSession(r)
	case "session/prompt":
		return a.prompt(ctx, r)
	}
	return nil, codeMethod, methodNotFound
}

func (a *agent) initialize(r request) ([]byte, int, error) {
	if a.initialized || string(jsonwalk.Member(r.params, "protocolVersion")) != "1" {
		return nil, codeParams, invalidInitialize
	}
	a.initialized = true
	return result(r.id, `{"protocolVersion":1,"agentCapabilities":{"loadSession":false,"promptCapabilities":{}},"authMethods":[],`+
		`"agentInfo":{"name":"signalbox-model-agent","title":"Signalbox model agent","version":`+version()+`}}`), 0, nil
}

// version is the module's version as a JSON string.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v, _, _ := appendText(nil, []byte(info.Main.Version), 100)
		return `"` + string(v) + `"`
	}
	return `"devel"`
}

// newSession opens the one session. Servers of the Model Context Protocol are
// refused although ACP wants agents to support them: this agent runs no tools,
// and a client must not believe that it does.
func (a *agent) newSession(r request) ([]byte, int, error) {
	_, isText := jsonwalk.Text(jsonwalk.Member(r.params, "cwd"))
	servers := jsonwalk.Member(r.params, "mcpServers")
	if !a.initialized || a.session != "" || !isText || !jsonwalk.IsArray(servers) || !jsonwalk.IsEmpty(servers) {
		return nil, codeParams, invalidSession
	}
	a.session = newUUID()
	return result(r.id, `{"sessionId":"`+a.session+`"}`), 0, nil
}

func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// isSession reports whether params name the one session.
func (a *agent) isSession(params []byte) bool {
	id, ok := jsonwalk.Text(jsonwalk.Member(params, "sessionId"))
	return ok && a.session != "" && string(id) == a.session
}

// prompt admits the one prompt. A refused one can be sent again, corrected.
func (a *agent) prompt(ctx context.Context, r request) ([]byte, int, error) {
	if !a.isSession(r.params) {
		return nil, codeParams, invalidSession
	}
	if a.turn != nil {
		return nil, codeParams, sessionAlreadyUsed
	}
	prompt, err := promptText(jsonwalk.Member(r.params, "prompt"), a.config.maxPrompt)
	if err != nil {
		return nil, codeParams, err
	}
	ctx, stop := context.WithTimeoutCause(ctx, a.config.timeout, errDeadline)
	ctx, cancel := context.WithCancelCause(ctx)
	a.turn = &turn{id: r.id, cancel: cancel, done: make(chan struct{})}
	a.out.begin(a.session)
	go func(t *turn) {
		defer close(t.done)
		defer stop()
		defer cancel(nil)
		a.run(ctx, t, prompt)
	}(a.turn)
	return nil, 0, nil
}

// run puts the prompt to the model and answers it. Everything below ask ends
// with ctx, and so at the deadline.
func (a *agent) run(ctx context.Context, t *turn, prompt string) {
	if err := a.ask(ctx, prompt); err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errDeadline) {
			return // answered by cancel, or abandoned
		}
		a.out.end(refusal(t.id, codePrompt, kindOf(ctx, err)))
		return
	}
	a.out.end(result(t.id, `{"stopReason":"end_turn"}`))
}

// cancel answers the prompt at once and then interrupts the request. Whether
// the model had it already is not claimed.
func (a *agent) cancel(params []byte) {
	if a.turn == nil || !a.isSession(params) {
		return
	}
	if a.out.end(result(a.turn.id, `{"stopReason":"cancelled"}`)) {
		a.turn.cancel(errCancelled)
	}
}

// promptText joins the blocks of a prompt. Its errors are failures.
func promptText(blocks []byte, limit int) (string, error) {
	if !jsonwalk.IsArray(blocks) || jsonwalk.IsEmpty(blocks) {
		return "", invalidPrompt
	}
	var joined bytes.Buffer
	broken, separator := false, ""
	for block := range jsonwalk.Elements(blocks) {
		kind, _ := jsonwalk.Text(jsonwalk.Member(block, "type"))
		value, prefix := []byte(nil), ""
		switch string(kind) {
		case "text":
			value = jsonwalk.Member(block, "text")
		case "resource_link":
			// The link is named to the model and never followed.
			value, prefix = jsonwalk.Member(block, "uri"), "Referenced resource, not retrieved: "
		}
		if !jsonwalk.IsText(value) {
			return "", unsupportedContent
		}
		s, ok := jsonwalk.Text(value)
		broken = broken || !ok // told after the kinds of all blocks
		joined.WriteString(separator)
		joined.WriteString(prefix)
		joined.Write(s)
		separator = "\n\n"
	}
	switch {
	case broken:
		return "", invalidPrompt
	case len(bytes.TrimSpace(joined.Bytes())) == 0 || joined.Len() > limit:
		return "", promptLimit
	}
	return joined.String(), nil
}
