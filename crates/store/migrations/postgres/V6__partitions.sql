-- History in one partition per day on which its instances were started: ids of instances begin with the time of their start,
-- and those of their children with it too. What retention has left of a day goes by dropping the partition.
--   wf_history_d20270131  a day. Rows of instances that were deleted are left to the drop, and nobody is shown them.
--   wf_history_k20270131  a day that must stay because much of it is still needed: rows are deleted one by one again.
--   wf_history_before     everything up to the day of this migration.
--   wf_history_rest       ids for which there is no partition.

-- The lowest id of a day, counted from 1970.
CREATE FUNCTION wf_day_id(day bigint) RETURNS uuid LANGUAGE sql IMMUTABLE
    AS $$ SELECT (lpad(to_hex(day * 86400000), 12, '0') || repeat('0', 20))::uuid $$;

-- The day that an id begins with.
CREATE FUNCTION wf_id_day(id uuid) RETURNS bigint LANGUAGE sql IMMUTABLE
    AS $$ SELECT ('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 86400000 $$;

ALTER TABLE wf_history RENAME TO wf_history_before;
ALTER INDEX wf_history_pkey RENAME TO wf_history_before_pkey;
CREATE TABLE wf_history (
    LIKE wf_history_before INCLUDING CONSTRAINTS,
    PRIMARY KEY (tenant, instance, version)
) PARTITION BY RANGE (instance);

-- Row security of a table does not bind those who name its partition, so every partition has its own.
CREATE FUNCTION wf_secure(named regclass) RETURNS void LANGUAGE plpgsql SET search_path = public, pg_temp AS
$$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', named);
    EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', named);
    EXECUTE format('CREATE POLICY tenant ON %s USING (
        (SELECT current_setting(''windlass.tenants'', true)) = ''*''
        OR tenant = ANY ((SELECT string_to_array(current_setting(''windlass.tenants'', true), '',''))::text[]))', named);
END
$$;
REVOKE ALL ON FUNCTION wf_secure(regclass) FROM PUBLIC;

SELECT wf_secure('wf_history');

CREATE TABLE wf_history_rest (
    LIKE wf_history INCLUDING CONSTRAINTS,
    PRIMARY KEY (tenant, instance, version)
);
SELECT wf_secure('wf_history_rest');

-- The partitions of days.
CREATE FUNCTION wf_history_days() RETURNS TABLE (named regclass, low uuid, high uuid, kept boolean)
    LANGUAGE sql STABLE SET search_path = public, pg_temp AS
$$
    SELECT c.oid::regclass, b.ends[1]::uuid, b.ends[2]::uuid, c.relname LIKE 'wf\_history\_k%'
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    CROSS JOIN LATERAL (SELECT regexp_match(pg_get_expr(c.relpartbound, c.oid),
        $re$FROM \('([0-9a-f-]{36})'\) TO \('([0-9a-f-]{36})'\)$re$) AS ends) AS b
    WHERE i.inhparent = 'wf_history'::regclass AND c.relname ~ '^wf_history_[dk][0-9]{8}$' AND b.ends IS NOT NULL
    ORDER BY 2
$$;

-- Makes the partitions of the next days. One that cannot be made now, because of a lock or because its rows are in another
-- partition already, is tried again with the next call. Answers how many were made.
CREATE FUNCTION wf_history_ahead() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp SET lock_timeout = '200ms' AS
$$
DECLARE
    today bigint := extract(epoch FROM clock_timestamp())::bigint / 86400;
    made bigint := 0;
    named text;
BEGIN
    FOR day IN today .. today + 7 LOOP
        named := 'wf_history_d' || to_char(to_timestamp(day * 86400) AT TIME ZONE 'UTC', 'YYYYMMDD');
        CONTINUE WHEN to_regclass(named) IS NOT NULL;
        BEGIN
            EXECUTE format('CREATE TABLE %I (LIKE wf_history INCLUDING ALL)', named);
            PERFORM wf_secure(named::regclass);
            EXECUTE format('ALTER TABLE wf_history ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                named, wf_day_id(day), wf_day_id(day + 1));
            made := made + 1;
        EXCEPTION WHEN invalid_object_definition OR check_violation OR lock_not_available OR duplicate_table THEN
            NULL;
        END;
    END LOOP;
    RETURN made;
END
$$;

-- One step of getting rid of days that ended before `before` (microseconds): a partition is dropped, or rows of deleted
-- instances are deleted from one that must stay. Answers 0 when there is nothing left to do. History of instances that are
-- still there moves to the rest, and the day goes; if it is more than `moved_max` rows the day stays.
CREATE FUNCTION wf_history_retire(before bigint, moved_max bigint, deleted_max bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp SET lock_timeout = '200ms' AS
$$
DECLARE
    part record;
    -- Along the primary key, tenant by tenant: there is no index by id alone.
    needed constant text := 'WITH RECURSIVE t(tenant) AS (SELECT min(tenant) FROM wf_instances
        UNION ALL SELECT (SELECT min(i.tenant) FROM wf_instances i WHERE i.tenant > t.tenant) FROM t WHERE t.tenant IS NOT NULL)
        SELECT h.tenant, h.instance, h.version, h.at, h.events
        FROM t JOIN wf_instances i ON i.tenant = t.tenant AND i.id >= %2$L AND i.id < %3$L
        JOIN %1$s h ON h.tenant = i.tenant AND h.instance = i.id';
    rows bigint;
BEGIN
    -- Whoever does not see all tenants would take their instances for gone.
    IF current_setting('windlass.tenants', true) IS DISTINCT FROM '*' THEN
        RAISE EXCEPTION 'retiring history looks at all tenants';
    END IF;
    FOR part IN SELECT * FROM wf_history_days() WHERE high <= wf_day_id(greatest(before, 0) / 86400000000) LOOP
        EXECUTE format('SELECT count(*) FROM (' || needed || ' LIMIT %4$s) AS n', part.named, part.low, part.high, moved_max + 1)
            INTO rows;
        IF rows <= moved_max THEN
            -- Whoever writes history has a lock on it until his commit: after this one nothing of the day is on its way.
            LOCK TABLE ONLY wf_history IN ACCESS EXCLUSIVE MODE;
            EXECUTE format('ALTER TABLE wf_history DETACH PARTITION %s', part.named);
            EXECUTE format('INSERT INTO wf_history (tenant, instance, version, at, events) ' || needed,
                part.named, part.low, part.high);
            EXECUTE format('DROP TABLE %s', part.named);
            RETURN 1;
        END IF;
        IF NOT part.kept THEN
            EXECUTE format('DELETE FROM %1$s WHERE ctid = ANY (ARRAY(SELECT h.ctid FROM %1$s h WHERE NOT EXISTS
                (SELECT 1 FROM wf_instances i WHERE i.tenant = h.tenant AND i.id = h.instance) LIMIT %2$s))',
                part.named, deleted_max);
            GET DIAGNOSTICS rows = ROW_COUNT;
            IF rows < deleted_max THEN
                EXECUTE format('ALTER TABLE %s RENAME TO %I', part.named, replace(part.named::text, '_d', '_k'));
            END IF;
            RETURN 1;
        END IF;
    END LOOP;
    RETURN 0;
