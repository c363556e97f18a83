//! What one commit holds and how it may end.

use crate::{datasets::*, records::RecordWrite, rows::*};
use machine::{TenantId, Time, time::Span};
use uuid::Uuid;

/// Everything that follows from one cause, for one tenant. Lands whole or not at all.
///
/// Guards come first in `writes` (consume, claim, compare-and-set), so that a losing commit usually writes nothing.
#[derive(Clone, Debug)]
pub struct Commit {
    pub tenant: TenantId,
    pub writes: Vec<Write>,
}

/// One guarded or plain write.
#[derive(Clone, Debug)]
pub enum Write {
    // ---- guards: each ends the commit in `Outcome::Conflict` when it does not hold ----
    /// Deletes the signal; `Conflict::Gone` if it is not there.
    ConsumeSignal {
        id: Uuid,
    },
    /// Deletes the timer; `Conflict::Gone` if it is not there.
    ConsumeTimer {
        instance: Uuid,
        token: u64,
    },
    /// Deletes the call; `Conflict::Gone` if it is not there.
    ConsumeCall {
        instance: Uuid,
        token: u64,
    },
    /// Deletes the delivery if `attempt` is the stored count; `Conflict::Gone` if it is not there or not so.
    ConsumeDelivery {
        id: Uuid,
        attempt: u32,
    },
    /// Keeps a delivery that was lent out of sight until then, if `attempt` is the stored count; `Conflict::Gone` if it is
    /// not there or not so.
    ExtendDelivery {
        id: Uuid,
        attempt: u32,
        visible_at: Time,
    },
    /// Moves a worker's watermark if `expected_version` is the stored one, or sets the first if that is 0 and there is none;
    /// else `Conflict::Version`.
    MoveWatermark {
        worker: String,
        row: WatermarkRow,
        expected_version: i64,
    },
    /// Inserts the worker if `expected_version` is 0, else replaces it if that is the stored version; else
    /// `Conflict::Version`.
    PutWorker {
        row: WorkerRow,
        expected_version: i64,
    },
    /// Deletes the worker; `Conflict::Gone` if it is not there.
    DeleteWorker {
        name: String,
    },
    /// Inserts what is said of a type of events if `expected_version` is 0, else replaces it if that is the stored version;
    /// else `Conflict::Version`.
    PutEventType {
        row: EventTypeRow,
        expected_version: i64,
    },
    /// Deletes what is said of a type of events; `Conflict::Gone` if it is not there.
    DeleteEventType {
        name: String,
    },
    /// Deletes the dead letter; `Conflict::Gone` if it is not there.
    ConsumeDeadLetter {
        id: Uuid,
    },
    /// Inserts the idempotency record; `Conflict::Duplicate` if the key is there.
    ClaimKey(InboxRow),
    /// Inserts instance projection and snapshot at version 1; `Conflict::Exists` if the instance is there, or if
    /// its business key is taken by an instance that has not ended.
    CreateInstance {
        instance: Box<InstanceRow>,
        state: Box<StateRow>,
    },
    /// Replaces the snapshot if `state.expected_version` is the stored one; else `Conflict::Version`.
    UpdateState(Box<StateRow>),
    /// Replaces the task if `expected_version` is the stored one; else `Conflict::Version`.
    UpdateTask {
        task: Box<TaskRow>,
        expected_version: i64,
    },
    /// Inserts a definition version; `Conflict::Exists` if it is there.
    CreateDefinition(Box<DefinitionRow>),
    /// Inserts a tenant; `Conflict::Exists` if it is there.
    CreateTenant(TenantRow),
    /// Changes the commit's tenant where something is given; `Conflict::Gone` if it is not there.
    ChangeTenant(TenantChange),
    /// Gives the commit's tenant another status, if it has `from`; else `Conflict::Version`.
    SetStanding {
        from: String,
        to: String,
        /// When its rows go, for one that is deleted.
        purge_at: Option<Time>,
    },
    /// Inserts or replaces a secret, its version one higher; if `expected_version` is given and is not the stored
    /// one, `Conflict::Version`.
    PutSecret {
        row: Box<SecretRow>,
        expected_version: Option<i64>,
    },
    /// Deletes the secret; `Conflict::Gone` if it is not there.
    DeleteSecret {
        name: String,
    },
    /// Inserts the schedule if `expected_version` is 0, else replaces it if that is the stored version; else
    /// `Conflict::Version`.
    PutSchedule {
        schedule: Box<ScheduleRow>,
        expected_version: i64,
    },
    /// Inserts a slot of the ledger; `Conflict::Exists` if it is there.
    Slot(SlotRow),
    /// Replaces what a schedule has collected if `expected_version` is the stored one, or inserts it if that is 0 and
    /// there is none; else `Conflict::Version`.
    PutCollection {
        schedule: Uuid,
        open: Vec<u8>,
        expected_version: i64,
    },
    /// Inserts the event, and one signal for every wait that wants it; `Conflict::Duplicate` if an event of the same
    /// source and id is there. `told` is counted here.
    Publish(Box<EventRow>),
    /// Inserts the batch if `expected_version` is 0, else replaces it, but for its counts, if that is the stored version;
    /// else `Conflict::Version`.
    PutBatch {
        row: Box<BatchRow>,
        expected_version: i64,
    },
    /// Gives an item of a batch another outcome, and counts it, if it has the one that is expected; else `Conflict::Gone`.
    SettleItem(Settlement),
    /// Something about records; a guard or a plain write, as it says.
    Record(Box<RecordWrite>),
    // ---- plain writes ----
    UpdateInstance(Box<InstanceChange>),
    /// The instance goes on in another version of its definition, in projection and snapshot.
    MoveInstance {
        instance: Uuid,
        definition_version: String,
    },
    History(HistoryRow),
    /// Inserts a signal; one with the same id already there is left as it is.
    Signal(SignalRow),
    /// Inserts items of a batch, which wait for their turn; those that are there stay as they are.
    BatchItems {
        batch: Uuid,
        items: Vec<Uuid>,
    },
    Timer(TimerRow),
    Call(CallRow),
    Delivery(Box<DeliveryRow>),
    /// Inserts a delivery, or puts its events in the place of those of the one with the same worker and key that nobody was
    /// given yet. That one is put off to the new one's time, but never beyond the `until` that it was made with.
    Debounce {
        row: Box<DeliveryRow>,
        key: String,
        until: Time,
    },
    /// Puts a delivery back as backlog the way a call is. One that is lent has no owner; `ExtendDelivery` guards it.
    RetryDelivery {
        id: Uuid,
        owner: Option<Uuid>,
        visible_at: Time,
        attempt: u32,
        last_error: Option<Vec<u8>>,
    },
    /// Puts a failed call back as backlog (no owner) with a later `visible_at`, its attempt count raised, if `owner` still
    /// owns it; nothing otherwise. So it may be sent again by whoever does not know whether it landed.
    RetryCall {
        instance: Uuid,
        token: u64,
        owner: Option<Uuid>,
        visible_at: Time,
        attempt: u32,
        last_error: Option<Vec<u8>>,
    },
    /// Puts a signal back the same way.
    RetrySignal {
        id: Uuid,
        owner: Option<Uuid>,
        visible_at: Time,
        attempt: u32,
    },
    /// Puts a timer back the same way.
    RetryTimer {
        instance: Uuid,
        token: u64,
        owner: Option<Uuid>,
        visible_at: Time,
        attempt: u32,
    },
    /// Makes a queue row backlog again, as it is, if `owner` still owns it; nothing otherwise.
    Release {
        row: QueueKey,
        owner: Uuid,
    },
    /// Deletes the call if it is there (its wait ended another way).
    DropCall {
        instance: Uuid,
        token: u64,
    },
    /// Deletes the timer if it is there.
    DropTimer {
        instance: Uuid,
        token: u64,
    },
    CreateTask(Box<TaskRow>),
    TaskEvent(TaskEventRow),
    Outbox(OutboxRow),
    DeadLetter(Box<DeadLetterRow>),
    /// Adds to error groups, in one statement: counts are summed, first and last times widened, samples replaced. No two
    /// of the same id.
    Errors(Vec<ErrorGroupRow>),
    /// Inserts a dataset; one with the same id already there is left as it is.
    Dataset(DatasetRow),
    /// Inserts items, or replaces those of the same position and round.
    Items(ItemsRow),
    CreateKey(KeyRow),
    RevokeKey {
        id: String,
        at: Time,
    },
    /// Deletes outbox rows that were handed on.
    OutboxSent {
        ids: Vec<Uuid>,
    },
    /// Sets the next slot of a schedule that waits for the end of `instance`; nothing if it does not.
    ScheduleFollows {
        id: Uuid,
        instance: Uuid,
        next_slot: Time,
        due_at: Time,
    },
    /// Forgets what a schedule has collected. Its version is raised, also of one that had nothing: whoever read it
    /// before cannot write.
    ResetCollection {
        schedule: Uuid,
    },
    /// Replaces what a subscriber wants. A listening one is told (once per instance) about every event it wants that
    /// is kept at `now`, the tenant's time; its signals are visible at `visible_at`.
    Subscribe {
        subscriber: Subscriber,
        wants: Vec<SubscriptionRow>,
        now: Time,
        visible_at: Time,
    },
    /// Deletes what a subscriber wants.
    Unsubscribe {
        subscriber: Subscriber,
    },
    /// A wait that was told about the event when it came has taken it: it is kept no longer.
    EventTaken {
        id: Uuid,
    },
    /// Inserts what somebody did; one with the same id already there is left as it is.
    Audit(Box<AuditRow>),
    /// Moves the tenant's clock forward: whatever it has queued becomes due that much earlier.
    AdvanceClock {
        by: Span,
    },
}

