package daemon

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
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

// door is the front door's handler: it decides who asks, and passes on what
// they ask.
type door struct {
	worker  http.RoundTripper
	pairing *pairing
	log     *slog.Logger
	host    string // the address that it listens on, such as 127.0.0.1:7717
	port    string
	version string
	pid     int
	mux     *http.ServeMux
}

// whoKey finds who asks in a request's context.
type whoKey struct{}

func newDoor(worker http.RoundTripper, log *slog.Logger, host, port, version string, pid int) *door {
	d := &door{worker: worker, pairing: &pairing{}, log: log, host: host, port: port, version: version, pid: pid, mux: http.NewServeMux()}
	proxy := &httputil.ReverseProxy{
		Transport:     worker,
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: "worker"})
			// Last, so that no header of the client's can take it away again.
			cleanse(r.Out.Header)
			if who, ok := r.In.Context().Value(whoKey{}).(coord.Actor); ok {
				r.Out.Header.Set(api.ActorHeader, api.EncodeActor(who))
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { d.refuse(w, tooLong(err)) },
	}
	d.mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		who, err := d.authenticate(r)
		if err != nil {
			d.refuse(w, err)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), whoKey{}, who))
		proxy.ServeHTTP(&patient{ResponseWriter: w, control: http.NewResponseController(w)}, r)
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
	for _, name := range []string{"Cookie", "Authorization", CSRFHeader} {
		h.Del(name)
	}
}

var errNobody = coord.Errorf(coord.Unauthenticated, "nobody is signed in: send a token as Authorization: Bearer, or open the pairing link that signalbox serve prints")

// authenticate says who asks.
func (d *door) authenticate(r *http.Request) (coord.Actor, error) {
	if value := r.Header.Get("Authorization"); value != "" {
		token, ok := strings.CutPrefix(value, "Bearer ")
		if !ok || !strings.HasPrefix(token, api.TokenPrefix) {
			return coord.Actor{}, coord.Errorf(coord.Unauthenticated, "the Authorization header holds no token of Signalbox: send Bearer %s…", api.TokenPrefix)
		}
		c, err := d.credential(r.Context(), token, "token")
		if err != nil {
			return coord.Actor{}, err
		}
		presence := "none"
		if r.Header.Get(PresenceHeader) == "terminal" {
			presence = "terminal"
		}
		return coord.Actor{Credential: c.ID, Name: c.Name, Role: c.Role, Door: "api", Presence: presence}, nil
	}
	cookie, err := r.Cookie(d.cookie())
	if err != nil {
		return coord.Actor{}, errNobody
	}
	c, err := d.credential(r.Context(), cookie.Value, "session")
	if err != nil {
		return coord.Actor{}, err
	}
	if time.Since(c.Made.Wall) > coord.SessionTTL {
		return coord.Actor{}, coord.Errorf(coord.Unauthenticated, "the browser has been signed in for too long: open a new pairing link")
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		given := api.HashOf(r.Header.Get(CSRFHeader))
		if subtle.ConstantTimeCompare([]byte(given), []byte(c.CSRF)) != 1 {
			return coord.Actor{}, coord.Errorf(coord.Forbidden, "the header %s is missing or wrong: reload the page", CSRFHeader)
		}
	}
	return coord.Actor{Credential: c.ID, Name: c.Name, Role: c.Role, Door: "browser", Presence: "browser"}, nil
}

// cookie is the session cookie's name.
func (d *door) cookie() string { return api.SessionCookie + d.port }

// csrfCookie lets the pages read the second secret again after a reload.
func (d *door) csrfCookie() string { return "signalbox_csrf_" + d.port }

// credential asks the worker for the credential of a value.
func (d *door) credential(ctx context.Context, value, kind string) (coord.Credential, error) {
	c, err := d.ask(ctx, http.MethodGet, credentialsPath+"/"+api.HashOf(value), nil)
	if coord.CodeOf(err) == coord.NotFound || err == nil && c.Kind != kind {
		return c, coord.Errorf(coord.Unauthenticated, "this %s is not known or was revoked: get a new one", kind)
	}
	return c, err
}

// ask makes a request of the door's own to the worker.
func (d *door) ask(ctx context.Context, method, path string, body []byte) (c coord.Credential, err error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://worker"+path, bytes.NewReader(body))
	if err != nil {
		return c, err
	}
	res, err := d.worker.RoundTrip(req)
	if err != nil {
		return c, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxReport))
	if err != nil {
		return c, wentAway(err)
	}
	if res.StatusCode == http.StatusOK {
		return c, json.Unmarshal(answer, &c)
	}
	var p api.Problem
	if err := json.Unmarshal(answer, &p); err != nil {
		return c, err
	}
	return c, &coord.Error{Code: p.Code, Message: p.Detail}
}

// tooLong tells of a body that was cut off at its bound on its way to the
// worker; any other error is given as it is.
func tooLong(err error) error {
	if long, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return coord.Errorf(coord.Limit, "the body is longer than %d bytes: send less", long.Limit-1)
	}
	return err
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
