// Package providertest holds every adapter to the promises of the port.
//
// Run is the conformance suite: an adapter's own tests give it a Harness that
// plays Scripts with a peer of that adapter's protocol. Fake is an adapter
// without protocol, process or network whose peer plays the same Scripts; the
// tests of what stands above the port use it, inside synctest bubbles too.
// Fake passes the suite, so that what is tested with it holds for real ones.
package providertest
