package coord

import (
	"slices"
	"strings"
)

// Route is the kind of way to an agent.
type Route string

// The routes.
const (
	RouteACP    Route = "acp"
	RouteCodex  Route = "codex"
	RouteA2A    Route = "a2a"
	RouteTincan Route = "tincan"
)

// Askable reports whether the outcome of an attempt on this route can still
// be asked for after the connection, or this process, is gone. A cut on an
// askable route is no loss once there is a receipt.
func (r Route) Askable() bool { return r == RouteA2A || r == RouteTincan }

// Locality is where an agent runs, seen from its host.
type Locality string

// The localities.
const (
	LocalityLocal     Locality = "local"
	LocalitySSH       Locality = "ssh"
	LocalityContainer Locality = "container"
	LocalityRemote    Locality = "remote"
)

// Agent is an entry of the directory. Its configuration is immutable and
// numbered: an edit makes a new revision, and what was frozen with an older
// one keeps it.
type Agent struct {
	ID AgentID `json:"id"`
	// Name is for people; the ID when none was given.
	Name     string   `json:"name"`
	Route    Route    `json:"route"`
	Host     string   `json:"host"`
	Locality Locality `json:"locality"`
	Enabled  bool     `json:"enabled"`
	// Removed agents stay for the history that names them.
	Removed bool `json:"removed,omitempty"`
	// Revision is that of Config, from 1.
	Revision int         `json:"revision"`
	Config   AgentConfig `json:"config"`
	// Declared agents come from the configuration file and change only there.
	Declared   bool        `json:"declared,omitempty"`
	Changed    Moment      `json:"changed"`
	Inspection *Inspection `json:"inspection,omitempty"`
}

// AgentConfig is one revision of what an operator registered. Secrets are
// never in it: EnvFromEnv names variables of the worker's environment.
type AgentConfig struct {
	Name     string   `json:"name,omitempty" toml:"name"`
	Route    Route    `json:"route" toml:"route"`
	Locality Locality `json:"locality,omitempty" toml:"locality"`
	// Executable is an absolute path.
	Executable string   `json:"executable,omitempty" toml:"executable"`
	Args       []string `json:"args,omitempty" toml:"args"`
	// Env holds plain settings for the child's environment.
	Env map[string]string `json:"env,omitempty" toml:"env"`
	// EnvFromEnv maps a variable of the child to the variable of the worker
	// whose value it gets at the start of the child.
	EnvFromEnv map[string]string `json:"env_from_env,omitempty" toml:"env_from_env"`
	// RandomEnv lists variables that get a fresh random value at each start,
	// such as the password of a port that the agent opens.
	RandomEnv []string `json:"random_env,omitempty" toml:"random_env"`
	// State names the folders in which the agent keeps its own state. With any,
	// the operating system lets it, and all that it starts, write nowhere else
	// but in a private folder that is removed with it. Each is the canonical
	// path of an existing folder.
	State []string `json:"state,omitempty" toml:"state"`
	// ModelURL is the base address of the agent's model API. It stands wherever
	// Args and Env have ModelURLMark. A proof of what the agent does puts an
	// address on loopback there and changes nothing else.
	ModelURL string `json:"model_url,omitempty" toml:"model_url"`
	// Mode is the session mode to set before the prompt, where the agent's own
	// default asks nobody.
	Mode string `json:"mode,omitempty" toml:"mode"`
	// Preset names the suggestion that this configuration started from.
	Preset string `json:"preset,omitempty" toml:"preset"`
	// A2A is set on the route a2a, and there alone.
	A2A *A2AConfig `json:"a2a,omitempty" toml:"a2a"`
	// Tincan is set on the route tincan, and there alone.
	Tincan *TincanConfig `json:"tincan,omitempty" toml:"tincan"`
}

// A2AConfig is where a peer that speaks A2A is, and what it may be told.
type A2AConfig struct {
	// Card is the address of the peer's card, fetched as it stands here.
	Card string `json:"card" toml:"card"`
	// Origin is the exact origin that work goes to, as in https://host:8443. An
	// interface of the card at any other origin is refused.
	Origin string `json:"origin" toml:"origin"`
	// Version is that of the protocol, "0.3" or "1.0". Nothing falls back to
	// another one.
	Version string `json:"version" toml:"version"`
	// Credential names a [credentials.NAME] of the configuration file, whose
	// value goes to its own origin as a bearer token. "" sends none.
	Credential string `json:"credential,omitempty" toml:"credential"`
	// Private approves that the names resolve to private or loopback addresses,
	// and then to these alone; it is the only way that http is allowed.
	Private bool `json:"private,omitempty" toml:"private"`
	// CA is the absolute path of a PEM file whose certificates are trusted for
	// this peer in place of the system's.
	CA string `json:"ca,omitempty" toml:"ca"`
	// Keys is the absolute path of a JSON Web Key Set (RFC 7517) that the card's
	// signatures are verified with. Without it no signature is called verified.
	Keys string `json:"keys,omitempty" toml:"keys"`
}

