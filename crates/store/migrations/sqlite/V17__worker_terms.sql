-- Of events that are debounced only the last is delivered: `debounce_key` is on the row that nobody was given yet, and is
-- taken off when it is handed out; it is put off to `debounce_until` at most. `lent` is 1 while a worker outside of any node has the row.
ALTER TABLE deliveries ADD COLUMN debounce_key TEXT;
ALTER TABLE deliveries ADD COLUMN debounce_until INTEGER;
ALTER TABLE deliveries ADD COLUMN lent INTEGER NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX deliveries_debounced ON deliveries (tenant, worker, debounce_key) WHERE debounce_key IS NOT NULL;
CREATE INDEX deliveries_lent ON deliveries (worker, tenant, visible_at) WHERE lent = 1;

-- When a worker that is given only so many events in a time may have the next.
CREATE TABLE worker_turns (
    tenant   TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    worker   TEXT    NOT NULL CONSTRAINT worker_not_empty CHECK (worker <> ''),
    next_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant, worker)
) WITHOUT ROWID;

-- How far a worker has come: moved in the commit that holds what it did.
CREATE TABLE watermarks (
    tenant      TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    worker      TEXT    NOT NULL CONSTRAINT worker_not_empty CHECK (worker <> ''),
    name        TEXT    NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    version     INTEGER NOT NULL CHECK (version > 0),
    updated_at  INTEGER NOT NULL,
    value       BLOB    NOT NULL,
    PRIMARY KEY (tenant, worker, name)
) WITHOUT ROWID;

-- What workers have done once is forgotten like the keys of starts.
CREATE INDEX inbox_workers ON inbox (created_at) WHERE scope = 'worker';
