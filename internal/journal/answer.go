package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"signalbox/internal/coord"
)

// Key is an idempotency key with what it is bound to. The zero Key is none.
type Key struct {
	// Scope is what Name is unique in: credential and operation.
	Scope string
	Name  string
	// Digest is that of the request's content.
	Digest string
}

type keyOfContext struct{}

// WithKey gives a context whose operation leaves its answer under k, in its
// own transaction, when it calls Tx.Answer. A door sets it; the stage below
// needs to know no more than what it answers.
func WithKey(ctx context.Context, k Key) context.Context {
	return context.WithValue(ctx, keyOfContext{}, k)
}

// Answer keeps v as the answer of this operation under the key of its context,
// if that has one. Call it last. When the key was used meanwhile it is a
// Conflict, which undoes the operation.
func (tx *Tx) Answer(v any) error {
	k, ok := tx.ctx.Value(keyOfContext{}).(Key)
	if !ok || k.Name == "" {
		return nil
	}
	doc, err := encode(tx, v)
	if err != nil {
		return err
	}
	res, err := tx.exec(`INSERT INTO idempotency (scope, key, digest, doc, made) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (scope, key) DO NOTHING`, k.Scope, k.Name, k.Digest, doc, tx.Now().Wall.UnixMilli())
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return coord.Errorf(coord.Conflict, "this idempotency key was used at the same moment: ask again with it to get its answer")
}

// Answered gives the answer that an operation left under k, and whether there
// is one. It is a Conflict, naming what the first one made, when the key was
// used for other content.
func (v *View) Answered(k Key) (answer json.RawMessage, found bool, err error) {
	var digest, doc string
	err = v.q.QueryRowContext(v.ctx, `SELECT digest, doc FROM idempotency WHERE scope = $1 AND key = $2`, k.Scope, k.Name).Scan(&digest, &doc)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("journal: read: %w", err)
	case digest != k.Digest:
		return nil, false, coord.Errorf(coord.Conflict, "this idempotency key was used before with other content, for %s: use a new key", made(doc))
	}
	return json.RawMessage(doc), true, nil
}

// PruneAnswers removes up to limit answers that were kept before t, and gives
// how many. A key whose answer was removed is new again.
func (tx *Tx) PruneAnswers(t time.Time, limit int) (int64, error) {
	res, err := tx.exec(`DELETE FROM idempotency WHERE (scope, key) IN (SELECT scope, key FROM idempotency WHERE made < $1 LIMIT $2)`, t.UnixMilli(), limit)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// made names what a stored answer made: its id, if it tells one.
func made(doc string) string {
	var answer struct {
		ID   string `json:"id"`
		Data struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	_ = json.Unmarshal([]byte(doc), &answer) // an answer of another shape tells no id
	switch {
	case answer.ID != "":
		return answer.ID
	case answer.Data.ID != "":
		return answer.Data.ID
	}
	return "another request"
}
