package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"signalbox/internal/api"
	"signalbox/internal/coord"
)

// Headers of the door.
const (
	// CSRFHeader carries a browser session's second secret.
	CSRFHeader = api.CSRFHeader
	// PresenceHeader is "terminal" when a client says that a person sits at it.
	PresenceHeader = "X-Signalbox-Presence"
)

// door is the front door's handler: it refuses who shows nothing, and passes on
// what the others ask with what they showed, and without their secrets.
type door struct {
	worker  http.RoundTripper
	pairing *pairing
	log     *slog.Logger
	host    string // the address that it listens on, such as 127.0.0.1:7717
	port    string
	version string
	pid     int
	large   chan struct{} // a place for each large body
	mux     *http.ServeMux
}

// Of bodies that are or may be larger than smallBody, maxLarge are held in memory
// at once, until they were sent on; who asks is found out by the worker, after
// that. More of them wait, longer than one may take to come.
const (
	smallBody = 64 << 10
	maxLarge  = 4
	largeWait = coord.WriteTimeout * 3 / 2
)

// claimKey finds the claim in a request's context.
type claimKey struct{}

func newDoor(worker http.RoundTripper, log *slog.Logger, host, port, version string, pid int) *door {
	d := &door{worker: worker, pairing: &pairing{}, log: log, host: host, port: port, version: version, pid: pid, large: make(chan struct{}, maxLarge), mux: http.NewServeMux()}
	proxy := &httputil.ReverseProxy{
		Transport:     worker,
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: "worker"})
			// Last, so that no header of the client's can take it away again.
			cleanse(r.Out.Header)
			if c, ok := r.In.Context().Value(claimKey{}).(claim); ok {
				maps.Copy(r.Out.Header, c.header())
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { d.refuse(w, err) },
	}
	d.mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		c, err := claimOf(r, d.cookie())
		if err != nil {
			d.refuse(w, err)
			return
		}
		control := http.NewResponseController(w)
		r = r.WithContext(context.WithValue(r.Context(), claimKey{}, c))
		if err := d.receive(control, r); err != nil {
			d.refuse(w, err)
			return
		}
		defer r.Body.Close()
		proxy.ServeHTTP(&patient{ResponseWriter: w, control: control}, r)
	})
	d.mux.HandleFunc("POST /pair", d.pair)
	d.mux.HandleFunc("POST /pair/link", d.link)
	d.mux.HandleFunc("GET /pair", newPage(pairHTML).serve)
	d.mux.HandleFunc("GET /{$}", newPage(homeHTML).serve)
	d.mux.HandleFunc("GET /healthz", d.health)
	return d
}

// ServeHTTP answers a request from outside.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if err := d.checkOrigin(r); err != nil {
		d.refuse(w, err)
		return
	}
	if p := api.Misdirected(d.mux, h, r, "there is no such page"); p != nil {
		d.write(w, p)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, coord.MaxBody+1)
	d.mux.ServeHTTP(w, r)
}

// checkOrigin refuses requests that a page of somebody else makes a browser
// send: under another name of this address (DNS rebinding), or from another
// origin.
func (d *door) checkOrigin(r *http.Request) error {
	switch r.Host {
	case "127.0.0.1:" + d.port, "localhost:" + d.port:
	default:
		return coord.Errorf(coord.Forbidden, "this address is not known under that name: use http://%s", d.host)
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return coord.Errorf(coord.Forbidden, "requests from other origins are refused: use http://%s", d.host)
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return nil
	}
	// A link on another page may open the pages, which show nothing; it may
	// not ask the API.
	if r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && !strings.HasPrefix(r.URL.Path, "/api/") {
		return nil
	}
	return coord.Errorf(coord.Forbidden, "requests from other sites are refused: use http://%s", d.host)
}

// cleanse takes away what the worker must believe from nobody but the door,
// and the secrets that it has no use for.
func cleanse(h http.Header) {
	for name := range h {
		if strings.HasPrefix(http.CanonicalHeaderKey(name), "Signalbox-") {
			delete(h, name)
		}
	}
	// The link speaks HTTP/2 already and changes to nothing else, and bodies are
	// there before it is asked.
	for _, name := range []string{"Cookie", "Authorization", CSRFHeader, "Upgrade", "Connection", "Http2-Settings", "Expect"} {
		h.Del(name)
	}
}

