//! A store that fails on purpose, and lies when a mutant is on. One per node, over one shared real store.

use super::{
    chaos::{Chaos, Mutant},
    leases::Leases,
    seen::Seen,
};
use async_trait::async_trait;
use machine::{TenantId, Time, time::Span};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use store::{
    Commit, Error, HostLock, Outcome, Renewed, Result, Store, datasets::*, feed::*, rows::*, sqlite::Inline,
    views::*,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Timers that some slow node delivers again, long after they were dealt with.
pub(crate) type LateTimers = Arc<Mutex<Vec<(Time, Claimed<TimerRow>)>>>;

pub(crate) struct Faulty {
    pub(crate) inner: Arc<Inline>,
    pub(crate) chaos: Arc<Chaos>,
    pub(crate) seen: Arc<Mutex<Seen>>,
    pub(crate) crash: CancellationToken,
    pub(crate) name: usize,
    pub(crate) late: LateTimers,
    pub(crate) leases: Arc<Mutex<Leases>>,
    pub(crate) stalled_until: Mutex<Instant>,
    /// How long a node may stall: some times longer than its lease.
    pub(crate) stall_max: Duration,
}

#[async_trait]
impl Store for Faulty {
    fn records(&self) -> &dyn store::Records {
        self.inner.records()
    }

    async fn commit(&self, node: Uuid, batch: Vec<Commit>) -> Result<Vec<Outcome>> {
        self.reach().await;
        self.before().await?;
        if self.chaos.is(Mutant::AckFirst) {
            return Ok(self.acknowledge_first(node, batch));
        }
        let mut answers = Vec::with_capacity(batch.len());
        let mut rest = Vec::with_capacity(batch.len());
        let mut afterwards = Vec::new();
        for mut commit in batch {
            let answer = match self.refuses(&commit) {
                None => self.mutate(node, &mut commit, &mut afterwards).await?,
                refused => refused,
            };
            if answer.is_none() {
                rest.push(commit);
            }
            answers.push(answer);
        }
        let mut landed = self.land(node, rest).await?.into_iter();
        let outcomes: Vec<Outcome> =
            answers.into_iter().filter_map(|answer| answer.or_else(|| landed.next())).collect();
        self.chaos.note(format_args!("node {} commits {outcomes:?}", self.name));
        if self.chaos.strikes(self.chaos.levels.crash_after) {
            self.crash("after a commit").await;
        }
        if !afterwards.is_empty() {
            self.land(node, afterwards).await?;
        }
        match self.chaos.strikes(self.chaos.levels.unknown_landed) {
            true => Err(Error::Unknown("simulated, landed".into())),
            false => Ok(outcomes),
        }
    }

    async fn deployment_key(&self, name: &str, fresh: [u8; 32]) -> Result<[u8; 32]> {
        self.read().await?;
        self.inner.deployment_key(name, fresh).await
    }
    async fn join(&self, node: Uuid, now: Time, lease_ms: i64) -> Result<()> {
        self.read().await?;
        self.watched_join(node, now, lease_ms).await
    }
    async fn renew(&self, node: Uuid, now: Time, lease_ms: i64) -> Result<Renewed> {
        self.read().await?;
        self.watched_renew(node, now, lease_ms).await
    }
    async fn take_over(&self, node: Uuid, now: Time) -> Result<u64> {
        self.read().await?;
        self.watched_take_over(node, now).await
    }
    async fn leave(&self, node: Uuid) -> Result<()> {
        self.read().await?;
        self.watched_leave(node).await
    }

    async fn claim_signals(&self, node: Uuid, now: Time, limit: usize) -> Result<Vec<Claimed<SignalRow>>> {
        self.read().await?;
        let claimed = self.inner.claim_signals(node, now, limit).await;
        self.claimed(self.watched_claim(node, claimed, SignalRow::key)?)
    }
    async fn claim_deliveries(&self, ask: &DeliveryAsk) -> Result<Vec<Claimed<DeliveryRow>>> {
        self.read().await?;
        let claimed = self.inner.claim_deliveries(ask).await;
        self.claimed(self.watched_claim(ask.node, claimed, DeliveryRow::key)?)
    }
    async fn taken(&self, tenant: &TenantId, scope: &str, keys: &[String]) -> Result<Vec<String>> {
        self.read().await?;
        self.inner.taken(tenant, scope, keys).await
    }
    async fn watermarks(&self, tenant: &TenantId, worker: &str) -> Result<Vec<WatermarkRow>> {
        self.read().await?;
        self.inner.watermarks(tenant, worker).await
    }
    async fn next_delivery(&self, workers: &[String]) -> Result<Option<Time>> {
        self.read().await?;
        self.inner.next_delivery(workers).await
    }
    async fn queues(&self, tenant: Option<&TenantId>) -> Result<Vec<QueueRow>> {
        self.read().await?;
        self.inner.queues(tenant).await
    }
    async fn unclaimed(&self, tenant: &TenantId, worker: &str, now: Time) -> Result<Unclaimed> {
        self.read().await?;
        self.inner.unclaimed(tenant, worker, now).await
    }
    async fn loans(&self, tenant: &TenantId, worker: &str, now: Time) -> Result<Loans> {
        self.read().await?;
        self.inner.loans(tenant, worker, now).await
    }
    async fn oldest(&self, workers: &[String]) -> Result<Vec<(String, Time)>> {
        self.read().await?;
        self.inner.oldest(workers).await
    }
    async fn depths(&self, workers: &[String]) -> Result<Vec<Depth>> {
        self.read().await?;
        self.inner.depths(workers).await
    }
    async fn lend(&self, tenant: &TenantId, loan: &Loan) -> Result<Vec<DeliveryRow>> {
        self.read().await?;
        self.inner.lend(tenant, loan).await
    }
    async fn delivery(&self, tenant: &TenantId, id: Uuid) -> Result<Option<DeliveryRow>> {
        self.read().await?;
        self.inner.delivery(tenant, id).await
    }
    async fn deliveries(
        &self,
        tenant: &TenantId,
        filter: &DeliveryFilter,
        after: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<DeliveryRow>> {
        self.read().await?;
        self.inner.deliveries(tenant, filter, after, limit).await
    }
    async fn workers(&self) -> Result<Vec<Claimed<WorkerRow>>> {
        self.read().await?;
        self.inner.workers().await
    }
    async fn event_types(&self) -> Result<Vec<Claimed<EventTypeRow>>> {
        self.read().await?;
        self.inner.event_types().await
    }
    async fn events_of(&self, tenant: &TenantId, ids: &[Uuid]) -> Result<Vec<EventRow>> {
        self.read().await?;
        self.inner.events_of(tenant, ids).await
    }
    async fn claim_calls(
        &self,
        node: Uuid,
        now: Time,
        limit: usize,
        full: &[TenantId],
    ) -> Result<Vec<Claimed<CallRow>>> {
        self.read().await?;
        let claimed = self.inner.claim_calls(node, now, limit, full).await;
        let mut calls = self.claimed(self.watched_claim(node, claimed, CallRow::key)?)?;
        self.rename(&mut calls);
        Ok(calls)
    }
    async fn claim_timers(&self, node: Uuid, now: Time, limit: usize) -> Result<Vec<Claimed<TimerRow>>> {
        self.read().await?;
        let claimed = self.inner.claim_timers(node, now, limit).await;
        let mut timers = self.claimed(self.watched_claim(node, claimed, TimerRow::key)?)?;
        for timer in &timers {
            if self.chaos.strikes(self.chaos.levels.late_timer) {
                let delay = 200_000 + self.chaos.below(3_000_000) as i64;
                self.late.lock().push((Time(now.0 + delay), timer.clone()));
            }
        }
        let mut late = self.take_late(now);
        self.forget_tokens(&mut late).await?;
        timers.extend(late);
        Ok(timers)
    }
    async fn next_due(&self) -> Result<Option<Time>> {
        self.read().await?;
        if self.chaos.is(Mutant::NotifyOnly) {
            return Ok(None);
        }
        let late = self.late.lock().iter().map(|(at, _)| *at).min();
        let stored = self.inner.next_due().await?;
        Ok([late, stored].into_iter().flatten().min())
    }

    async fn owned(&self, node: Uuid, limit: usize) -> Result<Vec<Claimed<QueueKey>>> {
        self.read().await?;
        self.inner.owned(node, limit).await
    }

    async fn load(&self, tenant: &TenantId, instance: Uuid) -> Result<Option<LoadedState>> {
        self.read().await?;
        self.inner.load(tenant, instance).await
    }
    async fn inbox(&self, tenant: &TenantId, scope: &str, key: &str) -> Result<Option<InboxRow>> {
        self.read().await?;
        self.inner.inbox(tenant, scope, key).await
    }
    async fn definition(
        &self,
        tenant: &TenantId,
        namespace: &str,
        name: &str,
        version: Option<&str>,
    ) -> Result<Option<DefinitionRow>> {
        self.read().await?;
        self.inner.definition(tenant, namespace, name, version).await
    }
    async fn instance(&self, tenant: &TenantId, id: Uuid) -> Result<Option<InstanceView>> {
        self.read().await?;
        self.inner.instance(tenant, id).await
    }
    async fn task(&self, tenant: &TenantId, id: Uuid) -> Result<Option<TaskRow>> {
        self.read().await?;
        self.inner.task(tenant, id).await
    }
    async fn dead_letter(&self, tenant: &TenantId, id: Uuid) -> Result<Option<DeadLetterRow>> {
        self.read().await?;
        self.inner.dead_letter(tenant, id).await
    }
    async fn tenant(&self, id: &TenantId) -> Result<Option<TenantRow>> {
        self.inner.tenant(id).await
    }
    async fn key_by_id(&self, key_id: &str) -> Result<Option<(TenantId, KeyRow)>> {
        self.inner.key_by_id(key_id).await
    }
    async fn dataset(&self, tenant: &TenantId, id: Uuid) -> Result<Option<DatasetRow>> {
        self.read().await?;
        self.inner.dataset(tenant, id).await
    }
    async fn dataset_items(&self, tenant: &TenantId, id: Uuid, from: u64, to: u64) -> Result<Vec<ItemsRow>> {
        self.read().await?;
        self.inner.dataset_items(tenant, id, from, to).await
    }
    async fn children(&self, tenant: &TenantId, parent: Uuid) -> Result<Vec<(String, u64)>> {
        self.inner.children(tenant, parent).await
    }
    async fn instances(
        &self,
        tenant: &TenantId,
        filter: &InstanceFilter,
        page: &Page,
    ) -> Result<Vec<InstanceView>> {
        self.inner.instances(tenant, filter, page).await
    }
    async fn instance_by_key(&self, tenant: &TenantId, business_key: &str) -> Result<Option<InstanceView>> {
        self.inner.instance_by_key(tenant, business_key).await
    }
    async fn history(
        &self,
        tenant: &TenantId,
        instance: Uuid,
        after: i64,
        limit: usize,
    ) -> Result<Vec<HistoryRow>> {
        self.inner.history(tenant, instance, after, limit).await
    }
    async fn definitions(
        &self,
        tenant: &TenantId,
        filter: &DefinitionFilter,
    ) -> Result<Vec<DefinitionSummary>> {
        self.inner.definitions(tenant, filter).await
    }
    async fn versions(
        &self,
        tenant: &TenantId,
        namespace: &str,
        name: &str,
    ) -> Result<Vec<DefinitionSummary>> {
        self.inner.versions(tenant, namespace, name).await
    }
    async fn tasks(&self, tenant: &TenantId, filter: &TaskFilter, page: &Page) -> Result<Vec<TaskRow>> {
        self.inner.tasks(tenant, filter, page).await
    }
    async fn calls(&self, tenant: &TenantId, instance: Uuid, limit: usize) -> Result<Vec<CallRow>> {
        self.inner.calls(tenant, instance, limit).await
    }
    async fn task_events(&self, tenant: &TenantId, task: Uuid) -> Result<Vec<TaskEventRow>> {
        self.inner.task_events(tenant, task).await
    }
    async fn dead_letters(
        &self,
        tenant: &TenantId,
        filter: &DeadLetterFilter,
        page: &Page,
    ) -> Result<Vec<DeadLetterRow>> {
        self.inner.dead_letters(tenant, filter, page).await
    }
    async fn dead_letter_groups(
        &self,
        tenant: &TenantId,
        after: Option<(Time, Option<Uuid>)>,
        limit: usize,
    ) -> Result<Vec<LetterGroup>> {
        self.inner.dead_letter_groups(tenant, after, limit).await
    }
    async fn error_groups(&self, tenant: &TenantId, filter: &ErrorFilter) -> Result<Vec<ErrorGroupRow>> {
        self.inner.error_groups(tenant, filter).await
    }
    async fn error_group(&self, tenant: &TenantId, id: Uuid) -> Result<Option<ErrorGroupRow>> {
        self.inner.error_group(tenant, id).await
    }
    async fn tenants(&self) -> Result<Vec<TenantRow>> {
        self.inner.tenants().await
    }
    async fn secret(&self, tenant: &TenantId, name: &str) -> Result<Option<SecretRow>> {
        self.inner.secret(tenant, name).await
    }
    async fn secrets(&self, tenant: &TenantId) -> Result<Vec<SecretRow>> {
        self.inner.secrets(tenant).await
    }
    async fn keys(&self, tenant: &TenantId) -> Result<Vec<KeyRow>> {
        self.inner.keys(tenant).await
    }
    async fn outbox(&self, ask: &OutboxAsk) -> Result<Vec<Claimed<OutboxRow>>> {
        self.read().await?;
        self.inner.outbox(ask).await
    }
    async fn batch(&self, tenant: &TenantId, id: Uuid) -> Result<Option<BatchRow>> {
        self.read().await?;
        self.inner.batch(tenant, id).await
    }
    async fn batches(&self, tenant: &TenantId, filter: &BatchFilter, page: &Page) -> Result<Vec<BatchRow>> {
        self.inner.batches(tenant, filter, page).await
    }
    async fn batch_items(&self, tenant: &TenantId, ask: &ItemAsk) -> Result<Vec<BatchItemRow>> {
        self.read().await?;
        self.inner.batch_items(tenant, ask).await
    }
    async fn due_batches(&self, now: Time, limit: usize) -> Result<Vec<Claimed<BatchRow>>> {
        self.read().await?;
        self.inner.due_batches(now, limit).await
    }
    async fn next_batch_due(&self) -> Result<Option<Time>> {
        self.read().await?;
        self.inner.next_batch_due().await
    }
    async fn due_schedules(&self, now: Time, limit: usize) -> Result<Vec<Claimed<ScheduleRow>>> {
        self.read().await?;
        self.inner.due_schedules(now, limit).await
    }
    async fn next_slot_due(&self) -> Result<Option<Time>> {
        self.read().await?;
        self.inner.next_slot_due().await
    }
    async fn schedule(&self, tenant: &TenantId, id: Uuid) -> Result<Option<ScheduleRow>> {
        self.read().await?;
        self.inner.schedule(tenant, id).await
    }
    async fn collection(&self, tenant: &TenantId, schedule: Uuid) -> Result<CollectionRow> {
        self.read().await?;
        self.inner.collection(tenant, schedule).await
    }
    async fn schedules(&self, tenant: &TenantId, filter: &ScheduleFilter) -> Result<Vec<ScheduleRow>> {
        self.read().await?;
        self.inner.schedules(tenant, filter).await
    }
    async fn slots(
        &self,
        tenant: &TenantId,
        schedule: Uuid,
        before: Option<Time>,
        limit: usize,
    ) -> Result<Vec<SlotRow>> {
        self.read().await?;
        self.inner.slots(tenant, schedule, before, limit).await
    }
    async fn event(&self, tenant: &TenantId, id: Uuid) -> Result<Option<EventRow>> {
        self.read().await?;
        self.inner.event(tenant, id).await
    }
    async fn event_of(&self, tenant: &TenantId, source: &str, event_id: &str) -> Result<Option<EventRow>> {
        self.read().await?;
        self.inner.event_of(tenant, source, event_id).await
    }
    async fn events(&self, tenant: &TenantId, filter: &EventFilter, page: &Page) -> Result<Vec<EventRow>> {
        self.read().await?;
        self.inner.events(tenant, filter, page).await
    }
    async fn schedules_on(&self, tenant: &TenantId, event_type: &str, limit: usize) -> Result<Vec<Uuid>> {
        self.read().await?;
        self.inner.schedules_on(tenant, event_type, limit).await
    }
    async fn keeps_events(&self) -> Result<bool> {
        self.read().await?;
        self.inner.keeps_events().await
    }
    async fn feed(
        &self,
        tenant: &TenantId,
        after: FeedCursor,
        limit: usize,
    ) -> Result<Option<Vec<FeedItem>>> {
        self.read().await?;
        self.inner.feed(tenant, after, limit).await
    }
    async fn horizon(&self) -> Result<Horizon> {
        self.read().await?;
        self.inner.horizon().await
    }
    async fn retire(&self, ended_before: Time) -> Result<bool> {
        self.read().await?;
        self.inner.retire(ended_before).await
    }
    fn audit(&self) -> &dyn store::Audit {
        self.inner.audit()
    }

    async fn hold(&self, lock: HostLock, node: Uuid, now: Time, lease_ms: i64) -> Result<bool> {
        self.read().await?;
        self.inner.hold(lock, node, now, lease_ms).await
    }
    async fn purge_events(&self, now: Time, limit: usize) -> Result<u64> {
        self.read().await?;
        self.inner.purge_events(now, limit).await
    }
    async fn purge(&self, purge: &Purge) -> Result<Purged> {
        self.read().await?;
        self.inner.purge(&self.more(purge)).await
    }
    async fn place(&self, tenant: &TenantId, row: QueueKey) -> Result<Option<Place>> {
        self.read().await?;
        self.inner.place(tenant, row).await
    }
    async fn purge_tenant(&self, now: Time, limit: usize) -> Result<Option<TenantPurged>> {
        self.read().await?;
        self.inner.purge_tenant(now, limit).await
    }
    async fn open_instances(&self, tenant: &TenantId, max: u64) -> Result<u64> {
        self.read().await?;
        self.inner.open_instances(tenant, max).await
    }
    async fn clocks(&self) -> Result<Vec<(TenantId, Span)>> {
        self.read().await?;
        self.inner.clocks().await
    }
    async fn counts(&self, tenant: Option<&TenantId>) -> Result<Counts> {
        self.inner.counts(tenant).await
    }
}
