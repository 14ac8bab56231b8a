package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/e2e/peers"
	"signalbox/internal/approval"
	"signalbox/internal/coord"
	"signalbox/internal/modelserver"
)

// hash is the SHA-256 of a text, in hex.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// remove and rename are steps of the model.
func remove(path string) modelserver.Step {
	return modelserver.Step{Calls: []modelserver.Tool{calls("write", map[string]any{"path": path, "delete": true})}}
}

func rename(from, path string) modelserver.Step {
	return modelserver.Step{Calls: []modelserver.Tool{calls("write", map[string]any{"path": path, "from": from})}}
}

// says decides a request with a reason.
func (w *world) says(r coord.Request, on coord.DecisionEvent, reason string) {
	w.t.Helper()
	must[coord.Request](w, "decide")(w.client.Decide(w.ctx, string(r.ID), approval.Decision{Decision: on, Reason: reason, Digest: r.Digest}))
}

// over waits until a request's effect and delivery are over, and gives it.
func (w *world) over(r coord.Request) coord.Request {
	w.t.Helper()
	w.when("the answer to "+r.Content.Title, func() bool {
		r = must[coord.Request](w, "request")(w.client.Request(w.ctx, string(r.ID)))
		return r.Delivery == coord.DeliveryDelivered
	})
	return r
}

// outputs are what the model was answered, in order.
func outputs(m *modelserver.Server) []string {
	var out []string
	requests := m.Requests()
	for _, o := range requests[len(requests)-1].Outputs {
		out = append(out, o.Text)
	}
	return out
}

func TestEachWriteStopsForTheOperatorWhoSeesExactlyWhatItIs(t *testing.T) {
	for _, version := range peers.CodexVersions() {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t)
			// What is never kept cannot be shown exactly, and is not asked for.
			secret := "ghp_" + strings.Repeat("x1Y2", 9)
			dir := repository(t, map[string]string{"log.txt": "one\r\ntwo\r\n", "gone.txt": "old\n", "name.txt": "kept\n", "theirs.txt": "before\n", "run.sh": "#!/bin/sh\n"})
			if err := os.Chmod(filepath.Join(dir, "run.sh"), 0o755); err != nil {
				t.Fatal(err)
			}
			m := w.codex(version, modelserver.Reply{Match: "Tidy", Answer: "Tidied.", Steps: []modelserver.Step{
				write("log.txt", "one\r\n2\r\n"),
				write("log.txt", "one\r\n2\r\n3"),
				write("log.txt", "one\r\n2\r\n3"),
				write("secret/new.txt", "mine\n"),
				write("notes/new.txt", "yours\n"),
				write("theirs.txt", "by the agent\n"),
				read("theirs.txt"),
				remove("gone.txt"),
				rename("name.txt", "new name.txt"),
				write("key.txt", "token "+secret+"\n"),
				write(secret+".txt", "fine\n"),
				write("run.sh", "#!/bin/sh\nexit 0\n"),
			}})
			one := edit("tidy", "codex", dir, "Tidy up.", coord.Write)
			one.Writes = coord.Each
			ref := w.run(plan(one))
			want := files(t, dir)

			// asks expects a request for a change; nothing of it is done yet.
			asks := func(kind coord.ChangeKind, path, before, after, detail string) coord.Request {
				t.Helper()
				r := w.asked(ref, "tidy")
				c := r.Change
				if r.Kind != coord.WriteFile || c == nil || c.Kind != kind || c.Path != path {
					t.Fatalf("asked for %+v, change %+v", r.Content, c)
				}
				for _, side := range []struct{ got, text string }{{c.Before, before}, {c.After, after}} {
					if side.text == "" && side.got != "" || side.text != "" && side.got != hash(side.text) {
						t.Errorf("%s is bound to %s, want that of %q", path, side.got, side.text)
					}
				}
				if diff := cmp.Diff(detail, r.Content.Detail); diff != "" {
					t.Errorf("what is shown of %s: %s", path, diff)
				}
				if got := files(t, dir); !cmp.Equal(got, want) {
					t.Errorf("the files changed before the approval: %s", cmp.Diff(want, got))
				}
				return r
			}
			// approves lets it be done, at once and exactly.
			approves := func(r coord.Request, change func()) {
				t.Helper()
				w.says(r, coord.DecisionApprove, "")
				change()
				if r = w.over(r); r.Effect != coord.EffectApplied {
					t.Errorf("%s is %s: %+v", r.Content.Title, r.Effect, r.Done)
				}
				if got := files(t, dir); !cmp.Equal(got, want) {
					t.Errorf("after %s: %s", r.Content.Title, cmp.Diff(want, got))
				}
			}

			approves(asks(coord.FileChanged, "log.txt", "one\r\ntwo\r\n", "one\r\n2\r\n", "--- a/log.txt\n+++ b/log.txt\n@@ -1,2 +1,2 @@\n one\r\n-two\r\n+2\r\n"),
				func() { want["log.txt"] = "one\r\n2\r\n" })
			// What was approved is not asked for again.
			approves(asks(coord.FileChanged, "log.txt", "one\r\n2\r\n", "one\r\n2\r\n3", "--- a/log.txt\n+++ b/log.txt\n@@ -1,2 +1,3 @@\n one\r\n 2\r\n+3\n\\ No newline at end of file\n"),
				func() { want["log.txt"] = "one\r\n2\r\n3" })

			denied := asks(coord.FileNew, "secret/new.txt", "", "mine\n", "new file, permissions 0644\n--- /dev/null\n+++ b/secret/new.txt\n@@ -0,0 +1 @@\n+mine\n")
			w.says(denied, coord.DecisionDeny, "not in that folder")
			if denied = w.over(denied); denied.Decision != coord.DecisionDenied || denied.Effect != coord.EffectVoid {
				t.Errorf("the denied request is %s, %s", denied.Decision, denied.Effect)
			}
			approves(asks(coord.FileNew, "notes/new.txt", "", "yours\n", "new file, permissions 0644\n--- /dev/null\n+++ b/notes/new.txt\n@@ -0,0 +1 @@\n+yours\n"),
				func() { want["notes/new.txt"] = "yours\n" })

			late := asks(coord.FileChanged, "theirs.txt", "before\n", "by the agent\n", "--- a/theirs.txt\n+++ b/theirs.txt\n@@ -1 +1 @@\n-before\n+by the agent\n")
			put(t, dir, map[string]string{"theirs.txt": "by somebody\n"})
			want["theirs.txt"] = "by somebody\n"
			w.says(late, coord.DecisionApprove, "")
			if late = w.over(late); late.Effect != coord.EffectFailed {
				t.Errorf("a write over what somebody else wrote is %s: %+v", late.Effect, late.Done)
			}

			approves(asks(coord.FileDeleted, "gone.txt", "old\n", "", "deleted\n--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n"),
				func() { delete(want, "gone.txt") })
			approves(asks(coord.FileRenamed, "new name.txt", "kept\n", "kept\n", `renamed from "name.txt"`), func() {
				delete(want, "name.txt")
				want["new name.txt"] = "kept\n"
			})
			approves(asks(coord.FileChanged, "run.sh", "#!/bin/sh\n", "#!/bin/sh\nexit 0\n", "--- a/run.sh\n+++ b/run.sh\n@@ -1 +1,2 @@\n #!/bin/sh\n+exit 0\n"),
				func() { want["run.sh"] = "#!/bin/sh\nexit 0\n" })
			w.settles(ref, coord.JobCompleted)

			if info, err := os.Stat(filepath.Join(dir, "run.sh")); err != nil || info.Mode().Perm() != 0o755 {
				t.Errorf("the permissions of what was replaced are %v (%v)", info.Mode(), err)
			}
			told := outputs(m)
			for i, text := range []string{"Done: change log.txt", "Done: change log.txt", "already holds exactly this", "denied this: not in that folder", "Done: make notes/new.txt",
				"the file was changed after this change was made", "by somebody", "Done: delete gone.txt", "Done: rename name.txt to new name.txt",
				"looks like a secret", "looks like a secret", "Done: change run.sh"} {
				if i >= len(told) || !strings.Contains(told[i], text) {
					t.Errorf("answer %d is not that %q:\n%q", i+1, text, told)
				}
			}
			if sets, _, err := w.client.ChangeSets(w.ctx, 0, coord.MaxPage); err != nil || len(sets) != 0 {
				t.Errorf("writes one by one made change sets: %+v (%v)", sets, err)
			}
		})
	}
}

