// Package artifact keeps bytes on disk under the SHA-256 of what was stored.
//
// It promises four things. What Put returned is durable: the bytes, their name
// and the directory that holds it were flushed first. Nothing is stored before
// it was redacted, so a digest always names the bytes that can be read back.
// Nothing is read back unnoticed when it no longer matches its name. And the
// space that artifacts may take is reserved before it is used (Quota).
//
// A Store belongs to the process that holds the owner lock: New removes the
// temporary files of earlier owners. Which artifacts exist, for which job, and
// the tombstones of those that retention removed are rows of the journal; this
// package knows digests only. Consumers declare the interface they need, so a
// store that is not a directory can stand in.
package artifact
