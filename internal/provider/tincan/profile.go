package tincan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"signalbox/internal/coord"
	"signalbox/internal/provider/stdio"
)

// The roles of the files of an identity.
const (
	roleLauncher = "launcher"
	roleProfile  = "profile"
)

// maxWord bounds the name of an agent and an address in a profile.
const maxWord = 1 << 10

// profile is what a profile file says of who we are and of the way to the relay.
// The program rewrites the file each day, with the relay's key and addresses;
// these members stay.
type profile struct {
	Path  string `json:"path"`
	Agent string `json:"agent"`
	Relay string `json:"relay"`
	Proxy string `json:"proxy,omitempty"`
	// open is set when other users may read the file, and with it the key.
	open bool
}

// readProfile reads a profile file. Nothing of its content is in an error.
func readProfile(path string) (profile, error) {
	bad := func(code coord.Code, why string) (profile, error) {
		return profile{}, coord.Errorf(code, "The Tincan profile %s %s.", path, why)
	}
	if !filepath.IsAbs(path) {
		return profile{}, coord.Errorf(coord.Invalid, "The Tincan profile must be an absolute path.")
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return bad(coord.NotFound, "does not exist or cannot be reached; join with 'tincan join' and TINCAN_CONFIG set to it")
	}
	st, err := os.Stat(real)
	if err != nil || !st.Mode().IsRegular() {
		return bad(coord.Invalid, "is not a regular file")
	}
	f, err := os.Open(real)
	if err != nil {
		return bad(coord.Forbidden, "cannot be read; check its mode")
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, coord.MaxTincanProfile+1))
	switch {
	case err != nil:
		return bad(coord.Unavailable, "cannot be read to its end")
	case len(data) > coord.MaxTincanProfile:
		return bad(coord.Limit, "is larger than a profile is")
	}
	var p profile
	if json.Unmarshal(data, &p) != nil {
		return bad(coord.Invalid, "is not a profile: it is not JSON of the form that tincan writes")
	}
	p.Path, p.open = real, st.Mode().Perm()&0o077 != 0
	switch {
	case p.Agent == "" || p.Relay == "":
		return bad(coord.Unauthenticated, "belongs to nobody yet; join with 'tincan join' and TINCAN_CONFIG set to it")
	case !word(p.Agent) || !word(p.Relay) || p.Proxy != "" && !word(p.Proxy):
		return bad(coord.Invalid, "names its agent, relay or proxy in a form that cannot be right")
	}
	return p, nil
}

// word reports whether a name of Tincan's may be one: bounded, printable, and
// without a space, which would make it two in a list.
func word(s string) bool {
	if s == "" || len(s) > maxWord || !utf8.ValidString(s) {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// file is the profile in an identity: the hash is over what decides who we are
// and where, not over the file.
func (p profile) file() coord.IdentityFile {
	b, _ := json.Marshal(p) // strings
	sum := sha256.Sum256(b)
	return coord.IdentityFile{Role: roleProfile, Path: p.Path, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(b))}
}

// relay is the relay's address as it may be kept and shown.
func (p profile) relay() string {
	u, err := url.Parse(p.Relay)
	if err != nil {
		return "an address that cannot be read"
	}
	return u.Redacted()
}

// identify hashes the program and reads the profile.
func identify(executable, path string) (coord.Identity, profile, error) {
	var id coord.Identity
	if !filepath.IsAbs(executable) {
		return id, profile{}, coord.Errorf(coord.Invalid, "The agent's executable must be an absolute path.")
	}
	f, err := stdio.HashFile(roleLauncher, executable)
	if err != nil {
		return id, profile{}, err
	}
	if script(f.Path) {
		return id, profile{}, coord.Errorf(coord.Unsupported, "The agent's executable is a script, so its hash does not tell what runs; register the path of the tincan program itself.")
	}
	p, err := readProfile(path)
	if err != nil {
		return id, p, err
	}
	id.Files = []coord.IdentityFile{f, p.file()}
	return id, p, nil
}

// script reports whether a file is run by an interpreter.
func script(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var begin [2]byte
	_, _ = io.ReadFull(f, begin[:])
	return string(begin[:]) == "#!"
}

// pathOf gives the path of the file of a role, "" without one.
func pathOf(id coord.Identity, role string) string {
	for _, f := range id.Files {
		if f.Role == role {
			return f.Path
		}
	}
	return ""
}
