// Package netguard is the only way out for HTTP to peers.
//
// It promises: a request goes to the one exact origin of the registration that
// it is made for, or nowhere; every address that the host's name stands for is
// looked at before any is connected to, and the socket is connected to one that
// was looked at, so a name that changes its meaning in between changes nothing;
// TLS verifies the host's name, never the address; no redirect is followed, no
// proxy of the environment used, no cookie kept, no request sent twice; header,
// body and time have bounds; a credential is read when it is used and goes to
// the origin that it is bound to alone. What fails before the first byte of the
// request was written says so (Unsent). No error repeats a credential, or what
// a peer wrote.
//
// What is allowed is the Access alone, which is made from the frozen
// registration: there is no list that somebody could widen meanwhile.
package netguard
