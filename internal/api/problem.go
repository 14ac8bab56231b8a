package api

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"signalbox/internal/coord"
)

// statuses gives each code its HTTP status; see WithStatus for the exceptions.
var statuses = map[coord.Code]int{
	coord.Invalid:         http.StatusUnprocessableEntity,
	coord.Unauthenticated: http.StatusUnauthorized,
	coord.Forbidden:       http.StatusForbidden,
	coord.NotFound:        http.StatusNotFound,
	coord.Conflict:        http.StatusConflict,
	coord.Stale:           http.StatusPreconditionFailed,
	coord.Limit:           http.StatusRequestEntityTooLarge,
	coord.Unavailable:     http.StatusServiceUnavailable,
	coord.Unsupported:     http.StatusUnprocessableEntity,
	coord.Internal:        http.StatusInternalServerError,
}

// RetryAfter is the Retry-After of an unavailable answer, in seconds.
const RetryAfter = 1

// Problem is an error as it goes over the wire (RFC 9457).
type Problem struct {
	Type   string     `json:"type" doc:"urn:signalbox:problem: and the code"`
	Title  string     `json:"title" doc:"The status in words"`
	Status int        `json:"status"`
	Detail string     `json:"detail" doc:"One sentence: what is wrong and what to do"`
	Code   coord.Code `json:"code"`
	// Fields are the faults of the input. A pointer is into the body, or
	// starts with /path, /query or /header.
	Fields []coord.Field `json:"fields,omitempty"`
	// ErrorID finds an internal error in the log.
	ErrorID string `json:"error_id,omitempty"`
}

// NewProblem gives the problem of a typed error. For any other it is an
// internal one without an id; Told gives it one.
func NewProblem(err error) *Problem {
	var e *coord.Error
	if !errors.As(err, &e) || e.Code == coord.Internal {
		e = &coord.Error{Code: coord.Internal, Message: "Signalbox failed; its log has the details under this error's id"}
	}
	status, known := statuses[e.Code]
	if !known {
		status = http.StatusInternalServerError
	}
	return &Problem{
		Type: "urn:signalbox:problem:" + string(e.Code), Title: http.StatusText(status), Status: status,
		Detail: secrets().String(e.Message), Code: e.Code, Fields: shownFields(e.Fields),
	}
}

// WithStatus is the problem under another status of the same code: 400 for what
// cannot be parsed, 405 for a method and 415 for a media type that are not
// taken, 429 for what is asked for too often.
func (p *Problem) WithStatus(status int) *Problem {
	p.Status, p.Title = status, http.StatusText(status)
	return p
}

// Error gives the detail.
func (p *Problem) Error() string { return p.Detail }

// GetStatus tells huma the status.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders tells huma the headers.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if retried(p.Status) {
		h.Set("Retry-After", strconv.Itoa(RetryAfter))
	}
	return h
}

// retried reports whether an answer of a status says when to try again.
func retried(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
}

// ContentType tells huma the media type.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// problem is Told for an operation of the API.
func (a *API) problem(ctx context.Context, operation string, err error) *Problem {
	return Told(ctx, a.log, operation, err)
}

// Told gives what is shown of an operation's error, and logs what is not under
// the id that is shown.
func Told(ctx context.Context, log *slog.Logger, operation string, err error) *Problem {
	p := NewProblem(err)
	if p.Code == coord.Internal {
		// A client that went away is no fault of ours, and nobody reads this.
		if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
			return NewProblem(coord.Errorf(coord.Unavailable, "the request ended before its answer was ready: ask again"))
		}
		p.ErrorID = "err_" + rand.Text()
		log.LogAttrs(context.WithoutCancel(ctx), slog.LevelError, "an operation failed",
			slog.String("error_id", p.ErrorID), slog.String("operation", operation), slog.Any("err", err), slog.Any("cause", errors.Unwrap(err)))
	}
	return p
}

// useProblems replaces huma's error, which is a global of that package. Its
// own would echo the value that was refused, which may be a secret or huge.
var useProblems = sync.OnceFunc(func() {
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return refusal(nil, status, message, errs)
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		return refusal(ctx.Operation(), status, message, errs)
	}
	huma.DefaultArrayNullable = false
	// "Agent" is not "agent": what is unknown is refused.
	huma.ValidateStrictCasing = true
})

