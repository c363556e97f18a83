-- Workers of a tenant that handle events: what they want, and how they are to be treated.
CREATE TABLE workers (
    tenant       TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    name         TEXT    NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    row_version  INTEGER NOT NULL CHECK (row_version > 0),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    declaration  BLOB    NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

-- Events for a worker. Those that were published together are one row until one of them fails: `events` holds their ids,
-- sixteen bytes each. `attempt` counts the attempts that were made. Of one `order_key` one row at a time is handed out,
-- in the order of `seq`.
CREATE TABLE deliveries (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant      TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id          BLOB    NOT NULL CONSTRAINT id_not_empty CHECK (length(id) = 16 AND id <> x'00000000000000000000000000000000'),
    worker      TEXT    NOT NULL CONSTRAINT worker_not_empty CHECK (worker <> ''),
    order_key   TEXT,
    created_at  INTEGER NOT NULL,
    visible_at  INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    owner       BLOB,
    events      BLOB    NOT NULL CONSTRAINT events_are_ids CHECK (length(events) > 0 AND length(events) % 16 = 0),
    last_error  BLOB
);

CREATE UNIQUE INDEX deliveries_id ON deliveries (tenant, id);
CREATE INDEX deliveries_backlog ON deliveries (worker, tenant, visible_at) WHERE owner IS NULL;
CREATE INDEX deliveries_ordered ON deliveries (tenant, worker, order_key, seq) WHERE order_key IS NOT NULL;

-- How old the oldest is: events that are waited for are not deleted.
CREATE INDEX deliveries_age ON deliveries (tenant, created_at);

-- To how many workers an event was delivered.
ALTER TABLE events ADD COLUMN delivered INTEGER NOT NULL DEFAULT 0;
