package codex

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// Proven are the versions with which the tests of this package prove that a
// model gets no tool but Signalbox's: of these only is more asked than research.
var Proven = []string{"0.163.0", "0.171.0"}

// The settings that a thread is started with, and that its answer must repeat.
const (
	approvalPolicy = "on-request"
	reviewer       = "user"
	sandboxMode    = "read-only"
	sandboxType    = "readOnly"
	historyMode    = "paginated"
)

// featuresOff give a model tools of Codex's own, run programs beside it, or
// fetch what decides what runs.
var featuresOff = []string{
	"shell_tool", "unified_exec", "shell_snapshot", "code_mode", "code_mode_only", "code_mode_host",
	"multi_agent_v2", "goals", "memories", "sleep_tool", "view_image", "image_generation",
	"plugins", "remote_plugin", "plugin_sharing", "apps", "hooks", "tool_suggest",
	"skill_search", "skill_mcp_dependency_install", "browser_use", "browser_use_external", "computer_use", "in_app_browser",
	"workspace_dependencies", "daemon_auto_start", "request_permissions_tool", "exec_permission_approvals",
	"standalone_web_search", "artifact", "chronicle", "current_time_reminder",
	"send_message_to_user_async", "agent_message_board", "deferred_executor",
}

// featuresOn: a question to the operator outside of plan mode.
var featuresOn = []string{"default_mode_request_user_input"}

// settings are the overrides of the user's configuration, as TOML. They go
// before the process reads anything: some features act at its start already.
func settings(catalog string) []string {
	all := []string{
		`approval_policy="` + approvalPolicy + `"`,
		`approvals_reviewer="` + reviewer + `"`,
		`sandbox_mode="` + sandboxMode + `"`,
		`web_search="disabled"`,
		`notify=[]`,
		`check_for_update_on_startup=false`,
		`project_doc_max_bytes=0`,
		`include_permissions_instructions=false`,
		`include_environment_context=false`,
		`include_apps_instructions=false`,
		`include_collaboration_mode_instructions=false`,
		`history.persistence="none"`,
		`skills.include_instructions=false`,
		`skills.bundled.enabled=false`,
		`orchestrator.skills.enabled=false`,
		`tools.experimental_request_user_input.enabled=true`,
		`agents.enabled=false`,
		`analytics.enabled=false`,
		`feedback.enabled=false`,
		`model_catalog_json=` + quoted(catalog),
	}
	for _, f := range featuresOff {
		all = append(all, "features."+f+"=false")
	}
	for _, f := range featuresOn {
		all = append(all, "features."+f+"=true")
	}
	return all
}

// quoted is a TOML string: JSON's escapes are a part of TOML's.
func quoted(s string) string {
	b, _ := json.Marshal(s) // a string always marshals
	return string(b)
}

// arguments are those of the app-server: the configuration's own first, so that
// ours win.
func arguments(own []string, catalog string) []string {
	args := append([]string{"app-server", "--strict-config"}, own...)
	for _, s := range settings(catalog) {
		args = append(args, "-c", s)
	}
	return args
}

// misplaced says why the arguments of a configuration cannot be passed on, ""
// if they can: only overrides of settings may be given.
func misplaced(args []string) string {
	for i := 0; i < len(args); i += 2 {
		if args[i] != "-c" && args[i] != "--config" || i+1 == len(args) || !strings.Contains(args[i+1], "=") {
			return "The arguments of a Codex agent may only be pairs of -c and key=value, such as -c and model=\"gpt-5.5\"; change its configuration."
		}
	}
	return ""
}

// effective is what config/read says of the settings that matter.
type effective struct {
	Model     string          `json:"model"`
	Provider  string          `json:"model_provider"`
	Approval  json.RawMessage `json:"approval_policy"`
	Reviewer  string          `json:"approvals_reviewer"`
	Sandbox   string          `json:"sandbox_mode"`
	WebSearch string          `json:"web_search"`
	Notify    []string        `json:"notify"`
	Agents    struct {
		Enabled *bool `json:"enabled"`
	} `json:"agents"`
	Features map[string]json.RawMessage `json:"features"`
	Servers  map[string]json.RawMessage `json:"mcp_servers"`
}

// differs names the first setting that is not in force as asked, such as one
// that an administrator's configuration overrides; "" when all are.
func (e effective) differs() string {
	for _, s := range []struct {
		name string
		ok   bool
	}{
		{"approval_policy", string(e.Approval) == `"`+approvalPolicy+`"`},
		{"approvals_reviewer", e.Reviewer == reviewer},
		{"sandbox_mode", e.Sandbox == sandboxMode},
		{"web_search", e.WebSearch == "disabled"},
		{"notify", len(e.Notify) == 0},
		{"agents.enabled", e.Agents.Enabled != nil && !*e.Agents.Enabled},
	} {
		if !s.ok {
			return s.name
		}
	}
	for _, f := range featuresOff {
		if string(e.Features[f]) != "false" {
			return "features." + f
		}
	}
	return ""
}

// override turns the user's MCP servers off, for the one thread. Tables of an
// override are merged into the user's, so each has to be named.
func (e effective) override() map[string]any {
	servers := map[string]any{}
	for name := range e.Servers {
		servers[name] = map[string]any{"enabled": false}
	}
	return map[string]any{"mcp_servers": servers}
}

// check compares what a thread says is in force with what was asked for. A
// difference is a reason not to send work.
func (r threadResult) check(want effective, ephemeral bool) error {
	bad := func(cause, name, got string) error {
		return &provider.Unsent{Cause: cause, Message: fmt.Sprintf("Codex started the thread with another %s than it was asked for, %s; nothing was sent.", name, stdio.Quote(got))}
	}
	network := "absent"
	if r.Sandbox.Network != nil {
		network = fmt.Sprint(*r.Sandbox.Network)
	}
	switch {
	case r.Thread.ID == "" || len(r.Thread.ID) > maxID:
		return &stdio.Fault{Cause: provider.CauseProtocol, Reason: "Codex's answer to thread/start has no usable thread id."}
	case r.Sandbox.Type != sandboxType:
		return bad(provider.CauseConfig, "sandbox", r.Sandbox.Type)
	case network != "false":
		return bad(provider.CauseConfig, "network access", network)
	case string(r.ApprovalPolicy) != `"`+approvalPolicy+`"`:
		return bad(provider.CauseConfig, "approval policy", string(r.ApprovalPolicy))
	case r.Reviewer != reviewer:
		return bad(provider.CauseConfig, "reviewer", r.Reviewer)
	case len(r.Profile) > 0 && string(r.Profile) != "null":
		return bad(provider.CauseConfig, "permission profile", string(r.Profile))
	case want.Model != "" && r.Model != want.Model:
		return bad(provider.CauseConfig, "model", r.Model)
	case want.Provider != "" && r.Provider != want.Provider:
		return bad(provider.CauseConfig, "model provider", r.Provider)
	case r.Thread.Ephemeral != ephemeral || !ephemeral && r.Thread.History != historyMode:
		return bad(provider.CauseProtocol, "history", r.Thread.History)
	case r.Thread.Status.Type != "" && r.Thread.Status.Type != "idle":
		return bad(provider.CauseProtocol, "status", r.Thread.Status.Type)
	}
	return nil
}

// proven reports whether a version is one of Proven.
func proven(version string) bool { return slices.Contains(Proven, version) }
