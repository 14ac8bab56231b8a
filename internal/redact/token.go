package redact

import (
	"encoding/base64"
	"strings"
)

// The kinds of secrets that are known by their shape, as markers name them.
const (
	kindPEM       = "private-key"
	kindAWS       = "aws-key"
	kindGitHub    = "github-token"
	kindGitLab    = "gitlab-token"
	kindModel     = "model-key"
	kindGoogle    = "google-key"
	kindSlack     = "slack-token"
	kindJWT       = "jwt"
	kindAuth      = "authorization"
	kindURL       = "url-password"
	kindAssigned  = "assigned-secret"
	kindNPM       = "npm-token"
	kindPyPI      = "pypi-token"
	kindStripe    = "stripe-key"
	kindHugging   = "huggingface-token"
	kindSendGrid  = "sendgrid-key"
	kindAge       = "age-key"
	kindSignalbox = "signalbox-token"
)

var kinds = []string{
	kindPEM, kindAWS, kindGitHub, kindGitLab, kindModel, kindGoogle, kindSlack, kindJWT, kindAuth, kindURL,
	kindAssigned, kindNPM, kindPyPI, kindStripe, kindHugging, kindSendGrid, kindAge, kindSignalbox,
}

// token is a secret that starts with a prefix of its own, at the start of a
// word, and goes on with at least least bytes of a set.
type token struct {
	prefix string
	kind   string
	least  int
	chars  *charset
	// mixed asks for a digit or two capitals, which words joined by hyphens
	// lack: "sk-" alone starts many ordinary names.
	mixed bool
}

// maxMixed bounds how far a digit is looked for, in bytes.
const maxMixed = 64

// The prefixes are those that the services document; the lengths are a little
// below theirs, so that a cut token is still one.
var tokens = []token{
	{prefix: "ghp_", kind: kindGitHub, least: 30, chars: wordChars},
	{prefix: "gho_", kind: kindGitHub, least: 30, chars: wordChars},
	{prefix: "ghu_", kind: kindGitHub, least: 30, chars: wordChars},
	{prefix: "ghs_", kind: kindGitHub, least: 30, chars: jwtChars, mixed: true},
	{prefix: "ghr_", kind: kindGitHub, least: 30, chars: wordChars},
	{prefix: "github_pat_", kind: kindGitHub, least: 22, chars: underChars, mixed: true},
	{prefix: "glpat-", kind: kindGitLab, least: 20, chars: jwtChars},
	{prefix: "sk-", kind: kindModel, least: 20, chars: urlChars, mixed: true},
	{prefix: "AIza", kind: kindGoogle, least: 30, chars: urlChars},
	{prefix: "GOCSPX-", kind: kindGoogle, least: 20, chars: urlChars},
	{prefix: "ya29.", kind: kindGoogle, least: 20, chars: jwtChars, mixed: true},
	{prefix: "xoxb-", kind: kindSlack, least: 10, chars: dashChars, mixed: true},
	{prefix: "xoxa-", kind: kindSlack, least: 10, chars: dashChars, mixed: true},
	{prefix: "xoxp-", kind: kindSlack, least: 10, chars: dashChars, mixed: true},
	{prefix: "xoxr-", kind: kindSlack, least: 10, chars: dashChars, mixed: true},
	{prefix: "xoxs-", kind: kindSlack, least: 10, chars: dashChars, mixed: true},
	{prefix: "xoxc-", kind: kindSlack, least: 10, chars: dashChars, mixed: true},
	{prefix: "xoxd-", kind: kindSlack, least: 10, chars: chars(alphanum + "-%+/="), mixed: true},
	{prefix: "xoxe.", kind: kindSlack, least: 10, chars: jwtChars, mixed: true},
	{prefix: "xapp-", kind: kindSlack, least: 10, chars: dashChars, mixed: true},
	{prefix: "AKIA", kind: kindAWS, least: 16, chars: upperNum},
	{prefix: "ASIA", kind: kindAWS, least: 16, chars: upperNum},
	{prefix: "ABIA", kind: kindAWS, least: 16, chars: upperNum},
	{prefix: "ACCA", kind: kindAWS, least: 16, chars: upperNum},
	{prefix: "npm_", kind: kindNPM, least: 30, chars: wordChars},
	{prefix: "pypi-", kind: kindPyPI, least: 40, chars: urlChars, mixed: true},
	{prefix: "sk_live_", kind: kindStripe, least: 16, chars: wordChars},
	{prefix: "sk_test_", kind: kindStripe, least: 16, chars: wordChars},
	{prefix: "rk_live_", kind: kindStripe, least: 16, chars: wordChars},
	{prefix: "rk_test_", kind: kindStripe, least: 16, chars: wordChars},
	{prefix: "whsec_", kind: kindStripe, least: 24, chars: codeChars},
	{prefix: "hf_", kind: kindHugging, least: 30, chars: wordChars},
	{prefix: "SG.", kind: kindSendGrid, least: 40, chars: jwtChars, mixed: true},
	{prefix: "AGE-SECRET-KEY-1", kind: kindAge, least: 50, chars: upperNum},
	{prefix: "sbx_", kind: kindSignalbox, least: 43, chars: urlChars},
}

