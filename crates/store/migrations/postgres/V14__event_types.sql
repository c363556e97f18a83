-- What the data of a type of events has to look like, where a tenant says so: a JSON Schema.
CREATE TABLE event_types (
    tenant       text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    name         text COLLATE "C" NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    row_version  bigint NOT NULL CHECK (row_version > 0),
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    schema       bytea NOT NULL,
    PRIMARY KEY (tenant, name)
);

ALTER TABLE event_types ENABLE ROW LEVEL SECURITY;
ALTER TABLE event_types FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON event_types USING (
    (SELECT current_setting('windlass.tenants', true)) = '*'
    OR tenant = ANY ((SELECT string_to_array(current_setting('windlass.tenants', true), ','))::text[]));
