//! The one way to ask the runtime for something. Cheap to clone.

mod batches;
mod buses;
mod event_types;
mod keys;
mod letters;
mod queues;
mod records;
mod standing;
mod webhooks;
mod workers;

use crate::{
    ScheduleOrder,
    api::*,
    clocks,
    datasets::{self, Upload},
    definitions,
    engine::Engine,
    events,
    explain::{self, Explanation},
    hub::End,
    library, publishing, refusal, schedules, secrets, signals, starts, tasks_for_people, tenants,
    turn::{self, Work},
};
use futures_util::future::BoxFuture;
use machine::{
    Command, Data, Fault, Program, TenantId, Time,
    compensation::{Undo, compensation},
    language,
    language::Format,
    time::Span,
};
use std::{sync::Arc, time::Duration};
use store::{Commit, Conflict, Outcome, Store, Write, rows::*};
use tokio::sync::broadcast;
use uuid::Uuid;

/// Asks a running node. Every mutating method answers only after its commit is durable.
#[derive(Clone)]
pub struct Handle {
    pub(crate) engine: Arc<Engine>,
}

pub(crate) type Answer<T> = Result<T, Refusal>;

/// The media type of documents that are not YAML.
const JSON: &str = "application/json";

/// One counter or gauge.
#[derive(Clone, Debug)]
pub struct Metric {
    pub name: &'static str,
    pub help: &'static str,
    /// `counter` or `gauge`.
    pub kind: &'static str,
    pub labels: Vec<(&'static str, String)>,
    pub value: f64,
}

impl Handle {
    pub(crate) fn new(engine: Arc<Engine>) -> Handle {
        Handle { engine }
    }

    /// The store, for reading views.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.engine.store
    }

