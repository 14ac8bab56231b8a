package api

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"signalbox/internal/coord"
)

// ActorHeader carries who asks, from the front door to the worker. It is worth
// nothing on any other connection, and the front door strips it from whatever
// comes from outside.
const ActorHeader = "Signalbox-Actor"

// EncodeActor writes an actor as a header value.
func EncodeActor(a coord.Actor) string {
	// Marshalling an Actor cannot fail: it holds strings only.
	doc, _ := json.Marshal(a)
	return base64.RawURLEncoding.EncodeToString(doc)
}

func decodeActor(value string) (coord.Actor, error) {
	var a coord.Actor
	doc, err := base64.RawURLEncoding.DecodeString(value)
	if err == nil {
		err = json.Unmarshal(doc, &a)
	}
	if err != nil || !a.Role.Allows(coord.RoleRead) {
		return coord.Actor{}, coord.Errorf(coord.Unauthenticated, "nobody is signed in: use a token or the pairing link")
	}
	return a, nil
}

type actorKey struct{}

// actor is who asks, as the door said.
func actor(ctx context.Context) coord.Actor {
	a, _ := ctx.Value(actorKey{}).(coord.Actor)
	return a
}
