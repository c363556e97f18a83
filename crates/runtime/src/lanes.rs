//! The calls, or deliveries, that this node has taken on: one bounded lane per tenant, lanes served in turn and by weight,
//! and in a lane its targets in turn.
//!
//! Room is reserved before a row is written (born claimed) or claimed, and freed when it is off this node's hands. A tenant's backlog beyond its room stays in the store and cannot push others aside.

use crate::{deliveries::Handed, held::Hold, options::Options};
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
    units: usize,
}

impl<T> Drop for Reservation<T> {
    fn drop(&mut self) {
        let mut lanes = self.shared.lanes.lock();
        if let Some(lane) = lanes.tenants.get_mut(&self.tenant) {
            lane.reserved -= self.units;
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
    pub(crate) fn of_deliveries(options: &Options, caps: BTreeMap<String, usize>) -> Queue<Handed> {
        Queue::new(options.deliveries_queued_per_tenant_max, options.deliveries_in_flight_max, caps)
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
        });
        Queue { shared: Arc::new(Shared { lanes, per_tenant_max, in_flight_max, caps }) }
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
        self.reserve_units(tenant, 1)
    }

    /// Room for so much, if there is any at all: what is too large for an empty lane would never get in.
    pub(crate) fn reserve_units(&self, tenant: &TenantId, units: usize) -> Option<Reservation<T>> {
        let mut lanes = self.shared.lanes.lock();
        if lanes.rule(tenant).parked {
            return None;
        }
        let lane = lanes.tenants.entry(tenant.clone()).or_default();
        if lane.reserved >= self.shared.per_tenant_max {
            return None;
        }
        lane.reserved += units;
        Some(Reservation { shared: self.shared.clone(), tenant: tenant.clone(), units })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held::Held;
    use machine::Time;
    use uuid::Uuid;

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).expect("valid")
    }

    fn push(queue: &Queue<CallRow>, held: &Held, of: &str, token: u64, target: &str) {
        let row = CallRow {
            instance: Uuid::from_u128(1),
            token,
            target: target.to_owned(),
            envelope: vec![],
            created_at: Time(0),
            visible_at: Time(0),
            attempt: 1,
            last_error: None,
            owner: None,
            taken_over: 0,
        };
        let tenant = tenant(of);
        let reservation = queue.reserve(&tenant).expect("there is room");
        let hold = held.hold(&tenant, row.key());
        queue.push(tenant, row, reservation, hold);
    }

    fn tokens(queue: &Queue<CallRow>) -> Vec<u64> {
        let mut handled = Vec::new();
        while let Some(item) = queue.next() {
            handled.push(item.row.token);
            queue.done(&item.tenant, &item.row.target);
        }
        handled
    }

    #[test]
    fn a_dropped_call_is_left_out_and_frees_its_room() {
        let (queue, held) = (Queue::new(2, 10, BTreeMap::new()), Held::default());
        push(&queue, &held, "acme", 1, "a");
        push(&queue, &held, "acme", 2, "a");
        assert!(queue.reserve(&tenant("acme")).is_none());
        held.drop_row(&tenant("acme"), QueueKey::Call { instance: Uuid::from_u128(1), token: 1 });
        assert_eq!(tokens(&queue), [2]);
        let lanes = queue.shared.lanes.lock();
        assert!(lanes.tenants.is_empty() && lanes.busy.is_empty() && lanes.ring.is_empty());
    }

    #[test]
    fn a_tenant_takes_half_at_most_while_others_wait() {
        let (queue, held) = (Queue::new(8, 4, BTreeMap::new()), Held::default());
        for token in 0..8 {
            push(&queue, &held, "acme", token, "a");
        }
        assert_eq!(queue.full(), [tenant("acme")]);
        let first = queue.next().expect("alone, it may take all");
        let second = queue.next().expect("alone, it may take all");
        push(&queue, &held, "zoo", 10, "a");
        push(&queue, &held, "zoo", 11, "a");
        let others = [queue.next(), queue.next()].map(|item| item.expect("room is left").row.token);
        assert_eq!(others, [10, 11], "acme has its half");
        assert!(queue.next().is_none(), "all are taken");
        drop((first, second));
    }

    #[test]
    fn a_parked_tenant_takes_nothing_on_and_gives_back_what_waits() {
        let (queue, held) = (Queue::new(8, 4, BTreeMap::new()), Held::default());
        for token in 0..3 {
            push(&queue, &held, "acme", token, if token == 2 { "b" } else { "a" });
        }
        push(&queue, &held, "zoo", 10, "a");
        let under_way = queue.next().expect("there is room");
        assert!(queue.take_parked().is_empty(), "nobody is parked");
        let parked = Rule { parked: true, ..Rule::default() };
        queue.rule(BTreeMap::from([(tenant("acme"), parked)]));
        assert!(queue.reserve(&tenant("acme")).is_none());
        assert_eq!(queue.next().map(|item| item.row.token), Some(10), "only others are served");
        let given_back: Vec<u64> = queue.take_parked().iter().map(|item| item.row.token).collect();
        assert_eq!(given_back, [1, 2]);
        queue.done(&under_way.tenant, &under_way.row.target);
        drop(under_way);
        queue.done(&tenant("zoo"), "a");
        assert_eq!(queue.lanes(), 0, "nothing of it is left");
        queue.rule(BTreeMap::new());
        push(&queue, &held, "acme", 7, "a");
        assert_eq!(tokens(&queue), [7]);
    }

    #[test]
    fn a_tenant_has_no_more_under_way_than_its_limit() {
        let (queue, held) = (Queue::new(8, 8, BTreeMap::new()), Held::default());
        let rule = Rule { in_flight_max: 2, ..Rule::default() };
        queue.rule(BTreeMap::from([(tenant("acme"), rule)]));
        for token in 0..4 {
            push(&queue, &held, "acme", token, "a");
        }
        push(&queue, &held, "zoo", 10, "a");
        let under_way: Vec<u64> = std::iter::from_fn(|| queue.next()).map(|item| item.row.token).collect();
        assert_eq!(under_way, [0, 10, 1]);
        assert_eq!(queue.full_for(&tenant("acme"), "a"), Some(Full::Tenant(2)));
        assert_eq!(queue.full_for(&tenant("zoo"), "a"), None);
        queue.done(&tenant("acme"), "a");
        assert_eq!(queue.next().map(|item| item.row.token), Some(2));
    }

    #[test]
    fn a_tenant_is_served_as_often_as_its_weight_says() {
        let (queue, held) = (Queue::new(10, 10, BTreeMap::new()), Held::default());
        queue.rule(BTreeMap::from([(tenant("acme"), Rule { weight: 3, ..Rule::default() })]));
        for token in 0..6 {
            push(&queue, &held, "acme", token, "a");
        }
        for token in 10..14 {
            push(&queue, &held, "zoo", token, "a");
        }
        assert_eq!(tokens(&queue), [0, 1, 2, 10, 3, 4, 5, 11, 12, 13]);
        // What is queued already is served by the weights as they are.
        for token in 0..4 {
            push(&queue, &held, "acme", token, "a");
            push(&queue, &held, "zoo", 10 + token, "a");
        }
        assert_eq!(queue.next().map(|item| item.row.token), Some(0));
        queue.rule(BTreeMap::new());
        let rest: Vec<u64> = std::iter::from_fn(|| queue.next()).map(|item| item.row.token).collect();
        assert_eq!(rest, [1, 2, 10, 3, 11, 12, 13], "a turn that has begun is finished");
    }

    #[test]
    fn weight_is_worth_room_while_others_wait() {
        let (queue, held) = (Queue::new(20, 8, BTreeMap::new()), Held::default());
        queue.rule(BTreeMap::from([(tenant("acme"), Rule { weight: 3, ..Rule::default() })]));
        for token in 0..8 {
            push(&queue, &held, "acme", token, "a");
            push(&queue, &held, "zoo", 10 + token, "a");
        }
        let taken: Vec<Item<CallRow>> = std::iter::from_fn(|| queue.next()).collect();
        let of_acme = taken.iter().filter(|item| item.tenant == tenant("acme")).count();
        assert_eq!((taken.len(), of_acme), (8, 6));
    }

    #[test]
    fn tenants_and_their_targets_are_served_in_turn() {
        let (queue, held) = (Queue::new(10, 10, BTreeMap::new()), Held::default());
        for (token, target) in [(1, "a"), (2, "a"), (3, "b"), (4, "a")] {
            push(&queue, &held, "acme", token, target);
        }
        push(&queue, &held, "zoo", 10, "a");
        assert_eq!(tokens(&queue), [1, 10, 3, 2, 4]);
    }

    #[test]
    fn more_of_the_same_is_taken_along() {
        let (queue, held) = (Queue::new(10, 10, BTreeMap::new()), Held::default());
        for (token, target) in [(1, "a"), (2, "a"), (3, "b"), (4, "a"), (5, "a")] {
            push(&queue, &held, "acme", token, target);
        }
        let first = queue.next().expect("one is there");
        held.drop_row(&tenant("acme"), QueueKey::Call { instance: Uuid::from_u128(1), token: 2 });
        let more = queue.more(&first.tenant, "a", 1);
        assert_eq!(more.iter().map(|item| item.row.token).collect::<Vec<_>>(), [4]);
        queue.done(&first.tenant, "a");
        assert_eq!(tokens(&queue), [3, 5]);
        let all: Vec<_> = {
            push(&queue, &held, "acme", 6, "a");
            queue.more(&tenant("acme"), "a", 9)
        };
        assert_eq!(all.len(), 1);
        drop((first, more, all));
        let lanes = queue.shared.lanes.lock();
        assert!(lanes.tenants.is_empty() && lanes.busy.is_empty() && lanes.ring.is_empty());
    }
}
