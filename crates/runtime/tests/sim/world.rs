//! One seed: nodes that come and go over one store, clients and people, then calm, then a look at everything that
//! was left behind.

use super::{
    beat,
    chaos::{Chaos, Mutant},
    check,
    clients::PATIENCE,
    definitions,
    faulty::LateTimers,
    leases::Leases,
    seen::Seen,
    tally, tenant, time,
};
use machine::{TenantId, Time};
use parking_lot::Mutex;
use runtime::{
    Handle,
    api::{Order, Refusal},
};
use std::{cell::RefCell, sync::Arc, time::Duration};
use store::{
    Commit, Store, Write,
    rows::{InstanceRow, QueueKind},
    sqlite::Inline,
    views::*,
};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) chaos: Arc<Chaos>,
    pub(crate) store: Arc<Inline>,
    pub(crate) tenant: TenantId,
    pub(crate) late: LateTimers,
    pub(crate) handles: Arc<Mutex<Vec<Option<Handle>>>>,
    pub(crate) seen: Arc<Mutex<Seen>>,
    pub(crate) leases: Arc<Mutex<Leases>>,
    pub(crate) over: CancellationToken,
}

/// What one go of a seed came to.
pub(crate) struct Verdict {
    pub(crate) failures: Vec<String>,
    pub(crate) trace: String,
    pub(crate) log: String,
}

/// Of so many seeds one goes on for weeks.
const WEEKS_SELDOM: u64 = 16;

thread_local! {
    /// The store of the seed before, emptied: one whose statements are prepared costs a fifth less.
    static STORE: RefCell<Option<Arc<Inline>>> = const { RefCell::new(None) };
}

/// Goes through one seed.
pub(crate) fn simulate(seed: u64, mutant: Option<Mutant>, keep_log: bool) -> Verdict {
    let store = STORE.take().unwrap_or_else(|| Arc::new(Inline::new().expect("memory is there")));
    let verdict = go_through(seed, mutant, keep_log, store.clone());
    store.clear().expect("memory is there");
    STORE.set(Some(store));
    verdict
}

fn go_through(seed: u64, mutant: Option<Mutant>, keep_log: bool, store: Arc<Inline>) -> Verdict {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O always builds");
    runtime.block_on(async {
        time::begin();
        let world = World::new(seed, mutant, keep_log, store).await;
        let mut failures = world.live(seed).await;
        if failures.is_empty() {
            failures = check::everything(&world).await;
        }
        if failures.is_empty() && world.chaos.below(WEEKS_SELDOM) == 0 && !world.beats().await {
            failures = world.weeks(seed).await;
        }
        failures.extend(world.leases.lock().breaches());
        Verdict { failures, trace: world.chaos.trace_hash(), log: world.chaos.log() }
    })
}

impl World {
    async fn new(seed: u64, mutant: Option<Mutant>, keep_log: bool, store: Arc<Inline>) -> World {
        let world = World {
            chaos: Arc::new(Chaos::new(seed, mutant, keep_log)),
            store,
            tenant: TenantId::new("sim").expect("valid"),
            late: LateTimers::default(),
            handles: Arc::default(),
            seen: Arc::default(),
            leases: Arc::default(),
            over: CancellationToken::new(),
        };
        let node = Uuid::from_u128(1);
        world.store.join(node, Time(time::EPOCH), 1_000_000_000).await.expect("a fresh store");
        let rows = definitions::rows().iter().cloned();
        let definitions = rows.map(|row| Write::CreateDefinition(Box::new(row)));
        let writes =
            std::iter::once(Write::CreateTenant(tenant::row(&world.tenant))).chain(definitions).collect();
        let commit = Commit { tenant: world.tenant.clone(), writes };
        world.store.commit(node, vec![commit]).await.expect("a fresh store");
        world.store.leave(node).await.expect("a fresh store");
        // From now on they are kept.
        world.store.queues(None).await.expect("a fresh store");
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
            let definition = definitions::choose(|limit| self.chaos.below(limit));
            let delay = Duration::from_millis(self.chaos.below(4000));
            let world = self.clone();
            busy.spawn(async move {
                sleep(delay).await;
                world.client(client, definition).await;
            });
        }
        if self.chaos.below(4) == 0 {
            let world = self.clone();
            busy.spawn(async move { world.beat().await });
        }
        if self.chaos.below(4) == 0 {
            let world = self.clone();
            busy.spawn(async move { world.suspension().await });
        }
        if self.chaos.below(3) == 0 {
            let world = self.clone();
            busy.spawn(async move { world.tally().await });
        }
        sleep(Duration::from_millis(4000 + self.chaos.below(8000))).await;
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

