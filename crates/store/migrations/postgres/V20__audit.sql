-- What people, keys and workers did, one row for each act, written in the commit of the act. `body` is the entry as it was
-- written and `content_hash` its hash. The sequencer seals entries once: `chain_seq` is the place in the tenant's chain,
-- `prev` the hash of the entry before and `hash` this one's. No two follow the same.
CREATE TABLE audit_entries (
    tenant        text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id            uuid NOT NULL CONSTRAINT id_not_empty CHECK (id <> '00000000-0000-0000-0000-000000000000'),
    at            bigint NOT NULL,
    act           text COLLATE "C" NOT NULL CONSTRAINT act_not_empty CHECK (act <> ''),
    key_id        text COLLATE "C",
    subject       text COLLATE "C",
    object_kind   text COLLATE "C" NOT NULL,
    object_id     text COLLATE "C" NOT NULL,
    body          bytea NOT NULL,
    content_hash  bytea NOT NULL CHECK (length(content_hash) = 32),
    chain_seq     bigint CHECK (chain_seq > 0),
    prev          bytea CHECK (length(prev) = 32),
    hash          bytea CHECK (length(hash) = 32),
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX audit_entries_chain ON audit_entries (tenant, chain_seq) WHERE chain_seq IS NOT NULL;
CREATE UNIQUE INDEX audit_entries_prev ON audit_entries (tenant, prev) WHERE prev IS NOT NULL;
CREATE INDEX audit_entries_unsealed ON audit_entries (tenant, at, id) WHERE chain_seq IS NULL;
CREATE INDEX audit_entries_object ON audit_entries (tenant, object_id, id);

-- Places in chains that were signed when they were the last.
CREATE TABLE audit_checkpoints (
    tenant     text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    chain_seq  bigint NOT NULL CHECK (chain_seq > 0),
    hash       bytea NOT NULL CHECK (length(hash) = 32),
    at         bigint NOT NULL,
    key        bytea NOT NULL CHECK (length(key) = 32),
    signature  bytea NOT NULL CHECK (length(signature) = 64),
    PRIMARY KEY (tenant, chain_seq)
);

-- Up to where retention has cut a chain, and the hash that what is left follows.
CREATE TABLE audit_anchors (
    tenant     text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    chain_seq  bigint NOT NULL,
    hash       bytea NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (tenant)
);

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['audit_entries', 'audit_checkpoints', 'audit_anchors'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format($policy$CREATE POLICY tenant ON %I USING (
            (SELECT current_setting('windlass.tenants', true)) = '*'
            OR tenant = ANY ((SELECT string_to_array(current_setting('windlass.tenants', true), ','))::text[]))$policy$, name);
    END LOOP;
END $$;

-- Whoever connects may add entries and seal each of them once. What is behind the anchor may go, and nothing else.
CREATE FUNCTION audit_stays() RETURNS trigger LANGUAGE plpgsql AS
$$
DECLARE
    place bigint;
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
    END IF;
    IF TG_OP = 'UPDATE' THEN
        IF TG_TABLE_NAME = 'audit_entries' THEN
            IF OLD.chain_seq IS NULL AND NEW.chain_seq IS NOT NULL AND NEW.prev IS NOT NULL AND NEW.hash IS NOT NULL
                AND (NEW.tenant, NEW.id, NEW.at, NEW.act, NEW.object_kind, NEW.object_id, NEW.body, NEW.content_hash)
                    = (OLD.tenant, OLD.id, OLD.at, OLD.act, OLD.object_kind, OLD.object_id, OLD.body, OLD.content_hash)
                AND NEW.key_id IS NOT DISTINCT FROM OLD.key_id AND NEW.subject IS NOT DISTINCT FROM OLD.subject THEN
                RETURN NEW;
            END IF;
        END IF;
        RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
    END IF;
    place := coalesce(OLD.chain_seq, 9223372036854775807);
    IF NOT EXISTS (SELECT 1 FROM audit_anchors a WHERE a.tenant = OLD.tenant AND a.chain_seq >= place) THEN
        RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
    END IF;
    RETURN OLD;
END
$$;
CREATE TRIGGER audit_entries_stay BEFORE UPDATE OR DELETE ON audit_entries
    FOR EACH ROW EXECUTE FUNCTION audit_stays();
CREATE TRIGGER audit_entries_whole BEFORE TRUNCATE ON audit_entries
    FOR EACH STATEMENT EXECUTE FUNCTION audit_stays();
CREATE TRIGGER audit_checkpoints_stay BEFORE UPDATE OR DELETE ON audit_checkpoints
    FOR EACH ROW EXECUTE FUNCTION audit_stays();
CREATE TRIGGER audit_checkpoints_whole BEFORE TRUNCATE ON audit_checkpoints
    FOR EACH STATEMENT EXECUTE FUNCTION audit_stays();

CREATE FUNCTION audit_anchors_stay() RETURNS trigger LANGUAGE plpgsql AS
$$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.chain_seq < OLD.chain_seq OR NEW.tenant <> OLD.tenant THEN
            RAISE EXCEPTION 'audit_anchors only rise';
        END IF;
        RETURN NEW;
    END IF;
    IF EXISTS (SELECT 1 FROM audit_entries e WHERE e.tenant = OLD.tenant) THEN
        RAISE EXCEPTION 'audit_anchors stay while there are entries';
    END IF;
    RETURN OLD;
END
$$;
CREATE TRIGGER audit_anchors_stay BEFORE UPDATE OR DELETE ON audit_anchors
    FOR EACH ROW EXECUTE FUNCTION audit_anchors_stay();
