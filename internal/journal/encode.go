package journal

import (
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
	doc, err := redactJSON(string(raw), tx.j.redact)
	return doc, tx.failed(err)
}

// redactJSON applies redact to the value of every string of a JSON text, and
// touches nothing else: order, numbers and spacing stay. Working string by
// string means that a replacement can never break the JSON, and that a secret
// hidden behind escapes (a key with line breaks, say) is seen as it is. The
// text is copied only once something was replaced.
func redactJSON(doc string, redact func(string) string) (string, error) {
	var out []byte
	copied := 0
	for i := 0; i < len(doc); {
		if doc[i] != '"' {
			i++
			continue
		}
		end, escaped := stringEnd(doc, i)
		if end < 0 {
			return "", fmt.Errorf("journal: a document cannot be redacted: a string of it does not end")
		}
		value := doc[i+1 : end-1]
		if escaped {
			if err := json.Unmarshal([]byte(doc[i:end]), &value); err != nil {
				return "", fmt.Errorf("journal: a document cannot be redacted: %w", err)
			}
		}
		if clean := redact(value); clean != value {
			quoted, err := json.Marshal(clean)
			if err != nil {
				return "", fmt.Errorf("journal: a document cannot be redacted: %w", err)
			}
			out = append(append(out, doc[copied:i]...), quoted...)
			copied = end
		}
		i = end
	}
	if copied == 0 {
		return doc, nil
	}
	return string(append(out, doc[copied:]...)), nil
}

// stringEnd is the index after the string literal that starts at i, -1 when it
// does not end, and whether the literal holds an escape.
func stringEnd(doc string, i int) (end int, escaped bool) {
	for i++; i < len(doc); i++ {
		switch doc[i] {
		case '\\':
			escaped = true
			i++
		case '"':
			return i + 1, escaped
		}
	}
	return -1, escaped
}
