//! The calls, or deliveries, that this node has taken on: one bounded lane per tenant, lanes served in turn and by weight,
//! and in a lane its targets in turn.
//!
//! Room is reserved before a row is written (born claimed) or claimed, and freed when it is off this node's hands. A tenant's backlog beyond its room stays in the store and cannot push others aside.

#[cfg(test)]
mod tests;

use crate::{deliveries::Handed, held::Hold, options::Options, subscribers::Subscribers};
use machine::TenantId;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};
use store::rows::{CallRow, QueueKey};

/// What is kept in a lane.
pub(crate) trait Targeted {
    /// The worker or endpoint that it is for.
    fn target(&self) -> &str;
    /// The row that it is.
    fn key(&self) -> QueueKey;
    /// How much room it takes.
    fn units(&self) -> usize {
        1
    }
}

impl Targeted for CallRow {
    fn target(&self) -> &str {
        &self.target
    }

    fn key(&self) -> QueueKey {
        CallRow::key(self)
    }
}

pub(crate) struct Queue<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    lanes: Mutex<Lanes<T>>,
    per_tenant_max: usize,
    in_flight_max: usize,
    /// How many may be handled at once, by target; as many as there are for those that are not named.
    caps: BTreeMap<String, usize>,
    /// How much may be kept of a target, on all lanes; as much as there is room for those that are not named.
    prefetch: BTreeMap<String, usize>,
}

/// How a tenant is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) weight: u32,
    /// Nothing of it is taken on or handed out.
    pub(crate) parked: bool,
    pub(crate) in_flight_max: usize,
}

impl Default for Rule {
    fn default() -> Rule {
        Rule { weight: 1, parked: false, in_flight_max: usize::MAX }
    }
}

/// Which bound keeps something from being handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Tenant(usize),
    Target(usize),
    Node(usize),
}

struct Lanes<T> {
    tenants: BTreeMap<TenantId, Lane<T>>,
    /// Tenants with something queued, in the order they are served.
    ring: VecDeque<TenantId>,
    /// Of tenants that are not treated as usual.
    rules: BTreeMap<TenantId, Rule>,
    in_flight: usize,
    /// Being handled, by target.
    busy: BTreeMap<String, usize>,
    /// Reserved, by target where that is bounded.
    kept: BTreeMap<String, usize>,
}

struct Lane<T> {
    reserved: usize,
    in_flight: usize,
    /// How many it may still take before it is the next one's turn.
    credit: u32,
    /// By target, oldest first.
    queued: BTreeMap<String, VecDeque<Item<T>>>,
    /// Targets with something queued, in the order they are served.
    ring: VecDeque<String>,
}

/// One of them in memory.
pub(crate) struct Item<T> {
    pub(crate) tenant: TenantId,
    pub(crate) row: T,
    pub(crate) reservation: Reservation<T>,
    pub(crate) hold: Hold,
}

/// Room in a tenant's lane; free again when dropped.
pub(crate) struct Reservation<T> {
    shared: Arc<Shared<T>>,
    tenant: TenantId,
    /// The target, if what is kept of it is bounded.
    target: Option<String>,
    units: usize,
}

impl<T> Drop for Reservation<T> {
    fn drop(&mut self) {
        let mut lanes = self.shared.lanes.lock();
        if let Some(lane) = lanes.tenants.get_mut(&self.tenant) {
            lane.reserved -= self.units;
        }
        if let Some(kept) = self.target.as_ref().and_then(|target| lanes.kept.get_mut(target)) {
            *kept -= self.units;
        }
        lanes.tidy(&self.tenant);
    }
}

impl Queue<CallRow> {
    pub(crate) fn of_calls(options: &Options, caps: BTreeMap<String, usize>) -> Queue<CallRow> {
        Queue::new(options.calls_queued_per_tenant_max, options.calls_in_flight_max, caps)
    }
}

impl Queue<Handed> {
    pub(crate) fn of_deliveries(options: &Options, subscribers: &Subscribers) -> Queue<Handed> {
        let caps = subscribers.caps();
        let (queued, in_flight) =
            (options.deliveries_queued_per_tenant_max, options.deliveries_in_flight_max);
        Queue::new(queued, in_flight, caps).prefetching(subscribers.prefetch())
    }
}

impl<T: Targeted> Queue<T> {
    pub(crate) fn new(
        per_tenant_max: usize,
        in_flight_max: usize,
        caps: BTreeMap<String, usize>,
    ) -> Queue<T> {
        let lanes = Mutex::new(Lanes {
            tenants: BTreeMap::new(),
            ring: VecDeque::new(),
            rules: BTreeMap::new(),
            in_flight: 0,
            busy: BTreeMap::new(),
            kept: BTreeMap::new(),
        });
        let prefetch = BTreeMap::new();
        Queue { shared: Arc::new(Shared { lanes, per_tenant_max, in_flight_max, caps, prefetch }) }
    }

