//! Batches: an act on all that a query finds, as an object that is paced, paused, followed and never done twice.
//!
//! A batch is a row that says when somebody has something to do for it. A node that takes one up puts it off by a lease, and
//! again while it works, so that another goes on if the first is gone. First what the query finds is written down, page by
//! page; then each item gets its act in a commit that also settles the item. Two nodes at one batch therefore do it once.

mod act;
mod order;
mod ramp;
mod select;

pub(crate) use order::{create, order};
pub(crate) use select::preview;

use crate::{
    api::{Act, Refusal},
    dead_letters::{Follow, Letters, Settled},
    engine::Engine,
    outage::Outage,
};
use futures_util::{FutureExt, StreamExt, stream};
use machine::{
    TenantId, Time, id,
    query::{self, Condition},
    time::Span,
};
use ramp::Step;
use std::sync::Arc;
use store::{
    Commit, Outcome, Write,
    rows::{BatchItemRow, BatchRow, Claimed, ItemOutcome, Settlement},
    views::{ItemAsk, PAGE_MAX},
};
use tokio::sync::Semaphore;

/// How long a node has a batch before another may take it up.
const LEASE: Span = Span::from_secs(10);
/// Batches that one node works on at the same time.
const WORKED_MAX: usize = 4;
/// Items that are acted on before the batch is looked at again, and at the same time.
const SLICE_MAX: u64 = 100;
const AT_ONCE_MAX: usize = 16;
/// How long to wait when there is no room, when the store does not answer, and for what was put back.
const ROOM_WAIT: Span = Span::from_secs(1);
const STORE_WAIT: Span = Span::from_millis(500);
const SETTLE_WAIT: Span = Span::from_millis(250);

/// The words of a batch's status.
pub(crate) const RUNNING: &str = "running";
pub(crate) const PAUSED: &str = "paused";
pub(crate) const HALTED: &str = "halted";
pub(crate) const DONE: &str = "done";
pub(crate) const CANCELLED: &str = "cancelled";

/// Takes up batches that have something to do until the node stops.
pub(crate) async fn run(engine: Arc<Engine>) {
    let stopping = engine.tasks.stopping.clone();
    let room = Arc::new(Semaphore::new(WORKED_MAX));
    // Where there is one process, whoever had a batch before it began is gone.
    let mut ahead = if engine.sole { LEASE } else { Span::ZERO };
    let mut outage = Outage::new("looking for batches");
    engine.wake.batches.at(engine.now());
    while !stopping.is_cancelled() {
        let until = engine.wake.batches.next();
        if engine.now() < until {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                () = engine.wake.batches.sooner() => {}
                () = engine.clock.sleep_until(until) => {}
            }
            continue;
        }
        engine.wake.batches.reset();
        match look(&engine, &room, ahead).await {
            Ok(()) => {
                ahead = Span::ZERO;
                let _ = outage.worked();
            }
            Err(error) => {
                engine.tasks.heed(&error);
                outage.failed(&error);
                engine.wake.batches.at(engine.now().after(STORE_WAIT));
            }
        }
    }
}

async fn look(engine: &Arc<Engine>, room: &Arc<Semaphore>, ahead: Span) -> Result<(), store::Error> {
    let until = engine.now().after(ahead);
    match engine.store.next_batch_due().await? {
        None => return Ok(()),
        Some(later) if later > until => {
            engine.wake.batches.at(later);
            return Ok(());
        }
        Some(_) => {}
    }
    for Claimed { tenant, row } in engine.store.due_batches(until, WORKED_MAX).await? {
        let Ok(permit) = room.clone().try_acquire_owned() else { break };
        let later = BatchRow { due_at: Some(engine.now().after(LEASE)), ..row.clone() };
        let Some(taken) = put(engine, &tenant, &row, later, vec![]).await? else { continue };
        let owned = engine.clone();
        engine.tasks.spawn_pump(async move {
            work(&owned, &tenant, taken).await;
            drop(permit);
            owned.wake.batches.at(owned.now());
        });
    }
    if let Some(next) = engine.store.next_batch_due().await? {
        let wait = if room.available_permits() == 0 { ROOM_WAIT } else { Span::ZERO };
        engine.wake.batches.at(next.max(engine.now().after(wait)));
    }
    Ok(())
}

