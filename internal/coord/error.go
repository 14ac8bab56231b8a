package coord

import (
	"errors"
	"fmt"
	"strings"
)

// Code classifies an error for every door: HTTP status, exit code and the
// machine-readable member of a problem document all derive from it.
type Code string

// The closed list of codes. A door that lacks one of them fails its tests.
const (
	// Invalid: the input is wrong; Fields says where.
	Invalid Code = "invalid"
	// Unauthenticated: no credential, or one that is not known.
	Unauthenticated Code = "unauthenticated"
	// Forbidden: the credential's role does not allow this.
	Forbidden Code = "forbidden"
	// NotFound: no such thing.
	NotFound Code = "not_found"
	// Conflict: the thing is in a state that does not allow this, or an
	// idempotency key was used for other content.
	Conflict Code = "conflict"
	// Stale: what the caller looked at has changed (revision, digest,
	// identity, certificate).
	Stale Code = "stale"
	// Limit: a bound of this package was exceeded.
	Limit Code = "limit"
	// Unavailable: not now; trying again later is safe.
	Unavailable Code = "unavailable"
	// Unsupported: the agent or the platform cannot do it.
	Unsupported Code = "unsupported"
	// Internal: a fault of Signalbox. Its text is logged, never shown.
	Internal Code = "internal"
)

// Codes lists every code, in the order of the documentation.
var Codes = []Code{Invalid, Unauthenticated, Forbidden, NotFound, Conflict, Stale, Limit, Unavailable, Unsupported, Internal}

// Field is one fault of an input: where it is and what is wrong there. It
// never repeats the value, which may be a secret or huge.
type Field struct {
	// Pointer is an RFC 6901 JSON pointer into the input, "" for the whole.
	Pointer string `json:"pointer"`
	Message string `json:"message"`
}

// Error is the one error type that crosses package borders with meaning. An
// error of any other type is internal.
type Error struct {
	Code Code
	// Message is one sentence for a person: what is wrong and what to do.
	Message string
	// Fields holds every fault of an input at once.
	Fields []Field
	// Err is the cause, for the log only; doors never show it.
	Err error
}

// Errorf makes an Error. A %w verb records the cause, whose text becomes part
// of the message: wrap only errors whose text may be shown.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err)}
}

// InvalidFields makes an Invalid error from faults, nil from none.
func InvalidFields(message string, fields []Field) error {
	if len(fields) == 0 {
		return nil
	}
	return &Error{Code: Invalid, Message: message, Fields: fields}
}

// Error gives the message and every field.
func (e *Error) Error() string {
	if len(e.Fields) == 0 {
		return e.Message
	}
	var b strings.Builder
	b.WriteString(e.Message)
	for _, f := range e.Fields {
		fmt.Fprintf(&b, "; %s: %s", f.Pointer, f.Message)
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an Error with the same code, so that
// errors.Is(err, &Error{Code: NotFound}) asks for the kind.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && (t.Message == "" || t.Message == e.Message)
}

// CodeOf gives the code of err: that of the first Error in its chain, Internal
// for any other error, "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}
