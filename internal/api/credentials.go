package api

import (
	"context"
	"net/http"

	"signalbox/internal/coord"
	"signalbox/internal/credential/binding"
)

// Credentials are what the configuration file binds to origins on the network.
type Credentials interface {
	// List tells of each, without its value.
	List() []binding.BoundCredential
	// Unset names those whose variable has no value. It does not wait.
	Unset() []string
}

// addCredentials tells of the credentials. They change in the configuration file
// and the keyring alone, where no request can reach.
func (a *API) addCredentials() {
	list(a, operation{
		id: "list-credentials", method: http.MethodGet, path: "/credentials", tag: "credentials", role: coord.RoleOperator,
		summary: "The credentials of the configuration file: where each may go, and whether it has a value; never the value",
	}, func(context.Context, *nothing) ([]binding.BoundCredential, int64, error) {
		return a.Credentials.List(), 0, nil
	})
}
