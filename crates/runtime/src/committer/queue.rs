//! Commits that wait for a batch: one lane per tenant. A batch is filled from the lanes in turn, so that a tenant with
//! thousands in the queue holds up another one's first by a batch and not by all of them.
//!
//! Within a lane the order is that of arrival. A large commit counts as several. Knows nothing of batches in flight or of the
//! store.

use super::courtesy::Courtesy;
use machine::TenantId;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// A tenant is alone once this many commits went that were all its own.
const ALONE_AFTER: usize = 8_192;
/// Commits of a batch while several tenants are about: each waits for the batches before its own, so they are shorter.
/// In `bench w8` on a machine that others used too, a workflow of the quiet tenant waited for 0.7 of the commits that it
/// waited for with 512, and the busy tenant lost nothing that could be seen; with 128 it was 0.3, and a third was lost.
const SHARED_MAX: usize = 256;

/// Commits of a batch of busy tenants while quiet ones are about, who wait for it.
const COURTEOUS_MAX: usize = 128;

/// A commit that counts as so many or more is a large one.
const LARGE: usize = 8;

/// For what there is room beside the batches in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct May {
    /// For a batch of quiet tenants: one more than for others, so that they never wait for the busy.
    pub(super) quiet: bool,
    pub(super) any: bool,
    /// For a batch while nobody leaves room for anybody: whether as many wait as it is worth, too.
    pub(super) usual: bool,
}

/// What may go now.
pub(super) enum Next<T> {
    /// `busy` if busy tenants leave room for quiet ones and it is a batch of theirs.
    Batch { items: Vec<T>, busy: bool },
    /// Nothing before this moment of the steady clock, unless something comes.
    Later(Option<u64>),
}

pub(super) struct Queue<T> {
    /// Each with what it counts for in a batch.
    lanes: HashMap<TenantId, VecDeque<(T, usize)>>,
    /// The tenants in `lanes`, in the order they are served.
    ring: VecDeque<TenantId>,
    /// Of tenants whose weight is not 1.
    weights: BTreeMap<TenantId, u32>,
    len: usize,
    len_max: usize,
    /// Whose commits went last, and how many of nobody else's since.
    last: Option<TenantId>,
    in_a_row: usize,
    /// The batch before had a large commit.
    had_large: bool,
    took_large: bool,
    courtesy: Courtesy,
}

