//! The port over a pool of connections: which scope, which statement, which rows.

use super::{
    apply::{self, Applied},
    base::{Postgres, micros, of},
    claim, event as events_table, list, node, read, schedule,
    session::Scope,
    value::{Text, Value, get, id, int, maybe_text, text, time},
};
use crate::{commit::*, datasets::*, feed::*, port::*, rows::*, sqlite::compare_versions, views::*};
use async_trait::async_trait;
use machine::{TenantId, Time, time::Span};
use std::{cmp::Reverse, sync::atomic::Ordering, time::Duration};
use tokio_postgres::Row;
use uuid::Uuid;

/// A renewal of the lease takes this long at most: the next one may still come in time.
const RENEWAL_MAX: Duration = Duration::from_secs(4);

#[async_trait]
impl Store for Postgres {
    fn records(&self) -> &dyn crate::Records {
        self
    }

    async fn commit(&self, node: Uuid, batch: Vec<Commit>) -> Result<Vec<Outcome>> {
        let session = self.writers.take().await?;
        self.batches.batches.fetch_add(1, Ordering::Relaxed);
        self.batches.commits.fetch_add(batch.len() as u64, Ordering::Relaxed);
        match apply::apply(&session, node, &batch).await {
            Err(Error::Fenced) => {
                session.done();
                Err(Error::Fenced)
            }
            Err(err) => Err(err),
            Ok(Applied { outcomes, open: true }) => session.land().await.map(|()| outcomes),
            Ok(Applied { outcomes, open: false }) => {
                session.done();
                Ok(outcomes)
            }
        }
    }

    fn audit(&self) -> &dyn crate::Audit {
        self
    }

    async fn deployment_key(&self, name: &str, fresh: [u8; 32]) -> Result<[u8; 32]> {
        let session = self.writers.take().await?;
        let key = node::deployment_key(&session, name, &fresh).await?;
        session.done();
        Ok(key)
    }

    async fn join(&self, node: Uuid, now: Time, lease_ms: i64) -> Result<()> {
        let session = self.lease.take().await?;
        node::join(&session, node, self.now(now), micros(lease_ms)).await?;
        session.done();
        Ok(())
    }

    async fn renew(&self, node: Uuid, now: Time, lease_ms: i64) -> Result<Renewed> {
        let late = || Error::Unavailable("the database did not answer the renewal of the lease".to_owned());
        let (pool, now) = (self.lease.clone(), self.now(now));
        // One that is not answered, for example because a standby is waited for, keeps its connection until it is: a new
        // one for each try would use up what the server has.
        let renewed = tokio::spawn(async move {
            let session = pool.take_now().await?.ok_or_else(late)?;
            let renewed = node::renew(&session, node, now, micros(lease_ms)).await;
            if matches!(renewed, Ok(_) | Err(Error::Fenced)) {
                session.done();
            }
            renewed
        });
        // The server's own limit is set in a transaction, and there is none here.
        match tokio::time::timeout(RENEWAL_MAX, renewed).await {
            Ok(Ok(renewed)) => renewed,
            Ok(Err(_)) | Err(_) => Err(late()),
        }
    }

    async fn take_over(&self, node: Uuid, now: Time) -> Result<u64> {
        let session = self.writers.take().await?;
        let rows = node::take_over(&session, node, self.now(now)).await?;
        session.done();
        Ok(rows)
    }

    async fn leave(&self, node: Uuid) -> Result<()> {
        let session = self.writers.take().await?;
        node::leave(&session, node).await?;
        session.done();
        Ok(())
    }

    async fn hold(&self, lock: HostLock, node: Uuid, now: Time, lease_ms: i64) -> Result<bool> {
        let session = self.writers.take().await?;
        let held = node::hold(&session, lock, node, self.now(now), micros(lease_ms)).await?;
        session.done();
        Ok(held)
    }

