-- spans: in which stretches of 256 events a job has any. An index of the events
-- by job, and one by attempt, would put a page of their own into each commit for
-- every job and attempt that it tells of.
CREATE TABLE spans (
    job  TEXT NOT NULL,
    span INTEGER NOT NULL,
    PRIMARY KEY (job, span)
) STRICT, WITHOUT ROWID;
INSERT INTO spans (job, span) SELECT DISTINCT job, seq / 256 FROM events WHERE job IS NOT NULL;
DROP INDEX events_job;
DROP INDEX events_attempt;

-- What a process belonged to and where it might write is no longer part of its
-- record, whose key is its identity.
UPDATE processes SET id = json_remove(id, '$.writes'), doc = json_remove(doc, '$.owner', '$.identity.writes');