    /// Bounds what is kept of targets.
    fn prefetching(mut self, prefetch: BTreeMap<String, usize>) -> Queue<T> {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.prefetch = prefetch;
        }
        self
    }

    /// How each tenant is treated; as usual if it is not named.
    pub(crate) fn rule(&self, rules: BTreeMap<TenantId, Rule>) {
        self.shared.lanes.lock().rules = rules;
    }

    /// Takes out what is queued for tenants that are parked: it is the store's again.
    pub(crate) fn take_parked(&self) -> Vec<Item<T>> {
        let mut lanes = self.shared.lanes.lock();
        let lanes = &mut *lanes;
        let parked: Vec<TenantId> =
            lanes.ring.iter().filter(|tenant| lanes.rule(tenant).parked).cloned().collect();
        lanes.ring.retain(|tenant| !parked.contains(tenant));
        let mut taken = Vec::new();
        for tenant in &parked {
            let Some(lane) = lanes.tenants.get_mut(tenant) else { continue };
            lane.ring.clear();
            lane.credit = 0;
            taken.extend(std::mem::take(&mut lane.queued).into_values().flatten());
        }
        taken
    }

    /// What keeps the next of the tenant for the target from being handed out now, if anything does.
    pub(crate) fn full_for(&self, tenant: &TenantId, target: &str) -> Option<Full> {
        let lanes = self.shared.lanes.lock();
        let tenant_max = lanes.rule(tenant).in_flight_max;
        let target_max = self.shared.caps.get(target).copied().unwrap_or(usize::MAX);
        let of_tenant = lanes.tenants.get(tenant).map_or(0, |lane| lane.in_flight);
        let of_target = lanes.busy.get(target).copied().unwrap_or(0);
        match () {
            () if of_tenant >= tenant_max => Some(Full::Tenant(tenant_max)),
            () if of_target >= target_max => Some(Full::Target(target_max)),
            () if lanes.in_flight >= self.shared.in_flight_max => Some(Full::Node(self.shared.in_flight_max)),
            () => None,
        }
    }

    /// Tenants that have a lane.
    pub(crate) fn lanes(&self) -> usize {
        self.shared.lanes.lock().tenants.len()
    }

    /// Room for one more of the tenant, if there is any.
    pub(crate) fn reserve(&self, tenant: &TenantId) -> Option<Reservation<T>> {
        self.reserve_units(tenant, "", 1)
    }

    /// Room for so much, if there is any at all: what is too large for an empty lane would never get in.
    pub(crate) fn reserve_units(
        &self,
        tenant: &TenantId,
        target: &str,
        units: usize,
    ) -> Option<Reservation<T>> {
        let mut lanes = self.shared.lanes.lock();
        if lanes.rule(tenant).parked {
            return None;
        }
        let bound = self.shared.prefetch.get(target).copied();
        if bound.is_some_and(|bound| lanes.kept.get(target).copied().unwrap_or(0) >= bound) {
            return None;
        }
        let lane = lanes.tenants.entry(tenant.clone()).or_default();
        if lane.reserved >= self.shared.per_tenant_max {
            return None;
        }
        lane.reserved += units;
        let target = bound.map(|_| target.to_owned());
        if let Some(target) = &target {
            *lanes.kept.entry(target.clone()).or_default() += units;
        }
        Some(Reservation { shared: self.shared.clone(), tenant: tenant.clone(), target, units })
    }

    /// How much more may be kept of a target, if that is bounded.
    pub(crate) fn room_for(&self, target: &str) -> Option<usize> {
        let bound = self.shared.prefetch.get(target)?;
        let kept = self.shared.lanes.lock().kept.get(target).copied().unwrap_or(0);
        Some(bound.saturating_sub(kept))
    }

    /// Tenants whose lane has next to no room: the backlog is not asked for what is theirs.
    pub(crate) fn full(&self) -> Vec<TenantId> {
        let max = self.shared.per_tenant_max;
        let lanes = self.shared.lanes.lock();
        let is_full = |lane: &Lane<T>| max.saturating_sub(lane.reserved) <= max / 8;
        lanes.tenants.iter().filter(|(_, lane)| is_full(lane)).map(|(tenant, _)| tenant.clone()).collect()
    }

    /// Queues what is durable and owned by this node.
    pub(crate) fn push(&self, tenant: TenantId, row: T, reservation: Reservation<T>, hold: Hold) {
        let mut lanes = self.shared.lanes.lock();
        let lane = lanes.tenants.entry(tenant.clone()).or_default();
        let idle = lane.queued.is_empty();
        let target = row.target().to_owned();
        let item = Item { tenant: tenant.clone(), row, reservation, hold };
        match lane.queued.get_mut(&target) {
            Some(queue) => queue.push_back(item),
            None => {
                lane.ring.push_back(target.clone());
                lane.queued.insert(target, VecDeque::from([item]));
            }
        }
        if idle {
            lanes.ring.push_back(tenant);
        }
    }

    /// The next that may be handled now: tenants in turn, each as often as its weight says, workers within their caps.
    /// Those dropped since they were queued are left out.
    pub(crate) fn next(&self) -> Option<Item<T>> {
        // Their reservations lock the lanes when they end, so that must be after the lock.
        let mut dropped = Vec::new();
        let mut lanes = self.shared.lanes.lock();
        let item = lanes.next(&self.shared, &mut dropped);
        drop(lanes);
        item
    }

    /// More of what `next` gave out, to be handled with it as one: same tenant, same target, `units` at most.
    pub(crate) fn more(&self, tenant: &TenantId, target: &str, mut units: usize) -> Vec<Item<T>> {
        let (mut dropped, mut more) = (Vec::new(), Vec::new());
        let mut lanes = self.shared.lanes.lock();
        let Some(lane) = lanes.tenants.get_mut(tenant) else { return more };
        let Some(items) = lane.queued.get_mut(target) else { return more };
        while let Some(item) = items.pop_front_if(|item| item.row.units() <= units) {
            if item.hold.is_dropped() {
                dropped.push(item);
                continue;
            }
            units -= item.row.units();
            more.push(item);
        }
        if items.is_empty() {
            lane.queued.remove(target);
            lane.ring.retain(|other| other != target);
        }
        if lane.queued.is_empty() {
            lane.credit = 0;
            lanes.ring.retain(|other| other != tenant);
        }
        drop(lanes);
        more
    }

    /// What `next` gave out is off this node's hands.
    pub(crate) fn done(&self, tenant: &TenantId, target: &str) {
        let mut lanes = self.shared.lanes.lock();
        lanes.in_flight -= 1;
        if let Some(busy) = lanes.busy.get_mut(target) {
            *busy -= 1;
            if *busy == 0 {
                lanes.busy.remove(target);
            }
        }
        if let Some(lane) = lanes.tenants.get_mut(tenant) {
            lane.in_flight -= 1;
        }
        lanes.tidy(tenant);
    }
}

