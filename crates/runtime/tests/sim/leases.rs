//! What is true of leases and owners, kept beside the store: whose lease runs by the store's clock, who owns which row.
//!
//! Versions and tokens make most breaches of ownership harmless, and so invisible at the end of a seed. Here they are seen
//! where they happen: what a fenced node still commits, a node fenced while its lease runs, a row that two nodes own.

use super::{
    chaos::{Chaos, Mutant},
    faulty::Faulty,
    time,
};
use machine::{TenantId, Time, time::Span};
use std::collections::{BTreeMap, BTreeSet};
use store::{Commit, Error, Outcome, Renewed, Result, Store, Write, rows::*};
use uuid::Uuid;

/// Rows of one node that are looked at around a take-over.
const OWNED_MAX: usize = 10_000;

/// A queue row of a tenant.
type Row = (String, QueueKey);

/// A node as the store must see it.
struct Lease {
    /// When it ends unless it is renewed, by the store's clock.
    until: Time,
    is_over: bool,
    /// Every row it has ever owned.
    had: BTreeSet<Row>,
}

#[derive(Default)]
pub(crate) struct Leases {
    nodes: BTreeMap<Uuid, Lease>,
    owners: BTreeMap<Row, Uuid>,
    /// Rows that are known to be there.
    there: BTreeSet<Row>,
    breaches: Vec<String>,
}

impl Leases {
    /// What must never have happened and did.
    pub(crate) fn breaches(&self) -> Vec<String> {
        self.breaches.clone()
    }

    fn breach(&mut self, chaos: &Chaos, text: String) {
        chaos.note(format_args!("breach: {text}"));
        self.breaches.push(text);
    }

    fn lives(&self, node: Uuid) -> bool {
        self.nodes.get(&node).is_some_and(|lease| !lease.is_over)
    }

    /// The nodes that are neither fenced nor gone, but for this one.
    fn others(&self, node: Uuid) -> Vec<Uuid> {
        let living = self.nodes.iter().filter(|(id, lease)| **id != node && !lease.is_over);
        living.map(|(id, _)| *id).collect()
    }

    /// It joined, or renewed its lease.
    fn leased(&mut self, node: Uuid, lease_ms: i64) {
        let until = time::now().after(Span(lease_ms * 1000));
        let fresh = || Lease { until, is_over: false, had: BTreeSet::new() };
        self.nodes.entry(node).or_insert_with(fresh).until = until;
    }

    /// Somebody took over: whoever had let its lease end is fenced, and nobody else.
    fn taken_over(&mut self, by: Uuid) {
        let now = time::now();
        let ended = |(id, lease): &(&Uuid, &Lease)| **id != by && !lease.is_over && lease.until < now;
        let ended: Vec<Uuid> = self.nodes.iter().filter(ended).map(|(id, _)| *id).collect();
        for node in ended {
            self.gone(node);
        }
    }

    /// Its lease is over and its rows are nobody's.
    fn gone(&mut self, node: Uuid) {
        if let Some(lease) = self.nodes.get_mut(&node) {
            lease.is_over = true;
        }
        self.owners.retain(|_, owner| *owner != node);
    }

    /// P7: the store refused it as fenced, which only the end of its lease allows.
    fn refused(&mut self, chaos: &Chaos, node: Uuid) {
        if self.lives(node) {
            self.breach(chaos, format!("P7: {node} was fenced while its lease ran"));
            self.gone(node);
        }
    }

    /// P7: what a node commits lands before it is fenced or not at all.
    fn committed(&mut self, chaos: &Chaos, node: Uuid, changes: Vec<Change>) {
        if !self.lives(node) {
            self.breach(chaos, format!("P7: {node} committed after it was fenced"));
        }
        for (row, owner, fate) in changes {
            match fate {
                // Writing a signal that is there changes nothing.
                Fate::Made if !self.there.insert(row.clone()) && matches!(row.1, QueueKey::Signal { .. }) => {
                    continue;
                }
                Fate::Gone => {
                    self.there.remove(&row);
                }
                // A row of somebody else's stays as it is.
                Fate::Back { from } if self.owners.get(&row).copied() != from => continue,
                Fate::Made | Fate::Back { .. } => {}
            }
            self.own(row, owner);
        }
    }

