package peers

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Spec is how one peer is started. It speaks ACP on standard input and
// output, except for the clients, which are started without input.
type Spec struct {
	// Executable is an absolute path.
	Executable string
	Args       []string
	// Env is the whole environment of the process.
	Env map[string]string
}

// Command makes a command from the spec. The caller sets its pipes, gives it
// a process group and awaits it.
func (s Spec) Command(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.Executable, s.Args...)
	cmd.Env = []string{}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		cmd.Env = append(cmd.Env, name+"="+s.Env[name])
	}
	return cmd
}

// OpenCode is a coding agent that takes its model from modelURL, the base
// address of a chat-completions API such as http://127.0.0.1:8899/v1. It is
// the binary of opencode-linux-x64: elsewhere it is not available.
//
// It answers initialize after 3 to 9 s and session/new after 2 to 3 s more.
// Its first request to the model asks for a title, without tools. Each tool
// call asks for a permission with the options once (allow_once), always
// (allow_always) and reject (reject_once); rejected, it ends the turn.
//
// It also listens on 127.0.0.1:4096 with an HTTP API that could bypass the
// permissions. The password closes that door. Several may run at once: where
// the port is taken, OpenCode takes another.
func OpenCode(t testing.TB, modelURL string) Spec {
	t.Helper()
	binary := installed(t, npmInstalled, "node_modules", "opencode-linux-x64", "bin", "opencode")
	home := t.TempDir()
	config, err := json.Marshal(map[string]any{
		"autoupdate": false, "share": "disabled", "snapshot": false, "lsp": false, "formatter": false,
		"model": "mock/mock-model", "small_model": "mock/mock-model",
		"enabled_providers": []string{"mock"},
		"provider": map[string]any{"mock": map[string]any{
			// This provider is part of the binary: nothing is fetched.
			"npm":     "@ai-sdk/openai-compatible",
			"options": map[string]any{"baseURL": modelURL, "apiKey": "not-a-secret"},
			"models": map[string]any{"mock-model": map[string]any{
				"name": "Mock", "tool_call": true,
				"limit": map[string]any{"context": 100000, "output": 8000},
			}},
		}},
		"permission": map[string]any{"*": "ask"},
	})
	if err != nil {
		t.Fatalf("encode the configuration of OpenCode: %v", err)
	}
	env := private(home)
	maps.Copy(env, map[string]string{
		"OPENCODE_CONFIG_CONTENT":          string(config),
		"OPENCODE_DISABLE_PROJECT_CONFIG":  "1",
		"OPENCODE_DISABLE_AUTOUPDATE":      "1",
		"OPENCODE_DISABLE_MODELS_FETCH":    "1",
		"OPENCODE_DISABLE_LSP_DOWNLOAD":    "1",
		"OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
		"OPENCODE_SERVER_PASSWORD":         rand.Text(),
	})
	return Spec{Executable: binary, Args: []string{"acp", "--pure"}, Env: env}
}

// SDKExampleAgent is the example agent of @agentclientprotocol/sdk 0.12.0,
// unmodified. It ignores the prompt: it says two sentences, reports two tool
// calls, asks for one permission with the options allow (allow_once) and
// reject (reject_once), and ends the turn after about five seconds.
func SDKExampleAgent(t testing.TB) Spec {
	t.Helper()
	script := installed(t, npmInstalled, "node_modules", "@agentclientprotocol", "sdk", "dist", "examples", "agent.js")
	return Spec{Executable: node(t), Args: []string{script}, Env: private(t.TempDir())}
}

