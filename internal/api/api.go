package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// Options are what the API serves. All are required to serve; Document needs
// none.
type Options struct {
	Journal *journal.Journal
	Stages
	Logger *slog.Logger
	// Host is this machine's name, Version that of the program.
	Host, Version string
	// Stop asks the process to end: at once, or when nothing runs any more. It
	// returns before that happens.
	Stop func(drain bool, by coord.Actor)
}

// API serves the operations.
type API struct {
	Stages
	journal *journal.Journal
	log     *slog.Logger
	host    string
	version string
	stop    func(drain bool, by coord.Actor)

	mux   *http.ServeMux
	huma  huma.API
	turns turns

	places  chan struct{}   // a token for each open event stream
	ending  context.Context // ends with the API, and all streams with it
	endAll  context.CancelCauseFunc
	streams sync.WaitGroup
	mu      sync.Mutex // guards what follows
	closed  bool
	running int           // requests under way
	quiet   chan struct{} // closed when none is, once closed is set
}

// ErrNobody refuses who shows neither a token nor a session.
var ErrNobody = coord.Errorf(coord.Unauthenticated, "nobody is signed in: send a token as Authorization: Bearer, or open the pairing link that signalbox serve prints")

var errStopping = coord.Errorf(coord.Unavailable, "Signalbox is stopping: connect again when it runs")

// New makes the API.
func New(o Options) *API {
	useProblems()
	a := &API{
		Stages: o.Stages, journal: o.Journal, log: o.Logger, host: o.Host, version: o.Version, stop: o.Stop,
		mux: http.NewServeMux(), places: make(chan struct{}, coord.MaxStreams), quiet: make(chan struct{}),
	}
	a.ending, a.endAll = context.WithCancelCause(context.Background())
	a.huma = humago.New(a.mux, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Signalbox", Version: "1",
				Description: "Drafts, reviews, runs and explains the work of agents. Reads answer {\"data\": ...}; errors are problem documents with a code.",
			},
			Components: &huma.Components{Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)},
		},
		Formats:                      map[string]huma.Format{"application/json": exactJSON, "json": exactJSON},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
	})
	a.addStatus()
	a.addDoctor()
	a.addAgents()
	a.addJobs()
	a.addPlans()
	a.addAttempts()
	a.addRequests()
	a.addChangeSets()
	a.addCertificates()
	a.addArtifacts()
	a.addTokens()
	a.addCredentials()
	a.addEvents()
	a.addDocument()
	closeWords(a.huma.OpenAPI().Components.Schemas)
	return a
}

// exactJSON is JSON of valid UTF-8: the decoder would put replacement
// characters in place of what is not, and so change what was sent. And its null
// is a value like any other: huma takes a member that is null for one that is
// absent, whatever the schema says of it.
var exactJSON = huma.Format{
	Marshal: huma.DefaultJSONFormat.Marshal,
	Unmarshal: func(data []byte, v any) error {
		if !utf8.Valid(data) {
			return errors.New("not valid UTF-8")
		}
		if err := huma.DefaultJSONFormat.Unmarshal(data, v); err != nil {
			return err
		}
		// What huma checks is decoded into an any, before it is decoded again.
		if tree, ok := v.(*any); ok {
			*tree = withNulls(*tree)
		}
		return nil
	},
}

// null stands for a null, and fits no type of a schema.
type null struct{}

// MarshalJSON gives what it stands for.
func (null) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// withNulls puts null in place of each nil below v.
func withNulls(v any) any {
	switch v := v.(type) {
	case nil:
		return null{}
	case []any:
		for i := range v {
			v[i] = withNulls(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = withNulls(v[name])
		}
	}
	return v
}

// Document gives the OpenAPI document, indented, with a line end.
func Document() ([]byte, error) { return New(Options{}).document() }

func (a *API) document() ([]byte, error) {
	promise(a.huma.OpenAPI())
	doc, err := json.MarshalIndent(a.huma.OpenAPI(), "", "  ")
	return append(doc, '\n'), err
}

// ServeHTTP answers one request of whom As names in its context.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if !actor(r.Context()).Role.Allows(coord.RoleRead) {
		a.write(w, NewProblem(ErrNobody))
		return
	}
	if !a.enter() {
		a.write(w, NewProblem(errStopping))
		return
	}
	defer a.leave()
	r = r.WithContext(context.WithValue(r.Context(), apiKey{}, a))
	r.Body = http.MaxBytesReader(w, r.Body, coord.MaxBody+1)
	if p := Misdirected(a.mux, h, r, "there is no such operation: see /api/openapi.json"); p != nil {
		a.write(w, p)
		return
	}
	a.mux.ServeHTTP(w, r)
}

// apiKey finds the API in the context of its requests.
type apiKey struct{}

// enter counts a request; false when the API is closed.
func (a *API) enter() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.running++
	return true
}

func (a *API) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running--
	if a.closed && a.running == 0 {
		close(a.quiet)
	}
}

