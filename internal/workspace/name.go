package workspace

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"signalbox/internal/coord"
)

// denial says of names, at any depth, that agents have no access, and why.
type denial struct {
	why string
	// readable names may be listed and read, but not written.
	readable bool
	// patterns are names in lower case, with a * at the beginning or the end
	// for any text.
	patterns []string
}

// denials are the names that agents have no access to. They are matched
// without regard to case and to what Unicode holds for the same characters.
var denials = []denial{
	{why: "credentials", patterns: []string{
		".env*", "*.env", ".npmrc", ".yarnrc*", ".pnpmrc", ".netrc", "_netrc", ".pypirc", ".git-credentials", ".gitconfig",
		".pgpass", ".my.cnf", ".mylogin.cnf", ".htpasswd", ".boto", ".s3cfg", ".dockercfg", ".dockerconfigjson", ".docker",
		".kube", "kubeconfig", ".aws", ".azure", ".gcloud", ".terraformrc", ".terraform.d", "*.tfstate", "*.tfstate.backup",
		".vault-token", ".ssh", ".gnupg", ".password-store", "credentials.json", "credentials.toml", ".credentials*",
		".bash_history", ".zsh_history", ".m2", ".gem", ".cargo", ".config",
	}},
	{why: "a private key", patterns: []string{
		"id_rsa", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk",
	}},
	// NTFS and FAT give .git the second name GIT~1, which git refuses as well.
	{why: "version control's own data, which can make git run programs", patterns: []string{
		".git", "*.git", "git~*", ".hg", ".svn", ".bzr", ".jj", ".sl", "_darcs", ".pijul", "cvs",
	}},
	{why: "an agent's own configuration, which can make it run programs", patterns: []string{
		".codex", ".claude", ".claude.json", ".agents", ".cursor", ".gemini", ".opencode", ".aider*", ".continue", ".windsurf", ".cline*",
		".roo", ".amp", ".goose", ".qwen", ".kiro", ".factory", ".mcp.json", ".signalbox*",
	}},
	{why: "a place from which editors and hooks run programs unasked", readable: true, patterns: []string{
		".vscode", ".idea", ".zed", ".fleet", ".vs", ".devcontainer", ".husky", ".githooks", ".direnv",
	}},
	{why: "a runtime's configuration, which can make tests run programs", patterns: []string{"bunfig.toml", ".bunfig.toml"}},
	{why: "installed packages, which nobody reviews", readable: true, patterns: []string{"node_modules"}},
}

// split checks a path and gives its names, none for the root, ".". It is
// Invalid with the rule that the path breaks.
func split(p string) ([]string, error) {
	switch {
	case p == "" || len(p) > coord.MaxPath:
		return nil, coord.Errorf(coord.Invalid, "a path has 1 to %d bytes, this one %d", coord.MaxPath, len(p))
	case p == ".":
		return nil, nil
	case strings.HasPrefix(p, "/"):
		return nil, refusal(p, "absolute paths are not allowed: write it relative to the workspace")
	case path.Clean(p) != p || p == ".." || strings.HasPrefix(p, "../"):
		return nil, refusal(p, "write the path without '.', '..', and empty names")
	}
	names := strings.Split(p, "/")
	for _, name := range names {
		if why := unspeakable(name); why != "" {
			return nil, refusal(p, why)
		}
		if d := denied(name); d != nil && !d.readable {
			return nil, refusal(p, "agents have no access to "+d.why)
		}
	}
	return names, nil
}

// splitFile is split for the path of a file that is to be written.
func splitFile(p string) ([]string, error) {
	names, err := split(p)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, refusal(p, "it is the workspace itself, not a file")
	}
	for _, name := range names {
		if d := denied(name); d != nil {
			return nil, refusal(p, "agents may not write to "+d.why)
		}
	}
	return names, nil
}

// refusal tells that a rule forbids a path. Long paths are cut: the agent
// knows what it asked for.
func refusal(p, why string) *coord.Error {
	return coord.Errorf(coord.Invalid, "%s is refused: %s", quote(p), why)
}

func quote(p string) string {
	const enough = 200
	if len(p) <= enough {
		return strconv.Quote(p)
	}
	return strconv.Quote(p[:enough/2]) + "…" + strconv.Quote(p[len(p)-enough/2:])
}

// unspeakable says why no path may hold a name, "" if it may.
func unspeakable(name string) string {
	if len(name) > coord.MaxName {
		return fmt.Sprintf("a name has at most %d bytes", coord.MaxName)
	}
	if !utf8.ValidString(name) {
		return "the name is not valid UTF-8"
	}
	for _, r := range name {
		switch {
		case r == '\\' || r == ':':
			return "a name holds neither backslash nor colon, which separate names elsewhere"
		case ' ' <= r && r <= '~': // most are, and the tables take time
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp):
			return "the name holds a control or formatting character"
		case unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
			// Some file systems find .git under a name that holds one of these.
			return "the name holds a character that is not seen"
		}
	}
	return ""
}

// denied gives the denial that a name falls under, nil for none.
func denied(name string) *denial {
	name = fold(name)
	if d, ok := rules().exact[name]; ok {
		return d
	}
	for _, p := range rules().prefixes {
		if strings.HasPrefix(name, p.text) {
			return p.denial
		}
	}
	for _, s := range rules().suffixes {
		if strings.HasSuffix(name, s.text) {
			return s.denial
		}
	}
	// SSH's keys of any kind have no extension, and source files have one.
	if strings.HasPrefix(name, "id_") && !strings.Contains(name, ".") {
		return rules().exact["id_rsa"]
	}
	// What is kept from confined tests is kept from agents.
	if coord.HiddenName(name) {
		return &denial{why: "what is kept from tests"}
	}
	return nil
}

// rules are the denials by the form of their patterns: every name of a listing
// is judged.
var rules = sync.OnceValue(func() ruleset {
	r := ruleset{exact: map[string]*denial{}}
	for i := range denials {
		d := &denials[i]
		for _, p := range d.patterns {
			switch {
			case strings.HasPrefix(p, "*"):
				r.suffixes = append(r.suffixes, affix{p[1:], d})
			case strings.HasSuffix(p, "*"):
				r.prefixes = append(r.prefixes, affix{p[:len(p)-1], d})
			default:
				r.exact[p] = d
			}
		}
	}
	return r
})

type ruleset struct {
	exact              map[string]*denial
	prefixes, suffixes []affix
}

// affix is how a denied name begins or ends.
type affix struct {
	text   string
	denial *denial
}