/// Writes the batch if it is as it was, and what goes with it. Answers it as it is then; `None` if somebody else changed it,
/// or nobody knows.
async fn put(
    engine: &Engine,
    tenant: &TenantId,
    before: &BatchRow,
    after: BatchRow,
    also: Vec<Write>,
) -> Result<Option<BatchRow>, store::Error> {
    let after = BatchRow { row_version: before.row_version + 1, updated_at: engine.now_of(tenant), ..after };
    let put = Write::PutBatch { row: Box::new(after.clone()), expected_version: before.row_version };
    let commit = Commit { tenant: tenant.clone(), writes: [vec![put], also].concat() };
    match engine.committer.commit(commit).await {
        Ok(Outcome::Committed) => {
            engine.hub.changed(tenant, "batch", after.id, &after.status, after.row_version, engine.now());
            Ok(Some(after))
        }
        Ok(_) | Err(store::Error::Unknown(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a batch does, read from its row.
struct Plan {
    act: Act,
    conditions: Vec<Condition>,
}

impl Plan {
    fn of(row: &BatchRow) -> Result<Plan, String> {
        let act: Act = serde_json::from_slice(&row.arguments).map_err(|error| error.to_string())?;
        let conditions = query::parse(act.subject(), &row.query, row.created_at);
        Ok(Plan { conditions: conditions.map_err(|error| error.to_string())?, act })
    }
}

/// Works on a batch until it ends, somebody else changes it, or the node stops.
async fn work(engine: &Arc<Engine>, tenant: &TenantId, row: BatchRow) {
    let batch = row.id;
    let plan = match Plan::of(&row) {
        Ok(plan) => plan,
        Err(detail) => {
            let halted = halted(&row, format!("the batch cannot be read: {detail}"));
            let _ = put(engine, tenant, &row, halted, vec![]).await;
            return;
        }
    };
    let mut row = row;
    loop {
        let at = match step(engine, tenant, &mut row, &plan).await {
            Ok(Some(at)) => at,
            Ok(None) => return,
            Err(error) => {
                engine.tasks.heed(&error);
                tracing::warn!(%tenant, %batch, %error, "a batch waits for the store");
                engine.now().after(STORE_WAIT)
            }
        };
        tokio::select! {
            biased;
            () = engine.tasks.stopping.cancelled() => return,
            () = engine.clock.sleep_until(at) => {}
        }
    }
}

/// Takes one step. Answers when to take the next; `None` if this node has nothing more to do for it.
async fn step(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    row: &mut BatchRow,
    plan: &Plan,
) -> Result<Option<Time>, store::Error> {
    if !keep(engine, tenant, row).await? {
        return Ok(None);
    }
    if row.selected_at.is_none() {
        return select::page(engine, tenant, row, plan).await;
    }
    if row.counts.sent > 0 && settle_sent(engine, tenant, row).await? && !keep(engine, tenant, row).await? {
        return Ok(None);
    }
    let began = engine.now();
    let count = match ramp::next(plan.act.stages(), row) {
        Step::Finish => {
            let ended_at = Some(engine.now_of(tenant));
            let done =
                BatchRow { status: DONE.to_owned(), due_at: None, ended_at, detail: None, ..row.clone() };
            let done = put(engine, tenant, row, done, vec![]).await?;
            tracing::info!(%tenant, batch = %row.id, act = row.act, landed = done.is_some(), "a batch is done");
            return Ok(None);
        }
        Step::Halt(detail) => {
            tracing::warn!(%tenant, batch = %row.id, act = row.act, detail, "a batch is halted");
            put(engine, tenant, row, halted(row, detail), vec![]).await?;
            return Ok(None);
        }
        Step::Wait => return Ok(Some(began.after(SETTLE_WAIT))),
        Step::Send(count) => count.min(slice(row.rate)),
    };
    let ask =
        ItemAsk { batch: row.id, outcome: Some(ItemOutcome::Waiting), after: None, limit: count as usize };
    let items = engine.store.batch_items(tenant, &ask).await?;
    let mut acts = Vec::with_capacity(items.len());
    for item in &items {
        acts.push(act::on(engine, tenant, row, plan, item.item).boxed());
    }
    let answers: Vec<Result<(), Refusal>> = stream::iter(acts).buffer_unordered(AT_ONCE_MAX).collect().await;
    match answers.into_iter().find_map(Result::err) {
        Some(refusal) => {
            tracing::warn!(%tenant, batch = %row.id, %refusal, "items of a batch wait");
            Ok(Some(engine.now().after(STORE_WAIT)))
        }
        None => Ok(Some(began.after(Span(1_000_000 * count as i64 / i64::from(row.rate.max(1)))))),
    }
}

/// Items of one step: a fifth of a second's.
fn slice(rate: u32) -> u64 {
    u64::from(rate / 5).clamp(1, SLICE_MAX)
}

/// Reads the batch again and makes sure that no other node takes it up. `false` if somebody else has changed it.
async fn keep(engine: &Engine, tenant: &TenantId, row: &mut BatchRow) -> Result<bool, store::Error> {
    let Some(stored) = engine.store.batch(tenant, row.id).await? else { return Ok(false) };
    let is_same = stored.row_version == row.row_version && stored.status == RUNNING;
    if !is_same || engine.tenants.standing(tenant).is_parked() {
        return Ok(false);
    }
    *row = stored;
    if row.due_at.is_some_and(|due| due.since(engine.now()).0 > LEASE.0 / 2) {
        return Ok(true);
    }
    let later = BatchRow { due_at: Some(engine.now().after(LEASE)), ..row.clone() };
    match put(engine, tenant, row, later, vec![]).await? {
        Some(kept) => {
            *row = kept;
            Ok(true)
        }
        None => Ok(false),
    }
}

fn halted(row: &BatchRow, detail: String) -> BatchRow {
    BatchRow { status: HALTED.to_owned(), detail: Some(detail), due_at: None, ..row.clone() }
}

/// Looks at what became of items that were put back. `true` if any has its outcome now.
async fn settle_sent(engine: &Arc<Engine>, tenant: &TenantId, row: &BatchRow) -> Result<bool, store::Error> {
    let ask = ItemAsk { batch: row.id, outcome: Some(ItemOutcome::Sent), after: None, limit: PAGE_MAX };
    let sent = engine.store.batch_items(tenant, &ask).await?;
    let since = sent.iter().filter_map(|item| item.at).min().unwrap_or(row.created_at);
    let mut letters = Letters::default();
    let mut any = false;
    for item in sent {
        let settled = match followed(&item) {
            Some(follow) => {
                let at =
                    if matches!(follow, Follow::Delivery { .. }) { since } else { item.at.unwrap_or(since) };
                follow.settled(engine, tenant, at, &mut letters).await?
            }
            None => Settled::Well,
        };
        let (to, detail) = match settled {
            Settled::Open => continue,
            Settled::Well => (ItemOutcome::Done, None),
            Settled::Again(letter, why) => (ItemOutcome::Failed, Some(again(letter, &why))),
        };
        let (batch, at) = (row.id, engine.now());
        let settlement = Settlement { batch, item: item.item, from: ItemOutcome::Sent, to, detail, at };
        let commit = Commit { tenant: tenant.clone(), writes: vec![Write::SettleItem(settlement)] };
        engine.committer.commit(commit).await?;
        any = true;
    }
    Ok(any)
}

fn followed(item: &BatchItemRow) -> Option<Follow> {
    serde_json::from_str(item.detail.as_deref()?).ok()
}

fn again(letter: Option<uuid::Uuid>, why: &str) -> String {
    match letter {
        Some(letter) => format!("it failed again, as {}: {why}", id::show(id::Kind::DeadLetter, letter)),
        None => format!("it failed again: {why}"),
    }
}
