//! One seed: nodes that come and go over one store, clients that start, signal and answer tasks, then calm, then a
//! look at everything that was left behind.

use super::{
    chaos::{Chaos, Mutant},
    check::{self, Seen},
    faulty::{Faulty, LateTimers},
};
use async_trait::async_trait;
use machine::{Data, TenantId, Time, language::Format, retry::RetryPolicy, time::Span};
use parking_lot::Mutex;
use runtime::{
    Handle, Node, Options, Parts,
    api::{DefinitionRef, Order, Refusal, Signal, Start, TaskAct},
    clock::{Clock, Dice},
    outbox::Publish,
};
use std::{
    cell::Cell,
    sync::{Arc, OnceLock},
    time::Duration,
};
use store::{Commit, Store, Write, rows::*, sqlite::Inline, views::*};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use worker::{Class, Context, Declaration, Outcome};

/// What the seeds go through. `steps` has timers and an event, `signals` listens, `fork` has branches and a person,
/// `limits` has waits that end early.
const DEFINITIONS: [(&str, &str); 4] = [
    (
        "steps",
        "do:
- a: { call: 'effect:1.0.0@default' }
- rest: { wait: { seconds: 1 } }
- b: { call: 'effect:1.0.0@default' }
- rest2: { wait: { seconds: 2 } }
- tell: { emit: { event: { with: { source: 'https://sim', type: done } } } }",
    ),
    (
        "signals",
        "do:
- first: { listen: { to: { one: { with: { type: go } } } } }
- a: { call: 'effect:1.0.0@default' }
- second: { listen: { to: { one: { with: { type: go } } } } }
- third: { listen: { to: { one: { with: { type: go } } } } }",
    ),
    (
        "fork",
        "do:
- all:
    fork:
      branches:
      - a: { call: 'effect:1.0.0@default' }
      - b: { listen: { to: { one: { with: { type: go } } } } }
      - c: { wait: { seconds: 1 } }
      - d: { call: 'human-task:1.0.0@default', with: { title: Decide } }
- e: { call: 'effect:1.0.0@default' }",
    ),
    (
        "limits",
        "do:
- t:
    try: [ { ask: { listen: { to: { one: { with: { type: never } } } }, timeout: { after: { milliseconds: 500 } } } } ]
    catch: { errors: { with: { status: 408 } } }
- rest: { wait: { seconds: 3 } }
- r:
    try: [ { c: { call: 'effect:1.0.0@default' } } ]
    catch: { retry: { delay: { milliseconds: 300 }, limit: { attempt: { count: 2 } } } }
- rest2: { wait: { seconds: 1 } }",
    ),
];

thread_local!(static ORIGIN: Cell<Option<Instant>> = const { Cell::new(None) });

/// When the seed's time began.
pub(crate) fn origin() -> Instant {
    ORIGIN.get().expect("a seed is under way")
}

/// Virtual time: tokio's paused clock from a fixed beginning.
struct VirtualClock;

const EPOCH: i64 = 1_700_000_000_000_000;

#[async_trait]
impl Clock for VirtualClock {
    fn now(&self) -> Time {
        Time(EPOCH + Instant::now().duration_since(origin()).as_micros() as i64)
    }
    async fn sleep_until(&self, time: Time) {
        let left = time.since(self.now()).0.clamp(0, 86_400_000_000) as u64;
        // Tokio's timers tick in milliseconds: round up, a timer must not be early.
        tokio::time::sleep(Duration::from_millis(left.div_ceil(1000))).await;
    }
    fn steady_micros(&self) -> u64 {
        Instant::now().duration_since(origin()).as_micros() as u64
    }
}

/// The outside: records every effect and every event.
struct Outside {
    chaos: Arc<Chaos>,
    seen: Arc<Mutex<Seen>>,
}

#[async_trait]
impl worker::Worker for Outside {
    async fn handle(&self, context: &Context, _: Data) -> Outcome {
        sleep(Duration::from_millis(self.chaos.below(30))).await;
        let place = (context.instance.clone(), context.step.clone());
        self.chaos
            .note(format_args!("effect {} {} attempt {}", context.instance, context.step, context.attempt));
        self.seen.lock().effects.entry(place).or_default().push(context.key.clone());
        let levels = &self.chaos.levels;
        if self.chaos.strikes(levels.worker_retries) {
            return Outcome::retry("simulated");
        }
        if self.chaos.strikes(levels.worker_fails) {
            return Outcome::fail(Class::Validation, "simulated");
        }
        if self.chaos.strikes(levels.worker_poison) {
            return Outcome::Done(Data(jaq_nan()));
        }
        Outcome::Done(Data::int(1))
    }
}

