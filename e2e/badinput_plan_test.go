package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/api"
	"signalbox/internal/coord"
)

// A plan file goes through the command line; the same bytes go to the API as
// they are, for whoever sends them without the command line.
func TestAPlanThatCannotBeUsedIsToldWithItsPlaceAndMakesNothing(t *testing.T) {
	w := newWorld(t)
	w.scripted("echo", "echo")
	tasks := func(n int) string {
		one := `{"key":"t%d","agent":"echo","instruction":"x"}`
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(one, i))
		}
		return `{"tasks":[` + strings.Join(all, ",") + `]}`
	}
	cases := []struct {
		name, file, doc string
		code, status    int
		told            []string // on the command line
	}{
		{"huge", "plan.json", `{"tasks":[{"agent":"echo","instruction":"` + strings.Repeat("x", coord.MaxBody) + `"}]}`, 6, 413, []string{"plan.json", fmt.Sprint(coord.MaxBody)}},
		{"with a huge instruction", "plan.json", `{"tasks":[{"agent":"echo","instruction":"` + strings.Repeat("x", coord.MaxInstruction+1) + `"}]}`, 2, 422, []string{"/tasks/0/instruction"}},
		{"of too many tasks", "plan.json", tasks(coord.MaxTasks + 1), 2, 422, []string{"/tasks"}},
		{"deep", "plan.json", strings.Repeat(`{"tasks":[`, 100_000), 2, 400, []string{"deep"}},
		{"deep in a member that is none", "plan.json", `{"x":` + strings.Repeat(`[`, 100_000) + strings.Repeat(`]`, 100_000) + `}`, 2, 400, []string{"deep"}},
		{"deep in TOML", "plan.toml", "x = " + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), 2, 0, []string{"line 1"}},
		{"cyclic", "plan.json", `{"tasks":[{"key":"a","agent":"echo","instruction":"x","needs":["c"]},{"key":"b","agent":"echo","instruction":"x","needs":["a"]},{"key":"c","agent":"echo","instruction":"x","needs":["b"]}]}`, 2, 422, []string{"needs", "circle"}},
		{"that needs itself", "plan.json", `{"tasks":[{"key":"a","agent":"echo","instruction":"x","needs":["a"]}]}`, 2, 422, []string{"/tasks/0/needs/0"}},
		{"with a key twice", "plan.json", `{"tasks":[{"key":"a","agent":"echo","instruction":"x"},{"key":"a","agent":"echo","instruction":"x"}]}`, 2, 422, []string{"/tasks/1/key"}},
		{"with a member twice", "plan.json", `{"title":"a","title":"b","tasks":[{"agent":"echo","instruction":"x"}]}`, 2, 0, []string{"/title", "twice"}},
		{"with a need twice", "plan.json", `{"tasks":[{"key":"a","agent":"echo","instruction":"x"},{"key":"b","agent":"echo","instruction":"x","needs":["a","a"]}]}`, 2, 422, []string{"/tasks/1/needs/1"}},
		{"dangling", "plan.json", `{"tasks":[{"key":"a","agent":"nobody","instruction":"x","needs":["zzz"]}]}`, 2, 422, []string{"/tasks/0/agent", "/tasks/0/needs/0"}},
		{"wrongly typed", "plan.json", `{"title":7,"deadline":45,"tasks":[{"agent":["echo"],"instruction":{"x":1},"needs":"a"},null,3]}`, 2, 422, []string{"/title", "/deadline", "/tasks/0/agent", "/tasks/0/instruction", "/tasks/0/needs", "/tasks/1", "/tasks/2"}},
		{"that is a list", "plan.json", `[]`, 2, 422, []string{"object"}},
		{"that is null", "plan.json", `null`, 2, 422, nil},
		{"without a task", "plan.json", `{}`, 2, 422, []string{"/tasks"}},
		{"empty", "plan.json", ``, 2, 400, []string{"line 1"}},
		{"with an unknown member", "plan.json", `{"tasks":[{"agnet":"echo","instruction":"x"}]}`, 2, 422, []string{"/tasks/0/agnet"}},
		{"not UTF-8", "plan.json", "{\"tasks\":[\n{\"agent\":\"echo\",\"instruction\":\"\xff\xfe\"}]}", 2, 400, []string{"UTF-8", "line 2, column 32"}},
		{"not UTF-8 in TOML", "plan.toml", "[[tasks]]\nagent = \"echo\"\ninstruction = \"\xc3\x28\"\n", 2, 0, []string{"UTF-8", "line 3, column 16"}},
		{"in UTF-16", "plan.json", "\xff\xfe{\x00}\x00", 2, 400, []string{"UTF-8", "line 1, column 1"}},
		{"with two documents", "plan.json", `{"tasks":[{"agent":"echo","instruction":"x"}]}{}`, 2, 400, []string{"line 1, column 48"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := w.in(t)
			path := filepath.Join(t.TempDir(), c.file)
			if err := os.WriteFile(path, []byte(c.doc), 0o600); err != nil {
				t.Fatal(err)
			}
			code, out, log := w.cli("job", "draft", path)
			if code != c.code || out != "" || len(log) > 16<<10 {
				t.Errorf("job draft exits with %d, want %d: %.2000s%.2000s", code, c.code, out, log)
			}
			for _, text := range c.told {
				if !strings.Contains(strings.Join(strings.Fields(log), " "), text) {
					t.Errorf("it does not tell %q: %.2000s", text, log)
				}
			}
			if c.status == 0 {
				return
			}
			status, body, err := w.try(http.MethodPost, "/api/jobs", c.doc, "Content-Type", "application/json")
			if err != nil || status != c.status || len(body) > 64<<10 {
				t.Errorf("POST /api/jobs gives %d, want %d: %.2000s (%v)", status, c.status, body, err)
			}
		})
	}
	for name, path := range map[string]string{"a folder": t.TempDir(), "a device without end": "/dev/zero"} {
		if code, _, log := w.cli("job", "draft", path); code != 2 && code != 6 || !strings.Contains(log, path) {
			t.Errorf("job draft of %s exits with %d: %s", name, code, log)
		}
	}
	jobs, _, err := w.client.Jobs(w.ctx, 0, 10)
	if err != nil || len(jobs) != 0 {
		t.Errorf("%d jobs were made (%v)", len(jobs), err)
	}
	if s := must[api.Status](w, "status")(w.client.Status(w.ctx)); s.Generation != 1 {
		t.Errorf("the worker is the %dth", s.Generation)
	}
}
