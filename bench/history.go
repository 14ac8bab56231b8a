package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver of the journal
)

// copies make n more of the one job of a journal, with its task, its attempt,
// its artifact and the last events of it. Every row is as the product stored it,
// under other ids. ?1 is how many.
var copies = []string{
	`CREATE TEMP TABLE n AS WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < ?1)
		SELECT i, 'job_' || printf('%026d', i) AS job, 'tsk_' || printf('%026d', i) AS task,
			'att_' || printf('%026d', i) AS attempt, 'art_' || printf('%026d', i) AS artifact FROM c`,
	`CREATE TEMP TABLE one AS SELECT j.id AS job, t.id AS task, a.id AS attempt, f.id AS artifact,
			j.number AS number, (SELECT MAX(seq) FROM events) AS head
		FROM jobs j JOIN tasks t ON t.job = j.id JOIN attempts a ON a.job = j.id JOIN artifacts f ON f.job = j.id`,
	`INSERT INTO jobs SELECT n.job, one.number + i, state, plan, json_set(doc, '$.id', n.job, '$.number', one.number + i)
		FROM jobs JOIN one ON jobs.id = one.job, n`,
	`INSERT INTO tasks SELECT n.task, n.job, key, idx, state, json_set(doc, '$.id', n.task, '$.job', n.job, '$.attempt', n.attempt)
		FROM tasks JOIN one ON tasks.id = one.task, n`,
	`INSERT INTO attempts SELECT n.attempt, n.job, n.task, attempts.number, state, open, json_set(doc, '$.id', n.attempt, '$.job', n.job, '$.task', n.task)
		FROM attempts JOIN one ON attempts.id = one.attempt, n`,
	`INSERT INTO artifacts SELECT n.artifact, n.job, n.attempt, sha256, size, json_set(doc, '$.id', n.artifact, '$.job', n.job, '$.attempt', n.attempt)
		FROM artifacts JOIN one ON artifacts.id = one.artifact, n`,
	`INSERT INTO events SELECT one.head + i, kind, n.job, n.attempt, json_set(doc, '$.seq', one.head + i, '$.job', n.job, '$.attempt', n.attempt)
		FROM events JOIN one ON events.seq = (SELECT MAX(seq) FROM events e WHERE e.attempt = one.attempt), n`,
}

// multiply gives a stopped journal a history of n finished tasks.
func multiply(ctx context.Context, dir string, n int) (err error) {
	db, err := sql.Open("sqlite", fileURL(filepath.Join(dir, "journal.db")))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	for i, copying := range copies {
		args := []any{n}[:max(0, 1-i)]
		if _, err := tx.ExecContext(ctx, copying, args...); err != nil {
			return fmt.Errorf("copy %d: %w", i, err)
		}
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
