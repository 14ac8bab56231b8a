package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"signalbox/internal/coord"
	"signalbox/internal/redact/redacttest"
)

func TestPointersShowPlainNamesOnly(t *testing.T) {
	for pointer, want := range map[string]string{
		"": "", "/": "", "/tasks/0/agent": "/tasks/0/agent", "/env/HTTP_PROXY": "/env/HTTP_PROXY", "/query/kinds/1": "/query/kinds/1",
		"/env/two words/x": "/env", "/env/a~1b": "/env", "/" + strings.Repeat("x", 129): "", "/tasks//0": "/tasks",
	} {
		if got := shownPointer(pointer); got != want {
			t.Errorf("%q is shown as %q, want %q", pointer, got, want)
		}
	}
}

func TestProblemsShowNoSecret(t *testing.T) {
	for _, c := range redacttest.Canaries() {
		if strings.Contains(c.Secret, "-----") {
			continue // of several lines, which no name has
		}
		escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(c.Context)
		for name, p := range map[string]*Problem{
			"a message":       NewProblem(coord.Errorf(coord.Invalid, "no: %s", c.Context)),
			"a field":         NewProblem(coord.InvalidFields("no", []coord.Field{{Pointer: "/x", Message: c.Context}})),
			"a pointer":       NewProblem(coord.InvalidFields("no", []coord.Field{{Pointer: "/env/" + escaped, Message: "no"}})),
			"a place of huma": refusal(nil, http.StatusUnprocessableEntity, "no", []error{&huma.ErrorDetail{Location: "body." + c.Context, Message: "unexpected property"}}),
		} {
			shown := p.Detail
			for _, f := range p.Fields {
				shown += "\n" + f.Pointer + "\n" + f.Message
			}
			if strings.Contains(shown, c.Secret) || len(p.Fields) == 0 && name != "a message" {
				t.Errorf("%s shows a %s: %s", name, c.Kind, shown)
			}
		}
	}
}
