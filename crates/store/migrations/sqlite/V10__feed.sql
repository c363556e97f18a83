-- The order in which events were committed. A number is never given twice, whatever was deleted.
CREATE TABLE events_in_order (
    position     INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant       TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id           BLOB    NOT NULL CONSTRAINT id_not_empty CHECK (length(id) = 16 AND id <> x'00000000000000000000000000000000'),
    source       TEXT    NOT NULL CONSTRAINT source_not_empty CHECK (source <> ''),
    event_id     TEXT    NOT NULL CONSTRAINT event_id_not_empty CHECK (event_id <> ''),
    event_type   TEXT    NOT NULL CONSTRAINT event_type_not_empty CHECK (event_type <> ''),
    received_at  INTEGER NOT NULL,
    kept_until   INTEGER,
    expires_at   INTEGER NOT NULL,
    told         INTEGER NOT NULL,
    taken        INTEGER NOT NULL,
    started      INTEGER NOT NULL,
    collected    INTEGER NOT NULL DEFAULT 0,
    event        BLOB    NOT NULL,
    UNIQUE (tenant, id)
);
INSERT INTO events_in_order (tenant, id, source, event_id, event_type, received_at, kept_until, expires_at, told, taken,
        started, collected, event)
    SELECT tenant, id, source, event_id, event_type, received_at, kept_until, expires_at, told, taken, started, collected,
        event FROM events ORDER BY rowid;
DROP TABLE events;
ALTER TABLE events_in_order RENAME TO events;

CREATE UNIQUE INDEX events_source ON events (tenant, source, event_id);
CREATE INDEX events_kept ON events (tenant, event_type, id) WHERE kept_until IS NOT NULL;
CREATE INDEX events_expiry ON events (expires_at);
CREATE INDEX events_feed ON events (tenant, position);
