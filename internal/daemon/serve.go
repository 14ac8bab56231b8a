package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"signalbox/internal/api"
	"signalbox/internal/coord"
)

// DefaultPort is where the front door listens unless told otherwise.
const DefaultPort = 7717

// ServeOptions say what a front door needs. All but Listen and Ready are
// required.
type ServeOptions struct {
	// Dir is the data directory, as the worker gets it by Worker.
	Dir string
	// Listen is a port, or 127.0.0.1 and a port; "" is DefaultPort, port 0 any.
	Listen string
	// Worker are the arguments by which this program becomes a worker.
	Worker []string
	// Executable is this program; "" finds it.
	Executable string
	Version    string
	Logger     *slog.Logger
	// Stderr gets the log of the workers.
	Stderr io.Writer
	// Ready is called once when the API answers.
	Ready func(Place, Link)
}

// Place says where a front door is. It is kept in the data directory as
// serve.json while the door answers.
type Place struct {
	URL string `json:"url"`
	PID int    `json:"pid"`
}

// placeName is the file of Place in the data directory.
const placeName = "serve.json"

// ReadPlace gives the place of the front door of a data directory. It is
// Unavailable when none runs there.
func ReadPlace(dir string) (Place, error) {
	var p Place
	doc, err := os.ReadFile(filepath.Join(dir, placeName))
	if err == nil {
		err = json.Unmarshal(doc, &p)
	}
	if err != nil {
		return p, coord.Errorf(coord.Unavailable, "Signalbox does not run on %s: start it with signalbox serve", dir)
	}
	return p, nil
}

// Serve opens the front door and keeps a worker behind it until ctx ends, the
// operator stops Signalbox, or a first worker cannot start: its error says
// why.
func Serve(ctx context.Context, o ServeOptions) error {
	address, err := listenAddress(o.Listen)
	if err != nil {
		return err
	}
	if err := refuseSecond(ctx, o.Dir); err != nil {
		return err
	}
	if o.Executable == "" {
		if o.Executable, err = os.Executable(); err != nil {
			return err
		}
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp4", address)
	if err != nil {
		return &coord.Error{Code: coord.Unavailable, Message: fmt.Sprintf("the address %s cannot be listened on: another program has it; choose another port with --listen, or 0 for any", address), Err: err}
	}
	host := listener.Addr().String()
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	s := &supervisor{executable: o.Executable, args: o.Worker, stderr: o.Stderr, log: o.Logger}
	s.now.Store(down("the worker is starting: try again in a moment"))
	d := newDoor(s, o.Logger, host, port, o.Version, os.Getpid())
	place := Place{URL: "http://" + host, PID: os.Getpid()}
	s.ready = func() error {
		if err := writePlace(o.Dir, place); err != nil {
			return err
		}
		if o.Ready != nil {
			o.Ready(place, Link{d.pairURL()})
		}
		return nil
	}
	server := &http.Server{
		Handler: d, ReadHeaderTimeout: coord.WriteTimeout, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	// From here on a new serve waits for this one's worker instead of refusing.
	unlisted := context.AfterFunc(ctx, func() { removePlace(o.Dir, place) })
	err = s.Run(ctx)
	unlisted()
	removePlace(o.Dir, place)
	bounded, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), coord.KillGrace, ErrShutdown)
	defer cancel()
	if server.Shutdown(bounded) != nil {
		_ = server.Close() // cuts clients that do not leave
	}
	if closed := <-served; !errors.Is(closed, http.ErrServerClosed) {
		err = errors.Join(err, closed)
	}
	return err
}

// listenAddress allows loopback only: who else could reach the door is not
// decided by a flag.
func listenAddress(listen string) (string, error) {
	if listen == "" {
		listen = strconv.Itoa(DefaultPort)
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		host, port = "localhost", listen
	}
	if host != "127.0.0.1" && host != "localhost" {
		return "", coord.Errorf(coord.Invalid, "Signalbox listens on 127.0.0.1 only: give a port, or 127.0.0.1 and a port")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || port != strconv.FormatUint(n, 10) {
		return "", coord.Errorf(coord.Invalid, "the port to listen on is not a number from 0 to 65535")
	}
	return net.JoinHostPort("127.0.0.1", port), nil
}

// refuseSecond refuses a second front door at once. Without this the second
// one's worker would wait for an owner that is not about to end.
func refuseSecond(ctx context.Context, dir string) error {
	place, err := ReadPlace(dir)
	if err != nil {
		return nil // none runs, which is what is wanted
	}
	ctx, cancel := context.WithTimeoutCause(ctx, coord.KillGrace, coord.Errorf(coord.Unavailable, "the front door did not answer in time"))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, place.URL+"/healthz", nil)
	if err != nil {
		return nil // the file is damaged; a new one replaces it
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return nil // it is left over from one that was killed
	}
	defer res.Body.Close()
	var h api.Data[Health]
	if json.NewDecoder(io.LimitReader(res.Body, maxReport)).Decode(&h) != nil || h.Data.PID != place.PID {
		return nil
	}
	return coord.Errorf(coord.Conflict, "Signalbox runs on this data directory already, at %s (process %d): use that one, or stop it with signalbox stop", place.URL, place.PID)
}

func writePlace(dir string, p Place) error {
	doc, err := json.Marshal(p)
	if err != nil {
		return err
	}
	temp := filepath.Join(dir, "."+placeName)
	if err := os.WriteFile(temp, append(doc, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, filepath.Join(dir, placeName))
}

// removePlace removes the file if it is still this door's.
func removePlace(dir string, p Place) {
	if now, err := ReadPlace(dir); err == nil && now == p {
		_ = os.Remove(filepath.Join(dir, placeName)) // the next reader finds that nobody answers
	}
}
