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
const (
	actorPath       = "/internal/actor"
	credentialsPath = "/internal/credentials"
)

// desk is where the front door's requests arrive in the worker: it finds out
// who asks before the API is asked, and keeps the credentials that the front
// door makes.
type desk struct {
	journal *journal.Journal
	log     *slog.Logger
}

// handler serves the API to those whose claims hold.
func (d *desk) handler(served http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		who, err := d.who(r)
		if err != nil {
			d.answer(w, r, nil, err)
			return
		}
		served.ServeHTTP(w, r.WithContext(api.As(r.Context(), who)))
	})
	mux.HandleFunc("POST "+actorPath, func(w http.ResponseWriter, r *http.Request) {
		who, err := d.who(r)
		d.answer(w, r, who, err)
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
		d.answer(w, r, c, err)
	})
	return mux
}

// who says who asks for what came over the link.
func (d *desk) who(r *http.Request) (coord.Actor, error) {
	c, err := claimIn(r.Header)
	if err != nil {
		return coord.Actor{}, err
	}
	var found coord.Credential
	err = d.journal.View(r.Context(), func(v *journal.View) (err error) {
		found, err = v.Credential(c.Hash)
		return err
	})
	if err != nil && coord.CodeOf(err) != coord.NotFound {
		return coord.Actor{}, err
	}
	return judge(c, found, r.Method, d.journal.Now().Wall)
}

func (d *desk) answer(w http.ResponseWriter, r *http.Request, v any, err error) {
	w.Header().Set("Cache-Control", "no-store")
	if err == nil {
		w.Header().Set("Content-Type", "application/json")
		err = json.NewEncoder(w).Encode(v)
	} else {
		err = api.WriteProblem(w, api.Told(r.Context(), d.log, "find out who asks", err))
	}
	if err != nil {
		d.log.Debug("the front door did not take an answer", "err", err)
	}
}
