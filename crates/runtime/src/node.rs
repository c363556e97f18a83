//! One process start: a fresh id, a lease, the pumps, and a graceful stop.

use crate::{
    Handle, acl,
    asked::Asked,
    audit::{self, Trail},
    batches,
    buses::{self, Bus, Buses},
    callees::Callees,
    clock::{Clock, Dice, Entropy, SystemClock},
    clocks::Clocks,
    collections::Collecting,
    committer::{Committer, Pipeline},
    definitions::{Definitions, Programs},
    deliveries,
    egress::Egress,
    engine::{Engine, Evaluate, NoSandbox},
    event_types::{self, EventTypes},
    finder::{self, Wake},
    flush::Flush,
    guards::Guards,
    heavy::Heavy,
    held::Held,
    hints,
    hub::Hub,
    lanes::Queue,
    lease::{self, Lease, TakingOver},
    metrics::Metrics,
    newer::Newer,
    options::Options,
    outbox,
    polls::Polls,
    retention, runs, schedules,
    secrets::{self, Keyring},
    slots::Slots,
    spans::{NoSpans, Spans},
    subscribers::{self, Subscribers},
    tasks::{Halt, Tasks},
    tenants::{self, Tenants},
    webhooks::{self, Webhooks},
};
use futures_util::future::BoxFuture;
use machine::{Time, token::Origin};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Duration,
};
use store::{Hints, NoHints, Store};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use worker::Declaration;

/// What a node is built from. `Parts::new` gives the real clock, real chance, no workers, no sandbox, no bus.
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub evaluator: Arc<dyn Evaluate>,
    pub buses: Vec<Bus>,
    pub workers: Vec<Declaration>,
    pub options: Options,
    /// Compiled definitions; nodes of one process may share them.
    pub programs: Programs,
    /// What seals and opens the secrets of tenants; without any there are none.
    pub secrets: Keyring,
    /// This is the only process on the store: whatever other nodes left is taken over at once.
    pub sole: bool,
    /// How this node and others of the same store wake each other.
    pub hints: Arc<dyn Hints>,
    /// Who collects spans.
    pub spans: Arc<dyn Spans>,
    /// Drops the whole node at once when cancelled, as a crash would.
    pub crash: Option<CancellationToken>,
}

impl Parts {
    pub fn new(store: Arc<dyn Store>) -> Parts {
        Parts {
            store,
            clock: Arc::new(SystemClock),
            entropy: Arc::new(Dice::from_os()),
            evaluator: Arc::new(NoSandbox),
            buses: Vec::new(),
            workers: Vec::new(),
            options: Options::default(),
            programs: Programs::default(),
            secrets: Keyring::default(),
            sole: false,
            hints: Arc::new(NoHints),
            spans: Arc::new(NoSpans),
            crash: None,
        }
    }
}

/// What signal tokens are made with, the same on every node.
async fn origin(
    store: &Arc<dyn Store>,
    entropy: &Arc<dyn Entropy>,
    options: &Options,
) -> store::Result<Origin> {
    let fresh = [entropy.bytes16(), entropy.bytes16()].concat().try_into().expect("twice 16 bytes");
    let key = store.deployment_key("signal-token", fresh).await?;
    Ok(Origin { key, public_url: options.public_url.clone() })
}

/// A running node.
pub struct Node {
    engine: Arc<Engine>,
}

