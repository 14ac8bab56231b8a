package cli

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

	"github.com/spf13/cobra"
	"github.com/zalando/go-keyring"

	"signalbox/internal/api"
	"signalbox/internal/coord"
	"signalbox/internal/daemon"
)

// keyringService names this program's entries in the user's keyring; the user
// name of an entry is the address of a Signalbox.
const keyringService = "signalbox"

// tokenFile is where a token lies when the operator asked for a file.
const tokenFile = "token"

// token finds the credential for an address: the environment first, then the
// keyring, then the file that login was told to write.
func (a *app) token(address string) (string, error) {
	if t := a.Env("SIGNALBOX_TOKEN"); t != "" {
		return t, nil
	}
	if dir, err := a.dir(); err == nil {
		b, err := os.ReadFile(filepath.Join(dir, tokenFile))
		if err == nil {
			return strings.TrimSpace(string(b)), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", coord.Errorf(coord.Unauthenticated, "the token file cannot be read: %s", reason(err))
		}
	}
	if t, err := keyring.Get(keyringService, address); err == nil {
		return t, nil
	}
	return "", coord.Errorf(coord.Unauthenticated, "you are not logged in: run signalbox login with the link that signalbox serve printed, or set SIGNALBOX_TOKEN")
}

func (a *app) loginCommand() *cobra.Command {
	var file, show bool
	var name string
	c := &cobra.Command{
		Use:   "login LINK",
		Short: "Become the operator with the pairing link that serve printed",
		Long: `Login exchanges the one-time pairing link for an operator's token and keeps it in
the keyring of your desktop. Where there is no keyring, --file keeps it in the
data directory with mode 0600: every program that runs as you can read it
there, agents included. --show prints it once instead, for SIGNALBOX_TOKEN.`,
		Example: `  signalbox login 'http://127.0.0.1:7717/pair#…'`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			link, err := url.Parse(args[0])
			if err != nil || link.Fragment == "" || link.Host == "" {
				return coord.Errorf(coord.Invalid, "this is not a pairing link: it looks like http://127.0.0.1:7717/pair#… and needs quotes in a shell")
			}
			// A link is good once, so where the token goes is tried first.
			if !file && !show && !keyringWorks() {
				return coord.Errorf(coord.Unavailable, "there is no keyring here, and the link was not used: log in with --file to keep the token in a file, or with --show to see it")
			}
			paired, err := redeem(cmd.Context(), link, name)
			if err != nil {
				return err
			}
			return a.keep(link, paired, file, show)
		},
	}
	c.Flags().BoolVar(&file, "file", false, "keep the token in a file of the data directory")
	c.Flags().BoolVar(&show, "show", false, "print the token instead of keeping it")
	c.Flags().StringVar(&name, "name", "cli", "name of the token in lists")
	c.MarkFlagsMutuallyExclusive("file", "show")
	return c
}

// keep puts a token where it was asked for.
func (a *app) keep(link *url.URL, paired daemon.Paired, file, show bool) error {
	address := link.Scheme + "://" + link.Host
	where := "your keyring"
	switch {
	case show:
		return a.Show(struct {
			Token string `json:"token"`
		}{paired.Token}, func(w io.Writer) { _, _ = io.WriteString(w, paired.Token+"\n") })
	case file:
		dir, err := a.dir()
		if err != nil {
			return err
		}
		where = filepath.Join(dir, tokenFile)
		if err := writeToken(where, paired.Token); err != nil {
			return coord.Errorf(coord.Unavailable, "the token could not be written to %s: %s", where, reason(err))
		}
		a.Say("! agents run as your user and can read this file; a keyring would keep it from\n  them")
	default:
		if err := keyring.Set(keyringService, address, paired.Token); err != nil {
			return coord.Errorf(coord.Unavailable, "the keyring did not take the token and the link is used up: restart signalbox serve for a new one, and log in with --file or --show")
		}
	}
	a.Say("you are the operator of %s\nthe token is in %s", address, where)
	return nil
}

// keyringWorks reports whether the user's keyring takes an entry.
func keyringWorks() bool {
	const probe = "probe"
	return keyring.Set(keyringService, probe, probe) == nil && keyring.Delete(keyringService, probe) == nil
}

// writeToken replaces the token file, readable by this user alone.
func writeToken(path, token string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".token-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if _, err := tmp.WriteString(token + "\n"); err != nil {
		return errors.Join(err, tmp.Close())
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// redeem exchanges a pairing link for a token.
func redeem(ctx context.Context, link *url.URL, name string) (daemon.Paired, error) {
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

func (a *app) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "Forget the token that login kept", Args: cobra.NoArgs,
		Long: "Logout removes the token from the keyring and the data directory. The token itself stays good until it is revoked: signalbox token revoke.",
		RunE: func(*cobra.Command, []string) error {
			if address, err := a.address(); err == nil {
				if err := keyring.Delete(keyringService, address); err == nil {
					a.Say("the token was removed from your keyring")
				}
			}
			dir, err := a.dir()
			if err != nil {
				return err
			}
			err = os.Remove(filepath.Join(dir, tokenFile))
			switch {
			case err == nil:
				a.Say("the token file was removed")
			case !errors.Is(err, fs.ErrNotExist):
				return coord.Errorf(coord.Unavailable, "the token file could not be removed: %s", reason(err))
			}
			return nil
		},
	}
}
