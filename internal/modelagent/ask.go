package modelagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"signalbox/internal/coord"
	"signalbox/internal/jsonwalk"
	"signalbox/internal/sse"
)

// maxHeader bounds the headers of the response, in bytes.
const maxHeader = 64 << 10

// answer understands the response of one API. Its errors are failures.
type answer interface {
	// event takes one event of a stream, its name and a valid JSON document,
	// and reports whether the answer is complete, which may be before the
	// stream ends.
	event(name string, doc []byte) (done bool, err error)
	// marker takes the event [DONE], which ends a stream: nil if the answer is
	// complete.
	marker() error
	// document takes a whole response that is not a stream, a valid JSON
	// document.
	document(doc []byte) error
}

// ask sends the one request and relays the text of the answer. It succeeds only
// after the API's confirmed end with some text.
func (a *agent) ask(ctx context.Context, prompt string) error {
	key := a.getenv(a.config.keyEnv)
	if !validKey(key) {
		return credentialUnavailable
	}
	body, err := payload(a.config, prompt)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.config.endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.GetBody = nil // nothing may send the body a second time
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	// Compression buys nothing here and makes intermediaries hold text back.
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "signalbox-model-agent")
	// The transport is used without http.Client, which would follow redirects.
	resp, err := transport(a.config.endpoint.Scheme == "http").RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return failure("http_" + strconv.Itoa(resp.StatusCode))
	}
	if enc := resp.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return networkOrProtocolError
	}
	t := &relay{ctx: ctx, out: a.out, limit: a.config.maxOutput}
	if err := a.receive(resp, a.reader(t)); err != nil {
		return err
	}
	if t.sent == 0 {
		return emptyResponse
	}
	return nil
}

func (a *agent) reader(t *relay) answer {
	if a.config.api == apiChat {
		return &chat{emit: t.text}
	}
	return &responses{emit: t.text}
}

func (a *agent) receive(resp *http.Response, to answer) error {
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if !strings.EqualFold(strings.TrimSpace(media), "text/event-stream") {
		doc, err := io.ReadAll(io.LimitReader(resp.Body, int64(a.config.maxResponse)+1))
		switch {
		case len(doc) > a.config.maxResponse:
			return responseLimit
		case err != nil:
			return err
		case !jsonwalk.Valid(doc):
			return networkOrProtocolError
		}
		return to.document(trim(doc))
	}
	stream := sse.NewReader(resp.Body, sse.Limits{Line: a.config.maxResponse, Event: a.config.maxResponse, Total: int64(a.config.maxResponse)})
	for {
		event, err := stream.Next()
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, sse.ErrIncomplete):
			return incompleteResponse
		case err != nil:
			return err
		case event.Fault != nil:
			return modelFailed
		case len(event.Data) == 0: // a keepalive
			continue
		case string(event.Data) == "[DONE]":
			return to.marker()
		case !jsonwalk.Valid(event.Data):
			return networkOrProtocolError
		}
		if done, err := to.event(event.Type, trim(event.Data)); done || err != nil {
			return err
		}
	}
}

// trim takes off the white space that JSON allows around a document.
func trim(doc []byte) []byte { return bytes.Trim(doc, " \t\r\n") }

// validKey allows what a bearer credential may hold. A line end would forge a
// header; a space or a control character is a mistake in the environment.
func validKey(key string) bool {
	for _, c := range []byte(key) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return key != ""
}

// payload is the body of the request: the prompt, streamed, not stored by the
// API where it can be told so, and without tools.
func payload(c config, prompt string) ([]byte, error) {
	type part struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	type message struct {
		Role    string `json:"role"`
		Content any    `json:"content"`
	}
	var body any
	switch c.api {
	case apiChat:
		body = struct {
			Model    string    `json:"model"`
			Stream   bool      `json:"stream"`
			Messages []message `json:"messages"`
		}{c.model, true, []message{{"user", prompt}}}
	default:
		body = struct {
			Model  string    `json:"model"`
			Stream bool      `json:"stream"`
			Store  bool      `json:"store"`
			Input  []message `json:"input"`
		}{c.model, true, false, []message{{"user", []part{{"input_text", prompt}}}}}
	}
	return json.Marshal(body)
}

// transport makes exactly one connection: no proxy from the environment, no
// second use, no HTTP/2, whose client repeats requests by itself. With local
// set it reaches nothing but this machine, whatever the name resolves to.
func transport(local bool) *http.Transport {
	dialer := &net.Dialer{}
	if local {
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			if at, err := netip.ParseAddrPort(address); err != nil || !at.Addr().Unmap().IsLoopback() {
				return coord.Errorf(coord.Forbidden, "plain http is for loopback only; use https")
			}
			return nil
		}
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:            dialer.DialContext,
		Protocols:              protocols,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}
}

// kindOf tells what a failed prompt is answered with.
func kindOf(ctx context.Context, err error) failure {
	var kind failure
	var network net.Error
	switch {
	case errors.Is(context.Cause(ctx), errDeadline):
		return networkTimeout
	case errors.As(err, &kind):
		return kind
	case errors.Is(err, sse.ErrStreamTooLarge), errors.Is(err, sse.ErrEventTooLarge), errors.Is(err, sse.ErrLineTooLong):
		return responseLimit
	case errors.As(err, &network) && network.Timeout():
		return networkTimeout
	}
	return networkOrProtocolError
}

// relay passes text on within the output limit.
type relay struct {
	ctx   context.Context
	out   *output
	limit int
	sent  int
}

// text relays one piece as a whole or not at all.
func (t *relay) text(s []byte) error {
	if t.sent+len(s) > t.limit {
		return outputLimit
	}
	t.sent += len(s)
	return t.out.text(t.ctx, s)
}
