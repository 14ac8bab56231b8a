// Package arch holds the tests of the shape of the code: which package may
// import which, and why; that every package says what it promises; how large
// a file and a package may grow; and what no file may name.
//
// It has no code of its own. A failing test names the place, the rule, the
// reason and the way out.
package arch
