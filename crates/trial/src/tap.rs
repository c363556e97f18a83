//! A store between a node and the real one: it counts, and it fails when told to.

mod ports;

use crate::time::pass;
use async_trait::async_trait;
use machine::{TenantId, Time, time::Span};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, mpsc},
    time::Duration,
};
use store::{
    Commit, Error, HostLock, Outcome, Outlook, Renewed, Result, Store, datasets::*, feed::*, rows::*,
    views::*,
};
use tokio::sync::Barrier;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// What happens to a batch on its way into the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Pass,
    Unavailable,
    Full,
    /// The outcome is not known; nothing landed.
    Lost,
    /// The outcome is not known; all of it landed.
    Landed,
    /// The node dies; nothing landed.
    CrashBefore,
    /// The node dies; all of it landed.
    CrashAfter,
}

type Hook = Box<dyn FnMut(&mut Vec<Commit>) -> Act + Send>;

pub struct Tap {
    pub inner: Arc<dyn Store>,
    pub crash: CancellationToken,
    counts: Mutex<BTreeMap<&'static str, u64>>,
    /// Methods that answer `Unavailable`; `*` is all of them.
    down: Mutex<BTreeSet<&'static str>>,
    /// Methods that never answer.
    stalled: Mutex<BTreeSet<&'static str>>,
    /// Methods that answer late, and how late.
    late: Mutex<BTreeMap<&'static str, Duration>>,
    hook: Mutex<Option<Hook>>,
    /// Paused time stands still while a call is under way.
    holds_time: bool,
    handed_out: Mutex<Option<(Claimed<SignalRow>, Arc<Barrier>)>>,
}

impl Tap {
    pub fn new(inner: Arc<dyn Store>, crash: CancellationToken) -> Tap {
        Tap {
            inner,
            crash,
            counts: Mutex::default(),
            down: Mutex::default(),
            stalled: Mutex::default(),
            late: Mutex::default(),
            hook: Mutex::default(),
            holds_time: false,
            handed_out: Mutex::default(),
        }
    }

    /// Over a store that is asked over a connection: for tests with paused time it answers in no time, as one in memory
    /// does.
    pub fn timeless(inner: Arc<dyn Store>) -> Tap {
        Tap { holds_time: true, ..Tap::new(inner, CancellationToken::new()) }
    }

    /// From now on every batch passes `hook`.
    pub fn on_commit(&self, hook: impl FnMut(&mut Vec<Commit>) -> Act + Send + 'static) {
        *self.hook.lock() = Some(Box::new(hook));
    }

    /// The next batch that `which` picks meets `act`; others pass.
    pub fn once(&self, which: impl Fn(&Commit) -> bool + Send + 'static, act: Act) {
        let mut left = 1;
        self.on_commit(move |batch| {
            let struck = left > 0 && batch.iter().any(&which);
            left -= u32::from(struck);
            if struck { act } else { Act::Pass }
        });
    }

    /// The next claim of signals answers this row, whoever owns it, once `together` lets it.
    pub fn hand_out(&self, claimed: Claimed<SignalRow>, together: Arc<Barrier>) {
        *self.handed_out.lock() = Some((claimed, together));
    }

    pub fn break_down(&self, method: &'static str) {
        self.down.lock().insert(method);
    }

    pub fn stall(&self, method: &'static str) {
        self.stalled.lock().insert(method);
    }

    /// From now on the method answers so much later.
    pub fn delay(&self, method: &'static str, by: Duration) {
        self.late.lock().insert(method, by);
    }

    pub fn repair(&self) {
        self.down.lock().clear();
        self.late.lock().clear();
    }