// refusal is what huma itself refuses: input that does not have the shape, of an
// operation where that is known.
func refusal(of *huma.Operation, status int, message string, errs []error) *Problem {
	switch status {
	case http.StatusRequestEntityTooLarge:
		return NewProblem(coord.Errorf(coord.Limit, "the request body is larger than %d bytes: send less", coord.MaxBody))
	case http.StatusRequestTimeout:
		return NewProblem(coord.Errorf(coord.Unavailable, "the request body did not arrive in time: send it again"))
	case http.StatusUnsupportedMediaType:
		return NewProblem(coord.Errorf(coord.Invalid, "the request body is not JSON: send it as application/json")).WithStatus(http.StatusUnsupportedMediaType)
	}
	if len(errs) == 0 {
		return NewProblem(coord.Errorf(coord.Invalid, "the request cannot be read: %s", message)).WithStatus(http.StatusBadRequest)
	}
	var fields []coord.Field
	seen := map[string]bool{}
	for _, err := range errs {
		f := fieldOf(err)
		if !seen[f.Pointer] {
			seen[f.Pointer] = true
			fields = append(fields, f)
		}
	}
	// huma walks maps; people and tests want one order.
	slices.SortStableFunc(fields, func(a, b coord.Field) int { return strings.Compare(a.Pointer, b.Pointer) })
	p := NewProblem(coord.InvalidFields(heading(of, fields), fields))
	if status == http.StatusBadRequest {
		p = p.WithStatus(status)
		p.Detail = "the request body is not valid JSON"
	}
	return p
}

// heading says what the faults are of. Whoever wrote a plan knows of no request,
// so where all of them are in a plan it names that.
func heading(of *huma.Operation, faults []coord.Field) string {
	elsewhere := func(f coord.Field) bool {
		return strings.HasPrefix(f.Pointer, "/header/") || strings.HasPrefix(f.Pointer, "/query/") || strings.HasPrefix(f.Pointer, "/path/")
	}
	if takesPlan(of) && !slices.ContainsFunc(faults, elsewhere) {
		return "the plan cannot be used"
	}
	return "the request does not have the right shape"
}

// takesPlan reports whether the body of an operation is a plan.
func takesPlan(o *huma.Operation) bool {
	if o == nil || o.RequestBody == nil {
		return false
	}
	body := o.RequestBody.Content["application/json"]
	return body != nil && body.Schema != nil && body.Schema.Ref == "#/components/schemas/Plan"
}

// fault is a field as an error, for the checks that run beside huma's.
type fault coord.Field

func (f fault) Error() string { return f.Pointer + ": " + f.Message }

// fieldOf turns huma's place ("body.tasks[0].agent") into a pointer
// ("/tasks/0/agent") and keeps its message, never its value.
func fieldOf(err error) coord.Field {
	var f fault
	if errors.As(err, &f) {
		return coord.Field(f)
	}
	var d huma.ErrorDetailer
	if !errors.As(err, &d) {
		return coord.Field{Message: "it cannot be read"}
	}
	detail := d.ErrorDetail()
	f = fault{Pointer: pointer(detail.Location), Message: detail.Message}
	if rest, ok := strings.CutPrefix(f.Message, "expected required property "); ok {
		name, _, _ := strings.Cut(rest, " ")
		f.Pointer, f.Message = f.Pointer+"/"+escape(name), "required"
	}
	switch {
	case f.Message == "unexpected property":
		f.Message = "there is no such member"
	case strings.HasPrefix(f.Message, "json: "), strings.HasPrefix(f.Message, "invalid character"):
		f.Message = "not valid JSON of the expected shape"
	}
	return coord.Field(f)
}

func pointer(location string) string {
	location = strings.TrimPrefix(strings.TrimPrefix(location, "body"), ".")
	// A secret with dots would be cut into parts that look like none.
	if location == "" || secrets().String(location) != location {
		return ""
	}
	var b strings.Builder
	for part := range strings.FieldsFuncSeq(location, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		b.WriteString("/" + escape(part))
	}
	return b.String()
}

// escape writes a name as a part of a JSON pointer (RFC 6901). A name that
// came from outside is cut: it may be as long as the body.
func escape(name string) string {
	if len(name) > coord.MaxTitle {
		name = name[:coord.MaxTitle]
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(strings.ToValidUTF8(name, ""))
}