// codedPEM is the base64 form of "-----BEGIN ", as Kubernetes keeps keys.
const codedPEM = "LS0tLS1CRUdJTi"

// triggers are the first two bytes of all that tokenAt, pemAt and marker look
// for.
var triggers = func() []string {
	list := []string{"ey", "LS", "--", "Be", "be", "BE", "[r"}
	for _, t := range tokens {
		list = append(list, t.prefix[:2])
	}
	return list
}()

// byFirst finds the tokens by their first byte.
var byFirst = func() (table [256][]token) {
	for _, t := range tokens {
		table[t.prefix[0]] = append(table[t.prefix[0]], t)
	}
	return table
}()

// tokenAt looks for a secret that starts with a prefix of its own.
func (c *scanner) tokenAt(s string, i int) match {
	if !c.startsWord(s, i) {
		return match{}
	}
	rest := s[i:]
	switch s[i] {
	case 'e':
		return c.jwtAt(s, i)
	case 'L':
		return c.codedPEMAt(s, i)
	case 'B', 'b':
		return c.bearerAt(s, i)
	}
	for _, t := range byFirst[s[i]] {
		if !strings.HasPrefix(rest, t.prefix) {
			if !c.final && strings.HasPrefix(t.prefix, rest) {
				return match{verdict: more}
			}
			continue
		}
		body := rest[len(t.prefix):]
		n := t.chars.run(body, max(t.least, maxMixed))
		open := n == len(body) && !c.final && n < max(t.least, maxMixed)
		if n >= t.least && (!t.mixed || mixed(body[:n])) {
			return match{verdict: yes, kind: t.kind, start: i, end: i + len(t.prefix) + n, tail: tail{chars: t.chars}}
		}
		if open {
			return match{verdict: more}
		}
	}
	return match{}
}

// startsWord reports whether a word can start at i: what is before it belongs
// to none, or is the last letter of an escape such as \n or \u003c, as it
// stands before a secret in JSON that is a string of JSON itself.
func (c *scanner) startsWord(s string, i int) bool {
	before := s[min(c.low, i):i]
	n := len(before)
	if n == 0 || !wordChars[before[n-1]] {
		return true
	}
	if n >= 2 && before[n-2] == '\\' && strings.IndexByte("nrtbf", before[n-1]) >= 0 {
		return true
	}
	return n >= 6 && before[n-6] == '\\' && before[n-5] == 'u' && hexChars.run(before[n-4:], 4) == 4
}

func mixed(s string) bool {
	capitals := 0
	for i := 0; i < len(s); i++ {
		switch {
		case '0' <= s[i] && s[i] <= '9':
			return true
		case 'A' <= s[i] && s[i] <= 'Z':
			capitals++
		}
	}
	return capitals >= 2
}

const (
	// maxJWTPart bounds the first two parts of a JWT. A header with a key or a
	// certificate in it fits.
	maxJWTPart = 2 << 10
	// minJWTPart keeps two words and a full stop from being one.
	minJWTPart = 10
)

// jwtAt looks for a JWT (RFC 7519): base64url parts with full stops between,
// the first of which is a JSON object, so that it starts with "eyJ". When the
// second is one too, what follows cannot change the answer.
func (c *scanner) jwtAt(s string, i int) match {
	// Only at the start of a run: one that is full of "eyJ" would be read
	// again from each.
	if i > c.low && urlChars[s[i-1]] {
		return match{}
	}
	rest, head := s[i:], "eyJ"
	if !strings.HasPrefix(rest, head) {
		if !c.final && strings.HasPrefix(head, rest) {
			return match{verdict: more}
		}
		return match{}
	}
	found := match{verdict: yes, kind: kindJWT, start: i, tail: tail{chars: jwtChars}}
	at := 0
	for part := range 3 {
		n := urlChars.run(rest[at:], maxJWTPart)
		at += n
		switch {
		case n >= minJWTPart && (part == 2 || part == 1 && strings.HasPrefix(rest[at-n:], head)):
			found.end = i + at
			return found
		case at == len(rest) && n < maxJWTPart:
			if c.final {
				return match{}
			}
			return match{verdict: more}
		case n < minJWTPart || n == maxJWTPart || rest[at] != '.':
			return match{}
		}
		at++
	}
	return match{}
}

// codedPEMAt looks for a PEM block of a private key in base64.
func (c *scanner) codedPEMAt(s string, i int) match {
	const enough = 80 // characters; "PRIVATE KEY" is within the first 60 bytes
	rest := s[i:]
	if !strings.HasPrefix(rest, codedPEM) {
		if !c.final && strings.HasPrefix(codedPEM, rest) {
			return match{verdict: more}
		}
		return match{}
	}
	n := codeChars.run(rest, enough)
	if n == len(rest) && n < enough && !c.final {
		return match{verdict: more}
	}
	text, err := base64.RawStdEncoding.DecodeString(rest[:n/4*4])
	if err != nil || !strings.Contains(string(text), "PRIVATE KEY") {
		return match{}
	}
	return match{verdict: yes, kind: kindPEM, start: i, end: i + n, tail: tail{chars: codeChars}}
}
