package screen

import (
	"fmt"
	"io"

	"signalbox/internal/synthesis"
)

// Findings writes what the doctor found and what can be done.
func Findings(w io.Writer, found []synthesis.Finding) {
	if len(found) == 0 {
		fmt.Fprintln(w, "✔ everything is in order")
	}
	for _, f := range found {
		fmt.Fprintf(w, "%s %s: %s\n  %s\n", f.Severity, Clean(f.Subject), Clean(f.Explanation), Clean(f.Remedy))
	}
}
