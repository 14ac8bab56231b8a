package daemon

import (
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"signalbox/internal/api"
	"signalbox/internal/coord"
)

// claimHeader carries a claim from the front door to the worker. It counts
// because of the connection that it arrives on, and the front door strips it
// from whatever comes from outside.
const claimHeader = "Signalbox-Claim"

// claim is what a client showed of itself, without the secrets. The front door
// makes it, and the worker finds out what it is worth while it has the request
// that goes with it.
type claim struct {
	// Kind is that of the credential: "token" or "session".
	Kind string `json:"kind"`
	// Hash is the SHA-256 of the credential's value, in hex.
	Hash string `json:"hash"`
	// CSRF is that of a session's second secret, whether one was sent or not.
	CSRF string `json:"csrf,omitempty"`
	// Presence is "none", "terminal" or "browser".
	Presence string `json:"presence"`
}

// claimOf gives the claim of a client's request, in which a token counts before
// the session that the cookie has. Its error is Unauthenticated.
func claimOf(r *http.Request, cookie string) (claim, error) {
	if value := r.Header.Get("Authorization"); value != "" {
		token, ok := strings.CutPrefix(value, "Bearer ")
		if !ok || !strings.HasPrefix(token, api.TokenPrefix) {
			return claim{}, coord.Errorf(coord.Unauthenticated, "the Authorization header holds no token of Signalbox: send Bearer %s…", api.TokenPrefix)
		}
		presence := "none"
		if r.Header.Get(PresenceHeader) == "terminal" {
			presence = "terminal"
		}
		return claim{Kind: "token", Hash: api.HashOf(token), Presence: presence}, nil
	}
	session, err := r.Cookie(cookie)
	if err != nil {
		return claim{}, api.ErrNobody
	}
	return claim{Kind: "session", Hash: api.HashOf(session.Value), CSRF: api.HashOf(r.Header.Get(CSRFHeader)), Presence: "browser"}, nil
}

// header is the claim as the link carries it.
func (c claim) header() http.Header {
	// Marshalling a claim cannot fail: it holds strings only, and those are ASCII.
	doc, _ := json.Marshal(c)
	return http.Header{claimHeader: {string(doc)}}
}

// claimIn reads the claim that came with a request over the link.
func claimIn(h http.Header) (c claim, err error) {
	if json.Unmarshal([]byte(h.Get(claimHeader)), &c) != nil {
		return claim{}, api.ErrNobody
	}
	return c, nil
}

// judge says who asks: the holder of the credential that was found for a claim,
// or why nobody is. A zero credential stands for one that was not found. Changes
// that a session asks for, which are all methods but GET and HEAD, need its
// second secret, since a browser sends the first by itself.
func judge(c claim, found coord.Credential, method string, now time.Time) (coord.Actor, error) {
	if found.ID == "" || found.Kind != c.Kind {
		return coord.Actor{}, coord.Errorf(coord.Unauthenticated, "this %s is not known or was revoked: get a new one", c.Kind)
	}
	who := coord.Actor{Credential: found.ID, Name: found.Name, Role: found.Role, Door: "api", Presence: c.Presence}
	if found.Kind == "token" {
		return who, nil
	}
	if now.Sub(found.Made.Wall) > coord.SessionTTL {
		return coord.Actor{}, coord.Errorf(coord.Unauthenticated, "the browser has been signed in for too long: open a new pairing link")
	}
	if method != http.MethodGet && method != http.MethodHead && subtle.ConstantTimeCompare([]byte(c.CSRF), []byte(found.CSRF)) != 1 {
		return coord.Actor{}, coord.Errorf(coord.Forbidden, "the header %s is missing or wrong: reload the page", CSRFHeader)
	}
	who.Door = "browser"
	return who, nil
}
