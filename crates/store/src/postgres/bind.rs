//! Turns a [`Write`] into rows of the statements of a batch. Nothing here decides.

use super::{
    audit, batches, error_group,
    event::subscriber_key,
    schedule,
    statement::Statement as S,
    value::{Value, bytes, id, int, maybe_bytes, maybe_id, maybe_text, maybe_time, text, time, token},
};
use crate::{commit::*, rows::*};
use uuid::Uuid;

/// One row of one statement.
pub(super) struct Bound<'a> {
    pub(super) statement: S,
    /// What it means if the statement does not meet the row; `None` if that is fine.
    pub(super) guard: Option<Conflict>,
    pub(super) values: Vec<Value<'a>>,
}

/// Which write of which commit of the batch: rises in their order.
pub(super) fn place(commit: usize, write: usize) -> i64 {
    ((commit as i64) << 32) | write as i64
}

/// The rows of a write, or `None` if it is one of the rare ones that are done alone. `place` is where in the batch it
/// stands.
pub(super) fn bind<'a>(tenant: &'a str, write: &'a Write, place: i64) -> Option<Vec<Bound<'a>>> {
    let bound = match write {
        Write::ConsumeSignal { id: signal } => {
            guard(S::DeleteSignal, Conflict::Gone, vec![text(tenant), id(*signal)])
        }
        Write::ConsumeTimer { instance, token: of } => {
            guard(S::DeleteTimer, Conflict::Gone, queue_key(tenant, *instance, *of))
        }
        Write::ConsumeCall { instance, token: of } => {
            guard(S::DeleteCall, Conflict::Gone, queue_key(tenant, *instance, *of))
        }
        Write::ConsumeDelivery { id: delivery, attempt } => {
            let values = vec![text(tenant), id(*delivery), int((*attempt).into())];
            guard(S::DeleteDelivery, Conflict::Gone, values)
        }
        Write::Delivery(row) => plain(S::Delivery, delivery(tenant, row)),
        Write::ConsumeDeadLetter { id: letter } => {
            guard(S::DeleteDeadLetter, Conflict::Gone, vec![text(tenant), id(*letter)])
        }
        Write::ClaimKey(row) => guard(S::ClaimKey, Conflict::Duplicate, inbox(tenant, row)),
        Write::Publish(row) => guard(S::CreateEvent, Conflict::Duplicate, event(tenant, row, place)),
        Write::EventTaken { id: event } => plain(S::TakeEvent, vec![text(tenant), id(*event)]),
        Write::Unsubscribe { subscriber } => plain(S::Unsubscribe, subscriber_values(tenant, subscriber)),
        Write::Subscribe { subscriber, wants, .. } => return Some(subscribe(tenant, subscriber, wants)),
        Write::CreateInstance { instance, state } => return Some(create_instance(tenant, instance, state)),
        Write::UpdateState(row) => guard(S::UpdateState, Conflict::Version, update_state(tenant, row)),
        Write::UpdateTask { task: row, expected_version } => {
            let mut values = task(tenant, row);
            values.push(int(*expected_version));
            guard(S::UpdateTask, Conflict::Version, values)
        }
        Write::UpdateInstance(row) => plain(S::UpdateInstance, update_instance(tenant, row)),
        Write::History(row) => plain(S::History, history(tenant, row)),
        Write::Signal(row) => plain(S::Signal, signal(tenant, row)),
        Write::Timer(row) => plain(S::Timer, timer(tenant, row)),
        Write::Call(row) => plain(S::Call, call(tenant, row)),
        Write::CreateTask(row) => plain(S::CreateTask, task(tenant, row)),
        Write::TaskEvent(row) => plain(S::TaskEvent, task_event(tenant, row)),
        Write::Outbox(row) => plain(S::Outbox, outbox(tenant, row)),
        Write::DeadLetter(row) => plain(S::DeadLetter, dead_letter(tenant, row)),
        Write::Errors(rows) => {
            return Some(rows.iter().map(|row| plain(S::Errors, error_group::values(tenant, row))).collect());
        }
        Write::Audit(row) => plain(S::Audit, audit::values(tenant, row)),
        Write::SettleItem(of) => {
            let settled = guard(S::SettleItem, Conflict::Gone, batches::settlement(tenant, of));
            return Some(vec![settled, plain(S::CountItem, batches::counted(tenant, of))]);
        }
        Write::OutboxSent { ids } => {
            return Some(
                ids.iter().map(|sent| plain(S::OutboxSent, vec![text(tenant), id(*sent)])).collect(),
            );
        }
        _ => return bind_more(tenant, write).map(|bound| vec![bound]),
    };
    Some(vec![bound])
}

