-- Conventions: ids are uuid, times are UTC microseconds, payloads are bytea kept byte for byte, counters and tokens are
-- bigint. Texts that are compared or sorted have the collation "C": the same order as in SQLite, and no locale to trust.
-- Primary keys begin with the tenant. `owner IS NULL` indexes hold the backlog only: a row born owned by a node writes
-- no entry there. There are no foreign keys, for the reasons given with the SQLite schema.
-- Row security is forced for whoever connects: a transaction sees the tenants that it named in `windlass.tenants`, or
-- all (`*`) where work is looked for across tenants. A transaction that named none sees nothing.

CREATE TABLE tenants (
    tenant      text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    title       text COLLATE "C" NOT NULL,
    status      text COLLATE "C" NOT NULL CHECK (status IN ('active', 'suspended')),
    created_at  bigint NOT NULL,
    PRIMARY KEY (tenant)
);

CREATE TABLE api_keys (
    tenant      text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id          text COLLATE "C" NOT NULL CONSTRAINT id_not_empty CHECK (id <> ''),
    name        text COLLATE "C" NOT NULL,
    hash        bytea NOT NULL CHECK (length(hash) > 0),
    roles       bytea NOT NULL,
    created_at  bigint NOT NULL,
    expires_at  bigint,
    revoked_at  bigint,
    PRIMARY KEY (tenant, id)
);

-- The public part of a key finds its tenant, so it is unique over all of them.
CREATE UNIQUE INDEX api_keys_id ON api_keys (id);

CREATE TABLE definitions (
    tenant      text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    namespace   text COLLATE "C" NOT NULL CONSTRAINT namespace_not_empty CHECK (namespace <> ''),
    name        text COLLATE "C" NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    version     text COLLATE "C" NOT NULL CONSTRAINT version_not_empty CHECK (version <> ''),
    title       text COLLATE "C",
    source      bytea NOT NULL,
    media_type  text COLLATE "C" NOT NULL,
    ir          bytea NOT NULL,
    created_at  bigint NOT NULL,
    PRIMARY KEY (tenant, namespace, name, version)
);

