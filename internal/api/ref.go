package api

import (
	"reflect"
	"strconv"
	"strings"

	"signalbox/internal/coord"
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// etag writes a revision as a strong entity tag.
func etag(revision int) string { return `"` + strconv.Itoa(revision) + `"` }

// Revised is the part of an edit's input that says which revision was looked
// at.
type Revised struct {
	IfMatch string `header:"If-Match" maxLength:"40" doc:"The revision that was looked at, as the ETag gave it"`
}

// revision reads If-Match: "3" with or without its quotes.
func (r Revised) revision() (int, error) {
	n, err := strconv.Atoi(strings.Trim(r.IfMatch, `"`))
	if err != nil || n < 1 {
		return 0, coord.InvalidFields("an edit says which revision it edits", []coord.Field{{
			Pointer: "/header/If-Match", Message: "required: the revision that was looked at, such as \"3\"",
		}})
	}
	return n, nil
}