/// What to change of a tenant; what is not given stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantChange {
    pub title: Option<String>,
    pub weight: Option<u32>,
    /// 0 for no limit, as in [`LimitsRow`].
    pub open_max: Option<u32>,
    pub starts_per_second: Option<u32>,
    pub concurrency_max: Option<u32>,
    pub degraded_per_second: Option<u32>,
}

/// How one commit of a batch ended. The others of the batch are not affected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Durable.
    Committed,
    /// A guard did not hold; nothing of this commit was written.
    Conflict(Conflict),
    /// The store refuses these rows for good (too large, violated constraint); nothing was written.
    Rejected(String),
}

/// Which guard did not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The cause was consumed by somebody else.
    Gone,
    /// The idempotency key is taken: read the record back.
    Duplicate,
    /// The object to create is there already.
    Exists,
    /// The stored version is another.
    Version,
}

/// What a commit costs: rows touched and payload bytes carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub rows: u64,
    pub bytes: u64,
    /// Statements that add to error groups.
    pub error_writes: u64,
}

impl Commit {
    pub fn cost(&self) -> Cost {
        let mut cost = Cost::default();
        for write in &self.writes {
            let (rows, bytes) = write.cost();
            cost.error_writes += u64::from(matches!(write, Write::Errors(_)));
            cost.rows += rows;
            cost.bytes += bytes as u64;
        }
        cost
    }
}

