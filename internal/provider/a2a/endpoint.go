package a2a

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/jsonwalk"
	"signalbox/internal/netguard"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
	"signalbox/internal/sse"
)

// The bounds of what a peer answers.
const (
	// maxAnswer bounds one answer that is no stream: the largest artifact in
	// base64, and what stands around it.
	maxAnswer = coord.MaxArtifact/3*4 + 1<<20
	// maxStream bounds one stream. What of it is kept has bounds of its own.
	maxStream = 1 << 30
	// maxMembers bounds the members and elements of one answer: in memory each
	// takes up to a hundred times its two bytes.
	maxMembers = 250_000
	// maxExcerpt bounds what is kept of an answer that is no JSON-RPC, for the
	// operator to see.
	maxExcerpt = 2 << 10
)

// Guard is the way out to peers.
type Guard interface {
	// Do sends one request as a allows; see netguard.Guard.
	Do(ctx context.Context, a netguard.Access, req *http.Request) (*http.Response, error)
	// Connect makes the connection of the next work ahead of it.
	Connect(ctx context.Context, a netguard.Access) error
}

// rpcError is the peer's own error in answer to a request.
type rpcError struct {
	code    int64
	message string
	// nameless errors carry no id. JSON-RPC allows that for requests whose id
	// could not be read; gateways do it for any.
	nameless bool
}

// Error quotes the peer.
func (e *rpcError) Error() string {
	return "error " + strconv.FormatInt(e.code, 10) + " " + quote(e.message)
}

// The codes of errors: of JSON-RPC 2.0, and of A2A.
const (
	codeParse         = -32700
	codeInvalid       = -32600
	codeNoMethod      = -32601
	codeInternal      = -32603
	codeNotFound      = -32001
	codeNotCancelable = -32002
	codeUnsupported   = -32004
	codeVersion       = -32009
	// The next two are a2a-go's own.
	codeUnauthenticated = -31401
	codeForbidden       = -31403
)

// certain reports whether the error proves that the request was not carried
// out: it answers this request, or says that the request could not be read.
func (e *rpcError) certain() bool {
	return !e.nameless || e.code == codeParse || e.code == codeInvalid
}

// httpError is an answer that is no JSON-RPC.
type httpError struct {
	status  int
	excerpt string
}

// Error gives the status and quotes the beginning of the body.
func (e *httpError) Error() string {
	s := fmt.Sprintf("HTTP status %d", e.status)
	if e.excerpt != "" {
		s += " and " + quote(e.excerpt)
	}
	return s
}

// faultError is an answer that breaks the protocol.
type faultError struct{ cause, reason string }

// Error says what is wrong.
func (e *faultError) Error() string { return e.reason }

func malformed(what string) error {
	return &faultError{cause: provider.CauseProtocol, reason: "the peer sent " + what}
}

// errCut ends a stream whose peer closed it properly.
var errCut = coord.Errorf(coord.Unavailable, "the peer closed the stream")

// errSilent is the cause of a request that was given up.
var errSilent = coord.Errorf(coord.Unavailable, "the peer gave no answer in time")

func quote(s string) string { return stdio.Quote(s) }

// endpoint is where a registration's work goes.
type endpoint struct {
	guard   Guard
	access  netguard.Access
	url     string
	version string
	tenant  string
}

func (e *endpoint) methods() methods { return methodsOf[e.version] }

