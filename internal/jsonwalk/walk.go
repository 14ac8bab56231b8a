// Package jsonwalk reads JSON without filling structures.
//
// Whoever looks at three or four members of each of ten thousand small
// documents pays more for reflection than for anything else. The walkers step
// through the bytes instead, and match names exactly, which encoding/json does
// not. They must be given JSON that Valid has passed: on anything else they may
// panic. What they give shares memory with the document.
package jsonwalk

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"
)

// Members walks the members of an object; of anything else there are none. A
// name that occurs twice comes twice: the last one counts, as in most readers.
func Members(object []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		i, ok := enter(object, '{')
		for ok && object[i] != '}' {
			end := skip(object, i)
			name, _ := Text(object[i:end])
			i = space(object, space(object, end)+1) // past the colon
			end = skip(object, i)
			if !yield(string(name), object[i:end]) {
				return
			}
			i = next(object, end)
		}
	}
}

// Elements walks the elements of an array; of anything else there are none.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		i, ok := enter(array, '[')
		for ok && array[i] != ']' {
			end := skip(array, i)
			if !yield(array[i:end]) {
				return
			}
			i = next(array, end)
		}
	}
}

// Member gives one member of an object, nil if there is none.
func Member(object []byte, name string) []byte {
	var found []byte
	for n, value := range Members(object) {
		if n == name {
			found = value
		}
	}
	return found
}

// IsObject tells an object.
func IsObject(v []byte) bool { return starts(v, '{') }

// IsArray tells an array.
func IsArray(v []byte) bool { return starts(v, '[') }

// IsText tells a string, whether or not Text can decode it.
func IsText(v []byte) bool { return starts(v, '"') }

// IsNull tells a member that is absent or null: peers use both for "none".
func IsNull(v []byte) bool { return len(v) == 0 || string(v) == "null" }

// IsEmpty tells null and the empty array.
func IsEmpty(v []byte) bool {
	for range Elements(v) {
		return false
	}
	return IsNull(v) || IsArray(v)
}

// Text decodes a string. It fails on other values and on text with half of a
// surrogate pair, which has no UTF-8 form: encoding/json would put U+FFFD in
// its place without a word. The result may share memory with v.
func Text(v []byte) ([]byte, bool) {
	if !starts(v, '"') {
		return nil, false
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1], true
	}
	var s string
	if loneSurrogate(v) || json.Unmarshal(v, &s) != nil {
		return nil, false
	}
	return []byte(s), true
}

// loneSurrogate looks for an escaped surrogate without its other half.
func loneSurrogate(v []byte) bool {
	for i := 0; i < len(v); i++ {
		if v[i] != '\\' {
			continue
		}
		i++
		if v[i] != 'u' {
			continue
		}
		switch unit := hex4(v[i+1:]); {
		case unit >= 0xd800 && unit < 0xdc00:
			rest := v[i+5:]
			if !bytes.HasPrefix(rest, []byte(`\u`)) {
				return true
			}
			if low := hex4(rest[2:]); low < 0xdc00 || low >= 0xe000 {
				return true
			}
			i += 10
		case unit >= 0xdc00 && unit < 0xe000:
			return true
		default:
			i += 4
		}
	}
	return false
}

func hex4(v []byte) uint64 {
	n, _ := strconv.ParseUint(string(v[:4]), 16, 16)
	return n
}

func starts(v []byte, c byte) bool { return len(v) > 0 && v[0] == c }

// enter gives the index of the first thing inside a value that starts with
// open, which is its end if it is empty.
func enter(v []byte, open byte) (int, bool) {
	if !starts(v, open) {
		return 0, false
	}
	return space(v, 1), true
}

// next gives the index after a value and the comma that may follow.
func next(v []byte, i int) int {
	if i = space(v, i); v[i] == ',' {
		i = space(v, i+1)
	}
	return i
}

func space(v []byte, i int) int {
	for v[i] == ' ' || v[i] == '\n' || v[i] == '\t' || v[i] == '\r' {
		i++
	}
	return i
}

// skip gives the index after the value that starts at i.
func skip(v []byte, i int) int {
	depth := 0
	for {
		switch v[i] {
		case '"':
			i = skipString(v, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		default:
			i++
			for depth == 0 && i < len(v) && !endsScalar(v[i]) {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
}

// endsScalar tells what can follow a number or a word.
func endsScalar(c byte) bool {
	return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n' || c == '\t' || c == '\r'
}

// skipString jumps from quote to quote, so long texts cost little.
func skipString(v []byte, i int) int {
	for i++; ; i++ {
		i += bytes.IndexByte(v[i:], '"')
		slashes := 0
		for v[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}
