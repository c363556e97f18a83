-- What the data of a type of events has to look like, where a tenant says so: a JSON Schema.
CREATE TABLE event_types (
    tenant       TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    name         TEXT    NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    row_version  INTEGER NOT NULL CHECK (row_version > 0),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    schema       BLOB    NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;
