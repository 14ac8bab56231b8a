// Package filehash tells the SHA-256 of files, and remembers it until a file
// changes: a program of some hundred megabytes is read once, and not at each of
// its starts.
//
// It promises that a remembered sum is that of what a read would give now, as
// far as the system tells of changes. A sum belongs to a State of an opened
// file, which was the same before and after the reading, and is remembered only
//
//   - of a file that had been left alone for longer than the grain of the clocks
//     by which changes are dated: one that was changed a moment ago can be
//     changed once more and look the same;
//   - on a file system that dates every change itself, and by this machine's
//     clock;
//   - while it lies where it lay on the disk: some file systems let a program
//     exchange parts of two files, which they do not date.
//
// Every other file is read at each call. What cannot be seen: a change made
// after the system's clock was set back, to the very nanosecond of the last one;
// one made below the file system, to the device; and one through a mapping in
// memory, which the system dates when the first byte of a page is written and,
// until it has written the page to the disk, not again.
//
// The memory is one for the process, because a sum depends on nothing but the
// file: an interpreter that two agents share is read once for both, and nobody
// has to be handed what nobody would want another one of.
package filehash
