package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// Keyed is the part of a mutation's input that makes it happen once.
type Keyed struct {
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"200" doc:"Any text; for seven days the same key with the same request gives the first answer" json:"-"`
}

func (k *Keyed) key() string { return k.IdempotencyKey }

// keyed is an input that embeds Keyed.
type keyed interface{ key() string }

// turns lets the requests with one key come one after another, so that the
// second finds the answer of the first.
type turns struct {
	mu   sync.Mutex
	held map[journal.Key]chan struct{}
}

// take waits for the turn of k and gives what ends it.
func (t *turns) take(ctx context.Context, k journal.Key) (func(), error) {
	k.Digest = ""
	for {
		t.mu.Lock()
		running, taken := t.held[k]
		if !taken {
			if t.held == nil {
				t.held = map[journal.Key]chan struct{}{}
			}
			done := make(chan struct{})
			t.held[k] = done
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				delete(t.held, k)
				t.mu.Unlock()
				close(done)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-running:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// once does a mutation, or gives the answer that it gave before under its key.
//
// What makes new things (drafts, credentials) leaves its answer in its own
// transaction, through journal.Tx.Answer. Everything else is kept here, after
// the fact: should the worker die in between, asking again meets the changed
// state and changes nothing twice, because the stages let the first decision
// win.
func once[T any](ctx context.Context, a *API, operation, name string, request any, do func(context.Context) (T, error)) (out T, replayed bool, err error) {
	if name == "" {
		out, err = do(ctx)
		return out, false, err
	}
	content, err := json.Marshal(request)
	if err != nil {
		return out, false, err
	}
	sum := sha256.Sum256(content)
	k := journal.Key{Scope: string(actor(ctx).Credential) + " " + operation, Name: name, Digest: hex.EncodeToString(sum[:])}
	done, err := a.turns.take(ctx, k)
	if err != nil {
		return out, false, err
	}
	defer done()
	if found, err := a.answered(ctx, k, &out); found || err != nil {
		return out, found, err
	}
	if out, err = do(journal.WithKey(ctx, k)); err != nil {
		return out, false, err
	}
	var kept T
	if found, err := a.answered(ctx, k, &kept); found || err != nil {
		return out, false, err
	}
	// The mutation is done; a client that leaves now must still find its answer.
	ctx = journal.WithKey(context.WithoutCancel(ctx), k)
	return out, false, a.journal.Update(ctx, func(tx *journal.Tx) error { return tx.Answer(out) })
}

func (a *API) answered(ctx context.Context, k journal.Key, into any) (found bool, err error) {
	var doc json.RawMessage
	err = a.journal.View(ctx, func(v *journal.View) (err error) {
		doc, found, err = v.Answered(k)
		return err
	})
	if err != nil || !found {
		return false, err
	}
	if err := json.Unmarshal(doc, into); err != nil {
		return false, coord.Errorf(coord.Internal, "the answer kept under an idempotency key cannot be read: %w", err)
	}
	return true, nil
}
