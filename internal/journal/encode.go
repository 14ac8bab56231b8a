package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// encode makes the stored form of a document: JSON in which every string, the
// names of members included, has been redacted.
func encode(tx *Tx, v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", tx.failed(fmt.Errorf("journal: a document cannot be encoded: %w", err))
	}
	out, err := redactJSON(raw, tx.j.redact)
	if err != nil {
		return "", tx.failed(err)
	}
	return string(out), nil
}

// redactJSON applies redact to the value of every string of a JSON text, and
// touches nothing else: order, numbers and spacing stay. Working string by
// string means that a replacement can never break the JSON, and that a secret
// hidden behind escapes (a key with line breaks, say) is seen as it is. The
// text is copied only once something was replaced.
func redactJSON(raw []byte, redact func(string) string) ([]byte, error) {
	var out []byte
	copied := 0
	for i := 0; i < len(raw); {
		if raw[i] != '"' {
			i++
			continue
		}
		end := stringEnd(raw, i)
		if end < 0 {
			return nil, fmt.Errorf("journal: a document cannot be redacted: a string of it does not end")
		}
		lit := raw[i:end]
		value := string(lit[1 : len(lit)-1])
		if bytes.IndexByte(lit, '\\') >= 0 {
			if err := json.Unmarshal(lit, &value); err != nil {
				return nil, fmt.Errorf("journal: a document cannot be redacted: %w", err)
			}
		}
		if clean := redact(value); clean != value {
			quoted, err := json.Marshal(clean)
			if err != nil {
				return nil, fmt.Errorf("journal: a document cannot be redacted: %w", err)
			}
			out = append(append(out, raw[copied:i]...), quoted...)
			copied = end
		}
		i = end
	}
	if copied == 0 {
		return raw, nil
	}
	return append(out, raw[copied:]...), nil
}

// stringEnd is the index after the string literal that starts at i, -1 when
// it does not end.
func stringEnd(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}