// Close ends the event streams, takes no more requests, and waits for those
// under way, for coord.KillGrace at most: the answer to the stop itself is kept
// in the journal, as that of every change, and must find it open.
func (a *API) Close() {
	a.mu.Lock()
	if !a.closed && a.running == 0 {
		close(a.quiet)
	}
	a.closed = true
	a.mu.Unlock()
	a.endAll(errStopping)
	a.streams.Wait()
	select {
	case <-a.quiet:
	case <-time.After(coord.KillGrace):
		a.log.Warn("requests were cut off because Signalbox ends")
	}
}

// WriteProblem answers a plain HTTP request with a problem.
func WriteProblem(w http.ResponseWriter, p *Problem) error {
	maps.Copy(w.Header(), p.GetHeaders())
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	return json.NewEncoder(w).Encode(p)
}

func (a *API) write(w http.ResponseWriter, p *Problem) {
	if err := WriteProblem(w, p); err != nil {
		a.log.Debug("an answer could not be written", "err", err)
	}
}

// Data is the body of every answer that is one thing, or a whole list.
type Data[T any] struct {
	Data T `json:"data"`
}

// Page is the body of an answer that is a part of a list.
type Page[T any] struct {
	Data []T `json:"data"`
	// Next continues the list as the parameter before; 0 at its end.
	Next int64 `json:"next,omitempty" doc:"Continues the list as ?before=; absent at its end"`
}

// operation is what all operations have.
type operation struct {
	id, method, path, summary, tag string
	// role is the least that may do it.
	role coord.Role
	// status of success, 200 if zero.
	status int
}

// roleMember names the role of an operation in the OpenAPI document.
const roleMember = "x-role"

func (a *API) describe(o operation) huma.Operation {
	return huma.Operation{
		OperationID: o.id, Method: o.method, Path: "/api" + o.path, Summary: o.summary, Tags: []string{o.tag},
		DefaultStatus: o.status, MaxBodyBytes: coord.MaxBody, Responses: map[string]*huma.Response{},
		Description: "Needs the role " + string(o.role) + ".",
		Extensions:  map[string]any{roleMember: o.role},
		Middlewares: huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
			if who := actor(ctx.Context()); !who.Role.Allows(o.role) {
				_, w := humago.Unwrap(ctx)
				a.write(w, NewProblem(coord.Errorf(coord.Forbidden, "this needs the role %s and the credential has %s: use another credential", o.role, who.Role)))
				return
			}
			next(ctx)
		}},
	}
}

// answer is what an operation answers with.
type answer[B any] struct {
	ETag     string `header:"ETag" doc:"The revision, for If-Match"`
	Replayed string `header:"Idempotency-Replayed" doc:"true when this is the first answer again"`
	Body     B
}

// The headers of an answer, which not all operations have.
const (
	etagHeader     = "ETag"
	replayedHeader = "Idempotency-Replayed"
)

// listed is what a list answers with.
type listed[T any] struct{ Body Page[T] }

// tag is the ETag of v, "" for things without revisions.
func tag(v any) string {
	switch v := v.(type) {
	case coord.Job:
		return etag(v.Revision)
	case coord.Agent:
		return etag(v.Revision)
	}
	return ""
}

// fill puts empty lists and maps in place of those that are nil in what v leads
// to: the document says that they are lists and maps, and a nil one goes out as
// null.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fill(v.Elem())
		}
	case reflect.Struct:
		for field, value := range v.Fields() {
			if field.IsExported() {
				fill(value)
			}
		}
	case reflect.Slice:
		switch inner := v.Type().Elem().Kind(); {
		case inner == reflect.Uint8: // a document that is passed on as it is
		case v.IsNil():
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		case inner == reflect.Struct || inner == reflect.Pointer:
			for i := range v.Len() {
				fill(v.Index(i))
			}
		}
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
	default: // it leads to nothing
	}
}

// undeclare takes a header out of what an operation declares of its answers,
// which have it in their type.
func undeclare(d huma.Operation, header string) {
	for _, r := range d.Responses {
		delete(r.Headers, header)
	}
}

// read adds an operation that changes nothing.
func read[I, T any](a *API, o operation, do func(context.Context, *I) (T, error)) {
	d := a.describe(o)
	defer undeclare(d, replayedHeader)
	if tag(*new(T)) == "" {
		defer undeclare(d, etagHeader)
	}
	huma.Register(a.huma, d, func(ctx context.Context, in *I) (*answer[Data[T]], error) {
		out, err := do(ctx, in)
		if err != nil {
			return nil, a.problem(ctx, o.id, err)
		}
		fill(reflect.ValueOf(&out))
		return &answer[Data[T]]{ETag: tag(out), Body: Data[T]{out}}, nil
	})
}

// list adds an operation that reads a page of a list.
func list[I, T any](a *API, o operation, do func(context.Context, *I) ([]T, int64, error)) {
	huma.Register(a.huma, a.describe(o), func(ctx context.Context, in *I) (*listed[T], error) {
		out, next, err := do(ctx, in)
		if err != nil {
			return nil, a.problem(ctx, o.id, err)
		}
		fill(reflect.ValueOf(&out))
		return &listed[T]{Body: Page[T]{out, next}}, nil
	})
}