impl<T: Targeted> Lanes<T> {
    fn next(&mut self, shared: &Shared<T>, dropped: &mut Vec<Item<T>>) -> Option<Item<T>> {
        let max = shared.in_flight_max;
        if self.in_flight >= max {
            return None;
        }
        for _ in 0..self.ring.len() {
            let tenant = self.ring.pop_front()?;
            let rule = self.rule(&tenant);
            let weight = rule.weight.max(1);
            // While others wait nobody takes more than half, or more than its weight is worth: slow calls leave room.
            let in_flight = self.tenants.get(&tenant)?.in_flight;
            let has_room = (in_flight < max.div_ceil(2) || in_flight < self.share(weight, max))
                && in_flight < rule.in_flight_max
                && !rule.parked;
            let lane = self.tenants.get_mut(&tenant)?;
            let item = match has_room {
                true => lane.next(&self.busy, &shared.caps, dropped),
                false => None,
            };
            let left = if lane.credit == 0 { weight } else { lane.credit } - 1;
            lane.credit = if item.is_some() { left } else { 0 };
            match (lane.queued.is_empty(), lane.credit) {
                (true, _) => lane.credit = 0,
                (false, 0) => self.ring.push_back(tenant),
                (false, _) => self.ring.push_front(tenant),
            }
            if let Some(item) = item {
                lane.in_flight += 1;
                self.in_flight += 1;
                *self.busy.entry(item.row.target().to_owned()).or_default() += 1;
                return Some(item);
            }
        }
        None
    }
}

impl<T> Lanes<T> {
    /// What a weight is worth beside those who wait. Looks at each of them, so it is asked only of who has much already.
    fn share(&self, weight: u32, max: usize) -> usize {
        let others: u64 = self.ring.iter().map(|tenant| u64::from(self.rule(tenant).weight.max(1))).sum();
        let weight = u64::from(weight);
        (max as u64 * weight).div_ceil(others + weight) as usize
    }

    fn rule(&self, tenant: &TenantId) -> Rule {
        self.rules.get(tenant).copied().unwrap_or_default()
    }

    /// Forgets a lane with nothing in it.
    fn tidy(&mut self, tenant: &TenantId) {
        let lane = self.tenants.get(tenant);
        if lane.is_some_and(|lane| lane.reserved == 0 && lane.in_flight == 0 && lane.queued.is_empty()) {
            self.tenants.remove(tenant);
        }
    }
}

impl<T> Default for Lane<T> {
    fn default() -> Lane<T> {
        Lane { reserved: 0, in_flight: 0, credit: 0, queued: BTreeMap::new(), ring: VecDeque::new() }
    }
}

impl<T> Lane<T> {
    fn next(
        &mut self,
        busy: &BTreeMap<String, usize>,
        caps: &BTreeMap<String, usize>,
        dropped: &mut Vec<Item<T>>,
    ) -> Option<Item<T>> {
        for _ in 0..self.ring.len() {
            let target = self.ring.pop_front()?;
            let items = self.queued.get_mut(&target)?;
            let cap = caps.get(&target).copied().unwrap_or(usize::MAX);
            let mut found = None;
            if busy.get(&target).copied().unwrap_or(0) < cap {
                while found.is_none()
                    && let Some(item) = items.pop_front()
                {
                    match item.hold.is_dropped() {
                        true => dropped.push(item),
                        false => found = Some(item),
                    }
                }
            }
            match items.is_empty() {
                true => drop(self.queued.remove(&target)),
                false => self.ring.push_back(target),
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }
}
