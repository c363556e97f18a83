-- Secrets of tenants: sealed before they come here, opened only where outward calls are made.
CREATE TABLE secrets (
    tenant      TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    name        TEXT    NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    version     INTEGER NOT NULL,
    key_id      TEXT    NOT NULL CHECK (key_id <> ''),
    sealed      BLOB    NOT NULL CHECK (length(sealed) > 0),
    hosts       BLOB    NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;
