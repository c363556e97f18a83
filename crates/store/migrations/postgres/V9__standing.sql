-- What a tenant may do now, and how much: `degraded` takes hardly anything new, `suspended` does nothing, `deleted` does
-- nothing either and goes with all its rows at `purge_at`. A limit of 0 is none.
ALTER TABLE tenants DROP CONSTRAINT tenants_status_check;
ALTER TABLE tenants ADD CONSTRAINT tenants_status_check
    CHECK (status IN ('active', 'degraded', 'suspended', 'deleted'));
ALTER TABLE tenants
    ADD COLUMN purge_at bigint,
    ADD COLUMN open_max bigint NOT NULL DEFAULT 0 CHECK (open_max >= 0),
    ADD COLUMN starts_per_second bigint NOT NULL DEFAULT 0 CHECK (starts_per_second >= 0),
    ADD COLUMN concurrency_max bigint NOT NULL DEFAULT 0 CHECK (concurrency_max >= 0),
    ADD COLUMN degraded_per_second bigint NOT NULL DEFAULT 0 CHECK (degraded_per_second >= 0);

-- Claims ask whether anybody is parked at all; hardly ever is there one.
CREATE INDEX tenants_not_active ON tenants (status, tenant) WHERE status <> 'active';
