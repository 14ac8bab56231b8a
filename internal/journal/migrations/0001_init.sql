-- The engine's own tables. Domain tables follow the same form: an id, the
-- columns that queries need, and doc, the document as JSON.

-- epoch: the lineage, empty in a backup. generation: the current owner.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

-- seq is assigned by the writer, in order and without gaps.
CREATE TABLE events (
    seq     INTEGER PRIMARY KEY,
    kind    TEXT NOT NULL,
    job     TEXT,
    attempt TEXT,
    doc     TEXT NOT NULL
) STRICT;
CREATE INDEX events_job ON events (job, seq) WHERE job IS NOT NULL;
CREATE INDEX events_attempt ON events (attempt, seq) WHERE attempt IS NOT NULL;

CREATE TABLE idempotency (
    scope  TEXT NOT NULL,
    key    TEXT NOT NULL,
    digest TEXT NOT NULL,
    doc    TEXT NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT;

CREATE TABLE leases (
    name   TEXT NOT NULL,
    slot   INTEGER NOT NULL,
    holder TEXT NOT NULL,
    doc    TEXT NOT NULL,
    PRIMARY KEY (name, slot)
) STRICT;
CREATE INDEX leases_holder ON leases (holder);

-- The domain's tables.

CREATE TABLE agents (
    id      TEXT PRIMARY KEY,
    removed INTEGER NOT NULL,
    doc     TEXT NOT NULL
) STRICT;

CREATE TABLE agent_revisions (
    agent    TEXT NOT NULL,
    revision INTEGER NOT NULL,
    doc      TEXT NOT NULL,
    PRIMARY KEY (agent, revision)
) STRICT;

-- plan holds the plan and the frozen plan, which are large and seldom read.
-- ended is in milliseconds since 1970. kept: 0 whole, 1 only as its summary.
CREATE TABLE jobs (
    id     TEXT PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE,
    state  TEXT NOT NULL,
    ended  INTEGER,
    kept   INTEGER NOT NULL DEFAULT 0,
    plan   TEXT NOT NULL,
    doc    TEXT NOT NULL
) STRICT;
CREATE INDEX jobs_ended ON jobs (kept, ended) WHERE ended IS NOT NULL;
CREATE INDEX jobs_state ON jobs (state, number);
-- What the scheduler reads at each turn must not grow with history.
CREATE INDEX jobs_open ON jobs (number) WHERE state IN ('running', 'needs_attention');

CREATE TABLE tasks (
    id    TEXT PRIMARY KEY,
    job   TEXT NOT NULL,
    key   TEXT NOT NULL,
    idx   INTEGER NOT NULL,
    state TEXT NOT NULL,
    doc   TEXT NOT NULL,
    UNIQUE (job, key)
) STRICT;

-- open: live, or unknown and unresolved.
CREATE TABLE attempts (
    id     TEXT PRIMARY KEY,
    job    TEXT NOT NULL,
    task   TEXT NOT NULL,
    number INTEGER NOT NULL,
    state  TEXT NOT NULL,
    open   INTEGER NOT NULL,
    doc    TEXT NOT NULL,
    UNIQUE (task, number)
) STRICT;
CREATE INDEX attempts_job ON attempts (job);
CREATE INDEX attempts_open ON attempts (id) WHERE open = 1;

-- pending: open, or decided with an answer that is not delivered yet.
CREATE TABLE requests (
    id       TEXT PRIMARY KEY,
    number   INTEGER NOT NULL UNIQUE,
    job      TEXT NOT NULL,
    attempt  TEXT NOT NULL,
    decision TEXT NOT NULL,
    pending  INTEGER NOT NULL,
    doc      TEXT NOT NULL
) STRICT;
CREATE INDEX requests_job ON requests (job);
CREATE INDEX requests_attempt ON requests (attempt);
CREATE INDEX requests_pending ON requests (number) WHERE pending = 1;

-- size is 0 for tombstones and for references without bytes.
CREATE TABLE artifacts (
    id      TEXT PRIMARY KEY,
    job     TEXT NOT NULL,
    attempt TEXT NOT NULL,
    sha256  TEXT NOT NULL,
    size    INTEGER NOT NULL,
    doc     TEXT NOT NULL
) STRICT;
-- With size, so that the space of each job is read from the index alone.
CREATE INDEX artifacts_job ON artifacts (job, size);
CREATE INDEX artifacts_sha256 ON artifacts (sha256);

CREATE TABLE processes (
    id         TEXT PRIMARY KEY,
    generation INTEGER NOT NULL,
    doc        TEXT NOT NULL
) STRICT;

CREATE TABLE credentials (
    id      TEXT PRIMARY KEY,
    hash    TEXT NOT NULL UNIQUE,
    revoked INTEGER NOT NULL,
    doc     TEXT NOT NULL
) STRICT;

CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    doc  TEXT NOT NULL
) STRICT;

-- What remains of a job after its detail was removed.
CREATE TABLE summaries (
    job TEXT PRIMARY KEY,
    doc TEXT NOT NULL
) STRICT;
