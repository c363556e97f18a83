//! Binds one [`Write`] to its statement. Nothing here decides; a guard reports whether it held.

use super::{
    audit, batches, delivery, error_group, event, event_type, queue, schedule,
    statement::{Prepared, Statement as S},
};
use crate::{commit::*, datasets::*, rows::*};
use machine::Time;
use rusqlite::{Result, ToSql, params};
use uuid::Uuid;

/// Writes one row, or two for an instance and its snapshot. Answers which guard did not hold, if any.
pub(super) fn write(to: &mut Prepared<'_>, tenant: &str, write: &Write) -> Result<Option<Conflict>> {
    match write {
        Write::ConsumeSignal { id } => {
            guard(to, S::ConsumeSignal, params![tenant, id.as_bytes()], Conflict::Gone)
        }
        Write::ConsumeTimer { instance, token } => {
            guard(to, S::ConsumeTimer, params![tenant, instance.as_bytes(), int(*token)], Conflict::Gone)
        }
        Write::ConsumeCall { instance, token } => queue::consume_call(to, tenant, *instance, *token),
        Write::ConsumeDelivery { id, attempt } => queue::consume_delivery(to, tenant, *id, *attempt),
        Write::Delivery(row) => delivery::insert(to, tenant, row),
        Write::ConsumeDeadLetter { id } => {
            guard(to, S::ConsumeDeadLetter, params![tenant, id.as_bytes()], Conflict::Gone)
        }
        Write::ClaimKey(row) => claim_key(to, tenant, row),
        Write::CreateInstance { instance, state } => create_instance(to, tenant, instance, state),
        Write::UpdateState(row) => update_state(to, tenant, row),
        Write::UpdateTask { task, expected_version } => update_task(to, tenant, task, *expected_version),
        Write::CreateDefinition(row) => create_definition(to, tenant, row),
        Write::CreateTenant(row) => create_tenant(to, row),
        Write::ChangeTenant(change) => change_tenant(to, tenant, change),
        Write::UpdateInstance(row) => update_instance(to, tenant, row),
        Write::History(row) => {
            plain(to, S::History, params![tenant, row.instance.as_bytes(), row.version, row.at.0, row.events])
        }
        Write::Signal(row) => signal(to, tenant, row).map(|_| None),
        Write::Timer(row) => timer(to, tenant, row),
        Write::Call(row) => call(to, tenant, row),
        Write::RetryCall { instance, token, owner, visible_at, attempt, last_error } => {
            let (key, owner) = (instance.as_bytes(), blob(owner));
            let values = params![tenant, key, int(*token), visible_at.0, attempt, last_error, owner];
            plain(to, S::RetryCall, values)
        }
        Write::RetrySignal { id, owner, visible_at, attempt } => {
            plain(to, S::RetrySignal, params![tenant, id.as_bytes(), visible_at.0, attempt, blob(owner)])
        }
        Write::RetryTimer { instance, token, owner, visible_at, attempt } => {
            let (key, owner) = (instance.as_bytes(), blob(owner));
            plain(to, S::RetryTimer, params![tenant, key, int(*token), visible_at.0, attempt, owner])
        }
        Write::Release { row, owner } => release(to, tenant, row, owner),
        Write::DropCall { instance, token } => {
            queue::consume_call(to, tenant, *instance, *token).map(|_| None)
        }
        Write::DropTimer { instance, token } => {
            plain(to, S::ConsumeTimer, params![tenant, instance.as_bytes(), int(*token)])
        }
        Write::CreateTask(row) => create_task(to, tenant, row),
        Write::TaskEvent(row) => plain(
            to,
            S::TaskEvent,
            params![tenant, row.task.as_bytes(), row.sequence, row.kind, row.actor, row.at.0, row.detail],
        ),
        Write::Outbox(row) => plain(
            to,
            S::Outbox,
            params![tenant, row.id.as_bytes(), row.key, row.event_type, row.created_at.0, row.event],
        ),
        Write::DeadLetter(row) => dead_letter(to, tenant, row),
        Write::Audit(row) => audit::write(to, tenant, row),
        Write::CreateKey(row) => create_key(to, tenant, row),
        Write::RevokeKey { id, at } => plain(to, S::RevokeKey, params![tenant, id, at.0]),
        Write::OutboxSent { ids } => outbox_sent(to, tenant, ids),
        _ => write_more(to, tenant, write),
    }
}

