package api

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

type artifactInput struct {
	Artifact string `path:"artifact" maxLength:"100" doc:"art_…"`
}

func (a *API) addArtifacts() {
	read(a, operation{id: "get-artifact", method: http.MethodGet, path: "/artifacts/{artifact}", summary: "What is known of an artifact", tag: "artifacts", role: coord.RoleRead}, a.artifact)
	o := operation{id: "get-artifact-bytes", method: http.MethodGet, path: "/artifacts/{artifact}/bytes", summary: "An artifact's bytes, as an attachment", tag: "artifacts", role: coord.RoleRead}
	d := a.describe(o)
	d.Responses = map[string]*huma.Response{"200": {
		Description: "The bytes; the connection is cut before the end when they are damaged",
		Content:     map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}},
	}}
	huma.Register(a.huma, d, func(ctx context.Context, in *artifactInput) (*huma.StreamResponse, error) {
		meta, err := a.artifact(ctx, in)
		if err == nil && (meta.Removed != nil || meta.SHA256 == "") {
			err = coord.Errorf(coord.NotFound, "the bytes of artifact %s are not kept", meta.ID)
		}
		if err != nil {
			return nil, a.problem(ctx, o.id, err)
		}
		bytes, size, err := a.Bytes.Open(meta.SHA256)
		if err != nil {
			return nil, a.problem(ctx, o.id, err)
		}
		return &huma.StreamResponse{Body: func(c huma.Context) {
			defer bytes.Close()
			_, w := humago.Unwrap(c)
			w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
			// The type is the agent's word: a browser must not act on it.
			attach(w, meta.Name, "application/octet-stream")
			if _, err := io.Copy(w, bytes); err != nil {
				a.log.Warn("an artifact was cut off", "artifact", meta.ID, "err", err)
				panic(http.ErrAbortHandler)
			}
		}}, nil
	})
}

func (a *API) artifact(ctx context.Context, in *artifactInput) (out coord.Artifact, err error) {
	err = a.journal.View(ctx, func(v *journal.View) (err error) {
		out, err = v.Artifact(coord.ArtifactID(in.Artifact))
		return err
	})
	return out, err
}

// attach makes an answer a file that no browser opens in our origin.
func attach(w http.ResponseWriter, name, media string) {
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	w.WriteHeader(http.StatusOK)
}

func exportName(j coord.Job) string { return fmt.Sprintf("signalbox-job-%d.zip", j.Number) }
