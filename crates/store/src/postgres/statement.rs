//! Every statement of a batch: one per kind of row, over arrays, however many rows there are.
//!
//! The order is the order in which a batch runs them, the same for every batch, so that two batches lock rows in the same
//! order. Reads are in `read` and `list`, rare writes in `solo`.

/// Names each statement, holds its text, and says how many of its first columns name a row that it answers.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident($keys:literal) = $sql:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(usize)]
        pub(super) enum Statement {
            $($(#[$doc])* $name,)*
        }

        impl Statement {
            const TEXT: &[&str] = &[$($sql,)*];
            const KEYS: &[usize] = &[$($keys,)*];
        }
    };
}

statements! {
    DeleteSignal(0) = "DELETE FROM wf_signal_q q USING unnest($1, $2) WITH ORDINALITY AS r(tenant, id, ord)
         WHERE q.tenant = r.tenant AND q.id = r.id RETURNING r.ord";
    DeleteTimer(0) = "DELETE FROM wf_schedule_q q USING unnest($1, $2, $3) WITH ORDINALITY AS r(tenant, instance, token, ord)
         WHERE q.tenant = r.tenant AND q.instance = r.instance AND q.token = r.token RETURNING r.ord";
    DeleteCall(0) = "DELETE FROM calls q USING unnest($1, $2, $3) WITH ORDINALITY AS r(tenant, instance, token, ord)
         WHERE q.tenant = r.tenant AND q.instance = r.instance AND q.token = r.token RETURNING r.ord";
    DeleteDelivery(0) = "DELETE FROM deliveries q USING unnest($1, $2, $3) WITH ORDINALITY AS r(tenant, id, attempt, ord)
         WHERE q.tenant = r.tenant AND q.id = r.id AND q.attempt = r.attempt RETURNING r.ord";
    ExtendDelivery(0) = "UPDATE deliveries q SET visible_at = r.visible_at
         FROM unnest($1, $2, $3, $4) WITH ORDINALITY AS r(tenant, id, attempt, visible_at, ord)
         WHERE q.tenant = r.tenant AND q.id = r.id AND q.attempt = r.attempt RETURNING r.ord";
    DeleteDeadLetter(0) = "DELETE FROM wf_dlq q USING unnest($1, $2) WITH ORDINALITY AS r(tenant, id, ord)
         WHERE q.tenant = r.tenant AND q.id = r.id RETURNING r.ord";
    SettleItem(0) = "UPDATE batch_items q SET outcome = r.outcome, detail = r.detail, at = r.at
         FROM unnest($1, $2, $3, $4, $5, $6, $7) WITH ORDINALITY AS r(tenant, batch, item, was, outcome, detail, at, ord)
         WHERE q.tenant = r.tenant AND q.batch = r.batch AND q.item = r.item AND q.outcome = r.was RETURNING r.ord";
    ClaimKey(3) = "INSERT INTO inbox (tenant, scope, key, created_at, request_hash, answer)
         SELECT * FROM unnest($1, $2, $3, $4, $5, $6)
         ON CONFLICT DO NOTHING RETURNING tenant, scope, key";
    CreateEvent(2) = "INSERT INTO events (tenant, id, source, event_id, event_type, received_at, kept_until, expires_at, told, taken,
         started, collected, event, seq, delivered, emitted_by, trace_id, correlation_id)
         SELECT tenant, id, source, event_id, event_type, received_at, kept_until, expires_at, 0, 0, started, collected, event, seq,
         delivered, emitted_by, trace_id, correlation_id
         FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
         AS r(tenant, id, source, event_id, event_type, received_at, kept_until, expires_at, started, collected, event, seq,
         delivered, emitted_by, trace_id, correlation_id) ON CONFLICT DO NOTHING RETURNING tenant, id::text";
    CreateWatermark(3) = "INSERT INTO watermarks (tenant, worker, name, version, updated_at, value)
         SELECT tenant, worker, name, version, updated_at, value FROM unnest($1, $2, $3, $4, $5, $6, $7)
         AS r(tenant, worker, name, version, updated_at, value, expected)
         ON CONFLICT DO NOTHING RETURNING tenant, worker, name";
    MoveWatermark(0) = "UPDATE watermarks w SET version = r.version, updated_at = r.updated_at, value = r.value
         FROM unnest($1, $2, $3, $4, $5, $6, $7) WITH ORDINALITY
         AS r(tenant, worker, name, version, updated_at, value, expected, ord)
         WHERE w.tenant = r.tenant AND w.worker = r.worker AND w.name = r.name AND w.version = r.expected RETURNING r.ord";
    /// The last signal stays until the next one; the time of the end, until the instance is open again.
    UpdateState(0) = "UPDATE wf_runtime_states s SET state_version = r.state_version, snapshot_schema_version = r.snapshot_schema_version,
         runtime_status = r.runtime_status, waiting_kind = r.waiting_kind,
         waiting_token = r.waiting_token, waiting_until_utc = r.waiting_until,
         active_task_id = r.active_task_id, resume_pointer_json = r.resume_pointer_json,
         last_signal_id = coalesce(r.last_signal_id, s.last_signal_id),
         last_error_code = r.last_error_code, last_error_json = r.last_error_json,
         last_executed_by = r.last_executed_by, last_executed_on_utc = r.last_executed_on,
         completed_on_utc = CASE WHEN r.completed_on IS NULL THEN NULL ELSE coalesce(s.completed_on_utc, r.completed_on) END,
         state_json = r.state_json
         FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18) WITH ORDINALITY
         AS r(tenant, instance, expected, state_version, snapshot_schema_version, runtime_status,
         waiting_kind, waiting_token, waiting_until, active_task_id, resume_pointer_json,
         last_signal_id, last_error_code, last_error_json, last_executed_by, last_executed_on,
         completed_on, state_json, ord)
         WHERE s.tenant = r.tenant AND s.runtime_instance_id = r.instance AND s.state_version = r.expected RETURNING r.ord";
    UpdateTask(0) = "UPDATE wf_tasks t SET instance = r.instance, token = r.token, step = r.step, title = r.title, status = r.status,
         assignee = r.assignee, candidate_users = r.candidate_users,
         candidate_groups = r.candidate_groups, priority = r.priority, due_at = r.due_at,
         version = r.version, created_at = r.created_at, updated_at = r.updated_at,
         ended_at = r.ended_at, payload = r.payload, form = r.form, result = r.result
         FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20) WITH ORDINALITY
         AS r(tenant, id, instance, token, step, title, status, assignee, candidate_users, candidate_groups,
         priority, due_at, version, created_at, updated_at, ended_at, payload, form, result, expected,
         ord)
         WHERE t.tenant = r.tenant AND t.id = r.id AND t.version = r.expected RETURNING r.ord";
    UpdateSchedule(0) = "UPDATE schedules s SET namespace = r.namespace, name = r.name, version = r.version, kind = r.kind,
         spec = r.spec, time_zone = r.time_zone, missed = r.missed, status = r.status, anchor = r.anchor,
         last_slot = r.last_slot, next_slot = r.next_slot, due_at = r.due_at, instance = r.instance,
         row_version = r.row_version, created_at = r.created_at, updated_at = r.updated_at
         FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19) WITH ORDINALITY
         AS r(tenant, id, namespace, name, version, kind, spec, time_zone, missed, status, anchor, last_slot,
         next_slot, due_at, instance, row_version, created_at, updated_at, expected, ord)
         WHERE s.tenant = r.tenant AND s.id = r.id AND s.row_version = r.expected RETURNING r.ord";
    Slot(3) = "INSERT INTO schedule_slots (tenant, schedule, slot, outcome, count, instance, late_us, at, detail)
         SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)
         ON CONFLICT DO NOTHING RETURNING tenant, schedule::text, slot::text";
    /// Before instances are created: an end may free the business key that a start of the same batch takes.
    UpdateInstance(0) = "UPDATE wf_instances i SET status = r.status, updated_at = r.updated_at, output = coalesce(r.output, i.output),
         error = CASE WHEN r.sets_error THEN r.error ELSE i.error END,
         context = coalesce(r.context, i.context),
         ended_at = CASE WHEN r.sets_ended THEN r.ended_at ELSE i.ended_at END
         FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) WITH ORDINALITY
         AS r(tenant, id, status, updated_at, output, sets_error, error, context, sets_ended, ended_at, ord)
         WHERE i.tenant = r.tenant AND i.id = r.id RETURNING r.ord";
    CreateInstance(2) = "INSERT INTO wf_instances (tenant, id, namespace, name, version, business_key, business_parts, status, traceparent,
         correlation_id, created_at, updated_at, ended_at, input, output, error, context, parent,
         parent_token, parent_item)
         SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
         ON CONFLICT DO NOTHING RETURNING tenant, id::text";
    CreateState(2) = "INSERT INTO wf_runtime_states (tenant, runtime_instance_id, state_version, snapshot_schema_version, runtime_status, namespace,
         name, version, business_key, business_parts, waiting_kind, waiting_token, waiting_until_utc,
         active_task_id, resume_pointer_json, last_signal_id, last_error_code, last_error_json,
         last_executed_by, last_executed_on_utc, created_on_utc, completed_on_utc, state_json)
         SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
         $22, $23)
         ON CONFLICT DO NOTHING RETURNING tenant, runtime_instance_id::text";
    RetryCall(0) = "UPDATE calls q SET visible_at = r.visible_at, attempt = r.attempt, last_error = r.last_error, owner = NULL
         FROM unnest($1, $2, $3, $4, $5, $6, $7) WITH ORDINALITY
         AS r(tenant, instance, token, visible_at, attempt, last_error, owner, ord)
         WHERE q.tenant = r.tenant AND q.instance = r.instance AND q.token = r.token
         AND q.owner IS NOT DISTINCT FROM r.owner RETURNING r.ord";
    RetrySignal(0) = "UPDATE wf_signal_q q SET visible_at = r.visible_at, attempt = r.attempt, owner = NULL
         FROM unnest($1, $2, $3, $4, $5) WITH ORDINALITY
         AS r(tenant, id, visible_at, attempt, owner, ord)
         WHERE q.tenant = r.tenant AND q.id = r.id AND q.owner IS NOT DISTINCT FROM r.owner RETURNING r.ord";
    RetryTimer(0) = "UPDATE wf_schedule_q q SET due_at = r.due_at, attempt = r.attempt, owner = NULL
         FROM unnest($1, $2, $3, $4, $5, $6) WITH ORDINALITY
         AS r(tenant, instance, token, due_at, attempt, owner, ord)
         WHERE q.tenant = r.tenant AND q.instance = r.instance AND q.token = r.token
         AND q.owner IS NOT DISTINCT FROM r.owner RETURNING r.ord";
    ReleaseSignal(0) = "UPDATE wf_signal_q q SET owner = NULL
         FROM unnest($1, $2, $3) WITH ORDINALITY
         AS r(tenant, id, owner, ord)
         WHERE q.tenant = r.tenant AND q.id = r.id AND q.owner = r.owner RETURNING r.ord";
    ReleaseTimer(0) = "UPDATE wf_schedule_q q SET owner = NULL
         FROM unnest($1, $2, $3, $4) WITH ORDINALITY
         AS r(tenant, instance, token, owner, ord)
         WHERE q.tenant = r.tenant AND q.instance = r.instance AND q.token = r.token AND q.owner = r.owner RETURNING r.ord";
    ReleaseCall(0) = "UPDATE calls q SET owner = NULL
         FROM unnest($1, $2, $3, $4) WITH ORDINALITY
         AS r(tenant, instance, token, owner, ord)
         WHERE q.tenant = r.tenant AND q.instance = r.instance AND q.token = r.token AND q.owner = r.owner RETURNING r.ord";
    RetryDelivery(0) = "UPDATE deliveries q SET visible_at = r.visible_at, attempt = r.attempt, last_error = r.last_error, owner = NULL,
         lent = false
         FROM unnest($1, $2, $3, $4, $5, $6) AS r(tenant, id, visible_at, attempt, last_error, owner)
         WHERE q.tenant = r.tenant AND q.id = r.id AND q.owner IS NOT DISTINCT FROM r.owner";
    ReleaseDelivery(0) = "UPDATE deliveries q SET owner = NULL
         FROM unnest($1, $2, $3) WITH ORDINALITY AS r(tenant, id, owner, ord)
         WHERE q.tenant = r.tenant AND q.id = r.id AND q.owner = r.owner RETURNING r.ord";
    Delivery(0) = "INSERT INTO deliveries (tenant, id, worker, order_key, created_at, visible_at, attempt, owner, events, last_error,
         trace_id, correlation_id)
         SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
    Debounce(0) = "INSERT INTO deliveries AS q (tenant, id, worker, order_key, created_at, visible_at, attempt, owner, events, last_error,
         trace_id, correlation_id, debounce_key, debounce_until)
         SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
         ON CONFLICT (worker, tenant, debounce_key) WHERE debounce_key IS NOT NULL
         DO UPDATE SET events = excluded.events, trace_id = excluded.trace_id,
         correlation_id = excluded.correlation_id, visible_at = least(excluded.visible_at, q.debounce_until)";
    History(0) = "INSERT INTO wf_history (tenant, instance, version, at, events)
         SELECT * FROM unnest($1, $2, $3, $4, $5)";
    Signal(0) = "INSERT INTO wf_signal_q (tenant, id, instance, signal_type, created_at, visible_at, attempt, owner, envelope)
         SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)
         ON CONFLICT DO NOTHING";
    Timer(0) = "INSERT INTO wf_schedule_q (tenant, instance, token, due_at, attempt, owner, envelope)
         SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7)";
    Call(0) = "INSERT INTO calls (tenant, instance, token, target, created_at, visible_at, attempt, owner, envelope, last_error)
         SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    CreateTask(0) = "INSERT INTO wf_tasks (tenant, id, instance, token, step, title, status, assignee, candidate_users, candidate_groups,
         priority, due_at, version, created_at, updated_at, ended_at, payload, form, result)
         SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)";
    TaskEvent(0) = "INSERT INTO wf_task_events (tenant, task, sequence, kind, actor, at, detail)
         SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7)";
    Outbox(0) = "INSERT INTO outbox (tenant, id, key, event_type, created_at, event)
         SELECT * FROM unnest($1, $2, $3, $4, $5, $6)";
    OutboxSent(0) = "DELETE FROM outbox q USING unnest($1, $2) AS r(tenant, id)
         WHERE q.tenant = r.tenant AND q.id = r.id";
    /// Several may have taken the same event.
    TakeEvent(0) = "UPDATE events e SET taken = e.taken + r.times, kept_until = NULL
         FROM (SELECT tenant, id, count(*) AS times FROM unnest($1, $2) AS u(tenant, id)
         GROUP BY tenant, id ORDER BY tenant, id) AS r
         WHERE e.tenant = r.tenant AND e.id = r.id";
    Unsubscribe(0) = "DELETE FROM subscriptions q USING unnest($1, $2, $3, $4) AS r(tenant, kind, owner, token)
         WHERE q.tenant = r.tenant AND q.kind = r.kind AND q.owner = r.owner AND q.token = r.token";
    Subscribe(0) = "INSERT INTO subscriptions (tenant, kind, owner, token, position, event_type, path, value)
         SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8)";
    DeadLetter(0) = "INSERT INTO wf_dlq (tenant, id, source, reason, detail, instance, origin, attempts, last_node, failed_at, envelope,
         error_group) SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
    Dataset(0) = "INSERT INTO datasets (tenant, id, count, created_at, owner)
         SELECT * FROM unnest($1, $2, $3, $4, $5)
         ON CONFLICT DO NOTHING";
    Items(0) = "INSERT INTO dataset_items (tenant, dataset, first, round, count, items)
         SELECT * FROM unnest($1, $2, $3, $4, $5, $6)
         ON CONFLICT (tenant, dataset, first, round) DO UPDATE SET count = excluded.count, items = excluded.items";
    /// Several commits of one act may bring its entry.
    Audit(0) = "INSERT INTO audit_entries (tenant, id, at, act, key_id, subject, object_kind, object_id, body, content_hash)
         SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         ON CONFLICT DO NOTHING";
    /// Several items of one batch may be settled at once.
    CountItem(0) = "UPDATE batches b SET sent = b.sent + r.sent, done = b.done + r.done, failed = b.failed + r.failed,
         skipped = b.skipped + r.skipped
         FROM (SELECT tenant, id, sum(sent)::bigint AS sent, sum(done)::bigint AS done, sum(failed)::bigint AS failed,
         sum(skipped)::bigint AS skipped FROM unnest($1, $2, $3, $4, $5, $6) AS u(tenant, id, sent, done, failed, skipped)
         GROUP BY tenant, id ORDER BY tenant, id) AS r
         WHERE b.tenant = r.tenant AND b.id = r.id";
    /// Several may add to the same group. Last, so that whoever waits for a group holds up little.
    Errors(0) = "INSERT INTO error_groups AS g (tenant, id, source, target, class, step, message, count, first_at, last_at,
         first_sample, samples)
         SELECT r.tenant, r.id, min(r.source), min(r.target), min(r.class), min(r.step),
         (array_agg(r.message ORDER BY r.last_at DESC))[1], sum(r.count)::bigint, min(r.first_at), max(r.last_at),
         (array_agg(r.first_sample ORDER BY r.first_at))[1], (array_agg(r.samples ORDER BY r.last_at DESC))[1]
         FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
         AS r(tenant, id, source, target, class, step, message, count, first_at, last_at, first_sample, samples)
         GROUP BY r.tenant, r.id ORDER BY r.tenant, r.id
         ON CONFLICT (tenant, id) DO UPDATE SET count = g.count + excluded.count,
         first_at = least(g.first_at, excluded.first_at), last_at = greatest(g.last_at, excluded.last_at),
         message = excluded.message, samples = excluded.samples";
}

impl Statement {
    pub(super) fn sql(self) -> &'static str {
        Statement::TEXT[self as usize]
    }

    /// 0: answers the positions of the rows that it met. Else: answers this many columns, which name the rows that it
    /// inserted.
    pub(super) fn keys(self) -> usize {
        Statement::KEYS[self as usize]
    }
}
