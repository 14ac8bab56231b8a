package daemon

import (
	"encoding/json"
	"net/http"
	"unicode/utf8"

	"signalbox/internal/api"
	"signalbox/internal/coord"
)

// Pair is the body of POST /pair.
type Pair struct {
	Code string `json:"code"`
	// Kind is "session" for a browser (the default) or "token".
	Kind string `json:"kind,omitempty"`
	// Name tells the credential from others in lists.
	Name string `json:"name,omitempty"`
}

// Paired is the answer to it: the one time that the secrets are shown.
type Paired struct {
	Credential coord.CredentialID `json:"credential"`
	Name       string             `json:"name"`
	Role       coord.Role         `json:"role"`
	Token      string             `json:"token,omitempty"`
	CSRF       string             `json:"csrf,omitempty"`
}

// pair turns a pairing code into an operator's credential.
func (d *door) pair(w http.ResponseWriter, r *http.Request) {
	var in Pair
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxReport))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		d.refuse(w, coord.Errorf(coord.Invalid, "the body is not {\"code\": …, \"kind\": …, \"name\": …}"))
		return
	}
	if err := in.check(); err != nil {
		d.refuse(w, err)
		return
	}
	restore, err := d.pairing.redeem(in.Code)
	if err != nil {
		p := api.NewProblem(err)
		if p.Code == coord.Limit {
			p = p.WithStatus(http.StatusTooManyRequests)
		} else {
			d.log.Warn("a pairing code was refused")
		}
		d.write(w, p)
		return
	}
	value, csrf := api.TokenPrefix+api.NewSecret(), ""
	c := coord.Credential{Name: in.Name, Role: coord.RoleOperator, Kind: in.Kind, Hash: api.HashOf(value)}
	if in.Kind == "session" {
		csrf = api.NewSecret()
		c.CSRF = api.HashOf(csrf)
	}
	body, err := json.Marshal(c)
	if err == nil {
		err = d.ask(r.Context(), credentialsPath, nil, body, &c)
	}
	if err != nil {
		restore()
		d.refuse(w, err)
		return
	}
	out := Paired{Credential: c.ID, Name: c.Name, Role: c.Role, CSRF: csrf}
	if in.Kind == "token" {
		out.Token = value
	} else {
		d.setCookies(w, value, csrf)
	}
	d.answer(w, out)
}

func (p *Pair) check() error {
	var fields []coord.Field
	switch p.Kind {
	case "":
		p.Kind = "session"
	case "session", "token":
	default:
		fields = append(fields, coord.Field{Pointer: "/kind", Message: "session or token"})
	}
	if p.Name == "" {
		p.Name = map[string]string{"session": "browser", "token": "login"}[p.Kind]
	}
	if utf8.RuneCountInString(p.Name) > coord.MaxTitle || !utf8.ValidString(p.Name) {
		fields = append(fields, coord.Field{Pointer: "/name", Message: "too long, or not valid UTF-8"})
	}
	return coord.InvalidFields("the pairing cannot be made", fields)
}

// setCookies signs the browser in.
func (d *door) setCookies(w http.ResponseWriter, value, csrf string) {
	for name, v := range map[string]string{d.cookie(): value, d.csrfCookie(): csrf} {
		http.SetCookie(w, &http.Cookie{ //nolint:gosec // not Secure: the door speaks plain HTTP, on loopback alone
			Name: name, Value: v, Path: "/", MaxAge: int(coord.SessionTTL.Seconds()),
			HttpOnly: name == d.cookie(), SameSite: http.SameSiteStrictMode,
		})
	}
}

// Link is a pairing link.
type Link struct {
	URL string `json:"url"`
}

// link makes a new pairing link for whoever is an operator already.
func (d *door) link(w http.ResponseWriter, r *http.Request) {
	var who coord.Actor
	c, err := claimOf(r, d.cookie())
	if err == nil {
		// By POST, as the client asks: a session then needs its second secret.
		err = d.ask(r.Context(), actorPath, c.header(), nil, &who)
	}
	if err == nil && !who.Role.Allows(coord.RoleOperator) {
		err = coord.Errorf(coord.Forbidden, "a pairing link needs the role operator and the credential has %s: use another credential", who.Role)
	}
	if err != nil {
		d.refuse(w, err)
		return
	}
	d.answer(w, Link{d.pairURL()})
}

// pairURL makes a new code and gives its link. The code stands after the #,
// which browsers do not send and servers do not log.
func (d *door) pairURL() string { return "http://" + d.host + "/pair#" + d.pairing.renew() }
