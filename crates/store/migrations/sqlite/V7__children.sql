-- Instances that an instance started: which one, by which of its waits, for which item of a `map` step.
ALTER TABLE wf_instances ADD COLUMN parent BLOB;
ALTER TABLE wf_instances ADD COLUMN parent_token INTEGER;
ALTER TABLE wf_instances ADD COLUMN parent_item INTEGER;

-- Children by status: lists, counts, and those still open when the parent closes.
CREATE INDEX wf_instances_parent ON wf_instances (tenant, parent, status, id) WHERE parent IS NOT NULL;

-- Items of fan-outs and their results. A dataset is there once all its items are.
CREATE TABLE datasets (
    tenant      TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id          BLOB    NOT NULL CONSTRAINT id_not_empty CHECK (length(id) = 16 AND id <> x'00000000000000000000000000000000'),
    count       INTEGER NOT NULL CHECK (count >= 0),
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

-- A run of neighbouring items as one JSON array. Where runs overlap, the later round counts.
CREATE TABLE dataset_items (
    tenant   TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    dataset  BLOB    NOT NULL CONSTRAINT dataset_not_empty CHECK (length(dataset) = 16),
    first    INTEGER NOT NULL CHECK (first >= 0),
    round    INTEGER NOT NULL CHECK (round >= 0),
    count    INTEGER NOT NULL CHECK (count BETWEEN 1 AND 1000),
    items    BLOB    NOT NULL,
    PRIMARY KEY (tenant, dataset, first, round)
) WITHOUT ROWID;
