// Package client speaks the HTTP API for the command line and for tests.
//
// It promises that errors come back as the coord.Error that the worker meant,
// that nothing is asked twice unless asking twice is safe (a read, or a
// mutation under the idempotency key that it had before), and that a followed
// stream of events has no gap and no repetition across cuts and restarts.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"

	"signalbox/internal/api"
	"signalbox/internal/coord"
)

// maxAnswer bounds an answer: the largest is a page of jobs with their plans.
const maxAnswer = 64 << 20

// patience is how long a client waits for a worker that is being started again.
const patience = 15 * time.Second

// Client is a connection to one Signalbox. It is safe for concurrent use.
type Client struct {
	base     string
	token    string
	presence string
	http     *http.Client
}

// Options say where Signalbox is and who asks.
type Options struct {
	// URL is that of the front door, such as http://127.0.0.1:7717.
	URL string
	// Token is the bearer token.
	Token string
	// Terminal tells that a person at a terminal decides.
	Terminal bool
}

// answerTimeout bounds the wait for an answer. The slowest is that of a
// certification, which starts every agent that can be certified, one after the
// other, each for up to two minutes.
const answerTimeout = 10 * time.Minute

// New makes a client. A URL that is not plain http on loopback is Invalid: the
// token must not go anywhere else.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" || u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return nil, coord.Errorf(coord.Invalid, "the address of Signalbox must be like http://127.0.0.1:7717")
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, coord.Errorf(coord.Invalid, "Signalbox is reached on this machine only: its address must be a loopback one")
	}
	c := &Client{base: "http://" + u.Host, token: o.Token, presence: "none"}
	if o.Terminal {
		c.presence = "terminal"
	}
	c.http = &http.Client{
		// No proxy: the way is loopback. No redirect: the token goes with it.
		Transport:     &http.Transport{MaxIdleConnsPerHost: 4, ResponseHeaderTimeout: answerTimeout},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call is one request of the API.
type call struct {
	method, path string
	query        url.Values
	body         any
	// revision goes into If-Match, if not zero.
	revision int
	// key makes a mutation safe to repeat.
	key string
}

// send makes one request, and repeats it while the worker is not there and
// repeating is safe. The caller closes the body.
func (c *Client) send(ctx context.Context, q call) (*http.Response, error) {
	var body []byte
	if q.body != nil {
		var err error
		if body, err = json.Marshal(q.body); err != nil {
			return nil, err
		}
	}
	deadline := time.Now().Add(patience)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		res, err := c.once(ctx, q, body)
		if err == nil || !again(q, err) || time.Now().After(deadline) {
			return res, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// again reports whether repeating a request may help and cannot do harm.
func again(q call, err error) bool {
	var e *coord.Error
	return errors.As(err, &e) && e.Code == coord.Unavailable && (q.method == http.MethodGet || q.key != "")
}

func (c *Client) once(ctx context.Context, q call, body []byte) (*http.Response, error) {
	address := c.base + q.path
	if len(q.query) > 0 {
		address += "?" + q.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, q.method, address, bytes.NewReader(body))
	if err != nil {
		return nil, coord.Errorf(coord.Invalid, "this cannot be asked of Signalbox")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	req.Header.Set("X-Signalbox-Presence", c.presence)
	req.Header.Set("Accept", "application/json, application/problem+json, */*")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if q.key != "" {
		req.Header.Set("Idempotency-Key", q.key)
	}
	if q.revision != 0 {
		req.Header.Set("If-Match", `"`+strconv.Itoa(q.revision)+`"`)
	}
	res, err := c.http.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, &coord.Error{Code: coord.Unavailable, Message: "Signalbox does not answer at " + c.base + ": start it with signalbox serve", Err: err}
	}
	if res.StatusCode/100 == 2 {
		return res, nil
	}
	defer res.Body.Close()
	return nil, problem(res)
}

// problem is the error that an answer tells.
func problem(res *http.Response) error {
	var p api.Problem
	err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&p)
	if err != nil || p.Code == "" {
		return coord.Errorf(coord.Unavailable, "what answers is not Signalbox, or it failed (HTTP status %d)", res.StatusCode)
	}
	message := p.Detail
	if p.ErrorID != "" {
		message += " (" + p.ErrorID + ")"
	}
	return &coord.Error{Code: p.Code, Message: message, Fields: p.Fields}
}

// data makes a request and gives its answer's data.
func data[T any](ctx context.Context, c *Client, q call) (T, error) {
	body, err := document[api.Data[T]](ctx, c, q)
	return body.Data, err
}

// document makes a request and gives its answer. A worker may die in the middle
// of an answer, so one that was cut off is asked for again where that is safe.
func document[T any](ctx context.Context, c *Client, q call) (T, error) {
	var out T
	deadline := time.Now().Add(patience)
	for {
		res, err := c.send(ctx, q)
		if err != nil {
			return out, err
		}
		body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
		_ = res.Body.Close() // what could be read was read
		switch {
		case err == nil && json.Unmarshal(body, &out) == nil:
			return out, nil
		case err == nil:
			return out, coord.Errorf(coord.Unavailable, "what Signalbox answered is not what was asked for")
		case ctx.Err() != nil:
			return out, context.Cause(ctx)
		}
		err = coord.Errorf(coord.Unavailable, "the answer of Signalbox was cut off: see what became of it before asking again")
		if !again(q, err) || time.Now().After(deadline) {
			return out, err
		}
	}
}

// get reads one thing.
func get[T any](ctx context.Context, c *Client, format string, args ...any) (T, error) {
	return data[T](ctx, c, call{method: http.MethodGet, path: path(format, args...)})
}

// NewKey makes an idempotency key, which is a ULID: keys that are made one after
// another sort in that order, so the journal adds those of one operation to one
// page of its index instead of one page each.
func NewKey() string { return ulid.Make().String() }

// post changes something, once, however often the request is repeated.
func post[T any](ctx context.Context, c *Client, body any, format string, args ...any) (T, error) {
	return data[T](ctx, c, call{method: http.MethodPost, path: path(format, args...), body: body, key: NewKey()})
}

// path fills escaped segments into a path.
func path(format string, args ...any) string {
	for i, a := range args {
		args[i] = url.PathEscape(fmt.Sprint(a))
	}
	return "/api" + fmt.Sprintf(format, args...)
}
