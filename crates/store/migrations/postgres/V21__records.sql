-- A tenant's own entities, what their kinds declare, who belongs together, and who may do what with which. A list of who may
-- is known by what it holds and never changes; a record names the list that holds for it. `acl_work` says below which records
-- lists are still to be handed down.
CREATE TABLE record_kinds (
    tenant       text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    name         text COLLATE "C" NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    row_version  bigint NOT NULL CHECK (row_version > 0),
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    schema       bytea,
    keys         bytea NOT NULL,
    PRIMARY KEY (tenant, name)
);

CREATE TABLE records (
    tenant      text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id          text COLLATE "C" NOT NULL CONSTRAINT id_not_empty CHECK (id <> ''),
    kind        text COLLATE "C" NOT NULL CONSTRAINT kind_not_empty CHECK (kind <> ''),
    parent      text COLLATE "C" CONSTRAINT parent_not_itself CHECK (parent <> id),
    version     bigint NOT NULL CHECK (version > 0),
    generation  bigint NOT NULL CHECK (generation > 0),
    effective   uuid NOT NULL,
    created_at  bigint NOT NULL,
    updated_at  bigint NOT NULL,
    acl         bytea NOT NULL,
    body        bytea NOT NULL,
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 80);
CREATE INDEX records_kind ON records (tenant, kind, id);
CREATE INDEX records_parent ON records (tenant, parent, id) WHERE parent IS NOT NULL;

CREATE TABLE record_keys (
    tenant  text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    record  text COLLATE "C" NOT NULL CONSTRAINT record_not_empty CHECK (record <> ''),
    name    text COLLATE "C" NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    kind    text COLLATE "C" NOT NULL CONSTRAINT kind_not_empty CHECK (kind <> ''),
    value   bytea NOT NULL,
    PRIMARY KEY (tenant, record, name)
);
CREATE INDEX record_keys_value ON record_keys (tenant, kind, name, value, record);

CREATE TABLE groups (
    tenant       text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    name         text COLLATE "C" NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    row_version  bigint NOT NULL CHECK (row_version > 0),
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    members      bytea NOT NULL,
    roles        bytea NOT NULL,
    PRIMARY KEY (tenant, name)
);

CREATE TABLE group_members (
    tenant  text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    member  text COLLATE "C" NOT NULL CONSTRAINT member_not_empty CHECK (member <> ''),
    name    text COLLATE "C" NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    PRIMARY KEY (tenant, member, name)
);
CREATE INDEX group_members_name ON group_members (tenant, name);

CREATE TABLE acl_lists (
    tenant  text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id      uuid NOT NULL,
    list    bytea NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE TABLE acl_entries (
    tenant     text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    principal  text COLLATE "C" NOT NULL CONSTRAINT principal_not_empty CHECK (principal <> ''),
    list       uuid NOT NULL,
    allow      bigint NOT NULL,
    deny       bigint NOT NULL,
    PRIMARY KEY (tenant, principal, list)
);

CREATE TABLE acl_work (
    tenant       text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    record       text COLLATE "C" NOT NULL CONSTRAINT record_not_empty CHECK (record <> ''),
    root         text COLLATE "C" NOT NULL CONSTRAINT root_not_empty CHECK (root <> ''),
    rank         bigint NOT NULL,
    level        bigint NOT NULL,
    since        bigint NOT NULL,
    due_at       bigint NOT NULL,
    cursor       text COLLATE "C",
    attempt      bigint NOT NULL,
    error        text COLLATE "C",
    row_version  bigint NOT NULL CHECK (row_version > 0),
    PRIMARY KEY (tenant, record)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX acl_work_order ON acl_work (tenant, rank, level, record);
CREATE INDEX acl_work_due ON acl_work (due_at);
CREATE INDEX acl_work_root ON acl_work (tenant, root);

-- For whom a key acts, if for anybody.
ALTER TABLE api_keys ADD COLUMN subject text COLLATE "C";

DO $$
DECLARE
    named name;
BEGIN
    FOREACH named IN ARRAY ARRAY['record_kinds', 'records', 'record_keys', 'groups', 'group_members', 'acl_lists', 'acl_entries', 'acl_work']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', named);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', named);
        EXECUTE format('CREATE POLICY tenant ON %I USING (
            (SELECT current_setting(''windlass.tenants'', true)) = ''*''
            OR tenant = ANY ((SELECT string_to_array(current_setting(''windlass.tenants'', true), '',''))::text[]))', named);
    END LOOP;
END $$;
