package workspacemcp

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/jsonl"
	"signalbox/internal/toolwire"
)

// greetTimeout bounds the opening of the connection: the worker answers within
// milliseconds unless the machine is overloaded.
const greetTimeout = 15 * time.Second

// goneReason is what calls get when the connection ended: the attempt is over,
// or its worker is.
const goneReason = "Signalbox does not take calls any more: the attempt ended, or its worker did. Nothing more can be done with this tool."

// worker is the connection to the worker.
type worker struct {
	lines *jsonl.Reader
	w     *jsonl.Writer
	tools []toolwire.Tool
}

// dial connects and shows the token. An error is one sentence for the operator
// and the model.
func dial(path, token string) (*worker, error) {
	if path == "" || token == "" {
		return nil, coord.Errorf(coord.Invalid, "This program is started by an agent that got %s and %s from Signalbox; they are not set.", toolwire.SocketEnv, toolwire.TokenEnv)
	}
	raw, err := connect(path)
	if err != nil {
		return nil, &coord.Error{Code: coord.Unavailable, Message: unreachable(err), Err: err}
	}
	k := &worker{lines: jsonl.NewReader(raw, toolwire.MaxReply), w: jsonl.NewWriter(raw, toolwire.MaxCall, coord.WriteTimeout)}
	_ = raw.SetReadDeadline(time.Now().Add(greetTimeout))
	if err := k.greet(token); err != nil {
		_ = k.w.Close()
		return nil, err
	}
	_ = raw.SetReadDeadline(time.Time{})
	return k, nil
}

func (k *worker) greet(token string) error {
	if _, err := k.w.WriteJSON(context.Background(), toolwire.Request{Hello: &toolwire.Hello{Version: toolwire.Version, Token: token}}); err != nil {
		return &coord.Error{Code: coord.Unavailable, Message: goneReason, Err: err}
	}
	line, err := k.lines.Next()
	if err != nil {
		return &coord.Error{Code: coord.Unavailable, Message: goneReason, Err: err}
	}
	r, err := toolwire.ReadReply(line)
	switch {
	case err == nil && r.Refused != nil:
		return coord.Errorf(coord.Forbidden, "Signalbox refused this tool server: %s", r.Refused.Reason)
	case err != nil || r.Welcome == nil || r.Welcome.Version != toolwire.Version:
		return coord.Errorf(coord.Unsupported, "The worker does not speak version %d; this program is of another release of Signalbox.", toolwire.Version)
	}
	k.tools = r.Welcome.Tools
	return nil
}

// connect connects to a socket. The name of one has 104 bytes at most on some
// systems: a longer path is reached from its folder, which this process may go
// to because it opens nothing else.
func connect(path string) (*net.UnixConn, error) {
	if len(path) > toolwire.MaxSocketPath {
		if err := os.Chdir(filepath.Dir(path)); err != nil {
			return nil, err
		}
		path = filepath.Base(path)
	}
	return net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
}

// unreachable says why there is no connection.
func unreachable(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "The tools of Signalbox cannot be reached: the socket belongs to another user, or a sandbox forbids it. Run the agent as the user of Signalbox, or let its sandbox connect to the socket."
	case errors.Is(err, fs.ErrNotExist):
		return "The tools of Signalbox cannot be reached: there is no socket. The attempt ended, or the agent runs in a sandbox or a container that hides Signalbox's folder."
	case errors.Is(err, syscall.ECONNREFUSED):
		return "The tools of Signalbox cannot be reached: the worker ended without taking the socket with it."
	}
	return "The tools of Signalbox cannot be reached: the socket does not accept connections."
}
