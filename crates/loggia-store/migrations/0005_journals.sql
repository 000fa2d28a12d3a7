-- An append is in the journal of its process first, and in the tables when they next learn. `place` says up to
-- where a journal of that generation is in the tables; what stands there in another generation is old.
DROP TABLE notes;
CREATE TABLE journals (
    slot       INTEGER PRIMARY KEY,
    generation BLOB NOT NULL,
    place      INTEGER NOT NULL
);
