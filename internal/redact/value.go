package redact

import "strings"

// ulidSize is the length of a ULID in characters.
const ulidSize = 26

// familiar are words with digits that names in code are made of.
var familiar = strings.NewReplacer(
	"sha256", "", "sha512", "", "sha384", "", "sha1", "", "md5", "", "base64", "", "base32", "", "utf8", "",
	"int64", "", "int32", "", "oauth2", "", "x509", "", "es256", "", "rs256", "", "hs256", "", "ed25519", "",
	"http2", "", "argon2", "", "aes256", "", "aes128", "", "pkcs8", "", "pkcs12", "")

// looksSecret judges the value of a name that promises a secret: it must be
// long and mixed enough, and not be a reference, a path, a template or one of
// our own identifiers. Words alone pass as words, even where somebody uses
// them as a password; register those with Add.
func looksSecret(v string) bool {
	if len(v) < MinSecret || strings.ContainsAny(v, " \t") || isPlaceholder(v) || isTypedULID(v) {
		return false
	}
	if strings.Contains(v, "://") || strings.HasPrefix(v, "./") || strings.HasPrefix(v, "../") || strings.HasPrefix(v, "~/") {
		return false
	}
	if v[0] == '/' && strings.Count(v, "/") > 1 && !strings.ContainsAny(v, "+=") {
		return false
	}
	if strings.Contains(v, "{") && strings.Contains(v, "}") || strings.Contains(v, "<") && strings.Contains(v, ">") {
		return false
	}
	letters, number, symbols, distinct := tally(familiar.Replace(strings.ToLower(v)))
	switch {
	case letters < 3:
		return false
	case number >= 2 && distinct >= 7:
		return true
	}
	return symbols >= 1 && number+symbols >= 2 && distinct >= 6
}

// tally counts the bytes of v by class. What joins words and paths counts as
// none of them.
func tally(v string) (letters, number, symbols, distinct int) {
	var seen charset
	for i := 0; i < len(v); i++ {
		b := v[i]
		if !seen[b] {
			seen[b] = true
			distinct++
		}
		switch {
		case 'a' <= b && b <= 'z' || b >= 0x80:
			letters++
		case '0' <= b && b <= '9':
			number++
		case strings.IndexByte("._/:-", b) < 0:
			symbols++
		}
	}
	return letters, number, symbols, distinct
}

// isTypedULID reports whether v is an identifier as coord makes them: three
// lower-case letters, an underscore and a ULID.
func isTypedULID(v string) bool {
	prefix, ulid, ok := strings.Cut(v, "_")
	if !ok || len(ulid) != ulidSize || chars(lowers).run(prefix, 4) != len(prefix) || prefix == "" {
		return false
	}
	return '0' <= ulid[0] && ulid[0] <= '7' && upperNum.run(ulid, ulidSize) == ulidSize
}
