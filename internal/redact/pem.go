package redact

import "strings"

const (
	pemBegin = "-----BEGIN "
	pemEnd   = "-----END"
	pemDash  = "-----"

	// maxPEM bounds how much of a PEM block is taken while its end is missing,
	// in bytes: the longest RSA keys in use are below 13 KiB.
	maxPEM = 16 << 10
	// maxLabel bounds "ENCRYPTED PRIVATE KEY" and its like.
	maxLabel = 48
	// pemWindow is how far after the label the first line of a key must come,
	// and pemLine how long it is. Code and prose that name the label go on
	// without one.
	pemWindow = 512
	pemLine   = 40
)

// pemAt looks for the PEM block of a private key (RFC 7468, and those of
// OpenSSH and OpenPGP).
func (c *scanner) pemAt(s string, i int) match {
	rest := s[i:]
	if !strings.HasPrefix(rest, pemBegin) {
		if !c.final && strings.HasPrefix(pemBegin, rest) {
			return match{verdict: more}
		}
		return match{}
	}
	label := rest[len(pemBegin):]
	n := pemLabel.run(label, maxLabel)
	after := label[n:]
	if !strings.HasPrefix(after, pemDash) {
		if !c.final && n < maxLabel && strings.HasPrefix(pemDash, after) {
			return match{verdict: more}
		}
		return match{}
	}
	if !strings.Contains(label[:n], "PRIVATE KEY") {
		return match{}
	}
	body := after[len(pemDash):]
	switch hasKeyLine(body[:min(len(body), pemWindow)]) {
	case yes:
	case more:
		if c.final || len(body) >= pemWindow {
			return match{}
		}
		return match{verdict: more}
	default:
		return match{}
	}
	return match{verdict: yes, kind: kindPEM, start: i, end: i + len(rest) - len(body), tail: tail{pem: maxPEM}}
}

var pemLabel = chars(uppers + digits + " ")

// hasKeyLine reports whether a line of base64 is in s. A marker ends the look:
// what it stands for must not bring other text nearer.
func hasKeyLine(s string) verdict {
	var length int
	var digit, upper, lower bool
	for i := 0; i < len(s); i++ {
		b := s[i]
		if b == '[' && strings.HasPrefix(s[i:], markerOpen) {
			return no
		}
		switch {
		case '0' <= b && b <= '9':
			digit = true
		case 'A' <= b && b <= 'Z':
			upper = true
		case 'a' <= b && b <= 'z':
			lower = true
		case b == '+' || b == '/':
		default:
			length, digit, upper, lower = 0, false, false, false
			continue
		}
		if length++; length >= pemLine && digit && upper && lower {
			return yes
		}
	}
	return more
}

// pemGoesOn ends a block after its end line.
func (c *scanner) pemGoesOn(s string) (int, verdict) {
	if s[0] != '-' {
		return 0, yes
	}
	if !strings.HasPrefix(s, pemEnd) {
		if !c.final && strings.HasPrefix(pemEnd, s) {
			return 0, more
		}
		return 0, yes
	}
	n := len(pemEnd) + pemLabel.run(s[len(pemEnd):], maxLabel)
	if strings.HasPrefix(s[n:], pemDash) {
		return n + len(pemDash), no
	}
	if !c.final && n < len(pemEnd)+maxLabel && strings.HasPrefix(pemDash, s[n:]) {
		return 0, more
	}
	return 0, yes
}