    /// Checks a document and, unless `dry_run`, makes it a definition version. Deploying the same document again is
    /// answered with `created: false`; another one under the same version is a conflict `version-exists`. Layout and
    /// comments make no other document, so that one that was formatted can be deployed again.
    pub async fn deploy(
        &self,
        tenant: &TenantId,
        source: &[u8],
        format: Format,
        dry_run: bool,
    ) -> Answer<Deployed> {
        let compiled = library::executable(&self.engine, source, format).await?;
        let ir = serde_json::to_vec(&compiled.workflow).expect("the IR is plain JSON");
        let program = Program::new(compiled.workflow).map_err(|error| Refusal::Invalid {
            code: "definition-invalid",
            detail: error.to_string(),
            problems: vec![],
        })?;
        let workflow = &program.ir;
        let mut warnings = compiled.warnings;
        warnings.extend(definitions::unserved(&self.engine.callees, workflow));
        let mut deployed = Deployed {
            namespace: workflow.namespace.clone(),
            name: workflow.name.clone(),
            version: workflow.version.clone(),
            warnings,
            created: true,
        };
        if dry_run {
            let (namespace, name, version) = (&deployed.namespace, &deployed.name, &deployed.version);
            let there = self.engine.store.definition(tenant, namespace, name, Some(version)).await;
            if there.map_err(refusal::of_store)?.is_some() {
                self.same_as_deployed(tenant, &deployed, (source, format)).await?;
                deployed.created = false;
            }
            return Ok(deployed);
        }
        let row = DefinitionRow {
            namespace: deployed.namespace.clone(),
            name: deployed.name.clone(),
            version: deployed.version.clone(),
            title: workflow.title.clone(),
            source: source.to_vec(),
            media_type: match format {
                Format::Yaml => "application/yaml".to_owned(),
                Format::Json => JSON.to_owned(),
            },
            ir,
            created_at: self.engine.now_of(tenant),
        };
        match self.put_definition(tenant, &program, row).await? {
            Outcome::Committed => Ok(deployed),
            Outcome::Conflict(Conflict::Exists) => {
                self.same_as_deployed(tenant, &deployed, (source, format)).await?;
                deployed.created = false;
                Ok(deployed)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Writes the definition together with what it changes about its schedule.
    async fn put_definition(
        &self,
        tenant: &TenantId,
        program: &Program,
        row: DefinitionRow,
    ) -> Answer<Outcome> {
        /// Tries while slots fire at the same time.
        const TRIES_MAX: usize = 8;
        let row = Box::new(row);
        for _ in 0..TRIES_MAX {
            let mut writes = vec![Write::CreateDefinition(row.clone())];
            let schedule = schedules::deployed(&self.engine, tenant, program).await;
            writes.extend(schedule.map_err(refusal::of_store)?);
            match self.commit(tenant, writes).await? {
                Outcome::Conflict(Conflict::Version) => {}
                outcome => {
                    self.engine.wake.slots.at(self.engine.now());
                    return Ok(outcome);
                }
            }
        }
        Err(Refusal::Busy)
    }

    /// Publishes an event addressed to nobody. With the same source and id again it has no second effect.
    pub async fn publish(&self, tenant: &TenantId, event: Data) -> Answer<Published> {
        tenants::admit_publish(&self.engine, tenant, 1)?;
        events::publish(&self.engine, tenant, event).await
    }

    /// Publishes many; each is answered by itself, in order.
    pub async fn publish_many(&self, tenant: &TenantId, events: Vec<Data>) -> Vec<Answer<Published>> {
        if let Err(refusal) = tenants::admit_publish(&self.engine, tenant, events.len()) {
            return events.iter().map(|_| Err(refusal.clone())).collect();
        }
        publishing::publish_many(&self.engine, tenant, events).await
    }

    /// Pauses or resumes a schedule; answers it as it is afterwards.
    pub async fn order_schedule(
        &self,
        tenant: &TenantId,
        schedule: Uuid,
        order: ScheduleOrder,
        actor: &str,
    ) -> Answer<ScheduleRow> {
        tracing::info!(%tenant, %schedule, actor, ?order, "order");
        schedules::order(&self.engine, tenant, schedule, order).await
    }

    /// Starts an instance now, as a slot of its own; answers the instance.
    pub async fn trigger_schedule(&self, tenant: &TenantId, schedule: Uuid, actor: &str) -> Answer<Uuid> {
        tracing::info!(%tenant, %schedule, actor, "trigger");
        schedules::trigger(&self.engine, tenant, schedule).await
    }

    /// The next times of a schedule, at most `count`.
    pub async fn upcoming(&self, tenant: &TenantId, schedule: Uuid, count: usize) -> Answer<Vec<Time>> {
        schedules::upcoming(&self.engine, tenant, schedule, count).await
    }

    /// The tenant's clock.
    pub fn clock(&self, tenant: &TenantId) -> DevClock {
        clocks::show(&self.engine, tenant)
    }

    /// Moves the tenant's clock forward, where options allow it.
    pub async fn advance_clock(&self, tenant: &TenantId, by: Span) -> Answer<DevClock> {
        clocks::advance(&self.engine, tenant, by).await
    }

    /// Refuses other content under a version that is deployed: versions never change.
    async fn same_as_deployed(
        &self,
        tenant: &TenantId,
        wanted: &Deployed,
        (source, format): (&[u8], Format),
    ) -> Answer<()> {
        let Deployed { namespace, name, version, .. } = wanted;
        let there = self.engine.store.definition(tenant, namespace, name, Some(version)).await;
        let says_the_same = |there: DefinitionRow| {
            let was = if there.media_type == JSON { Format::Json } else { Format::Yaml };
            let (old, new) = (language::data(&there.source, was), language::data(source, format));
            there.source == source || old.is_ok_and(|old| new.is_ok_and(|new| old == new))
        };
        match there.map_err(refusal::of_store)?.is_some_and(says_the_same) {
            true => Ok(()),
            false => Err(Refusal::Conflict {
                code: "version-exists",
                detail: format!(
                    "{namespace}/{name} version {version} is deployed with other content; versions never change, so raise document.version"
                ),
                existing: None,
            }),
        }
    }

    /// Answers once the start is durable.
    // Boxed, as whatever runs often is: it is built and optimised with this crate and not with whoever awaits it.
    pub fn start<'a>(&'a self, tenant: &'a TenantId, start: Start) -> BoxFuture<'a, Answer<Started>> {
        Box::pin(starts::start(&self.engine, tenant, start))
    }

    /// Starts many; each is answered by itself, in order. Of those with the same business key the first gets it.
    pub async fn start_many(&self, tenant: &TenantId, starts: Vec<Start>) -> Vec<Answer<Started>> {
        starts::start_many(&self.engine, tenant, starts).await
    }

    /// Notes a request for many starts under a key, before they are made. `true` if the same request came before;
    /// one with another hash is refused as `KeyReused`.
    pub async fn note_request(&self, tenant: &TenantId, key: &str, hash: Vec<u8>) -> Answer<bool> {
        starts::note_request(&self.engine, tenant, key, hash).await
    }

    /// Answers the signal's id once it is durable. Sending again with the same id has no second effect.
    pub async fn signal(&self, tenant: &TenantId, instance: Uuid, signal: Signal) -> Answer<Uuid> {
        self.is_writable(tenant)?;
        let view = self.engine.store.instance(tenant, instance).await.map_err(refusal::of_store)?;
        let view = view.ok_or_else(|| Refusal::NotFound("instance".to_owned()))?;
        // A faulted instance may be run again, so it still takes signals.
        if view.row.ended_at.is_some() && view.row.status != "faulted" {
            if let Some(id) = signal.id
                && signals::is_sent(&self.engine, tenant, instance, &signal).await?
            {
                return Ok(id);
            }
            return Err(Refusal::Conflict {
                code: "instance-ended",
                detail: format!("the instance is {}; it takes no more signals", view.row.status),
                existing: None,
            });
        }
        signals::signal(&self.engine, tenant, instance, signal).await
    }

    /// Signals the instance that gave out the token, which comes as `token` of the signal's data.
    pub async fn signal_by_token(&self, token: &str, mut signal: Signal) -> Answer<Uuid> {
        let unknown = || Refusal::NotFound("token".to_owned());
        let (tenant, instance) = machine::token::read(&self.engine.origin.key, token).ok_or_else(unknown)?;
        let mut members = match signal.data.entries() {
            Some(members) => members,
            None if signal.data.is_null() => Vec::new(),
            None => vec![("value".to_owned(), signal.data)],
        };
        members.retain(|(name, _)| name != "token");
        members.push(("token".to_owned(), Data::text(token)));
        signal.data = Data::map(members);
        self.signal(&tenant, instance, signal).await
    }

    /// Keeps a signal for an instance that may not have started yet.
    pub async fn signal_early(&self, tenant: &TenantId, instance: Uuid, signal: Signal) -> Answer<Uuid> {
        self.is_writable(tenant)?;
        signals::signal(&self.engine, tenant, instance, signal).await
    }

    /// Answers the instance's status word afterwards.
    pub async fn order(
        &self,
        tenant: &TenantId,
        instance: Uuid,
        order: Order,
        actor: &str,
    ) -> Answer<String> {
        self.order_at(tenant, instance, order, actor, None).await
    }

    /// The same, refused as stale if the instance is not at the version `expected`.
    pub async fn order_at(
        &self,
        tenant: &TenantId,
        instance: Uuid,
        order: Order,
        actor: &str,
        expected: Option<i64>,
    ) -> Answer<String> {
        let (command, wanted) = match order {
            Order::Cancel => (Command::Cancel, "cancelled"),
            Order::Pause => (Command::Pause, "paused"),
            Order::Resume => (Command::Resume, "resumed"),
            Order::Retry => (Command::Retry, "retried"),
        };
        let work =
            Work { actor: Some(actor.to_owned()), expected, ..Work::new(tenant.clone(), instance, command) };
        let turned = turn::ask(&self.engine, work).await?;
        if turned.changed
            || turned.status == wanted
            || (order, turned.status) == (Order::Cancel, "cancelling")
        {
            tracing::info!(%tenant, %instance, actor, order = wanted, "order");
            return Ok(turned.status.to_owned());
        }
        Err(Refusal::Conflict {
            code: "not-allowed-now",
            detail: format!("a {} instance cannot be {wanted}", turned.status),
            existing: None,
        })
    }

    /// What would be undone if the instance had to leave its sagas now, in order.
    pub async fn compensation(&self, tenant: &TenantId, instance: Uuid) -> Answer<Vec<Undo>> {
        let current = turn::look(&self.engine, tenant, instance).await?;
        Ok(compensation(&current.program, &current.state))
    }

    /// Why the instance does not go on: what it waits for, who holds it, what is in its way.
    pub async fn explain(&self, tenant: &TenantId, instance: Uuid) -> Answer<Explanation> {
        explain::instance(&self.engine, tenant, instance).await
    }

    /// Why the delivery is not done yet.
    pub async fn explain_delivery(&self, tenant: &TenantId, delivery: Uuid) -> Answer<Explanation> {
        explain::delivery(&self.engine, tenant, delivery).await
    }

    /// Waits up to `wait` for the end.
    pub async fn result(&self, tenant: &TenantId, instance: Uuid, wait: Duration) -> Answer<InstanceResult> {
        let end = self.engine.hub.end_of(tenant, instance);
        match self.look(tenant, instance).await? {
            InstanceResult::Pending(_) if !wait.is_zero() => self.wait_for(end, tenant, instance, wait).await,
            answer => Ok(answer),
        }
    }

    /// Starts and waits up to `wait` for the end; the answer may be `Pending`.
    pub fn start_and_wait<'a>(
        &'a self,
        tenant: &'a TenantId,
        start: Start,
        wait: Duration,
    ) -> BoxFuture<'a, Answer<(Started, InstanceResult)>> {
        Box::pin(async move {
            let (started, end) = starts::start_and_watch(&self.engine, tenant, start).await?;
            let result = match end {
                Some(end) => self.wait_for(end, tenant, started.id, wait).await?,
                None => self.result(tenant, started.id, wait).await?,
            };
            Ok((started, result))
        })
    }

    /// What nobody told: another node may have ended it, so the store has the last word.
    async fn wait_for(
        &self,
        mut end: End,
        tenant: &TenantId,
        instance: Uuid,
        wait: Duration,
    ) -> Answer<InstanceResult> {
        let told = async {
            loop {
                // Asked before: an end that comes while the store is read is told by the next round.
                let is_open = end.is_open();
                if let Some(result) = end.wait().await {
                    return Ok(result);
                }
                match self.look(tenant, instance).await {
                    Ok(InstanceResult::Pending(_)) if is_open => {}
                    answer => return answer,
                }
            }
        };
        match tokio::time::timeout(wait, told).await {
            Ok(answer) => answer,
            Err(_) => self.look(tenant, instance).await,
        }
    }

    async fn look(&self, tenant: &TenantId, instance: Uuid) -> Answer<InstanceResult> {
        let view = self.engine.store.instance(tenant, instance).await.map_err(refusal::of_store)?;
        let row = view.ok_or_else(|| Refusal::NotFound("instance".to_owned()))?.row;
        let read =
            |bytes: Option<Vec<u8>>| bytes.and_then(|bytes| serde_json::from_slice::<Data>(&bytes).ok());
        Ok(match row.status.as_str() {
            "completed" => InstanceResult::Completed(read(row.output).unwrap_or_default()),
            "faulted" => {
                let fault = row.error.and_then(|bytes| Fault::shown(&bytes));
                InstanceResult::Faulted(fault.unwrap_or_else(|| {
                    Fault::new(machine::fault::Kind::Runtime, "the error was not recorded")
                }))
            }
            "cancelled" => InstanceResult::Cancelled,
            status => InstanceResult::Pending(status.to_owned()),
        })
    }

    /// Answers the task afterwards. `if_version` is the version the caller saw, if it cares.
    pub async fn act_on_task(
        &self,
        tenant: &TenantId,
        task: Uuid,
        act: TaskAct,
        actor: &str,
        if_version: Option<i64>,
    ) -> Answer<TaskRow> {
        tasks_for_people::act(&self.engine, tenant, task, act, actor, if_version).await
    }

    /// Takes a dataset in, item by item.
    pub fn upload(&self, tenant: &TenantId) -> Upload {
        Upload::new(self.engine.clone(), tenant)
    }

    /// The items `from..to` of a dataset that are there, by position. Of results, some may not be there yet.
    pub async fn dataset_items(
        &self,
        tenant: &TenantId,
        dataset: Uuid,
        from: u64,
        to: u64,
    ) -> Answer<Vec<(u64, Data)>> {
        datasets::items(self.store().as_ref(), tenant, dataset, from, to).await.map_err(refusal::of_store)
    }

    /// Seals and stores a secret; true if the name is new.
    pub async fn put_secret(
        &self,
        tenant: &TenantId,
        name: &str,
        value: &Data,
        hosts: &[String],
    ) -> Answer<bool> {
        secrets::put(&self.engine, tenant, name, value, hosts).await
    }

    pub async fn delete_secret(&self, tenant: &TenantId, name: &str) -> Answer<()> {
        secrets::delete(&self.engine, tenant, name).await
    }

    pub async fn revoke_key(&self, tenant: &TenantId, key_id: &str) -> Answer<()> {
        let keys = self.engine.store.keys(tenant).await.map_err(refusal::of_store)?;
        if !keys.iter().any(|key| key.id == key_id) {
            return Err(Refusal::NotFound("key".to_owned()));
        }
        let write = Write::RevokeKey { id: key_id.to_owned(), at: self.engine.now() };
        match self.commit(tenant, vec![write]).await? {
            Outcome::Committed => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) async fn commit(&self, tenant: &TenantId, writes: Vec<Write>) -> Answer<Outcome> {
        let commit = Commit { tenant: tenant.clone(), writes };
        self.engine.committer.commit(commit).await.map_err(refusal::of_store)
    }

    /// Changes from now on, over all tenants; a slow reader is told how many it missed.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.engine.hub.subscribe()
    }

    /// False once the node is stopping or was taken over, while its store takes no rows or does not say what is due, and
    /// while its lease is not renewed.
    pub fn is_ready(&self) -> bool {
        let engine = &self.engine;
        !engine.is_stopping() && !engine.committer.is_refused() && engine.holds_lease() && engine.finds_work()
    }

    /// True if the store has just answered a renewal of the lease: whoever wants to know whether it answers need not ask.
    pub fn hears_store(&self) -> bool {
        self.engine.renewed_lately()
    }

    /// Counters since start, for `/metrics`.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut all = self.engine.metrics.read();
        let gauges = [
            (
                "windlass_instances_in_memory",
                "instances with a turn or a call under way",
                self.engine.slots.len(),
            ),
            (
                "windlass_results_awaited",
                "instances whose end a caller waits for",
                self.engine.hub.waited_for(),
            ),
            (
                "windlass_lanes",
                "tenants with calls or deliveries in memory",
                self.engine.calls.lanes() + self.engine.deliveries.lanes(),
            ),
            (
                "windlass_errors_waiting",
                "failures that wait to be recorded and acknowledged",
                self.engine.flush.waiting() as usize,
            ),
        ];
        all.extend(gauges.map(|(name, help, value)| Metric {
            name,
            help,
            kind: "gauge",
            labels: vec![],
            value: value as f64,
        }));
        all.extend(self.bus_metrics());
        all.extend(self.engine.guards.open().into_iter().map(|(tenant, kind, target)| Metric {
            name: "windlass_breaker_open",
            help: "breakers that are open or half open, by tenant, kind and target",
            kind: "gauge",
            labels: vec![
                ("tenant", tenant.to_string()),
                ("kind", kind.word().to_owned()),
                ("target", target),
            ],
            value: 1.0,
        }));
        all.extend(self.engine.tenants.standings().into_iter().map(|(status, count)| Metric {
            name: "windlass_tenants_not_active",
            help: "tenants that are degraded, suspended or deleted",
            kind: "gauge",
            labels: vec![("status", status.to_owned())],
            value: count as f64,
        }));
        all
    }
}

pub(crate) fn count(problems: &[language::Problem], lead: &str) -> String {
    match problems {
        [one] => format!("{lead} one problem: {}", one.message),
        many => {
            format!("{lead} {} problems; the first: {}", many.len(), many.first().map_or("", |p| &p.message))
        }
    }
}

pub(crate) fn unexpected(outcome: &Outcome) -> Refusal {
    match outcome {
        Outcome::Rejected(detail) => {
            Refusal::Invalid { code: "refused-by-store", detail: detail.clone(), problems: vec![] }
        }
        other => Refusal::Conflict { code: "conflict", detail: format!("{other:?}"), existing: None },
    }
}
