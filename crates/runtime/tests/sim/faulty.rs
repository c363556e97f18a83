//! A store that fails on purpose, and lies when a mutant is on. One per node, over one shared real store.

use super::chaos::{Chaos, Mutant};
use async_trait::async_trait;
use machine::{TenantId, Time};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use store::{Commit, Error, Outcome, Result, Store, Write, rows::*, sqlite::Inline, views::*};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Timers that some slow node delivers again, long after they were dealt with.
pub(crate) type LateTimers = Arc<Mutex<Vec<(Time, Claimed<TimerRow>)>>>;

pub(crate) struct Faulty {
    pub(crate) inner: Arc<Inline>,
    pub(crate) chaos: Arc<Chaos>,
    pub(crate) crash: CancellationToken,
    pub(crate) name: usize,
    pub(crate) late: LateTimers,
    pub(crate) stalled_until: Mutex<Instant>,
    /// How long a zombie sleeps: longer than its lease.
    pub(crate) zombie: Duration,
}

impl Faulty {
    async fn crash(&self, when: &str) -> ! {
        self.chaos.note(format_args!("node {} crashes {when}", self.name));
        self.crash.cancel();
        std::future::pending().await
    }

    /// A dead node gets no answers; a zombie gets them late; others after a little while.
    #[allow(clippy::disallowed_methods, reason = "virtual time")]
    async fn reach(&self) {
        if self.crash.is_cancelled() {
            std::future::pending::<()>().await;
        }
        if self.chaos.strikes(self.chaos.levels.zombie) {
            self.chaos.note(format_args!("node {} stalls", self.name));
            *self.stalled_until.lock() = Instant::now() + self.zombie;
        }
        let until = *self.stalled_until.lock();
        if until > Instant::now() {
            tokio::time::sleep_until(until).await;
        } else if self.chaos.strikes(self.chaos.levels.slow) {
            tokio::time::sleep(Duration::from_micros(self.chaos.below(40_000))).await;
        } else {
            tokio::task::yield_now().await;
        }
        if self.crash.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }

    async fn read(&self) -> Result<()> {
        self.reach().await;
        match self.chaos.strikes(self.chaos.levels.unavailable) {
            true => Err(Error::Unavailable("simulated".into())),
            false => Ok(()),
        }
    }

    /// A claim landed, and nobody was told which rows.
    fn lose_answer(&self, rows: usize) -> Result<()> {
        if rows > 0 && self.chaos.strikes(self.chaos.levels.unknown_landed) {
            self.chaos.note(format_args!("node {} loses the answer to a claim of {rows}", self.name));
            return Err(Error::Unknown("simulated, claimed".into()));
        }
        Ok(())
    }

    #[allow(clippy::disallowed_methods, reason = "virtual time")]
    async fn acknowledge_first(&self, node: Uuid, batch: Vec<Commit>) -> Vec<Outcome> {
        let outcomes = vec![Outcome::Committed; batch.len()];
        let (inner, crash) = (self.inner.clone(), self.crash.clone());
        let delay = Duration::from_micros(self.chaos.below(20_000));
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = crash.cancelled() => {}
                () = tokio::time::sleep(delay) => { let _ = inner.commit(node, batch).await; }
            }
        });
        outcomes
    }

    /// What the mutants do to a commit. The second part is committed afterwards, by itself.
    async fn mutate(&self, node: Uuid, commit: &mut Commit) -> Result<Option<Commit>> {
        let tenant = commit.tenant.clone();
        let later =
            |writes: Vec<Write>| (!writes.is_empty()).then(|| Commit { tenant: tenant.clone(), writes });
        match self.chaos.mutant {
            Some(Mutant::NoSigDedup) => commit
                .writes
                .retain(|write| !matches!(write, Write::ClaimKey(row) if row.scope.starts_with("signal:"))),
            Some(Mutant::NoToken) => {
                commit.writes.retain(|write| !matches!(write, Write::ConsumeTimer { .. }));
            }
            Some(Mutant::SplitIdem) => {
                let (keys, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut commit.writes)
                    .into_iter()
                    .partition(|write| matches!(write, Write::ClaimKey(row) if row.scope == "start"));
                commit.writes = rest;
                if let Some(first) = later(keys) {
                    self.inner.commit(node, vec![first]).await?;
                    if self.chaos.strikes(self.chaos.levels.crash_before * 4) {
                        self.crash("between key and start").await;
                    }
                }
            }
            Some(Mutant::PostCommitPublish) => {
                let (events, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut commit.writes)
                    .into_iter()
                    .partition(|write| matches!(write, Write::Outbox(_)));
                commit.writes = rest;
                return Ok(later(events));
            }
            Some(Mutant::NoCas) => self.overwrite(commit).await?,
            _ => {}
        }
        Ok(None)
    }

    async fn overwrite(&self, commit: &mut Commit) -> Result<()> {
        let mut moved = None;
        for write in &mut commit.writes {
            match write {
                Write::UpdateState(row) => {
                    if let Some(stored) = self.inner.load(&commit.tenant, row.instance).await? {
                        row.expected_version = stored.state_version;
                        row.state_version = stored.state_version + 1;
                        moved = Some(row.state_version);
                    }
                }
                Write::History(row) => row.version = moved.unwrap_or(row.version),
                _ => {}
            }
        }
        Ok(())
    }

    fn take_late(&self, now: Time) -> Vec<Claimed<TimerRow>> {
        let mut late = self.late.lock();
        let (due, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *late).into_iter().partition(|(at, _)| *at <= now);
        *late = rest;
        due.into_iter().map(|(_, timer)| timer).collect()
    }

    /// The mutant that trusts any timer: it ends whatever timer is waited for now.
    async fn forget_token(&self, timer: &mut Claimed<TimerRow>) -> Result<()> {
        let Some(stored) = self.inner.load(&timer.tenant, timer.row.instance).await? else { return Ok(()) };
        let json: serde_json::Value = serde_json::from_slice(&stored.state_json).unwrap_or_default();
        let waits = json["workflowState"]["waits"].as_array().cloned().unwrap_or_default();
        let current =
            waits.iter().find(|wait| wait["kind"] == "Timer").and_then(|wait| wait["token"].as_u64());
        timer.row.token = current.unwrap_or(timer.row.token);
        Ok(())
    }
}

