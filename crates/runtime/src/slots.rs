//! One line per instance: turns of the same instance run one after the other on this node.
//!
//! A slot also keeps the state its last turn made while calls of the instance are in flight, so that the next turn
//! needs no load. Instances that wait for time, people or events leave nothing in memory.
//! Correctness never rests on this: every commit checks the stored version.

use crate::{engine::Engine, turn};
use machine::{Program, State, TenantId};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    hash::{Hash, Hasher},
    sync::Arc,
};
use uuid::Uuid;

pub(crate) type Key = (TenantId, Uuid);

/// A state as of a version, with its program.
#[derive(Clone)]
pub(crate) struct Cached {
    pub(crate) version: i64,
    pub(crate) state: Arc<State>,
    pub(crate) program: Arc<Program>,
}

#[derive(Default)]
struct Slot {
    busy: bool,
    queue: VecDeque<turn::Work>,
    cached: Option<Cached>,
}

const SHARDS: usize = 16;

pub(crate) struct Slots {
    shards: Vec<Mutex<HashMap<Key, Slot>>>,
}

impl Slots {
    pub(crate) fn new() -> Slots {
        Slots { shards: (0..SHARDS).map(|_| Mutex::new(HashMap::new())).collect() }
    }

    fn shard(&self, key: &Key) -> &Mutex<HashMap<Key, Slot>> {
        let mut hasher = std::hash::DefaultHasher::new();
        key.1.hash(&mut hasher);
        &self.shards[hasher.finish() as usize % SHARDS]
    }

    /// Forgets the state of an instance that will not be back soon.
    pub(crate) fn forget(&self, key: &Key) {
        let mut shard = self.shard(key).lock();
        if shard.get(key).is_some_and(|slot| !slot.busy) {
            shard.remove(key);
        }
    }

    /// Remembers what a start made, so that its first result needs no load.
    pub(crate) fn keep(&self, key: Key, cached: Cached) {
        if worth_keeping(&cached) {
            let mut shard = self.shard(&key).lock();
            let slot = shard.entry(key).or_default();
            if !slot.busy {
                slot.cached = Some(cached);
            }
        }
    }
}

/// Puts work in its instance's line; the line is driven by a task while there is work in it.
pub(crate) fn submit(engine: &Arc<Engine>, work: turn::Work) {
    let key = (work.tenant.clone(), work.instance);
    let cached = {
        let mut shard = engine.slots.shard(&key).lock();
        let slot = shard.entry(key.clone()).or_default();
        if slot.busy {
            slot.queue.push_back(work);
            return;
        }
        slot.busy = true;
        slot.cached.take()
    };
    let driver = engine.clone();
    engine.tasks.spawn(async move { drive(driver, key, work, cached).await });
}

async fn drive(engine: Arc<Engine>, key: Key, first: turn::Work, mut cached: Option<Cached>) {
    let mut work = first;
    loop {
        cached = turn::take(&engine, work, cached).await;
        let mut shard = engine.slots.shard(&key).lock();
        let Entry::Occupied(mut slot) = shard.entry(key.clone()) else { return };
        match slot.get_mut().queue.pop_front() {
            Some(next) => work = next,
            None => {
                match cached.filter(worth_keeping) {
                    Some(cached) => *slot.get_mut() = Slot { cached: Some(cached), ..Slot::default() },
                    None => drop(slot.remove()),
                }
                return;
            }
        }
    }
}

/// Only an instance that will be back in a moment is kept in memory.
fn worth_keeping(cached: &Cached) -> bool {
    use machine::state::WaitKind::{Call, Continue};
    !cached.state.status.is_ended()
        && cached.state.waits.iter().any(|wait| matches!(wait.kind, Call | Continue))
}
