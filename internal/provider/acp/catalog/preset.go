package catalog

import "slices"

// Suggestion is a way in which a known agent might be registered. It proves
// nothing: only an inspection does.
type Suggestion struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Program is the base name to look for on the PATH, "" when the agent is
	// a script for an interpreter.
	Program   string            `json:"program,omitempty"`
	Args      []string          `json:"args,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	RandomEnv []string          `json:"random_env,omitempty"`
	Mode      string            `json:"mode,omitempty"`
	// State are the folders of its own state, relative to the home directory.
	State []string `json:"state,omitempty"`
	// Login says how a person logs the agent in.
	Login string   `json:"login,omitempty"`
	Notes []string `json:"notes,omitempty"`
	// Floating marks a command that would fetch the agent at each start.
	Floating bool `json:"floating,omitempty"`
}

// presets are the agents that were looked at with the real programs, or whose
// makers publish the command.
var presets = []Suggestion{
	{ID: "opencode", Name: "OpenCode", Program: "opencode", Args: []string{"acp", "--pure"},
		Env:       map[string]string{"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"},
		RandomEnv: []string{"OPENCODE_SERVER_PASSWORD"},
		Login:     "Run 'opencode auth login'.",
		Notes:     []string{"It opens an HTTP port on loopback; the random password keeps other programs out of it.", "Its tools run unasked unless its configuration has \"permission\": {\"*\": \"ask\"}."}},
	{ID: "opencode-edit", Name: "OpenCode, editing through Signalbox", Program: "opencode", Args: []string{"acp", "--pure"},
		Env: map[string]string{
			"OPENCODE_CONFIG_CONTENT": openCodeEdits, "MODEL_NAME": "NAME", "OPENCODE_DISABLE_PROJECT_CONFIG": "1", "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
			"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
		},
		RandomEnv: []string{"OPENCODE_SERVER_PASSWORD"},
		State:     []string{".local/share/opencode", ".local/state/opencode", ".cache/opencode"},
		Login:     "Name the model with --env MODEL_NAME=NAME and --model-url URL; map its key with --env-from MODEL_API_KEY=VARIABLE.",
		Notes: []string{"Its own tools are denied and the system keeps its writes to its own state, whose folders must be there, like ~/.config/opencode, to which it may not write: run it once before.",
			"It takes its model from an API of OpenAI's kind (chat completions)."}},
	{ID: "claude-agent-acp", Name: "Claude Agent", Program: "claude-agent-acp", Mode: "default",
		Env:   map[string]string{"DISABLE_AUTOUPDATER": "1"},
		Login: "Run 'claude' and log in, or map ANTHROPIC_API_KEY.",
		Notes: []string{"Its own default mode runs tools without asking; the mode default asks."}},
	{ID: "codex-acp", Name: "Codex (ACP adapter)", Program: "codex-acp", Mode: "read-only",
		Login: "Run 'codex login'.",
		Notes: []string{"Its own default mode lets a model approve instead of you; the mode read-only asks you."}},
	{ID: "gemini-cli", Name: "Gemini CLI", Program: "gemini", Args: []string{"--acp"}, Mode: "default",
		Env:   map[string]string{"GEMINI_CLI_NO_RELAUNCH": "true"},
		Login: "Run 'gemini' and log in, or map GEMINI_API_KEY.",
		Notes: []string{"Tools that its settings list under tools.core run unasked."}},
	{ID: "goose", Name: "goose", Program: "goose", Args: []string{"acp"}, Login: "Run 'goose configure'."},
	{ID: "cursor", Name: "Cursor Agent", Program: "cursor-agent", Args: []string{"acp"}, Login: "Run 'cursor-agent login'."},
	{ID: "github-copilot-cli", Name: "GitHub Copilot CLI", Program: "copilot", Args: []string{"--acp"}, Login: "Run 'copilot' and use /login."},
	{ID: "qwen-code", Name: "Qwen Code", Program: "qwen", Args: []string{"--acp"}, Login: "Run 'qwen' and log in."},
	{ID: "kimi", Name: "Kimi CLI", Program: "kimi", Args: []string{"acp"}, Login: "Run 'kimi login'."},
	{ID: "auggie", Name: "Auggie", Program: "auggie", Args: []string{"--acp"}, Env: map[string]string{"AUGMENT_DISABLE_AUTO_UPDATE": "1"}, Login: "Run 'auggie login'."},
	{ID: "factory-droid", Name: "Factory Droid", Program: "droid", Args: []string{"exec", "--output-format", "acp"}},
	{ID: "fast-agent", Name: "fast-agent", Program: "fast-agent-acp", Args: []string{"-x"}},
}

// openCodeEdits is a configuration of OpenCode (1.18.33, measured) in which no
// tool of its own is offered and those of Signalbox run without OpenCode's
// asking, because Signalbox asks. Its provider is part of the program, so that
// nothing is fetched, and {env:...} is OpenCode's own.
const openCodeEdits = `{"autoupdate":false,"share":"disabled","snapshot":false,"lsp":false,"formatter":false,` +
	`"model":"signalbox/{env:MODEL_NAME}","small_model":"signalbox/{env:MODEL_NAME}","enabled_providers":["signalbox"],` +
	`"provider":{"signalbox":{"npm":"@ai-sdk/openai-compatible","name":"Model","env":["MODEL_API_KEY"],"options":{"baseURL":"{model_url}"},` +
	`"models":{"{env:MODEL_NAME}":{"name":"{env:MODEL_NAME}","tool_call":true,"limit":{"context":100000,"output":8000}}}}},` +
	`"tools":{"*":false,"signalbox_*":true},"permission":{"*":"deny","signalbox_*":"allow"}}`

// Presets lists the built-in suggestions.
func Presets() []Suggestion { return slices.Clone(presets) }

// Preset finds a built-in suggestion by its id, false if there is none.
func Preset(id string) (Suggestion, bool) {
	at := slices.IndexFunc(presets, func(s Suggestion) bool { return s.ID == id })
	if at < 0 {
		return Suggestion{}, false
	}
	return presets[at], true
}