impl<T> Queue<T> {
    pub(super) fn new(len_max: usize, courtesy: Courtesy) -> Queue<T> {
        let (lanes, ring, weights) = (HashMap::new(), VecDeque::new(), BTreeMap::new());
        Queue {
            lanes,
            ring,
            weights,
            len: 0,
            len_max,
            last: None,
            in_a_row: ALONE_AFTER,
            had_large: false,
            took_large: false,
            courtesy,
        }
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

    /// `size` is what it counts for in a batch, 1 at least. Answers how many wait now.
    pub(super) fn push(&mut self, tenant: &TenantId, item: T, size: usize) -> usize {
        let sized = (item, size.max(1));
        match self.lanes.get_mut(tenant) {
            Some(lane) => lane.push_back(sized),
            None => {
                self.lanes.insert(tenant.clone(), VecDeque::from([sized]));
                self.ring.push_back(tenant.clone());
            }
        }
        self.len += 1;
        self.len
    }

    /// Takes note of what begins to wait; true if it must not wait for what others have waiting.
    pub(super) fn came(&mut self, tenant: &TenantId, size: usize, now: u64) -> bool {
        let weight = self.weights.get(tenant).copied().unwrap_or(1);
        self.courtesy.came(tenant, size.max(1), weight, now)
    }

    /// A batch of busy tenants was answered.
    pub(super) fn ended(&mut self, now: u64) {
        self.courtesy.end(now);
    }

    /// What may go now.
    pub(super) fn next(&mut self, batch_max: usize, may: May, now: u64) -> Next<T> {
        if self.len == 0 {
            return Next::Later(None);
        }
        if !self.courtesy.is_due(now) {
            return match may.usual {
                true => Next::Batch { items: self.take(batch_max), busy: false },
                false => Next::Later(None),
            };
        }
        match self.courtesy.busy_from() {
            Some(from) if from <= now && may.any => {
                self.courtesy.begin(now);
                Next::Batch { items: self.take(batch_max.min(COURTEOUS_MAX)), busy: true }
            }
            from => {
                let items = if may.quiet { self.take_quiet(batch_max) } else { vec![] };
                match items.is_empty() {
                    // What is past waits for a batch in flight, whose end is told.
                    true => Next::Later(from.filter(|from| *from > now)),
                    false => Next::Batch { items, busy: false },
                }
            }
        }
    }

    /// What quiet tenants have waiting.
    fn take_quiet(&mut self, batch_max: usize) -> Vec<T> {
        let (mut batch, mut large) = (Vec::new(), 1);
        for _ in 0..self.ring.len() {
            let Some(tenant) = self.ring.front() else { break };
            if self.courtesy.is_quiet(tenant) {
                let room = batch_max.saturating_sub(batch.len());
                self.serve(room, &mut large, &mut batch);
            } else {
                self.ring.rotate_left(1);
            }
        }
        self.took_large = false;
        self.len -= batch.len();
        batch
    }

    /// The next batch. Every tenant has one place first, whatever the others weigh; the rest goes by weight. While several
    /// tenants are about, a batch has one large commit at most, and the batch after it none if anything else waits: so who
    /// has a small one waits for one large one and not for several.
    pub(super) fn take(&mut self, batch_max: usize) -> Vec<T> {
        let is_shared = self.ring.len() > 1 || self.in_a_row < ALONE_AFTER;
        let mut room = if is_shared { batch_max.min(SHARED_MAX) } else { batch_max };
        let mut large = match (is_shared, self.had_large) {
            (true, true) => 0,
            (true, false) => 1,
            (false, _) => usize::MAX,
        };
        let mut batch = Vec::with_capacity(self.len.min(room));
        self.pass(true, &mut room, &mut large, &mut batch);
        while self.pass(false, &mut room, &mut large, &mut batch) > 0 {}
        if batch.is_empty() && large == 0 {
            large = 1;
            self.pass(true, &mut room, &mut large, &mut batch);
        }
        self.had_large = is_shared && large == 0 && self.took_large;
        self.took_large = false;
        self.len -= batch.len();
        batch
    }

    /// Serves every tenant in turn, one of each at `first`. Answers how many that was.
    fn pass(&mut self, first: bool, room: &mut usize, large: &mut usize, batch: &mut Vec<T>) -> usize {
        let mut moved = 0;
        for _ in 0..self.ring.len() {
            let weight = self.ring.front().and_then(|tenant| self.weights.get(tenant)).copied();
            let alone = self.ring.len() == 1;
            let count = match (first, alone) {
                (true, _) => 1,
                (false, true) => *room,
                (false, false) => weight.unwrap_or(1).max(1) as usize,
            };
            let served = self.serve(count.min(*room), large, batch);
            *room = room.saturating_sub(served);
            moved += served;
        }
        moved
    }

    /// Moves `count` of the first in the ring into the batch, or as many as it has, or more if the last is large. Answers
    /// how many that was.
    fn serve(&mut self, count: usize, large: &mut usize, batch: &mut Vec<T>) -> usize {
        if count == 0 {
            return 0;
        }
        let Some(tenant) = self.ring.pop_front() else { return 0 };
        let Some(lane) = self.lanes.get_mut(&tenant) else { return 0 };
        let mut moved = 0;
        while moved < count
            && let Some((item, size)) = lane.pop_front_if(|(_, size)| *size < LARGE || *large > 0)
        {
            if size >= LARGE {
                *large -= 1;
                self.took_large = true;
            }
            moved += size;
            batch.push(item);
        }
        if moved == 0 {
            self.ring.push_back(tenant);
            return 0;
        }
        match &self.last {
            Some(last) if *last == tenant => self.in_a_row = self.in_a_row.saturating_add(moved),
            None => self.last = Some(tenant.clone()),
            Some(_) => (self.last, self.in_a_row) = (Some(tenant.clone()), moved),
        }
        match lane.is_empty() {
            true => drop(self.lanes.remove(&tenant)),
            false => self.ring.push_back(tenant),
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).expect("valid")
    }

    fn queue(len_max: usize, waiting: &[(&str, usize)]) -> Queue<String> {
        let mut queue = Queue::new(len_max, Courtesy::new(0.0));
        for (name, count) in waiting {
            for number in 0..*count {
                queue.push(&tenant(name), format!("{name}{number}"), 1);
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
        assert_eq!(queue.push(&tenant("a"), String::new(), 1), 1, "nothing else waits any more");
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
        queue.push(&tenant("b"), "b0".to_owned(), 1);
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
    fn a_large_one_counts_as_several() {
        let mut queue = queue(100, &[("a", 2)]);
        for (item, size) in [("a2", 100), ("a3", 1), ("a4", 3), ("a5", 1)] {
            queue.push(&tenant("a"), item.to_owned(), size);
        }
        assert_eq!(queue.take(50), ["a0", "a1", "a2"], "it comes, whatever it counts for");
        assert_eq!(queue.take(4), ["a3", "a4"]);
        assert_eq!((queue.take(50), queue.len), (vec!["a5".to_owned()], 0));
    }

    #[test]
    fn who_has_a_small_one_waits_for_one_large_one_at_most() {
        let mut queue = queue(100, &[]);
        for name in ["a", "b", "c"] {
            for number in 0..2 {
                queue.push(&tenant(name), format!("{name}{number}"), 100);
            }
        }
        queue.push(&tenant("d"), "d0".to_owned(), 1);
        assert_eq!(queue.take(512), ["a0", "d0"]);
        queue.push(&tenant("d"), "d1".to_owned(), 1);
        assert_eq!(queue.take(512), ["d1"], "after a large one what is small goes alone");
        queue.push(&tenant("d"), "d2".to_owned(), 1);
        let second = queue.take(512);
        assert!(second.len() == 2 && second.contains(&"d2".to_owned()), "{second:?}");
        let rest: Vec<String> = (0..4).flat_map(|_| queue.take(512)).collect();
        assert_eq!(
            (rest.len(), queue.len),
            (4, 0),
            "large ones do not wait for small ones that are not there"
        );
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

    fn next(queue: &mut Queue<String>, now: u64) -> (Vec<String>, bool) {
        match queue.next(512, May { quiet: true, any: true, usual: true }, now) {
            Next::Batch { items, busy } => (items, busy),
            Next::Later(_) => (vec![], false),
        }
    }

    #[test]
    fn the_busy_leave_room_for_the_quiet() {
        let mut queue = Queue::new(10_000, Courtesy::new(1.0));
        let come = |queue: &mut Queue<String>, name: &str, count: usize, now: u64| {
            for number in 0..count {
                queue.came(&tenant(name), 1, now);
                queue.push(&tenant(name), format!("{name}{number}"), 1);
            }
        };
        come(&mut queue, "busy", 600, 0);
        assert_eq!(next(&mut queue, 1).0.len(), 512, "alone it has all of a batch");
        come(&mut queue, "busy", 600, 2);
        come(&mut queue, "quiet", 1, 3);
        let (items, busy) = next(&mut queue, 10);
        assert!(busy && items.len() == COURTEOUS_MAX && items.contains(&"quiet0".to_owned()));
        assert_eq!(next(&mut queue, 11), (vec![], false), "one batch of the busy at a time");
        come(&mut queue, "quiet", 1, 12);
        assert_eq!(next(&mut queue, 13), (vec!["quiet0".to_owned()], false), "the quiet do not wait for it");
        queue.ended(30);
        assert_eq!(next(&mut queue, 49), (vec![], false), "and it is followed by a pause as long as it was");
        assert_eq!(next(&mut queue, 50).0.len(), COURTEOUS_MAX);
        queue.ended(60);
        assert_eq!(next(&mut queue, 2_000_000).0.len(), queue_rest(600 + 600 - 512 - 2 * COURTEOUS_MAX + 1));
    }

    fn queue_rest(len: usize) -> usize {
        len.min(SHARED_MAX)
    }
}
