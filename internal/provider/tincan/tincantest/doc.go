// Package tincantest is a stand-in for the program tincan and its relay, written
// from what is known of their outputs, in both dialects.
//
// Main is the program. All it knows is in the folder of its profile
// (TINCAN_CONFIG), so that several processes, and one after another, see the same
// requests: script.json, which a test writes, tells what the relay, the peer and
// the program itself do wrong; requests/ID.json is a request; and each process
// appends to calls.jsonl what it was called with and to submissions.jsonl each
// request that its relay took. The lines of the latter are what a test counts.
//
// Without a script file the words of a text choose: [hold] and the others that
// Words lists. That is for tests of the whole product, which build the command
// e2e/tincanpeer, write a Profile, and count Submissions.
package tincantest
