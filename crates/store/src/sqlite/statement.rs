//! Every statement that writes, one purpose each, and the prepared form they run in.
//!
//! Reads are in `read` and `list`, claims and leases in `claim` and `node`.

use super::queue::Changes;
use rusqlite::{CachedStatement, Connection};
use std::{collections::HashMap, rc::Rc};

/// Names each statement and holds its text; parameters are bound by position.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $sql:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub(super) enum Statement {
            $($(#[$doc])* $name,)*
        }

        impl Statement {
            pub(super) const ALL: &[Statement] = &[$(Statement::$name,)*];
            const TEXT: &[&str] = &[$($sql,)*];
        }
    };
}

statements! {
    ConsumeSignal = "DELETE FROM wf_signal_q WHERE tenant = ?1 AND id = ?2";
    ConsumeTimer = "DELETE FROM wf_schedule_q WHERE tenant = ?1 AND instance = ?2 AND token = ?3";
    ConsumeCall = "DELETE FROM calls WHERE tenant = ?1 AND instance = ?2 AND token = ?3";
    ConsumeDelivery = "DELETE FROM deliveries WHERE tenant = ?1 AND id = ?2 AND attempt = ?3";
    ExtendDelivery = "UPDATE deliveries SET visible_at = ?4 WHERE tenant = ?1 AND id = ?2 AND attempt = ?3";
    Delivery = "INSERT INTO deliveries (tenant, id, worker, order_key, created_at, visible_at, attempt, owner, events,
         last_error, trace_id, correlation_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    Debounce = "INSERT INTO deliveries (tenant, id, worker, order_key, created_at, visible_at, attempt, owner, events,
         last_error, trace_id, correlation_id, debounce_key, debounce_until)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
         ON CONFLICT (tenant, worker, debounce_key) WHERE debounce_key IS NOT NULL
         DO UPDATE SET events = excluded.events, trace_id = excluded.trace_id,
         correlation_id = excluded.correlation_id, visible_at = min(excluded.visible_at, debounce_until)";
    RetryDelivery = "UPDATE deliveries SET visible_at = ?3, attempt = ?4, last_error = ?5, owner = NULL, lent = 0
         WHERE tenant = ?1 AND id = ?2 AND owner IS ?6";
    CreateWatermark = "INSERT INTO watermarks (tenant, worker, name, version, updated_at, value)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING";
    MoveWatermark = "UPDATE watermarks SET version = ?4, updated_at = ?5, value = ?6
         WHERE tenant = ?1 AND worker = ?2 AND name = ?3 AND version = ?7";
    ReleaseDelivery = "UPDATE deliveries SET owner = NULL WHERE tenant = ?1 AND id = ?2 AND owner = ?3";
    CreateWorker = "INSERT INTO workers (tenant, name, row_version, created_at, updated_at, declaration)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING";
    UpdateWorker = "UPDATE workers SET row_version = ?3, updated_at = ?4, declaration = ?5
         WHERE tenant = ?1 AND name = ?2 AND row_version = ?6";
    DeleteWorker = "DELETE FROM workers WHERE tenant = ?1 AND name = ?2";
    CreateEventType = "INSERT INTO event_types (tenant, name, row_version, created_at, updated_at, schema)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING";
    UpdateEventType = "UPDATE event_types SET row_version = ?3, updated_at = ?4, schema = ?5
         WHERE tenant = ?1 AND name = ?2 AND row_version = ?6";
    DeleteEventType = "DELETE FROM event_types WHERE tenant = ?1 AND name = ?2";
    WorkerOf = "SELECT worker FROM deliveries WHERE tenant = ?1 AND id = ?2";
    TargetOf = "SELECT target FROM calls WHERE tenant = ?1 AND instance = ?2 AND token = ?3";
    ConsumeDeadLetter = "DELETE FROM wf_dlq WHERE tenant = ?1 AND id = ?2";
    ClaimKey = "INSERT INTO inbox (tenant, scope, key, created_at, request_hash, answer)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING";
    CreateInstance = "INSERT INTO wf_instances (tenant, id, namespace, name, version, business_key, business_parts,
         status, traceparent, correlation_id, created_at, updated_at, ended_at, input, output, error,
         context, parent, parent_token, parent_item)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)
         ON CONFLICT DO NOTHING";
    CreateState = "INSERT INTO wf_runtime_states (tenant, runtime_instance_id, state_version,
         snapshot_schema_version, runtime_status, namespace, name, version, business_key,
         business_parts, waiting_kind, waiting_token, waiting_until_utc, active_task_id,
         resume_pointer_json, last_signal_id, last_error_code, last_error_json, last_executed_by,
         last_executed_on_utc, created_on_utc, completed_on_utc, state_json)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
         ?20, ?21, ?22, ?23)
         ON CONFLICT DO NOTHING";
    /// The last signal stays until the next one; the time of the end, until the instance is open again.
    UpdateState = "UPDATE wf_runtime_states SET state_version = ?4, snapshot_schema_version = ?5,
         runtime_status = ?6, waiting_kind = ?7, waiting_token = ?8, waiting_until_utc = ?9,
         active_task_id = ?10, resume_pointer_json = ?11, last_signal_id = coalesce(?12, last_signal_id),
         last_error_code = ?13, last_error_json = ?14, last_executed_by = ?15, last_executed_on_utc = ?16,
         completed_on_utc = iif(?17 IS NULL, NULL, coalesce(completed_on_utc, ?17)), state_json = ?18
         WHERE tenant = ?1 AND runtime_instance_id = ?2 AND state_version = ?3";
    UpdateTask = "UPDATE wf_tasks SET instance = ?4, token = ?5, step = ?6, title = ?7, status = ?8, assignee = ?9,
         candidate_users = ?10, candidate_groups = ?11, priority = ?12, due_at = ?13, version = ?14,
         created_at = ?15, updated_at = ?16, ended_at = ?17, payload = ?18, form = ?19, result = ?20
         WHERE tenant = ?1 AND id = ?2 AND version = ?3";
    CreateDefinition = "INSERT INTO definitions (tenant, namespace, name, version, title, source, media_type, ir,
         created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO NOTHING";
    CreateTenant = "INSERT INTO tenants (tenant, title, status, created_at, weight, purge_at, open_max, starts_per_second,
        concurrency_max, degraded_per_second) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
         ON CONFLICT DO NOTHING";
    ChangeTenant = "UPDATE tenants SET title = coalesce(?2, title), weight = coalesce(?3, weight),
        open_max = coalesce(?4, open_max), starts_per_second = coalesce(?5, starts_per_second),
        concurrency_max = coalesce(?6, concurrency_max), degraded_per_second = coalesce(?7, degraded_per_second)
        WHERE tenant = ?1";
    SetStanding = "UPDATE tenants SET status = ?3, purge_at = ?4 WHERE tenant = ?1 AND status = ?2";
    /// Members that may stay as they are come as a flag and a value.
    UpdateInstance = "UPDATE wf_instances SET status = ?3, updated_at = ?4, output = coalesce(?5, output),
         error = iif(?6, ?7, error), context = coalesce(?8, context), ended_at = iif(?9, ?10, ended_at)
         WHERE tenant = ?1 AND id = ?2";
    MoveInstance = "UPDATE wf_instances SET version = ?3 WHERE tenant = ?1 AND id = ?2";
    MoveState = "UPDATE wf_runtime_states SET version = ?3 WHERE tenant = ?1 AND runtime_instance_id = ?2";
    History = "INSERT INTO wf_history (tenant, instance, version, at, events) VALUES (?1, ?2, ?3, ?4, ?5)";
    Signal = "INSERT INTO wf_signal_q (tenant, id, instance, signal_type, created_at, visible_at, attempt,
         owner, envelope)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO NOTHING";
    Timer = "INSERT INTO wf_schedule_q (tenant, instance, token, due_at, attempt, owner, envelope)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    Call = "INSERT INTO calls (tenant, instance, token, target, created_at, visible_at, attempt, owner,
         envelope, last_error)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    RetryCall = "UPDATE calls SET visible_at = ?4, attempt = ?5, last_error = ?6, owner = NULL
         WHERE tenant = ?1 AND instance = ?2 AND token = ?3 AND owner IS ?7";
    RetrySignal = "UPDATE wf_signal_q SET visible_at = ?3, attempt = ?4, owner = NULL
         WHERE tenant = ?1 AND id = ?2 AND owner IS ?5";
    RetryTimer = "UPDATE wf_schedule_q SET due_at = ?4, attempt = ?5, owner = NULL
         WHERE tenant = ?1 AND instance = ?2 AND token = ?3 AND owner IS ?6";
    ReleaseSignal = "UPDATE wf_signal_q SET owner = NULL WHERE tenant = ?1 AND id = ?2 AND owner = ?3";
    ReleaseTimer = "UPDATE wf_schedule_q SET owner = NULL
         WHERE tenant = ?1 AND instance = ?2 AND token = ?3 AND owner = ?4";
    ReleaseCall = "UPDATE calls SET owner = NULL WHERE tenant = ?1 AND instance = ?2 AND token = ?3 AND owner = ?4";
    CreateTask = "INSERT INTO wf_tasks (tenant, id, instance, token, step, title, status, assignee,
         candidate_users, candidate_groups, priority, due_at, version, created_at, updated_at,
         ended_at, payload, form, result)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)";
    TaskEvent = "INSERT INTO wf_task_events (tenant, task, sequence, kind, actor, at, detail)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    CreateBatch = "INSERT INTO batches (tenant, id, act, query, arguments, actor, why, status, detail, rate, cursor,
         selected_at, matched, forgiven, due_at, row_version, created_at, updated_at, ended_at, sent, done, failed,
         skipped) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, 0, 0, 0,
         0) ON CONFLICT DO NOTHING";
    UpdateBatch = "UPDATE batches SET row_version = ?4, status = ?5, detail = ?6, rate = ?7, cursor = ?8,
         selected_at = ?9, matched = ?10, forgiven = ?11, due_at = ?12, updated_at = ?13, ended_at = ?14
         WHERE tenant = ?1 AND id = ?2 AND row_version = ?3";
    BatchItem = "INSERT INTO batch_items (tenant, batch, item, outcome) VALUES (?1, ?2, ?3, 'waiting')
         ON CONFLICT DO NOTHING";
    SettleItem = "UPDATE batch_items SET outcome = ?5, detail = ?6, at = ?7
         WHERE tenant = ?1 AND batch = ?2 AND item = ?3 AND outcome = ?4";
    CountItem = "UPDATE batches SET sent = sent + ?3, done = done + ?4, failed = failed + ?5, skipped = skipped + ?6
         WHERE tenant = ?1 AND id = ?2";
    Outbox = "INSERT INTO outbox (tenant, id, key, event_type, created_at, event)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    DeadLetter = "INSERT INTO wf_dlq (tenant, id, source, reason, detail, instance, origin, attempts, last_node,
         failed_at, envelope, error_group)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    /// All rows of a write in one statement: they come as a JSON array of arrays.
    Errors = "INSERT INTO error_groups (tenant, id, source, target, class, step, message, count, first_at, last_at,
         first_sample, samples)
         SELECT ?1, unhex(value ->> 0), value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
         value ->> 7, value ->> 8, CAST(value ->> 9 AS BLOB), CAST(value ->> 10 AS BLOB) FROM json_each(?2) WHERE true
         ON CONFLICT (tenant, id) DO UPDATE SET count = count + excluded.count,
         first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at),
         message = excluded.message, samples = excluded.samples";
    Dataset = "INSERT INTO datasets (tenant, id, count, created_at, owner) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO NOTHING";
    Items = "INSERT OR REPLACE INTO dataset_items (tenant, dataset, first, round, count, items)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    CreateKey = "INSERT INTO api_keys (tenant, id, name, hash, roles, created_at, expires_at, revoked_at, subject)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    RevokeKey = "UPDATE api_keys SET revoked_at = coalesce(revoked_at, ?3) WHERE tenant = ?1 AND id = ?2";
    OutboxSent = "DELETE FROM outbox WHERE tenant = ?1 AND id = ?2";
    PutSecret = "INSERT INTO secrets (tenant, name, version, key_id, sealed, hosts, created_at, updated_at)
         VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (tenant, name) DO UPDATE SET version = version + 1, key_id = excluded.key_id,
         sealed = excluded.sealed, hosts = excluded.hosts, updated_at = excluded.updated_at";
    ReplaceSecret = "UPDATE secrets SET version = version + 1, key_id = ?3, sealed = ?4, hosts = ?5, updated_at = ?6
         WHERE tenant = ?1 AND name = ?2 AND version = ?7";
    DeleteSecret = "DELETE FROM secrets WHERE tenant = ?1 AND name = ?2";
    CreateSchedule = "INSERT INTO schedules (tenant, id, namespace, name, version, kind, spec, time_zone, missed, status,
         anchor, last_slot, next_slot, due_at, instance, row_version, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
         ON CONFLICT DO NOTHING";
    UpdateSchedule = "UPDATE schedules SET namespace = ?3, name = ?4, version = ?5, kind = ?6, spec = ?7,
         time_zone = ?8, missed = ?9, status = ?10, anchor = ?11, last_slot = ?12, next_slot = ?13, due_at = ?14,
         instance = ?15, row_version = ?16, created_at = ?17, updated_at = ?18
         WHERE tenant = ?1 AND id = ?2 AND row_version = ?19";
    Slot = "INSERT INTO schedule_slots (tenant, schedule, slot, outcome, count, instance, late_us, at, detail)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO NOTHING";
    ScheduleFollows = "UPDATE schedules SET next_slot = ?4, due_at = iif(status = 'active', ?5, NULL), instance = NULL,
         row_version = row_version + 1 WHERE tenant = ?1 AND id = ?2 AND instance = ?3";
    CreateCollection = "INSERT INTO schedule_collections (tenant, schedule, version, open) VALUES (?1, ?2, 1, ?3)
         ON CONFLICT DO NOTHING";
    UpdateCollection = "UPDATE schedule_collections SET version = version + 1, open = ?3
         WHERE tenant = ?1 AND schedule = ?2 AND version = ?4";
    ResetCollection = "INSERT INTO schedule_collections (tenant, schedule, version, open) VALUES (?1, ?2, 1, x'')
         ON CONFLICT DO UPDATE SET version = version + 1, open = excluded.open";
    CreateEvent = "INSERT INTO events (tenant, id, source, event_id, event_type, received_at, kept_until, expires_at,
         told, taken, started, collected, event, delivered, emitted_by, trace_id, correlation_id)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, 0, ?9, ?10, ?11, ?12, ?13, ?14, ?15) ON CONFLICT DO NOTHING";
    EventTold = "UPDATE events SET told = ?3 WHERE tenant = ?1 AND id = ?2";
    EventTaken = "UPDATE events SET taken = taken + 1, kept_until = NULL WHERE tenant = ?1 AND id = ?2";
    EventsCrowded = "UPDATE events SET kept_until = NULL WHERE tenant = ?1 AND id IN
         (SELECT id FROM events WHERE tenant = ?1 AND event_type = ?2 AND kept_until IS NOT NULL
          ORDER BY id DESC LIMIT -1 OFFSET ?3)";
    Subscribe = "INSERT INTO subscriptions (tenant, kind, owner, token, position, event_type, path, value)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    Unsubscribe = "DELETE FROM subscriptions WHERE tenant = ?1 AND kind = ?2 AND owner = ?3 AND token = ?4";
    NextPath = "SELECT min(path) FROM subscriptions
         WHERE tenant = ?1 AND kind = 'listen' AND event_type = ?2 AND (?3 IS NULL OR path > ?3)";
    Wanting = "SELECT owner, token FROM subscriptions
         WHERE tenant = ?1 AND kind = 'listen' AND event_type = ?2 AND path = ?3 AND value = ?4 LIMIT ?5";
    KeptOfType = "SELECT id, event FROM events
         WHERE tenant = ?1 AND event_type = ?2 AND kept_until > ?3 ORDER BY id LIMIT ?4";
    Kept = "SELECT id, event FROM events WHERE tenant = ?1 AND event_type >= ?2 AND kept_until > ?3
         ORDER BY event_type, id LIMIT ?4";
    AdvanceClock = "INSERT INTO tenant_clocks (tenant, ahead_us) VALUES (?1, ?2)
         ON CONFLICT DO UPDATE SET ahead_us = ahead_us + excluded.ahead_us";
    AdvanceTimers = "UPDATE wf_schedule_q SET due_at = due_at - ?2 WHERE tenant = ?1";
    AdvanceCalls = "UPDATE calls SET visible_at = visible_at - ?2 WHERE tenant = ?1";
    AdvanceDeliveries = "UPDATE deliveries SET visible_at = visible_at - ?2 WHERE tenant = ?1";
    AdvanceSignals = "UPDATE wf_signal_q SET visible_at = visible_at - ?2 WHERE tenant = ?1";
    AdvanceSchedules = "UPDATE schedules SET due_at = due_at - ?2 WHERE tenant = ?1 AND due_at IS NOT NULL";
    Audit = "INSERT INTO audit_entries (tenant, id, at, act, key_id, subject, object_kind, object_id, body, content_hash)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING";
    Fence = "SELECT fenced FROM wf_host_locks WHERE kind = 'node' AND name = ?1";
}

