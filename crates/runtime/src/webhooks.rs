//! Webhooks: events of a tenant, signed and sent to addresses of its own.
//!
//! A webhook is a worker that is an address: what it wants is written as deliveries in the commit that publishes an
//! event, and retries, dead letters and replay are theirs. It is stored among the workers, under a name that none of them
//! can have.

pub(crate) mod sign;

use crate::{
    api::{Refusal, Webhook},
    dead_letters,
    deliveries::{self, settle::Settling},
    egress::{Answered, Message},
    engine::Engine,
    finder::Alarm,
    guards::{self, Blocked, Target},
    held::Hold,
    lost, newer, refusal, remote,
    unbegun::{Stop, Unbegun},
};
use machine::{Data, TenantId, Time, id, retry::RetryPolicy, time::Span};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};
use store::{
    Conflict, Outcome, Write,
    rows::{Claimed, DeliveryAsk, DeliveryRow, EventRow, QueueKey, WorkerRow},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use worker::{Class, Handled};

/// Messages being sent at once: of all tenants, of one, and to one webhook. A receiver that does not answer leaves room
/// to the tenant's others.
const IN_FLIGHT_MAX: usize = 64;
const IN_FLIGHT_PER_TENANT_MAX: usize = 16;
const IN_FLIGHT_PER_WEBHOOK_MAX: usize = 8;
/// How long the pump waits when something is due that it may not take yet.
const BLOCKED_WAIT: Span = Span::from_millis(200);
const STORE_WAIT: Span = Span::from_millis(500);
const TRIES_MAX: usize = 8;
/// What names of webhooks among the workers begin with. No worker's name has a colon.
const PREFIX: &str = "webhook:";
/// Secrets that sign at once: the new and the old one while one takes the other's place.
const SECRETS_MAX: usize = 2;

/// What deliveries of the webhook say that they are for.
pub fn worker_of(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// The webhook's own name, if a row of the workers is one.
pub(crate) fn name_of(worker: &str) -> Option<&str> {
    worker.strip_prefix(PREFIX)
}

/// What is sent now.
pub(crate) struct Webhooks {
    pub(crate) alarm: Alarm,
    room: Arc<Semaphore>,
    /// By tenant and webhook.
    in_flight: Mutex<BTreeMap<TenantId, BTreeMap<String, usize>>>,
}

impl Webhooks {
    pub(crate) fn new(now: Time) -> Webhooks {
        let webhooks = Webhooks {
            alarm: Alarm::new(),
            room: Arc::new(Semaphore::new(IN_FLIGHT_MAX)),
            in_flight: Mutex::default(),
        };
        webhooks.alarm.at(now);
        webhooks
    }

    /// Tenants for which nothing more is begun, and webhooks of others.
    fn full(&self) -> (Vec<TenantId>, Vec<(TenantId, String)>) {
        let in_flight = self.in_flight.lock();
        let (mut tenants, mut webhooks) = (Vec::new(), Vec::new());
        for (tenant, counts) in in_flight.iter() {
            if counts.values().sum::<usize>() >= IN_FLIGHT_PER_TENANT_MAX {
                tenants.push(tenant.clone());
                continue;
            }
            let full = counts.iter().filter(|(_, count)| **count >= IN_FLIGHT_PER_WEBHOOK_MAX);
            webhooks.extend(full.map(|(worker, _)| (tenant.clone(), worker.clone())));
        }
        (tenants, webhooks)
    }

    /// `false` if there is no room for it.
    fn begin(&self, tenant: &TenantId, worker: &str) -> bool {
        let mut in_flight = self.in_flight.lock();
        let counts = in_flight.entry(tenant.clone()).or_default();
        let of_tenant: usize = counts.values().sum();
        let of_webhook = counts.get(worker).copied().unwrap_or(0);
        let has_room = of_tenant < IN_FLIGHT_PER_TENANT_MAX && of_webhook < IN_FLIGHT_PER_WEBHOOK_MAX;
        if has_room {
            counts.insert(worker.to_owned(), of_webhook + 1);
        }
        has_room
    }

    fn ended(&self, tenant: &TenantId, worker: &str) {
        let mut in_flight = self.in_flight.lock();
        let Some(counts) = in_flight.get_mut(tenant) else { return };
        if let Some(count) = counts.get_mut(worker) {
            *count -= 1;
            if *count == 0 {
                counts.remove(worker);
            }
        }
        if counts.is_empty() {
            in_flight.remove(tenant);
        }
    }
}

/// Makes or changes a webhook. `true` if it is new.
pub(crate) async fn put(
    engine: &Engine,
    tenant: &TenantId,
    name: &str,
    webhook: &Webhook,
) -> Result<bool, Refusal> {
    let invalid = |detail: String| Refusal::Invalid { code: "invalid-value", detail, problems: vec![] };
    if let Some(detail) = remote::name_problem(name).or_else(|| problem(webhook)) {
        return Err(invalid(detail));
    }
    let of_fault = |fault: machine::Fault| invalid(fault.detail.unwrap_or(fault.error_type));
    let url = engine.egress.webhook_url(&webhook.url).map_err(of_fault)?;
    let host = url.host_str().unwrap_or_default();
    let secrets = engine.egress.webhook_secrets(tenant, &webhook.secrets, host).await;
    secrets.map_err(|stop| match stop {
        Stop::Fault(fault) => of_fault(fault),
        Stop::Unbegun(Unbegun::Away(error)) => refusal::of_store(error),
        Stop::Unbegun(_) => Refusal::Unavailable("this node does not know its standing".to_owned()),
    })?;
    let created = store(engine, tenant, name, |_| Some(webhook.clone())).await?;
    engine.webhooks.alarm.at(engine.now());
    Ok(created)
}

/// What is wrong with it in itself.
fn problem(webhook: &Webhook) -> Option<String> {
    let Webhook { types, secrets, attempts_max, .. } = webhook;
    match () {
        () if secrets.is_empty() || secrets.len() > SECRETS_MAX => {
            Some(format!("`secrets` names 1 to {SECRETS_MAX} secrets: `windlass secret set`"))
        }
        () if !(1..=100).contains(attempts_max) => Some("`attempts_max` is 1 to 100".to_owned()),
        () => remote::types_problem(types),
    }
}

/// Writes what `change` makes of it, guarded by its version. `true` if it is new.
async fn store(
    engine: &Engine,
    tenant: &TenantId,
    name: &str,
    change: impl Fn(Option<Webhook>) -> Option<Webhook>,
) -> Result<bool, Refusal> {
    let worker = worker_of(name);
    for _ in 0..TRIES_MAX {
        let before = remote::find(engine, tenant, &worker).await?;
        let (now, expected_version) = (engine.now(), before.as_ref().map_or(0, |row| row.row_version));
        let known = before.as_ref().and_then(|row| serde_json::from_slice(&row.declaration).ok());
        let Some(webhook) = change(known) else { return Ok(false) };
        let row = WorkerRow {
            name: worker.clone(),
            declaration: newer::rewritten(before.as_ref(), &webhook),
            row_version: expected_version + 1,
            created_at: before.map_or(now, |row| row.created_at),
            updated_at: now,
        };
        match remote::commit(engine, tenant, vec![Write::PutWorker { row, expected_version }]).await? {
            Outcome::Conflict(Conflict::Version) => {}
            Outcome::Committed => {
                remote::changed(engine).await?;
                return Ok(expected_version == 0);
            }
            other => return Err(Refusal::Unavailable(format!("{other:?}"))),
        }
    }
    Err(Refusal::Busy)
}

/// The tenant's webhooks, by name.
pub(crate) async fn list(
    engine: &Engine,
    tenant: &TenantId,
) -> Result<Vec<(String, WorkerRow, Webhook)>, Refusal> {
    let all = engine.store.workers().await.map_err(refusal::of_store)?;
    let own = all.into_iter().filter(|one| one.tenant == *tenant).map(|one| one.row);
    let webhook = |row: WorkerRow| {
        let name = name_of(&row.name)?.to_owned();
        let webhook = serde_json::from_slice(&row.declaration).ok()?;
        Some((name, row, webhook))
    };
    Ok(own.filter_map(webhook).collect())
}

/// Sends until the node stops.
pub(crate) async fn run(engine: Arc<Engine>) {
    let stopping = engine.tasks.stopping.clone();
    let alarm = &engine.webhooks.alarm;
    while !stopping.is_cancelled() {
        let until = alarm.next();
        if engine.now() < until {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                () = alarm.sooner() => {}
                () = engine.clock.sleep_until(until) => {}
            }
            continue;
        }
        alarm.reset();
        if let Err(error) = round(&engine).await {
            engine.tasks.heed(&error);
            tracing::warn!(%error, "looking for messages to webhooks failed");
            alarm.at(engine.now().after(STORE_WAIT));
        }
    }
}

/// Begins with what is due, as far as there is room.
async fn round(engine: &Arc<Engine>) -> Result<(), store::Error> {
    let workers = engine.subscribers.webhooks();
    if workers.is_empty() {
        return Ok(());
    }
    if !engine.may_begin() {
        // The lease may be over: what is due may be another's by now.
        engine.webhooks.alarm.at(engine.now().after(BLOCKED_WAIT));
        return Ok(());
    }
    let Some(next) = engine.store.next_delivery(&workers).await? else { return Ok(()) };
    if next > engine.now() {
        engine.webhooks.alarm.at(next);
        return Ok(());
    }
    let limit = engine.webhooks.room.available_permits();
    if limit == 0 {
        // Whoever ends looks again.
        return Ok(());
    }
    let (full, full_of) = engine.webhooks.full();
    let ask = DeliveryAsk { node: engine.node, now: engine.now(), limit, workers, full, full_of, pace: None };
    let claimed = engine.store.claim_deliveries(&ask).await?;
    let wait = if claimed.is_empty() { BLOCKED_WAIT } else { Span::ZERO };
    let mut no_room = BTreeMap::<TenantId, Vec<QueueKey>>::new();
    for Claimed { tenant, row } in claimed {
        let hold = engine.held.hold(&tenant, row.key());
        // One claim may bring more of a webhook than may be sent at once.
        let permit = engine.webhooks.room.clone().try_acquire_owned();
        let Some(permit) = permit.ok().filter(|_| engine.webhooks.begin(&tenant, &row.worker)) else {
            no_room.entry(tenant).or_default().push(row.key());
            continue;
        };
        let of_task = engine.clone();
        engine.tasks.spawn(async move {
            let worker = row.worker.clone();
            deliver(&of_task, &tenant, row, (hold, permit)).await;
            of_task.webhooks.ended(&tenant, &worker);
            of_task.webhooks.alarm.at(of_task.now());
        });
    }
    for (tenant, rows) in no_room {
        lost::release(engine, &tenant, &rows).await;
    }
    engine.webhooks.alarm.at(engine.now().after(wait));
    Ok(())
}

/// One attempt at one delivery.
async fn deliver(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    row: DeliveryRow,
    (_hold, _permit): (Hold, OwnedSemaphorePermit),
) {
    let Some(webhook) = engine.subscribers.webhook(tenant, &row.worker) else {
        return lost::release(engine, tenant, &[row.key()]).await;
    };
    let target = Target::of_address(&webhook.url);
    if let Some(blocked) = blocked(engine, tenant, target.as_ref(), row.attempt > 0) {
        return park(engine, tenant, &row, blocked).await;
    }
    let ids: Vec<_> = row.events.iter().collect();
    let events = match engine.store.events_of(tenant, &ids).await {
        Ok(events) => events,
        Err(error) => {
            engine.tasks.heed(&error);
            return lost::release(engine, tenant, &[row.key()]).await;
        }
    };
    let began = engine.clock.steady_micros();
    let fatal = dead_letters::fatal(engine, row.taken_over);
    let mut answers = HashMap::new();
    let mut read = Vec::with_capacity(events.len());
    for event in events {
        let data = Data::parse(&event.event).unwrap_or_default();
        // Nothing of another tenant is sent to anybody, nor what nodes end with.
        let handled = match (&fatal, deliveries::is_of(tenant, &data)) {
            (_, false) => deliveries::refused(engine, tenant, &data, &row.worker),
            (Some(detail), true) => Handled::fail(Class::Poison, detail.clone()),
            (None, true) => {
                let attempted = attempt(engine, tenant, &row.worker, &webhook, &event).await;
                let (handled, well) = match attempted {
                    Ok(answered) => answered,
                    Err(unbegun) => return put_back(engine, tenant, &row, unbegun).await,
                };
                if let Some(target) = &target {
                    engine.guards.record(tenant, target, &[well], engine.now());
                }
                handled
            }
        };
        answers.insert(deliveries::key_of(event.id, &row.worker), handled);
        read.push((event.id, data));
    }
    let micros = engine.clock.steady_micros() - began;
    let retry = RetryPolicy {
        attempts_max: webhook.attempts_max,
        base: Span::from_secs(5),
        factor: 2.0,
        cap: Span::from_secs(6 * 3600),
    };
    let settling = Settling::of_own(engine, tenant, &row.worker, &retry);
    settling.settle_all(&[(&row, read.as_slice())], &answers, micros).await;
}

/// What is in the way of an attempt, if anything.
fn blocked(engine: &Engine, tenant: &TenantId, target: Option<&Target>, is_retry: bool) -> Option<Blocked> {
    let chance = || engine.entropy.unit();
    engine.guards.admit(tenant, target?, is_retry, engine.now(), chance).err()
}

/// Nothing was sent: the row is put back.
async fn put_back(engine: &Arc<Engine>, tenant: &TenantId, row: &DeliveryRow, unbegun: Unbegun) {
    unbegun.heed(engine);
    match unbegun {
        Unbegun::Away(error) => {
            let until = engine.now().after(STORE_WAIT);
            park(engine, tenant, row, Blocked { until, why: error.to_string() }).await;
        }
        Unbegun::Newer(_) | Unbegun::Late => lost::release(engine, tenant, &[row.key()]).await,
    }
}

/// Puts the row back for later; no attempt is counted.
async fn park(engine: &Arc<Engine>, tenant: &TenantId, row: &DeliveryRow, blocked: Blocked) {
    let Blocked { until, why } = blocked;
    let write = Write::RetryDelivery {
        id: row.id,
        owner: row.owner,
        visible_at: until,
        attempt: row.attempt,
        last_error: Some(why.into_bytes()),
    };
    dead_letters::commit_patiently(engine, tenant, vec![write]).await;
    engine.webhooks.alarm.at(until);
}

/// Sends one event. Answers also whether the receiver is well.
async fn attempt(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    worker: &str,
    webhook: &Webhook,
    event: &EventRow,
) -> Result<(Handled, bool), Unbegun> {
    let id = id::show(id::Kind::Event, event.id);
    let message = Message { url: &webhook.url, secrets: &webhook.secrets, id: &id, body: &event.event };
    let sent = crate::egress::discreetly(engine.egress.send_webhook(tenant, &message)).await;
    Ok(match sent {
        Err(Stop::Unbegun(unbegun)) => return Err(unbegun),
        Ok(answered) => {
            let well = !guards::is_unwell(answered.status);
            (answer(engine, tenant, worker, &answered).await, well)
        }
        Err(Stop::Fault(fault)) => {
            let is_passing =
                ["communication", "timeout", "runtime"].iter().any(|word| fault.error_type.ends_with(word));
            let well = !guards::is_endpoints(&fault);
            let detail = fault.detail.unwrap_or(fault.error_type);
            let handled = match is_passing {
                true => Handled::retry(detail),
                false => Handled::fail(Class::Validation, detail),
            };
            (handled, well)
        }
    })
}

/// What follows from what the receiver answered.
async fn answer(engine: &Engine, tenant: &TenantId, worker: &str, answered: &Answered) -> Handled {
    let Answered { status, retry_after } = *answered;
    match status {
        200..=299 => Handled::done(),
        410 => {
            disable(engine, tenant, worker).await;
            Handled::fail(Class::Validation, "the receiver answered 410: the webhook is disabled")
        }
        300..=399 => Handled::retry(format!("the receiver answered {status}; redirects are not followed")),
        429 | 503 => {
            let class = if status == 429 { Class::RateLimited } else { Class::Transient };
            let message = format!("the receiver answered {status}");
            Handled::Retry { failure: worker::Failure { class, message }, after: retry_after }
        }
        _ => Handled::retry(format!("the receiver answered {status}")),
    }
}

/// The receiver wants nothing more.
async fn disable(engine: &Engine, tenant: &TenantId, worker: &str) {
    let Some(name) = name_of(worker) else { return };
    let reason = format!("the receiver answered 410 at {}", engine.now().rfc3339());
    let disabled = store(engine, tenant, name, |known| {
        known.map(|webhook| Webhook { disabled: Some(reason.clone()), ..webhook })
    });
    match disabled.await {
        Ok(_) => tracing::warn!(%tenant, webhook = name, "a webhook is disabled: its receiver answered 410"),
        Err(refusal) => tracing::warn!(%tenant, webhook = name, %refusal, "a webhook could not be disabled"),
    }
}