// post sends one request, once, and gives its answer when the header is there.
// Work goes over a connection of its own, so that one which the peer is about to
// close does not make it unknown. The caller closes the answer.
func (e *endpoint) post(ctx context.Context, method string, params any, work bool) (*answer, error) {
	id := rand.Text()
	body, err := json.Marshal(struct {
		JSONRPC string `json:"jsonrpc"`
		ID      string `json:"id"`
		Method  string `json:"method"`
		Params  any    `json:"params"`
	}{"2.0", id, method, params})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.GetBody = nil // nothing is sent twice
	req.Close = work
	accept := "application/json"
	if m := e.methods(); method == m.stream || method == m.subscribe {
		accept = "text/event-stream, application/json"
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", accept)
	setVersion(req, e.version)
	res, err := e.guard.Do(ctx, e.access, req) //nolint:bodyclose // the answer's close does
	if err != nil {
		return nil, err
	}
	return newAnswer(id, res), nil
}

// setVersion says which version a request is of. 0.3 has no word for it.
func setVersion(req *http.Request, version string) {
	if version == v10 {
		req.Header.Set("A2A-Version", v10)
	}
}

// call sends a request that may be repeated and reads its one result.
func (e *endpoint) call(ctx context.Context, wait time.Duration, method string, params any) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, wait, errSilent)
	defer cancel()
	a, err := e.post(ctx, method, params, false)
	if err != nil {
		return nil, err
	}
	defer a.close()
	return a.one()
}

// get asks for a task. An answer that is about another one is none.
func (e *endpoint) get(ctx context.Context, wait time.Duration, id string, history int) (*task, error) {
	p := taskParams{Tenant: e.tenant, ID: id}
	if history > 0 || e.version == v10 {
		p.HistoryLength = &history
	}
	result, err := e.call(ctx, wait, e.methods().get, p)
	if err != nil {
		return nil, err
	}
	t, err := readTask(e.version, result)
	if err == nil && t.ID != id {
		err = malformed("the task " + quote(t.ID) + " when it was asked for " + quote(id))
	}
	return t, err
}

// answer is what came for one request.
type answer struct {
	id     string
	res    *http.Response
	stream *sse.Reader // nil for an answer that is no stream
}

func newAnswer(id string, res *http.Response) *answer {
	a := &answer{id: id, res: res}
	if res.StatusCode == http.StatusOK && a.media() == "text/event-stream" {
		a.stream = sse.NewReader(res.Body, sse.Limits{Line: coord.MaxFrame, Event: coord.MaxFrame, Total: maxStream})
	}
	return a
}

func (a *answer) media() string {
	m, _, _ := mime.ParseMediaType(a.res.Header.Get("Content-Type"))
	return m
}

func (a *answer) close() { _ = a.res.Body.Close() } // nothing more is read

// one reads an answer that is no stream. An error of the peer counts under any
// status and any media type: servers label it as text, and gateways pass it on
// with a status of their own.
func (a *answer) one() (json.RawMessage, error) {
	if a.stream != nil {
		return nil, malformed("a stream where one answer was asked for")
	}
	limit := int64(maxAnswer)
	if a.res.StatusCode != http.StatusOK {
		limit = coord.MaxStderr
	}
	body, err := netguard.ReadAll(a.res.Body, limit)
	if coord.CodeOf(err) == coord.Limit {
		return nil, &faultError{provider.CauseFrame, fmt.Sprintf("the peer's answer is longer than %d bytes", limit)}
	}
	if err != nil {
		return nil, err
	}
	result, err := readEnvelope(a.id, body)
	if _, ok := errors.AsType[*rpcError](err); ok {
		return nil, err
	}
	if a.res.StatusCode < 200 || a.res.StatusCode > 299 {
		return nil, &httpError{a.res.StatusCode, excerpt(body)}
	}
	if m := a.media(); m != "" && m != "application/json" && !strings.HasSuffix(m, "+json") {
		return nil, malformed("an answer of the type " + quote(m) + " where JSON-RPC was asked for")
	}
	return result, err
}

// excerpt is the beginning of a body, as text, and no half of a word: quoted, it
// may be the credential that the peer was sent.
func excerpt(body []byte) string { return clip(strings.ToValidUTF8(string(body), ""), maxExcerpt) }

