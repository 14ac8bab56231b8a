// Package journal keeps everything Signalbox knows: rows of domain documents
// and the one sequence of events about them, in a SQLite database of which
// this process is the only writer.
//
// It promises:
//
//   - Durable before visible. Update returns after COMMIT has reached the disk
//     (synchronous=FULL), and no reader, cursor or Changed channel sees
//     anything earlier.
//   - All or nothing. The error or panic of one Update undoes it and nothing
//     else.
//   - One writer. Opening takes owner.lock and a new generation; a transaction
//     of an older generation is refused by the database.
//   - Nothing unredacted is stored: every string of every document passes
//     Options.Redact on its way in.
//   - It does not go on after a failed COMMIT: what the disk then holds is not
//     known, so Failed closes and the process is to end.
//
// Rows are (id, a few indexed columns, doc), where doc is the document as
// JSON. The SQL is hand-written and portable ($1, RETURNING, ON CONFLICT), and
// sequences are assigned by the writer, never by the database, so that another
// engine can stand behind the same surface.
package journal
