-- One row an append, not one a record: `body` holds its records, a line each, `sum` their sums in the
-- same order, `seq` is the number of the first. In the order of writing, so that a new row goes to
-- the end of the file and fills its page.
ALTER TABLE events RENAME TO events_1;
CREATE TABLE events (
    place    INTEGER PRIMARY KEY,
    session  INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    body     BLOB NOT NULL,
    sum      BLOB NOT NULL
);
INSERT INTO events (session, seq, body, sum)
    SELECT session, seq, body, sum FROM events_1 ORDER BY session, seq;
DROP TABLE events_1;
CREATE UNIQUE INDEX events_by_session ON events (session, seq);

-- The same without a counter of its own: a row is given by who holds its lock.
ALTER TABLE sessions RENAME TO sessions_1;
DROP INDEX sessions_by_update;
CREATE TABLE sessions (
    row      INTEGER PRIMARY KEY,
    id       TEXT NOT NULL UNIQUE,
    epoch    INTEGER NOT NULL DEFAULT 0,
    owner    TEXT,
    head     INTEGER NOT NULL DEFAULT 0,
    sum      BLOB NOT NULL,
    updated  INTEGER NOT NULL DEFAULT 0,
    summary  TEXT
);
INSERT INTO sessions SELECT * FROM sessions_1;
DROP TABLE sessions_1;
CREATE INDEX sessions_by_update ON sessions (updated DESC);
