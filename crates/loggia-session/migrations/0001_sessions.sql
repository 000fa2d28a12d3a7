-- One row a session. `head` and `sum` repeat the last record, so that records missing at the end
-- are noticed; `summary` is what a list shows.
CREATE TABLE sessions (
    row      INTEGER PRIMARY KEY AUTOINCREMENT,
    id       TEXT NOT NULL UNIQUE,
    epoch    INTEGER NOT NULL DEFAULT 0,
    owner    TEXT,
    head     INTEGER NOT NULL DEFAULT 0,
    sum      BLOB NOT NULL,
    updated  INTEGER NOT NULL DEFAULT 0,
    summary  TEXT
);
CREATE INDEX sessions_by_update ON sessions (updated DESC);

-- The log. `sum` chains each record to the one before it.
CREATE TABLE events (
    session  INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    body     BLOB NOT NULL,
    sum      BLOB NOT NULL,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;

CREATE TABLE tasks (
    task     TEXT PRIMARY KEY,
    session  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX tasks_by_session ON tasks (session);

-- Small values that are not facts of one session: remembered rules, trusted directories.
CREATE TABLE documents (
    collection TEXT NOT NULL,
    key        TEXT NOT NULL,
    value      TEXT NOT NULL,
    sum        BLOB NOT NULL,
    PRIMARY KEY (collection, key)
) WITHOUT ROWID;
