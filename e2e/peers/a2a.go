package peers

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The peers of A2A are installed apart from the others, each by a lock file of
// its own: two versions of one SDK do not go into one tree.
var (
	a2aJS03Installed = sync.OnceValues(func() (string, error) { return installA2A("js03") })
	a2aJS1Installed  = sync.OnceValues(func() (string, error) { return installA2A("js1") })
	a2aGoInstalled   = sync.OnceValues(func() (string, error) {
		return install("a2a-go2", "a2a/go2", goagentFiles, func(ctx context.Context, source, cache string) error {
			return run(ctx, source, "go", "build", "-trimpath", "-o", filepath.Join(cache, "a2a-go2"), ".")
		})
	})
)

// a2aPrograms are what runs on each of the JavaScript SDKs.
var a2aPrograms = map[string][]string{"js03": {"server.mjs"}, "js1": {"server.mjs", "sign.mjs"}}

// installA2A installs a server on the JavaScript SDK: 74 packages in 3 s.
func installA2A(name string) (string, error) {
	programs := a2aPrograms[name]
	files := slices.Concat(programs, npmFiles)
	return install("a2a-"+name, "a2a/"+name, files, func(ctx context.Context, source, cache string) error {
		dir := filepath.Join(cache, "a2a-"+name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		for _, program := range programs {
			content, err := os.ReadFile(filepath.Join(source, program))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, program), content, 0o600); err != nil {
				return err
			}
		}
		return installNPM(ctx, source, dir)
	})
}

// A2A is a running peer that speaks A2A on loopback, and one of the versions
// that it speaks.
type A2A struct {
	// Name says which SDK it is on.
	Name string
	// Version is "0.3" or "1.0".
	Version string
	// Origin is that of the card and of the interfaces.
	Origin string
}

// Card is the address of the peer's card.
func (p A2A) Card() string { return p.Origin + "/.well-known/agent-card.json" }

// Submissions is how many tasks and direct messages the peer was asked for.
func (p A2A) Submissions(t testing.TB) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.Origin+"/submissions", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 100))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// SignedCard is a card of A2A 1.0 with the key that it was signed with.
type SignedCard struct {
	// Card is the card as it is served.
	Card string `json:"card"`
	// Key is a JSON Web Key.
	Key json.RawMessage `json:"key"`
}

// A2ASignedCards are cards for a peer at origin that @a2a-js/sdk 1.3.0 signed,
// by ES256, RS256 and EdDSA.
func A2ASignedCards(t testing.TB, origin string) []SignedCard {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), node(t), installed(t, a2aJS1Installed, "a2a-js1", "sign.mjs"))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "ORIGIN=" + origin}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("sign the cards: %v", err)
	}
	var cards []SignedCard
	if err := json.Unmarshal(out, &cards); err != nil {
		t.Fatal(err)
	}
	return cards
}

// A2AEndpoints starts four servers on three official SDKs and gives their five
// endpoints: @a2a-js/sdk 0.3.14; 1.3.0; 1.3.0 with its compatibility, as 0.3;
// a2a-go v2.4.0 as 1.0 and as 0.3. They end with the test. How they differ was
// measured: some of them close a stream where others answer with an error, label
// errors as text, or say of a task that is over that it does not exist.
func A2AEndpoints(t testing.TB) []A2A {
	t.Helper()
	js03 := startA2A(t, a2aJS03Installed, "a2a-js03")
	js1 := startA2A(t, a2aJS1Installed, "a2a-js1")
	compatible := startA2A(t, a2aJS1Installed, "a2a-js1", "COMPAT=1")
	go2 := startA2A(t, a2aGoInstalled, "a2a-go2")
	return []A2A{
		{"js-0.3.14", "0.3", js03}, {"js-1.3.0", "1.0", js1}, {"js-1.3.0-compatible", "0.3", compatible},
		{"go-2.4.0", "1.0", go2}, {"go-2.4.0-compatible", "0.3", go2},
	}
}

// GoA2A starts the server on a2a-go v2.4.0 and gives its endpoint for 1.0.
func GoA2A(t testing.TB) A2A {
	t.Helper()
	return A2A{"go-2.4.0", "1.0", startA2A(t, a2aGoInstalled, "a2a-go2")}
}

// startA2A starts a server in a process group of its own, which ends with the
// test, and gives its origin.
func startA2A(t testing.TB, part func() (string, error), name string, env ...string) string {
	t.Helper()
	var cmd *exec.Cmd
	if name == "a2a-go2" {
		cmd = exec.CommandContext(t.Context(), installed(t, part, name))
	} else {
		cmd = exec.CommandContext(t.Context(), node(t), installed(t, part, name, "server.mjs"))
	}
	cmd.Env = append(env, "PATH="+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	ready := make(chan string, 1)
	go func() {
		defer close(ready)
		line, _ := bufio.NewReader(out).ReadBytes('\n')
		var said struct {
			Origin string `json:"origin"`
		}
		_ = json.Unmarshal(line, &said) // an empty origin is told below
		ready <- said.Origin
	}()
	select {
	case origin := <-ready:
		if origin == "" {
			t.Fatalf("%s ended before it was ready", name)
		}
		return origin
	case <-time.After(60 * time.Second):
		t.Fatalf("%s was not ready within 60 s", name)
	}
	return ""
}