    /// Rows that are to be given back and are another's who lives, with whose they are.
    fn foreign<'a>(&self, node: Uuid, changes: impl Iterator<Item = &'a Change>) -> Vec<(Uuid, Row)> {
        let others = changes.filter_map(|(row, _, fate)| {
            let owner = *self.owners.get(row).filter(|_| matches!(fate, Fate::Back { .. }))?;
            (owner != node && self.lives(owner)).then(|| (owner, row.clone()))
        });
        others.collect()
    }

    /// P7: what is claimed was nobody's.
    fn claimed(&mut self, chaos: &Chaos, node: Uuid, row: Row) {
        let owner = self.owners.get(&row).copied();
        if let Some(owner) = owner.filter(|owner| *owner != node && self.lives(*owner)) {
            self.breach(chaos, format!("P7: {node} claimed {row:?}, which {owner} owns"));
        }
        self.own(row, Some(node));
    }

    fn own(&mut self, row: Row, owner: Option<Uuid>) {
        match owner {
            None => drop(self.owners.remove(&row)),
            Some(owner) => {
                if let Some(lease) = self.nodes.get_mut(&owner) {
                    lease.had.insert(row.clone());
                }
                self.owners.insert(row, owner);
            }
        }
    }
}

/// A row, whose it becomes, and what becomes of it.
type Change = (Row, Option<Uuid>, Fate);

#[derive(Clone, Copy)]
enum Fate {
    Made,
    /// Given back by who says that it owns it.
    Back {
        from: Option<Uuid>,
    },
    Gone,
}

/// What the commit does to rows of the queues.
fn changes(commit: &Commit) -> Vec<Change> {
    let call = |instance: &Uuid, token: &u64| QueueKey::Call { instance: *instance, token: *token };
    let timer = |instance: &Uuid, token: &u64| QueueKey::Timer { instance: *instance, token: *token };
    let back = |from| Fate::Back { from };
    let change = |write: &Write| {
        let (key, owner, fate) = match write {
            Write::Signal(row) => (row.key(), row.owner, Fate::Made),
            Write::Timer(row) => (row.key(), row.owner, Fate::Made),
            Write::Call(row) => (row.key(), row.owner, Fate::Made),
            Write::Delivery(row) => (row.key(), row.owner, Fate::Made),
            Write::ConsumeSignal { id } => (QueueKey::Signal { id: *id }, None, Fate::Gone),
            Write::ConsumeTimer { instance, token } | Write::DropTimer { instance, token } => {
                (timer(instance, token), None, Fate::Gone)
            }
            Write::ConsumeCall { instance, token } | Write::DropCall { instance, token } => {
                (call(instance, token), None, Fate::Gone)
            }
            Write::ConsumeDelivery { id, .. } => (QueueKey::Delivery { id: *id }, None, Fate::Gone),
            Write::RetrySignal { id, owner, .. } => (QueueKey::Signal { id: *id }, None, back(*owner)),
            Write::RetryDelivery { id, owner, .. } => (QueueKey::Delivery { id: *id }, None, back(*owner)),
            Write::RetryTimer { instance, token, owner, .. } => (timer(instance, token), None, back(*owner)),
            Write::RetryCall { instance, token, owner, .. } => (call(instance, token), None, back(*owner)),
            Write::Release { row, owner } => (*row, None, back(Some(*owner))),
            _ => return None,
        };
        Some(((commit.tenant.to_string(), key), owner, fate))
    };
    commit.writes.iter().filter_map(change).collect()
}

/// What the store does to leases and owners, watched.
impl Faulty {
    /// Only the store's clock counts for leases. LocalClock: each node's own does.
    fn lease_time(&self, own: Time) -> Time {
        if self.chaos.is(Mutant::LocalClock) { own } else { time::now() }
    }

    pub(super) async fn watched_join(&self, node: Uuid, now: Time, lease_ms: i64) -> Result<()> {
        self.inner.join(node, self.lease_time(now), lease_ms).await?;
        self.leases.lock().leased(node, lease_ms);
        Ok(())
    }

    pub(super) async fn watched_renew(&self, node: Uuid, now: Time, lease_ms: i64) -> Result<Renewed> {
        let renewed = self.heeded(node, self.inner.renew(node, self.lease_time(now), lease_ms).await)?;
        self.leases.lock().leased(node, lease_ms);
        Ok(renewed)
    }

    pub(super) async fn watched_take_over(&self, node: Uuid, now: Time) -> Result<u64> {
        let before = self.owned_by_others(node).await?;
        let rows = self.heeded(node, self.inner.take_over(node, self.lease_time(now)).await)?;
        self.leases.lock().taken_over(node);
        self.compare(node, before).await?;
        Ok(rows)
    }

    pub(super) async fn watched_leave(&self, node: Uuid) -> Result<()> {
        let before = self.owned_by_others(node).await?;
        if self.chaos.is(Mutant::ZombieRelease) {
            self.release_all_it_had(node).await?;
        }
        self.inner.leave(node).await?;
        self.leases.lock().gone(node);
        self.compare(node, before).await
    }

