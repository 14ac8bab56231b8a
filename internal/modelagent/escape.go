package modelagent

import "unicode/utf8"

const hexDigits = "0123456789abcdef"

// appendText appends at most room characters of s, which is valid UTF-8, as
// the inside of a JSON string. It tells how many bytes of s and how many
// characters that took. U+2028 and U+2029 are escaped because some readers of
// lines end a line there.
func appendText(dst, s []byte, room int) (out []byte, taken, chars int) {
	i, from := 0, 0 // s[from:i] needs no escape and is not appended yet
	for i < len(s) && chars < room {
		chars++
		c := s[i]
		if c >= 0x20 && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		size := 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, size = utf8.DecodeRune(s[i:]); r != 0x2028 && r != 0x2029 {
				i += size
				continue
			}
		}
		dst = append(dst, s[from:i]...)
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case size == 3:
			dst = append(dst, `\u202`...)
			dst = append(dst, hexDigits[s[i+2]&0xf])
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
		i += size
		from = i
	}
	return append(dst, s[from:i]...), i, chars
}