/// The writes of standings, versions, secrets, datasets, schedules, events and clocks.
fn write_more(to: &mut Prepared<'_>, tenant: &str, write: &Write) -> Result<Option<Conflict>> {
    match write {
        Write::SetStanding { from, to: status, purge_at } => {
            let values = params![tenant, from, status, purge_at.map(|at| at.0)];
            guard(to, S::SetStanding, values, Conflict::Version)
        }
        Write::MoveInstance { instance, definition_version } => {
            let values = params![tenant, instance.as_bytes(), definition_version];
            plain(to, S::MoveInstance, values)?;
            plain(to, S::MoveState, values)
        }
        Write::Debounce { row, key, until } => delivery::debounce(to, tenant, row, key, *until),
        Write::MoveWatermark { worker, row, expected_version } => {
            delivery::move_watermark(to, tenant, worker, row, *expected_version)
        }
        Write::RetryDelivery { id, owner, visible_at, attempt, last_error } => {
            let values = params![tenant, id.as_bytes(), visible_at.0, attempt, last_error, blob(owner)];
            plain(to, S::RetryDelivery, values)
        }
        Write::ExtendDelivery { id, attempt, visible_at } => {
            let values = params![tenant, id.as_bytes(), attempt, visible_at.0];
            guard(to, S::ExtendDelivery, values, Conflict::Gone)
        }
        Write::PutWorker { row, expected_version } => {
            delivery::put_worker(to, tenant, row, *expected_version)
        }
        Write::PutEventType { row, expected_version } => event_type::put(to, tenant, row, *expected_version),
        Write::DeleteEventType { name } => {
            guard(to, S::DeleteEventType, params![tenant, name], Conflict::Gone)
        }
        Write::Errors(rows) => error_group::add(to, tenant, rows),
        Write::DeleteWorker { name } => guard(to, S::DeleteWorker, params![tenant, name], Conflict::Gone),
        Write::PutSecret { row, expected_version } => put_secret(to, tenant, row, *expected_version),
        Write::DeleteSecret { name } => guard(to, S::DeleteSecret, params![tenant, name], Conflict::Gone),
        Write::Dataset(row) => plain(
            to,
            S::Dataset,
            params![
                tenant,
                row.id.as_bytes(),
                row.count.cast_signed(),
                row.created_at.0,
                row.owner.as_ref().map(Uuid::as_bytes)
            ],
        ),
        Write::Items(row) => items(to, tenant, row),
        Write::PutSchedule { schedule: row, expected_version } => {
            schedule::put(to, tenant, row, *expected_version)
        }
        Write::Slot(row) => schedule::slot(to, tenant, row),
        Write::ScheduleFollows { id, instance, next_slot, due_at } => {
            let values = params![tenant, id.as_bytes(), instance.as_bytes(), next_slot.0, due_at.0];
            plain(to, S::ScheduleFollows, values)
        }
        Write::PutCollection { schedule, open, expected_version } => {
            schedule::collect(to, tenant, *schedule, open, *expected_version)
        }
        Write::ResetCollection { schedule } => {
            plain(to, S::ResetCollection, params![tenant, schedule.as_bytes()])
        }
        Write::Publish(row) => event::publish(to, tenant, row),
        Write::Subscribe { subscriber, wants, now, visible_at } => {
            event::subscribe(to, tenant, subscriber, wants, (*now, *visible_at))
        }
        Write::Unsubscribe { subscriber } => event::unsubscribe(to, tenant, subscriber),
        Write::EventTaken { id } => plain(to, S::EventTaken, params![tenant, id.as_bytes()]),
        Write::AdvanceClock { by } => schedule::advance(to, tenant, *by),
        _ => batches::write(to, tenant, write),
    }
}

