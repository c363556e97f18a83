//! Nodes that come and go: each is started again some time after it crashed, was fenced or was stopped.

use super::{
    chaos::Mutant,
    definitions,
    faulty::Faulty,
    outside::{ATTEMPTS_MAX, Bus, Effect, Sandbox},
    tally,
    time::NodeClock,
    weeks::RETENTION,
    world::World,
};
use machine::{retry::RetryPolicy, time::Span};
use parking_lot::Mutex;
use runtime::{Handle, Node, Options, Parts, clock::Dice};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use worker::Declaration;

const LEASE: Span = Span::from_millis(1500);

/// Of the worker, and of signals and timers whose turn fails: soon given up, so that there are dead letters.
const RETRY: RetryPolicy = RetryPolicy {
    attempts_max: ATTEMPTS_MAX,
    base: Span::from_millis(100),
    factor: 2.0,
    cap: Span::from_secs(1),
};

impl World {
    /// Keeps one node alive until the seed is over.
    pub(crate) fn supervise(&self, name: usize, seed: u64) {
        let world = self.clone();
        let skew = i64::from(self.chaos.levels.skew) * 1000;
        let ahead = self.chaos.below(skew as u64 * 2 + 1) as i64 - skew;
        tokio::spawn(async move {
            let over = world.over.clone();
            tokio::select! {
                biased;
                () = over.cancelled() => {}
                () = world.lives_of(name, seed, ahead) => {}
            }
        });
    }

    async fn lives_of(&self, name: usize, seed: u64, ahead: i64) {
        for life in 0.. {
            let crash = self.over.child_token();
            let parts = self.parts(name, seed ^ (life << 8 | name as u64) << 32, ahead, crash.clone());
            let started = tokio::select! {
                biased;
                () = crash.cancelled() => None,
                node = Node::start(parts) => node.ok(),
            };
            if let Some(node) = started {
                self.chaos.note(format_args!("node {name} is up"));
                self.handles.lock()[name] = Some(node.handle());
                tokio::select! {
                    biased;
                    () = crash.cancelled() => {}
                    () = self.life_of(name, node) => {}
                }
                self.handles.lock()[name] = None;
            }
            crash.cancel();
            sleep(Duration::from_millis(50 + self.chaos.below(1500))).await;
        }
    }

    /// Lets the node be until it is fenced or, sometimes, told to stop. It leaves in both cases, as the binary does.
    async fn life_of(&self, name: usize, node: Node) {
        let stops = self.chaos.strikes(self.chaos.levels.stop);
        let after = Duration::from_millis(200 + self.chaos.below(4000));
        tokio::select! {
            biased;
            () = node.fenced() => self.chaos.note(format_args!("node {name} was fenced")),
            () = sleep(after), if stops => self.chaos.note(format_args!("node {name} is told to stop")),
        }
        self.handles.lock()[name] = None;
        node.stop().await;
        self.chaos.note(format_args!("node {name} has stopped"));
    }

    pub(crate) fn parts(&self, name: usize, seed: u64, ahead: i64, crash: CancellationToken) -> Parts {
        let effect = Effect { chaos: self.chaos.clone(), seen: self.seen.clone() };
        let faulty = Faulty {
            inner: self.store.clone(),
            chaos: self.chaos.clone(),
            seen: self.seen.clone(),
            crash: crash.clone(),
            name,
            late: self.late.clone(),
            stalled_until: Mutex::new(Instant::now()),
            leases: self.leases.clone(),
            stall_max: Duration::from_micros(LEASE.0 as u64 * 3),
        };
        let mut parts = Parts::new(Arc::new(faulty));
        parts.clock = Arc::new(NodeClock { ahead });
        parts.entropy = Arc::new(Dice::from_seed(seed));
        parts.evaluator = Arc::new(Sandbox(self.chaos.clone()));
        let carrier = Arc::new(Bus { chaos: self.chaos.clone(), seen: self.seen.clone() });
        parts.buses = vec![runtime::buses::Bus {
            name: "bus".to_owned(),
            types: vec!["*".to_owned()],
            carrier,
            incomings: None,
        }];
        parts.workers = vec![Declaration::new("effect", effect).retry(RETRY)];
        parts.workers.extend(tally::workers(&self.chaos, RETRY));
        parts.programs = definitions::programs();
        parts.crash = Some(crash);
        parts.options = Options {
            lease: LEASE,
            rescan: (!self.chaos.is(Mutant::NotifyOnly)).then_some(Span::from_secs(5)),
            batch_max: 8,
            poison: RETRY,
            retention: RETENTION,
            ..Options::default()
        };
        parts
    }

    /// Any node that is up.
    pub(crate) async fn any_node(&self) -> Handle {
        loop {
            let up: Vec<Handle> = self.handles.lock().iter().flatten().cloned().collect();
            match up.is_empty() {
                true => sleep(Duration::from_millis(20)).await,
                false => return up[self.chaos.below(up.len() as u64) as usize].clone(),
            }
        }
    }
}