    /// How often each method was called since the last time it was asked.
    pub fn take_counts(&self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut self.counts.lock())
    }

    async fn enter(&self, method: &'static str) -> Result<Option<Held>> {
        if self.crash.is_cancelled() {
            std::future::pending::<()>().await;
        }
        *self.counts.lock().entry(method).or_default() += 1;
        tokio::task::yield_now().await;
        if self.stalled.lock().contains(method) {
            std::future::pending::<()>().await;
        }
        let late = self.late.lock().get(method).copied();
        if let Some(late) = late {
            pass(late).await;
        }
        let down = self.down.lock();
        match down.contains("*") || down.contains(method) {
            true => Err(Error::Unavailable("broken by the test".to_owned())),
            false => Ok(self.holds_time.then(Held::new)),
        }
    }

    async fn die<T>(&self) -> T {
        self.crash.cancel();
        std::future::pending().await
    }
}

/// Tokio does not let paused time go by while a blocking task runs; this is one that lasts as long as the value.
struct Held(#[expect(dead_code, reason = "its end is what the task waits for")] mpsc::Sender<()>);

impl Held {
    fn new() -> Held {
        let (end, ended) = mpsc::channel();
        tokio::task::spawn_blocking(move || ended.recv().is_err());
        Held(end)
    }
}

macro_rules! pass {
    ($tap:ident.$method:ident($($argument:expr),*)) => {{
        let _held = $tap.enter(stringify!($method)).await?;
        $tap.inner.$method($($argument),*).await
    }};
}

#[async_trait]
impl Store for Tap {
    fn records(&self) -> &dyn store::Records {
        self
    }

    async fn commit(&self, node: Uuid, mut batch: Vec<Commit>) -> Result<Vec<Outcome>> {
        let _held = self.enter("commit").await?;
        let act = self.hook.lock().as_mut().map_or(Act::Pass, |hook| hook(&mut batch));
        let unknown = || Error::Unknown("broken by the test".to_owned());
        match act {
            Act::Pass => self.inner.commit(node, batch).await,
            Act::Unavailable => Err(Error::Unavailable("broken by the test".to_owned())),
            Act::Full => Err(Error::Full("broken by the test".to_owned())),
            Act::Lost => Err(unknown()),
            Act::Landed => self.inner.commit(node, batch).await.and(Err(unknown())),
            Act::CrashBefore => self.die().await,
            Act::CrashAfter => {
                self.inner.commit(node, batch).await?;
                self.die().await
            }
        }
    }

    async fn batch(&self, tenant: &TenantId, id: Uuid) -> Result<Option<BatchRow>> {
        pass!(self.batch(tenant, id))
    }
    async fn batches(&self, tenant: &TenantId, filter: &BatchFilter, page: &Page) -> Result<Vec<BatchRow>> {
        pass!(self.batches(tenant, filter, page))
    }
    async fn batch_items(&self, tenant: &TenantId, ask: &ItemAsk) -> Result<Vec<BatchItemRow>> {
        pass!(self.batch_items(tenant, ask))
    }
    async fn due_batches(&self, now: Time, limit: usize) -> Result<Vec<Claimed<BatchRow>>> {
        pass!(self.due_batches(now, limit))
    }
    async fn next_batch_due(&self) -> Result<Option<Time>> {
        pass!(self.next_batch_due())
    }
    async fn claim_deliveries(&self, ask: &DeliveryAsk) -> Result<Vec<Claimed<DeliveryRow>>> {
        pass!(self.claim_deliveries(ask))
    }
    async fn taken(&self, tenant: &TenantId, scope: &str, keys: &[String]) -> Result<Vec<String>> {
        pass!(self.taken(tenant, scope, keys))
    }
    async fn watermarks(&self, tenant: &TenantId, worker: &str) -> Result<Vec<WatermarkRow>> {
        pass!(self.watermarks(tenant, worker))
    }
    async fn next_delivery(&self, workers: &[String]) -> Result<Option<Time>> {
        pass!(self.next_delivery(workers))
    }
    async fn queues(&self, tenant: Option<&TenantId>) -> Result<Vec<QueueRow>> {
        pass!(self.queues(tenant))
    }
    async fn unclaimed(&self, tenant: &TenantId, worker: &str, now: Time) -> Result<Unclaimed> {
        pass!(self.unclaimed(tenant, worker, now))
    }
    async fn loans(&self, tenant: &TenantId, worker: &str, now: Time) -> Result<Loans> {
        pass!(self.loans(tenant, worker, now))
    }
    async fn oldest(&self, workers: &[String]) -> Result<Vec<(String, Time)>> {
        pass!(self.oldest(workers))
    }
    async fn depths(&self, workers: &[String]) -> Result<Vec<Depth>> {
        pass!(self.depths(workers))
    }
    async fn lend(&self, tenant: &TenantId, loan: &Loan) -> Result<Vec<DeliveryRow>> {
        pass!(self.lend(tenant, loan))
    }
    async fn delivery(&self, tenant: &TenantId, id: Uuid) -> Result<Option<DeliveryRow>> {
        pass!(self.delivery(tenant, id))
    }
    async fn deliveries(
        &self,
        tenant: &TenantId,
        filter: &DeliveryFilter,
        after: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<DeliveryRow>> {
        pass!(self.deliveries(tenant, filter, after, limit))
    }
    async fn workers(&self) -> Result<Vec<Claimed<WorkerRow>>> {
        pass!(self.workers())
    }
    async fn event_types(&self) -> Result<Vec<Claimed<EventTypeRow>>> {
        pass!(self.event_types())
    }
    async fn events_of(&self, tenant: &TenantId, ids: &[Uuid]) -> Result<Vec<EventRow>> {
        pass!(self.events_of(tenant, ids))
    }
    async fn deployment_key(&self, name: &str, fresh: [u8; 32]) -> Result<[u8; 32]> {
        pass!(self.deployment_key(name, fresh))
    }
    async fn join(&self, node: Uuid, now: Time, lease_ms: i64) -> Result<()> {
        pass!(self.join(node, now, lease_ms))
    }
    async fn renew(&self, node: Uuid, now: Time, lease_ms: i64) -> Result<Renewed> {
        pass!(self.renew(node, now, lease_ms))
    }
    async fn take_over(&self, node: Uuid, now: Time) -> Result<u64> {
        pass!(self.take_over(node, now))
    }
    async fn leave(&self, node: Uuid) -> Result<()> {
        pass!(self.leave(node))
    }
    async fn claim_signals(&self, node: Uuid, now: Time, limit: usize) -> Result<Vec<Claimed<SignalRow>>> {
        let _held = self.enter("claim_signals").await?;
        let handed_out = self.handed_out.lock().take();
        if let Some((claimed, together)) = handed_out {
            together.wait().await;
            return Ok(vec![claimed]);
        }
        self.inner.claim_signals(node, now, limit).await
    }
    async fn claim_calls(
        &self,
        node: Uuid,
        now: Time,
        limit: usize,
        full: &[TenantId],
    ) -> Result<Vec<Claimed<CallRow>>> {
        pass!(self.claim_calls(node, now, limit, full))
    }
    async fn claim_timers(&self, node: Uuid, now: Time, limit: usize) -> Result<Vec<Claimed<TimerRow>>> {
        pass!(self.claim_timers(node, now, limit))
    }
    async fn outlook(&self, node: Uuid, now: Time, workers: &[String]) -> Result<Outlook> {
        pass!(self.outlook(node, now, workers))
    }
    async fn next_due(&self) -> Result<Option<Time>> {
        pass!(self.next_due())
    }
    async fn owned(&self, node: Uuid, limit: usize) -> Result<Vec<Claimed<QueueKey>>> {
        pass!(self.owned(node, limit))
    }
    async fn load(&self, tenant: &TenantId, instance: Uuid) -> Result<Option<LoadedState>> {
        pass!(self.load(tenant, instance))
    }
    async fn inbox(&self, tenant: &TenantId, scope: &str, key: &str) -> Result<Option<InboxRow>> {
        pass!(self.inbox(tenant, scope, key))
    }
    async fn definition(
        &self,
        tenant: &TenantId,
        namespace: &str,
        name: &str,
        version: Option<&str>,
    ) -> Result<Option<DefinitionRow>> {
        pass!(self.definition(tenant, namespace, name, version))
    }
    async fn instance(&self, tenant: &TenantId, id: Uuid) -> Result<Option<InstanceView>> {
        pass!(self.instance(tenant, id))
    }
    async fn task(&self, tenant: &TenantId, id: Uuid) -> Result<Option<TaskRow>> {
        pass!(self.task(tenant, id))
    }
    async fn dead_letter(&self, tenant: &TenantId, id: Uuid) -> Result<Option<DeadLetterRow>> {
        pass!(self.dead_letter(tenant, id))
    }
    async fn tenant(&self, id: &TenantId) -> Result<Option<TenantRow>> {
        pass!(self.tenant(id))
    }
    async fn key_by_id(&self, key_id: &str) -> Result<Option<(TenantId, KeyRow)>> {
        pass!(self.key_by_id(key_id))
    }
    async fn dataset(&self, tenant: &TenantId, id: Uuid) -> Result<Option<DatasetRow>> {
        pass!(self.dataset(tenant, id))
    }
    async fn dataset_items(&self, tenant: &TenantId, id: Uuid, from: u64, to: u64) -> Result<Vec<ItemsRow>> {
        pass!(self.dataset_items(tenant, id, from, to))
    }
    async fn children(&self, tenant: &TenantId, parent: Uuid) -> Result<Vec<(String, u64)>> {
        pass!(self.children(tenant, parent))
    }
    async fn instances(
        &self,
        tenant: &TenantId,
        filter: &InstanceFilter,
        page: &Page,
    ) -> Result<Vec<InstanceView>> {
        pass!(self.instances(tenant, filter, page))
    }
    async fn instance_by_key(&self, tenant: &TenantId, business_key: &str) -> Result<Option<InstanceView>> {
        pass!(self.instance_by_key(tenant, business_key))
    }
    async fn history(
        &self,
        tenant: &TenantId,
        instance: Uuid,
        after: i64,
        limit: usize,
    ) -> Result<Vec<HistoryRow>> {
        pass!(self.history(tenant, instance, after, limit))
    }
    async fn definitions(
        &self,
        tenant: &TenantId,
        filter: &DefinitionFilter,
    ) -> Result<Vec<DefinitionSummary>> {
        pass!(self.definitions(tenant, filter))
    }
    async fn versions(
        &self,
        tenant: &TenantId,
        namespace: &str,
        name: &str,
    ) -> Result<Vec<DefinitionSummary>> {
        pass!(self.versions(tenant, namespace, name))
    }
    async fn tasks(&self, tenant: &TenantId, filter: &TaskFilter, page: &Page) -> Result<Vec<TaskRow>> {
        pass!(self.tasks(tenant, filter, page))
    }
    async fn calls(&self, tenant: &TenantId, instance: Uuid, limit: usize) -> Result<Vec<CallRow>> {
        pass!(self.calls(tenant, instance, limit))
    }
    async fn task_events(&self, tenant: &TenantId, task: Uuid) -> Result<Vec<TaskEventRow>> {
        pass!(self.task_events(tenant, task))
    }
    async fn dead_letters(
        &self,
        tenant: &TenantId,
        filter: &DeadLetterFilter,
        page: &Page,
    ) -> Result<Vec<DeadLetterRow>> {
        pass!(self.dead_letters(tenant, filter, page))
    }
    async fn dead_letter_groups(
        &self,
        tenant: &TenantId,
        after: Option<(Time, Option<Uuid>)>,
        limit: usize,
    ) -> Result<Vec<LetterGroup>> {
        pass!(self.dead_letter_groups(tenant, after, limit))
    }
    async fn error_groups(&self, tenant: &TenantId, filter: &ErrorFilter) -> Result<Vec<ErrorGroupRow>> {
        pass!(self.error_groups(tenant, filter))
    }
    async fn error_group(&self, tenant: &TenantId, id: Uuid) -> Result<Option<ErrorGroupRow>> {
        pass!(self.error_group(tenant, id))
    }
    async fn tenants(&self) -> Result<Vec<TenantRow>> {
        pass!(self.tenants())
    }
    async fn secret(&self, tenant: &TenantId, name: &str) -> Result<Option<SecretRow>> {
        pass!(self.secret(tenant, name))
    }
    async fn secrets(&self, tenant: &TenantId) -> Result<Vec<SecretRow>> {
        pass!(self.secrets(tenant))
    }
    async fn keys(&self, tenant: &TenantId) -> Result<Vec<KeyRow>> {
        pass!(self.keys(tenant))
    }
    async fn outbox(&self, ask: &OutboxAsk) -> Result<Vec<Claimed<OutboxRow>>> {
        pass!(self.outbox(ask))
    }
    async fn due_schedules(&self, now: Time, limit: usize) -> Result<Vec<Claimed<ScheduleRow>>> {
        pass!(self.due_schedules(now, limit))
    }
    async fn next_slot_due(&self) -> Result<Option<Time>> {
        pass!(self.next_slot_due())
    }
    async fn schedule(&self, tenant: &TenantId, id: Uuid) -> Result<Option<ScheduleRow>> {
        pass!(self.schedule(tenant, id))
    }
    async fn collection(&self, tenant: &TenantId, schedule: Uuid) -> Result<CollectionRow> {
        pass!(self.collection(tenant, schedule))
    }
    async fn schedules(&self, tenant: &TenantId, filter: &ScheduleFilter) -> Result<Vec<ScheduleRow>> {
        pass!(self.schedules(tenant, filter))
    }
    async fn slots(
        &self,
        tenant: &TenantId,
        schedule: Uuid,
        before: Option<Time>,
        limit: usize,
    ) -> Result<Vec<SlotRow>> {
        pass!(self.slots(tenant, schedule, before, limit))
    }
    async fn event(&self, tenant: &TenantId, id: Uuid) -> Result<Option<EventRow>> {
        pass!(self.event(tenant, id))
    }
    async fn event_of(&self, tenant: &TenantId, source: &str, event_id: &str) -> Result<Option<EventRow>> {
        pass!(self.event_of(tenant, source, event_id))
    }
    async fn events(&self, tenant: &TenantId, filter: &EventFilter, page: &Page) -> Result<Vec<EventRow>> {
        pass!(self.events(tenant, filter, page))
    }
    async fn schedules_on(&self, tenant: &TenantId, event_type: &str, limit: usize) -> Result<Vec<Uuid>> {
        pass!(self.schedules_on(tenant, event_type, limit))
    }
    async fn keeps_events(&self) -> Result<bool> {
        pass!(self.keeps_events())
    }
    async fn feed(
        &self,
        tenant: &TenantId,
        after: FeedCursor,
        limit: usize,
    ) -> Result<Option<Vec<FeedItem>>> {
        pass!(self.feed(tenant, after, limit))
    }
    async fn horizon(&self) -> Result<Horizon> {
        pass!(self.horizon())
    }
    async fn retire(&self, ended_before: Time) -> Result<bool> {
        pass!(self.retire(ended_before))
    }
    fn audit(&self) -> &dyn store::Audit {
        self
    }

    async fn hold(&self, lock: HostLock, node: Uuid, now: Time, lease_ms: i64) -> Result<bool> {
        pass!(self.hold(lock, node, now, lease_ms))
    }
    async fn purge_events(&self, now: Time, limit: usize) -> Result<u64> {
        pass!(self.purge_events(now, limit))
    }
    async fn purge(&self, purge: &Purge) -> Result<Purged> {
        pass!(self.purge(purge))
    }
    async fn place(&self, tenant: &TenantId, row: QueueKey) -> Result<Option<Place>> {
        pass!(self.place(tenant, row))
    }
    async fn purge_tenant(&self, now: Time, limit: usize) -> Result<Option<TenantPurged>> {
        pass!(self.purge_tenant(now, limit))
    }
    async fn open_instances(&self, tenant: &TenantId, max: u64) -> Result<u64> {
        pass!(self.open_instances(tenant, max))
    }
    async fn clocks(&self) -> Result<Vec<(TenantId, Span)>> {
        pass!(self.clocks())
    }
    async fn counts(&self, tenant: Option<&TenantId>) -> Result<Counts> {
        pass!(self.counts(tenant))
    }
}