/// A value JSON cannot say.
fn jaq_nan() -> machine::data::Val {
    machine::data::not_a_number()
}

struct Bus(Arc<Mutex<Seen>>);

#[async_trait]
impl Publish for Bus {
    async fn publish(&self, _: &TenantId, event: &OutboxRow) -> Result<(), String> {
        self.0.lock().published.entry(event.key.clone()).or_default().push(event.id);
        Ok(())
    }
}

pub(crate) struct World {
    chaos: Arc<Chaos>,
    store: Arc<Inline>,
    tenant: TenantId,
    late: LateTimers,
    handles: Arc<Mutex<Vec<Option<Handle>>>>,
    pub(crate) seen: Arc<Mutex<Seen>>,
    over: CancellationToken,
}

/// What one go of a seed came to.
pub(crate) struct Verdict {
    pub(crate) failures: Vec<String>,
    pub(crate) trace: String,
    pub(crate) log: String,
}

/// Goes through one seed.
pub(crate) fn simulate(seed: u64, mutant: Option<Mutant>, keep_log: bool) -> Verdict {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O always builds");
    runtime.block_on(async {
        ORIGIN.set(Some(Instant::now()));
        let world = World::new(seed, mutant, keep_log).await;
        let mut failures = world.live(seed).await;
        if failures.is_empty() {
            failures = check::everything(world.store.as_ref(), &world.tenant, &world.seen.lock()).await;
        }
        Verdict { failures, trace: world.chaos.trace_hash(), log: world.chaos.log() }
    })
}

impl World {
    async fn new(seed: u64, mutant: Option<Mutant>, keep_log: bool) -> World {
        let world = World {
            chaos: Arc::new(Chaos::new(seed, mutant, keep_log)),
            store: Arc::new(Inline::new().expect("memory is there")),
            tenant: TenantId::new("sim").expect("valid"),
            late: LateTimers::default(),
            handles: Arc::default(),
            seen: Arc::default(),
            over: CancellationToken::new(),
        };
        let node = Uuid::from_u128(1);
        world.store.join(node, Time(EPOCH), 1_000_000_000).await.expect("a fresh store");
        let writes =
            definitions().iter().cloned().map(|row| Write::CreateDefinition(Box::new(row))).collect();
        let commit = Commit { tenant: world.tenant.clone(), writes };
        world.store.commit(node, vec![commit]).await.expect("a fresh store");
        world.store.leave(node).await.expect("a fresh store");
        world
    }

    /// Chaos, then heal, then drain. Answers what did not come to rest.
    async fn live(&self, seed: u64) -> Vec<String> {
        let nodes = 1 + self.chaos.below(3) as usize;
        self.handles.lock().resize(nodes, None);
        for name in 0..nodes {
            self.supervise(name, seed);
        }
        let clients = 3 + self.chaos.below(5);
        let mut busy = tokio::task::JoinSet::new();
        for client in 0..clients {
            let definition = DEFINITIONS[self.chaos.below(4) as usize].0;
            let delay = Duration::from_millis(self.chaos.below(4000));
            let world = self.share();
            busy.spawn(async move {
                sleep(delay).await;
                world.client(client, definition).await;
            });
        }
        let chaos_ends = Duration::from_millis(4000 + self.chaos.below(8000));
        sleep(chaos_ends).await;
        self.chaos.heal();
        self.chaos.note(format_args!("calm"));
        let drained = timeout(Duration::from_secs(240), async {
            while !self.drained().await || !busy.is_empty() {
                sleep(Duration::from_millis(500)).await;
                while busy.try_join_next().is_some() {}
            }
        });
        let failures = match drained.await {
            Ok(()) => vec![],
            Err(_) => vec![self.what_is_left().await],
        };
        self.over.cancel();
        failures
    }

    fn share(&self) -> World {
        World {
            chaos: self.chaos.clone(),
            store: self.store.clone(),
            tenant: self.tenant.clone(),
            late: self.late.clone(),
            handles: self.handles.clone(),
            seen: self.seen.clone(),
            over: self.over.clone(),
        }
    }

    /// Keeps one node alive: starts it, and again some time after each crash.
    fn supervise(&self, name: usize, seed: u64) {
        let world = self.share();
        tokio::spawn(async move {
            let over = world.over.clone();
            tokio::select! {
                biased;
                () = over.cancelled() => {}
                () = world.lives_of(name, seed) => {}
            }
        });
    }

