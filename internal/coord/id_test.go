package coord_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
)

const someULID = "01J9ZQ8M4T6V0XKQ3YB7N5C2DE"

func TestReferencesAreReadInEveryForm(t *testing.T) {
	job := coord.JobRef{Number: 12}
	byID := coord.JobRef{ID: "job_" + someULID}
	fix := coord.TaskRef{Job: job, Key: "fix"}
	cases := []struct {
		in   string
		read func(string) (any, error)
		want any
	}{
		{"12", asAny(coord.ParseJobRef), job},
		{"job_" + someULID, asAny(coord.ParseJobRef), byID},
		{"12/fix", asAny(coord.ParseTaskRef), fix},
		{"job_" + someULID + "/fix", asAny(coord.ParseTaskRef), coord.TaskRef{Job: byID, Key: "fix"}},
		{"tsk_" + someULID, asAny(coord.ParseTaskRef), coord.TaskRef{ID: "tsk_" + someULID}},
		{"12/fix", asAny(coord.ParseAttemptRef), coord.AttemptRef{Task: fix}},
		{"12/fix/2", asAny(coord.ParseAttemptRef), coord.AttemptRef{Task: fix, Number: 2}},
		{"att_" + someULID, asAny(coord.ParseAttemptRef), coord.AttemptRef{ID: "att_" + someULID}},
		{"tsk_" + someULID + "/1", asAny(coord.ParseAttemptRef), coord.AttemptRef{Task: coord.TaskRef{ID: "tsk_" + someULID}, Number: 1}},
		{"r7", asAny(coord.ParseRequestRef), coord.RequestRef{Number: 7}},
		{"req_" + someULID, asAny(coord.ParseRequestRef), coord.RequestRef{ID: "req_" + someULID}},
	}
	for _, c := range cases {
		got, err := c.read(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
		} else if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.in, diff)
		}
	}
}

func TestWhatIsNoReferenceIsInvalidAndNotRepeatedWhenLong(t *testing.T) {
	long := strings.Repeat("x", 500)
	cases := map[string]func(string) (any, error){
		"job":     asAny(coord.ParseJobRef),
		"task":    asAny(coord.ParseTaskRef),
		"attempt": asAny(coord.ParseAttemptRef),
		"request": asAny(coord.ParseRequestRef),
	}
	inputs := []string{
		"", "0", "-1", "+1", "007", "1.5", "job_", "job_" + strings.ToLower(someULID), "job_8" + someULID[1:], "job_" + someULID + "X",
		"/", "12/", "/fix", "12/Fix", "12/fix/", "12/fix/0", "12/fix/4", "12/fix/1/1", "r", "r0", "R7", "r-7", "9223372036854775808", "12 ", "\x00", long,
	}
	for name, read := range cases {
		for _, in := range inputs {
			got, err := read(in)
			if coord.CodeOf(err) != coord.Invalid {
				t.Errorf("%s %q gave %v, %v; want invalid", name, in, got, err)
			} else if len(err.Error()) > 300 {
				t.Errorf("%s: the error repeats a long input", name)
			}
		}
	}
}

func asAny[T any](read func(string) (T, error)) func(string) (any, error) {
	return func(s string) (any, error) { return read(s) }
}

// FuzzReferences holds every parser to this: what it accepts names something,
// in one way only.
func FuzzReferences(f *testing.F) {
	for _, s := range []string{"12", "12/fix", "12/fix/1", "r7", "job_" + someULID, "tsk_" + someULID + "/1", "att_" + someULID, "req_" + someULID, "", "/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if j, err := coord.ParseJobRef(s); err == nil && (j.Number > 0) == (j.ID != "") {
			t.Errorf("job %q gave %+v", s, j)
		}
		if k, err := coord.ParseTaskRef(s); err == nil && (k.Key != "") == (k.ID != "") {
			t.Errorf("task %q gave %+v", s, k)
		}
		if a, err := coord.ParseAttemptRef(s); err == nil {
			if (a.ID != "") == (a.Task != coord.TaskRef{}) || a.Number < 0 || a.Number > coord.MaxAttempts {
				t.Errorf("attempt %q gave %+v", s, a)
			}
		}
		if r, err := coord.ParseRequestRef(s); err == nil && (r.Number > 0) == (r.ID != "") {
			t.Errorf("request %q gave %+v", s, r)
		}
	})
}
