-- Of events that are debounced only the last is delivered: `debounce_key` is on the row that nobody was given yet, and is
-- taken off when it is handed out; it is put off to `debounce_until` at most. `lent` is true while a worker outside of any node has the row.
ALTER TABLE deliveries ADD COLUMN debounce_key text COLLATE "C";
ALTER TABLE deliveries ADD COLUMN debounce_until bigint;
ALTER TABLE deliveries ADD COLUMN lent boolean NOT NULL DEFAULT false;
CREATE UNIQUE INDEX deliveries_debounced ON deliveries (worker, tenant, debounce_key) WHERE debounce_key IS NOT NULL;
CREATE INDEX deliveries_lent ON deliveries (worker, tenant, visible_at) WHERE lent;

-- When a worker that is given only so many events in a time may have the next. Its row is what nodes that hand out to one
-- worker at the same time wait at.
CREATE TABLE worker_turns (
    tenant   text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    worker   text COLLATE "C" NOT NULL CONSTRAINT worker_not_empty CHECK (worker <> ''),
    next_at  bigint NOT NULL,
    PRIMARY KEY (tenant, worker)
) WITH (fillfactor = 50);

-- How far a worker has come: moved in the commit that holds what it did.
CREATE TABLE watermarks (
    tenant      text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    worker      text COLLATE "C" NOT NULL CONSTRAINT worker_not_empty CHECK (worker <> ''),
    name        text COLLATE "C" NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    version     bigint NOT NULL CHECK (version > 0),
    updated_at  bigint NOT NULL,
    value       bytea NOT NULL,
    PRIMARY KEY (tenant, worker, name)
);

-- What workers have done once is forgotten like the keys of starts.
CREATE INDEX inbox_workers ON inbox (created_at) WHERE scope = 'worker';

DO $$
DECLARE
    named name;
BEGIN
    FOREACH named IN ARRAY ARRAY['worker_turns', 'watermarks']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', named);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', named);
        EXECUTE format('CREATE POLICY tenant ON %I USING (
            (SELECT current_setting(''windlass.tenants'', true)) = ''*''
            OR tenant = ANY ((SELECT string_to_array(current_setting(''windlass.tenants'', true), '',''))::text[]))', named);
    END LOOP;
END $$;