pub(super) fn plain(to: &mut Prepared<'_>, statement: S, values: &[&dyn ToSql]) -> Result<Option<Conflict>> {
    to.get(statement)?.execute(values)?;
    Ok(None)
}

pub(super) fn guard(
    to: &mut Prepared<'_>,
    statement: S,
    values: &[&dyn ToSql],
    lost: Conflict,
) -> Result<Option<Conflict>> {
    Ok((to.get(statement)?.execute(values)? == 0).then_some(lost))
}

/// SQLite has no unsigned integers. Tokens are only compared for equality, so the bits are what counts.
pub(super) fn int(token: u64) -> i64 {
    token.cast_signed()
}

pub(super) fn blob(id: &Option<Uuid>) -> Option<&[u8; 16]> {
    id.as_ref().map(Uuid::as_bytes)
}

fn micros(time: Option<Time>) -> Option<i64> {
    time.map(|time| time.0)
}

fn claim_key(to: &mut Prepared<'_>, tenant: &str, row: &InboxRow) -> Result<Option<Conflict>> {
    let values = params![tenant, row.scope, row.key, row.created_at.0, row.request_hash, row.answer];
    guard(to, S::ClaimKey, values, Conflict::Duplicate)
}

fn create_instance(
    to: &mut Prepared<'_>,
    tenant: &str,
    row: &InstanceRow,
    state: &StateRow,
) -> Result<Option<Conflict>> {
    let values = params![
        tenant,
        row.id.as_bytes(),
        row.namespace,
        row.name,
        row.version,
        row.business_key,
        row.business_parts,
        row.status,
        row.traceparent,
        row.correlation_id,
        row.created_at.0,
        row.updated_at.0,
        micros(row.ended_at),
        row.input,
        row.output,
        row.error,
        row.context,
        row.parent.as_ref().map(|parent| parent.instance.as_bytes()),
        row.parent.map(|parent| int(parent.token)),
        row.parent.and_then(|parent| parent.item),
    ];
    if to.get(S::CreateInstance)?.execute(values)? == 0 {
        return Ok(Some(Conflict::Exists));
    }
    let values = params![
        tenant,
        state.instance.as_bytes(),
        state.state_version,
        state.snapshot_schema_version,
        state.runtime_status,
        row.namespace,
        row.name,
        row.version,
        row.business_key,
        row.business_parts,
        state.waiting_kind,
        state.waiting_token,
        micros(state.waiting_until),
        blob(&state.active_task_id),
        state.resume_pointer_json,
        blob(&state.last_signal_id),
        state.last_error_code,
        state.last_error_json,
        state.last_executed_by.as_bytes(),
        state.last_executed_on.0,
        row.created_at.0,
        completed_on(state),
        state.state_json,
    ];
    guard(to, S::CreateState, values, Conflict::Exists)
}

fn update_state(to: &mut Prepared<'_>, tenant: &str, row: &StateRow) -> Result<Option<Conflict>> {
    let values = params![
        tenant,
        row.instance.as_bytes(),
        row.expected_version,
        row.state_version,
        row.snapshot_schema_version,
        row.runtime_status,
        row.waiting_kind,
        row.waiting_token,
        micros(row.waiting_until),
        blob(&row.active_task_id),
        row.resume_pointer_json,
        blob(&row.last_signal_id),
        row.last_error_code,
        row.last_error_json,
        row.last_executed_by.as_bytes(),
        row.last_executed_on.0,
        completed_on(row),
        row.state_json,
    ];
    guard(to, S::UpdateState, values, Conflict::Version)
}