#[async_trait]
impl Store for Faulty {
    async fn commit(&self, node: Uuid, batch: Vec<Commit>) -> Result<Vec<Outcome>> {
        self.reach().await;
        let levels = &self.chaos.levels;
        if self.chaos.strikes(levels.crash_before) {
            self.crash("before a commit").await;
        }
        if self.chaos.strikes(levels.unavailable) {
            return Err(Error::Unavailable("simulated".into()));
        }
        if self.chaos.strikes(levels.unknown_lost) {
            return Err(Error::Unknown("simulated, lost".into()));
        }
        if self.chaos.is(Mutant::AckFirst) {
            return Ok(self.acknowledge_first(node, batch).await);
        }
        let mut batch = batch;
        let mut afterwards = Vec::new();
        for commit in &mut batch {
            afterwards.extend(self.mutate(node, commit).await?);
        }
        let outcomes = self.inner.commit(node, batch).await?;
        self.chaos.note(format_args!("node {} commits {outcomes:?}", self.name));
        if self.chaos.strikes(levels.crash_after) {
            self.crash("after a commit").await;
        }
        if !afterwards.is_empty() {
            self.inner.commit(node, afterwards).await?;
        }
        if self.chaos.strikes(levels.unknown_landed) {
            return Err(Error::Unknown("simulated, landed".into()));
        }
        Ok(outcomes)
    }

    async fn join(&self, node: Uuid, now: Time, lease_ms: i64) -> Result<()> {
        self.read().await?;
        self.inner.join(node, now, lease_ms).await
    }
    async fn renew(&self, node: Uuid, now: Time, lease_ms: i64) -> Result<()> {
        self.read().await?;
        self.inner.renew(node, now, lease_ms).await
    }
    async fn take_over(&self, node: Uuid, now: Time) -> Result<u64> {
        self.read().await?;
        self.inner.take_over(node, now).await
    }
    async fn leave(&self, node: Uuid) -> Result<()> {
        self.read().await?;
        self.inner.leave(node).await
    }

    async fn claim_signals(&self, node: Uuid, now: Time, limit: usize) -> Result<Vec<Claimed<SignalRow>>> {
        self.read().await?;
        let claimed = self.inner.claim_signals(node, now, limit).await?;
        self.lose_answer(claimed.len())?;
        Ok(claimed)
    }
    async fn claim_calls(&self, node: Uuid, now: Time, limit: usize) -> Result<Vec<Claimed<CallRow>>> {
        self.read().await?;
        let mut calls = self.inner.claim_calls(node, now, limit).await?;
        self.lose_answer(calls.len())?;
        if self.chaos.is(Mutant::KeyPerAttempt) {
            for call in &mut calls {
                let mut envelope: machine::command::Call =
                    serde_json::from_slice(&call.row.envelope).expect("our own envelope");
                envelope.key = format!("{}-{}", envelope.key, call.row.attempt);
                call.row.envelope = serde_json::to_vec(&envelope).expect("plain JSON");
            }
        }
        Ok(calls)
    }
    async fn claim_timers(&self, node: Uuid, now: Time, limit: usize) -> Result<Vec<Claimed<TimerRow>>> {
        self.read().await?;
        let mut timers = self.inner.claim_timers(node, now, limit).await?;
        self.lose_answer(timers.len())?;
        for timer in &timers {
            if self.chaos.strikes(self.chaos.levels.late_timer) {
                let delay = 200_000 + self.chaos.below(3_000_000) as i64;
                self.late.lock().push((Time(now.0 + delay), timer.clone()));
            }
        }
        timers.extend(self.take_late(now));
        if self.chaos.is(Mutant::NoToken) {
            for timer in &mut timers {
                self.forget_token(timer).await?;
            }
        }
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
    async fn definitions(&self, tenant: &TenantId, name: Option<(&str, &str)>) -> Result<Vec<DefinitionRow>> {
        self.inner.definitions(tenant, name).await
    }
    async fn tasks(&self, tenant: &TenantId, filter: &TaskFilter, page: &Page) -> Result<Vec<TaskRow>> {
        self.inner.tasks(tenant, filter, page).await
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
    async fn tenants(&self) -> Result<Vec<TenantRow>> {
        self.inner.tenants().await
    }
    async fn keys(&self, tenant: &TenantId) -> Result<Vec<KeyRow>> {
        self.inner.keys(tenant).await
    }
    async fn outbox(&self, limit: usize) -> Result<Vec<Claimed<OutboxRow>>> {
        self.read().await?;
        self.inner.outbox(limit).await
    }
    async fn counts(&self, tenant: Option<&TenantId>) -> Result<Counts> {
        self.inner.counts(tenant).await
    }
}
