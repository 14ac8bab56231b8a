package redact

import "strings"

const (
	// maxKey bounds the name before a separator, in bytes.
	maxKey = 64
	// maxValue bounds how much of a value is judged, in bytes.
	maxValue = 256
	// maxSpace bounds the space around a separator, in bytes.
	maxSpace = 8
	// maxURLPassword bounds the password of a URL, in bytes.
	maxURLPassword = 512
	// maxBackslashes bounds a run of backslashes that is looked at in one.
	maxBackslashes = 64
)

// secretKeys are the ends of names whose values are secrets, without the
// separators of words.
var secretKeys = []string{
	"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "secretkey", "privatekey",
	"accountkey", "authkey", "signingkey", "encryptionkey", "masterkey", "credential", "credentials",
}

// plainKeys end like secretKeys and name what no one has to hide.
var plainKeys = []string{"pagetoken", "synctoken", "cancellationtoken"}

const authKey = "authorization"

var (
	keyChars   = chars(alphanum + "_.-")
	quoteChars = chars("\"'`")
	// valueChars are those of a value without quotation marks.
	valueChars = func() *charset {
		var c charset
		for b := 0x21; b < 256; b++ {
			c[b] = b != 0x7f && !strings.ContainsRune("\"'`,;&<>(){}[]\\", rune(b))
		}
		return &c
	}()
	// authChars are those of credentials in an HTTP header (RFC 9110, token68).
	authChars = chars(alphanum + "-._~+/=:%")
	// userChars and passChars are those of the user and the password in a URL
	// (RFC 3986), and "@", which people forget to encode.
	userChars = chars(alphanum + "-._~!$&'()*+,;=%")
	passChars = chars(alphanum + "-._~!$&'()*+,;=%:@^|")
)

// separatorAt looks for a secret after a colon or an equals sign.
func (c *scanner) separatorAt(s string, i int) match {
	if s[i] == ':' && c.afterUser(s, i) {
		return c.urlPasswordAt(s, i+1)
	}
	switch key := c.keyBefore(s, i); {
	case key == "":
		return match{}
	case strings.HasSuffix(key, authKey):
		return c.credentialsAt(s, i+1)
	case isSecretKey(key):
		return c.valueAt(s, i+1, key)
	}
	return match{}
}

// keyBefore gives the name before a separator at i in normal form, or "".
func (c *scanner) keyBefore(s string, i int) string {
	low := max(c.low, i-lookbehind)
	j := i
	for j > low && i-j < maxSpace && (s[j-1] == ' ' || s[j-1] == '\t') {
		j--
	}
	index := j > low && s[j-1] == ']'
	if index {
		j--
	}
	quoted := j > low && quoteChars[s[j-1]]
	if quoted {
		j--
	}
	if index && !quoted {
		return "" // a marker, or an index that names nothing
	}
	for limit := j - 3; j > low && j > limit && s[j-1] == '\\'; {
		j--
	}
	end := j
	for j > low && end-j < maxKey && keyChars[s[j-1]] {
		j--
	}
	return normalKey(s[j:end])
}

// normalKey gives name in lower case without separators of words, or "" for
// one that ends like no key of interest. Most names do, and are told by their
// last two letters.
func normalKey(name string) string {
	if len(name) < 4 {
		return ""
	}
	switch (uint16(name[len(name)-2])<<8 | uint16(name[len(name)-1])) | 0x2020 {
	case 'r'<<8 | 'd', 'w'<<8 | 'd', 's'<<8 | 'e', 'e'<<8 | 't', 'e'<<8 | 'n', 'e'<<8 | 'y', 'a'<<8 | 'l', 'l'<<8 | 's', 'o'<<8 | 'n', 's'<<8 | 's':
	default:
		return ""
	}
	lower := strings.ToLower(name)
	if strings.HasSuffix(lower, "_pass") || strings.HasSuffix(lower, "_pwd") {
		return "password"
	}
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' {
			return -1
		}
		return r
	}, lower)
}

// isSecretKey reports whether a name in normal form has a secret as its value.
func isSecretKey(key string) bool {
	for _, k := range plainKeys {
		if strings.HasSuffix(key, k) {
			return false
		}
	}
	for _, k := range secretKeys {
		if strings.HasSuffix(key, k) {
			return true
		}
	}
	return false
}

