package api

import (
	"context"
	"net/http"
	"os"
	"sync"

	"signalbox/internal/coord"
	"signalbox/internal/scheduler"
	"signalbox/internal/synthesis"
)

// Status is how the worker stands.
type Status struct {
	Version string `json:"version"`
	Host    string `json:"host"`
	PID     int    `json:"pid" doc:"The worker's process"`
	// Epoch and Head make the cursor of the present moment.
	Epoch      string       `json:"epoch"`
	Head       int64        `json:"head"`
	Generation int64        `json:"generation" doc:"Counts the workers that have owned this journal"`
	Now        coord.Moment `json:"now"`
	scheduler.Status
	// UnsetCredentials are told here because every task for their peers fails.
	UnsetCredentials []string `json:"unset_credentials" doc:"Credentials for peers whose variable has no value where serve was started; the keyring is not asked"`
}

type nothing struct{}

type admissionInput struct {
	Keyed
	Body struct {
		Paused bool `json:"paused" doc:"true admits nothing more; what runs goes on"`
	} `nameHint:"Admission"`
}

type stopInput struct {
	Keyed
	Body struct {
		Drain bool `json:"drain,omitempty" doc:"Wait until nothing runs; otherwise what runs is cancelled"`
	} `nameHint:"Stop"`
}

// Stopping says that a stop was asked for.
type Stopping struct {
	Drain bool `json:"drain"`
}

func (a *API) addStatus() {
	read(a, operation{id: "status", method: http.MethodGet, path: "/status", summary: "How Signalbox stands", tag: "operation", role: coord.RoleRead},
		func(ctx context.Context, _ *nothing) (Status, error) { return a.status(ctx) })
	write(a, operation{id: "set-admission", method: http.MethodPost, path: "/admission", summary: "Pause or resume the admission of tasks", tag: "operation", role: coord.RoleOperator},
		func(ctx context.Context, in *admissionInput) (Status, error) {
			if err := a.Scheduler.SetPaused(ctx, in.Body.Paused, actor(ctx)); err != nil {
				return Status{}, err
			}
			return a.status(ctx)
		})
	write(a, operation{id: "stop", method: http.MethodPost, path: "/stop", summary: "End Signalbox", tag: "operation", role: coord.RoleOperator, status: http.StatusAccepted},
		func(ctx context.Context, in *stopInput) (Stopping, error) {
			a.stop(in.Body.Drain, actor(ctx))
			return Stopping{in.Body.Drain}, nil
		})
}

type repairInput struct {
	Keyed
	Body struct {
		Codes []synthesis.FindingCode `json:"codes,omitempty" maxItems:"32" doc:"Only findings of these kinds; all that can be repaired if absent"`
	} `nameHint:"Repair"`
}

func (a *API) addDoctor() {
	defer func() {
		a.huma.OpenAPI().Components.Schemas.Map()["Repair"].Properties["codes"].Items.Enum = words(synthesis.Repairable...)
	}()
	list(a, operation{id: "examine", method: http.MethodGet, path: "/doctor", summary: "What is stuck, orphaned or inconsistent; reads all stored bytes", tag: "operation", role: coord.RoleRead},
		func(ctx context.Context, _ *nothing) ([]synthesis.Finding, int64, error) {
			out, err := a.Doctor.Check(ctx)
			return out, 0, err
		})
	write(a, operation{id: "repair", method: http.MethodPost, path: "/doctor", summary: "Mend what is provably safe to mend", tag: "operation", role: coord.RoleOperator},
		func(ctx context.Context, in *repairInput) ([]synthesis.Finding, error) {
			return a.Doctor.Repair(ctx, in.Body.Codes...)
		})
}

func (a *API) status(ctx context.Context) (Status, error) {
	s, err := a.Scheduler.Status(ctx)
	return Status{
		Version: a.version, Host: a.host, PID: os.Getpid(), Epoch: a.journal.Epoch(), Head: a.journal.Head(),
		Generation: a.journal.Generation(), Now: a.journal.Now(), Status: s, UnsetCredentials: a.Credentials.Unset(),
	}, err
}

func (a *API) addDocument() {
	document := sync.OnceValues(a.document) // few ever ask
	// Served by hand: the document describes itself badly as an operation.
	a.mux.HandleFunc("GET /api/openapi.json", func(w http.ResponseWriter, r *http.Request) {
		doc, err := document()
		if err != nil {
			a.write(w, a.problem(r.Context(), "openapi", err))
			return
		}
		w.Header().Set("Content-Type", "application/vnd.oai.openapi+json;version=3.1")
		if _, err := w.Write(doc); err != nil {
			a.log.Debug("an answer could not be written", "err", err)
		}
	})
}
