//! One line per instance: turns of the same instance run one after the other on this node.
//!
//! A slot also keeps the state its last turn made while this node holds calls of the instance, so that the next turn
//! needs no load. Instances that wait for time, people or events leave nothing in memory.
//! Correctness never rests on this: every commit checks the stored version.

use crate::{acting, engine::Engine, turn};
use machine::{Command, Program, State, TenantId, id, state::WaitKind};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    hash::{Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use store::rows::QueueKey;
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

/// States kept in memory at most; beyond it the next turn of an instance loads its state.
const KEPT_MAX: usize = 100_000;

pub(crate) struct Slots {
    shards: Vec<Mutex<HashMap<Key, Slot>>>,
    kept: AtomicUsize,
}

impl Slots {
    pub(crate) fn new() -> Slots {
        Slots { shards: (0..SHARDS).map(|_| Mutex::new(HashMap::new())).collect(), kept: AtomicUsize::new(0) }
    }

    fn shard(&self, key: &Key) -> &Mutex<HashMap<Key, Slot>> {
        let mut hasher = std::hash::DefaultHasher::new();
        key.1.hash(&mut hasher);
        &self.shards[hasher.finish() as usize % SHARDS]
    }

    /// Forgets the state of an instance that will not be back soon.
    pub(crate) fn forget(&self, key: &Key) {
        let mut shard = self.shard(key).lock();
        if shard.get(key).is_some_and(|slot| !slot.busy)
            && let Some(mut slot) = shard.remove(key)
        {
            self.take(&mut slot);
        }
    }

    /// Forgets the states of a tenant that is gone. What has a turn under way goes with it.
    pub(crate) fn forget_all(&self, tenant: &TenantId) {
        for shard in &self.shards {
            shard.lock().retain(|key, slot| {
                let stays = key.0 != *tenant || slot.busy;
                if !stays {
                    self.take(slot);
                }
                stays
            });
        }
    }

    /// Remembers what a start made, so that its first result needs no load.
    pub(crate) fn keep(&self, key: Key, cached: Cached) {
        let mut shard = self.shard(&key).lock();
        if let Entry::Vacant(slot) = shard.entry(key)
            && self.has_room()
        {
            slot.insert(Slot { cached: Some(cached), ..Slot::default() });
        }
    }

    /// True while this node is carrying the instance on.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.shard(key).lock().contains_key(key)
    }

    /// Instances this node has in memory.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    fn take(&self, slot: &mut Slot) -> Option<Cached> {
        let cached = slot.cached.take();
        if cached.is_some() {
            self.kept.fetch_sub(1, Ordering::Relaxed);
        }
        cached
    }

    /// Counts one more kept state, if there is room for it.
    fn has_room(&self) -> bool {
        let room = |kept: usize| (kept < KEPT_MAX).then_some(kept + 1);
        self.kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_ok()
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
        engine.slots.take(slot)
    };
    let driver = engine.clone();
    engine.tasks.spawn(async move { drive(driver, key, work, cached).await });
}

async fn drive(engine: Arc<Engine>, key: Key, first: turn::Work, mut cached: Option<Cached>) {
    let mut work = first;
    loop {
        let acting = work.acting.take();
        cached = acting::within(acting, turn::take(&engine, work, cached)).await;
        let mut shard = engine.slots.shard(&key).lock();
        let Entry::Occupied(mut slot) = shard.entry(key.clone()) else { return };
        match slot.get_mut().queue.pop_front() {
            Some(next) => work = fold(next, &mut slot.get_mut().queue),
            None => {
                let keep = |cached: &Cached| will_be_back(&engine, &key, cached) && engine.slots.has_room();
                match cached.filter(keep) {
                    Some(cached) => *slot.get_mut() = Slot { cached: Some(cached), ..Slot::default() },
                    None => drop(slot.remove()),
                }
                return;
            }
        }
    }
}

/// Ended children of one `map` step that are counted in one turn.
const FOLD_MAX: usize = 512;

/// Children that ended one after the other are counted together: one decision, one commit.
fn fold(first: turn::Work, queue: &mut VecDeque<turn::Work>) -> turn::Work {
    let step_of = |work: &turn::Work| match (&work.command, &work.source) {
        (Command::Items { token, .. }, turn::Source::Signal(_)) => Some(*token),
        _ => None,
    };
    let Some(token) = step_of(&first) else { return first };
    let alike = queue.iter().take(FOLD_MAX - 1).take_while(|work| step_of(work) == Some(token)).count();
    if alike == 0 {
        return first;
    }
    let parts: Vec<turn::Work> = std::iter::once(first).chain(queue.drain(..alike)).collect();
    let mut whole = machine::child::Tally::default();
    for part in &parts {
        if let Command::Items { tally, .. } = &part.command {
            whole.add(tally);
        }
    }
    let command = Command::Items { token, tally: whole };
    turn::Work {
        source: parts[0].source.clone(),
        guards: parts.iter().flat_map(|part| part.guards.iter().cloned()).collect(),
        ..turn::Work::new(parts[0].tenant.clone(), parts[0].instance, command)
    }
    .made_of(parts)
}

/// Only an instance that will be back in a moment is kept in memory: this node holds one of its calls, or what
/// continues it.
fn will_be_back(engine: &Engine, (tenant, instance): &Key, cached: &Cached) -> bool {
    let instance = *instance;
    cached.state.waits.iter().any(|wait| match wait.kind {
        WaitKind::Call | WaitKind::Child => {
            engine.held.has(tenant, QueueKey::Call { instance, token: wait.token })
        }
        WaitKind::Continue => {
            engine.held.has(tenant, QueueKey::Signal { id: id::derive(instance, wait.token) })
        }
        _ => false,
    })
}