// cookie is the session cookie's name.
func (d *door) cookie() string { return api.SessionCookie + d.port }

// csrfCookie lets the pages read the second secret again after a reload.
func (d *door) csrfCookie() string { return "signalbox_csrf_" + d.port }

// ask makes a request of the door's own to the worker, with a claim's header if
// the answer depends on who asks.
func (d *door) ask(ctx context.Context, path string, header http.Header, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://worker"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	maps.Copy(req.Header, header)
	res, err := d.worker.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxReport))
	if err != nil {
		return wentAway(err)
	}
	if res.StatusCode == http.StatusOK {
		return json.Unmarshal(answer, into)
	}
	var p api.Problem
	if err := json.Unmarshal(answer, &p); err != nil {
		return err
	}
	return &coord.Error{Code: p.Code, Message: p.Detail}
}

// receive puts the whole body in the place of one that comes, for which it has
// coord.WriteTimeout. A body that is sent on while it comes may be answered before
// it is read; the server then closes it beside the link that reads it, which ends
// the stream, and the answer is cut off. Closing the body gives its place back.
func (d *door) receive(control *http.ResponseController, r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	b := &body{leave: func() {}}
	if r.ContentLength < 0 || r.ContentLength > smallBody {
		timer := time.NewTimer(largeWait)
		defer timer.Stop()
		select {
		case d.large <- struct{}{}:
			b.leave = sync.OnceFunc(func() { <-d.large })
		case <-timer.C:
			// Before it answers, the server would wait for what was not sent yet.
			if err := control.SetReadDeadline(time.Now()); err != nil {
				return err
			}
			return coord.Errorf(coord.Unavailable, "other large requests are being received: try again in a moment")
		}
	}
	text, err := readWhole(control, r.Body)
	if err != nil {
		b.leave()
		return err
	}
	if len(text) <= smallBody {
		b.leave()
	}
	b.Reader = bytes.NewReader(text)
	r.Body, r.ContentLength, r.TransferEncoding = b, int64(len(text)), nil
	return nil
}

func readWhole(control *http.ResponseController, body io.Reader) ([]byte, error) {
	if err := control.SetReadDeadline(time.Now().Add(coord.WriteTimeout)); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(body)
	if err == nil {
		return text, control.SetReadDeadline(time.Time{})
	}
	if long, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, coord.Errorf(coord.Limit, "the body is longer than %d bytes: send less", long.Limit-1)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, coord.Errorf(coord.Invalid, "the body was not whole within %s: send it again", coord.WriteTimeout)
	}
	return nil, coord.Errorf(coord.Invalid, "the body ended early or is malformed: send it again")
}

// body is one that was received.
type body struct {
	*bytes.Reader
	leave func()
}

func (b *body) Close() error {
	b.leave()
	return nil
}

// refuse answers with a problem.
func (d *door) refuse(w http.ResponseWriter, err error) {
	p := api.NewProblem(err)
	if p.Code == coord.Internal && !errors.Is(err, context.Canceled) {
		d.log.Error("the front door failed", "err", err)
	}
	d.write(w, p)
}

func (d *door) write(w http.ResponseWriter, p *api.Problem) {
	if err := api.WriteProblem(w, p); err != nil {
		d.log.Debug("an answer could not be written", "err", err)
	}
}

// answer writes {"data": v}.
func (d *door) answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if err := json.NewEncoder(w).Encode(api.Data[any]{Data: v}); err != nil {
		d.log.Debug("an answer could not be written", "err", err)
	}
}

// Health says that a front door answers, and which one.
type Health struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	PID     int    `json:"pid"`
}

func (d *door) health(w http.ResponseWriter, _ *http.Request) {
	d.answer(w, Health{Name: "signalbox", Version: d.version, PID: d.pid})
}

// patient bounds each write to a client: one that takes nothing for so long
// loses its connection and not the door's memory.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (p *patient) Write(b []byte) (int, error) {
	if err := p.control.SetWriteDeadline(time.Now().Add(coord.StreamWrite)); err != nil {
		return 0, err
	}
	return p.ResponseWriter.Write(b)
}

// Unwrap lets the proxy flush.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }
