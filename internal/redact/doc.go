// Package redact replaces secrets in text before the text is stored, shown or
// logged.
//
// It knows two sorts of secrets. Exact values are registered with Add, and are
// found anywhere, also in their usual encodings. Kinds of secrets are found by
// their shape: private keys, tokens of well-known services, JWTs, passwords in
// URLs, credentials of HTTP and values assigned to names such as "password".
// A secret becomes [redacted:NAME], where NAME is that of the exact value or
// the kind.
//
// It promises that redacting twice changes nothing, that text in pieces
// (Stream) gives the same as the text in one (String), and that a Stream holds
// back a bounded amount. It cannot promise to know every secret: a shape that
// is not listed here and was not registered passes. Identifiers of Signalbox,
// UUIDs and digests are left alone.
//
// All rules are one scan from left to right. At each place a rule sees only
// the text since the last replacement and a bounded amount that follows, which
// is what makes both promises hold.
package redact
