package e2e

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// TestEveryChangeIsAnsweredAgainUnderItsKey sends a good request of each
// operation that changes something twice under one key.
func TestEveryChangeIsAnsweredAgainUnderItsKey(t *testing.T) {
	w := newWorld(t)
	good, tried := w.inhabit(), 0
	for _, o := range w.operations() {
		if o.method == http.MethodGet || slices.Contains([]string{"stop", "validate-plan", "import-registry"}, o.id) {
			continue
		}
		if len(good[o.id]) == 0 {
			t.Errorf("%s: there is no good request", o.id)
			continue
		}
		g, body := good[o.id][0], ""
		path := o.path
		for name, value := range g.Path {
			path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
		}
		headers := []string{"Idempotency-Key", "the key"}
		for name, value := range g.Headers {
			headers = append(headers, name, value)
		}
		if g.Body != nil {
			body = mustJSON(t, g.Body)
		}
		status, first := w.do(o.method, path, body, headers...)
		if status >= http.StatusMultipleChoices {
			t.Errorf("%s: %d %s", o.id, status, first)
			continue
		}
		tried++
		if again, second := w.do(o.method, path, body, headers...); again != status || stripToken(first) != stripToken(second) {
			t.Errorf("%s again: %d\n%s\nfirst: %d\n%s", o.id, again, second, status, first)
		}
		// A key belongs to an operation and a content: to what is named, too.
		if len(g.Path) > 0 {
			if other, answer := w.do(o.method, o.place(), body, headers...); other < 400 || other >= 500 {
				t.Errorf("%s of something else under the same key: %d %s", o.id, other, answer)
			}
		}
	}
	if tried < 20 {
		t.Errorf("only %d operations were tried", tried)
	}
}
