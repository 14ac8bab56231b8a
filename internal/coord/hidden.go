package coord

import (
	"slices"
	"strings"
)

// hidden are the names, in lower case, that hold credentials by convention, or
// the runtime's own metadata, at any depth of a workspace. A tool that reads
// its configuration from the workspace (bunfig.toml) can be made to run code
// there, so that counts as well.
var hidden = []string{
	".git", ".hg", ".svn", ".jj",
	".npmrc", ".yarnrc", ".yarnrc.yml", ".netrc", "_netrc", ".pypirc", ".git-credentials", ".gitconfig", ".htpasswd",
	".ssh", ".aws", ".azure", ".gcloud", ".gnupg", ".docker", ".kube", ".password-store", ".vault-token",
	"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "bunfig.toml", ".bunfig.toml",
}

// HiddenName reports whether a file or folder of this name, whatever its case,
// is kept from agents and from confined tests. name is one element of a path.
func HiddenName(name string) bool {
	n := strings.ToLower(name)
	if n == ".env" || strings.HasPrefix(n, ".env.") || strings.HasSuffix(n, ".pem") || strings.HasSuffix(n, ".key") {
		return true
	}
	return slices.Contains(hidden, n)
}
