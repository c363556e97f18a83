-- Workers of a tenant that handle events: what they want, and how they are to be treated.
CREATE TABLE workers (
    tenant       text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    name         text COLLATE "C" NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    row_version  bigint NOT NULL CHECK (row_version > 0),
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    declaration  bytea NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- Events for a worker. Those that were published together are one row until one of them fails: `events` holds their ids,
-- sixteen bytes each. `attempt` counts the attempts that were made. Of one `order_key` one row at a time is handed out,
-- in the order of `seq`.
CREATE TABLE deliveries (
    tenant      text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id          uuid NOT NULL CONSTRAINT id_not_empty CHECK (id <> '00000000-0000-0000-0000-000000000000'),
    seq         bigint GENERATED ALWAYS AS IDENTITY,
    worker      text COLLATE "C" NOT NULL CONSTRAINT worker_not_empty CHECK (worker <> ''),
    order_key   text COLLATE "C",
    created_at  bigint NOT NULL,
    visible_at  bigint NOT NULL,
    attempt     bigint NOT NULL,
    owner       uuid,
    events      bytea NOT NULL CONSTRAINT events_are_ids CHECK (length(events) > 0 AND length(events) % 16 = 0),
    last_error  bytea,
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX deliveries_backlog ON deliveries (worker, tenant, visible_at) WHERE owner IS NULL;
CREATE INDEX deliveries_ordered ON deliveries (worker, tenant, order_key, seq) WHERE order_key IS NOT NULL;

-- How old the oldest is: events that are waited for are not deleted. Not first by tenant, for the reason that V4 gives.
CREATE INDEX deliveries_age ON deliveries (created_at, tenant);

-- To how many workers an event was delivered.
ALTER TABLE events ADD COLUMN delivered bigint NOT NULL DEFAULT 0;

DO $$
DECLARE
    named name;
BEGIN
    FOREACH named IN ARRAY ARRAY['workers', 'deliveries']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', named);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', named);
        EXECUTE format('CREATE POLICY tenant ON %I USING (
            (SELECT current_setting(''windlass.tenants'', true)) = ''*''
            OR tenant = ANY ((SELECT string_to_array(current_setting(''windlass.tenants'', true), '',''))::text[]))', named);
    END LOOP;
END $$;
