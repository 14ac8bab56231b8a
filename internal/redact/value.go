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
	// Taking words out only makes it less mixed, so most values need no look.
	return isMixed(v) && isMixed(familiar.Replace(strings.ToLower(v)))
}

// isMixed reports whether v has some of more than one class of bytes, and not
// the same few again and again. Capitals count as their small letters. What
// joins words and paths is of no class.
func isMixed(v string) bool {
	var count [4]int
	var seen charset
	distinct := 0
	for i := 0; i < len(v); i++ {
		b := folded[v[i]]
		if !seen[b] {
			seen[b] = true
			distinct++
		}
		count[classes[b]]++
	}
	numbers, symbols := count[number], count[symbol]
	if count[letter] < 3 {
		return false
	}
	return numbers >= 2 && distinct >= 7 || symbols >= 1 && numbers+symbols >= 2 && distinct >= 6
}

// The classes of bytes in a value.
const (
	joint = iota
	letter
	number
	symbol
)

var folded, classes = func() (fold, class [256]byte) {
	for i := range 256 {
		b := byte(i)
		if fold[b] = b; 'A' <= b && b <= 'Z' {
			fold[b] = b + 'a' - 'A'
		}
		switch {
		case 'a' <= b && b <= 'z' || b >= 0x80:
			class[b] = letter
		case '0' <= b && b <= '9':
			class[b] = number
		case strings.IndexByte("._/:-", b) < 0:
			class[b] = symbol
		}
	}
	return fold, class
}()

// isTypedULID reports whether v is an identifier as coord makes them: three
// lower-case letters, an underscore and a ULID.
func isTypedULID(v string) bool {
	prefix, ulid, ok := strings.Cut(v, "_")
	if !ok || len(ulid) != ulidSize || chars(lowers).run(prefix, 4) != len(prefix) || prefix == "" {
		return false
	}
	return '0' <= ulid[0] && ulid[0] <= '7' && upperNum.run(ulid, ulidSize) == ulidSize
}
