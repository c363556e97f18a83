//! The port over whatever hosts a [`Core`]: each method says which work to do, the host says on which thread.

use super::{apply::Batch, core::Core, read::Read};
use crate::{commit::*, datasets::*, feed::*, port::*, records::Records, rows::*, views::*};
use async_trait::async_trait;
use machine::{TenantId, Time, time::Span};
use std::future::Future;
use uuid::Uuid;

/// Where the work of a store is done.
pub trait Host: Send + Sync + 'static {
    /// Makes a batch durable; a host may fold batches that wait together into one transaction.
    fn apply(&self, batch: Batch) -> impl Future<Output = Result<Vec<Outcome>>> + Send;

    /// Does something else that writes, in order with the batches.
    fn write<T, F>(&self, work: F) -> impl Future<Output = Result<T>> + Send
    where
        T: Send + 'static,
        F: FnOnce(&mut Core) -> Result<T> + Send + 'static;

    /// Reads; sees every commit answered before.
    fn read<T, F>(&self, work: F) -> impl Future<Output = Result<T>> + Send
    where
        T: Send + 'static,
        F: FnOnce(Read<'_>) -> Result<T> + Send + 'static;
}

#[async_trait]
impl<H: Host> Store for H {
    fn records(&self) -> &dyn Records {
        self
    }

    async fn commit(&self, node: Uuid, batch: Vec<Commit>) -> Result<Vec<Outcome>> {
        self.apply(Batch { node, commits: batch }).await
    }

    fn audit(&self) -> &dyn crate::Audit {
        self
    }

    async fn hold(&self, lock: HostLock, node: Uuid, now: Time, lease_ms: i64) -> Result<bool> {
        self.write(move |core| core.hold(lock, node, now, lease_ms)).await
    }

    async fn deployment_key(&self, name: &str, fresh: [u8; 32]) -> Result<[u8; 32]> {
        let name = name.to_owned();
        self.write(move |core| core.deployment_key(&name, fresh)).await
    }

    async fn join(&self, node: Uuid, now: Time, lease_ms: i64) -> Result<()> {
        self.write(move |core| core.join(node, now, lease_ms)).await
    }

    async fn renew(&self, node: Uuid, now: Time, lease_ms: i64) -> Result<Renewed> {
        self.write(move |core| core.renew(node, now, lease_ms)).await
    }

    async fn take_over(&self, node: Uuid, now: Time) -> Result<u64> {
        self.write(move |core| core.take_over(node, now)).await
    }

    async fn leave(&self, node: Uuid) -> Result<()> {
        self.write(move |core| core.leave(node)).await
    }

    async fn claim_signals(&self, node: Uuid, now: Time, limit: usize) -> Result<Vec<Claimed<SignalRow>>> {
        self.write(move |core| core.claim_signals(node, now, limit)).await
    }

    async fn claim_calls(
        &self,
        node: Uuid,
        now: Time,
        limit: usize,
        full: &[TenantId],
    ) -> Result<Vec<Claimed<CallRow>>> {
        let full = full.to_vec();
        self.write(move |core| core.claim_calls(node, now, limit, &full)).await
    }

    async fn claim_deliveries(&self, ask: &DeliveryAsk) -> Result<Vec<Claimed<DeliveryRow>>> {
        let ask = ask.clone();
        self.write(move |core| core.claim_deliveries(&ask)).await
    }

    async fn next_delivery(&self, workers: &[String]) -> Result<Option<Time>> {
        let workers = workers.to_vec();
        self.read(move |read| read.next_delivery(&workers)).await
    }

    async fn lend(&self, tenant: &TenantId, loan: &Loan) -> Result<Vec<DeliveryRow>> {
        let (tenant, loan) = (tenant.clone(), loan.clone());
        self.write(move |core| core.lend(&tenant, &loan)).await
    }

    async fn queues(&self, tenant: Option<&TenantId>) -> Result<Vec<QueueRow>> {
        let tenant = tenant.cloned();
        self.write(move |core| core.queues(tenant.as_ref())).await
    }

