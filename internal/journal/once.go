package journal

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"signalbox/internal/coord"
)

// Once runs fn unless it has succeeded before under the same scope and key,
// in which case its first answer is given again and replayed is true. The
// scope is what the key is unique in: credential and operation. The digest is
// that of the request's content: the same key with other content is a
// Conflict that names what the first one made. When fn fails nothing is
// remembered. The answer is kept redacted, as every document.
func (tx *Tx) Once(key, scope, digest string, fn func() (json.RawMessage, error)) (response json.RawMessage, replayed bool, err error) {
	var first, doc string
	err = tx.q.QueryRowContext(tx.ctx, `SELECT digest, doc FROM idempotency WHERE scope = $1 AND key = $2`, scope, key).Scan(&first, &doc)
	switch {
	case err == nil && first == digest:
		return json.RawMessage(doc), true, nil
	case err == nil:
		return nil, false, coord.Errorf(coord.Conflict, "this idempotency key was used before with other content, for %s: use a new key", made(doc))
	case !errors.Is(err, sql.ErrNoRows):
		return nil, false, fmt.Errorf("journal: read: %w", err)
	}
	if response, err = fn(); err != nil {
		return nil, false, err
	}
	stored, err := encode(tx, response)
	if err != nil {
		return nil, false, err
	}
	_, err = tx.exec(`INSERT INTO idempotency (scope, key, digest, doc) VALUES ($1, $2, $3, $4)`, scope, key, digest, stored)
	return response, false, err
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
