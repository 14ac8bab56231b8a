package api_test

import (
	"net/http"
	"testing"

	"signalbox/internal/coord"
)

// Schemathesis found this one: it was an internal error.
func TestAPlanWithANumberBeyondGoIsInvalid(t *testing.T) {
	w := newWorld(t, nil)
	w.addAgent("a")
	const plan = `{"limits":{"tokens":1e40},"tasks":[{"agent":"a","instruction":"x"}]}`
	w.ask(operator, http.MethodPost, "/api/jobs", onePlan).want(http.StatusCreated)
	w.ask(operator, http.MethodPost, "/api/jobs", plan).want(http.StatusUnprocessableEntity).problem(coord.Invalid)
	w.ask(operator, http.MethodPost, "/api/plans/validate", plan).want(http.StatusUnprocessableEntity).problem(coord.Invalid)
	w.ask(operator, http.MethodPost, "/api/jobs/1/continue", plan).want(http.StatusUnprocessableEntity).problem(coord.Invalid)
}
