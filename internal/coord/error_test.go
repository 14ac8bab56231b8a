package coord_test

import (
	"errors"
	"fmt"
	"testing"

	"signalbox/internal/coord"
)

func TestErrorsKeepTheirCodeThroughWrapping(t *testing.T) {
	cause := errors.New("disk")
	err := fmt.Errorf("doing: %w", coord.Errorf(coord.Unavailable, "not now: %w", cause))
	if got := coord.CodeOf(err); got != coord.Unavailable {
		t.Errorf("code %q", got)
	}
	if !errors.Is(err, &coord.Error{Code: coord.Unavailable}) || errors.Is(err, &coord.Error{Code: coord.Stale}) {
		t.Error("Is does not compare codes")
	}
	if !errors.Is(err, cause) {
		t.Error("the cause is lost")
	}
	if coord.CodeOf(nil) != "" || coord.CodeOf(cause) != coord.Internal {
		t.Error("nil or an untyped error has a wrong code")
	}
}

func TestNoFaultsMakeNoError(t *testing.T) {
	if err := coord.InvalidFields("x", nil); err != nil {
		t.Errorf("no faults gave %v", err)
	}
	err := coord.InvalidFields("the plan has faults", []coord.Field{{Pointer: "/a", Message: "required"}, {Pointer: "/b", Message: "unknown"}})
	if want := "the plan has faults; /a: required; /b: unknown"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}
