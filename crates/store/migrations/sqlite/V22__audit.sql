-- What people, keys and workers did, one row for each act, written in the commit of the act. `body` is the entry as it was
-- written and `content_hash` its hash. The sequencer seals entries once: `chain_seq` is the place in the tenant's chain,
-- `prev` the hash of the entry before and `hash` this one's. No two follow the same.
CREATE TABLE audit_entries (
    tenant        TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id            BLOB    NOT NULL CONSTRAINT id_not_empty CHECK (length(id) = 16 AND id <> x'00000000000000000000000000000000'),
    at            INTEGER NOT NULL,
    act           TEXT    NOT NULL CONSTRAINT act_not_empty CHECK (act <> ''),
    key_id        TEXT,
    subject       TEXT,
    object_kind   TEXT    NOT NULL,
    object_id     TEXT    NOT NULL,
    body          BLOB    NOT NULL,
    content_hash  BLOB    NOT NULL CHECK (length(content_hash) = 32),
    chain_seq     INTEGER CHECK (chain_seq > 0),
    prev          BLOB    CHECK (length(prev) = 32),
    hash          BLOB    CHECK (length(hash) = 32),
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX audit_entries_chain ON audit_entries (tenant, chain_seq) WHERE chain_seq IS NOT NULL;
CREATE UNIQUE INDEX audit_entries_prev ON audit_entries (tenant, prev) WHERE prev IS NOT NULL;
CREATE INDEX audit_entries_unsealed ON audit_entries (tenant, at) WHERE chain_seq IS NULL;
CREATE INDEX audit_entries_object ON audit_entries (tenant, object_id);

-- Places in chains that were signed when they were the last.
CREATE TABLE audit_checkpoints (
    tenant     TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    chain_seq  INTEGER NOT NULL CHECK (chain_seq > 0),
    hash       BLOB    NOT NULL CHECK (length(hash) = 32),
    at         INTEGER NOT NULL,
    key        BLOB    NOT NULL CHECK (length(key) = 32),
    signature  BLOB    NOT NULL CHECK (length(signature) = 64),
    PRIMARY KEY (tenant, chain_seq)
) WITHOUT ROWID;

-- Up to where retention has cut a chain, and the hash that what is left follows.
CREATE TABLE audit_anchors (
    tenant     TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    chain_seq  INTEGER NOT NULL,
    hash       BLOB    NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (tenant)
) WITHOUT ROWID;

CREATE TRIGGER audit_entries_stay BEFORE UPDATE OF tenant, id, at, act, key_id, subject, object_kind, object_id, body, content_hash
ON audit_entries
BEGIN
    SELECT RAISE(ABORT, 'audit_entries is append-only');
END;
CREATE TRIGGER audit_entries_sealed_once BEFORE UPDATE OF chain_seq, prev, hash ON audit_entries
WHEN OLD.chain_seq IS NOT NULL OR NEW.chain_seq IS NULL OR NEW.prev IS NULL OR NEW.hash IS NULL
BEGIN
    SELECT RAISE(ABORT, 'audit_entries is append-only');
END;
CREATE TRIGGER audit_entries_no_delete BEFORE DELETE ON audit_entries
WHEN NOT EXISTS (SELECT 1 FROM audit_anchors a WHERE a.tenant = OLD.tenant
    AND a.chain_seq >= coalesce(OLD.chain_seq, 9223372036854775807))
BEGIN
    SELECT RAISE(ABORT, 'audit_entries is append-only');
END;
CREATE TRIGGER audit_checkpoints_no_update BEFORE UPDATE ON audit_checkpoints
BEGIN
    SELECT RAISE(ABORT, 'audit_checkpoints is append-only');
END;
CREATE TRIGGER audit_checkpoints_no_delete BEFORE DELETE ON audit_checkpoints
WHEN NOT EXISTS (SELECT 1 FROM audit_anchors a WHERE a.tenant = OLD.tenant AND a.chain_seq >= OLD.chain_seq)
BEGIN
    SELECT RAISE(ABORT, 'audit_checkpoints is append-only');
END;
CREATE TRIGGER audit_anchors_rise BEFORE UPDATE ON audit_anchors WHEN NEW.chain_seq < OLD.chain_seq OR NEW.tenant <> OLD.tenant
BEGIN
    SELECT RAISE(ABORT, 'audit_anchors only rise');
END;
CREATE TRIGGER audit_anchors_stay BEFORE DELETE ON audit_anchors
WHEN EXISTS (SELECT 1 FROM audit_entries e WHERE e.tenant = OLD.tenant)
BEGIN
    SELECT RAISE(ABORT, 'audit_anchors stay while there are entries');
END;
