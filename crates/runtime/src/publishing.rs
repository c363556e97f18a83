//! Publishes many events at once: those that nothing but workers may want go in few commits, the others one by one.

use crate::{
    addressing::{self, Addressed},
    api::{Published, Refusal},
    collections,
    engine::Engine,
    event_types, events,
    metrics::Metrics,
    patience::Patience,
    refusal, spans,
    starts::to_the_end,
};
use machine::{Data, TenantId};
use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};
use store::{Commit, Outcome, Write, rows::EventRow};

/// Events in one commit.
const TOGETHER_MAX: usize = 500;

/// An event, and what emitted it if that was an instance or a worker.
pub(crate) type Given = (Data, Option<String>);

/// Each is answered by itself, in order.
pub(crate) async fn publish_many(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    given: Vec<Data>,
) -> Vec<Result<Published, Refusal>> {
    many(engine, tenant, given.into_iter().map(|event| (event, None)).collect()).await
}

/// The same for events of which some were emitted here.
pub(crate) async fn many(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    given: Vec<Given>,
) -> Vec<Result<Published, Refusal>> {
    if let [_] = given.as_slice() {
        return one_by_one(engine, tenant, given).await;
    }
    let now = engine.now_of(tenant);
    let count = given.len();
    let mut starts = HashMap::<String, bool>::new();
    let mut parts = vec![];
    let mut part = Part::default();
    for (event, emitted_by) in given {
        let read = events::read(engine, tenant, event.clone(), now).map(|(mut row, event)| {
            row.emitted_by.clone_from(&emitted_by);
            (row, event)
        });
        let together = match &read {
            // What does not fit its schema finds out by itself whether it was published before.
            Ok((row, event)) if event_types::check(engine, tenant, &row.event_type, event).await.is_err() => {
                false
            }
            Ok((row, _)) => match is_for_schedules(engine, tenant, row, &mut starts).await {
                Ok(is) => !is,
                Err(refusal) => return (0..count).map(|_| Err(refusal.clone())).collect(),
            },
            Err(_) => false,
        };
        if part.given.len() >= TOGETHER_MAX || part.together != together {
            parts.push(std::mem::take(&mut part));
            part.together = together;
        }
        part.given.push((event, emitted_by));
        part.read.extend(read.ok().filter(|_| together));
    }
    parts.push(part);
    let mut answers = vec![];
    for part in parts {
        answers.extend(part.publish(engine, tenant).await);
    }
    answers
}

async fn one_by_one(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    given: Vec<Given>,
) -> Vec<Result<Published, Refusal>> {
    let all = given.into_iter().map(async |(event, emitted_by)| {
        events::publish_of(engine, tenant, event, emitted_by.as_deref()).await
    });
    futures_util::future::join_all(all).await
}

/// Whether a schedule waits for events of this type; asked once per type.
async fn is_for_schedules(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    row: &EventRow,
    known: &mut HashMap<String, bool>,
) -> Result<bool, Refusal> {
    if let Some(known) = known.get(&row.event_type) {
        return Ok(*known);
    }
    let is = !collections::wanting(engine, tenant, row).await?.is_empty();
    known.insert(row.event_type.clone(), is);
    Ok(is)
}

/// Events that follow each other.
#[derive(Default)]
struct Part {
    together: bool,
    given: Vec<Given>,
    read: Vec<(EventRow, Data)>,
}

impl Part {
    async fn publish(self, engine: &Arc<Engine>, tenant: &TenantId) -> Vec<Result<Published, Refusal>> {
        if !self.together || self.given.len() < 2 {
            return one_by_one(engine, tenant, self.given).await;
        }
        if let Err(refusal) = events::is_open(engine, tenant) {
            return self.given.iter().map(|_| Err(refusal.clone())).collect();
        }
        let ids: Vec<_> = self.read.iter().map(|(row, _)| row.id).collect();
        let (of_work, tenant_of_work, read) = (engine.clone(), tenant.clone(), self.read);
        let work = async move { together(of_work, tenant_of_work, read).await };
        match to_the_end(engine, work).await {
            Ok(true) => {
                let published = |id| Ok(Published { id, replayed: false, started: vec![] });
                ids.into_iter().map(published).collect()
            }
            // One of them was published before, or is refused: each by itself finds out which.
            Ok(false) => one_by_one(engine, tenant, self.given).await,
            Err(refusal) => self.given.iter().map(|_| Err(refusal.clone())).collect(),
        }
    }
}

/// `false` if the store does not take them together.
async fn together(
    engine: Arc<Engine>,
    tenant: TenantId,
    mut read: Vec<(EventRow, Data)>,
) -> Result<bool, Refusal> {
    let addressed = addressing::address(&engine, &tenant, &mut read);
    let mut writes = Vec::with_capacity(read.len() + 1);
    let first = read[0].0.clone();
    let keeps = read.iter().any(|(row, _)| row.kept_until.is_some());
    writes.extend(read.into_iter().map(|(row, _)| Write::Publish(Box::new(row))));
    addressed.write(&mut writes);
    let commit = Commit { tenant, writes };
    engine.metrics.cost(&commit);
    if !land(&engine, &first, &commit).await? {
        return Ok(false);
    }
    for write in &commit.writes {
        if let Write::Publish(row) = write {
            spans::of_event(&engine, &commit.tenant, row);
        }
    }
    landed(&engine, &commit.tenant, addressed, keeps);
    Ok(true)
}

/// Commits; an unknown outcome is read back by the first event before it is tried again.
async fn land(engine: &Arc<Engine>, first: &EventRow, commit: &Commit) -> Result<bool, Refusal> {
    let mut patience = Patience::new();
    loop {
        match engine.committer.commit(commit.clone()).await {
            Ok(outcome) => return Ok(outcome == Outcome::Committed),
            Err(store::Error::Unknown(_)) => {}
            Err(error) => return Err(refusal::of_store(error)),
        }
        loop {
            match engine.store.event_of(&commit.tenant, &first.source, &first.event_id).await {
                Ok(Some(there)) => return Ok(there.id == first.id),
                Ok(None) => break,
                Err(error) if !patience.wait(engine).await => return Err(refusal::of_store(error)),
                Err(_) => {}
            }
        }
    }
}

fn landed(engine: &Arc<Engine>, tenant: &TenantId, addressed: Addressed, keeps: bool) {
    Metrics::add(&engine.metrics.commits);
    if keeps {
        engine.keeps_events.store(true, Ordering::Release);
    }
    // Signals of waits that were told are backlog.
    engine.backlog();
    addressed.dispatch(engine, tenant);
}