func TestAWriteThatNobodyDecidedOnIsNotDoneWhenTheJobIsCancelled(t *testing.T) {
	w := newWorld(t)
	before := map[string]string{"log.txt": "one\n"}
	dir := repository(t, before)
	w.codex("0.171.0", modelserver.Reply{Match: "Tidy", Answer: "Tidied.", Steps: []modelserver.Step{write("log.txt", "two\n")}})
	one := edit("tidy", "codex", dir, "Tidy up.", coord.Write)
	one.Writes = coord.Each
	ref := w.run(plan(one))
	r := w.asked(ref, "tidy")
	must[coord.Job](w, "cancel")(w.client.CancelJob(w.ctx, ref))
	w.settles(ref, coord.JobCancelled)
	if a := w.attempt(ref, "tidy"); a.Cancel.State != coord.CancelConfirmed {
		t.Errorf("the cancellation is %+v", a.Cancel)
	}
	r = must[coord.Request](w, "request")(w.client.Request(w.ctx, string(r.ID)))
	if r.Decision != coord.DecisionWithdrawn || r.Effect != coord.EffectVoid {
		t.Errorf("the request is %s, %s", r.Decision, r.Effect)
	}
	_, err := w.client.Decide(w.ctx, string(r.ID), approval.Decision{Decision: coord.DecisionApprove, Digest: r.Digest})
	if coord.CodeOf(err) != coord.Conflict {
		t.Errorf("a late approval gives %v", err)
	}
	if got := files(t, dir); !cmp.Equal(got, before) {
		t.Errorf("the files changed: %s", cmp.Diff(before, got))
	}
}