/// The lifecycle column that the row implies: a final status was reached in this very commit.
fn completed_on(row: &StateRow) -> Option<i64> {
    matches!(row.runtime_status.as_str(), "Completed" | "Faulted" | "Cancelled")
        .then_some(row.last_executed_on.0)
}

fn update_instance(to: &mut Prepared<'_>, tenant: &str, row: &InstanceChange) -> Result<Option<Conflict>> {
    let values = params![
        tenant,
        row.id.as_bytes(),
        row.status,
        row.updated_at.0,
        row.output,
        row.error.is_some(),
        row.error.as_ref().and_then(Option::as_ref),
        row.context,
        row.ended_at.is_some(),
        micros(row.ended_at.flatten()),
    ];
    plain(to, S::UpdateInstance, values)
}

/// Answers how many rows that made.
pub(super) fn signal(to: &mut Prepared<'_>, tenant: &str, row: &SignalRow) -> Result<usize> {
    let values = params![
        tenant,
        row.id.as_bytes(),
        row.instance.as_bytes(),
        row.signal_type,
        row.created_at.0,
        row.visible_at.0,
        row.attempt,
        blob(&row.owner),
        row.envelope,
    ];
    to.get(S::Signal)?.execute(values)
}

fn timer(to: &mut Prepared<'_>, tenant: &str, row: &TimerRow) -> Result<Option<Conflict>> {
    let values = params![
        tenant,
        row.instance.as_bytes(),
        int(row.token),
        row.due_at.0,
        row.attempt,
        blob(&row.owner),
        row.envelope,
    ];
    plain(to, S::Timer, values)
}

fn call(to: &mut Prepared<'_>, tenant: &str, row: &CallRow) -> Result<Option<Conflict>> {
    let values = params![
        tenant,
        row.instance.as_bytes(),
        int(row.token),
        row.target,
        row.created_at.0,
        row.visible_at.0,
        row.attempt,
        blob(&row.owner),
        row.envelope,
        row.last_error,
    ];
    plain(to, S::Call, values)?;
    queue::note(to, tenant, QueueKind::Call, &row.target, 1);
    Ok(None)
}

fn release(to: &mut Prepared<'_>, tenant: &str, row: &QueueKey, owner: &Uuid) -> Result<Option<Conflict>> {
    let owner = owner.as_bytes();
    match row {
        QueueKey::Signal { id } => plain(to, S::ReleaseSignal, params![tenant, id.as_bytes(), owner]),
        QueueKey::Timer { instance, token } => {
            plain(to, S::ReleaseTimer, params![tenant, instance.as_bytes(), int(*token), owner])
        }
        QueueKey::Call { instance, token } => {
            plain(to, S::ReleaseCall, params![tenant, instance.as_bytes(), int(*token), owner])
        }
        QueueKey::Delivery { id } => plain(to, S::ReleaseDelivery, params![tenant, id.as_bytes(), owner]),
    }
}

fn create_task(to: &mut Prepared<'_>, tenant: &str, row: &TaskRow) -> Result<Option<Conflict>> {
    let values = params![
        tenant,
        row.id.as_bytes(),
        row.instance.as_bytes(),
        int(row.token),
        row.step,
        row.title,
        row.status,
        row.assignee,
        row.candidate_users,
        row.candidate_groups,
        row.priority,
        micros(row.due_at),
        row.version,
        row.created_at.0,
        row.updated_at.0,
        micros(row.ended_at),
        row.payload,
        row.form,
        row.result,
    ];
    plain(to, S::CreateTask, values)
}

fn update_task(
    to: &mut Prepared<'_>,
    tenant: &str,
    row: &TaskRow,
    expected_version: i64,
) -> Result<Option<Conflict>> {
    let values = params![
        tenant,
        row.id.as_bytes(),
        expected_version,
        row.instance.as_bytes(),
        int(row.token),
        row.step,
        row.title,
        row.status,
        row.assignee,
        row.candidate_users,
        row.candidate_groups,
        row.priority,
        micros(row.due_at),
        row.version,
        row.created_at.0,
        row.updated_at.0,
        micros(row.ended_at),
        row.payload,
        row.form,
        row.result,
    ];
    guard(to, S::UpdateTask, values, Conflict::Version)
}