    /// Replays what was given up, runs what faulted again, resumes what is paused. `true` once all has ended and
    /// nothing is queued.
    async fn drained(&self) -> bool {
        self.put_back(&self.tenant).await;
        self.put_back(&tally::tenant()).await;
        let open = self.open().await;
        for view in &open {
            let order = match view.row.status.as_str() {
                "faulted" => Order::Retry,
                "paused" => Order::Resume,
                _ => continue,
            };
            let _ = self.order(view.row.id, order).await;
        }
        let counts = self.store.counts(None).await.expect("the inner store answers");
        // What is kept of the queues is what there is, whatever happened.
        let kept = self.store.queues(None).await.expect("the inner store answers");
        let sum = |kind| kept.iter().filter(|row| row.kind == kind).map(|row| row.depth).sum::<u64>();
        assert_eq!((sum(QueueKind::Call), sum(QueueKind::Delivery)), (counts.calls, counts.deliveries));
        let queued = counts.signals + counts.calls + counts.timers + counts.dead_letters;
        let queued = queued + counts.outbox + counts.deliveries;
        open.is_empty() && queued == 0 && self.collected().await
    }

    /// Replays every dead letter, twice.
    async fn put_back(&self, tenant: &TenantId) {
        let page = Page { after: None, limit: PAGE_MAX };
        let letters = self.store.dead_letters(tenant, &DeadLetterFilter::default(), &page).await;
        for letter in letters.expect("the inner store answers") {
            let node = self.any_node().await;
            for _ in 0..2 {
                let replay = node.replay_dead_letter(tenant, letter.id, "sim");
                let answer = timeout(PATIENCE, replay).await;
                if matches!(answer, Ok(Err(Refusal::Conflict { code: "not-allowed-now", .. }))) {
                    let _ = timeout(PATIENCE, node.discard_dead_letter(tenant, letter.id, "sim", None)).await;
                }
            }
        }
    }

    /// True if a schedule is there: it would have weeks of slots to catch up with.
    async fn beats(&self) -> bool {
        let filter = ScheduleFilter { limit: 1, ..ScheduleFilter::default() };
        !self.store.schedules(&beat::tenant(), &filter).await.expect("answers").is_empty()
    }

    /// True unless an instance of the tenant with events still collects them.
    async fn collected(&self) -> bool {
        let there = self.store.instance(&beat::tenant(), beat::collector()).await.expect("answers");
        there.is_none_or(|view| view.row.status == "completed")
    }

    /// Instances that have neither completed nor been cancelled.
    async fn open(&self) -> Vec<InstanceView> {
        let page = Page { after: None, limit: PAGE_MAX };
        let all = self.store.instances(&self.tenant, &InstanceFilter::default(), &page).await;
        let mut all = all.expect("the inner store answers");
        // A child that faulted has told its parent, who starts another one when it is run again.
        let faulted_child = |row: &InstanceRow| row.parent.is_some() && row.status == "faulted";
        all.retain(|view| {
            !matches!(view.row.status.as_str(), "completed" | "cancelled") && !faulted_child(&view.row)
        });
        all
    }

    async fn what_is_left(&self) -> String {
        let show = |view: &InstanceView| {
            let InstanceView { row, waiting_kind, .. } = view;
            format!("{} {} {} waits for {waiting_kind:?}", row.id, row.name, row.status)
        };
        let open: Vec<String> = self.open().await.iter().map(show).collect();
        let counts = self.store.counts(None).await.expect("the inner store answers");
        format!("did not come to rest: {open:?}, {counts:?}")
    }
}
