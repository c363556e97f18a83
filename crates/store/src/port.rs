//! The port: what the runtime and the server ask of a store, and what every adapter promises.
//!
//! # Contract
//!
//! - **Durable before answered.** [`Store::commit`] answers `Committed` only for what survives a power cut.
//! - **Whole or not at all.** A commit's writes land together. A conflict or a rejected row ends that commit only;
//!   the rest of the batch lands (P12).
//! - **In order.** Commits of one batch take effect in the order given; batches in the order submitted.
//! - **Fenced.** A batch of a node whose lease another node has taken over, or that never joined, is answered
//!   `Error::Fenced` and nothing of it lands (P7).
//! - **Unknown is said.** If the adapter cannot tell whether a batch landed it answers `Error::Unknown`; the caller
//!   reads back by key or version and never re-runs blindly (F10).
//! - **Claims.** A claim marks rows as owned by the node and returns them; a row is returned to one node only until
//!   that node is taken over or releases it. Rows born with an owner are never returned by a claim of that node.
//! - **No tenant, no row.** Every read names a tenant, except claims, which return the tenant with the row, and
//!   [`Store::key_by_id`], which finds out whose key it is.

use crate::{commit::*, datasets::*, feed::*, records::Records, rows::*, views::*};
use async_trait::async_trait;
use machine::{TenantId, Time, time::Span};
use uuid::Uuid;

/// Named for what the caller does about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Back off and try again; nothing was written.
    #[error("store unavailable: {0}")]
    Unavailable(String),
    /// Another process has the store open: stop it first.
    #[error("{0}")]
    InUse(String),
    /// The disk or quota is full; nothing was written; reads still work.
    #[error("store full: {0}")]
    Full(String),
    /// It may or may not have landed: read back.
    #[error("outcome unknown: {0}")]
    Unknown(String),
    /// This node was taken over, has left or never joined: stop.
    #[error("node fenced")]
    Fenced,
    /// Stop and tell the operator, who has to change a setting or prepare the database first; the text says what.
    /// Nothing is damaged, and trying again does not help.
    #[error("{0}")]
    Misconfigured(String),
    /// Stop and alert.
    #[error("store corrupt: {0}")]
    Corrupt(String),
}

/// What a renewal of the lease answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renewed {
    /// Another node's lease has ended and nobody has taken it over.
    pub another_ended: bool,
    /// What time it is where the store is, if many nodes go by it.
    pub now: Option<Time>,
    /// Nodes whose leases have not ended, this one counted; 0 if nobody has counted.
    pub nodes: u32,
}

/// What there is to do, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// When unowned signals, timers or calls become due.
    pub queues: Option<Time>,
    /// When the next slot of any schedule is due.
    pub slots: Option<Time>,
    /// When an unowned delivery of the workers named becomes due.
    pub deliveries: Option<Time>,
    /// When a batch has something to do.
    pub batches: Option<Time>,
    /// When lists of who may do what are to be handed down.
    pub acl: Option<Time>,
    /// The outbox is not empty.
    pub outbox: bool,
    /// Events may have expired.
    pub events_expired: bool,
    /// The node may own rows of queues.
    pub owns: bool,
}

/// Work that one node of a deployment at a time does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostLock {
    /// Deleting what ended long ago.
    Retention,
    /// Giving entries of the audit trail their places.
    Audit,
    /// Handing lists of who may do what down to the records below.
    Acl,
}

impl HostLock {
    /// What the lock is called in the table of leases.
    pub(crate) fn name(self) -> Uuid {
        match self {
            HostLock::Retention => Uuid::from_u128(1),
            HostLock::Audit => Uuid::from_u128(2),
            HostLock::Acl => Uuid::from_u128(3),
        }
    }
}

pub type Result<T> = std::result::Result<T, Error>;

