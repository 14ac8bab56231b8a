// Package binding gives the values of the credentials that the configuration
// file binds to origins on the network.
//
// It promises: a value is read when it is used, from a variable of the
// environment or the user's keyring, and kept nowhere; it is given out for the
// one origin that it is bound to; whoever redacts learns it before anybody else
// has it; no error and no list holds one.
package binding
