package api

import (
	"regexp"
	"strings"
	"sync"

	"signalbox/internal/coord"
	"signalbox/internal/redact"
)

// secrets knows the kinds of secrets, and none in particular. What is refused
// is told back in part, since a pointer holds the names of members and a
// message may hold a word of the input.
var secrets = sync.OnceValue(redact.New)

// plainName is a name that may stand in a pointer: that of a member of ours, of
// a variable or a task, or an index.
var plainName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`) })

// shownFields gives faults as they may be shown. A pointer that goes through a
// name which is not plain, or looks like a secret, ends before it.
func shownFields(fields []coord.Field) []coord.Field {
	out := make([]coord.Field, len(fields))
	for i, f := range fields {
		out[i] = coord.Field{Pointer: shownPointer(f.Pointer), Message: secrets().String(f.Message)}
	}
	return out
}

func shownPointer(pointer string) string {
	end := 0
	for end < len(pointer) {
		name, _, _ := strings.Cut(pointer[end+1:], "/")
		if !plainName().MatchString(name) || secrets().String(name) != name {
			break
		}
		end += 1 + len(name)
	}
	return pointer[:end]
}
