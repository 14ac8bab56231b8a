// Package probe holds the attempts that a sandbox must withstand, and those of
// what must work inside of one.
//
// It promises that an attempt answers with nil exactly when it got through, that
// it touches nothing but the laboratory it was given (loopback, own files, own
// processes), and that it leaves nothing running. Each is run twice, outside and
// inside: what fails outside too has proven nothing.
//
// The list follows escapes and misconfigurations that were reported of other
// sandboxes; the comments name the mechanism.
package probe
