CREATE TABLE acl_entries (
    tenant     TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    principal  TEXT    NOT NULL CONSTRAINT principal_not_empty CHECK (principal <> ''),
    list       BLOB    NOT NULL CHECK (length(list) = 16),
    allow      INTEGER NOT NULL,
    deny       INTEGER NOT NULL,
    PRIMARY KEY (tenant, principal, list)
) WITHOUT ROWID;

CREATE TABLE acl_lists (
    tenant  TEXT NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id      BLOB NOT NULL CHECK (length(id) = 16),
    list    BLOB NOT NULL,
    PRIMARY KEY (tenant, id)
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

CREATE INDEX acl_work_due ON acl_work (due_at);

CREATE INDEX acl_work_order ON acl_work (tenant, rank, level, record);

CREATE INDEX acl_work_root ON acl_work (tenant, root);

CREATE TABLE api_keys (
    tenant      TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id          TEXT    NOT NULL CONSTRAINT id_not_empty CHECK (id <> ''),
    name        TEXT    NOT NULL,
    hash        BLOB    NOT NULL CHECK (length(hash) > 0),
    roles       BLOB    NOT NULL,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER,
    revoked_at  INTEGER, subject TEXT,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE UNIQUE INDEX api_keys_id ON api_keys (id);

CREATE TRIGGER audit_anchors_rise BEFORE UPDATE ON audit_anchors WHEN NEW.chain_seq < OLD.chain_seq OR NEW.tenant <> OLD.tenant
BEGIN
    SELECT RAISE(ABORT, 'audit_anchors only rise');
END;

CREATE TRIGGER audit_anchors_stay BEFORE DELETE ON audit_anchors
WHEN EXISTS (SELECT 1 FROM audit_entries e WHERE e.tenant = OLD.tenant)
BEGIN
    SELECT RAISE(ABORT, 'audit_anchors stay while there are entries');
END;

CREATE TABLE audit_anchors (
    tenant     TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    chain_seq  INTEGER NOT NULL,
    hash       BLOB    NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (tenant)
) WITHOUT ROWID;

CREATE TRIGGER audit_checkpoints_no_delete BEFORE DELETE ON audit_checkpoints
WHEN NOT EXISTS (SELECT 1 FROM audit_anchors a WHERE a.tenant = OLD.tenant AND a.chain_seq >= OLD.chain_seq)
BEGIN
    SELECT RAISE(ABORT, 'audit_checkpoints is append-only');
END;

CREATE TRIGGER audit_checkpoints_no_update BEFORE UPDATE ON audit_checkpoints
BEGIN
    SELECT RAISE(ABORT, 'audit_checkpoints is append-only');
END;

CREATE TABLE audit_checkpoints (
    tenant     TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    chain_seq  INTEGER NOT NULL CHECK (chain_seq > 0),
    hash       BLOB    NOT NULL CHECK (length(hash) = 32),
    at         INTEGER NOT NULL,
    key        BLOB    NOT NULL CHECK (length(key) = 32),
    signature  BLOB    NOT NULL CHECK (length(signature) = 64),
    PRIMARY KEY (tenant, chain_seq)
) WITHOUT ROWID;

CREATE TRIGGER audit_entries_no_delete BEFORE DELETE ON audit_entries
WHEN NOT EXISTS (SELECT 1 FROM audit_anchors a WHERE a.tenant = OLD.tenant
    AND a.chain_seq >= coalesce(OLD.chain_seq, 9223372036854775807))
BEGIN
    SELECT RAISE(ABORT, 'audit_entries is append-only');
END;

CREATE TRIGGER audit_entries_sealed_once BEFORE UPDATE OF chain_seq, prev, hash ON audit_entries
WHEN OLD.chain_seq IS NOT NULL OR NEW.chain_seq IS NULL OR NEW.prev IS NULL OR NEW.hash IS NULL
BEGIN
    SELECT RAISE(ABORT, 'audit_entries is append-only');
END;

CREATE TRIGGER audit_entries_stay BEFORE UPDATE OF tenant, id, at, act, key_id, subject, object_kind, object_id, body, content_hash
ON audit_entries
BEGIN
    SELECT RAISE(ABORT, 'audit_entries is append-only');
END;

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

CREATE INDEX audit_entries_object ON audit_entries (tenant, object_id);

CREATE UNIQUE INDEX audit_entries_prev ON audit_entries (tenant, prev) WHERE prev IS NOT NULL;

CREATE INDEX audit_entries_unsealed ON audit_entries (tenant, at) WHERE chain_seq IS NULL;

CREATE TABLE batch_items (
    tenant   TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    batch    BLOB    NOT NULL CONSTRAINT batch_not_empty CHECK (length(batch) = 16 AND batch <> zeroblob(16)),
    item     BLOB    NOT NULL CONSTRAINT item_not_empty CHECK (length(item) = 16 AND item <> zeroblob(16)),
    outcome  TEXT    NOT NULL CONSTRAINT outcome_not_empty CHECK (outcome <> ''),
    detail   TEXT,
    at       INTEGER,
    PRIMARY KEY (tenant, batch, item)
) WITHOUT ROWID;

CREATE INDEX batch_items_outcome ON batch_items (tenant, batch, outcome, item);

CREATE TABLE batches (
    tenant       TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id           BLOB    NOT NULL CONSTRAINT id_not_empty CHECK (length(id) = 16 AND id <> zeroblob(16)),
    act          TEXT    NOT NULL,
    query        TEXT    NOT NULL CONSTRAINT query_not_empty CHECK (query <> ''),
    arguments    BLOB    NOT NULL,
    actor        TEXT    NOT NULL,
    why          TEXT,
    status       TEXT    NOT NULL CONSTRAINT status_not_empty CHECK (status <> ''),
    detail       TEXT,
    rate         INTEGER NOT NULL CHECK (rate > 0),
    cursor       BLOB,
    selected_at  INTEGER,
    matched      INTEGER NOT NULL,
    sent         INTEGER NOT NULL,
    done         INTEGER NOT NULL,
    failed       INTEGER NOT NULL,
    skipped      INTEGER NOT NULL,
    forgiven     INTEGER NOT NULL,
    due_at       INTEGER,
    row_version  INTEGER NOT NULL CHECK (row_version > 0),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    ended_at     INTEGER,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE INDEX batches_due ON batches (due_at) WHERE due_at IS NOT NULL;

CREATE INDEX batches_ended ON batches (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE calls (
    tenant      TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    instance    BLOB    NOT NULL CONSTRAINT instance_not_empty CHECK (length(instance) = 16 AND instance <> x'00000000000000000000000000000000'),
    token       INTEGER NOT NULL,
    target      TEXT    NOT NULL CONSTRAINT target_not_empty CHECK (target <> ''),
    created_at  INTEGER NOT NULL,
    visible_at  INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    owner       BLOB,
    envelope    BLOB    NOT NULL,
    last_error  BLOB, taken_over INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, instance, token)
) WITHOUT ROWID;

CREATE INDEX calls_backlog ON calls (tenant, visible_at) WHERE owner IS NULL;

CREATE TABLE dataset_items (
    tenant   TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    dataset  BLOB    NOT NULL CONSTRAINT dataset_not_empty CHECK (length(dataset) = 16),
    first    INTEGER NOT NULL CHECK (first >= 0),
    round    INTEGER NOT NULL CHECK (round >= 0),
    count    INTEGER NOT NULL CHECK (count BETWEEN 1 AND 1000),
    items    BLOB    NOT NULL,
    PRIMARY KEY (tenant, dataset, first, round)
) WITHOUT ROWID;

CREATE TABLE datasets (
    tenant      TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id          BLOB    NOT NULL CONSTRAINT id_not_empty CHECK (length(id) = 16 AND id <> x'00000000000000000000000000000000'),
    count       INTEGER NOT NULL CHECK (count >= 0),
    created_at  INTEGER NOT NULL, owner BLOB,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE INDEX datasets_owner ON datasets (tenant, owner) WHERE owner IS NOT NULL;

CREATE TABLE definitions (
    tenant      TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    namespace   TEXT    NOT NULL CONSTRAINT namespace_not_empty CHECK (namespace <> ''),
    name        TEXT    NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    version     TEXT    NOT NULL CONSTRAINT version_not_empty CHECK (version <> ''),
    title       TEXT,
    source      BLOB    NOT NULL,
    media_type  TEXT    NOT NULL,
    ir          BLOB    NOT NULL,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant, namespace, name, version)
);

CREATE TABLE deliveries (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant      TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id          BLOB    NOT NULL CONSTRAINT id_not_empty CHECK (length(id) = 16 AND id <> x'00000000000000000000000000000000'),
    worker      TEXT    NOT NULL CONSTRAINT worker_not_empty CHECK (worker <> ''),
    order_key   TEXT,
    created_at  INTEGER NOT NULL,
    visible_at  INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    owner       BLOB,
    events      BLOB    NOT NULL CONSTRAINT events_are_ids CHECK (length(events) > 0 AND length(events) % 16 = 0),
    last_error  BLOB
, taken_over INTEGER NOT NULL DEFAULT 0, debounce_key TEXT, debounce_until INTEGER, lent INTEGER NOT NULL DEFAULT 0, trace_id TEXT, correlation_id TEXT);

CREATE INDEX deliveries_age ON deliveries (tenant, created_at);

CREATE INDEX deliveries_backlog ON deliveries (worker, tenant, visible_at) WHERE owner IS NULL;

CREATE INDEX deliveries_correlation ON deliveries (tenant, correlation_id, id) WHERE correlation_id IS NOT NULL;

CREATE UNIQUE INDEX deliveries_debounced ON deliveries (tenant, worker, debounce_key) WHERE debounce_key IS NOT NULL;

CREATE UNIQUE INDEX deliveries_id ON deliveries (tenant, id);

CREATE INDEX deliveries_lent ON deliveries (worker, tenant, visible_at) WHERE lent = 1;

CREATE INDEX deliveries_ordered ON deliveries (tenant, worker, order_key, seq) WHERE order_key IS NOT NULL;

CREATE INDEX deliveries_trace ON deliveries (tenant, trace_id, id) WHERE trace_id IS NOT NULL;

CREATE TABLE deployment_keys (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL CHECK (length(value) = 32)
) WITHOUT ROWID;

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

CREATE INDEX error_groups_age ON error_groups (last_at);

CREATE INDEX error_groups_newest ON error_groups (tenant, last_at, id);

CREATE TABLE event_types (
    tenant       TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    name         TEXT    NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    row_version  INTEGER NOT NULL CHECK (row_version > 0),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    schema       BLOB    NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

CREATE TABLE "events" (
    position     INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant       TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id           BLOB    NOT NULL CONSTRAINT id_not_empty CHECK (length(id) = 16 AND id <> x'00000000000000000000000000000000'),
    source       TEXT    NOT NULL CONSTRAINT source_not_empty CHECK (source <> ''),
    event_id     TEXT    NOT NULL CONSTRAINT event_id_not_empty CHECK (event_id <> ''),
    event_type   TEXT    NOT NULL CONSTRAINT event_type_not_empty CHECK (event_type <> ''),
    received_at  INTEGER NOT NULL,
    kept_until   INTEGER,
    expires_at   INTEGER NOT NULL,
    told         INTEGER NOT NULL,
    taken        INTEGER NOT NULL,
    started      INTEGER NOT NULL,
    collected    INTEGER NOT NULL DEFAULT 0,
    event        BLOB    NOT NULL, delivered INTEGER NOT NULL DEFAULT 0, emitted_by TEXT, trace_id TEXT, correlation_id TEXT,
    UNIQUE (tenant, id)
);

CREATE INDEX events_correlation ON events (tenant, correlation_id, id) WHERE correlation_id IS NOT NULL;

CREATE INDEX events_expiry ON events (expires_at);

CREATE INDEX events_feed ON events (tenant, position);

CREATE INDEX events_kept ON events (tenant, event_type, id) WHERE kept_until IS NOT NULL;

CREATE UNIQUE INDEX events_source ON events (tenant, source, event_id);

CREATE INDEX events_trace ON events (tenant, trace_id, id) WHERE trace_id IS NOT NULL;

CREATE TABLE group_members (
    tenant  TEXT NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    member  TEXT NOT NULL CONSTRAINT member_not_empty CHECK (member <> ''),
    name    TEXT NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    PRIMARY KEY (tenant, member, name)
) WITHOUT ROWID;

CREATE INDEX group_members_name ON group_members (tenant, name);

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

CREATE TABLE inbox (
    tenant        TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    scope         TEXT    NOT NULL CONSTRAINT scope_not_empty CHECK (scope <> ''),
    key           TEXT    NOT NULL CONSTRAINT key_not_empty CHECK (key <> ''),
    created_at    INTEGER NOT NULL,
    request_hash  BLOB    NOT NULL,
    answer        BLOB    NOT NULL,
    PRIMARY KEY (tenant, scope, key)
) WITHOUT ROWID;

CREATE INDEX inbox_starts ON inbox (created_at) WHERE scope = 'start';

CREATE INDEX inbox_workers ON inbox (created_at) WHERE scope = 'worker';

CREATE TABLE outbox (
    seq         INTEGER PRIMARY KEY,
    tenant      TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id          BLOB    NOT NULL CONSTRAINT id_not_empty CHECK (length(id) = 16 AND id <> x'00000000000000000000000000000000'),
    key         TEXT    NOT NULL,
    event_type  TEXT    NOT NULL CONSTRAINT event_type_not_empty CHECK (event_type <> ''),
    created_at  INTEGER NOT NULL,
    event       BLOB    NOT NULL,
    UNIQUE (tenant, id)
);

CREATE INDEX outbox_by_tenant ON outbox (tenant);

CREATE TABLE record_keys (
    tenant  TEXT NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    record  TEXT NOT NULL CONSTRAINT record_not_empty CHECK (record <> ''),
    name    TEXT NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    kind    TEXT NOT NULL CONSTRAINT kind_not_empty CHECK (kind <> ''),
    value   BLOB NOT NULL,
    PRIMARY KEY (tenant, record, name)
) WITHOUT ROWID;

CREATE INDEX record_keys_value ON record_keys (tenant, kind, name, value, record);

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

CREATE TABLE schedule_collections (
    tenant    TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    schedule  BLOB    NOT NULL CONSTRAINT schedule_not_empty CHECK (length(schedule) = 16),
    version   INTEGER NOT NULL CHECK (version > 0),
    open      BLOB    NOT NULL,
    PRIMARY KEY (tenant, schedule)
);

CREATE TABLE schedule_slots (
    tenant    TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    schedule  BLOB    NOT NULL CONSTRAINT schedule_not_empty CHECK (length(schedule) = 16),
    slot      INTEGER NOT NULL,
    outcome   TEXT    NOT NULL CHECK (outcome IN ('fired', 'triggered', 'merged', 'skipped', 'failed')),
    count     INTEGER NOT NULL CHECK (count > 0),
    instance  BLOB,
    late_us   INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    detail    TEXT,
    PRIMARY KEY (tenant, schedule, slot)
) WITHOUT ROWID;

CREATE INDEX schedule_slots_age ON schedule_slots (at);

CREATE TABLE schedules (
    tenant       TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id           BLOB    NOT NULL CONSTRAINT id_not_empty CHECK (length(id) = 16 AND id <> x'00000000000000000000000000000000'),
    namespace    TEXT    NOT NULL CONSTRAINT namespace_not_empty CHECK (namespace <> ''),
    name         TEXT    NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    version      TEXT    NOT NULL CONSTRAINT version_not_empty CHECK (version <> ''),
    kind         TEXT    NOT NULL CHECK (kind IN ('cron', 'every', 'after', 'on')),
    spec         TEXT    NOT NULL,
    time_zone    TEXT    NOT NULL,
    missed       TEXT    NOT NULL,
    status       TEXT    NOT NULL CHECK (status IN ('active', 'paused', 'ended')),
    anchor       INTEGER NOT NULL,
    last_slot    INTEGER,
    next_slot    INTEGER,
    due_at       INTEGER,
    instance     BLOB,
    row_version  INTEGER NOT NULL CHECK (row_version > 0),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE INDEX schedules_due ON schedules (due_at) WHERE due_at IS NOT NULL;

CREATE UNIQUE INDEX schedules_name ON schedules (tenant, namespace, name);

CREATE TABLE schema_migrations (
    version INTEGER PRIMARY KEY,
    name    TEXT NOT NULL,
    sha256  BLOB NOT NULL
);

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

CREATE TABLE sqlite_sequence(name,seq);

CREATE TABLE subscriptions (
    tenant      TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    kind        TEXT    NOT NULL CHECK (kind IN ('listen', 'schedule')),
    owner       BLOB    NOT NULL CONSTRAINT owner_not_empty CHECK (length(owner) = 16),
    token       INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    event_type  TEXT    NOT NULL,
    path        TEXT    NOT NULL,
    value       TEXT    NOT NULL,
    PRIMARY KEY (tenant, kind, owner, token, position)
) WITHOUT ROWID;

CREATE INDEX subscriptions_wanted ON subscriptions (tenant, kind, event_type, path, value);

CREATE TABLE tenant_clocks (
    tenant     TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    ahead_us   INTEGER NOT NULL CHECK (ahead_us > 0),
    PRIMARY KEY (tenant)
) WITHOUT ROWID;

CREATE TABLE "tenants" (
    tenant               TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    title                TEXT    NOT NULL,
    status               TEXT    NOT NULL CHECK (status IN ('active', 'degraded', 'suspended', 'deleted')),
    created_at           INTEGER NOT NULL,
    weight               INTEGER NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 1000),
    purge_at             INTEGER,
    open_max             INTEGER NOT NULL DEFAULT 0 CHECK (open_max >= 0),
    starts_per_second    INTEGER NOT NULL DEFAULT 0 CHECK (starts_per_second >= 0),
    concurrency_max      INTEGER NOT NULL DEFAULT 0 CHECK (concurrency_max >= 0),
    degraded_per_second  INTEGER NOT NULL DEFAULT 0 CHECK (degraded_per_second >= 0),
    PRIMARY KEY (tenant)
) WITHOUT ROWID;

CREATE INDEX tenants_not_active ON tenants (status, tenant) WHERE status <> 'active';

CREATE TABLE watermarks (
    tenant      TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    worker      TEXT    NOT NULL CONSTRAINT worker_not_empty CHECK (worker <> ''),
    name        TEXT    NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    version     INTEGER NOT NULL CHECK (version > 0),
    updated_at  INTEGER NOT NULL,
    value       BLOB    NOT NULL,
    PRIMARY KEY (tenant, worker, name)
) WITHOUT ROWID;

CREATE TABLE wf_dlq (
    tenant     TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id         BLOB    NOT NULL CONSTRAINT id_not_empty CHECK (length(id) = 16 AND id <> x'00000000000000000000000000000000'),
    source     TEXT    NOT NULL,
    reason     TEXT    NOT NULL CONSTRAINT reason_not_empty CHECK (reason <> ''),
    detail     TEXT    NOT NULL,
    instance   BLOB,
    origin     BLOB    NOT NULL,
    attempts   INTEGER NOT NULL,
    last_node  BLOB    NOT NULL,
    failed_at  INTEGER NOT NULL,
    envelope   BLOB    NOT NULL, error_group BLOB,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE INDEX wf_dlq_deliveries ON wf_dlq (tenant, failed_at) WHERE source = 'delivery';

CREATE INDEX wf_dlq_group ON wf_dlq (tenant, error_group, failed_at, id);

CREATE INDEX wf_dlq_instance ON wf_dlq (tenant, instance) WHERE instance IS NOT NULL;

CREATE TABLE wf_history (
    tenant    TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    instance  BLOB    NOT NULL CONSTRAINT instance_not_empty CHECK (length(instance) = 16 AND instance <> x'00000000000000000000000000000000'),
    version   INTEGER NOT NULL CHECK (version > 0),
    at        INTEGER NOT NULL,
    events    BLOB    NOT NULL,
    PRIMARY KEY (tenant, instance, version)
) WITHOUT ROWID;

CREATE TABLE wf_host_locks (
    kind       TEXT    NOT NULL CHECK (kind IN ('node', 'lock')),
    name       BLOB    NOT NULL CONSTRAINT name_not_empty CHECK (length(name) > 0),
    holder     BLOB    NOT NULL CONSTRAINT holder_not_empty CHECK (length(holder) = 16),
    until_utc  INTEGER NOT NULL,
    fenced     INTEGER NOT NULL DEFAULT 0 CHECK (fenced IN (0, 1)),
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;

CREATE TABLE wf_instances (
    tenant          TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id              BLOB    NOT NULL CONSTRAINT id_not_empty CHECK (length(id) = 16 AND id <> x'00000000000000000000000000000000'),
    namespace       TEXT    NOT NULL CONSTRAINT namespace_not_empty CHECK (namespace <> ''),
    name            TEXT    NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    version         TEXT    NOT NULL CONSTRAINT version_not_empty CHECK (version <> ''),
    business_key    TEXT    CONSTRAINT business_key_not_empty CHECK (business_key <> ''),
    business_parts  BLOB,
    status          TEXT    NOT NULL CONSTRAINT status_not_empty CHECK (status <> ''),
    traceparent     TEXT,
    correlation_id  TEXT,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    input           BLOB    NOT NULL,
    output          BLOB,
    error           BLOB,
    context         BLOB, parent BLOB, parent_token INTEGER, parent_item INTEGER,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX wf_instances_correlation ON wf_instances (tenant, correlation_id, id)
    WHERE correlation_id IS NOT NULL AND octet_length(correlation_id) <= 255;

CREATE INDEX wf_instances_ended ON wf_instances (ended_at, id) WHERE ended_at IS NOT NULL;

CREATE INDEX wf_instances_key ON wf_instances (tenant, business_key, id) WHERE business_key IS NOT NULL;

CREATE UNIQUE INDEX wf_instances_open_key ON wf_instances (tenant, business_key)
    WHERE business_key IS NOT NULL AND ended_at IS NULL;

CREATE INDEX wf_instances_parent ON wf_instances (tenant, parent, status, id) WHERE parent IS NOT NULL;

CREATE INDEX wf_instances_parts ON wf_instances (tenant, id) WHERE business_parts IS NOT NULL;

CREATE INDEX wf_instances_status ON wf_instances (tenant, status, id);

CREATE INDEX wf_instances_trace ON wf_instances (tenant, substr(traceparent, 4, 32), id) WHERE traceparent IS NOT NULL;

CREATE TABLE wf_runtime_states (
    tenant                   TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    runtime_instance_id      BLOB    NOT NULL CONSTRAINT id_not_empty CHECK (length(runtime_instance_id) = 16 AND runtime_instance_id <> x'00000000000000000000000000000000'),
    state_version            INTEGER NOT NULL CHECK (state_version > 0),
    snapshot_schema_version  INTEGER NOT NULL,
    runtime_provider         TEXT    NOT NULL DEFAULT 'windlass',
    runtime_status           TEXT    NOT NULL,
    namespace                TEXT    NOT NULL,
    name                     TEXT    NOT NULL,
    version                  TEXT    NOT NULL,
    business_key             TEXT,
    business_parts           BLOB,
    waiting_kind             TEXT,
    waiting_token            TEXT,
    waiting_until_utc        INTEGER,
    active_task_id           BLOB,
    resume_pointer_json      BLOB,
    last_signal_id           BLOB,
    last_error_code          TEXT,
    last_error_json          BLOB,
    last_executed_by         BLOB    NOT NULL,
    last_executed_on_utc     INTEGER NOT NULL,
    created_on_utc           INTEGER NOT NULL,
    completed_on_utc         INTEGER,
    state_json               BLOB    NOT NULL,
    PRIMARY KEY (tenant, runtime_instance_id)
);

CREATE TABLE wf_schedule_q (
    tenant    TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    instance  BLOB    NOT NULL CONSTRAINT instance_not_empty CHECK (length(instance) = 16 AND instance <> x'00000000000000000000000000000000'),
    token     INTEGER NOT NULL,
    due_at    INTEGER NOT NULL,
    attempt   INTEGER NOT NULL,
    owner     BLOB,
    envelope  BLOB    NOT NULL, taken_over INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, instance, token)
) WITHOUT ROWID;

CREATE INDEX wf_schedule_q_backlog ON wf_schedule_q (due_at) WHERE owner IS NULL;

CREATE INDEX wf_schedule_q_backlog_of ON wf_schedule_q (tenant, due_at) WHERE owner IS NULL;

CREATE TABLE wf_signal_q (
    tenant       TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id           BLOB    NOT NULL CONSTRAINT id_not_empty CHECK (length(id) = 16 AND id <> x'00000000000000000000000000000000'),
    instance     BLOB    NOT NULL CONSTRAINT instance_not_empty CHECK (length(instance) = 16 AND instance <> x'00000000000000000000000000000000'),
    signal_type  TEXT    NOT NULL CONSTRAINT signal_type_not_empty CHECK (signal_type <> ''),
    created_at   INTEGER NOT NULL,
    visible_at   INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    owner        BLOB,
    envelope     BLOB    NOT NULL, taken_over INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE INDEX wf_signal_q_backlog ON wf_signal_q (visible_at) WHERE owner IS NULL;

CREATE INDEX wf_signal_q_backlog_of ON wf_signal_q (tenant, visible_at) WHERE owner IS NULL;

CREATE TRIGGER wf_task_events_no_delete BEFORE DELETE ON wf_task_events
WHEN EXISTS (SELECT 1 FROM wf_tasks WHERE tenant = OLD.tenant AND id = OLD.task)
BEGIN
    SELECT RAISE(ABORT, 'wf_task_events is append-only');
END;

CREATE TRIGGER wf_task_events_no_update BEFORE UPDATE ON wf_task_events
BEGIN
    SELECT RAISE(ABORT, 'wf_task_events is append-only');
END;

CREATE TABLE wf_task_events (
    tenant    TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    task      BLOB    NOT NULL CONSTRAINT task_not_empty CHECK (length(task) = 16 AND task <> x'00000000000000000000000000000000'),
    sequence  INTEGER NOT NULL CHECK (sequence > 0),
    kind      TEXT    NOT NULL CONSTRAINT kind_not_empty CHECK (kind <> ''),
    actor     TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    detail    BLOB    NOT NULL,
    PRIMARY KEY (tenant, task, sequence)
) WITHOUT ROWID;

CREATE TABLE wf_tasks (
    tenant            TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id                BLOB    NOT NULL CONSTRAINT id_not_empty CHECK (length(id) = 16 AND id <> x'00000000000000000000000000000000'),
    instance          BLOB    NOT NULL CONSTRAINT instance_not_empty CHECK (length(instance) = 16 AND instance <> x'00000000000000000000000000000000'),
    token             INTEGER NOT NULL,
    step              TEXT    NOT NULL,
    title             TEXT    NOT NULL,
    status            TEXT    NOT NULL CONSTRAINT status_not_empty CHECK (status <> ''),
    assignee          TEXT    CONSTRAINT assignee_not_empty CHECK (assignee <> ''),
    -- The list by group reads these arrays, so one that is no JSON is refused when it is written.
    candidate_users   BLOB    NOT NULL CHECK (json_valid(CAST(candidate_users AS TEXT))),
    candidate_groups  BLOB    NOT NULL CHECK (json_valid(CAST(candidate_groups AS TEXT))),
    priority          INTEGER NOT NULL,
    due_at            INTEGER,
    version           INTEGER NOT NULL CHECK (version > 0),
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    ended_at          INTEGER,
    payload           BLOB    NOT NULL,
    form              BLOB,
    result            BLOB,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX wf_tasks_assignee ON wf_tasks (tenant, assignee, id) WHERE assignee IS NOT NULL;

CREATE INDEX wf_tasks_instance ON wf_tasks (tenant, instance, id);

CREATE INDEX wf_tasks_status ON wf_tasks (tenant, status, id);

CREATE TABLE worker_turns (
    tenant   TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    worker   TEXT    NOT NULL CONSTRAINT worker_not_empty CHECK (worker <> ''),
    next_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant, worker)
) WITHOUT ROWID;

CREATE TABLE workers (
    tenant       TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    name         TEXT    NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    row_version  INTEGER NOT NULL CHECK (row_version > 0),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    declaration  BLOB    NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