    async fn claim_signals(&self, node: Uuid, now: Time, limit: usize) -> Result<Vec<Claimed<SignalRow>>> {
        let ask = claim::Ask { node, now, limit, full: &[] };
        let mut rows = self.claim(&claim::SIGNALS, &self.crowded.signals, ask, claim::signal).await?;
        rows.sort_by(|a, b| {
            (a.row.visible_at, &a.tenant, a.row.id).cmp(&(b.row.visible_at, &b.tenant, b.row.id))
        });
        Ok(rows)
    }

    async fn claim_calls(
        &self,
        node: Uuid,
        now: Time,
        limit: usize,
        full: &[TenantId],
    ) -> Result<Vec<Claimed<CallRow>>> {
        let ask = claim::Ask { node, now, limit, full };
        let (mut rows, _) = self.claim_shared(&claim::CALLS, ask, claim::call).await?;
        rows.sort_by(|a, b| {
            let key = |one: &Claimed<CallRow>| {
                (one.row.visible_at, one.tenant.clone(), one.row.instance, one.row.token.cast_signed())
            };
            key(a).cmp(&key(b))
        });
        Ok(rows)
    }

    async fn claim_deliveries(&self, ask: &DeliveryAsk) -> Result<Vec<Claimed<DeliveryRow>>> {
        self.claim_due_deliveries(ask).await
    }

    async fn next_delivery(&self, workers: &[String]) -> Result<Option<Time>> {
        self.next_due_delivery(workers).await
    }

    async fn queues(&self, tenant: Option<&TenantId>) -> Result<Vec<QueueRow>> {
        self.kept_queues(tenant).await
    }

    async fn unclaimed(&self, tenant: &TenantId, worker: &str, now: Time) -> Result<Unclaimed> {
        self.unclaimed_of(tenant, worker, now).await
    }

    async fn loans(&self, tenant: &TenantId, worker: &str, now: Time) -> Result<Loans> {
        self.loans_of(tenant, worker, now).await
    }

    async fn oldest(&self, workers: &[String]) -> Result<Vec<(String, Time)>> {
        self.oldest_of(workers).await
    }

    async fn depths(&self, workers: &[String]) -> Result<Vec<Depth>> {
        self.depths_of(workers).await
    }

    async fn lend(&self, tenant: &TenantId, loan: &Loan) -> Result<Vec<DeliveryRow>> {
        self.lend_due(tenant, loan).await
    }

    async fn delivery(&self, tenant: &TenantId, id: Uuid) -> Result<Option<DeliveryRow>> {
        self.one_delivery(tenant, id).await
    }

