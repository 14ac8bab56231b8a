package redact

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// pattern is one spelling of an exact value.
type pattern struct {
	text string
	name string
}

// exacts is an immutable set of exact values, with the table of places where a
// scan has to look: the kinds' and the values' first two bytes.
type exacts struct {
	// byHead finds the patterns by their first four bytes, longest first, and
	// heads tells by a hash of them that there is none.
	byHead map[string][]pattern
	heads  bitset
	names  map[string]bool
	// pairs has a bit for each two bytes with which something may start, and
	// firsts for each one byte.
	pairs  bitset
	firsts [256]bool
}

// bitset has a bit for each number of 16 bits. At 8 KiB it stays in the cache
// of the processor, where a map would not.
type bitset [1 << 10]uint64

func (b *bitset) set(k uint16)      { b[k>>6] |= 1 << (k & 63) }
func (b *bitset) has(k uint16) bool { return b[k>>6]>>(k&63)&1 != 0 }

func pair(a, b byte) uint16 { return uint16(a) | uint16(b)<<8 }

// headHash mixes four bytes down to two, by the golden ratio.
func headHash(s string) uint16 {
	_ = s[headSize-1]
	head := uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
	return uint16(head * 2654435769 >> 16)
}

const headSize = 4

func newExacts() *exacts {
	e := &exacts{byHead: map[string][]pattern{}, names: map[string]bool{}}
	for _, k := range kinds {
		e.names[k] = true
	}
	for _, t := range triggers {
		e.mark(t[0], t[1])
	}
	for b := range 256 {
		e.mark(':', byte(b))
		e.mark('=', byte(b))
	}
	return e
}

func (e *exacts) mark(a, b byte) {
	e.pairs.set(pair(a, b))
	e.firsts[a] = true
}

// with gives a set that has secret as well.
func (e *exacts) with(name, secret string) *exacts {
	n := &exacts{byHead: make(map[string][]pattern, len(e.byHead)), heads: e.heads, names: map[string]bool{name: true}, pairs: e.pairs, firsts: e.firsts}
	for head, list := range e.byHead {
		n.byHead[head] = slices.Clone(list)
	}
	for k := range e.names {
		n.names[k] = true
	}
	for _, text := range spellings(secret) {
		list := n.byHead[text[:headSize]]
		if slices.ContainsFunc(list, func(p pattern) bool { return p.text == text }) {
			continue
		}
		list = append(list, pattern{text, name})
		slices.SortStableFunc(list, func(a, b pattern) int { return len(b.text) - len(a.text) })
		n.byHead[text[:headSize]] = list
		n.heads.set(headHash(text))
		n.mark(text[0], text[1])
	}
	return n
}

// at finds the longest pattern with which s starts. more says that s, which is
// all there is yet, may be the start of a longer one.
func (e *exacts) at(s string, final bool) (length int, name string, more bool) {
	if len(s) < headSize {
		if !final {
			for head := range e.byHead {
				if strings.HasPrefix(head, s) {
					return 0, "", true
				}
			}
		}
		return 0, "", false
	}
	if !e.heads.has(headHash(s)) {
		return 0, "", false
	}
	for _, p := range e.byHead[s[:headSize]] {
		if strings.HasPrefix(s, p.text) {
			return len(p.text), p.name, false
		}
		if !final && len(p.text) > len(s) && strings.HasPrefix(p.text, s) {
			return 0, "", true
		}
	}
	return 0, "", false
}

// spellings gives the ways in which an exact value appears in text. Each is at
// least MinSecret long.
func spellings(secret string) []string {
	list := []string{secret}
	add := func(s string) {
		if len(s) >= MinSecret && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	for _, escape := range []func(string) string{url.QueryEscape, url.PathEscape} {
		add(escape(secret))
		add(lowerHex(escape(secret)))
	}
	// Twice, because messages of agents carry JSON inside of JSON.
	once := jsonEscape(secret, true)
	add(once)
	add(jsonEscape(once, true))
	plain := jsonEscape(secret, false)
	add(plain)
	add(jsonEscape(plain, false))
	add(strings.ReplaceAll(plain, "/", `\/`))
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		add(enc.EncodeToString([]byte(secret)))
		// Inside of a longer encoded text (Basic credentials) the value starts
		// at one of three places within a group of three bytes. What does not
		// depend on its neighbours is looked for.
		for shift := range 3 {
			coded := enc.WithPadding(base64.NoPadding).EncodeToString([]byte(strings.Repeat("\x00", shift) + secret))
			first := []int{0, 2, 3}[shift]
			add(coded[first : (shift+len(secret))*8/6])
		}
	}
	return list
}

func jsonEscape(s string, html bool) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	_ = enc.Encode(s) // a string always encodes, and a Builder takes it
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(b.String(), "\n"), `"`), `"`)
}

// lowerHex turns %2F into %2f, as some encoders write it.
func lowerHex(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], strings.ToLower(string(b[i+1:i+3])))
		}
	}
	return string(b)
}
