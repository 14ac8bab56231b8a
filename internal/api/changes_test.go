package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/api"
	"signalbox/internal/approval"
	"signalbox/internal/certification"
	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/provider"
	"signalbox/internal/provider/providertest"
	"signalbox/internal/workspace"
)

// writing is a world in which agents wait until their change is staged.
func writing(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, func(work provider.Work) providertest.Script {
		return providertest.Script{Steps: []providertest.Step{
			{Do: providertest.Accept}, {Do: providertest.Hold, Name: string(work.Attempt)},
			{Do: providertest.Say, Text: "done"}, {Do: providertest.End, State: coord.AttemptCompleted},
		}}
	})
	w.addAgent("a")
	return w
}

// changed has an agent write files over those of a new folder, and gives the
// change set and the folder.
func (w *world) changed(before, after map[string]string) (coord.ChangeSet, string) {
	w.t.Helper()
	dir, err := filepath.EvalSymlinks(w.t.TempDir())
	if err != nil {
		w.t.Fatal(err)
	}
	for name, content := range before {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	base, _, err := workspace.Identify(dir)
	if err != nil {
		w.t.Fatal(err)
	}
	root, err := workspace.Open(base)
	if err != nil {
		w.t.Fatal(err)
	}
	defer root.Close()
	staged, err := workspace.NewOverlay(w.t.Context(), root, w.contents, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for name, content := range after {
		if _, err := staged.Write(w.t.Context(), name, []byte(content)); err != nil {
			w.t.Fatal(err)
		}
	}
	job := data[coord.Job](w.ask(operator, http.MethodPost, "/api/jobs", onePlan).want(http.StatusCreated))
	path := fmt.Sprintf("/api/jobs/%d", job.Number)
	job = data[coord.Job](w.ask(operator, http.MethodPost, path+"/freeze", "").want(http.StatusOK))
	w.ask(operator, http.MethodPost, path+"/run", `{"digest":"`+job.Frozen.Digest+`"}`).want(http.StatusOK)
	attempts := await(w, path+"/attempts", func(all []coord.Attempt) bool { return len(all) == 1 && all[0].Receipt != nil })
	err = w.journal.Update(w.t.Context(), func(tx *journal.Tx) error {
		return tx.Stage(coord.ChangeSet{Attempt: attempts[0].ID, Base: base, Files: staged.Changes()})
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.fake.Release(string(attempts[0].ID))
	sets := await(w, "/api/change-sets?pending=true", func(all []coord.ChangeSet) bool { return len(all) > 0 && all[len(all)-1].Job == job.ID })
	return sets[len(sets)-1], dir
}

func reviewOf(decision coord.ChangeSetEvent, digest string, only ...string) string {
	b, err := json.Marshal(approval.Review{Decision: decision, Digest: digest, Only: only})
	if err != nil {
		panic(err) // there is nothing in it that cannot be written
	}
	return string(b)
}

// content gives what a file holds, "" when there is none.
func content(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}

func TestAReviewLetsExactlyWhatWasApprovedLand(t *testing.T) {
	for name, c := range map[string]struct {
		decision coord.ChangeSetEvent
		only     []string
		state    coord.ChangeSetState
		old, new string
	}{
		"approved whole":       {coord.ChangeSetApprove, nil, coord.ChangeSetLanded, "after\n", "new\n"},
		"only one file":        {coord.ChangeSetApprove, []string{"new"}, coord.ChangeSetLanded, "before\n", "new\n"},
		"every file by name":   {coord.ChangeSetApprove, []string{"new", "old"}, coord.ChangeSetLanded, "after\n", "new\n"},
		"discarded":            {coord.ChangeSetDiscard, nil, coord.ChangeSetDiscarded, "before\n", ""},
		"one file named twice": {coord.ChangeSetApprove, []string{"old", "old"}, coord.ChangeSetLanded, "after\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := writing(t)
			set, dir := w.changed(map[string]string{"old": "before\n"}, map[string]string{"old": "after\n", "new": "new\n"})
			path := fmt.Sprintf("/api/change-sets/c%d", set.Number)
			body := reviewOf(c.decision, set.Digest, c.only...)
			got := data[coord.ChangeSet](w.ask(operator, http.MethodPost, path+"/review", body, "Idempotency-Key", "k").want(http.StatusOK))
			if got.Decided == nil || got.Decided.By.Credential != operator.Credential {
				t.Errorf("decided %+v", got.Decided)
			}
			got = await(w, path, func(s coord.ChangeSet) bool { return coord.ChangeSets.Final(s.State) })
			if got.State != c.state {
				t.Errorf("it is %s, want %s: %+v", got.State, c.state, got.Steps)
			}
			if a, b := content(t, dir, "old"), content(t, dir, "new"); a != c.old || b != c.new {
				t.Errorf("the folder has %q and %q, want %q and %q", a, b, c.old, c.new)
			}
			// The first decision stands; its key gives its answer again.
			again := w.ask(operator, http.MethodPost, path+"/review", body, "Idempotency-Key", "k").want(http.StatusOK)
			if again.header.Get("Idempotency-Replayed") != "true" {
				t.Error("the second answer is no replay")
			}
			for _, other := range []coord.ChangeSetEvent{coord.ChangeSetApprove, coord.ChangeSetDiscard} {
				w.ask(operator, http.MethodPost, path+"/review", reviewOf(other, set.Digest)).want(http.StatusConflict).problem(coord.Conflict)
			}
			if left := data[[]coord.ChangeSet](w.ask(operator, http.MethodGet, "/api/change-sets?pending=true", "")); len(left) != 0 {
				t.Errorf("still pending: %+v", left)
			}
		})
	}
}

func TestAReviewIsRefusedAndChangesNothing(t *testing.T) {
	w := writing(t)
	set, dir := w.changed(map[string]string{"old": "before\n"}, map[string]string{"old": "after\n"})
	path := fmt.Sprintf("/api/change-sets/c%d", set.Number)
	head := w.journal.Head()
	for name, c := range map[string]struct {
		path, body string
		status     int
		code       coord.Code
	}{
		"a stale digest":             {path, reviewOf(coord.ChangeSetApprove, strings.Repeat("0", 64)), 412, coord.Stale},
		"no digest":                  {path, reviewOf(coord.ChangeSetApprove, ""), 422, coord.Invalid},
		"a file that is not in it":   {path, reviewOf(coord.ChangeSetApprove, set.Digest, "other"), 422, coord.Invalid},
		"files with a discard":       {path, reviewOf(coord.ChangeSetDiscard, set.Digest, "old"), 422, coord.Invalid},
		"what only Signalbox says":   {path, reviewOf(coord.ChangeSetOutdate, set.Digest), 422, coord.Invalid},
		"a landing":                  {path, reviewOf(coord.ChangeSetLand, set.Digest), 422, coord.Invalid},
		"a reason that is too long":  {path, `{"decision":"discard","digest":"` + set.Digest + `","reason":"` + strings.Repeat("x", coord.MaxReason+1) + `"}`, 422, coord.Invalid},
		"a member that is not known": {path, `{"decision":"discard","digest":"` + set.Digest + `","force":true}`, 422, coord.Invalid},
		"no such change set":         {"/api/change-sets/c99", reviewOf(coord.ChangeSetApprove, set.Digest), 404, coord.NotFound},
		"no name of a change set":    {"/api/change-sets/99", reviewOf(coord.ChangeSetApprove, set.Digest), 422, coord.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.ask(operator, http.MethodPost, c.path+"/review", c.body)
			r.t = t
			r.want(c.status).problem(c.code)
		})
	}
	if w.journal.Head() != head || content(t, dir, "old") != "before\n" {
		t.Error("a refused review changed something")
	}
}

func TestAChangeSetIsShownExactlyAndToOperatorsAlone(t *testing.T) {
	w := writing(t)
	const secret = "AKIAIOSFODNN7EXAMPLE"
	set, _ := w.changed(map[string]string{"old": "before\n"}, map[string]string{"old": secret + "\n"})
	path := fmt.Sprintf("/api/change-sets/c%d", set.Number)
	for _, role := range []coord.Role{coord.RoleDraft, coord.RoleRead} {
		w.ask(as(role), http.MethodGet, path+"/diff", "").want(http.StatusForbidden).problem(coord.Forbidden)
		r := w.ask(as(role), http.MethodGet, path, "").want(http.StatusOK)
		if got := data[coord.ChangeSet](r); got.Digest != set.Digest || strings.Contains(r.body, secret) {
			t.Errorf("role %s gets %s", role, r.body)
		}
	}
	d := data[approval.Display](w.ask(operator, http.MethodGet, "/api/change-sets/"+string(set.ID)+"/diff", "").want(http.StatusOK))
	if len(d.Files) != 1 || !strings.Contains(d.Files[0].Text, "-before\n+"+secret+"\n") || d.ChangeSet.Digest != set.Digest {
		t.Errorf("displayed %+v", d)
	}
	inbox := data[api.Inbox](w.ask(operator, http.MethodGet, "/api/inbox", "").want(http.StatusOK))
	if len(inbox.ChangeSets) != 1 || inbox.ChangeSets[0].ID != set.ID {
		t.Errorf("in the inbox: %+v", inbox.ChangeSets)
	}
}

func TestACommentDecidesNothing(t *testing.T) {
	w := writing(t)
	set, _ := w.changed(nil, map[string]string{"new": "x"})
	path := fmt.Sprintf("/api/change-sets/c%d", set.Number)
	got := data[coord.ChangeSet](w.ask(operator, http.MethodPost, path+"/comment", `{"text":"Why?"}`).want(http.StatusOK))
	if got.Comment != "Why?" || got.State != coord.ChangeSetOpen || got.Decided != nil || got.Digest != set.Digest {
		t.Errorf("after the comment: %+v", got)
	}
	w.ask(operator, http.MethodPost, path+"/comment", `{"text":"`+strings.Repeat("x", coord.MaxReason+1)+`"}`).want(http.StatusUnprocessableEntity)
	w.ask(operator, http.MethodPost, path+"/comment", `{}`).want(http.StatusUnprocessableEntity)
	w.ask(as(coord.RoleDraft), http.MethodPost, path+"/comment", `{"text":"x"}`).want(http.StatusForbidden)
	w.ask(operator, http.MethodPost, path+"/review", reviewOf(coord.ChangeSetDiscard, set.Digest)).want(http.StatusOK)
}

func TestChangeSetsArePaged(t *testing.T) {
	w := writing(t)
	for n := range 3 {
		w.changed(nil, map[string]string{fmt.Sprint("new", n): "x"})
	}
	var numbers []int64
	path := "/api/change-sets?limit=2"
	for range 3 {
		var page api.Page[coord.ChangeSet]
		if err := json.Unmarshal([]byte(w.ask(as(coord.RoleRead), http.MethodGet, path, "").want(http.StatusOK).body), &page); err != nil {
			t.Fatal(err)
		}
		for _, c := range page.Data {
			numbers = append(numbers, c.Number)
		}
		if page.Next == 0 {
			break
		}
		path = fmt.Sprintf("/api/change-sets?limit=2&before=%d", page.Next)
	}
	if diff := cmp.Diff([]int64{3, 2, 1}, numbers); diff != "" {
		t.Error(diff)
	}
}

func TestAJobIsDraftedOnceMoreWithWhatIsToBeDoneDifferently(t *testing.T) {
	w := writing(t)
	w.changed(nil, map[string]string{"new": "x"})
	await(w, "/api/jobs/1", func(j coord.Job) bool { return j.State == coord.JobCompleted })
	for _, c := range []struct {
		who        coord.Actor
		path, body string
		status     int
	}{
		{as(coord.RoleRead), "/api/jobs/1", `{"message":"shorter"}`, http.StatusForbidden},
		{operator, "/api/jobs/1", `{"message":" \n"}`, http.StatusUnprocessableEntity},
		{operator, "/api/jobs/1", `{}`, http.StatusUnprocessableEntity},
		{operator, "/api/jobs/9", `{"message":"shorter"}`, http.StatusNotFound},
	} {
		w.ask(c.who, http.MethodPost, c.path+"/again", c.body).want(c.status)
	}
	again := w.ask(as(coord.RoleDraft), http.MethodPost, "/api/jobs/1/again", `{"message":"shorter"}`, "Idempotency-Key", "k").want(http.StatusCreated)
	job := data[coord.Job](again)
	if job.From == nil || job.From.How != "again" || !strings.HasSuffix(job.Plan.Tasks[0].Instruction, "\n\nshorter") || again.header.Get("ETag") != `"1"` {
		t.Errorf("drafted %+v", job)
	}
	replay := w.ask(as(coord.RoleDraft), http.MethodPost, "/api/jobs/1/again", `{"message":"shorter"}`, "Idempotency-Key", "k").want(http.StatusCreated)
	if data[coord.Job](replay).ID != job.ID {
		t.Error("the key made a second job")
	}
	w.ask(operator, http.MethodPost, fmt.Sprintf("/api/jobs/%d/again", job.Number), `{"message":"shorter"}`).want(http.StatusConflict).problem(coord.Conflict)
}

func TestCertificatesAreMadeByTheOperatorAndSeenByAll(t *testing.T) {
	w := newWorld(t, nil)
	if list := data[[]certification.Standing](w.ask(as(coord.RoleRead), http.MethodGet, "/api/certificates", "").want(http.StatusOK)); len(list) != 0 {
		t.Errorf("there are %+v", list)
	}
	for _, role := range []coord.Role{coord.RoleDraft, coord.RoleRead} {
		w.ask(as(role), http.MethodPost, "/api/certificates", "").want(http.StatusForbidden).problem(coord.Forbidden)
	}
	made := w.ask(operator, http.MethodPost, "/api/certificates", "", "Idempotency-Key", "k").want(http.StatusCreated)
	again := w.ask(operator, http.MethodPost, "/api/certificates", "", "Idempotency-Key", "k").want(http.StatusCreated)
	if again.header.Get("Idempotency-Replayed") != "true" || made.body != again.body {
		t.Errorf("the key gave\n%s\nand then\n%s", made.body, again.body)
	}
	one := data[[]certification.Standing](made)
	if len(one) != 1 || one[0].Void != "" || len(one[0].Certificate.Probes) == 0 {
		t.Fatalf("made %s", made.body)
	}
	if list := data[[]certification.Standing](w.ask(as(coord.RoleRead), http.MethodGet, "/api/certificates", "").want(http.StatusOK)); len(list) != 1 || list[0].Certificate.ID != one[0].Certificate.ID {
		t.Errorf("listed %+v", list)
	}
}