    async fn lives_of(&self, name: usize, seed: u64) {
        for life in 0.. {
            let crash = CancellationToken::new();
            let parts = self.parts(name, seed ^ (life << 8 | name as u64) << 32, crash.clone());
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
                    () = node.fenced() => self.chaos.note(format_args!("node {name} was fenced")),
                }
                self.handles.lock()[name] = None;
            }
            crash.cancel();
            sleep(Duration::from_millis(50 + self.chaos.below(1500))).await;
        }
    }

    fn parts(&self, name: usize, seed: u64, crash: CancellationToken) -> Parts {
        let outside = Outside { chaos: self.chaos.clone(), seen: self.seen.clone() };
        let retry = RetryPolicy {
            attempts_max: 4,
            base: Span::from_millis(100),
            factor: 2.0,
            cap: Span::from_secs(1),
        };
        let lease = Span::from_millis(1500);
        let faulty = Faulty {
            inner: self.store.clone(),
            chaos: self.chaos.clone(),
            crash: crash.clone(),
            name,
            late: self.late.clone(),
            stalled_until: Mutex::new(Instant::now()),
            zombie: Duration::from_micros(lease.0 as u64 * 3),
        };
        let mut parts = Parts::new(Arc::new(faulty));
        parts.clock = Arc::new(VirtualClock);
        parts.entropy = Arc::new(Dice::from_seed(seed));
        parts.bus = Arc::new(Bus(self.seen.clone()));
        parts.workers = vec![Declaration::new("effect", outside).retry(retry)];
        parts.crash = Some(crash);
        parts.options = Options {
            lease,
            rescan: (!self.chaos.is(Mutant::NotifyOnly)).then_some(Span::from_secs(5)),
            batch_max: 8,
            ..Options::default()
        };
        parts
    }

    /// Any node that is up.
    async fn any_node(&self) -> Handle {
        loop {
            let up: Vec<Handle> = self.handles.lock().iter().flatten().cloned().collect();
            match up.is_empty() {
                true => sleep(Duration::from_millis(20)).await,
                false => return up[self.chaos.below(up.len() as u64) as usize].clone(),
            }
        }
    }

    /// One client: starts an instance, sends its signals, answers its task; asks again until each is acknowledged.
    async fn client(&self, client: u64, definition: &'static str) {
        let chosen = Uuid::from_u128(u128::from(client + 1) << 64 | 0x7000_8000);
        let early = definition == "signals" && self.chaos.strikes(self.chaos.levels.early_signal);
        if early {
            self.signal(chosen, client, 0).await;
        }
        let id = self.start(client, definition, chosen).await;
        let signals = match definition {
            "signals" => u64::from(early)..3,
            "fork" => 0..1,
            _ => 0..0,
        };
        for signal in signals {
            sleep(Duration::from_millis(self.chaos.below(1500))).await;
            self.signal(id, client, signal).await;
        }
        if definition == "fork" {
            self.answer_task(id).await;
        }
    }

    async fn start(&self, client: u64, definition: &str, chosen: Uuid) -> Uuid {
        let mut key = format!("client-{client}");
        for attempt in 0.. {
            let renamed = self.chaos.is(Mutant::NewKeyOnUnknown) && attempt > 0;
            if renamed {
                key = format!("client-{client}-{attempt}");
            }
            let start = Start {
                definition: DefinitionRef {
                    namespace: "sim".to_owned(),
                    name: definition.to_owned(),
                    version: Some("1.0.0".to_owned()),
                },
                input: Data::map([("client".to_owned(), Data::int(client as i64))]),
                business_key: None,
                idempotency_key: Some(key.clone()),
                traceparent: None,
                correlation_id: None,
                id: (!renamed).then_some(chosen),
            };
            let node = self.any_node().await;
            match timeout(Duration::from_secs(2), node.start(&self.tenant, start)).await {
                Ok(Ok(started)) => {
                    self.chaos.note(format_args!("client {client} started {}", started.id));
                    self.seen.lock().started.push((client, started.id, definition.to_owned()));
                    return started.id;
                }
                Ok(Err(refusal)) => self.chaos.note(format_args!("client {client}: {refusal}")),
                Err(_) => self.chaos.note(format_args!("client {client}: no answer")),
            }
            sleep(Duration::from_millis(20 + self.chaos.below(200))).await;
        }
        unreachable!("the loop ends with a start")
    }

    async fn signal(&self, instance: Uuid, client: u64, number: u64) {
        let id = Uuid::from_u128(u128::from(client + 1) << 64 | 0x9000_8000 | u128::from(number) << 96);
        let mut sent = false;
        loop {
            let node = self.any_node().await;
            let signal = Signal { name: "go".to_owned(), data: Data::int(number as i64), id: Some(id) };
            let answer =
                timeout(Duration::from_secs(2), node.signal_early(&self.tenant, instance, signal)).await;
            sent |= matches!(answer, Ok(Ok(_)));
            if sent && !self.chaos.strikes(self.chaos.levels.repeat_signal) {
                self.seen.lock().signals.push((instance, id));
                return;
            }
            sleep(Duration::from_millis(self.chaos.below(600))).await;
        }
    }

    async fn answer_task(&self, instance: Uuid) {
        loop {
            sleep(Duration::from_millis(100 + self.chaos.below(500))).await;
            let filter = TaskFilter { instance: Some(instance), ..TaskFilter::default() };
            let page = Page { after: None, limit: 10 };
            let tasks =
                self.store.tasks(&self.tenant, &filter, &page).await.expect("the inner store answers");
            if tasks.iter().any(|task| task.status == "completed") {
                return;
            }
            let Some(task) = tasks.iter().find(|task| task.ended_at.is_none()) else { continue };
            let act = TaskAct::Complete { result: Data::bool(true) };
            let node = self.any_node().await;
            let _ =
                timeout(Duration::from_secs(2), node.act_on_task(&self.tenant, task.id, act, "ann", None))
                    .await;
        }
    }

    /// Replays what was given up, retries what faulted. `true` once everything has completed.
    async fn drained(&self) -> bool {
        let page = Page { after: None, limit: PAGE_MAX };
        let letters = self.store.dead_letters(&self.tenant, &DeadLetterFilter::default(), &page).await;
        for letter in letters.expect("the inner store answers") {
            let node = self.any_node().await;
            for _ in 0..2 {
                let replay = node.replay_dead_letter(&self.tenant, letter.id, "sim");
                let _ = timeout(Duration::from_secs(2), replay).await;
            }
        }
        let open = self.not_completed().await;
        for view in open.iter().filter(|view| view.row.status == "faulted") {
            let node = self.any_node().await;
            let _: Result<Result<_, Refusal>, _> =
                timeout(Duration::from_secs(2), node.order(&self.tenant, view.row.id, Order::Retry, "sim"))
                    .await;
        }
        let counts = self.store.counts(None).await.expect("the inner store answers");
        let idle = counts.signals + counts.calls + counts.timers + counts.dead_letters + counts.outbox == 0;
        open.is_empty() && idle
    }

    async fn not_completed(&self) -> Vec<InstanceView> {
        let page = Page { after: None, limit: PAGE_MAX };
        let all = self.store.instances(&self.tenant, &InstanceFilter::default(), &page).await;
        let mut all = all.expect("the inner store answers");
        all.retain(|view| view.row.status != "completed");
        all
    }

    async fn what_is_left(&self) -> String {
        let open: Vec<String> = self
            .not_completed()
            .await
            .iter()
            .map(|view| {
                format!(
                    "{} {} {} waits for {:?}",
                    view.row.id, view.row.name, view.row.status, view.waiting_kind
                )
            })
            .collect();
        let counts = self.store.counts(None).await.expect("the inner store answers");
        format!("did not come to rest: {open:?}, {counts:?}")
    }
}

/// The definitions, compiled once for all seeds.
fn definitions() -> &'static [DefinitionRow] {
    static ROWS: OnceLock<Vec<DefinitionRow>> = OnceLock::new();
    ROWS.get_or_init(|| DEFINITIONS.iter().map(|(name, body)| definition(name, body)).collect())
}

fn definition(name: &str, body: &str) -> DefinitionRow {
    let source =
        format!("document: {{ dsl: '1.0.3', namespace: sim, name: {name}, version: '1.0.0' }}\n{body}\n");
    let compiled = machine::language::compile(source.as_bytes(), Format::Yaml)
        .unwrap_or_else(|problems| panic!("{name}: {problems:?}"));
    DefinitionRow {
        namespace: "sim".to_owned(),
        name: name.to_owned(),
        version: "1.0.0".to_owned(),
        title: None,
        source: source.into_bytes(),
        media_type: "application/yaml".to_owned(),
        ir: serde_json::to_vec(&compiled.workflow).expect("plain JSON"),
        created_at: Time(EPOCH),
    }
}
