// Package credential gets and keeps the token by which the command line is its
// user's.
//
// It promises: a token is looked for in the user's keyring and in the file that
// the user asked for, and is written nowhere else; the file is readable by its
// user alone; no error repeats a token.
package credential

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/zalando/go-keyring"

	"signalbox/internal/api"
	"signalbox/internal/coord"
	"signalbox/internal/daemon"
)

// service names this program's entries in the keyring; the user name of an entry
// is the address of a Signalbox.
const service = "signalbox"

// File is the path of the token file in a data directory.
func File(dir string) string { return filepath.Join(dir, "token") }

// Find gives the token for an address: that of the file in the data directory,
// then that of the keyring, which holds the address's own. Without one the error
// is Unauthenticated and says how to log in.
func Find(dir, address string) (string, error) {
	b, err := os.ReadFile(File(dir))
	switch {
	case err == nil:
		return strings.TrimSpace(string(b)), nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", &coord.Error{Code: coord.Unauthenticated, Message: "the token file " + File(dir) + " cannot be read: check its permissions, or log in again", Err: err}
	}
	if t, err := keyring.Get(service, address); err == nil {
		return t, nil
	}
	return "", coord.Errorf(coord.Unauthenticated, "you are not logged in: run signalbox login with the link that signalbox serve printed, or set SIGNALBOX_TOKEN")
}

// KeyringWorks reports whether the user's keyring takes an entry.
func KeyringWorks() bool {
	const probe = "probe"
	return keyring.Set(service, probe, probe) == nil && keyring.Delete(service, probe) == nil
}

// KeepInKeyring puts a token where Find finds it for this address.
func KeepInKeyring(address, token string) error {
	if err := keyring.Set(service, address, token); err != nil {
		return &coord.Error{Code: coord.Unavailable, Message: "the keyring did not take the token and the link is used up: restart signalbox serve for a new one, and log in with --file or --show", Err: err}
	}
	return nil
}

// KeepInFile replaces the token file of a data directory, readable by this user
// alone.
func KeepInFile(dir, token string) error {
	if err := write(File(dir), token); err != nil {
		return &coord.Error{Code: coord.Unavailable, Message: "the token could not be written to " + File(dir) + ": check the directory's permissions", Err: err}
	}
	return nil
}

// Forget removes a token from both places. It says from where it was removed.
func Forget(dir, address string) (keyringHad, fileHad bool, err error) {
	keyringHad = address != "" && keyring.Delete(service, address) == nil
	err = os.Remove(File(dir))
	switch {
	case err == nil:
		return keyringHad, true, nil
	case errors.Is(err, fs.ErrNotExist):
		return keyringHad, false, nil
	}
	return keyringHad, false, &coord.Error{Code: coord.Unavailable, Message: "the token file " + File(dir) + " could not be removed: check the directory's permissions", Err: err}
}

func write(path, token string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".token-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // after the rename it is gone
	if _, err := tmp.WriteString(token + "\n"); err != nil {
		return errors.Join(err, tmp.Close())
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// Redeem exchanges a pairing link for a token.
func Redeem(ctx context.Context, link *url.URL, name string) (daemon.Paired, error) {
	var out daemon.Paired
	body, err := json.Marshal(daemon.Pair{Code: link.Fragment, Kind: "token", Name: name})
	if err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, coord.Errorf(coord.Unavailable, "Signalbox did not answer in time"))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, link.Scheme+"://"+link.Host+"/pair", bytes.NewReader(body))
	if err != nil {
		return out, coord.Errorf(coord.Invalid, "this is not a pairing link")
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return out, coord.Errorf(coord.Unavailable, "nothing answers at %s: is signalbox serve running?", link.Host)
	}
	defer res.Body.Close()
	answer := io.LimitReader(res.Body, 64<<10)
	if res.StatusCode/100 != 2 {
		var p struct {
			Code   coord.Code `json:"code"`
			Detail string     `json:"detail"`
		}
		if json.NewDecoder(answer).Decode(&p) != nil || p.Code == "" {
			return out, coord.Errorf(coord.Unavailable, "what answers at %s is not Signalbox", link.Host)
		}
		return out, coord.Errorf(p.Code, "%s", p.Detail)
	}
	var found api.Data[daemon.Paired]
	if err := json.NewDecoder(answer).Decode(&found); err != nil || found.Data.Token == "" {
		return out, coord.Errorf(coord.Unavailable, "what answers at %s is not Signalbox", link.Host)
	}
	return found.Data, nil
}