/// Retries, releases, drops and datasets.
fn bind_more<'a>(tenant: &'a str, write: &'a Write) -> Option<Bound<'a>> {
    Some(match write {
        Write::RetryCall { instance, token: of, owner, visible_at, attempt, last_error } => {
            let mut values = queue_key(tenant, *instance, *of);
            values.extend([
                time(*visible_at),
                int((*attempt).into()),
                maybe_bytes(last_error),
                maybe_id(*owner),
            ]);
            plain(S::RetryCall, values)
        }
        Write::RetrySignal { id: of, owner, visible_at, attempt } => {
            let values =
                vec![text(tenant), id(*of), time(*visible_at), int((*attempt).into()), maybe_id(*owner)];
            plain(S::RetrySignal, values)
        }
        Write::RetryTimer { instance, token: of, owner, visible_at, attempt } => {
            let mut values = queue_key(tenant, *instance, *of);
            values.extend([time(*visible_at), int((*attempt).into()), maybe_id(*owner)]);
            plain(S::RetryTimer, values)
        }
        Write::Release { row: QueueKey::Signal { id: of }, owner } => {
            plain(S::ReleaseSignal, vec![text(tenant), id(*of), id(*owner)])
        }
        Write::Release { row: QueueKey::Timer { instance, token: of }, owner } => {
            let mut values = queue_key(tenant, *instance, *of);
            values.push(id(*owner));
            plain(S::ReleaseTimer, values)
        }
        Write::Release { row: QueueKey::Call { instance, token: of }, owner } => {
            let mut values = queue_key(tenant, *instance, *of);
            values.push(id(*owner));
            plain(S::ReleaseCall, values)
        }
        Write::DropCall { instance, token: of } => plain(S::DeleteCall, queue_key(tenant, *instance, *of)),
        Write::DropTimer { instance, token: of } => plain(S::DeleteTimer, queue_key(tenant, *instance, *of)),
        Write::Dataset(row) => {
            let values = vec![
                text(tenant),
                id(row.id),
                int(row.count.cast_signed()),
                time(row.created_at),
                maybe_id(row.owner),
            ];
            plain(S::Dataset, values)
        }
        Write::Items(row) => {
            let values = vec![
                text(tenant),
                id(row.dataset),
                int(row.first.cast_signed()),
                int(row.round.into()),
                int(row.count.cast_signed()),
                bytes(&row.items),
            ];
            plain(S::Items, values)
        }
        _ => return bind_delivery(tenant, write),
    })
}

/// What happens to deliveries and schedules after they are made.
fn bind_delivery<'a>(tenant: &'a str, write: &'a Write) -> Option<Bound<'a>> {
    Some(match write {
        Write::Release { row: QueueKey::Delivery { id: of }, owner } => {
            plain(S::ReleaseDelivery, vec![text(tenant), id(*of), id(*owner)])
        }
        Write::Debounce { row, key, until } => {
            let mut values = delivery(tenant, row);
            values.extend([text(key), time(*until)]);
            plain(S::Debounce, values)
        }
        Write::MoveWatermark { worker, row, expected_version } => {
            let values = vec![
                text(tenant),
                text(worker),
                text(&row.name),
                int(row.version),
                time(row.updated_at),
                bytes(&row.value),
                int(*expected_version),
            ];
            let statement = if *expected_version == 0 { S::CreateWatermark } else { S::MoveWatermark };
            guard(statement, Conflict::Version, values)
        }
        Write::RetryDelivery { id: of, owner, visible_at, attempt, last_error } => {
            let values = vec![
                text(tenant),
                id(*of),
                time(*visible_at),
                int((*attempt).into()),
                maybe_bytes(last_error),
                maybe_id(*owner),
            ];
            plain(S::RetryDelivery, values)
        }
        Write::ExtendDelivery { id: of, attempt, visible_at } => {
            let values = vec![text(tenant), id(*of), int((*attempt).into()), time(*visible_at)];
            guard(S::ExtendDelivery, Conflict::Gone, values)
        }
        Write::PutSchedule { schedule: row, expected_version } if *expected_version > 0 => {
            let mut values = schedule::values(tenant, row);
            values.push(int(*expected_version));
            guard(S::UpdateSchedule, Conflict::Version, values)
        }
        Write::Slot(row) => guard(S::Slot, Conflict::Exists, schedule::slot_values(tenant, row)),
        _ => return None,
    })
}

fn guard<'a>(statement: S, lost: Conflict, values: Vec<Value<'a>>) -> Bound<'a> {
    Bound { statement, guard: Some(lost), values }
}

fn plain<'a>(statement: S, values: Vec<Value<'a>>) -> Bound<'a> {
    Bound { statement, guard: None, values }
}

fn queue_key(tenant: &str, instance: Uuid, of: u64) -> Vec<Value<'_>> {
    vec![text(tenant), id(instance), token(of)]
}

