-- Schedules: one per definition name, following its newest version.
-- `next_slot` is in the tenant's own time, `due_at` is when that is by the real clock; both are null when no slot is
-- known (paused, ended, an instance is waited for, or events start it).
CREATE TABLE schedules (
    tenant       TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id           BLOB    NOT NULL CONSTRAINT id_not_empty CHECK (length(id) = 16 AND id <> x'00000000000000000000000000000000'),
    namespace    TEXT    NOT NULL CONSTRAINT namespace_not_empty CHECK (namespace <> ''),
    name         TEXT    NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    version      TEXT    NOT NULL CONSTRAINT version_not_empty CHECK (version <> ''),
    kind         TEXT    NOT NULL CHECK (kind IN ('cron', 'every', 'after', 'on')),
    spec         TEXT    NOT NULL,
    time_zone    TEXT    NOT NULL,
    missed       TEXT    NOT NULL,
    status       TEXT    NOT NULL CHECK (status IN ('active', 'paused', 'ended')),
    anchor       INTEGER NOT NULL,
    last_slot    INTEGER,
    next_slot    INTEGER,
    due_at       INTEGER,
    instance     BLOB,
    row_version  INTEGER NOT NULL CHECK (row_version > 0),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE UNIQUE INDEX schedules_name ON schedules (tenant, namespace, name);
CREATE INDEX schedules_due ON schedules (due_at) WHERE due_at IS NOT NULL;

-- The ledger: what became of each slot. `count` above 1 stands for that many slots from `slot` on.
CREATE TABLE schedule_slots (
    tenant    TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    schedule  BLOB    NOT NULL CONSTRAINT schedule_not_empty CHECK (length(schedule) = 16),
    slot      INTEGER NOT NULL,
    outcome   TEXT    NOT NULL CHECK (outcome IN ('fired', 'triggered', 'merged', 'skipped', 'failed')),
    count     INTEGER NOT NULL CHECK (count > 0),
    instance  BLOB,
    late_us   INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    detail    TEXT,
    PRIMARY KEY (tenant, schedule, slot)
) WITHOUT ROWID;

-- Events addressed to nobody. `kept_until` (tenant's time) is set while nothing has taken the event: a listen step
-- that begins before then is told about it. The row stays until `expires_at` (real time) and makes publishing
-- idempotent until then.
CREATE TABLE events (
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
    event        BLOB    NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE UNIQUE INDEX events_source ON events (tenant, source, event_id);
CREATE INDEX events_kept ON events (tenant, event_type, id) WHERE kept_until IS NOT NULL;
CREATE INDEX events_expiry ON events (expires_at);

-- Who wants events: waits of listen steps (`owner` is the instance) and schedules that events start (`token` 0).
-- An empty `event_type` is any type; an empty `path` is any value.
CREATE TABLE subscriptions (
    tenant      TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    kind        TEXT    NOT NULL CHECK (kind IN ('listen', 'schedule')),
    owner       BLOB    NOT NULL CONSTRAINT owner_not_empty CHECK (length(owner) = 16),
    token       INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    event_type  TEXT    NOT NULL,
    path        TEXT    NOT NULL,
    value       TEXT    NOT NULL,
    PRIMARY KEY (tenant, kind, owner, token, position)
) WITHOUT ROWID;

CREATE INDEX subscriptions_wanted ON subscriptions (tenant, kind, event_type, path, value);

-- How far a tenant's clock is ahead of the real one. Empty outside of tests.
CREATE TABLE tenant_clocks (
    tenant     TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    ahead_us   INTEGER NOT NULL CHECK (ahead_us > 0),
    PRIMARY KEY (tenant)
) WITHOUT ROWID;
