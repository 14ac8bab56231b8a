// Package signature verifies the signatures of A2A cards (JWS, RFC 7515, over JCS,
// RFC 8785).
//
// It promises: verified is what a key of the operator's own file signed, by the
// algorithm that this key is for, over all that the card says. What a signature
// says of where a key could be fetched is not looked at. What cannot be read is
// not verified.
package signature
