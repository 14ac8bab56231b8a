package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver of the journal
)

// numbers are n new ids of each kind; one names the rows that are copied.
const (
	numbers = `CREATE TEMP TABLE n AS WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < ?1)
		SELECT i, 'job_' || printf('%026d', i) AS job, 'tsk_' || printf('%026d', i) AS task,
			'att_' || printf('%026d', i) AS attempt, 'art_' || printf('%026d', i) AS artifact FROM c`
	one = `CREATE TEMP TABLE one AS SELECT j.id AS job, t.id AS task, a.id AS attempt, f.id AS artifact, j.number AS number,
			(SELECT MAX(seq) FROM events) AS head, (SELECT MAX(seq) FROM events e WHERE e.attempt = a.id) AS event
		FROM jobs j JOIN tasks t ON t.job = j.id JOIN attempts a ON a.job = j.id JOIN artifacts f ON f.job = j.id`
)

// copied is one row that is copied: the table, its key, the name of the key in
// one, and what the copies have in place of the row's columns.
type copied struct {
	table, key, row string
	columns         map[string]string
}

var rows = []copied{
	{"jobs", "id", "job", map[string]string{"id": "n.job", "number": "one.number + i",
		"doc": "json_set(doc, '$.id', n.job, '$.number', one.number + i)"}},
	{"tasks", "id", "task", map[string]string{"id": "n.task", "job": "n.job",
		"doc": "json_set(doc, '$.id', n.task, '$.job', n.job, '$.attempt', n.attempt)"}},
	{"attempts", "id", "attempt", map[string]string{"id": "n.attempt", "job": "n.job", "task": "n.task",
		"doc": "json_set(doc, '$.id', n.attempt, '$.job', n.job, '$.task', n.task)"}},
	{"artifacts", "id", "artifact", map[string]string{"id": "n.artifact", "job": "n.job", "attempt": "n.attempt",
		"doc": "json_set(doc, '$.id', n.artifact, '$.job', n.job, '$.attempt', n.attempt)"}},
	{"events", "seq", "event", map[string]string{"seq": "one.head + i", "job": "n.job", "attempt": "n.attempt",
		"doc": "json_set(doc, '$.seq', one.head + i, '$.job', n.job, '$.attempt', n.attempt)"}},
}

// insert is the statement that copies the row. Columns that are not named are
// copied as they are.
func (c copied) insert(ctx context.Context, tx *sql.Tx) (string, error) {
	all, err := tx.QueryContext(ctx, `SELECT name FROM pragma_table_info(?1) ORDER BY cid`, c.table)
	if err != nil {
		return "", err
	}
	defer all.Close()
	var values []string
	for all.Next() {
		var name string
		if err := all.Scan(&name); err != nil {
			return "", err
		}
		value, ok := c.columns[name]
		if !ok {
			value = c.table + "." + name
		}
		values = append(values, value)
	}
	return fmt.Sprintf("INSERT INTO %s SELECT %s FROM %s JOIN one ON %s.%s = one.%s, n", c.table, strings.Join(values, ", "), c.table, c.table, c.key, c.row), all.Err()
}

// multiply gives a stopped journal a history of n finished tasks: its one job,
// with task, attempt, artifact and last event, n times more. Every row is as the
// product stored it, under other ids.
func multiply(ctx context.Context, dir string, n int) (err error) {
	// Without a log and without flushing, since the history is thrown away if this
	// fails: otherwise most of the bench would be the writing of it. The program
	// sets both again when it opens the journal.
	db, err := sql.Open("sqlite", fileURL(filepath.Join(dir, "journal.db"))+"?_journal_mode=OFF&_synchronous=OFF")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	if _, err := tx.ExecContext(ctx, numbers, n); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, one); err != nil {
		return err
	}
	for _, c := range rows {
		copying, err := c.insert(ctx, tx)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, copying); err != nil {
			return fmt.Errorf("copy a row of %s: %w", c.table, err)
		}
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO spans (job, span) SELECT DISTINCT job, seq / 256 FROM events WHERE job IS NOT NULL ON CONFLICT (job, span) DO NOTHING`); err != nil {
		return fmt.Errorf("mark the spans of the events: %w", err)
	}
	var finished int
	if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM tasks WHERE state = 'completed'`).Scan(&finished); err != nil {
		return err
	}
	if finished != n+1 {
		return fmt.Errorf("the history has %d finished tasks, not %d", finished, n+1)
	}
	return tx.Commit()
}
