package jsonwalk

import (
	"bytes"
	"unicode/utf8"
)

// maxDepth bounds how deep a document may nest: the APIs need less than ten.
const maxDepth = 1000

// Valid reports whether v is one JSON document (RFC 8259) in valid UTF-8. It
// does what utf8.Valid and json.Valid do, several times as fast: the check of
// each chunk is most of the work of a relay. A fuzz test holds it to json.Valid.
func Valid(v []byte) bool {
	if !utf8.Valid(v) {
		return false
	}
	end := checkValue(v, checkSpace(v, 0), 0)
	return end >= 0 && checkSpace(v, end) == len(v)
}

// The check functions take the index at which something must start and give
// the index after it, or -1.

func checkValue(v []byte, i, depth int) int {
	if i >= len(v) || depth > maxDepth {
		return -1
	}
	switch v[i] {
	case '{':
		return checkList(v, i, depth, '}')
	case '[':
		return checkList(v, i, depth, ']')
	case '"':
		return checkString(v, i)
	case 't':
		return checkWord(v, i, "true")
	case 'f':
		return checkWord(v, i, "false")
	case 'n':
		return checkWord(v, i, "null")
	}
	return checkNumber(v, i)
}

// checkList checks an object or an array; end is its last byte.
func checkList(v []byte, i, depth int, end byte) int {
	i = checkSpace(v, i+1)
	if i < len(v) && v[i] == end {
		return i + 1
	}
	for {
		if end == '}' {
			if i >= len(v) || v[i] != '"' {
				return -1
			}
			if i = checkString(v, i); i < 0 {
				return -1
			}
			if i = checkSpace(v, i); i >= len(v) || v[i] != ':' {
				return -1
			}
			i = checkSpace(v, i+1)
		}
		if i = checkValue(v, i, depth+1); i < 0 {
			return -1
		}
		if i = checkSpace(v, i); i >= len(v) {
			return -1
		}
		if v[i] == end {
			return i + 1
		}
		if v[i] != ',' {
			return -1
		}
		i = checkSpace(v, i+1)
	}
}

func checkString(v []byte, i int) int {
	for i++; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"':
			return i + 1
		case c < 0x20:
			return -1
		case c == '\\':
			i++
			if i >= len(v) {
				return -1
			}
			if v[i] == 'u' {
				if i+4 >= len(v) || !isHex(v[i+1:i+5]) {
					return -1
				}
				i += 4
			} else if bytes.IndexByte([]byte(`"\/bfnrt`), v[i]) < 0 {
				return -1
			}
		}
	}
	return -1
}

func isHex(v []byte) bool {
	for _, c := range v {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
			return false
		}
	}
	return true
}

func checkWord(v []byte, i int, word string) int {
	if len(v)-i < len(word) || string(v[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

func checkNumber(v []byte, i int) int {
	if i < len(v) && v[i] == '-' {
		i++
	}
	if i < len(v) && v[i] == '0' {
		i++
	} else if i = checkDigits(v, i); i < 0 {
		return -1
	}
	if i < len(v) && v[i] == '.' {
		if i = checkDigits(v, i+1); i < 0 {
			return -1
		}
	}
	if i < len(v) && (v[i] == 'e' || v[i] == 'E') {
		i++
		if i < len(v) && (v[i] == '+' || v[i] == '-') {
			i++
		}
		return checkDigits(v, i)
	}
	return i
}

// checkDigits wants one digit at least.
func checkDigits(v []byte, i int) int {
	from := i
	for i < len(v) && v[i] >= '0' && v[i] <= '9' {
		i++
	}
	if i == from {
		return -1
	}
	return i
}

func checkSpace(v []byte, i int) int {
	for i < len(v) && (v[i] == ' ' || v[i] == '\n' || v[i] == '\t' || v[i] == '\r') {
		i++
	}
	return i
}