fn event<'a>(tenant: &'a str, row: &'a EventRow, place: i64) -> Vec<Value<'a>> {
    vec![
        text(tenant),
        id(row.id),
        text(&row.source),
        text(&row.event_id),
        text(&row.event_type),
        time(row.received_at),
        maybe_time(row.kept_until),
        time(row.expires_at),
        int(row.started.cast_signed()),
        int(row.collected.cast_signed()),
        bytes(&row.event),
        int(place),
        int(row.delivered.cast_signed()),
        maybe_text(row.emitted_by.as_deref()),
        maybe_text(row.traced.trace_id.as_deref()),
        maybe_text(row.traced.correlation_id.as_deref()),
    ]
}

fn subscriber_values<'a>(tenant: &'a str, subscriber: &Subscriber) -> Vec<Value<'a>> {
    let (kind, owner, of) = subscriber_key(subscriber);
    vec![text(tenant), text(kind), id(owner), token(of)]
}

/// Replaces what the subscriber wanted before.
fn subscribe<'a>(tenant: &'a str, subscriber: &Subscriber, wants: &'a [SubscriptionRow]) -> Vec<Bound<'a>> {
    let mut bound = vec![plain(S::Unsubscribe, subscriber_values(tenant, subscriber))];
    for (position, want) in wants.iter().enumerate() {
        let (path, value) = want.key.as_ref().map_or(("", ""), |(path, value)| (path, value));
        let mut values = subscriber_values(tenant, subscriber);
        let event_type = want.event_type.as_deref().unwrap_or("");
        values.extend([int(position as i64), text(event_type), text(path), text(value)]);
        bound.push(plain(S::Subscribe, values));
    }
    bound
}

fn inbox<'a>(tenant: &'a str, row: &'a InboxRow) -> Vec<Value<'a>> {
    vec![
        text(tenant),
        text(&row.scope),
        text(&row.key),
        time(row.created_at),
        bytes(&row.request_hash),
        bytes(&row.answer),
    ]
}

fn create_instance<'a>(tenant: &'a str, row: &'a InstanceRow, state: &'a StateRow) -> Vec<Bound<'a>> {
    let projection = vec![
        text(tenant),
        id(row.id),
        text(&row.namespace),
        text(&row.name),
        text(&row.version),
        maybe_text(row.business_key.as_deref()),
        maybe_bytes(&row.business_parts),
        text(&row.status),
        maybe_text(row.traceparent.as_deref()),
        maybe_text(row.correlation_id.as_deref()),
        time(row.created_at),
        time(row.updated_at),
        maybe_time(row.ended_at),
        bytes(&row.input),
        maybe_bytes(&row.output),
        maybe_bytes(&row.error),
        maybe_bytes(&row.context),
        maybe_id(row.parent.map(|parent| parent.instance)),
        Value::Int(row.parent.map(|parent| parent.token.cast_signed())),
        Value::Int(row.parent.and_then(|parent| parent.item).map(i64::from)),
    ];
    let snapshot = vec![
        text(tenant),
        id(state.instance),
        int(state.state_version),
        int(state.snapshot_schema_version),
        text(&state.runtime_status),
        text(&row.namespace),
        text(&row.name),
        text(&row.version),
        maybe_text(row.business_key.as_deref()),
        maybe_bytes(&row.business_parts),
        maybe_text(state.waiting_kind.as_deref()),
        maybe_text(state.waiting_token.as_deref()),
        maybe_time(state.waiting_until),
        maybe_id(state.active_task_id),
        maybe_bytes(&state.resume_pointer_json),
        maybe_id(state.last_signal_id),
        maybe_text(state.last_error_code.as_deref()),
        maybe_bytes(&state.last_error_json),
        id(state.last_executed_by),
        time(state.last_executed_on),
        time(row.created_at),
        completed_on(state),
        bytes(&state.state_json),
    ];
    vec![
        guard(S::CreateInstance, Conflict::Exists, projection),
        guard(S::CreateState, Conflict::Exists, snapshot),
    ]
}

fn update_state<'a>(tenant: &'a str, row: &'a StateRow) -> Vec<Value<'a>> {
    vec![
        text(tenant),
        id(row.instance),
        int(row.expected_version),
        int(row.state_version),
        int(row.snapshot_schema_version),
        text(&row.runtime_status),
        maybe_text(row.waiting_kind.as_deref()),
        maybe_text(row.waiting_token.as_deref()),
        maybe_time(row.waiting_until),
        maybe_id(row.active_task_id),
        maybe_bytes(&row.resume_pointer_json),
        maybe_id(row.last_signal_id),
        maybe_text(row.last_error_code.as_deref()),
        maybe_bytes(&row.last_error_json),
        id(row.last_executed_by),
        time(row.last_executed_on),
        completed_on(row),
        bytes(&row.state_json),
    ]
}

