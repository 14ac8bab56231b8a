package api

import (
	"context"

	"signalbox/internal/coord"
)

type actorKey struct{}

// As puts who asks into the context of a request. Whoever serves the API finds
// that out before; without it, or without a role, nobody is served.
func As(ctx context.Context, who coord.Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, who)
}

// actor is who asks.
func actor(ctx context.Context) coord.Actor {
	a, _ := ctx.Value(actorKey{}).(coord.Actor)
	return a
}