impl Write {
    /// Rows written or deleted, and the bytes of what is stored in them.
    fn cost(&self) -> (u64, usize) {
        let some = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        let state = |row: &StateRow| row.state_json.len() + some(&row.resume_pointer_json);
        match self {
            Write::CreateInstance { instance, state: row } => (2, instance.input.len() + state(row)),
            Write::UpdateState(row) => (1, state(row)),
            Write::UpdateInstance(change) => (1, some(&change.output) + some(&change.context)),
            Write::History(row) => (1, row.events.len()),
            Write::Signal(row) => (1, row.envelope.len()),
            Write::Timer(row) => (1, row.envelope.len()),
            Write::Call(row) => (1, row.envelope.len()),
            Write::Delivery(row) | Write::Debounce { row, .. } => (1, row.events.bytes().len()),
            Write::MoveWatermark { row, .. } => (1, row.value.len()),
            Write::PutWorker { row, .. } => (1, row.declaration.len()),
            Write::PutEventType { row, .. } => (1, row.schema.len()),
            Write::Outbox(row) => (1, row.event.len()),
            Write::DeadLetter(row) => (1, row.envelope.len()),
            Write::Errors(rows) => (rows.len() as u64, rows.iter().map(|row| row.samples.len()).sum()),
            Write::CreateTask(row) => (1, row.payload.len()),
            Write::UpdateTask { task, .. } => (1, task.payload.len() + some(&task.result)),
            Write::CreateDefinition(row) => (1, row.source.len() + row.ir.len()),
            Write::MoveInstance { .. } => (2, 0),
            Write::PutSecret { row, .. } => (1, row.sealed.len()),
            Write::Items(row) => (1, row.items.len()),
            Write::OutboxSent { ids } => (ids.len() as u64, 0),
            Write::Publish(row) => (1, row.event.len()),
            Write::PutBatch { row, .. } => (1, row.query.len() + row.arguments.len()),
            Write::SettleItem(_) => (2, 0),
            Write::Audit(row) => (1, row.body.len()),
            Write::BatchItems { items, .. } => (items.len() as u64, 0),
            Write::PutCollection { open, .. } => (1, open.len()),
            Write::Subscribe { wants, .. } => (wants.len() as u64, 0),
            Write::Record(write) => write.cost(),
            _ => (1, 0),
        }
    }
}
