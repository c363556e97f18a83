-- What a tenant may do now, and how much: `degraded` takes hardly anything new, `suspended` does nothing, `deleted` does
-- nothing either and goes with all its rows at `purge_at`. A limit of 0 is none.
CREATE TABLE tenants_standing (
    tenant               TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    title                TEXT    NOT NULL,
    status               TEXT    NOT NULL CHECK (status IN ('active', 'degraded', 'suspended', 'deleted')),
    created_at           INTEGER NOT NULL,
    weight               INTEGER NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 1000),
    purge_at             INTEGER,
    open_max             INTEGER NOT NULL DEFAULT 0 CHECK (open_max >= 0),
    starts_per_second    INTEGER NOT NULL DEFAULT 0 CHECK (starts_per_second >= 0),
    concurrency_max      INTEGER NOT NULL DEFAULT 0 CHECK (concurrency_max >= 0),
    degraded_per_second  INTEGER NOT NULL DEFAULT 0 CHECK (degraded_per_second >= 0),
    PRIMARY KEY (tenant)
) WITHOUT ROWID;
INSERT INTO tenants_standing (tenant, title, status, created_at, weight)
    SELECT tenant, title, status, created_at, weight FROM tenants;
DROP TABLE tenants;
ALTER TABLE tenants_standing RENAME TO tenants;

-- Claims ask whether anybody is parked at all; hardly ever is there one.
CREATE INDEX tenants_not_active ON tenants (status, tenant) WHERE status <> 'active';
