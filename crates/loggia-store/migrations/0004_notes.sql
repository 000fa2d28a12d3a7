-- What the lists of sessions and tasks have yet to learn of an append is written with it as a note, and they
-- learn it for many appends at once. A note is its checksum and a JSON object; there is none for what they know.
CREATE TABLE notes (
    place    INTEGER PRIMARY KEY,
    session  INTEGER NOT NULL,
    body     BLOB NOT NULL
);
