-- Publishes as before, but tells nobody: NOTIFY in a transaction makes all commits of the database that do the same wait for each
-- other, and the transaction is somebody else's. A node finds the row with its next look, within half a minute, or at once if
-- whoever has committed calls windlass_wake().
CREATE OR REPLACE FUNCTION windlass_publish(of_tenant text, event jsonb) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER AS $body$
DECLARE
    given jsonb := event;
    seen text := current_setting('windlass.tenants', true);
    row_id uuid := gen_random_uuid();
    kind text;
    label text;
BEGIN
    PERFORM set_config('windlass.tenants', of_tenant, true);
    IF of_tenant !~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$' OR NOT EXISTS (
        SELECT 1 FROM publishers p WHERE p.role = session_user AND p.tenant = of_tenant) THEN
        RAISE EXCEPTION 'role % may not publish events for tenant %', session_user, of_tenant
            USING ERRCODE = 'insufficient_privilege', HINT = 'the owner of the tables adds a row to publishers';
    END IF;
    IF jsonb_typeof(given) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'an event is a JSON object' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF given ? 'tenantid' AND given ->> 'tenantid' IS DISTINCT FROM of_tenant THEN
        RAISE EXCEPTION 'tenantid names another tenant' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    kind := given ->> 'type';
    IF kind IS NULL OR octet_length(kind) NOT BETWEEN 1 AND 1024 THEN
        RAISE EXCEPTION 'an event has a type of 1 to 1024 bytes' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    given := jsonb_build_object('specversion', '1.0', 'id', row_id::text, 'source', 'sql/' || session_user,
        'time', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'datacontenttype', 'application/json') || given;
    FOREACH label IN ARRAY ARRAY['id', 'source'] LOOP
        IF jsonb_typeof(given -> label) <> 'string' OR octet_length(given ->> label) NOT BETWEEN 1 AND 1024 THEN
            RAISE EXCEPTION 'the % of an event is a text of 1 to 1024 bytes', label
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END LOOP;
    IF octet_length(given::text) > 1000000 THEN
        RAISE EXCEPTION 'an event has 1000000 bytes at most' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO outbox (tenant, id, key, event_type, created_at, event) VALUES (of_tenant, row_id,
        coalesce(given ->> 'subject', given ->> 'id'), kind,
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, convert_to(given::text, 'UTF8'));
    -- An error undoes it by itself.
    PERFORM set_config('windlass.tenants', coalesce(seen, ''), true);
    RETURN given ->> 'id';
END
$body$;

-- Names in it mean the tables beside it, whatever the caller has in its path.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION windlass_publish(text, jsonb) SET search_path = %I, pg_catalog, pg_temp', current_schema());
END $$;

-- Wakes nodes for what was published: after the commit, in a statement of its own, and once for any number of events. Heard by
-- nodes whose hints go over the database.
CREATE FUNCTION windlass_wake() RETURNS void LANGUAGE sql AS $body$
    SELECT pg_catalog.pg_notify('windlass_hints', 'sql o ')
$body$;
