-- The ids once more, in pages of their own: what the first index does not know is looked up here, so that
-- damage to the first cannot pass for a session that never was.
CREATE INDEX sessions_again ON sessions (id);