// flagAt looks for "--password VALUE" and its like.
func (c *scanner) flagAt(s string, i int) match {
	if !strings.HasPrefix(s[i:], "--") {
		return match{}
	}
	n := keyChars.run(s[i+2:], maxKey)
	end := i + 2 + n
	if end == len(s) && n < maxKey && !c.final {
		return match{verdict: more}
	}
	if end == len(s) || s[end] != ' ' {
		return match{}
	}
	if key := normalKey(s[i+2 : end]); isSecretKey(key) {
		return c.valueAt(s, end, key)
	}
	return match{}
}

// opening passes over what stands between a separator and a value: the rest of
// the separator, space, and an opening quotation mark with the backslashes
// before it.
func (c *scanner) opening(s string, j int) (start int, quote byte, depth int, v verdict) {
	skip := func(set string, limit int) int {
		from := j
		for j < len(s) && j-from < limit && strings.IndexByte(set, s[j]) >= 0 {
			j++
		}
		return j - from
	}
	skip("=>", 1)
	skip(" \t", maxSpace)
	// A letter right before the mark is a prefix of a literal: b"..." or f"...".
	if j+1 < len(s) && wordChars[s[j]] && (s[j+1] == '"' || s[j+1] == '\'') {
		j++
	}
	depth = skip(`\`, 3)
	// The longest opening that is still possible, and a byte of the value.
	if j+2 > len(s) && !c.final {
		return 0, 0, 0, more
	}
	if j < len(s) && quoteChars[s[j]] {
		return j + 1, s[j], depth, yes
	}
	if depth > 0 || j >= len(s) {
		return 0, 0, 0, no
	}
	return j, 0, 0, yes
}

// valueAt judges the value after a separator that ends at j.
func (c *scanner) valueAt(s string, j int, key string) match {
	start, quote, depth, v := c.opening(s, j)
	if v != yes {
		return match{verdict: v}
	}
	kind := kindAssigned
	if strings.Contains(key, "aws") || strings.HasSuffix(key, "secretaccesskey") {
		kind = kindAWS
	}
	m := match{verdict: yes, kind: kind, start: start}
	if quote != 0 {
		m.tail = tail{quote: quote, depth: depth}
		m.end, v = c.quotedEnd(s, start, m.tail)
	} else {
		m.tail = tail{chars: valueChars}
		m.end, v = c.bareEnd(s, start)
	}
	if v != yes {
		return match{verdict: v}
	}
	if !looksSecret(s[start:m.end]) {
		return match{}
	}
	return c.named(s, m)
}

// bareEnd gives the end of the judged part of a value without quotation marks.
// What goes on with a bracket is code: a call, an index, a literal.
func (c *scanner) bareEnd(s string, start int) (int, verdict) {
	end := start + valueChars.run(s[start:], maxValue)
	if end < start+maxValue {
		if end == len(s) && !c.final {
			return 0, more
		}
		if end < len(s) && strings.IndexByte("([{", s[end]) >= 0 {
			return 0, no
		}
	}
	return end, yes
}

// quotedEnd gives the end of the judged part of a quoted value. A value with a
// marker in it was judged before and is left as it is.
func (c *scanner) quotedEnd(s string, start int, t tail) (int, verdict) {
	end := start
	for end < start+maxValue {
		if end >= len(s) {
			if c.final {
				break
			}
			return 0, more
		}
		n, v := t.quoted(s[end:], c.final)
		if v == more {
			return 0, more
		}
		if v == no {
			break
		}
		end += n
	}
	// A marker may begin within the judged part and end beyond it.
	look := end + len(markerOpen) - 1
	if end >= start+maxValue && look > len(s) && !c.final {
		return 0, more
	}
	if strings.Contains(s[start:min(look, len(s))], markerOpen) {
		return 0, no
	}
	return min(end, len(s)), yes
}

// quoted tells how a quoted value goes on with s: no at its end, otherwise how
// many bytes belong together and to it.
func (t tail) quoted(s string, final bool) (int, verdict) {
	switch s[0] {
	case '\n', t.quote:
		return 0, no
	case '\\':
	default:
		return 1, yes
	}
	n := 1
	for n < len(s) && n < maxBackslashes && s[n] == '\\' {
		n++
	}
	if n == maxBackslashes {
		return n, yes
	}
	if n == len(s) {
		if final {
			return n, yes
		}
		return 0, more
	}
	if s[n] != t.quote {
		return n, yes
	}
	// With t.depth backslashes a mark closes; inside of the value each of them
	// was escaped once more.
	switch {
	case t.depth > 0 && n <= t.depth:
		return 0, no
	case t.depth == 0 && n%2 == 0:
		return n, yes
	}
	return n + 1, yes
}

func (c *scanner) quotedGoesOn(s string) (int, verdict) {
	n, v := c.tail.quoted(s, c.final)
	if v == yes {
		c.sure = n
	}
	return 0, v
}

// named gives m the name of what its value is known as: an exact value or a
// kind with a shape of its own.
func (c *scanner) named(s string, m match) match {
	_, name, need := c.known.at(s[m.start:], c.final)
	if need {
		return match{verdict: more}
	}
	if name != "" {
		m.kind = name
		return m
	}
	at := scanner{known: c.known, final: c.final, low: m.start}
	switch t := at.tokenAt(s, m.start); {
	case t.verdict == more:
		return t
	case t.verdict == yes && t.start == m.start:
		m.kind = t.kind
	}
	return m
}

// credentialsAt looks for the credentials of an Authorization header whose
// separator ends at j: a scheme, space, and what it needs.
func (c *scanner) credentialsAt(s string, j int) match {
	start, _, _, v := c.opening(s, j)
	if v != yes {
		return match{verdict: v}
	}
	const maxScheme = 20
	n := dashChars.run(s[start:], maxScheme)
	known := false
	switch end := start + n; {
	case end == len(s) && n < maxScheme && !c.final:
		return match{verdict: more}
	case n > 0 && end < len(s) && s[end] == ' ':
		switch strings.ToLower(s[start:end]) {
		case "bearer", "basic", "token", "apikey", "key":
			known = true
		}
		start = end + 1
	}
	n = authChars.run(s[start:], maxValue)
	if start+n == len(s) && n < maxValue && !c.final {
		return match{verdict: more}
	}
	value := s[start : start+n]
	if !looksSecret(value) && (!known || n < MinSecret || !mixed(value) && n < 20) {
		return match{}
	}
	return c.named(s, match{verdict: yes, kind: kindAuth, start: start, end: start + n, tail: tail{chars: authChars}})
}

// bearerAt looks for a bearer token outside of its header.
func (c *scanner) bearerAt(s string, i int) match {
	const word, least = "bearer ", 16
	rest := s[i:]
	n := min(len(rest), len(word))
	if !strings.EqualFold(rest[:n], word[:n]) {
		return match{}
	}
	if n < len(word) {
		if c.final {
			return match{}
		}
		return match{verdict: more}
	}
	start := i + n
	run := authChars.run(s[start:], maxMixed)
	if run >= least && strings.ContainsAny(s[start:start+run], digits) {
		return c.named(s, match{verdict: yes, kind: kindAuth, start: start, end: start + run, tail: tail{chars: authChars}})
	}
	if start+run == len(s) && run < maxMixed && !c.final {
		return match{verdict: more}
	}
	return match{}
}

// afterUser reports whether the colon at i follows scheme://user.
func (c *scanner) afterUser(s string, i int) bool {
	low := max(c.low, i-lookbehind)
	j := i
	for j > low && userChars[s[j-1]] {
		j--
	}
	return j-4 >= low && s[j-3:j] == "://" && wordChars[s[j-4]]
}

// urlPasswordAt looks for a password that ends with the last "@" before the
// host's end. What stands for a password in a template is none.
func (c *scanner) urlPasswordAt(s string, start int) match {
	n := passChars.run(s[start:], maxURLPassword)
	if start+n == len(s) && n < maxURLPassword && !c.final {
		return match{verdict: more}
	}
	at := strings.LastIndexByte(s[start:start+n], '@')
	if at <= 0 || isPlaceholder(s[start:start+at]) {
		return match{}
	}
	return match{verdict: yes, kind: kindURL, start: start, end: start + at}
}

func isPlaceholder(v string) bool {
	switch v[0] {
	case '$':
		return len(v) > 1 && (v[1] == '{' || v[1] == '(' || v[1] == '_' || 'A' <= v[1]&^0x20 && v[1]&^0x20 <= 'Z')
	case '%':
		return len(v) == 2 // %s
	}
	return strings.Trim(v, "*xX.") == ""
}
