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

-- The index of tasks, derived from the log and written with it. `updated` is when the status last
-- changed; `principal` is whose session it is. Each index is one kind of list, a stretch a state,
-- in the order of the list (the task itself comes last in each of them).
CREATE TABLE tasks (
    task      TEXT PRIMARY KEY,
    session   INTEGER NOT NULL,
    principal TEXT,
    state     TEXT NOT NULL,
    updated   INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX tasks_by_session ON tasks (session, state, updated);
CREATE INDEX tasks_by_principal ON tasks (principal, state, updated);
CREATE INDEX tasks_by_state ON tasks (state, updated);

-- Small values that are not facts of one session: remembered rules, trusted directories.
CREATE TABLE documents (
    collection TEXT NOT NULL,
    key        TEXT NOT NULL,
    value      TEXT NOT NULL,
    sum        BLOB NOT NULL,
    PRIMARY KEY (collection, key)
) WITHOUT ROWID;