    async fn deliveries(
        &self,
        tenant: &TenantId,
        filter: &DeliveryFilter,
        after: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<DeliveryRow>> {
        self.list_deliveries(tenant, filter, after, limit).await
    }

    async fn workers(&self) -> Result<Vec<Claimed<WorkerRow>>> {
        self.all_workers().await
    }

    async fn event_types(&self) -> Result<Vec<Claimed<EventTypeRow>>> {
        self.all_event_types().await
    }

    async fn events_of(&self, tenant: &TenantId, ids: &[Uuid]) -> Result<Vec<EventRow>> {
        let values = [text(tenant.as_str()), Value::Ids(ids)];
        self.many(of(tenant), list::EVENTS_OF, &values, list::event).await
    }

    async fn claim_timers(&self, node: Uuid, now: Time, limit: usize) -> Result<Vec<Claimed<TimerRow>>> {
        let ask = claim::Ask { node, now, limit, full: &[] };
        let mut rows = self.claim(&claim::TIMERS, &self.crowded.timers, ask, claim::timer).await?;
        rows.sort_by(|a, b| {
            let key = |one: &Claimed<TimerRow>| {
                (one.row.due_at, one.tenant.clone(), one.row.instance, one.row.token.cast_signed())
            };
            key(a).cmp(&key(b))
        });
        Ok(rows)
    }

    async fn next_due(&self) -> Result<Option<Time>> {
        let times = |row: &Row| Ok(([get(row, 0)?, get(row, 1)?, get(row, 2)?], get(row, 3)?));
        let found: Option<([Option<i64>; 3], bool)> =
            self.one(Scope::All, read::NEXT_DUE, &[], times).await?;
        match found {
            Some((_, true)) => self.next_due_of_others().await,
            Some((times, false)) => Ok(times.into_iter().flatten().min().map(Time)),
            None => Ok(None),
        }
    }

    async fn outlook(&self, node: Uuid, now: Time, workers: &[String]) -> Result<Outlook> {
        let names: Vec<Text<'_>> = workers.iter().map(|name| Text(name)).collect();
        let values = [time(now), id(node), Value::Texts(&names)];
        let outlook = self.one(Scope::All, read::OUTLOOK, &values, read::outlook).await?;
        let (outlook, parked) =
            outlook.ok_or_else(|| Error::Unavailable("the database does not answer".into()))?;
        match parked {
            true => Ok(Outlook { queues: self.next_due_of_others().await?, ..outlook }),
            false => Ok(outlook),
        }
    }

    async fn owned(&self, node: Uuid, limit: usize) -> Result<Vec<Claimed<QueueKey>>> {
        self.many(Scope::All, read::OWNED, &[id(node), int(limit as i64)], read::queue_key).await
    }

    async fn load(&self, tenant: &TenantId, instance: Uuid) -> Result<Option<LoadedState>> {
        self.one(of(tenant), read::LOAD, &[text(tenant.as_str()), id(instance)], read::loaded).await
    }

    async fn inbox(&self, tenant: &TenantId, scope: &str, key: &str) -> Result<Option<InboxRow>> {
        let values = [text(tenant.as_str()), text(scope), text(key)];
        self.one(of(tenant), read::INBOX, &values, read::inbox).await
    }

    async fn taken(&self, tenant: &TenantId, scope: &str, keys: &[String]) -> Result<Vec<String>> {
        let keys: Vec<Text<'_>> = keys.iter().map(|key| Text(key)).collect();
        let values = [text(tenant.as_str()), text(scope), Value::Texts(&keys)];
        self.many(of(tenant), read::TAKEN, &values, |row| get(row, 0)).await
    }

    async fn watermarks(&self, tenant: &TenantId, worker: &str) -> Result<Vec<WatermarkRow>> {
        self.watermarks_of(tenant, worker).await
    }

    async fn definition(
        &self,
        tenant: &TenantId,
        namespace: &str,
        name: &str,
        version: Option<&str>,
    ) -> Result<Option<DefinitionRow>> {
        let version = match version {
            Some(version) => version.to_owned(),
            None => match self.newest(tenant, namespace, name).await? {
                Some(version) => version,
                None => return Ok(None),
            },
        };
        let values = [text(tenant.as_str()), text(namespace), text(name), text(&version)];
        self.one(of(tenant), read::DEFINITION, &values, read::definition).await
    }

    async fn instance(&self, tenant: &TenantId, instance: Uuid) -> Result<Option<InstanceView>> {
        let sql = format!("{} AND i.id = $2", read::INSTANCE);
        self.one(of(tenant), &sql, &[text(tenant.as_str()), id(instance)], read::instance).await
    }

    async fn task(&self, tenant: &TenantId, task: Uuid) -> Result<Option<TaskRow>> {
        let sql = format!("{} AND id = $2", read::TASK);
        self.one(of(tenant), &sql, &[text(tenant.as_str()), id(task)], read::task).await
    }

    async fn dead_letter(&self, tenant: &TenantId, letter: Uuid) -> Result<Option<DeadLetterRow>> {
        let sql = format!("{} AND id = $2", read::DEAD_LETTER);
        self.one(of(tenant), &sql, &[text(tenant.as_str()), id(letter)], read::dead_letter).await
    }

    async fn tenant(&self, tenant: &TenantId) -> Result<Option<TenantRow>> {
        self.one(of(tenant), read::TENANT, &[text(tenant.as_str())], read::tenant_row).await
    }

    async fn secret(&self, tenant: &TenantId, name: &str) -> Result<Option<SecretRow>> {
        let sql = format!("{} AND name = $2", read::SECRET);
        self.one(of(tenant), &sql, &[text(tenant.as_str()), text(name)], read::secret).await
    }

    async fn key_by_id(&self, key_id: &str) -> Result<Option<(TenantId, KeyRow)>> {
        let map = |row: &Row| Ok((read::tenant(row, 7)?, read::key(row)?));
        self.one(Scope::All, read::KEY_BY_ID, &[text(key_id)], map).await
    }

    async fn dataset(&self, tenant: &TenantId, dataset: Uuid) -> Result<Option<DatasetRow>> {
        let values = [text(tenant.as_str()), id(dataset)];
        self.one(of(tenant), super::dataset::DATASET, &values, super::dataset::dataset).await
    }

    async fn dataset_items(
        &self,
        tenant: &TenantId,
        dataset: Uuid,
        from: u64,
        to: u64,
    ) -> Result<Vec<ItemsRow>> {
        let (from, to) = (from as i64, to.min(i64::MAX as u64) as i64);
        let values = [text(tenant.as_str()), id(dataset), int(from - RUN_MAX as i64), int(to), int(from)];
        self.many(of(tenant), super::dataset::ITEMS, &values, super::dataset::items).await
    }

    async fn children(&self, tenant: &TenantId, parent: Uuid) -> Result<Vec<(String, u64)>> {
        let values = [text(tenant.as_str()), id(parent)];
        self.many(of(tenant), super::dataset::CHILDREN, &values, list::status_count).await
    }

    async fn instances(
        &self,
        tenant: &TenantId,
        filter: &InstanceFilter,
        page: &Page,
    ) -> Result<Vec<InstanceView>> {
        self.list_instances(tenant, filter, page).await
    }

    async fn instance_by_key(&self, tenant: &TenantId, business_key: &str) -> Result<Option<InstanceView>> {
        let sql = format!("{}{}", read::INSTANCE, list::BY_KEY);
        self.one(of(tenant), &sql, &[text(tenant.as_str()), text(business_key)], read::instance).await
    }

    async fn history(
        &self,
        tenant: &TenantId,
        instance: Uuid,
        after: i64,
        limit: usize,
    ) -> Result<Vec<HistoryRow>> {
        let limit = limit.min(list::ROWS_MAX) as i64;
        let values = [text(tenant.as_str()), id(instance), int(after), int(limit)];
        self.many(of(tenant), list::HISTORY, &values, list::history).await
    }

    async fn definitions(
        &self,
        tenant: &TenantId,
        filter: &DefinitionFilter,
    ) -> Result<Vec<DefinitionSummary>> {
        self.list_definitions(tenant, filter).await
    }

    async fn versions(
        &self,
        tenant: &TenantId,
        namespace: &str,
        name: &str,
    ) -> Result<Vec<DefinitionSummary>> {
        let values = [text(tenant.as_str()), text(namespace), text(name)];
        let mut rows = self.many(of(tenant), list::SUMMARY, &values, list::summary).await?;
        rows.sort_by(|a, b| compare_versions(&b.version, &a.version));
        Ok(rows)
    }

    async fn calls(&self, tenant: &TenantId, instance: Uuid, limit: usize) -> Result<Vec<CallRow>> {
        let values = [text(tenant.as_str()), id(instance), int(limit.min(claim::CLAIM_MAX) as i64)];
        let rows = self.many(of(tenant), claim::CALLS_OF, &values, |row| claim::call(row, None)).await?;
        Ok(rows.into_iter().map(|claimed| claimed.row).collect())
    }

    async fn tasks(&self, tenant: &TenantId, filter: &TaskFilter, page: &Page) -> Result<Vec<TaskRow>> {
        self.list_tasks(tenant, filter, page).await
    }

    async fn task_events(&self, tenant: &TenantId, task: Uuid) -> Result<Vec<TaskEventRow>> {
        let values = [text(tenant.as_str()), id(task)];
        self.many(of(tenant), list::TASK_EVENTS, &values, list::task_event).await
    }

    async fn dead_letters(
        &self,
        tenant: &TenantId,
        filter: &DeadLetterFilter,
        page: &Page,
    ) -> Result<Vec<DeadLetterRow>> {
        self.list_dead_letters(tenant, filter, page).await
    }

    async fn dead_letter_groups(
        &self,
        tenant: &TenantId,
        after: Option<(Time, Option<Uuid>)>,
        limit: usize,
    ) -> Result<Vec<LetterGroup>> {
        self.list_letter_groups(tenant, after, limit).await
    }

    async fn error_groups(&self, tenant: &TenantId, filter: &ErrorFilter) -> Result<Vec<ErrorGroupRow>> {
        self.list_error_groups(tenant, filter).await
    }

    async fn error_group(&self, tenant: &TenantId, group: Uuid) -> Result<Option<ErrorGroupRow>> {
        self.one_error_group(tenant, group).await
    }

    async fn tenants(&self) -> Result<Vec<TenantRow>> {
        self.many(Scope::All, list::TENANTS, &[], read::tenant_row).await
    }

    async fn keys(&self, tenant: &TenantId) -> Result<Vec<KeyRow>> {
        self.many(of(tenant), list::KEYS, &[text(tenant.as_str())], read::key).await
    }

    async fn secrets(&self, tenant: &TenantId) -> Result<Vec<SecretRow>> {
        let sql = format!("{} ORDER BY name", read::SECRET);
        self.many(of(tenant), &sql, &[text(tenant.as_str())], read::secret).await
    }

    async fn outbox(&self, ask: &OutboxAsk) -> Result<Vec<Claimed<OutboxRow>>> {
        self.emitted(ask).await
    }

    async fn batch(&self, tenant: &TenantId, batch: Uuid) -> Result<Option<BatchRow>> {
        self.batch_by_id(tenant, batch).await
    }

    async fn batches(&self, tenant: &TenantId, filter: &BatchFilter, page: &Page) -> Result<Vec<BatchRow>> {
        self.list_batches(tenant, filter, page).await
    }

    async fn batch_items(&self, tenant: &TenantId, ask: &ItemAsk) -> Result<Vec<BatchItemRow>> {
        self.list_batch_items(tenant, ask).await
    }

    async fn due_batches(&self, now: Time, limit: usize) -> Result<Vec<Claimed<BatchRow>>> {
        self.list_due_batches(now, limit).await
    }

    async fn next_batch_due(&self) -> Result<Option<Time>> {
        self.next_due_batch().await
    }

    async fn due_schedules(&self, now: Time, limit: usize) -> Result<Vec<Claimed<ScheduleRow>>> {
        let sql = format!("{}{}", schedule::SCHEDULE, schedule::DUE);
        let map = |row: &Row| Ok(Claimed { tenant: read::tenant(row, 17)?, row: schedule::schedule(row)? });
        self.many(Scope::All, &sql, &[time(now), int(limit.min(PAGE_MAX) as i64)], map).await
    }

    async fn next_slot_due(&self) -> Result<Option<Time>> {
        let found = self.one(Scope::All, schedule::NEXT, &[], |row| read::optional_time(row, 0)).await?;
        Ok(found.flatten())
    }

    async fn schedule(&self, tenant: &TenantId, schedule: Uuid) -> Result<Option<ScheduleRow>> {
        let sql = format!("{}{}", schedule::SCHEDULE, schedule::BY_ID);
        self.one(of(tenant), &sql, &[text(tenant.as_str()), id(schedule)], schedule::schedule).await
    }

    async fn schedules(&self, tenant: &TenantId, filter: &ScheduleFilter) -> Result<Vec<ScheduleRow>> {
        let (namespace, name) = filter.after.clone().unwrap_or_default();
        let sql = format!("{}{}", schedule::SCHEDULE, schedule::LIST);
        let values = [
            text(tenant.as_str()),
            text(&namespace),
            text(&name),
            maybe_text(filter.namespace.as_deref()),
            maybe_text(filter.name.as_deref()),
            maybe_text(filter.status.as_deref()),
            int(filter.limit.clamp(1, PAGE_MAX) as i64),
        ];
        self.many(of(tenant), &sql, &values, schedule::schedule).await
    }

    async fn slots(
        &self,
        tenant: &TenantId,
        schedule: Uuid,
        before: Option<Time>,
        limit: usize,
    ) -> Result<Vec<SlotRow>> {
        let before = before.map_or(i64::MAX, |before| before.0);
        let limit = limit.clamp(1, PAGE_MAX) as i64;
        let values = [text(tenant.as_str()), id(schedule), int(before), int(limit)];
        self.many(of(tenant), schedule::SLOTS, &values, schedule::slot).await
    }

    async fn collection(&self, tenant: &TenantId, schedule: Uuid) -> Result<CollectionRow> {
        let values = [text(tenant.as_str()), id(schedule)];
        let row = self.one(of(tenant), schedule::COLLECTION, &values, schedule::collection).await?;
        Ok(row.unwrap_or_default())
    }

    async fn event(&self, tenant: &TenantId, event: Uuid) -> Result<Option<EventRow>> {
        let sql = format!("{} AND id = $2", list::EVENT);
        self.one(of(tenant), &sql, &[text(tenant.as_str()), id(event)], list::event).await
    }

    async fn event_of(&self, tenant: &TenantId, source: &str, event_id: &str) -> Result<Option<EventRow>> {
        let sql = format!("{} AND source = $2 AND event_id = $3", list::EVENT);
        self.one(of(tenant), &sql, &[text(tenant.as_str()), text(source), text(event_id)], list::event).await
    }

    async fn events(&self, tenant: &TenantId, filter: &EventFilter, page: &Page) -> Result<Vec<EventRow>> {
        self.list_events(tenant, filter, page).await
    }

    async fn feed(
        &self,
        tenant: &TenantId,
        after: FeedCursor,
        limit: usize,
    ) -> Result<Option<Vec<FeedItem>>> {
        self.read_feed(tenant, after, limit).await
    }

    async fn horizon(&self) -> Result<Horizon> {
        self.read_horizon().await
    }

    async fn schedules_on(&self, tenant: &TenantId, event_type: &str, limit: usize) -> Result<Vec<Uuid>> {
        let values = [text(tenant.as_str()), text(event_type), int(limit as i64)];
        self.many(of(tenant), list::SCHEDULES_ON, &values, |row| get(row, 0)).await
    }

    async fn keeps_events(&self) -> Result<bool> {
        Ok(self.one(Scope::All, list::KEEPS, &[], |row| get(row, 0)).await?.unwrap_or(false))
    }

    async fn purge_events(&self, now: Time, limit: usize) -> Result<u64> {
        let rows = self.rows(Scope::All, events_table::PURGE, &[time(now), int(limit as i64)]).await?;
        Ok(rows.len() as u64)
    }

    async fn purge(&self, purge: &Purge) -> Result<Purged> {
        self.purge_page(purge).await
    }

    async fn retire(&self, ended_before: Time) -> Result<bool> {
        let more = self.retire_history(ended_before).await?;
        if !more {
            self.fold_queues().await?;
        }
        Ok(more)
    }

    async fn place(&self, tenant: &TenantId, row: QueueKey) -> Result<Option<Place>> {
        self.place_of(tenant, row).await
    }

    async fn purge_tenant(&self, now: Time, limit: usize) -> Result<Option<TenantPurged>> {
        self.purge_leaving(now, limit).await
    }

    async fn open_instances(&self, tenant: &TenantId, max: u64) -> Result<u64> {
        let values = [text(tenant.as_str()), int(i64::try_from(max).unwrap_or(i64::MAX))];
        let count = self.one(of(tenant), read::OPEN, &values, |row| get::<i64>(row, 0)).await?;
        Ok(count.unwrap_or(0).unsigned_abs())
    }

    async fn clocks(&self) -> Result<Vec<(TenantId, Span)>> {
        let map = |row: &Row| Ok((read::tenant(row, 0)?, Span(get(row, 1)?)));
        self.many(Scope::All, schedule::CLOCKS, &[], map).await
    }

    async fn counts(&self, tenant: Option<&TenantId>) -> Result<Counts> {
        self.list_counts(tenant).await
    }
}

/// Newest first, at most a page.
pub(super) fn newest_first<T>(rows: &mut Vec<T>, page: &Page, id: impl Fn(&T) -> Uuid) {
    rows.sort_by_key(|row| Reverse(id(row)));
    rows.truncate(page.rows());
}
