//! One step of handing down: the children of some records are given their lists in one commit.

use crate::{engine::Engine, metrics::Metrics, records::list_row};
use machine::{
    TenantId, Time,
    acl::{Acl, Effective},
    time::Span,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};
use store::{
    Commit, Outcome, RecordWrite, Write,
    records::{Handed, WorkStep, WorkThen},
    rows::{AclListRow, AclNode, AclWorkRow},
};
use uuid::Uuid;

/// Children that are given their lists in one commit.
const CHILDREN_MAX: usize = 1_000;
/// The longest pause before what failed is tried again.
const PAUSE_MAX: Span = Span::from_secs(300);

/// What a step comes to, grown child by child.
#[derive(Default)]
struct Step {
    parents: Vec<(String, i64)>,
    children: Vec<Handed>,
    lists: BTreeMap<Uuid, AclListRow>,
    settled: Vec<WorkStep>,
    works: Vec<AclWorkRow>,
}

/// Takes the step; `false` if somebody else was faster.
pub(super) async fn step(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    works: &[AclWorkRow],
) -> Result<bool, store::Error> {
    let step = match works {
        [work] if work.error.is_some() => failed(engine, tenant, work).await?,
        _ => children(engine, tenant, works).await?,
    };
    let count = step.children.len() as u64;
    match engine.committer.commit(step.commit(tenant)).await? {
        Outcome::Committed => {
            Metrics::add_many(&engine.metrics.acl_records, count);
            Ok(true)
        }
        Outcome::Conflict(_) => Ok(false),
        Outcome::Rejected(why) if works.len() == 1 => put_off(engine, tenant, &works[0], why).await,
        Outcome::Rejected(_) => {
            let mut all = true;
            for work in works {
                all &= Box::pin(self::step(engine, tenant, std::slice::from_ref(work))).await?;
            }
            Ok(all)
        }
    }
}

impl Step {
    fn commit(self, tenant: &TenantId) -> Commit {
        let mut writes = vec![RecordWrite::SettleWork(self.settled)];
        if !self.lists.is_empty() {
            writes.push(RecordWrite::Lists(self.lists.into_values().collect()));
        }
        writes.push(RecordWrite::HandDown { parents: self.parents, children: self.children });
        if !self.works.is_empty() {
            writes.push(RecordWrite::PutWork(self.works));
        }
        let writes = writes.into_iter().map(|write| Write::Record(Box::new(write))).collect();
        Commit { tenant: tenant.clone(), writes }
    }

    /// Gives the record this list, and says that there is something to do below it.
    fn give(&mut self, node: &AclNode, was: &Effective, list: &Effective, work: AclWorkRow) {
        self.lists.entry(list.id()).or_insert_with(|| list_row(list));
        self.children.push(Handed {
            id: node.id.clone(),
            parent: node.parent.clone(),
            generation: node.generation,
            effective: list.id(),
        });
        self.works.push(AclWorkRow { revokes: was.loses_in(list), ..work });
    }
}

/// Work that follows from other work.
fn below(work: &AclWorkRow, record: &str, now: Time) -> AclWorkRow {
    AclWorkRow {
        record: record.to_owned(),
        root: work.root.clone(),
        revokes: work.revokes,
        level: work.level + 1,
        since: work.since,
        due_at: now,
        cursor: None,
        attempt: 0,
        error: None,
        row_version: 1,
    }
}

/// The children of these records are given their lists.
async fn children(engine: &Engine, tenant: &TenantId, works: &[AclWorkRow]) -> Result<Step, store::Error> {
    let records = engine.store.records();
    let ids: Vec<String> = works.iter().map(|work| work.record.clone()).collect();
    let after = works.first().and_then(|work| work.cursor.as_deref());
    // Parents first: whoever changes one in between spoils the guard.
    let nodes = records.acl_nodes(tenant, &ids).await?;
    let children = records.acl_children(tenant, &ids, after, CHILDREN_MAX).await?;
    let lists = lists(engine, tenant, nodes.iter().chain(&children)).await?;
    let nodes: BTreeMap<&str, &AclNode> = nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let by_record: HashMap<&str, &AclWorkRow> =
        works.iter().map(|work| (work.record.as_str(), work)).collect();
    let last = children.last().filter(|_| children.len() == CHILDREN_MAX);
    let mut step = Step::default();
    for work in works {
        let then = match last.and_then(|last| Some((last.parent.as_deref()?, last))) {
            // Its children did not fit.
            Some((parent, _)) if work.record.as_str() > parent => continue,
            Some((parent, last)) if work.record == parent => WorkThen::GoOn(last.id.clone()),
            _ => WorkThen::Done,
        };
        let node = nodes.get(work.record.as_str());
        step.parents.extend(node.map(|node| (node.id.clone(), node.generation)));
        step.settled.push(WorkStep { record: work.record.clone(), row_version: work.row_version, then });
    }
    let now = engine.now();
    for child in &children {
        let parent = child.parent.as_deref().unwrap_or_default();
        let (Some(node), Some(work)) = (nodes.get(parent), by_record.get(parent)) else { continue };
        let (Some(above), Some(was)) = (lists.get(&node.effective), lists.get(&child.effective)) else {
            continue;
        };
        match Acl::parse(&child.acl) {
            Ok(own) => {
                let list = Effective::of(Some(above), &own);
                if list != *was {
                    step.give(child, was, &list, below(work, &child.id, now));
                }
            }
            // Nobody may anything with what cannot be read, and it is told.
            Err(why) => {
                tracing::error!(%tenant, record = child.id, why, "the grants of a record cannot be read");
                let failed = AclWorkRow { error: Some(why), ..below(work, &child.id, now) };
                step.give(child, was, &Effective::default(), failed);
            }
        }
    }
    Ok(step)
}