// SDKExampleClient is the example client of the same package, unmodified,
// talking to agent. It sends the prompt "Hello, agent!", prints what it gets
// for a person to read, a last line "Agent completed with: end_turn" among
// it, and always exits with 0. It reads the answer to a permission from its
// standard input, as the number of the option.
//
// The client starts its agent with `npx tsx agent.ts`. A directory with a
// program npx, first on its PATH, puts agent in that place.
func SDKExampleClient(t testing.TB, agent Spec) Spec {
	t.Helper()
	script := installed(t, npmInstalled, "node_modules", "@agentclientprotocol", "sdk", "dist", "examples", "client.js")
	home := t.TempDir()
	shim := filepath.Join(home, "bin")
	if err := os.Mkdir(shim, 0o700); err != nil {
		t.Fatalf("make the directory of the stand-in for npx: %v", err)
	}
	// A file that is being written must not be executed: WriteFile closes it
	// before the client starts.
	if err := os.WriteFile(filepath.Join(shim, "npx"), []byte(agentScript(agent)), 0o700); err != nil {
		t.Fatalf("write the stand-in for npx: %v", err)
	}
	env := private(home)
	env["PATH"] = shim + string(os.PathListSeparator) + env["PATH"]
	return Spec{Executable: node(t), Args: []string{script}, Env: env}
}

// GoSDKAgent is the agent of the directory goagent, on the Go SDK. It echoes
// the prompt in chunks of eight characters; the words "ask" and "wait" in the
// prompt make it ask for a permission and wait for a cancel. It answers
// initialize within milliseconds.
func GoSDKAgent(t testing.TB) Spec {
	t.Helper()
	return Spec{Executable: installed(t, goagentInstalled, "goagent"), Env: private(t.TempDir())}
}

// ACPX is the headless client acpx, sending prompt to agent: one process, one
// session, one prompt. It denies every permission, prints each frame of the
// conversation as one JSON line, and exits with 0 when the turn ended. It
// does not check the protocol version, so it is no judge of strictness.
func ACPX(t testing.TB, agent Spec, prompt string) Spec {
	t.Helper()
	cli := installed(t, npmInstalled, "node_modules", "acpx", "dist", "cli.js")
	home := t.TempDir()
	wrapper := filepath.Join(home, "agent")
	if err := os.WriteFile(wrapper, []byte(agentScript(agent)), 0o700); err != nil {
		t.Fatalf("write the command of the agent: %v", err)
	}
	return Spec{
		Executable: node(t),
		Args: []string{
			cli, "--agent", wrapper, "--cwd", home, "--no-fs", "--no-terminal", "--deny-all",
			"--format", "json", "--timeout", "60", "exec", prompt,
		},
		Env: private(home),
	}
}

// agentScript is a shell script that becomes the agent, with the environment of
// its spec and no other.
func agentScript(agent Spec) string {
	words := []string{"exec", "env", "-i"}
	for _, name := range slices.Sorted(maps.Keys(agent.Env)) {
		words = append(words, quote(name+"="+agent.Env[name]))
	}
	words = append(words, quote(agent.Executable))
	for _, arg := range agent.Args {
		words = append(words, quote(arg))
	}
	return "#!/bin/sh\n" + strings.Join(words, " ") + "\n"
}

// quote makes one word of the shell from any text.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// private is an environment in which a program finds the usual programs and
// keeps its files in home.
func private(home string) map[string]string {
	return map[string]string{
		"PATH":            os.Getenv("PATH"),
		"HOME":            home,
		"TMPDIR":          home,
		"XDG_CONFIG_HOME": filepath.Join(home, "config"),
		"XDG_DATA_HOME":   filepath.Join(home, "data"),
		"XDG_STATE_HOME":  filepath.Join(home, "state"),
		"XDG_CACHE_HOME":  filepath.Join(home, "cache"),
	}
}

// installed installs a part of the peers and gives the path of one of its
// files.
func installed(t testing.TB, part func() (string, error), elem ...string) string {
	t.Helper()
	cache, err := part()
	if err != nil {
		missing(t, err)
	}
	path := filepath.Join(append([]string{cache}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		missing(t, fmt.Errorf("%w: %s was not installed on this platform", ErrUnavailable, filepath.Join(elem...)))
	}
	return path
}

// node gives the absolute path of this machine's Node.js.
func node(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("node")
	if err != nil {
		missing(t, fmt.Errorf("%w: Node.js is not installed", ErrUnavailable))
	}
	path, err = filepath.Abs(path)
	if err != nil {
		t.Fatalf("find node: %v", err)
	}
	return path
}

// missing ends a test that lacks its peer. In CI that is a failure: a test
// that did not run has proven nothing.
func missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") == "" && errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	t.Fatal(err)
}
