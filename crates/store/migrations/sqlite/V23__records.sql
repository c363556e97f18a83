-- A tenant's own entities, what their kinds declare, who belongs together, and who may do what with which. A list of who may
-- is known by what it holds and never changes; a record names the list that holds for it. `acl_work` says below which records
-- lists are still to be handed down.
CREATE TABLE record_kinds (
    tenant       TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    name         TEXT    NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    row_version  INTEGER NOT NULL CHECK (row_version > 0),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    schema       BLOB,
    keys         BLOB    NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

CREATE TABLE records (
    tenant      TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id          TEXT    NOT NULL CONSTRAINT id_not_empty CHECK (id <> ''),
    kind        TEXT    NOT NULL CONSTRAINT kind_not_empty CHECK (kind <> ''),
    parent      TEXT    CONSTRAINT parent_not_itself CHECK (parent <> id),
    version     INTEGER NOT NULL CHECK (version > 0),
    generation  INTEGER NOT NULL CHECK (generation > 0),
    effective   BLOB    NOT NULL CHECK (length(effective) = 16),
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    acl         BLOB    NOT NULL,
    body        BLOB    NOT NULL,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX records_kind ON records (tenant, kind, id);
CREATE INDEX records_parent ON records (tenant, parent, id) WHERE parent IS NOT NULL;

CREATE TABLE record_keys (
    tenant  TEXT NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    record  TEXT NOT NULL CONSTRAINT record_not_empty CHECK (record <> ''),
    name    TEXT NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    kind    TEXT NOT NULL CONSTRAINT kind_not_empty CHECK (kind <> ''),
    value   BLOB NOT NULL,
    PRIMARY KEY (tenant, record, name)
) WITHOUT ROWID;
CREATE INDEX record_keys_value ON record_keys (tenant, kind, name, value, record);

CREATE TABLE groups (
    tenant       TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    name         TEXT    NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    row_version  INTEGER NOT NULL CHECK (row_version > 0),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    members      BLOB    NOT NULL,
    roles        BLOB    NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

CREATE TABLE group_members (
    tenant  TEXT NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    member  TEXT NOT NULL CONSTRAINT member_not_empty CHECK (member <> ''),
    name    TEXT NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    PRIMARY KEY (tenant, member, name)
) WITHOUT ROWID;
CREATE INDEX group_members_name ON group_members (tenant, name);

CREATE TABLE acl_lists (
    tenant  TEXT NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id      BLOB NOT NULL CHECK (length(id) = 16),
    list    BLOB NOT NULL,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE TABLE acl_entries (
    tenant     TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    principal  TEXT    NOT NULL CONSTRAINT principal_not_empty CHECK (principal <> ''),
    list       BLOB    NOT NULL CHECK (length(list) = 16),
    allow      INTEGER NOT NULL,
    deny       INTEGER NOT NULL,
    PRIMARY KEY (tenant, principal, list)
) WITHOUT ROWID;

CREATE TABLE acl_work (
    tenant       TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    record       TEXT    NOT NULL CONSTRAINT record_not_empty CHECK (record <> ''),
    root         TEXT    NOT NULL CONSTRAINT root_not_empty CHECK (root <> ''),
    rank         INTEGER NOT NULL,
    level        INTEGER NOT NULL,
    since        INTEGER NOT NULL,
    due_at       INTEGER NOT NULL,
    cursor       TEXT,
    attempt      INTEGER NOT NULL,
    error        TEXT,
    row_version  INTEGER NOT NULL CHECK (row_version > 0),
    PRIMARY KEY (tenant, record)
) WITHOUT ROWID;
CREATE INDEX acl_work_order ON acl_work (tenant, rank, level, record);
CREATE INDEX acl_work_due ON acl_work (due_at);
CREATE INDEX acl_work_root ON acl_work (tenant, root);

-- For whom a key acts, if for anybody.
ALTER TABLE api_keys ADD COLUMN subject TEXT;
