package api

import (
	"context"
	"net/http"

	"signalbox/internal/certification"
	"signalbox/internal/coord"
)

type certifyInput struct {
	Keyed
}

func (a *API) addCertificates() {
	op := func(id, method, path, summary string, role coord.Role) operation {
		return operation{id: id, method: method, path: path, summary: summary, tag: "certificates", role: role}
	}
	list(a, op("list-certificates", http.MethodGet, "/certificates", "What was proven on this machine, newest first, and whether it holds", coord.RoleRead),
		func(ctx context.Context, _ *nothing) ([]certification.Standing, int64, error) {
			out, err := a.Certification.List(ctx)
			return out, 0, err
		})
	certify := op("certify", http.MethodPost, "/certificates", "Prove the sandbox and the agents' confinement now; it takes seconds and no model", coord.RoleOperator)
	certify.status = http.StatusCreated
	write(a, certify, func(ctx context.Context, _ *certifyInput) ([]certification.Standing, error) {
		return a.Certification.Certify(ctx, actor(ctx))
	})
}