impl Node {
    /// Joins, takes over what ended nodes left, and starts the pumps. Refuses options no node can work with.
    pub fn start(parts: Parts) -> BoxFuture<'static, store::Result<Node>> {
        // Boxed, so that the pumps are built and optimised with this crate and not with whoever awaits this.
        Box::pin(Node::join(parts))
    }

    async fn join(parts: Parts) -> store::Result<Node> {
        let Parts { store, clock, entropy, evaluator, buses, workers, options, programs, .. } = parts;
        let Parts { secrets, sole, hints, spans, crash, .. } = parts;
        usable(&options, &workers)?;
        let workers: Vec<Declaration> = workers.into_iter().map(|worker| options.over(worker)).collect();
        let now = clock.now();
        let joined_at = clock.steady_micros();
        let node = entropy.id(now);
        store.join(node, now, options.lease.as_millis()).await?;
        let origin = Arc::new(origin(&store, &entropy, &options).await?);
        let tasks = Arc::new(Tasks::new(crash));
        let pipeline = Pipeline::new(&options, store.clone(), clock.clone(), node);
        let subscribers = Subscribers::new(&workers, &buses);
        let callees = Callees::new(workers);
        let lease = Arc::new(Lease::new(options.lease, sole, clock.clone(), joined_at));
        let engine = Arc::new(Engine {
            node,
            committer: Committer::start(&tasks, pipeline),
            flush: Flush::default(),
            definitions: Definitions::new(store.clone(), programs, options.lifecycle),
            origin,
            turns: Arc::new(Semaphore::new(options.turns_in_flight_max)),
            slots: Slots::new(),
            held: Held::default(),
            calls: Queue::of_calls(&options, callees.caps()),
            callees,
            deliveries: Queue::of_deliveries(&options, &subscribers),
            deliveries_left: AtomicBool::new(false),
            subscribers,
            event_types: EventTypes::default(),
            polled: Notify::new(),
            buses: Buses::new(buses, now),
            webhooks: Webhooks::new(now),
            polls: Polls::default(),
            guards: Guards::new(&options),
            egress: Egress::new(&options, (store.clone(), clock.clone()), lease.clone(), secrets.clone()),
            secrets,
            wake: Wake::new(),
            hub: Hub::new(),
            collecting: Collecting::default(),
            asked: Asked::default(),
            hints,
            // Where others publish too, this node cannot know that nothing is kept.
            keeps_events: AtomicBool::new(!sole || store.keeps_events().await?),
            metrics: Metrics::new(options.metrics_series_max),
            spans,
            heavy: Heavy::new(),
            lease,
            looking_since: AtomicU64::new(0),
            taking_over: TakingOver::default(),
            newer: Newer::default(),
            trail: Trail::default(),
            sole,
            store,
            clock,
            clocks: Clocks::default(),
            tenants: Tenants::default(),
            entropy,
            evaluator,
            options,
            tasks,
        });
        match Node::begin(&engine).await {
            Ok(()) => Ok(Node { engine }),
            Err(error) => {
                engine.tasks.stopping.cancel();
                Err(error)
            }
        }
    }

    /// Spawns the pumps. Whatever the start has to wait for meanwhile, the lease is kept.
    async fn begin(engine: &Arc<Engine>) -> store::Result<()> {
        let tasks = &engine.tasks;
        tasks.spawn_pump(lease::keep(engine.clone()));
        match engine.sole {
            true => lease::take_over(engine, Time(i64::MAX)).await?,
            false => lease::begin_take_over(engine),
        }
        engine.clocks.set(engine.store.clocks().await?);
        tenants::reload(engine).await?;
        subscribers::reload(engine).await?;
        event_types::reload(engine).await?;
        runs::put_all(engine).await.map_err(|refusal| store::Error::Unavailable(refusal.to_string()))?;
        // A stop waits for the finder, so that it claims nothing after the node has left.
        tasks.spawn(finder::run(engine.clone()));
        tasks.spawn(deliveries::run(engine.clone()));
        tasks.spawn(schedules::run(engine.clone()));
        tasks.spawn_pump(outbox::run(engine.clone()));
        tasks.spawn_pump(webhooks::run(engine.clone()));
        for line in engine.buses.lines() {
            tasks.spawn_pump(buses::run(engine.clone(), line.clone()));
            tasks.spawn_pump(buses::inlets::run(engine.clone(), line.clone()));
        }
        tasks.spawn_pump(batches::run(engine.clone()));
        tasks.spawn_pump(acl::run(engine.clone()));
        tasks.spawn_pump(retention::run(engine.clone()));
        tasks.spawn_pump(audit::run(engine.clone()));
        tasks.spawn_pump(hints::run(engine.clone()));
        secrets::reseal(engine).await
    }

    pub fn id(&self) -> Uuid {
        self.engine.node
    }

    pub fn handle(&self) -> Handle {
        Handle::new(self.engine.clone())
    }

    /// Says that a stop is near: what waits for the sandbox is given up at once and refused as unavailable, so that
    /// nobody waits through a stop for what will not come. Everything else goes on.
    pub fn leaving(&self) {
        self.engine.tasks.leaving.cancel();
    }

    /// Stops claiming, lets what is in flight finish within the grace time, gives the rest back.
    pub async fn stop(self) {
        self.leaving();
        self.engine.tasks.stopping.cancel();
        let grace = Duration::from_micros(self.engine.options.stop_grace.0.max(0) as u64);
        let drained = tokio::time::timeout(grace, self.engine.tasks.idle()).await.is_ok();
        if !drained {
            tracing::warn!("work in flight did not finish in time; it will be done again elsewhere");
        }
        if let Err(error) = self.engine.store.leave(self.engine.node).await {
            tracing::warn!(%error, "leaving the store failed");
        }
    }

    /// Returns when the node must stop: another took it over, or its store cannot be trusted. See [`Node::halted`].
    pub async fn fenced(&self) {
        self.engine.tasks.stopping.cancelled().await;
    }

    /// Why the node stopped by itself, if it did.
    pub fn halted(&self) -> Option<Halt> {
        self.engine.tasks.halted()
    }
}

/// Refuses what no node can work with.
fn usable(options: &Options, workers: &[Declaration]) -> store::Result<()> {
    if let Some(problem) = options.problem() {
        return Err(store::Error::Unavailable(format!("options: {problem}")));
    }
    match options.worker_problem(workers).or_else(|| workers.iter().find_map(Declaration::problem)) {
        Some(problem) => Err(store::Error::Misconfigured(problem)),
        None => Ok(()),
    }
}