// write adds an operation that changes something, once for each key.
func write[I any, P interface {
	*I
	keyed
}, T any](a *API, o operation, do func(context.Context, *I) (T, error)) {
	d := a.describe(o)
	if tag(*new(T)) == "" {
		defer undeclare(d, etagHeader)
	}
	huma.Register(a.huma, d, func(ctx context.Context, in *I) (*answer[Data[T]], error) {
		out, replayed, err := once(ctx, a, o.id, P(in).key(), in, func(ctx context.Context) (T, error) { return do(ctx, in) })
		if err != nil {
			return nil, a.problem(ctx, o.id, err)
		}
		fill(reflect.ValueOf(&out))
		res := &answer[Data[T]]{ETag: tag(out), Body: Data[T]{out}}
		if replayed {
			res.Replayed = "true"
		}
		return res, nil
	})
}

// closedWords gives the types whose values are a closed list of words.
func closedWords() map[reflect.Type][]any {
	return map[reflect.Type][]any{
		reflect.TypeFor[coord.Role]():           words(coord.RoleOperator, coord.RoleDraft, coord.RoleRead),
		reflect.TypeFor[coord.EventKind]():      words(coord.EventKinds...),
		reflect.TypeFor[coord.JobState]():       words(coord.Jobs.States()...),
		reflect.TypeFor[coord.TaskState]():      words(coord.Tasks.States()...),
		reflect.TypeFor[coord.AttemptState]():   words(coord.Attempts.States()...),
		reflect.TypeFor[coord.CancelState]():    words(coord.Cancellations.States()...),
		reflect.TypeFor[coord.DecisionState]():  words(coord.Decisions.States()...),
		reflect.TypeFor[coord.EffectState]():    words(coord.Effects.States()...),
		reflect.TypeFor[coord.DeliveryState]():  words(coord.Deliveries.States()...),
		reflect.TypeFor[coord.ResolutionKind](): words(coord.Adopted, coord.NeverRan, coord.Abandoned),
		reflect.TypeFor[coord.RequestKind]():    words(coord.Permission, coord.Question, coord.WriteFile, coord.RunTests),
		reflect.TypeFor[coord.ChangeSetState](): words(coord.ChangeSets.States()...),
		// Outdating, landing and the rest are not for a person to say.
		reflect.TypeFor[coord.ChangeSetEvent](): words(coord.ChangeSetApprove, coord.ChangeSetDiscard),
		reflect.TypeFor[coord.ChangeKind]():     words(coord.FileNew, coord.FileChanged, coord.FileDeleted, coord.FileRenamed),
		reflect.TypeFor[coord.StepKind]():       words(coord.StepCreate, coord.StepReplace, coord.StepRemove),
		reflect.TypeFor[coord.StepState]():      words(coord.StepLanded, coord.StepForeign, coord.StepDiverged, coord.StepFailed, coord.StepSkipped),
		reflect.TypeFor[coord.Tier]():           words(coord.TierNamespaces, coord.TierLandlock, coord.TierSeatbelt),
		reflect.TypeFor[coord.ProbeVerdict]():   words(coord.ProbeDenied, coord.ProbePrivate, coord.ProbePermitted, coord.ProbeWorks, coord.ProbeBroken, coord.ProbeNotProven),
		reflect.TypeFor[coord.OptionKind]():     words(coord.AllowOnce, coord.AllowAlways, coord.RejectOnce, coord.RejectAlways),
		reflect.TypeFor[coord.Operation]():      words(coord.Operations...),
		reflect.TypeFor[coord.AuthState]():      words(coord.AuthReady, coord.AuthRequired, coord.AuthUnknown),
		reflect.TypeFor[coord.Code]():           words(coord.Codes...),
		reflect.TypeFor[coord.DecisionEvent]():  words(coord.DecisionApprove, coord.DecisionDeny, coord.DecisionAnswer),
	}
}

func words[T ~string](values ...T) []any {
	out := make([]any, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// closeWords writes what coord's types say into the schemas, which huma makes
// from Go's kinds alone: the closed lists of words, and what a duration is.
func closeWords(schemas huma.Registry) {
	closed := closedWords()
	for name, schema := range schemas.Map() {
		t := schemas.TypeFromRef("#/components/schemas/" + name)
		for field := range t.Fields() {
			member, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			property := schema.Properties[member]
			if property == nil {
				continue
			}
			inner := field.Type
			if inner.Kind() == reflect.Slice && property.Items != nil {
				inner, property = inner.Elem(), property.Items
			}
			if values, ok := closed[inner]; ok {
				property.Enum = values
			} else if inner == reflect.TypeFor[coord.Duration]() {
				property.Pattern, property.PatternDescription = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`, "a duration such as 45m or 1h30m"
			}
			property.PrecomputeMessages()
		}
		schema.PrecomputeMessages()
	}
}
