-- Acts on many things as objects. `due_at` is when a node has something to do for a batch; a node that works on one puts it
-- off, so that another takes it up if the first is gone. The counts are raised by the commits that settle items.
CREATE TABLE batches (
    tenant       TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id           BLOB    NOT NULL CONSTRAINT id_not_empty CHECK (length(id) = 16 AND id <> zeroblob(16)),
    act          TEXT    NOT NULL,
    query        TEXT    NOT NULL CONSTRAINT query_not_empty CHECK (query <> ''),
    arguments    BLOB    NOT NULL,
    actor        TEXT    NOT NULL,
    why          TEXT,
    status       TEXT    NOT NULL CONSTRAINT status_not_empty CHECK (status <> ''),
    detail       TEXT,
    rate         INTEGER NOT NULL CHECK (rate > 0),
    cursor       BLOB,
    selected_at  INTEGER,
    matched      INTEGER NOT NULL,
    sent         INTEGER NOT NULL,
    done         INTEGER NOT NULL,
    failed       INTEGER NOT NULL,
    skipped      INTEGER NOT NULL,
    forgiven     INTEGER NOT NULL,
    due_at       INTEGER,
    row_version  INTEGER NOT NULL CHECK (row_version > 0),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    ended_at     INTEGER,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE INDEX batches_due ON batches (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX batches_ended ON batches (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE batch_items (
    tenant   TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    batch    BLOB    NOT NULL CONSTRAINT batch_not_empty CHECK (length(batch) = 16 AND batch <> zeroblob(16)),
    item     BLOB    NOT NULL CONSTRAINT item_not_empty CHECK (length(item) = 16 AND item <> zeroblob(16)),
    outcome  TEXT    NOT NULL CONSTRAINT outcome_not_empty CHECK (outcome <> ''),
    detail   TEXT,
    at       INTEGER,
    PRIMARY KEY (tenant, batch, item)
) WITHOUT ROWID;

-- What is still to be done, and what came to one outcome.
CREATE INDEX batch_items_outcome ON batch_items (tenant, batch, outcome, item);
