-- What failed for good, by what is alike: the fingerprint of a group is its id. Written by the error flush, one statement
-- for all that one tenant has to record.
CREATE TABLE error_groups (
    tenant        TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id            BLOB    NOT NULL CONSTRAINT id_not_empty CHECK (length(id) = 16 AND id <> x'00000000000000000000000000000000'),
    source        TEXT    NOT NULL,
    target        TEXT    NOT NULL,
    class         TEXT    NOT NULL,
    step          TEXT,
    message       TEXT    NOT NULL,
    count         INTEGER NOT NULL CHECK (count > 0),
    first_at      INTEGER NOT NULL,
    last_at       INTEGER NOT NULL,
    first_sample  BLOB    NOT NULL,
    samples       BLOB    NOT NULL,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE INDEX error_groups_newest ON error_groups (tenant, last_at, id);
CREATE INDEX error_groups_age ON error_groups (last_at);

-- The group that a dead letter belongs to; none for letters from before.
ALTER TABLE wf_dlq ADD COLUMN error_group BLOB;
CREATE INDEX wf_dlq_group ON wf_dlq (tenant, error_group, failed_at, id);
