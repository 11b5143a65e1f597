PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA secure_delete = FAST;
PRAGMA journal_mode = WAL;
PRAGMA foreign_keys = ON;
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, system TEXT NOT NULL, owner TEXT NOT NULL,
    position INTEGER NOT NULL, revision INTEGER NOT NULL, updated REAL NOT NULL, reply TEXT);
CREATE INDEX IF NOT EXISTS owned ON sessions (owner, updated);
CREATE TABLE IF NOT EXISTS texts (
    session TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE, name TEXT NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (session, name));
-- By itself, so that a text is not written again with each state that uses it.
CREATE TABLE IF NOT EXISTS uses (
    session TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE, name TEXT NOT NULL,
    last INTEGER NOT NULL, PRIMARY KEY (session, name));
CREATE TRIGGER IF NOT EXISTS unused AFTER DELETE ON uses BEGIN
    DELETE FROM texts WHERE session = OLD.session AND name = OLD.name;
END;
CREATE TABLE IF NOT EXISTS states (
    session TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE, number INTEGER NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (session, number));
CREATE TABLE IF NOT EXISTS explanations (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
    session TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE, body TEXT NOT NULL);