fn dead_letter(to: &mut Prepared<'_>, tenant: &str, row: &DeadLetterRow) -> Result<Option<Conflict>> {
    let values = params![
        tenant,
        row.id.as_bytes(),
        row.source,
        row.reason,
        row.detail,
        blob(&row.instance),
        row.origin,
        row.attempts,
        row.last_node.as_bytes(),
        row.failed_at.0,
        row.envelope,
        blob(&row.group),
    ];
    plain(to, S::DeadLetter, values)
}

fn create_tenant(to: &mut Prepared<'_>, row: &TenantRow) -> Result<Option<Conflict>> {
    let LimitsRow { open_max, starts_per_second, concurrency_max, degraded_per_second } = row.limits;
    let values = params![
        row.id.as_str(),
        row.title,
        row.status,
        row.created_at.0,
        row.weight,
        row.purge_at.map(|at| at.0),
        open_max,
        starts_per_second,
        concurrency_max,
        degraded_per_second,
    ];
    guard(to, S::CreateTenant, values, Conflict::Exists)
}

fn change_tenant(to: &mut Prepared<'_>, tenant: &str, change: &TenantChange) -> Result<Option<Conflict>> {
    let values = params![
        tenant,
        change.title,
        change.weight,
        change.open_max,
        change.starts_per_second,
        change.concurrency_max,
        change.degraded_per_second,
    ];
    guard(to, S::ChangeTenant, values, Conflict::Gone)
}

fn create_definition(to: &mut Prepared<'_>, tenant: &str, row: &DefinitionRow) -> Result<Option<Conflict>> {
    let values = params![
        tenant,
        row.namespace,
        row.name,
        row.version,
        row.title,
        row.source,
        row.media_type,
        row.ir,
        row.created_at.0,
    ];
    guard(to, S::CreateDefinition, values, Conflict::Exists)
}

fn put_secret(
    to: &mut Prepared<'_>,
    tenant: &str,
    row: &SecretRow,
    expected_version: Option<i64>,
) -> Result<Option<Conflict>> {
    let SecretRow { name, key_id, sealed, hosts, created_at, updated_at, version: _ } = row;
    match expected_version {
        None => {
            plain(to, S::PutSecret, params![tenant, name, key_id, sealed, hosts, created_at.0, updated_at.0])
        }
        Some(expected) => guard(
            to,
            S::ReplaceSecret,
            params![tenant, name, key_id, sealed, hosts, updated_at.0, expected],
            Conflict::Version,
        ),
    }
}

fn items(to: &mut Prepared<'_>, tenant: &str, row: &ItemsRow) -> Result<Option<Conflict>> {
    let (first, count) = (row.first.cast_signed(), row.count.cast_signed());
    let values = params![tenant, row.dataset.as_bytes(), first, row.round, count, row.items];
    plain(to, S::Items, values)
}

fn create_key(to: &mut Prepared<'_>, tenant: &str, row: &KeyRow) -> Result<Option<Conflict>> {
    let values = params![
        tenant,
        row.id,
        row.name,
        row.hash,
        row.roles,
        row.created_at.0,
        micros(row.expires_at),
        micros(row.revoked_at),
        row.subject,
    ];
    plain(to, S::CreateKey, values)
}

fn outbox_sent(to: &mut Prepared<'_>, tenant: &str, ids: &[Uuid]) -> Result<Option<Conflict>> {
    let statement = to.get(S::OutboxSent)?;
    for id in ids {
        statement.execute(params![tenant, id.as_bytes()])?;
    }
    Ok(None)
}
