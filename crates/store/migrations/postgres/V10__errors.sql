-- What failed for good, by what is alike: the fingerprint of a group is its id. Written by the error flush, one statement
-- for all that one tenant has to record.
CREATE TABLE error_groups (
    tenant        text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id            uuid NOT NULL CONSTRAINT id_not_empty CHECK (id <> '00000000-0000-0000-0000-000000000000'),
    source        text COLLATE "C" NOT NULL,
    target        text COLLATE "C" NOT NULL,
    class         text COLLATE "C" NOT NULL,
    step          text COLLATE "C",
    message       text COLLATE "C" NOT NULL,
    count         bigint NOT NULL CHECK (count > 0),
    first_at      bigint NOT NULL,
    last_at       bigint NOT NULL,
    first_sample  bytea NOT NULL,
    samples       bytea NOT NULL,
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX error_groups_newest ON error_groups (tenant, last_at, id);
CREATE INDEX error_groups_age ON error_groups (last_at);

-- The group that a dead letter belongs to; none for letters from before.
ALTER TABLE wf_dlq ADD COLUMN error_group uuid;
CREATE INDEX wf_dlq_group ON wf_dlq (tenant, error_group, failed_at, id);

ALTER TABLE error_groups ENABLE ROW LEVEL SECURITY;
ALTER TABLE error_groups FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON error_groups USING (
    (SELECT current_setting('windlass.tenants', true)) = '*'
    OR tenant = ANY ((SELECT string_to_array(current_setting('windlass.tenants', true), ','))::text[]));
