-- Acts on many things as objects. `due_at` is when a node has something to do for a batch; a node that works on one puts it
-- off, so that another takes it up if the first is gone. The counts are raised by the commits that settle items.
CREATE TABLE batches (
    tenant       text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id           uuid NOT NULL CONSTRAINT id_not_empty CHECK (id <> '00000000-0000-0000-0000-000000000000'),
    act          text COLLATE "C" NOT NULL,
    query        text COLLATE "C" NOT NULL CONSTRAINT query_not_empty CHECK (query <> ''),
    arguments    bytea NOT NULL,
    actor        text COLLATE "C" NOT NULL,
    why          text COLLATE "C",
    status       text COLLATE "C" NOT NULL CONSTRAINT status_not_empty CHECK (status <> ''),
    detail       text COLLATE "C",
    rate         bigint NOT NULL CHECK (rate > 0),
    cursor       uuid,
    selected_at  bigint,
    matched      bigint NOT NULL,
    sent         bigint NOT NULL,
    done         bigint NOT NULL,
    failed       bigint NOT NULL,
    skipped      bigint NOT NULL,
    forgiven     bigint NOT NULL,
    due_at       bigint,
    row_version  bigint NOT NULL CHECK (row_version > 0),
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    ended_at     bigint,
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX batches_due ON batches (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX batches_ended ON batches (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE batch_items (
    tenant   text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    batch    uuid NOT NULL CONSTRAINT batch_not_empty CHECK (batch <> '00000000-0000-0000-0000-000000000000'),
    item     uuid NOT NULL CONSTRAINT item_not_empty CHECK (item <> '00000000-0000-0000-0000-000000000000'),
    outcome  text COLLATE "C" NOT NULL CONSTRAINT outcome_not_empty CHECK (outcome <> ''),
    detail   text COLLATE "C",
    at       bigint,
    PRIMARY KEY (tenant, batch, item)
) WITH (fillfactor = 80);

-- What is still to be done, and what came to one outcome.
CREATE INDEX batch_items_outcome ON batch_items (tenant, batch, outcome, item);

DO $$
DECLARE
    named name;
BEGIN
    FOREACH named IN ARRAY ARRAY['batches', 'batch_items']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', named);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', named);
        EXECUTE format('CREATE POLICY tenant ON %I USING (
            (SELECT current_setting(''windlass.tenants'', true)) = ''*''
            OR tenant = ANY ((SELECT string_to_array(current_setting(''windlass.tenants'', true), '',''))::text[]))', named);
    END LOOP;
END $$;