    pub(super) async fn watched_commit(&self, node: Uuid, batch: Vec<Commit>) -> Result<Vec<Outcome>> {
        let changes: Vec<Vec<Change>> = batch.iter().map(changes).collect();
        let foreign = self.leases.lock().foreign(node, changes.iter().flatten());
        let again = if self.chaos.is(Mutant::NoFence) { batch.clone() } else { vec![] };
        let outcomes = match self.heeded(node, self.inner.commit(node, batch).await) {
            Err(Error::Fenced) if !again.is_empty() => self.commit_unfenced(again).await?,
            answer => answer?,
        };
        {
            let mut leases = self.leases.lock();
            for (outcome, changes) in outcomes.iter().zip(changes) {
                if *outcome == Outcome::Committed {
                    leases.committed(&self.chaos, node, changes);
                }
            }
        }
        self.still_theirs(node, foreign).await?;
        Ok(outcomes)
    }

    /// P7: what failed or is given back is so by its owner. What lives on with another stays the other's.
    async fn still_theirs(&self, node: Uuid, foreign: Vec<(Uuid, Row)>) -> Result<()> {
        for (of, row) in foreign {
            let tenant = TenantId::new(&row.0).expect("a tenant of ours");
            let place = self.inner.place(&tenant, row.1).await?;
            if place.is_some_and(|place| place.owner != Some(of)) {
                let text = format!("P7: {node} gave back {row:?}, which {of} owns");
                self.leases.lock().breach(&self.chaos, text);
            }
        }
        Ok(())
    }

    pub(super) fn watched_claim<T>(
        &self,
        node: Uuid,
        claimed: Result<Vec<Claimed<T>>>,
        key: fn(&T) -> QueueKey,
    ) -> Result<Vec<Claimed<T>>> {
        let claimed = self.heeded(node, claimed)?;
        let mut leases = self.leases.lock();
        for row in &claimed {
            leases.claimed(&self.chaos, node, (row.tenant.to_string(), key(&row.row)));
        }
        Ok(claimed)
    }

    /// Notes a refusal.
    fn heeded<T>(&self, node: Uuid, answer: Result<T>) -> Result<T> {
        if matches!(answer, Err(Error::Fenced)) {
            self.leases.lock().refused(&self.chaos, node);
        }
        answer
    }

    async fn owned_by_others(&self, node: Uuid) -> Result<Vec<(Uuid, Row)>> {
        let others = self.leases.lock().others(node);
        let mut owned = Vec::new();
        for other in others {
            let rows = self.inner.owned(other, OWNED_MAX).await?;
            owned.extend(rows.into_iter().map(|row| (other, (row.tenant.to_string(), row.row))));
        }
        Ok(owned)
    }

    /// P7: whatever one node gives back or takes over, the rows of those that live stay their own.
    async fn compare(&self, node: Uuid, before: Vec<(Uuid, Row)>) -> Result<()> {
        let after: BTreeSet<(Uuid, Row)> = self.owned_by_others(node).await?.into_iter().collect();
        let mut leases = self.leases.lock();
        for (of, row) in before {
            if leases.lives(of) && !after.contains(&(of, row.clone())) {
                leases.breach(&self.chaos, format!("P7: {node} took {row:?} from {of}, which lives"));
            }
        }
        Ok(())
    }

    /// NoFence: the batch lands all the same. The store's own comparison cannot be switched off from here, so somebody
    /// commits it who is not fenced.
    async fn commit_unfenced(&self, batch: Vec<Commit>) -> Result<Vec<Outcome>> {
        let nobody = Uuid::from_u128(2);
        self.inner.join(nobody, time::now(), 1).await?;
        let outcomes = self.inner.commit(nobody, batch).await;
        self.inner.leave(nobody).await?;
        outcomes
    }

    /// ZombieRelease: gives back every row it ever had, whoever has it now.
    async fn release_all_it_had(&self, node: Uuid) -> Result<()> {
        let (had, others) = {
            let leases = self.leases.lock();
            (leases.nodes.get(&node).map(|lease| lease.had.clone()).unwrap_or_default(), leases.others(node))
        };
        for other in others {
            for Claimed { tenant, row } in self.inner.owned(other, OWNED_MAX).await? {
                if had.contains(&(tenant.to_string(), row)) {
                    let writes = vec![Write::Release { row, owner: other }];
                    self.inner.commit(other, vec![Commit { tenant, writes }]).await?;
                }
            }
        }
        Ok(())
    }
}