CREATE TABLE wf_instances (
    tenant          text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id              uuid NOT NULL CONSTRAINT id_not_empty CHECK (id <> '00000000-0000-0000-0000-000000000000'),
    namespace       text COLLATE "C" NOT NULL CONSTRAINT namespace_not_empty CHECK (namespace <> ''),
    name            text COLLATE "C" NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    version         text COLLATE "C" NOT NULL CONSTRAINT version_not_empty CHECK (version <> ''),
    business_key    text COLLATE "C" CONSTRAINT business_key_not_empty CHECK (business_key <> ''),
    business_parts  bytea,
    status          text COLLATE "C" NOT NULL CONSTRAINT status_not_empty CHECK (status <> ''),
    traceparent     text COLLATE "C",
    correlation_id  text COLLATE "C",
    created_at      bigint NOT NULL,
    updated_at      bigint NOT NULL,
    ended_at        bigint,
    input           bytea NOT NULL,
    output          bytea,
    error           bytea,
    context         bytea,
    parent          uuid,
    parent_token    bigint,
    parent_item     bigint,
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- One instance that has not ended per business key.
CREATE UNIQUE INDEX wf_instances_open_key ON wf_instances (tenant, business_key)
    WHERE business_key IS NOT NULL AND ended_at IS NULL;
CREATE INDEX wf_instances_status ON wf_instances (tenant, status, id);
CREATE INDEX wf_instances_key ON wf_instances (tenant, business_key, id) WHERE business_key IS NOT NULL;
CREATE INDEX wf_instances_parts ON wf_instances (tenant, id) WHERE business_parts IS NOT NULL;
-- Children by status: lists, counts, and those still open when the parent closes.
CREATE INDEX wf_instances_parent ON wf_instances (tenant, parent, status, id) WHERE parent IS NOT NULL;

CREATE TABLE wf_runtime_states (
    tenant                   text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    runtime_instance_id      uuid NOT NULL CONSTRAINT runtime_instance_id_not_empty CHECK (runtime_instance_id <> '00000000-0000-0000-0000-000000000000'),
    state_version            bigint NOT NULL CHECK (state_version > 0),
    snapshot_schema_version  bigint NOT NULL,
    runtime_provider         text COLLATE "C" NOT NULL DEFAULT 'windlass',
    runtime_status           text COLLATE "C" NOT NULL,
    namespace                text COLLATE "C" NOT NULL,
    name                     text COLLATE "C" NOT NULL,
    version                  text COLLATE "C" NOT NULL,
    business_key             text COLLATE "C",
    business_parts           bytea,
    waiting_kind             text COLLATE "C",
    waiting_token            text COLLATE "C",
    waiting_until_utc        bigint,
    active_task_id           uuid,
    resume_pointer_json      bytea,
    last_signal_id           uuid,
    last_error_code          text COLLATE "C",
    last_error_json          bytea,
    last_executed_by         uuid NOT NULL,
    last_executed_on_utc     bigint NOT NULL,
    created_on_utc           bigint NOT NULL,
    completed_on_utc         bigint,
    state_json               bytea NOT NULL,
    PRIMARY KEY (tenant, runtime_instance_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE wf_history (
    tenant    text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    instance  uuid NOT NULL CONSTRAINT instance_not_empty CHECK (instance <> '00000000-0000-0000-0000-000000000000'),
    version   bigint NOT NULL CHECK (version > 0),
    at        bigint NOT NULL,
    events    bytea NOT NULL,
    PRIMARY KEY (tenant, instance, version)
);

CREATE TABLE wf_signal_q (
    tenant       text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id           uuid NOT NULL CONSTRAINT id_not_empty CHECK (id <> '00000000-0000-0000-0000-000000000000'),
    instance     uuid NOT NULL CONSTRAINT instance_not_empty CHECK (instance <> '00000000-0000-0000-0000-000000000000'),
    signal_type  text COLLATE "C" NOT NULL CONSTRAINT signal_type_not_empty CHECK (signal_type <> ''),
    created_at   bigint NOT NULL,
    visible_at   bigint NOT NULL,
    attempt      bigint NOT NULL,
    owner        uuid,
    envelope     bytea NOT NULL,
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX wf_signal_q_backlog ON wf_signal_q (visible_at) WHERE owner IS NULL;

CREATE TABLE wf_schedule_q (
    tenant    text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    instance  uuid NOT NULL CONSTRAINT instance_not_empty CHECK (instance <> '00000000-0000-0000-0000-000000000000'),
    token     bigint NOT NULL,
    due_at    bigint NOT NULL,
    attempt   bigint NOT NULL,
    owner     uuid,
    envelope  bytea NOT NULL,
    PRIMARY KEY (tenant, instance, token)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX wf_schedule_q_backlog ON wf_schedule_q (due_at) WHERE owner IS NULL;

CREATE TABLE calls (
    tenant      text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    instance    uuid NOT NULL CONSTRAINT instance_not_empty CHECK (instance <> '00000000-0000-0000-0000-000000000000'),
    token       bigint NOT NULL,
    target      text COLLATE "C" NOT NULL CONSTRAINT target_not_empty CHECK (target <> ''),
    created_at  bigint NOT NULL,
    visible_at  bigint NOT NULL,
    attempt     bigint NOT NULL,
    owner       uuid,
    envelope    bytea NOT NULL,
    last_error  bytea,
    PRIMARY KEY (tenant, instance, token)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- The backlog of calls by tenant: a claim takes from each tenant in turn, and steps over one that has no room without
-- reading its rows.
CREATE INDEX calls_backlog ON calls (tenant, visible_at) WHERE owner IS NULL;

CREATE TABLE wf_dlq (
    tenant     text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id         uuid NOT NULL CONSTRAINT id_not_empty CHECK (id <> '00000000-0000-0000-0000-000000000000'),
    source     text COLLATE "C" NOT NULL,
    reason     text COLLATE "C" NOT NULL CONSTRAINT reason_not_empty CHECK (reason <> ''),
    detail     text COLLATE "C" NOT NULL,
    instance   uuid,
    origin     bytea NOT NULL,
    attempts   bigint NOT NULL,
    last_node  uuid NOT NULL,
    failed_at  bigint NOT NULL,
    envelope   bytea NOT NULL,
    PRIMARY KEY (tenant, id)
);

-- The list by group reads the arrays of candidates, so one that is no JSON is refused when it is written.

CREATE TABLE wf_tasks (
    tenant            text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id                uuid NOT NULL CONSTRAINT id_not_empty CHECK (id <> '00000000-0000-0000-0000-000000000000'),
    instance          uuid NOT NULL CONSTRAINT instance_not_empty CHECK (instance <> '00000000-0000-0000-0000-000000000000'),
    token             bigint NOT NULL,
    step              text COLLATE "C" NOT NULL,
    title             text COLLATE "C" NOT NULL,
    status            text COLLATE "C" NOT NULL CONSTRAINT status_not_empty CHECK (status <> ''),
    assignee          text COLLATE "C" CONSTRAINT assignee_not_empty CHECK (assignee <> ''),
    candidate_users   bytea NOT NULL CHECK (convert_from(candidate_users, 'UTF8')::jsonb IS NOT NULL),
    candidate_groups  bytea NOT NULL CHECK (convert_from(candidate_groups, 'UTF8')::jsonb IS NOT NULL),
    priority          bigint NOT NULL,
    due_at            bigint,
    version           bigint NOT NULL CHECK (version > 0),
    created_at        bigint NOT NULL,
    updated_at        bigint NOT NULL,
    ended_at          bigint,
    payload           bytea NOT NULL,
    form              bytea,
    result            bytea,
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 80);

CREATE INDEX wf_tasks_status ON wf_tasks (tenant, status, id);
CREATE INDEX wf_tasks_instance ON wf_tasks (tenant, instance, id);
CREATE INDEX wf_tasks_assignee ON wf_tasks (tenant, assignee, id) WHERE assignee IS NOT NULL;

CREATE TABLE wf_task_events (
    tenant    text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    task      uuid NOT NULL CONSTRAINT task_not_empty CHECK (task <> '00000000-0000-0000-0000-000000000000'),
    sequence  bigint NOT NULL CHECK (sequence > 0),
    kind      text COLLATE "C" NOT NULL CONSTRAINT kind_not_empty CHECK (kind <> ''),
    actor     text COLLATE "C" NOT NULL,
    at        bigint NOT NULL,
    detail    bytea NOT NULL,
    PRIMARY KEY (tenant, task, sequence)
);

CREATE FUNCTION wf_task_events_stay() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'wf_task_events is append-only'; END $$;
CREATE TRIGGER wf_task_events_stay BEFORE UPDATE OR DELETE ON wf_task_events
    FOR EACH STATEMENT EXECUTE FUNCTION wf_task_events_stay();

-- `seq` is the order of inserts. Rows of one key are inserted one commit after the other, so it is their order too; a
-- row is found until it is deleted, so one that commits late is not skipped.
CREATE TABLE outbox (
    tenant      text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id          uuid NOT NULL CONSTRAINT id_not_empty CHECK (id <> '00000000-0000-0000-0000-000000000000'),
    seq         bigint GENERATED ALWAYS AS IDENTITY,
    key         text COLLATE "C" NOT NULL,
    event_type  text COLLATE "C" NOT NULL CONSTRAINT event_type_not_empty CHECK (event_type <> ''),
    created_at  bigint NOT NULL,
    event       bytea NOT NULL,
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX outbox_seq ON outbox (seq);

CREATE TABLE inbox (
    tenant        text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    scope         text COLLATE "C" NOT NULL CONSTRAINT scope_not_empty CHECK (scope <> ''),
    key           text COLLATE "C" NOT NULL CONSTRAINT key_not_empty CHECK (key <> ''),
    created_at    bigint NOT NULL,
    request_hash  bytea NOT NULL,
    answer        bytea NOT NULL,
    PRIMARY KEY (tenant, scope, key)
);

CREATE TABLE secrets (
    tenant      text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    name        text COLLATE "C" NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    version     bigint NOT NULL,
    key_id      text COLLATE "C" NOT NULL CHECK (key_id <> ''),
    sealed      bytea NOT NULL CHECK (length(sealed) > 0),
    hosts       bytea NOT NULL,
    created_at  bigint NOT NULL,
    updated_at  bigint NOT NULL,
    PRIMARY KEY (tenant, name)
);

CREATE TABLE schedules (
    tenant       text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id           uuid NOT NULL CONSTRAINT id_not_empty CHECK (id <> '00000000-0000-0000-0000-000000000000'),
    namespace    text COLLATE "C" NOT NULL CONSTRAINT namespace_not_empty CHECK (namespace <> ''),
    name         text COLLATE "C" NOT NULL CONSTRAINT name_not_empty CHECK (name <> ''),
    version      text COLLATE "C" NOT NULL CONSTRAINT version_not_empty CHECK (version <> ''),
    kind         text COLLATE "C" NOT NULL CHECK (kind IN ('cron', 'every', 'after', 'on')),
    spec         text COLLATE "C" NOT NULL,
    time_zone    text COLLATE "C" NOT NULL,
    missed       text COLLATE "C" NOT NULL,
    status       text COLLATE "C" NOT NULL CHECK (status IN ('active', 'paused', 'ended')),
    anchor       bigint NOT NULL,
    last_slot    bigint,
    next_slot    bigint,
    due_at       bigint,
    instance     uuid,
    row_version  bigint NOT NULL CHECK (row_version > 0),
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 80);

CREATE UNIQUE INDEX schedules_name ON schedules (tenant, namespace, name);
CREATE INDEX schedules_due ON schedules (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE schedule_slots (
    tenant    text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    schedule  uuid NOT NULL,
    slot      bigint NOT NULL,
    outcome   text COLLATE "C" NOT NULL CHECK (outcome IN ('fired', 'triggered', 'merged', 'skipped', 'failed')),
    count     bigint NOT NULL CHECK (count > 0),
    instance  uuid,
    late_us   bigint NOT NULL,
    at        bigint NOT NULL,
    detail    text COLLATE "C",
    PRIMARY KEY (tenant, schedule, slot)
);

-- What schedules with `on` have collected and not started an instance with yet. `version` is raised by every change.
CREATE TABLE schedule_collections (
    tenant    text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    schedule  uuid NOT NULL CONSTRAINT schedule_not_empty CHECK (schedule <> '00000000-0000-0000-0000-000000000000'),
    version   bigint NOT NULL CHECK (version > 0),
    open      bytea NOT NULL,
    PRIMARY KEY (tenant, schedule)
);

CREATE TABLE events (
    tenant       text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id           uuid NOT NULL CONSTRAINT id_not_empty CHECK (id <> '00000000-0000-0000-0000-000000000000'),
    source       text COLLATE "C" NOT NULL CONSTRAINT source_not_empty CHECK (source <> ''),
    event_id     text COLLATE "C" NOT NULL CONSTRAINT event_id_not_empty CHECK (event_id <> ''),
    event_type   text COLLATE "C" NOT NULL CONSTRAINT event_type_not_empty CHECK (event_type <> ''),
    received_at  bigint NOT NULL,
    kept_until   bigint,
    expires_at   bigint NOT NULL,
    told         bigint NOT NULL,
    taken        bigint NOT NULL,
    started      bigint NOT NULL,
    collected    bigint NOT NULL,
    event        bytea NOT NULL,
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE UNIQUE INDEX events_source ON events (tenant, source, event_id);
CREATE INDEX events_kept ON events (tenant, event_type, id) WHERE kept_until IS NOT NULL;
CREATE INDEX events_expiry ON events (expires_at);

CREATE TABLE subscriptions (
    tenant      text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    kind        text COLLATE "C" NOT NULL CHECK (kind IN ('listen', 'schedule')),
    owner       uuid NOT NULL,
    token       bigint NOT NULL,
    position    bigint NOT NULL,
    event_type  text COLLATE "C" NOT NULL,
    path        text COLLATE "C" NOT NULL,
    value       text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, kind, owner, token, position)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX subscriptions_wanted ON subscriptions (tenant, kind, event_type, path, value);

CREATE TABLE tenant_clocks (
    tenant    text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    ahead_us  bigint NOT NULL CHECK (ahead_us > 0),
    PRIMARY KEY (tenant)
);

CREATE TABLE datasets (
    tenant      text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    id          uuid NOT NULL CONSTRAINT id_not_empty CHECK (id <> '00000000-0000-0000-0000-000000000000'),
    count       bigint NOT NULL CHECK (count >= 0),
    created_at  bigint NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE TABLE dataset_items (
    tenant   text COLLATE "C" NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    dataset  uuid NOT NULL,
    first    bigint NOT NULL CHECK (first >= 0),
    round    bigint NOT NULL CHECK (round >= 0),
    count    bigint NOT NULL CHECK (count BETWEEN 1 AND 1000),
    items    bytea NOT NULL,
    PRIMARY KEY (tenant, dataset, first, round)
);

-- Leases of nodes (`kind` node, `name` the node id) and of work that one node at a time does (`kind` lock).
CREATE TABLE wf_host_locks (
    kind       text    NOT NULL CHECK (kind IN ('node', 'lock')),
    name       uuid    NOT NULL,
    holder     uuid    NOT NULL,
    until_utc  bigint  NOT NULL,
    fenced     boolean NOT NULL DEFAULT false,
    PRIMARY KEY (kind, name)
) WITH (fillfactor = 50);

-- Secrets of the deployment as a whole, made by the first node that needs one.
CREATE TABLE deployment_keys (
    name   text  PRIMARY KEY,
    value  bytea NOT NULL CHECK (length(value) = 32)
);

-- The scalar queries are read once per statement, not once per row.
DO $$
DECLARE
    named name;
BEGIN
    FOR named IN SELECT table_name FROM information_schema.columns
        WHERE table_schema = current_schema() AND column_name = 'tenant'
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', named);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', named);
        EXECUTE format('CREATE POLICY tenant ON %I USING (
            (SELECT current_setting(''windlass.tenants'', true)) = ''*''
            OR tenant = ANY ((SELECT string_to_array(current_setting(''windlass.tenants'', true), '',''))::text[]))', named);
    END LOOP;
END $$;
