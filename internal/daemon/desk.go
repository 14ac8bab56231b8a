package daemon

import (
	"encoding/json"
	"log/slog"
	"net/http"

	"signalbox/internal/api"
	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// The worker's paths for the front door itself. The door proxies /api only, so
// no client ever reaches them.
const credentialsPath = "/internal/credentials"

// desk answers what the front door asks of the worker about credentials.
type desk struct {
	journal *journal.Journal
	log     *slog.Logger
}

func (d *desk) handle(mux *http.ServeMux) {
	mux.HandleFunc("GET "+credentialsPath+"/{hash}", func(w http.ResponseWriter, r *http.Request) {
		var c coord.Credential
		err := d.journal.View(r.Context(), func(v *journal.View) (err error) {
			c, err = v.Credential(r.PathValue("hash"))
			return err
		})
		d.answer(w, c, err)
	})
	mux.HandleFunc("POST "+credentialsPath, func(w http.ResponseWriter, r *http.Request) {
		var c coord.Credential
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxReport)).Decode(&c)
		if err == nil {
			by := coord.Actor{Name: c.Name, Role: c.Role, Door: "browser", Presence: "none"}
			err = d.journal.Update(r.Context(), func(tx *journal.Tx) (err error) {
				c, err = tx.AddCredential(c, &by)
				return err
			})
		}
		d.answer(w, c, err)
	})
}

func (d *desk) answer(w http.ResponseWriter, c coord.Credential, err error) {
	if err == nil {
		w.Header().Set("Content-Type", "application/json")
		err = json.NewEncoder(w).Encode(c)
	} else {
		if coord.CodeOf(err) == coord.Internal {
			d.log.Error("a credential could not be read or kept", "err", err)
		}
		err = api.WriteProblem(w, api.NewProblem(err))
	}
	if err != nil {
		d.log.Debug("the front door did not take an answer", "err", err)
	}
}
