package cli

import (
	"context"
	"net/http"
	"path/filepath"
	"time"

	"signalbox/internal/coord"
)

// canonical gives the absolute path of a folder without symbolic links, as
// plans need it.
func canonical(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", coord.Errorf(coord.Invalid, "the folder %s cannot be used: %s", dir, reason(err))
	}
	return abs, nil
}

// waitGone returns when nothing answers at an address any more.
func waitGone(ctx context.Context, address string) error {
	probe := &http.Client{Timeout: time.Second}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/", http.NoBody)
		if err != nil {
			return err
		}
		res, err := probe.Do(req)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return nil
		}
		_ = res.Body.Close() // nothing of it is needed
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