// next reads the next event of a stream. It fails with errCut when the peer
// closed the stream between two events.
func (a *answer) next() (json.RawMessage, error) {
	e, err := a.stream.Next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, errCut
	case errors.Is(err, sse.ErrLineTooLong), errors.Is(err, sse.ErrEventTooLarge), errors.Is(err, sse.ErrStreamTooLarge):
		return nil, &faultError{provider.CauseFrame, "the peer's stream is beyond its bound: " + err.Error()}
	case err != nil:
		return nil, err
	}
	return readEnvelope(a.id, e.Data)
}

// event is what one event of a stream says, or why it says nothing.
type event struct {
	news news
	err  error
}

// events gives the next event of a stream, and those that came with it: the
// fewer hands a fast stream goes through, the faster it is.
func (a *answer) events(version string) []event {
	var out []event
	for {
		var ev event
		result, err := a.next()
		if err == nil {
			ev.news, err = readNews(version, result)
		}
		ev.err = err
		out = append(out, ev)
		if err != nil || !a.stream.Ready() {
			return out
		}
	}
}

// byteOrderMark is put before JSON by some servers, which RFC 8259 lets readers
// ignore.
var byteOrderMark = []byte("\xef\xbb\xbf")

// readEnvelope reads one response to the request with this id and gives its
// result, or the peer's error.
func readEnvelope(id string, body []byte) (json.RawMessage, error) {
	body = bytes.TrimPrefix(body, byteOrderMark)
	if !jsonwalk.Valid(body) {
		return nil, malformed("what is not one JSON document")
	}
	body = bytes.TrimSpace(body)
	if len(body) > maxMembers && countMembers(body) > maxMembers {
		return nil, &faultError{provider.CauseFrame, fmt.Sprintf("the peer's answer has more than %d members and elements", maxMembers)}
	}
	var members [4][]byte
	names := [4]string{"jsonrpc", "id", "result", "error"}
	for name, value := range jsonwalk.Members(body) {
		for i, known := range names {
			if name != known {
				continue
			}
			if members[i] != nil {
				return nil, malformed("a response with two members " + quote(name))
			}
			members[i] = value
		}
	}
	version, of, result, failure := members[0], members[1], members[2], members[3]
	if text, _ := jsonwalk.Text(version); string(text) != "2.0" {
		return nil, malformed("what is no response of JSON-RPC 2.0")
	}
	failed := !jsonwalk.IsNull(failure)
	if failed == (result != nil) && !(failed && jsonwalk.IsNull(result)) {
		return nil, malformed("a response that is not exactly one of a result and an error")
	}
	if text, ok := jsonwalk.Text(of); !ok || string(text) != id {
		if !failed || !jsonwalk.IsNull(of) {
			return nil, malformed("a response to another request")
		}
	}
	if failed {
		return nil, readError(failure, jsonwalk.IsNull(of))
	}
	return result, nil
}

// countMembers gives at least the number of members and elements in a document:
// each but the first has a comma before it, and what has a first has a bracket.
func countMembers(doc []byte) int {
	n := 0
	for {
		text := bytes.IndexByte(doc, '"')
		if text < 0 {
			text = len(doc)
		}
		for _, mark := range []byte(",{[") {
			n += bytes.Count(doc[:text], []byte{mark})
		}
		if text == len(doc) {
			return n
		}
		doc = doc[text+1:]
		for {
			end := bytes.IndexByte(doc, '"') // there is one: the document is valid
			slashes := 0
			for slashes < end && doc[end-1-slashes] == '\\' {
				slashes++
			}
			doc = doc[end+1:]
			if slashes%2 == 0 {
				break
			}
		}
	}
}

// readError reads the peer's error. Its data may be anything, and is not read.
func readError(failure []byte, nameless bool) error {
	code, err := strconv.ParseInt(string(jsonwalk.Member(failure, "code")), 10, 64)
	if err != nil {
		return malformed("an error without a code")
	}
	text, _ := jsonwalk.Text(jsonwalk.Member(failure, "message"))
	return &rpcError{code: code, message: stdio.Clip(string(text), coord.MaxReason), nameless: nameless}
}
