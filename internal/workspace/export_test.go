package workspace

// At has f called at each point of a landing, instead of the fault points of
// the build.
func (r *Root) At(f func(point string)) { r.at = f }

// Opening has f called before and after each opening of a file.
func (r *Root) Opening(f func(name string)) { r.opening = f }

// Points are the points of a landing.
var Points = []string{pointChecked, pointWritten, pointExchanged, pointVerified, pointRemoved}

// Fold and Patterns are for the test of the names.
var Fold = fold

// Patterns gives every pattern of a denied name.
func Patterns() []string {
	var out []string
	for _, d := range denials {
		out = append(out, d.patterns...)
	}
	return out
}

// Denied reports whether a name is denied, for its measurement.
func Denied(name string) bool { return denied(name) != nil }
