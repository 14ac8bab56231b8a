-- staged: what a running attempt wrote so far. It becomes a change set when the
-- attempt is over.
CREATE TABLE staged (
    attempt TEXT PRIMARY KEY,
    job     TEXT NOT NULL,
    doc     TEXT NOT NULL
) STRICT;
CREATE INDEX staged_job ON staged (job);

-- pending: waits for the operator, or is landing.
CREATE TABLE change_sets (
    id      TEXT PRIMARY KEY,
    number  INTEGER NOT NULL UNIQUE,
    job     TEXT NOT NULL,
    attempt TEXT NOT NULL,
    state   TEXT NOT NULL,
    pending INTEGER NOT NULL,
    doc     TEXT NOT NULL
) STRICT;
CREATE INDEX change_sets_job ON change_sets (job);
CREATE INDEX change_sets_pending ON change_sets (number) WHERE pending = 1;

CREATE TABLE certificates (
    id  TEXT PRIMARY KEY,
    doc TEXT NOT NULL
) STRICT;
