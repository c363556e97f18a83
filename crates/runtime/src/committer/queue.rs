//! Commits that wait for a batch: one lane per tenant. A batch is filled from the lanes in turn, so that a tenant with
//! thousands in the queue holds up another one's first by a batch and not by all of them.
//!
//! Within a lane the order is that of arrival. Knows nothing of batches in flight or of the store.

use machine::TenantId;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// A tenant is alone once this many commits went that were all its own.
const ALONE_AFTER: usize = 8_192;
/// Commits of a batch while several tenants are about: each waits for the batches before its own, so they are shorter.
/// In `bench w8` on a machine that others used too, a workflow of the quiet tenant waited for 0.7 of the commits that it
/// waited for with 512, and the busy tenant lost nothing that could be seen; with 128 it was 0.3, and a third was lost.
const SHARED_MAX: usize = 256;

pub(super) struct Queue<T> {
    lanes: HashMap<TenantId, VecDeque<T>>,
    /// The tenants in `lanes`, in the order they are served.
    ring: VecDeque<TenantId>,
    /// Of tenants whose weight is not 1.
    weights: BTreeMap<TenantId, u32>,
    len: usize,
    len_max: usize,
    /// Whose commits went last, and how many of nobody else's since.
    last: Option<TenantId>,
    in_a_row: usize,
}

impl<T> Queue<T> {
    pub(super) fn new(len_max: usize) -> Queue<T> {
        let (lanes, ring, weights) = (HashMap::new(), VecDeque::new(), BTreeMap::new());
        Queue { lanes, ring, weights, len: 0, len_max, last: None, in_a_row: ALONE_AFTER }
    }

    pub(super) fn weigh(&mut self, weights: BTreeMap<TenantId, u32>) {
        self.weights = weights;
    }

