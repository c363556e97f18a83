-- How many rows each queue holds: deliveries by worker, calls by target. Kept by the statements that insert and delete them,
-- once for each statement and not for each row. A connection adds to rows of its own (`shard` is its process), so that no two
-- wait for each other; what they hold is summed by whoever reads, and put together (`shard` 0) now and then.
CREATE TABLE queue_depths (
    tenant  text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    kind    text COLLATE "C" NOT NULL CONSTRAINT kind_known CHECK (kind IN ('call', 'delivery')),
    name    text COLLATE "C" NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    shard   integer NOT NULL,
    depth   bigint NOT NULL,
    PRIMARY KEY (tenant, kind, name, shard)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

ALTER TABLE queue_depths ENABLE ROW LEVEL SECURITY;
ALTER TABLE queue_depths FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON queue_depths USING (
    (SELECT current_setting('windlass.tenants', true)) = '*'
    OR tenant = ANY ((SELECT string_to_array(current_setting('windlass.tenants', true), ','))::text[]));

CREATE FUNCTION count_deliveries() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO queue_depths AS q (tenant, kind, name, shard, depth)
        SELECT tenant, 'delivery', worker, pg_backend_pid(), count(*) FROM changed GROUP BY tenant, worker
        ON CONFLICT (tenant, kind, name, shard) DO UPDATE SET depth = q.depth + excluded.depth;
    ELSE
        INSERT INTO queue_depths AS q (tenant, kind, name, shard, depth)
        SELECT tenant, 'delivery', worker, pg_backend_pid(), -count(*) FROM changed GROUP BY tenant, worker
        ON CONFLICT (tenant, kind, name, shard) DO UPDATE SET depth = q.depth + excluded.depth;
    END IF;
    RETURN NULL;
END $body$;

CREATE FUNCTION count_calls() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO queue_depths AS q (tenant, kind, name, shard, depth)
        SELECT tenant, 'call', target, pg_backend_pid(), count(*) FROM changed GROUP BY tenant, target
        ON CONFLICT (tenant, kind, name, shard) DO UPDATE SET depth = q.depth + excluded.depth;
    ELSE
        INSERT INTO queue_depths AS q (tenant, kind, name, shard, depth)
        SELECT tenant, 'call', target, pg_backend_pid(), -count(*) FROM changed GROUP BY tenant, target
        ON CONFLICT (tenant, kind, name, shard) DO UPDATE SET depth = q.depth + excluded.depth;
    END IF;
    RETURN NULL;
END $body$;

-- Whoever may change the queues may count, at once: nodes of the version before go on while the tables change.
DO $$
DECLARE
    given record;
BEGIN
    FOR given IN SELECT DISTINCT grantee, privilege_type FROM information_schema.role_table_grants
        WHERE table_schema = current_schema() AND table_name IN ('calls', 'deliveries') AND grantee <> current_user
        AND privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
    LOOP
        EXECUTE format('GRANT %s ON queue_depths TO %s', given.privilege_type,
            CASE given.grantee WHEN 'PUBLIC' THEN 'PUBLIC' ELSE quote_ident(given.grantee) END);
    END LOOP;
END $$;

-- Nobody inserts or deletes between the count and the triggers.
LOCK TABLE deliveries, calls IN SHARE ROW EXCLUSIVE MODE;
SELECT set_config('windlass.tenants', '*', true);
INSERT INTO queue_depths (tenant, kind, name, shard, depth)
    SELECT tenant, 'delivery', worker, 0, count(*) FROM deliveries GROUP BY tenant, worker;
INSERT INTO queue_depths (tenant, kind, name, shard, depth)
    SELECT tenant, 'call', target, 0, count(*) FROM calls GROUP BY tenant, target;

CREATE TRIGGER count_inserted AFTER INSERT ON deliveries REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_deliveries();
CREATE TRIGGER count_deleted AFTER DELETE ON deliveries REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_deliveries();
CREATE TRIGGER count_inserted AFTER INSERT ON calls REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_calls();
CREATE TRIGGER count_deleted AFTER DELETE ON calls REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_calls();
