package coord_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
)

var update = flag.Bool("update", false, "write the golden files anew")

// table is a machine without its types, so that all of them are held to the
// same rules.
type table struct {
	name    string
	initial string
	rows    []row
	final   []string
	mermaid string
	next    func(from, on string) (string, error)
}

type row struct {
	from   []string
	on, to string
	why    string
}

func tableOf[S, E ~string](m coord.Machine[S, E]) table {
	t := table{name: m.Name, initial: string(m.Initial), mermaid: m.Mermaid()}
	for _, r := range m.Rows {
		one := row{on: string(r.On), to: string(r.To), why: r.Why}
		for _, f := range r.From {
			one.from = append(one.from, string(f))
		}
		t.rows = append(t.rows, one)
	}
	for _, s := range m.States() {
		if m.Final(s) {
			t.final = append(t.final, string(s))
		}
	}
	t.next = func(from, on string) (string, error) {
		to, err := m.Next(S(from), E(on))
		return string(to), err
	}
	return t
}

func tables() []table {
	return []table{
		tableOf(coord.Jobs), tableOf(coord.Tasks), tableOf(coord.Attempts), tableOf(coord.Cancellations),
		tableOf(coord.Decisions), tableOf(coord.Effects), tableOf(coord.Deliveries), tableOf(coord.ChangeSets),
	}
}

func (t table) states() []string {
	out := []string{t.initial}
	for _, r := range t.rows {
		for _, s := range append(slices.Clone(r.from), r.to) {
			if !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

func TestEveryStateIsReachable(t *testing.T) {
	for _, m := range tables() {
		t.Run(m.name, func(t *testing.T) {
			reached := []string{m.initial}
			for i := 0; i < len(reached); i++ {
				for _, r := range m.rows {
					if slices.Contains(r.from, reached[i]) && !slices.Contains(reached, r.to) {
						reached = append(reached, r.to)
					}
				}
			}
			for _, s := range m.states() {
				if !slices.Contains(reached, s) {
					t.Errorf("state %s cannot be reached from %s", s, m.initial)
				}
			}
		})
	}
}

func TestNoStateHasTwoRowsForOneEvent(t *testing.T) {
	for _, m := range tables() {
		seen := map[string]string{}
		for _, r := range m.rows {
			for _, from := range r.from {
				if to, twice := seen[from+" "+r.on]; twice {
					t.Errorf("%s: %s on %s leads to %s and to %s", m.name, from, r.on, to, r.to)
				}
				seen[from+" "+r.on] = r.to
				if from == r.to {
					t.Errorf("%s: %s on %s stays where it is", m.name, from, r.on)
				}
			}
		}
	}
}

func TestFinalStatesAreThoseOfTheDesign(t *testing.T) {
	want := map[string][]string{
		"job":  {"cancelled", "completed", "failed"},
		"task": {"cancelled", "completed", "failed", "skipped"},
		// unknown is left by reconciliation only, so it is not final.
		"attempt": {"cancelled", "completed", "failed", "not_sent", "rejected"},
		// A later end overtakes or confirms what was unsupported or unknown.
		"cancellation": {"confirmed", "overtaken"},
		"decision":     {"answered", "approved", "denied", "expired", "withdrawn"},
		"effect":       {"applied", "diverged", "failed", "unknown", "void"},
		"delivery":     {"delivered", "undeliverable", "unknown"},
		"change set":   {"discarded", "landed", "partial", "stale"},
	}
	got := map[string][]string{}
	for _, m := range tables() {
		got[m.name] = slices.Sorted(slices.Values(m.final))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("final states differ (-want +got):\n%s", diff)
	}
}

func TestUnlistedMoveIsAConflictThatKeepsTheState(t *testing.T) {
	for _, m := range tables() {
		for _, s := range m.states() {
			for _, on := range append(events(m), "no such event") {
				to, err := m.next(s, on)
				listed := slices.ContainsFunc(m.rows, func(r row) bool { return r.on == on && slices.Contains(r.from, s) })
				if listed != (err == nil) {
					t.Errorf("%s: %s on %s: listed is %t, error is %v", m.name, s, on, listed, err)
				}
				if err != nil && (coord.CodeOf(err) != coord.Conflict || to != s) {
					t.Errorf("%s: %s on %s gave %s, %v; want %s and a conflict", m.name, s, on, to, err, s)
				}
			}
		}
	}
}

func events(m table) []string {
	var out []string
	for _, r := range m.rows {
		out = append(out, r.on)
	}
	return out
}

func TestWorkIsNeverSentAgainFromAnyState(t *testing.T) {
	for _, r := range coord.Attempts.Rows {
		for _, from := range r.From {
			if r.To == coord.AttemptSending && from != coord.AttemptPreparing {
				t.Errorf("%s leads from %s to sending; only what was never sent may be sent", r.On, from)
			}
			if from == coord.AttemptUnknown && (r.To == coord.AttemptQueued || r.To == coord.AttemptPreparing) {
				t.Errorf("%s leads from unknown back to %s", r.On, r.To)
			}
		}
	}
}

// TestStateMachinesDoc keeps docs/state-machines.md as the tables say:
// go test ./internal/coord -run TestStateMachinesDoc -update
func TestStateMachinesDoc(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "state-machines.md")
	want := stateMachines()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run this test with -update", err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/state-machines.md is not what the tables say; run this test with -update (-want +got):\n%s", diff)
	}
}

func stateMachines() string {
	about := map[string]string{
		"job":          "A plan on its way. What a started job does follows from its tasks.",
		"task":         "One task of a started job. What it does follows from its latest attempt, but for what happens before one is made.",
		"attempt":      "One try at a task by one agent. A task has at most one attempt that may have been sent, ever.",
		"cancellation": "The request to stop an attempt, kept beside the attempt's own state. Only the provider's own terminal state confirms it.",
		"decision":     "What the operator decided of a request. The first decision wins.",
		"effect":       "What Signalbox did on the operator's side because of an approval.",
		"delivery":     "Whether the answer to a request reached the agent.",
		"change set":   "What an attempt wrote, as the operator reviews it. It outlives its attempt; its files and their digest never change.",
	}
	var b strings.Builder
	b.WriteString("# State machines\n\n")
	b.WriteString("Generated from the tables in `internal/coord/machine.go`; change those and run\n")
	b.WriteString("`go test ./internal/coord -run TestStateMachinesDoc -update`.\n\n")
	b.WriteString("A move that no table lists is a conflict and changes nothing.\n")
	for _, m := range tables() {
		fmt.Fprintf(&b, "\n## %s%s\n\n%s\n\n", strings.ToUpper(m.name[:1]), m.name[1:], about[m.name])
		fmt.Fprintf(&b, "It begins as `%s` and ends as %s.\n\n", m.initial, code(m.final))
		fmt.Fprintf(&b, "```mermaid\n%s```\n\n", m.mermaid)
		b.WriteString("| From | On | To | Why |\n|---|---|---|---|\n")
		for _, r := range m.rows {
			fmt.Fprintf(&b, "| %s | `%s` | `%s` | %s |\n", code(r.from), r.on, r.to, r.why)
		}
	}
	return b.String()
}

func code(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = "`" + w + "`"
	}
	return strings.Join(out, ", ")
}