#[async_trait]
pub trait Store: Send + Sync + 'static {
    // ---- writing ----
    /// Makes a batch durable and answers each commit, in order.
    async fn commit(&self, node: Uuid, batch: Vec<Commit>) -> Result<Vec<Outcome>>;

    // ---- nodes ----
    /// Registers a fresh node and gives it a lease until `now + lease_ms`.
    async fn join(&self, node: Uuid, now: Time, lease_ms: i64) -> Result<()>;
    /// Renews the lease; `Fenced` if it was taken over. Answers what an idle node would have to ask next.
    async fn renew(&self, node: Uuid, now: Time, lease_ms: i64) -> Result<Renewed>;
    /// Fences every other node whose lease ended before `now` and makes its rows backlog. Returns how many rows.
    async fn take_over(&self, node: Uuid, now: Time) -> Result<u64>;
    /// Ends the node's lease and makes its rows backlog (graceful stop).
    async fn leave(&self, node: Uuid) -> Result<()>;
    /// Takes or keeps a lock of the deployment until `now + lease_ms`; `false` if another node holds it. Free is what
    /// nobody took, whose time is over, or whose holder has left or was taken over. Whoever is no member gets none.
    async fn hold(&self, lock: HostLock, node: Uuid, now: Time, lease_ms: i64) -> Result<bool>;
    /// The secret of that name of the whole deployment; `fresh` becomes it if there is none yet.
    async fn deployment_key(&self, name: &str, fresh: [u8; 32]) -> Result<[u8; 32]>;

    // ---- work discovery (backlog only; born-claimed rows never pass here). Nothing of a tenant that is parked
    // (`suspended` or `deleted`) is found, lent, due or in the outbox; nor schedules of one that is `degraded`. ----
    async fn claim_signals(&self, node: Uuid, now: Time, limit: usize) -> Result<Vec<Claimed<SignalRow>>>;
    /// Every tenant with calls that are due gets an equal share of `limit`, whatever the others have queued; those in
    /// `full` get none.
    async fn claim_calls(
        &self,
        node: Uuid,
        now: Time,
        limit: usize,
        full: &[TenantId],
    ) -> Result<Vec<Claimed<CallRow>>>;
    /// Timers due at `now`.
    async fn claim_timers(&self, node: Uuid, now: Time, limit: usize) -> Result<Vec<Claimed<TimerRow>>>;
    /// Deliveries that are due of the workers named, to every tenant its share by weight. Of one order key the oldest row
    /// only, and none while that is owned or not yet due. With a pace, no more than it allows over all nodes.
    async fn claim_deliveries(&self, ask: &DeliveryAsk) -> Result<Vec<Claimed<DeliveryRow>>>;
    /// The earliest time at which an unowned delivery of one of these workers becomes due and its pace allows it, if there
    /// is any.
    async fn next_delivery(&self, workers: &[String]) -> Result<Option<Time>>;
    /// How much waits for each of these workers, over all tenants; nothing of those that have nothing. Reads every
    /// delivery: for somebody who looks now and then.
    async fn depths(&self, workers: &[String]) -> Result<Vec<Depth>>;
    /// How many rows each queue holds, of one tenant or of all, by kind and name; nothing of those that hold none. Kept by
    /// every commit: a read takes as long as there are queues, however much is in them.
    async fn queues(&self, tenant: Option<&TenantId>) -> Result<Vec<QueueRow>>;
    /// What of the tenant's deliveries for a worker nobody has.
    async fn unclaimed(&self, tenant: &TenantId, worker: &str, now: Time) -> Result<Unclaimed>;
    /// What is lent out of a worker's deliveries, and when its pace allows the next.
    async fn loans(&self, tenant: &TenantId, worker: &str, now: Time) -> Result<Loans>;
    /// When what has been due longest for each of these workers became so, or the first will be, over all tenants that are
    /// not parked; nothing of workers that have nothing in the backlog.
    async fn oldest(&self, workers: &[String]) -> Result<Vec<(String, Time)>>;
    /// Lends due deliveries of one worker to whoever asks: out of sight until `until`, their attempts counted. They stay
    /// unowned, so that whoever does not answer in time loses them.
    async fn lend(&self, tenant: &TenantId, loan: &Loan) -> Result<Vec<DeliveryRow>>;
    /// The earliest time at which unowned signals, timers or calls become due, if there are any.
    async fn next_due(&self) -> Result<Option<Time>>;
    /// When each kind of work is due next, for a node that has nothing to do: one question instead of one for every pump.
    async fn outlook(&self, node: Uuid, now: Time, workers: &[String]) -> Result<Outlook> {
        let _ = (node, now);
        Ok(Outlook {
            queues: self.next_due().await?,
            slots: self.next_slot_due().await?,
            deliveries: if workers.is_empty() { None } else { self.next_delivery(workers).await? },
            batches: self.next_batch_due().await?,
            acl: self.records().next_acl_work().await?,
            outbox: !self.outbox(&OutboxAsk::of(1)).await?.is_empty(),
            events_expired: true,
            owns: true,
        })
    }
    /// Every queue row the node owns, at most `limit`. Reads the queues from end to end: for a check now and then.
    async fn owned(&self, node: Uuid, limit: usize) -> Result<Vec<Claimed<QueueKey>>>;

    // ---- reading by key ----
    async fn load(&self, tenant: &TenantId, instance: Uuid) -> Result<Option<LoadedState>>;
    async fn inbox(&self, tenant: &TenantId, scope: &str, key: &str) -> Result<Option<InboxRow>>;
    /// Those of the keys that are taken.
    async fn taken(&self, tenant: &TenantId, scope: &str, keys: &[String]) -> Result<Vec<String>>;
    /// The definition; the newest version (see [`crate::by_preference`]) when `version` is `None`.
    async fn definition(
        &self,
        tenant: &TenantId,
        namespace: &str,
        name: &str,
        version: Option<&str>,
    ) -> Result<Option<DefinitionRow>>;
    async fn instance(&self, tenant: &TenantId, id: Uuid) -> Result<Option<InstanceView>>;
    async fn task(&self, tenant: &TenantId, id: Uuid) -> Result<Option<TaskRow>>;
    async fn dead_letter(&self, tenant: &TenantId, id: Uuid) -> Result<Option<DeadLetterRow>>;
    async fn error_group(&self, tenant: &TenantId, id: Uuid) -> Result<Option<ErrorGroupRow>>;
    async fn tenant(&self, id: &TenantId) -> Result<Option<TenantRow>>;
    async fn delivery(&self, tenant: &TenantId, id: Uuid) -> Result<Option<DeliveryRow>>;
    async fn secret(&self, tenant: &TenantId, name: &str) -> Result<Option<SecretRow>>;
    async fn key_by_id(&self, key_id: &str) -> Result<Option<(TenantId, KeyRow)>>;

    /// A dataset that is complete.
    async fn dataset(&self, tenant: &TenantId, id: Uuid) -> Result<Option<DatasetRow>>;
    /// Every row that holds any of the items `from..to`, by position and round.
    async fn dataset_items(&self, tenant: &TenantId, id: Uuid, from: u64, to: u64) -> Result<Vec<ItemsRow>>;
    /// How many children the instance has, by status.
    async fn children(&self, tenant: &TenantId, parent: Uuid) -> Result<Vec<(String, u64)>>;

    // ---- lists, newest first ----
    async fn instances(
        &self,
        tenant: &TenantId,
        filter: &InstanceFilter,
        page: &Page,
    ) -> Result<Vec<InstanceView>>;
    /// The instance that holds `business_key` and has not ended, else the newest that held it.
    async fn instance_by_key(&self, tenant: &TenantId, business_key: &str) -> Result<Option<InstanceView>>;
    /// Oldest first, versions above `after`.
    async fn history(
        &self,
        tenant: &TenantId,
        instance: Uuid,
        after: i64,
        limit: usize,
    ) -> Result<Vec<HistoryRow>>;
    /// The newest version of each name (see [`crate::by_preference`]), by namespace and name.
    async fn definitions(
        &self,
        tenant: &TenantId,
        filter: &DefinitionFilter,
    ) -> Result<Vec<DefinitionSummary>>;
    /// All versions of one name, newest first by semver.
    async fn versions(
        &self,
        tenant: &TenantId,
        namespace: &str,
        name: &str,
    ) -> Result<Vec<DefinitionSummary>>;
    /// Where a queue row stands; `None` if it is gone.
    async fn place(&self, tenant: &TenantId, row: QueueKey) -> Result<Option<Place>>;
    /// The calls of one instance that are not answered yet, oldest first.
    async fn calls(&self, tenant: &TenantId, instance: Uuid, limit: usize) -> Result<Vec<CallRow>>;
    async fn tasks(&self, tenant: &TenantId, filter: &TaskFilter, page: &Page) -> Result<Vec<TaskRow>>;
    async fn task_events(&self, tenant: &TenantId, task: Uuid) -> Result<Vec<TaskEventRow>>;
    async fn dead_letters(
        &self,
        tenant: &TenantId,
        filter: &DeadLetterFilter,
        page: &Page,
    ) -> Result<Vec<DeadLetterRow>>;
    /// Dead letters by error group, the group with the newest first; those after `after`, its last time and id.
    async fn dead_letter_groups(
        &self,
        tenant: &TenantId,
        after: Option<(Time, Option<Uuid>)>,
        limit: usize,
    ) -> Result<Vec<LetterGroup>>;
    /// Those seen last first.
    async fn error_groups(&self, tenant: &TenantId, filter: &ErrorFilter) -> Result<Vec<ErrorGroupRow>>;
    async fn tenants(&self) -> Result<Vec<TenantRow>>;
    /// Workers of all tenants, by tenant and name.
    async fn workers(&self) -> Result<Vec<Claimed<WorkerRow>>>;
    /// What all tenants say of types of events, by tenant and name.
    async fn event_types(&self) -> Result<Vec<Claimed<EventTypeRow>>>;
    /// Oldest first, those after `after`.
    async fn deliveries(
        &self,
        tenant: &TenantId,
        filter: &DeliveryFilter,
        after: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<DeliveryRow>>;
    /// How far a worker has come, by name.
    async fn watermarks(&self, tenant: &TenantId, worker: &str) -> Result<Vec<WatermarkRow>>;
    async fn keys(&self, tenant: &TenantId) -> Result<Vec<KeyRow>>;
    /// By name.
    async fn secrets(&self, tenant: &TenantId) -> Result<Vec<SecretRow>>;
    /// Of every tenant that has any its share by weight, in the order of their commits; nothing of what the ask leaves
    /// out.
    async fn outbox(&self, ask: &OutboxAsk) -> Result<Vec<Claimed<OutboxRow>>>;
    // ---- schedules ----
    /// Schedules with a slot due at `now`, over all tenants, earliest first. No claim: firing is guarded by version.
    async fn due_schedules(&self, now: Time, limit: usize) -> Result<Vec<Claimed<ScheduleRow>>>;
    /// When the next slot of any schedule is due.
    async fn next_slot_due(&self) -> Result<Option<Time>>;
    async fn schedule(&self, tenant: &TenantId, id: Uuid) -> Result<Option<ScheduleRow>>;
    /// By namespace and name.
    async fn schedules(&self, tenant: &TenantId, filter: &ScheduleFilter) -> Result<Vec<ScheduleRow>>;
    /// Newest first, slots before `before`.
    async fn slots(
        &self,
        tenant: &TenantId,
        schedule: Uuid,
        before: Option<Time>,
        limit: usize,
    ) -> Result<Vec<SlotRow>>;
    /// What a schedule has collected so far.
    async fn collection(&self, tenant: &TenantId, schedule: Uuid) -> Result<CollectionRow>;

    /// What is asked about records.
    fn records(&self) -> &dyn Records;

    // ---- batches ----
    async fn batch(&self, tenant: &TenantId, id: Uuid) -> Result<Option<BatchRow>>;
    /// Newest first.
    async fn batches(&self, tenant: &TenantId, filter: &BatchFilter, page: &Page) -> Result<Vec<BatchRow>>;
    async fn batch_items(&self, tenant: &TenantId, ask: &ItemAsk) -> Result<Vec<BatchItemRow>>;
    /// Batches with something to do at `now`, over all tenants, earliest first. No claim: whoever works on one puts it off,
    /// guarded by its version, and every item is guarded for itself. Nothing of a tenant that is parked is found.
    async fn due_batches(&self, now: Time, limit: usize) -> Result<Vec<Claimed<BatchRow>>>;
    /// When the next batch has something to do.
    async fn next_batch_due(&self) -> Result<Option<Time>>;

    // ---- events ----
    async fn event(&self, tenant: &TenantId, id: Uuid) -> Result<Option<EventRow>>;
    /// Those of them that are there, in the order given.
    async fn events_of(&self, tenant: &TenantId, ids: &[Uuid]) -> Result<Vec<EventRow>>;
    async fn event_of(&self, tenant: &TenantId, source: &str, event_id: &str) -> Result<Option<EventRow>>;
    async fn events(&self, tenant: &TenantId, filter: &EventFilter, page: &Page) -> Result<Vec<EventRow>>;
    /// Events in the order of their commits, those after the cursor, at most `limit` and [`PAGE_MAX`]. What commits late
    /// comes late: no event ever appears before a cursor that was given out, so whoever goes on from the last item's
    /// cursor meets every event once. Events that one instance emits come in the order in which it emitted them.
    /// `None` if the cursor was not given by this database, or by what it was before an older copy was put back.
    async fn feed(&self, tenant: &TenantId, after: FeedCursor, limit: usize)
    -> Result<Option<Vec<FeedItem>>>;
    /// What the feed waits for now.
    async fn horizon(&self) -> Result<Horizon>;
    /// Schedules that want events of this type, or of any.
    async fn schedules_on(&self, tenant: &TenantId, event_type: &str, limit: usize) -> Result<Vec<Uuid>>;
    /// True if any tenant has an event that nothing has taken.
    async fn keeps_events(&self) -> Result<bool>;
    /// Deletes events that expired before `now`, at most `limit`; answers how many.
    async fn purge_events(&self, now: Time, limit: usize) -> Result<u64>;

    // ---- audit ----
    fn audit(&self) -> &dyn crate::Audit;

    // ---- retention ----
    /// Looks at the next `limit` instances that ended, of all tenants, and deletes with every row they have those that
    /// [`Purge`] allows by status and age. One stays that has a call, a timer or a dead letter, a child that has not
    /// ended, or a parent that is there and has neither completed nor been cancelled. With an instance go snapshot,
    /// history, tasks and what was done with them, subscriptions, the datasets it owns, and the keys of its signals
    /// and events. Also deletes at most `limit` idempotency keys of starts (scope `start`) and of workers (scope
    /// `worker`) older than `keys_before` (see [`Purge::keys_kept`]), as many error groups last seen before `faulted_before`, as many items of batches
    /// that ended before `ended_before` and then the batches, and as many records of slots, by age as well: those that failed with faulted instances, others with
    /// those that ended well. One short transaction: an instance with more rows than fit keeps its own row, is named again by
    /// `next`, and is finished by the calls that follow.
    async fn purge(&self, purge: &Purge) -> Result<Purged>;
    /// One bounded step of what follows a purge: makes room for history to come, and frees the space of what was purged
    /// and began before `ended_before`, where rows are not deleted one by one. Answers whether there is more to do.
    async fn retire(&self, ended_before: Time) -> Result<bool>;

    /// Deletes at most `limit` rows of a tenant that is `deleted` and whose `purge_at` is not after `now`, its own row last.
    async fn purge_tenant(&self, now: Time, limit: usize) -> Result<Option<TenantPurged>>;
    /// How many instances of the tenant have not ended; counts up to `max`.
    async fn open_instances(&self, tenant: &TenantId, max: u64) -> Result<u64>;

    /// Tenants whose clock is ahead of the real one, and by how much.
    async fn clocks(&self) -> Result<Vec<(TenantId, Span)>>;
    /// Counts for one tenant, or over all.
    async fn counts(&self, tenant: Option<&TenantId>) -> Result<Counts>;
}