    async fn unclaimed(&self, tenant: &TenantId, worker: &str, now: Time) -> Result<Unclaimed> {
        let (tenant, worker) = (tenant.clone(), worker.to_owned());
        self.read(move |read| read.unclaimed(&tenant, &worker, now)).await
    }

    async fn loans(&self, tenant: &TenantId, worker: &str, now: Time) -> Result<Loans> {
        let (tenant, worker) = (tenant.clone(), worker.to_owned());
        self.read(move |read| read.loans(&tenant, &worker, now)).await
    }

    async fn oldest(&self, workers: &[String]) -> Result<Vec<(String, Time)>> {
        let workers = workers.to_vec();
        self.read(move |read| read.oldest(workers)).await
    }

    async fn depths(&self, workers: &[String]) -> Result<Vec<Depth>> {
        let workers = workers.to_vec();
        self.read(move |read| read.depths(&workers)).await
    }

    async fn delivery(&self, tenant: &TenantId, id: Uuid) -> Result<Option<DeliveryRow>> {
        let tenant = tenant.clone();
        self.read(move |read| read.delivery(&tenant, id)).await
    }

    async fn deliveries(
        &self,
        tenant: &TenantId,
        filter: &DeliveryFilter,
        after: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<DeliveryRow>> {
        let (tenant, filter) = (tenant.clone(), filter.clone());
        self.read(move |read| read.deliveries(&tenant, &filter, after, limit)).await
    }

    async fn watermarks(&self, tenant: &TenantId, worker: &str) -> Result<Vec<WatermarkRow>> {
        let (tenant, worker) = (tenant.clone(), worker.to_owned());
        self.read(move |read| read.watermarks(&tenant, &worker)).await
    }

    async fn taken(&self, tenant: &TenantId, scope: &str, keys: &[String]) -> Result<Vec<String>> {
        let (tenant, scope, keys) = (tenant.clone(), scope.to_owned(), keys.to_vec());
        self.read(move |read| read.taken(&tenant, &scope, keys)).await
    }

    async fn workers(&self) -> Result<Vec<Claimed<WorkerRow>>> {
        self.read(|read| read.workers()).await
    }

    async fn event_types(&self) -> Result<Vec<Claimed<EventTypeRow>>> {
        self.read(|read| read.event_types()).await
    }

    async fn events_of(&self, tenant: &TenantId, ids: &[Uuid]) -> Result<Vec<EventRow>> {
        let (tenant, ids) = (tenant.clone(), ids.to_vec());
        self.read(move |read| read.events_of(&tenant, &ids)).await
    }

    async fn claim_timers(&self, node: Uuid, now: Time, limit: usize) -> Result<Vec<Claimed<TimerRow>>> {
        self.write(move |core| core.claim_timers(node, now, limit)).await
    }

    async fn next_due(&self) -> Result<Option<Time>> {
        self.read(|read| read.next_due()).await
    }

    async fn owned(&self, node: Uuid, limit: usize) -> Result<Vec<Claimed<QueueKey>>> {
        self.read(move |read| read.owned(node, limit)).await
    }

    async fn load(&self, tenant: &TenantId, instance: Uuid) -> Result<Option<LoadedState>> {
        let tenant = tenant.clone();
        self.read(move |read| read.load(&tenant, instance)).await
    }

    async fn inbox(&self, tenant: &TenantId, scope: &str, key: &str) -> Result<Option<InboxRow>> {
        let (tenant, scope, key) = (tenant.clone(), scope.to_owned(), key.to_owned());
        self.read(move |read| read.inbox(&tenant, &scope, &key)).await
    }

    async fn definition(
        &self,
        tenant: &TenantId,
        namespace: &str,
        name: &str,
        version: Option<&str>,
    ) -> Result<Option<DefinitionRow>> {
        let (tenant, namespace, name) = (tenant.clone(), namespace.to_owned(), name.to_owned());
        let version = version.map(str::to_owned);
        self.read(move |read| read.definition(&tenant, &namespace, &name, version.as_deref())).await
    }

    async fn instance(&self, tenant: &TenantId, id: Uuid) -> Result<Option<InstanceView>> {
        let tenant = tenant.clone();
        self.read(move |read| read.instance(&tenant, id)).await
    }

    async fn task(&self, tenant: &TenantId, id: Uuid) -> Result<Option<TaskRow>> {
        let tenant = tenant.clone();
        self.read(move |read| read.task(&tenant, id)).await
    }

    async fn dead_letter(&self, tenant: &TenantId, id: Uuid) -> Result<Option<DeadLetterRow>> {
        let tenant = tenant.clone();
        self.read(move |read| read.dead_letter(&tenant, id)).await
    }

    async fn tenant(&self, id: &TenantId) -> Result<Option<TenantRow>> {
        let id = id.clone();
        self.read(move |read| read.tenant(&id)).await
    }

    async fn secret(&self, tenant: &TenantId, name: &str) -> Result<Option<SecretRow>> {
        let (tenant, name) = (tenant.clone(), name.to_owned());
        self.read(move |read| read.secret(&tenant, &name)).await
    }

    async fn key_by_id(&self, key_id: &str) -> Result<Option<(TenantId, KeyRow)>> {
        let key_id = key_id.to_owned();
        self.read(move |read| read.key_by_id(&key_id)).await
    }

    async fn dataset(&self, tenant: &TenantId, id: Uuid) -> Result<Option<DatasetRow>> {
        let tenant = tenant.clone();
        self.read(move |read| read.dataset(&tenant, id)).await
    }

    async fn dataset_items(&self, tenant: &TenantId, id: Uuid, from: u64, to: u64) -> Result<Vec<ItemsRow>> {
        let tenant = tenant.clone();
        self.read(move |read| read.dataset_items(&tenant, id, from, to)).await
    }

    async fn children(&self, tenant: &TenantId, parent: Uuid) -> Result<Vec<(String, u64)>> {
        let tenant = tenant.clone();
        self.read(move |read| read.children(&tenant, parent)).await
    }

    async fn instances(
        &self,
        tenant: &TenantId,
        filter: &InstanceFilter,
        page: &Page,
    ) -> Result<Vec<InstanceView>> {
        let (tenant, filter, page) = (tenant.clone(), filter.clone(), page.clone());
        self.read(move |read| read.instances(&tenant, &filter, &page)).await
    }

    async fn instance_by_key(&self, tenant: &TenantId, business_key: &str) -> Result<Option<InstanceView>> {
        let (tenant, business_key) = (tenant.clone(), business_key.to_owned());
        self.read(move |read| read.instance_by_key(&tenant, &business_key)).await
    }

    async fn history(
        &self,
        tenant: &TenantId,
        instance: Uuid,
        after: i64,
        limit: usize,
    ) -> Result<Vec<HistoryRow>> {
        let tenant = tenant.clone();
        self.read(move |read| read.history(&tenant, instance, after, limit)).await
    }

    async fn definitions(
        &self,
        tenant: &TenantId,
        filter: &DefinitionFilter,
    ) -> Result<Vec<DefinitionSummary>> {
        let (tenant, filter) = (tenant.clone(), filter.clone());
        self.read(move |read| read.definitions(&tenant, &filter)).await
    }

    async fn versions(
        &self,
        tenant: &TenantId,
        namespace: &str,
        name: &str,
    ) -> Result<Vec<DefinitionSummary>> {
        let (tenant, namespace, name) = (tenant.clone(), namespace.to_owned(), name.to_owned());
        self.read(move |read| read.versions(&tenant, &namespace, &name)).await
    }

    async fn tasks(&self, tenant: &TenantId, filter: &TaskFilter, page: &Page) -> Result<Vec<TaskRow>> {
        let (tenant, filter, page) = (tenant.clone(), filter.clone(), page.clone());
        self.read(move |read| read.tasks(&tenant, &filter, &page)).await
    }

    async fn calls(&self, tenant: &TenantId, instance: Uuid, limit: usize) -> Result<Vec<CallRow>> {
        let tenant = tenant.clone();
        self.read(move |read| read.calls(&tenant, instance, limit)).await
    }
    async fn task_events(&self, tenant: &TenantId, task: Uuid) -> Result<Vec<TaskEventRow>> {
        let tenant = tenant.clone();
        self.read(move |read| read.task_events(&tenant, task)).await
    }

    async fn dead_letters(
        &self,
        tenant: &TenantId,
        filter: &DeadLetterFilter,
        page: &Page,
    ) -> Result<Vec<DeadLetterRow>> {
        let (tenant, filter, page) = (tenant.clone(), filter.clone(), page.clone());
        self.read(move |read| read.dead_letters(&tenant, &filter, &page)).await
    }

    async fn dead_letter_groups(
        &self,
        tenant: &TenantId,
        after: Option<(Time, Option<Uuid>)>,
        limit: usize,
    ) -> Result<Vec<LetterGroup>> {
        let tenant = tenant.clone();
        self.read(move |read| read.dead_letter_groups(&tenant, after, limit)).await
    }

    async fn error_groups(&self, tenant: &TenantId, filter: &ErrorFilter) -> Result<Vec<ErrorGroupRow>> {
        let (tenant, filter) = (tenant.clone(), filter.clone());
        self.read(move |read| read.error_groups(&tenant, &filter)).await
    }

    async fn error_group(&self, tenant: &TenantId, id: Uuid) -> Result<Option<ErrorGroupRow>> {
        let tenant = tenant.clone();
        self.read(move |read| read.error_group(&tenant, id)).await
    }

    async fn tenants(&self) -> Result<Vec<TenantRow>> {
        self.read(|read| read.tenants()).await
    }

    async fn secrets(&self, tenant: &TenantId) -> Result<Vec<SecretRow>> {
        let tenant = tenant.clone();
        self.read(move |read| read.secrets(&tenant)).await
    }

    async fn keys(&self, tenant: &TenantId) -> Result<Vec<KeyRow>> {
        let tenant = tenant.clone();
        self.read(move |read| read.keys(&tenant)).await
    }

    async fn outbox(&self, ask: &OutboxAsk) -> Result<Vec<Claimed<OutboxRow>>> {
        let ask = ask.clone();
        self.read(move |read| read.outbox(&ask)).await
    }

    async fn batch(&self, tenant: &TenantId, id: Uuid) -> Result<Option<BatchRow>> {
        let tenant = tenant.clone();
        self.read(move |read| read.batch(&tenant, id)).await
    }

    async fn batches(&self, tenant: &TenantId, filter: &BatchFilter, page: &Page) -> Result<Vec<BatchRow>> {
        let (tenant, filter, page) = (tenant.clone(), filter.clone(), page.clone());
        self.read(move |read| read.batches(&tenant, &filter, &page)).await
    }

    async fn batch_items(&self, tenant: &TenantId, ask: &ItemAsk) -> Result<Vec<BatchItemRow>> {
        let (tenant, ask) = (tenant.clone(), ask.clone());
        self.read(move |read| read.batch_items(&tenant, &ask)).await
    }

    async fn due_batches(&self, now: Time, limit: usize) -> Result<Vec<Claimed<BatchRow>>> {
        self.read(move |read| read.due_batches(now, limit)).await
    }

    async fn next_batch_due(&self) -> Result<Option<Time>> {
        self.read(|read| read.next_batch_due()).await
    }

    async fn due_schedules(&self, now: Time, limit: usize) -> Result<Vec<Claimed<ScheduleRow>>> {
        self.read(move |read| read.due_schedules(now, limit)).await
    }

    async fn next_slot_due(&self) -> Result<Option<Time>> {
        self.read(|read| read.next_slot_due()).await
    }

    async fn schedule(&self, tenant: &TenantId, id: Uuid) -> Result<Option<ScheduleRow>> {
        let tenant = tenant.clone();
        self.read(move |read| read.schedule(&tenant, id)).await
    }

    async fn collection(&self, tenant: &TenantId, schedule: Uuid) -> Result<CollectionRow> {
        let tenant = tenant.clone();
        self.read(move |read| read.collection(&tenant, schedule)).await
    }

    async fn schedules(&self, tenant: &TenantId, filter: &ScheduleFilter) -> Result<Vec<ScheduleRow>> {
        let (tenant, filter) = (tenant.clone(), filter.clone());
        self.read(move |read| read.schedules(&tenant, &filter)).await
    }

    async fn slots(
        &self,
        tenant: &TenantId,
        schedule: Uuid,
        before: Option<Time>,
        limit: usize,
    ) -> Result<Vec<SlotRow>> {
        let tenant = tenant.clone();
        self.read(move |read| read.slots(&tenant, schedule, before, limit)).await
    }

    async fn event(&self, tenant: &TenantId, id: Uuid) -> Result<Option<EventRow>> {
        let tenant = tenant.clone();
        self.read(move |read| read.event(&tenant, id)).await
    }

    async fn event_of(&self, tenant: &TenantId, source: &str, event_id: &str) -> Result<Option<EventRow>> {
        let (tenant, source, event_id) = (tenant.clone(), source.to_owned(), event_id.to_owned());
        self.read(move |read| read.event_of(&tenant, &source, &event_id)).await
    }

    async fn events(&self, tenant: &TenantId, filter: &EventFilter, page: &Page) -> Result<Vec<EventRow>> {
        let (tenant, filter, page) = (tenant.clone(), filter.clone(), page.clone());
        self.read(move |read| read.events(&tenant, &filter, &page)).await
    }

    async fn feed(
        &self,
        tenant: &TenantId,
        after: FeedCursor,
        limit: usize,
    ) -> Result<Option<Vec<FeedItem>>> {
        let tenant = tenant.clone();
        self.read(move |read| read.feed(&tenant, after, limit)).await
    }

    async fn horizon(&self) -> Result<Horizon> {
        let nothing = Some(Span(0));
        let snapshot = Held { transactions: 0, held_for: nothing };
        Ok(Horizon { transactions: 0, open_for: nothing, snapshot, is_durable: true, is_synchronous: true })
    }

    async fn schedules_on(&self, tenant: &TenantId, event_type: &str, limit: usize) -> Result<Vec<Uuid>> {
        let (tenant, event_type) = (tenant.clone(), event_type.to_owned());
        self.read(move |read| read.schedules_on(&tenant, &event_type, limit)).await
    }

    async fn keeps_events(&self) -> Result<bool> {
        self.read(|read| read.keeps_events()).await
    }

    async fn purge_events(&self, now: Time, limit: usize) -> Result<u64> {
        self.write(move |core| core.purge_events(now, limit)).await
    }

    /// Purging deletes every row itself.
    async fn retire(&self, _: Time) -> Result<bool> {
        Ok(false)
    }

    async fn purge(&self, purge: &Purge) -> Result<Purged> {
        let purge = *purge;
        self.write(move |core| core.purge(&purge)).await
    }

    async fn place(&self, tenant: &TenantId, row: QueueKey) -> Result<Option<Place>> {
        let tenant = tenant.clone();
        self.read(move |read| read.place(&tenant, row)).await
    }

    async fn purge_tenant(&self, now: Time, limit: usize) -> Result<Option<TenantPurged>> {
        self.write(move |core| core.purge_tenant(now, limit)).await
    }

    async fn open_instances(&self, tenant: &TenantId, max: u64) -> Result<u64> {
        let tenant = tenant.clone();
        self.read(move |read| read.open_instances(&tenant, max)).await
    }

    async fn clocks(&self) -> Result<Vec<(TenantId, Span)>> {
        self.read(|read| read.clocks()).await
    }

    async fn counts(&self, tenant: Option<&TenantId>) -> Result<Counts> {
        let tenant = tenant.cloned();
        self.read(move |read| read.counts(tenant.as_ref())).await
    }
}
