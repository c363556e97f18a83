//! What goes wrong, and when: drawn from the seed alone.

use super::time;
use parking_lot::Mutex;
use rand::{Rng, SeedableRng, rngs::SmallRng};
use sha2::{Digest, Sha256};
use std::{
    fmt::Write as _,
    sync::atomic::{AtomicBool, Ordering},
};

/// A bug that can be switched on; the simulator must notice every one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Answers "committed" before it is.
    AckFirst,
    /// Takes the same signal twice.
    NoSigDedup,
    /// A signal that comes too late for its instance is used up without a word.
    DropLateSignal,
    /// A late timer ends whatever timer is waited for now.
    NoToken,
    /// A retried call gets another key.
    KeyPerAttempt,
    /// Events are written after the commit instead of with it.
    PostCommitPublish,
    /// Snapshots are overwritten whatever version is stored.
    NoCas,
    /// The idempotency record has a commit of its own.
    SplitIdem,
    /// Nothing looks for work that nobody announced: neither the re-scan nor the look at what is due next. A node
    /// still looks once when it starts.
    NotifyOnly,
    /// A client that does not know how its start ended asks again under another key.
    NewKeyOnUnknown,
    /// A slot is recorded in a commit of its own, before its instance.
    SplitSlot,
    /// An event that nothing takes is not kept.
    NoMailbox,
    /// A child's word to its parent is written after the commit of its end instead of with it.
    TellLater,
    /// A child is created in a commit before the one that takes its call and tells the parent.
    StartFirst,
    /// A step that was cut off counts as not done, so that nobody undoes what its call did.
    ForgetCutOff,
    /// Retention forgets that what ended may be young.
    PurgeYoung,
    /// Retention forgets that a key may be young.
    PurgeKeys,
    /// What a node commits after it was taken over lands.
    NoFence,
    /// Each node judges leases by its own clock.
    LocalClock,
    /// A node that leaves gives back every row it ever had, whoever has it now.
    ZombieRelease,
    /// A node puts back what failed, whoever has it now.
    BlindRetry,
    /// An event takes effect whatever others with its domain key have done.
    NoDomainKey,
    /// A delivery is ended in a commit before the one that writes what follows from it.
    SplitDelivery,
}

pub(crate) const MUTANTS: [Mutant; 23] = [
    Mutant::AckFirst,
    Mutant::NoSigDedup,
    Mutant::DropLateSignal,
    Mutant::NoToken,
    Mutant::KeyPerAttempt,
    Mutant::PostCommitPublish,
    Mutant::NoCas,
    Mutant::SplitIdem,
    Mutant::NotifyOnly,
    Mutant::NewKeyOnUnknown,
    Mutant::SplitSlot,
    Mutant::NoMailbox,
    Mutant::TellLater,
    Mutant::StartFirst,
    Mutant::ForgetCutOff,
    Mutant::PurgeYoung,
    Mutant::PurgeKeys,
    Mutant::NoFence,
    Mutant::LocalClock,
    Mutant::ZombieRelease,
    Mutant::BlindRetry,
    Mutant::NoDomainKey,
    Mutant::SplitDelivery,
];

/// Probabilities in thousandths per opportunity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Levels {
    pub(crate) crash_before: u32,
    pub(crate) crash_after: u32,
    pub(crate) unknown_lost: u32,
    pub(crate) unknown_landed: u32,
    pub(crate) unavailable: u32,
    pub(crate) full: u32,
    pub(crate) conflict: u32,
    /// A claim lands and its answer gets lost.
    pub(crate) claim_lost: u32,
    pub(crate) late_timer: u32,
    pub(crate) repeat_signal: u32,
    pub(crate) early_signal: u32,
    pub(crate) zombie: u32,
    /// A node's life ends with a graceful stop.
    pub(crate) stop: u32,
    pub(crate) worker_retries: u32,
    pub(crate) worker_fails: u32,
    pub(crate) worker_poison: u32,
    /// The worker's answer is one that the store refuses.
    pub(crate) worker_refused: u32,
    pub(crate) slow: u32,
    /// An operator pauses the instance, and resumes it later.
    pub(crate) pause: u32,
    pub(crate) cancel: u32,
    /// Two people complete the same task at once.
    pub(crate) rivals: u32,
    /// Not a probability: milliseconds that a node's clock may be off either way.
    pub(crate) skew: u32,
}

/// Chance, faults and the record of one seed.
pub(crate) struct Chaos {
    rng: Mutex<SmallRng>,
    pub(crate) levels: Levels,
    pub(crate) mutant: Option<Mutant>,
    calm: AtomicBool,
    trace: Mutex<Sha256>,
    log: Option<Mutex<String>>,
}

impl Chaos {
    pub(crate) fn new(seed: u64, mutant: Option<Mutant>, keep_log: bool) -> Chaos {
        let mut rng = SmallRng::seed_from_u64(seed);
        // Swarm: each fault class is off, low or high in a seed, so that some seeds are quiet.
        let mut level = |high: u32| [0, high / 4, high][rng.random_range(0..3)];
        let levels = Levels {
            crash_before: level(40),
            crash_after: level(40),
            unknown_lost: level(60),
            unknown_landed: level(60),
            unavailable: level(80),
            full: level(40),
            conflict: level(80),
            claim_lost: level(60),
            late_timer: level(400),
            repeat_signal: level(500),
            early_signal: level(500),
            zombie: level(12),
            stop: level(400),
            worker_retries: level(400),
            worker_fails: level(100),
            worker_poison: level(60),
            worker_refused: level(60),
            slow: level(300),
            pause: level(300),
            cancel: level(250),
            rivals: level(600),
            skew: level(2000),
        };
        Chaos {
            rng: Mutex::new(rng),
            levels,
            mutant,
            calm: AtomicBool::new(false),
            trace: Mutex::new(Sha256::new()),
            log: keep_log.then(|| Mutex::new(String::new())),
        }
    }

    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// From now on nothing goes wrong by itself.
    pub(crate) fn heal(&self) {
        self.calm.store(true, Ordering::Relaxed);
    }

    /// Things go wrong again.
    pub(crate) fn rekindle(&self) {
        self.calm.store(false, Ordering::Relaxed);
    }

    pub(crate) fn lasts(&self) -> bool {
        !self.calm.load(Ordering::Relaxed)
    }

    /// True with the given probability in thousandths, while the chaos lasts.
    pub(crate) fn strikes(&self, per_mille: u32) -> bool {
        self.lasts() && self.rng.lock().random_range(0..1000) < per_mille
    }

    pub(crate) fn below(&self, limit: u64) -> u64 {
        self.rng.lock().random_range(0..limit.max(1))
    }

    /// Records something that happened; two goes of a seed must record the same.
    pub(crate) fn note(&self, text: std::fmt::Arguments<'_>) {
        let line = format!("{:?} {text}\n", time::elapsed());
        self.trace.lock().update(line.as_bytes());
        if let Some(log) = &self.log {
            let _ = log.lock().write_str(&line);
        }
    }

    pub(crate) fn trace_hash(&self) -> String {
        let digest = self.trace.lock().clone().finalize();
        digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn log(&self) -> String {
        self.log.as_ref().map(|log| log.lock().clone()).unwrap_or_default()
    }
}