END
$$;

REVOKE ALL ON FUNCTION wf_history_ahead(), wf_history_retire(bigint, bigint, bigint) FROM PUBLIC;

-- Whoever worked with the table goes on. Rows whose ids do not begin with a time are rest.
DO $$
DECLARE
    granted record;
    first_day bigint;
    -- Five hundred years from now.
    no_time constant uuid := '10000000-0000-0000-0000-000000000000';
    without_time bigint;
BEGIN
    FOR granted IN SELECT a.grantee, a.privilege_type FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.oid = 'wf_history_before'::regclass AND a.grantee <> 0 AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT %s ON wf_history TO %I', granted.privilege_type, pg_get_userbyid(granted.grantee));
        IF granted.privilege_type = 'DELETE' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION wf_history_ahead(), wf_history_retire(bigint, bigint, bigint) TO %I',
                pg_get_userbyid(granted.grantee));
        END IF;
    END LOOP;
    PERFORM set_config('windlass.tenants', '*', true);
    first_day := 1 + extract(epoch FROM clock_timestamp())::bigint / 86400;
    SELECT greatest(first_day, 1 + max(wf_id_day(instance)) FILTER (WHERE instance < no_time)),
            count(*) FILTER (WHERE instance >= no_time)
        INTO first_day, without_time FROM wf_history_before WHERE instance >= wf_day_id(first_day);
    IF without_time > 0 THEN
        WITH moved AS (DELETE FROM wf_history_before WHERE instance >= no_time
                RETURNING tenant, instance, version, at, events)
            INSERT INTO wf_history_rest (tenant, instance, version, at, events) SELECT * FROM moved;
    END IF;
    EXECUTE format('ALTER TABLE wf_history ATTACH PARTITION wf_history_before FOR VALUES FROM (MINVALUE) TO (%L)',
        wf_day_id(first_day));
    ALTER TABLE wf_history ATTACH PARTITION wf_history_rest DEFAULT;
END
$$;

SELECT wf_history_ahead();