    /// True if a commit that nobody has been promised anything about should not come in: too many wait, and this
    /// tenant has no less than its part of them. So one that floods the queue does not shut out the others, and no
    /// more than twice `len_max` are let in.
    pub(super) fn is_full(&self, tenant: &TenantId) -> bool {
        self.len >= self.len_max && {
            let own = self.lanes.get(tenant).map_or(0, VecDeque::len);
            let tenants = self.lanes.len() + usize::from(own == 0);
            own >= (self.len_max / tenants).max(1)
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Answers how many wait now.
    pub(super) fn push(&mut self, tenant: &TenantId, item: T) -> usize {
        match self.lanes.get_mut(tenant) {
            Some(lane) => lane.push_back(item),
            None => {
                self.lanes.insert(tenant.clone(), VecDeque::from([item]));
                self.ring.push_back(tenant.clone());
            }
        }
        self.len += 1;
        self.len
    }

    /// The next batch. Every tenant has one place first, whatever the others weigh; the rest goes by weight.
    pub(super) fn take(&mut self, batch_max: usize) -> Vec<T> {
        let is_shared = self.ring.len() > 1 || self.in_a_row < ALONE_AFTER;
        let batch_max = if is_shared { batch_max.min(SHARED_MAX) } else { batch_max };
        let mut batch = Vec::with_capacity(self.len.min(batch_max));
        if self.ring.len() > 1 {
            for _ in 0..self.ring.len() {
                self.serve(1, batch_max, &mut batch);
            }
        }
        while batch.len() < batch_max && self.ring.len() > 1 {
            let weight = self.ring.front().and_then(|tenant| self.weights.get(tenant)).copied();
            self.serve(weight.unwrap_or(1).max(1) as usize, batch_max, &mut batch);
        }
        self.serve(batch_max, batch_max, &mut batch);
        self.len -= batch.len();
        batch
    }

    /// Moves up to `count` of the first in the ring into the batch.
    fn serve(&mut self, count: usize, batch_max: usize, batch: &mut Vec<T>) {
        let count = count.min(batch_max - batch.len());
        if count == 0 {
            return;
        }
        let Some(tenant) = self.ring.pop_front() else { return };
        let Some(lane) = self.lanes.get_mut(&tenant) else { return };
        let count = count.min(lane.len());
        batch.extend(lane.drain(..count));
        match &self.last {
            Some(last) if *last == tenant => self.in_a_row = self.in_a_row.saturating_add(count),
            None => self.last = Some(tenant.clone()),
            Some(_) => (self.last, self.in_a_row) = (Some(tenant.clone()), count),
        }
        match lane.is_empty() {
            true => drop(self.lanes.remove(&tenant)),
            false => self.ring.push_back(tenant),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).expect("valid")
    }

    fn queue(len_max: usize, waiting: &[(&str, usize)]) -> Queue<String> {
        let mut queue = Queue::new(len_max);
        for (name, count) in waiting {
            for number in 0..*count {
                queue.push(&tenant(name), format!("{name}{number}"));
            }
        }
        queue
    }

    #[test]
    fn who_has_one_is_in_the_next_batch_whatever_others_have_waiting() {
        let mut queue = queue(100, &[("a", 9), ("b", 1), ("c", 2)]);
        assert_eq!(queue.take(4), ["a0", "b0", "c0", "a1"]);
        assert_eq!(queue.take(4), ["c1", "a2", "a3", "a4"]);
        assert_eq!(queue.take(4), ["a5", "a6", "a7", "a8"]);
        assert!(queue.take(4).is_empty() && queue.lanes.is_empty() && queue.ring.is_empty());
        assert_eq!(queue.push(&tenant("a"), String::new()), 1, "nothing else waits any more");
    }

    #[test]
    fn a_tenant_alone_has_the_whole_batch_in_order() {
        let mut queue = queue(100, &[("a", 5)]);
        assert_eq!(queue.take(3), ["a0", "a1", "a2"]);
        assert_eq!(queue.take(3), ["a3", "a4"]);
    }

    #[test]
    fn more_tenants_than_places_come_one_batch_after_the_other() {
        let mut queue = queue(100, &[("a", 2), ("b", 2), ("c", 2)]);
        assert_eq!(queue.take(2), ["a0", "b0"]);
        assert_eq!(queue.take(2), ["c0", "a1"]);
        assert_eq!(queue.take(2), ["b1", "c1"]);
    }

    #[test]
    fn batches_are_shorter_while_several_tenants_are_about() {
        let mut queue = queue(100_000, &[("a", 20_000)]);
        assert_eq!(queue.take(512).len(), 512);
        queue.push(&tenant("b"), "b0".to_owned());
        assert_eq!(queue.take(512).len(), SHARED_MAX);
        let mut short = 0;
        while queue.take(512).len() == SHARED_MAX {
            short += 1;
        }
        assert_eq!(short * SHARED_MAX, ALONE_AFTER, "and long again once it is alone");
    }

    #[test]
    fn the_rest_of_a_batch_goes_by_weight() {
        let mut queue = queue(100, &[("a", 9), ("b", 9)]);
        queue.weigh(BTreeMap::from([(tenant("a"), 3)]));
        assert_eq!(queue.take(8), ["a0", "b0", "a1", "a2", "a3", "b1", "a4", "a5"]);
        queue.weigh(BTreeMap::from([(tenant("a"), 1_000)]));
        assert_eq!(queue.take(3), ["b2", "a6", "b3"], "nobody waits for a whole batch of a heavier one");
    }

    #[test]
    fn only_who_has_its_part_of_a_full_queue_is_refused() {
        let queue = queue(8, &[("a", 7), ("b", 1)]);
        assert!(queue.is_full(&tenant("a")));
        assert!(!queue.is_full(&tenant("b")) && !queue.is_full(&tenant("new")));
        let queue = self::queue(8, &[("a", 4), ("b", 4)]);
        assert!(queue.is_full(&tenant("a")) && queue.is_full(&tenant("b")));
        assert!(!queue.is_full(&tenant("new")));
        assert!(!self::queue(8, &[("a", 7)]).is_full(&tenant("a")));
    }
}