impl Statement {
    pub(super) fn sql(self) -> &'static str {
        Statement::TEXT[self as usize]
    }
}

const COUNT: usize = Statement::ALL.len();

/// The statements one transaction has used so far, so that each is looked up once and not per row.
pub(super) struct Prepared<'c> {
    connection: &'c Connection,
    slots: [Option<CachedStatement<'c>>; COUNT],
    /// In which places waits for events of a type look for their value, by tenant and type, as far as it was asked.
    pub(super) paths: HashMap<(String, String), Rc<[String]>>,
    /// What became of the queues so far, if anybody counts.
    pub(super) changes: Option<Changes>,
}

impl<'c> Prepared<'c> {
    /// A statement that is looked up by its text.
    pub(super) fn text(&self, sql: &str) -> rusqlite::Result<CachedStatement<'c>> {
        self.connection.prepare_cached(sql)
    }

    pub(super) fn new(connection: &'c Connection) -> Prepared<'c> {
        Prepared { connection, slots: [const { None }; COUNT], paths: HashMap::new(), changes: None }
    }

    pub(super) fn get(&mut self, statement: Statement) -> rusqlite::Result<&mut CachedStatement<'c>> {
        let slot = &mut self.slots[statement as usize];
        match slot {
            Some(prepared) => Ok(prepared),
            None => Ok(slot.insert(self.connection.prepare_cached(statement.sql())?)),
        }
    }
}