async fn lists<'n>(
    engine: &Engine,
    tenant: &TenantId,
    nodes: impl Iterator<Item = &'n AclNode>,
) -> Result<HashMap<Uuid, Effective>, store::Error> {
    let ids: BTreeSet<Uuid> = nodes.map(|node| node.effective).collect();
    let ids: Vec<Uuid> = ids.into_iter().collect();
    let mut lists = HashMap::with_capacity(ids.len());
    for (id, bytes) in engine.store.records().acl_lists(tenant, &ids).await? {
        // Nobody may anything by a list that cannot be read; it must not end the node, nor the next that takes its turn.
        let list = Effective::parse(&bytes).unwrap_or_else(|why| {
            tracing::error!(%tenant, list = %id, why, "a list of who may do what cannot be read");
            Effective::default()
        });
        lists.insert(id, list);
    }
    Ok(lists)
}

/// A record whose own list could not be made: it is tried again, and its children have what it has meanwhile.
async fn failed(engine: &Engine, tenant: &TenantId, work: &AclWorkRow) -> Result<Step, store::Error> {
    let records = engine.store.records();
    let own = records.acl_nodes(tenant, std::slice::from_ref(&work.record)).await?.pop();
    let Some(own) = own else { return children(engine, tenant, std::slice::from_ref(work)).await };
    let above = match &own.parent {
        Some(parent) => records.acl_nodes(tenant, std::slice::from_ref(parent)).await?.pop(),
        None => None,
    };
    let acl = match Acl::parse(&own.acl) {
        Ok(acl) => acl,
        Err(why) => {
            let mut step = children(engine, tenant, std::slice::from_ref(work)).await?;
            for settled in step.settled.iter_mut().filter(|settled| settled.then == WorkThen::Done) {
                settled.then = later(engine, work, why.clone());
            }
            return Ok(step);
        }
    };
    let lists = lists(engine, tenant, std::iter::once(&own).chain(&above)).await?;
    let was = lists.get(&own.effective).cloned().unwrap_or_default();
    let list = Effective::of(above.as_ref().and_then(|above| lists.get(&above.effective)), &acl);
    let mut step = Step::default();
    step.parents.extend(above.map(|above| (above.id, above.generation)));
    let (record, row_version) = (work.record.clone(), work.row_version);
    step.settled.push(WorkStep { record, row_version, then: WorkThen::Done });
    let again = AclWorkRow { attempt: work.attempt + 1, ..below(work, &own.id, engine.now()) };
    step.give(&own, &was, &list, again);
    Ok(step)
}

fn later(engine: &Engine, work: &AclWorkRow, error: String) -> WorkThen {
    let seconds = 1_i64 << work.attempt.min(16);
    let pause = Span::from_secs(seconds).min(PAUSE_MAX);
    WorkThen::Later { due_at: engine.now().after(pause), attempt: work.attempt.saturating_add(1), error }
}

/// The store does not take what follows from this one: the rest goes on without it.
async fn put_off(
    engine: &Engine,
    tenant: &TenantId,
    work: &AclWorkRow,
    why: String,
) -> Result<bool, store::Error> {
    tracing::error!(%tenant, record = work.record, why, "lists below a record cannot be handed down");
    let (record, row_version) = (work.record.clone(), work.row_version);
    let settled = vec![WorkStep { record, row_version, then: later(engine, work, why) }];
    let write = Write::Record(Box::new(RecordWrite::SettleWork(settled)));
    engine.committer.commit(Commit { tenant: tenant.clone(), writes: vec![write] }).await?;
    Ok(true)
}
