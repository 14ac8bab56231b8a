package peers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// installTimeout bounds one installation: measured 20 s for the npm packages
// (222 MB) and 10 s for the agent on an idle machine with two cores.
const installTimeout = 8 * time.Minute

// errInstallSlow is the cause of an installation that ran into its bound.
var errInstallSlow = errors.New("the peers were not installed within 8 minutes")

// ErrUnavailable marks an installation that failed for a reason outside of
// the project: a missing program or a registry that cannot be reached.
var ErrUnavailable = errors.New("peer not available here")

// npmFiles are what decides which packages are installed.
var npmFiles = []string{"package.json", "package-lock.json", ".npmrc"}

// goagentFiles are what decides how the agent on the Go SDK is built.
var goagentFiles = []string{"main.go", "go.mod", "go.sum"}

// Install puts the peers into .cache/peers of the checkout and returns that
// directory. Errors are ErrUnavailable or faults of the project, such as a
// lock file that does not fit.
func Install() (string, error) {
	for _, part := range []func() (string, error){npmInstalled, a2aJS03Installed, a2aJS1Installed, a2aGoInstalled} {
		if cache, err := part(); err != nil {
			return cache, err
		}
	}
	return goagentInstalled()
}

// Each part is installed once in a process, and its failure remembered: a
// registry that cannot be reached would cost every test its time limits.
var (
	npmInstalled     = sync.OnceValues(func() (string, error) { return install("npm", ".", npmFiles, installNPM) })
	goagentInstalled = sync.OnceValues(func() (string, error) { return install("goagent", "goagent", goagentFiles, buildGoAgent) })
)

// install brings one part up to date and returns the cache directory. A lock
// lets only one process install at a time; what is up to date costs a few
// file reads.
func install(name, dir string, files []string, step func(ctx context.Context, source, cache string) error) (string, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), installTimeout, errInstallSlow)
	defer cancel()
	root, err := checkout()
	if err != nil {
		return "", err
	}
	source, cache := filepath.Join(root, "e2e", "peers", dir), filepath.Join(root, ".cache", "peers")
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(cache, ".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	return cache, once(cache, name, source, files, func() error { return step(ctx, source, cache) })
}

// checkout finds the root of the checkout above the working directory, which
// for a test is the directory of its package.
func checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "e2e", "peers", "package-lock.json")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no checkout of Signalbox above the working directory: run this inside of one")
		}
		dir = parent
	}
}

// lock waits for the lock file and holds it until unlock is called or the
// process ends. The tests of several packages run as processes of their own.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", filepath.Base(path), err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// once runs install unless its stamp says that the same files were installed
// before. The stamp is written last, so a broken installation is made anew.
func once(cache, name, source string, files []string, install func() error) error {
	want, err := digest(source, files)
	if err != nil {
		return err
	}
	stamp := filepath.Join(cache, "."+name+"-installed")
	if have, err := os.ReadFile(stamp); err == nil && string(have) == want {
		return nil
	}
	if err := install(); err != nil {
		return err
	}
	return os.WriteFile(stamp, []byte(want), 0o600)
}

func digest(dir string, files []string) (string, error) {
	h := sha256.New()
	for _, name := range files {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", name, len(content), content)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// installNPM runs npm ci, which installs exactly what the lock file names and
// checks each package against its hash. No package runs a script.
func installNPM(ctx context.Context, source, cache string) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return fmt.Errorf("%w: npm is not installed: install Node.js 20 or newer", ErrUnavailable)
	}
	for _, name := range npmFiles {
		content, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(cache, name), content, 0o600); err != nil {
			return err
		}
	}
	return run(ctx, cache, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
}

func buildGoAgent(ctx context.Context, source, cache string) error {
	return run(ctx, source, "go", "build", "-trimpath", "-o", filepath.Join(cache, "goagent"), ".")
}

// unreachable are the marks of a registry or proxy that does not answer.
var unreachable = []string{
	"ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH",
	"no such host", "connection refused", "i/o timeout", "network is unreachable", "module lookup disabled",
}

// run runs one step of an installation. The end of its output is part of the
// error, since it is all that a person has to go by.
func run(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	const tail = 2000
	text := string(out[max(0, len(out)-tail):])
	err = fmt.Errorf("%s %s in %s: %w\n%s", filepath.Base(name), args[0], filepath.Base(dir), err, text)
	for _, mark := range unreachable {
		if strings.Contains(text, mark) {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	return err
}
