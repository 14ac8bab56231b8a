package bridge

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/toolwire"
)

// nameLength leaves a data folder as much of a socket's path as it can.
const nameLength = 8

// listen makes a socket with mode 0600 in dir, which must be private.
func listen(dir string) (*socket, error) {
	if err := private(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, strings.ToLower(rand.Text()[:nameLength]))
	l, err := bind(dir, filepath.Base(path))
	if err != nil {
		return nil, &coord.Error{Code: coord.Unavailable, Message: "No socket can be made in the folder " + dir + " for the tools of agents.", Err: err}
	}
	// The socket is ours to remove: what the listener remembers may be the short
	// name, which is gone.
	l.SetUnlinkOnClose(false)
	s := &socket{listener: l, path: path}
	if err := os.Chmod(path, 0o600); err != nil {
		s.close()
		return nil, &coord.Error{Code: coord.Unavailable, Message: "The socket in the folder " + dir + " cannot be made private.", Err: err}
	}
	return s, nil
}

// private makes dir, or checks that nobody else can look into it.
func private(dir string) error {
	if !filepath.IsAbs(dir) {
		return coord.Errorf(coord.Invalid, "the folder for the sockets of tools is not an absolute path")
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return &coord.Error{Code: coord.Unavailable, Message: "The folder " + dir + " for the sockets of tools cannot be made.", Err: err}
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return &coord.Error{Code: coord.Unavailable, Message: "The folder " + dir + " for the sockets of tools cannot be read.", Err: err}
	case !info.IsDir() || info.Mode().Perm()&0o077 != 0:
		return coord.Errorf(coord.Invalid, "%s is not a folder of the worker alone: make it one with mode 0700, or remove it", dir)
	}
	return nil
}

// bind listens on dir/name. A path that is too long for the name of a socket is
// reached through a link with a short one, which is needed at this moment only:
// a link counts with its own length.
func bind(dir, name string) (*net.UnixListener, error) {
	path := filepath.Join(dir, name)
	if len(path) > toolwire.MaxSocketPath {
		short, err := os.MkdirTemp("", "sb")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(short) }()
		link := filepath.Join(short, "d")
		if err := os.Symlink(dir, link); err != nil {
			return nil, err
		}
		path = filepath.Join(link, name)
	}
	return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
}
