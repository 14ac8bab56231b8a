package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"signalbox/internal/coord"
)

// said checks that a completed task's statement is attributed, that its whole
// text is an artifact, and that a receipt came before it, and gives the text.
func (w *world) said(ref, key, agent string) string {
	w.t.Helper()
	r := w.result(ref, key)
	st := r.Statement
	if r.State != coord.TaskCompleted || st == nil {
		w.t.Fatalf("task %s/%s is %s (%s), statement %+v", ref, key, r.State, r.Reason, st)
	}
	if st.By != "agent" || string(st.Agent) != agent || string(r.Agent) != agent || st.Cut {
		w.t.Errorf("the statement of %s/%s is by %s %s, cut %v", ref, key, st.By, st.Agent, st.Cut)
	}
	if r.Receipt == nil || r.Receipt.Reference == "" {
		w.t.Errorf("task %s/%s completed with the receipt %+v", ref, key, r.Receipt)
	}
	if a := w.attempt(ref, key); a.Sent == nil || a.Prompt == "" || a.Handed != coord.HandedAll || a.ID != r.Attempt {
		w.t.Errorf("the attempt of %s/%s was sent %v, prompt %q, handed %q", ref, key, a.Sent, a.Prompt, a.Handed)
	}
	if sum := sha256.Sum256([]byte(st.Text)); hex.EncodeToString(sum[:]) != st.SHA256 {
		w.t.Errorf("the statement of %s/%s does not have its digest", ref, key)
	}
	if st.Artifact == "" {
		w.t.Fatalf("the statement of %s/%s has no artifact", ref, key)
	}
	var whole bytes.Buffer
	if err := w.client.ArtifactBytes(w.ctx, string(st.Artifact), &whole); err != nil || whole.String() != st.Text {
		w.t.Errorf("the artifact of %s/%s holds %q (%v), the statement is %q", ref, key, whole.String(), err, st.Text)
	}
	return st.Text
}

// result is a task's part of a job's result.
func (w *world) result(ref, key string) coord.TaskResult {
	w.t.Helper()
	for _, r := range must[coord.Result](w, "result")(w.client.Result(w.ctx, ref)).Tasks {
		if r.Key == key {
			return r
		}
	}
	w.t.Fatalf("the result of job %s has no task %s", ref, key)
	return coord.TaskResult{}
}

// decided checks the three facts of a request that was answered, and by whom.
func decided(t *testing.T, r coord.Request, decision coord.DecisionState, option string) {
	t.Helper()
	if r.Decision != decision || r.Effect != coord.EffectNone || r.Delivery != coord.DeliveryDelivered {
		t.Errorf("request r%d: decision %s, effect %s, delivery %s (%s)", r.Number, r.Decision, r.Effect, r.Delivery, r.Delivered)
	}
	d := r.Decided
	if d == nil || d.Option != option || d.By.Credential == "" || d.By.Role != coord.RoleOperator || d.By.Door != "api" || d.By.Presence != "none" {
		t.Errorf("request r%d was decided %+v, want the option %q", r.Number, d, option)
	}
}
