//! Tenants at run time: what each may do now, and how much. The store knows; a node keeps in mind what is not as usual
//! (status, weight, limits), and reads it again when it is told that something changed, and now and then.
//!
//! The store itself hands out nothing of a tenant that is parked; what is here keeps rows from being born owned, gives back
//! what waits in memory, and refuses what would be new.

mod admission;
mod order;

pub(crate) use admission::{Admission, admit_publish, admit_start, is_writable};
pub use order::{GRACE_MAX, TenantOrder};
pub(crate) use order::{change, order};

use crate::{calls, clocks, deliveries, engine::Engine, lanes::Rule};
use machine::{TenantId, Time};
use parking_lot::{Mutex, RwLock};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use store::rows::{LimitsRow, TenantRow};

/// The largest weight.
pub const WEIGHT_MAX: u32 = 1_000;

/// What a tenant may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Active,
    /// Goes on with what it has, and takes hardly anything new.
    Degraded,
    /// Does nothing; what it has waits.
    Suspended,
    /// Does nothing, and goes when its time of grace is over.
    Deleted,
}

impl Standing {
    pub(crate) fn of(word: &str) -> Standing {
        match word {
            "degraded" => Standing::Degraded,
            "suspended" => Standing::Suspended,
            "deleted" => Standing::Deleted,
            _ => Standing::Active,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Standing::Active => "active",
            Standing::Degraded => "degraded",
            Standing::Suspended => "suspended",
            Standing::Deleted => "deleted",
        }
    }

    /// Nothing of it is handed out or done.
    pub fn is_parked(self) -> bool {
        matches!(self, Standing::Suspended | Standing::Deleted)
    }
}

/// What is not as usual about a tenant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) standing: Standing,
    pub(crate) limits: LimitsRow,
    purge_at: Option<Time>,
}

/// What a node keeps in mind of all tenants.
#[derive(Default)]
pub(crate) struct Tenants {
    /// False while everybody is as usual, which spares a look-up for every row.
    any: AtomicBool,
    known: RwLock<HashMap<TenantId, Known>>,
    /// Everybody there was at the last reading.
    all: Mutex<HashSet<TenantId>>,
    admission: Mutex<HashMap<TenantId, Admission>>,
    /// Held from reading the store to keeping what was read: an older answer must not replace a newer one.
    reading: tokio::sync::Mutex<()>,
}

impl Tenants {
    pub(crate) fn known(&self, tenant: &TenantId) -> Option<Known> {
        match self.any.load(Ordering::Acquire) {
            true => self.known.read().get(tenant).copied(),
            false => None,
        }
    }

    pub(crate) fn standing(&self, tenant: &TenantId) -> Standing {
        self.known(tenant).map_or(Standing::Active, |known| known.standing)
    }

    /// How many have which standing, those that are active left out.
    pub(crate) fn standings(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::from([("degraded", 0), ("suspended", 0), ("deleted", 0)]);
        for known in self.known.read().values().filter(|known| known.standing != Standing::Active) {
            *counts.entry(known.standing.word()).or_default() += 1;
        }
        counts
    }

    /// When the next tenant that was deleted may go for good.
    pub(crate) fn next_departure(&self) -> Option<Time> {
        self.known.read().values().filter_map(|known| known.purge_at).min()
    }

    /// Keeps what was read. Answers who has left, and whether anybody may do more than before.
    fn keep(&self, rows: &[TenantRow]) -> (Vec<TenantId>, bool) {
        let is_unusual = |row: &&TenantRow| row.status != "active" || row.limits != LimitsRow::default();
        let of = |row: &TenantRow| {
            let standing = Standing::of(&row.status);
            (row.id.clone(), Known { standing, limits: row.limits, purge_at: row.purge_at })
        };
        let known: HashMap<TenantId, Known> = rows.iter().filter(is_unusual).map(of).collect();
        let standing = |tenant: &TenantId| known.get(tenant).map_or(Standing::Active, |one| one.standing);
        let before = self.known.read().clone();
        let more = before.iter().any(|(tenant, was)| {
            let is = standing(tenant);
            was.standing != is && !is.is_parked()
        });
        let all: HashSet<TenantId> = rows.iter().map(|row| row.id.clone()).collect();
        let left: Vec<TenantId> = self.all.lock().difference(&all).cloned().collect();
        self.admission.lock().retain(|tenant, _| known.contains_key(tenant));
        let any = !known.is_empty();
        *self.known.write() = known;
        *self.all.lock() = all;
        self.any.store(any, Ordering::Release);
        (left, more)
    }
}

/// Reads what is known of tenants and follows it.
pub(crate) async fn reload(engine: &Arc<Engine>) -> Result<(), store::Error> {
    let reading = engine.tenants.reading.lock().await;
    let rows = engine.store.tenants().await?;
    let (left, more) = engine.tenants.keep(&rows);
    drop(reading);
    let heavy = rows.iter().filter(|tenant| tenant.weight != 1);
    engine.committer.weigh(heavy.map(|tenant| (tenant.id.clone(), tenant.weight)).collect());
    // What comes in over buses is heard for those who are there and not parked.
    engine.buses.tenants.notify_waiters();
    let rules = rules(&rows);
    engine.calls.rule(rules.clone());
    engine.deliveries.rule(rules);
    for tenant in &left {
        engine.definitions.forget(tenant);
        engine.metrics.forget(tenant.as_str());
        engine.polls.forget(tenant);
        engine.guards.forget(tenant);
        engine.slots.forget_all(tenant);
    }
    if !left.is_empty() && engine.options.dev_clock {
        clocks::reload(engine).await?;
    }
    if engine.tenants.next_departure().is_some() {
        engine.wake.departures.at(engine.tenants.next_departure().unwrap_or(Time(i64::MAX)));
    }
    // Gives back what waits for tenants that are parked, and hands out what limits allow now.
    calls::pump(engine);
    deliveries::pump(engine);
    if more {
        go_on(engine);
    }
    Ok(())
}

/// Somebody may do more than before: whatever waits for it is looked for.
fn go_on(engine: &Engine) {
    let now = engine.now();
    engine.wake.at(now);
    engine.wake.slots.at(now);
    engine.wake.deliveries.at(now);
    engine.buses.wake(now);
    engine.webhooks.alarm.at(now);
    engine.wake.outbox();
    engine.polled.notify_waiters();
}

/// How the lanes treat tenants that are not as usual.
fn rules(rows: &[TenantRow]) -> BTreeMap<TenantId, Rule> {
    let of = |row: &TenantRow| Rule {
        weight: row.weight,
        parked: Standing::of(&row.status).is_parked(),
        in_flight_max: match row.limits.concurrency_max {
            0 => usize::MAX,
            max => max as usize,
        },
    };
    let rules = rows.iter().map(|row| (row.id.clone(), of(row)));
    rules.filter(|(_, rule)| *rule != Rule::default()).collect()
}