// TincanConfig is a peer that the program in AgentConfig.Executable, tincan,
// reaches under one profile.
type TincanConfig struct {
	// Peer is the exact name of the peer.
	Peer string `json:"peer" toml:"peer"`
	// Profile is the absolute path of the file that says who we are there. It
	// becomes TINCAN_CONFIG of the program.
	Profile string `json:"profile" toml:"profile"`
	// Dialect is what the program answers in: "json", or "text" for a version
	// that does not know --json.
	Dialect string `json:"dialect" toml:"dialect"`
}

// Where says in one line where the agent is: its program with the arguments, or
// the peer and what leads to it.
func (c AgentConfig) Where() string {
	switch {
	case c.A2A != nil:
		return c.A2A.Origin + ", card from " + c.A2A.Card
	case c.Tincan != nil:
		return c.Tincan.Peer + " through " + c.Executable
	default:
		return strings.TrimSpace(c.Executable + " " + strings.Join(c.Args, " "))
	}
}

// ModelURLMark is what stands for the address of the model in a configuration.
const ModelURLMark = "{model_url}"

// Identity says which program an agent is: each file that decides what runs,
// with the hash of its content.
type Identity struct {
	Files   []IdentityFile `json:"files"`
	Version string         `json:"version,omitempty"`
}

// IdentityFile is one file of an identity.
type IdentityFile struct {
	// Role is "launcher", "interpreter", "script", "package", "profile", "card",
	// "certificates" or "keys".
	Role string `json:"role"`
	// Path has its symbolic links resolved; of a card it is the address.
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// Diff says in words what differs between the identity that was approved and
// the one found now; none when the files are the same, in any order. Where
// files of one role are missing and others of that role are new, they are told
// as moved. The version is a claim of the agent and decides nothing.
func (i Identity) Diff(now Identity) []string {
	var out []string
	var gone []IdentityFile
	extra := slices.Clone(now.Files)
	for _, f := range i.Files {
		at := slices.IndexFunc(extra, func(g IdentityFile) bool { return g.Role == f.Role && g.Path == f.Path })
		if at < 0 {
			gone = append(gone, f)
			continue
		}
		if extra[at].SHA256 != f.SHA256 {
			out = append(out, f.Role+" "+f.Path+" has other content")
		}
		extra = slices.Delete(extra, at, at+1)
	}
	for _, f := range gone {
		at := slices.IndexFunc(extra, func(g IdentityFile) bool { return g.Role == f.Role })
		if at < 0 {
			out = append(out, f.Role+" "+f.Path+" is gone")
			continue
		}
		out = append(out, f.Role+" moved from "+f.Path+" to "+extra[at].Path)
		extra = slices.Delete(extra, at, at+1)
	}
	for _, g := range extra {
		out = append(out, g.Role+" "+g.Path+" is new")
	}
	return out
}

// AuthState is what an inspection saw of an agent's login.
type AuthState string

// The auth states.
const (
	AuthReady    AuthState = "ready"
	AuthRequired AuthState = "required"
	AuthUnknown  AuthState = "unknown"
)

// Inspection is what was observed about one configuration revision.
type Inspection struct {
	Agent    AgentID  `json:"agent"`
	Revision int      `json:"revision"`
	At       Moment   `json:"at"`
	Identity Identity `json:"identity"`
	// Capabilities are what the agent can do, each with its evidence.
	Capabilities []Capability `json:"capabilities"`
	// Operations are what plans may ask of this agent.
	Operations []Operation `json:"operations"`
	Auth       AuthState   `json:"auth"`
	// AuthHint says how a person logs the agent in; Signalbox never does.
	AuthHint string `json:"auth_hint,omitempty"`
	// Warnings are facts the operator should know before approving.
	Warnings []string `json:"warnings,omitempty"`
	// Problem says why the agent cannot be used; "" when it can.
	Problem string `json:"problem,omitempty"`
}

// Usable reports whether a plan may be frozen on this inspection at now.
func (i *Inspection) Usable(now Moment, revision int) bool {
	return i != nil && i.Problem == "" && i.Revision == revision && now.Since(i.At) < InspectionTTL
}

// Capability is one thing an agent can or cannot do.
type Capability struct {
	Name string `json:"name"`
	// Has is whether it can.
	Has bool `json:"has"`
	// Evidence is "declared" (the protocol or the agent says so) or "measured"
	// (a probe on this machine).
	Evidence string `json:"evidence"`
	Detail   string `json:"detail,omitempty"`
}

// CapabilityConfined is the name of the capability that all of an agent's own
// tools are confined by the operating system, as probes on this machine proved.
const CapabilityConfined = "confined"

// CapabilityTools is the name of the capability that an agent's model gets the
// tools of Signalbox and no others: what write and test stand on. Declared, it
// is how the agent is configured, and nothing stands on it before a certificate
// proves it.
const CapabilityTools = "only tools of signalbox"

// The evidences of a capability.
const (
	Declared = "declared"
	Measured = "measured"
)

// Operation is what a task may do.
type Operation string

// The operations.
const (
	Research Operation = "research"
	Read     Operation = "read"
	Write    Operation = "write"
	Test     Operation = "test"
)

// Operations lists every operation.
var Operations = []Operation{Research, Read, Write, Test}