/// The lifecycle column that the row implies: a final status was reached in this very commit.
fn completed_on(row: &StateRow) -> Value<'static> {
    let ended = matches!(row.runtime_status.as_str(), "Completed" | "Faulted" | "Cancelled");
    Value::Int(ended.then_some(row.last_executed_on.0))
}

fn update_instance<'a>(tenant: &'a str, row: &'a InstanceChange) -> Vec<Value<'a>> {
    vec![
        text(tenant),
        id(row.id),
        text(&row.status),
        time(row.updated_at),
        maybe_bytes(&row.output),
        Value::Flag(row.error.is_some()),
        Value::Bytes(row.error.as_ref().and_then(|error| error.as_deref())),
        maybe_bytes(&row.context),
        Value::Flag(row.ended_at.is_some()),
        maybe_time(row.ended_at.flatten()),
    ]
}

fn history<'a>(tenant: &'a str, row: &'a HistoryRow) -> Vec<Value<'a>> {
    vec![text(tenant), id(row.instance), int(row.version), time(row.at), bytes(&row.events)]
}

pub(super) fn signal<'a>(tenant: &'a str, row: &'a SignalRow) -> Vec<Value<'a>> {
    vec![
        text(tenant),
        id(row.id),
        id(row.instance),
        text(&row.signal_type),
        time(row.created_at),
        time(row.visible_at),
        int(row.attempt.into()),
        maybe_id(row.owner),
        bytes(&row.envelope),
    ]
}

fn timer<'a>(tenant: &'a str, row: &'a TimerRow) -> Vec<Value<'a>> {
    vec![
        text(tenant),
        id(row.instance),
        token(row.token),
        time(row.due_at),
        int(row.attempt.into()),
        maybe_id(row.owner),
        bytes(&row.envelope),
    ]
}

fn call<'a>(tenant: &'a str, row: &'a CallRow) -> Vec<Value<'a>> {
    vec![
        text(tenant),
        id(row.instance),
        token(row.token),
        text(&row.target),
        time(row.created_at),
        time(row.visible_at),
        int(row.attempt.into()),
        maybe_id(row.owner),
        bytes(&row.envelope),
        maybe_bytes(&row.last_error),
    ]
}

fn delivery<'a>(tenant: &'a str, row: &'a DeliveryRow) -> Vec<Value<'a>> {
    vec![
        text(tenant),
        id(row.id),
        text(&row.worker),
        maybe_text(row.order_key.as_deref()),
        time(row.created_at),
        time(row.visible_at),
        int(row.attempt.into()),
        maybe_id(row.owner),
        bytes(row.events.bytes()),
        maybe_bytes(&row.last_error),
        maybe_text(row.traced.trace_id.as_deref()),
        maybe_text(row.traced.correlation_id.as_deref()),
    ]
}

fn task<'a>(tenant: &'a str, row: &'a TaskRow) -> Vec<Value<'a>> {
    vec![
        text(tenant),
        id(row.id),
        id(row.instance),
        token(row.token),
        text(&row.step),
        text(&row.title),
        text(&row.status),
        maybe_text(row.assignee.as_deref()),
        bytes(&row.candidate_users),
        bytes(&row.candidate_groups),
        int(row.priority),
        maybe_time(row.due_at),
        int(row.version),
        time(row.created_at),
        time(row.updated_at),
        maybe_time(row.ended_at),
        bytes(&row.payload),
        maybe_bytes(&row.form),
        maybe_bytes(&row.result),
    ]
}

fn task_event<'a>(tenant: &'a str, row: &'a TaskEventRow) -> Vec<Value<'a>> {
    vec![
        text(tenant),
        id(row.task),
        int(row.sequence),
        text(&row.kind),
        text(&row.actor),
        time(row.at),
        bytes(&row.detail),
    ]
}

fn outbox<'a>(tenant: &'a str, row: &'a OutboxRow) -> Vec<Value<'a>> {
    vec![
        text(tenant),
        id(row.id),
        text(&row.key),
        text(&row.event_type),
        time(row.created_at),
        bytes(&row.event),
    ]
}

fn dead_letter<'a>(tenant: &'a str, row: &'a DeadLetterRow) -> Vec<Value<'a>> {
    vec![
        text(tenant),
        id(row.id),
        text(&row.source),
        text(&row.reason),
        text(&row.detail),
        maybe_id(row.instance),
        bytes(&row.origin),
        int(row.attempts.into()),
        id(row.last_node),
        time(row.failed_at),
        bytes(&row.envelope),
        maybe_id(row.group),
    ]
}
