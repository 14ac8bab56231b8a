package api

import (
	"context"
	"net/http"
	"slices"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// NewToken asks for a bearer token.
type NewToken struct {
	Name string     `json:"name" minLength:"1" maxLength:"200" doc:"Tells it from others in lists"`
	Role coord.Role `json:"role"`
}

type newTokenInput struct {
	Keyed
	Body NewToken
}

// Token is a credential, and once, right after it was made, its value.
type Token struct {
	coord.Credential
	Token string `json:"token,omitempty" doc:"The value, shown this once; an answer that is given again has none"`
}

type tokenInput struct {
	Keyed
	Token string `path:"token" maxLength:"100" doc:"crd_…"`
}

func (a *API) addTokens() {
	op := func(id, method, path, summary string) operation {
		return operation{id: id, method: method, path: path, summary: summary, tag: "tokens", role: coord.RoleOperator}
	}
	list(a, op("list-tokens", http.MethodGet, "/tokens", "Tokens and browser sessions, without their values"),
		func(ctx context.Context, _ *nothing) (out []coord.Credential, next int64, err error) {
			err = a.journal.View(ctx, func(v *journal.View) (err error) {
				out, err = v.Credentials()
				return err
			})
			for i := range out {
				out[i].Hash, out[i].CSRF = "", ""
			}
			return out, 0, err
		})
	made := op("add-token", http.MethodPost, "/tokens", "Make a bearer token")
	made.status = http.StatusCreated
	write(a, made, a.addToken)
	write(a, op("revoke-token", http.MethodDelete, "/tokens/{token}", "End a token or a browser session"),
		func(ctx context.Context, in *tokenInput) (out coord.Credential, err error) {
			by := actor(ctx)
			err = a.journal.Update(ctx, func(tx *journal.Tx) error {
				all, err := tx.Credentials()
				if err != nil {
					return err
				}
				at := slices.IndexFunc(all, func(c coord.Credential) bool { return string(c.ID) == in.Token })
				if at < 0 {
					return coord.Errorf(coord.NotFound, "there is no such token, or it was revoked before")
				}
				out = all[at]
				now := tx.Now()
				out.Hash, out.CSRF, out.Revoked = "", "", &now
				if err := tx.RevokeCredential(out.ID, by); err != nil {
					return err
				}
				return tx.Answer(out)
			})
			return out, err
		})
}

// addToken makes a token. Its answer is kept under the idempotency key without
// the value, which is kept nowhere.
func (a *API) addToken(ctx context.Context, in *newTokenInput) (out Token, err error) {
	by := actor(ctx)
	value := TokenPrefix + NewSecret()
	err = a.journal.Update(ctx, func(tx *journal.Tx) error {
		c, err := tx.AddCredential(coord.Credential{Name: in.Body.Name, Role: in.Body.Role, Kind: "token", Hash: HashOf(value)}, &by)
		if err != nil {
			return err
		}
		c.Hash = ""
		out = Token{Credential: c}
		return tx.Answer(out)
	})
	out.Token = value
	return out, err
}
