-- A store of version 1, as it was written: what today's version must still bring up to date.
PRAGMA journal_mode = WAL;
PRAGMA application_id = 1937337956;
CREATE TABLE state (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  next_etag INTEGER NOT NULL,
  highest_date INTEGER NOT NULL
);
INSERT INTO state VALUES (1, 7, 1704067200);
CREATE TABLE rows (
  kind INTEGER NOT NULL,
  parent TEXT NOT NULL,
  name TEXT NOT NULL,
  etag INTEGER NOT NULL,
  created INTEGER NOT NULL,
  modified INTEGER NOT NULL,
  type INTEGER NOT NULL,
  content_type TEXT,
  length INTEGER NOT NULL,
  blocks INTEGER NOT NULL,
  metadata TEXT,
  lease_id TEXT,
  lease_seconds INTEGER,
  lease_end INTEGER,
  lease_break_end INTEGER,
  lease_boot TEXT,
  content BLOB,
  PRIMARY KEY (kind, parent, name)
) WITHOUT ROWID;
CREATE TABLE pieces (
  container TEXT NOT NULL,
  name TEXT NOT NULL,
  position INTEGER NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (container, name, position)
) WITHOUT ROWID;
INSERT INTO rows (kind, parent, name, etag, created, modified, type, length, blocks, metadata, content) VALUES
  (1, '', 'flags', 4, 1704067200, 1704067200, 0, 0, 0, NULL, ''),
  (2, 'flags', 'old', 5, 1704067200, 1704067200, 0, 4, 0, 'Who=v1' || char(10), CAST('kept' AS BLOB));
PRAGMA user_version = 1;
