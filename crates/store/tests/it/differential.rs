//! The same seeded programs on SQLite and on PostgreSQL: every answer is the same, and so is every row at the end.

use crate::fixture::*;
use machine::{TenantId, Time};
use store::{
    feed::FeedCursor,
    postgres,
    rows::*,
    sqlite,
    transfer::{Cell, Side, TABLES},
    views::*,
    *,
};
use uuid::Uuid;

/// What a program is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// What every step of an instance writes and asks.
    Steps,
    /// The same with events, deliveries, schedules, secrets, workers, datasets and children.
    All,
}

impl Of {
    /// Programs, and batches in each.
    fn size(self) -> (u64, usize) {
        match self {
            Of::Steps => (24, 30),
            Of::All => (7, 40),
        }
    }
}

/// How often the feed is asked until it has what others hold back for a moment.
const LOOKS_MAX: usize = 3_000;

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }

    fn number(&mut self, end: u64) -> u128 {
        u128::from(self.below(end)) + 1
    }

    fn time(&mut self) -> Time {
        Time(self.below(100) as i64)
    }

    fn owner(&mut self) -> Option<Uuid> {
        (self.below(3) == 0).then(|| node(1))
    }

    fn word(&mut self) -> &'static str {
        ["one", "two", "three"][self.below(3) as usize]
    }

    fn tenant(&mut self) -> TenantId {
        tenant(["acme", "beta"][self.below(2) as usize])
    }
}

/// One write over few keys, so that they meet.
fn write(dice: &mut Dice) -> Write {
    match dice.below(5) {
        0 => write_event(dice),
        1 => write_rare(dice),
        _ => write_hot(dice),
    }
}

/// Events, who wants them, and deliveries to workers.
fn write_event(dice: &mut Dice) -> Write {
    let subscriber = match dice.below(3) {
        0 => Subscriber::Schedule { id: id(dice.number(3)) },
        _ => Subscriber::Listen { instance: id(dice.number(4)), token: dice.below(3) },
    };
    let (number, attempt) = (dice.number(6), dice.below(2) as u32);
    match dice.below(12) {
        0..=2 => {
            let kept_until = (dice.below(3) > 0).then(|| Time(50 + dice.time().0));
            let row = EventRow { kept_until, expires_at: dice.time(), ..event(number, dice.word(), "1") };
            Write::Publish(Box::new(row))
        }
        3..=4 => {
            let any = SubscriptionRow::default();
            let kind = SubscriptionRow { event_type: Some(dice.word().into()), key: None };
            let key = Some((".data".to_owned(), dice.below(2).to_string()));
            let keyed = SubscriptionRow { key, ..kind.clone() };
            let wants = [vec![kind.clone()], vec![keyed, kind], vec![any]][dice.below(3) as usize].clone();
            Write::Subscribe { subscriber, wants, now: dice.time(), visible_at: dice.time() }
        }
        5 => Write::Unsubscribe { subscriber },
        6 => Write::EventTaken { id: id(number) },
        7..=8 => {
            let order_key = (dice.below(2) == 0).then(|| dice.word().to_owned());
            let row = delivery(number, dice.word(), dice.time().0);
            Write::Delivery(Box::new(DeliveryRow { order_key, owner: dice.owner(), ..row }))
        }
        9 => Write::ConsumeDelivery { id: id(number), attempt },
        10 => Write::ExtendDelivery { id: id(number), attempt, visible_at: dice.time() },
        _ => {
            let last_error = Some(b"{}".to_vec());
            Write::RetryDelivery {
                id: id(number),
                owner: dice.owner(),
                visible_at: dice.time(),
                attempt,
                last_error,
            }
        }
    }
}

/// What seldom changes.
fn write_rare(dice: &mut Dice) -> Write {
    let (number, expected_version) = (dice.number(3), dice.below(3) as i64);
    match dice.below(14) {
        0 => {
            let row = schedule(number, (dice.below(4) > 0).then(|| dice.time().0));
            let row = ScheduleRow { row_version: expected_version + 1, ..row };
            Write::PutSchedule { schedule: Box::new(row), expected_version }
        }
        1 => Write::Slot(slot(number, dice.below(4) as i64)),
        2 => {
            let (instance, next_slot, due_at) = (id(dice.number(4)), dice.time(), dice.time());
            Write::ScheduleFollows { id: id(number), instance, next_slot, due_at }
        }
        3 => Write::PutCollection { schedule: id(number), open: b"[1]".to_vec(), expected_version },
        4 => Write::ResetCollection { schedule: id(number) },
        5 => {
            let expected_version = (expected_version > 0).then_some(expected_version);
            let row = SecretRow { updated_at: dice.time(), ..secret(dice.word(), b"sealed") };
            Write::PutSecret { row: Box::new(row), expected_version }
        }
        6 => Write::DeleteSecret { name: dice.word().into() },
        7 => Write::Dataset(dataset(number)),
        8 => Write::Items(items(number, dice.below(2) as u32)),
        9 => Write::PutWorker { row: worker(dice.word(), expected_version + 1), expected_version },
        10 => Write::DeleteWorker { name: dice.word().into() },
        11 => {
            let parent = ParentRow { instance: id(dice.number(4)), token: dice.below(3), item: None };
            create_row(InstanceRow { parent: Some(parent), ..instance(4 + number) })
        }
        12 => {
            let definition_version = format!("{expected_version}.0.0");
            Write::MoveInstance { instance: id(dice.number(4)), definition_version }
        }
        _ => {
            let row = QueueKey::Signal { id: id(dice.number(6)) };
            Write::Release { row, owner: node(1 + u128::from(dice.below(2))) }
        }
    }
}

/// What every step of an instance writes.
fn write_hot(dice: &mut Dice) -> Write {
    let (instance, token) = (id(dice.number(4)), dice.below(3));
    match dice.below(25) {
        0..=2 => create(dice.number(4)),
        3..=7 => update(dice.number(4), dice.below(4) as i64 + 1),
        8 => {
            let status = ["running", "waiting", "completed"][dice.below(3) as usize];
            let ended_at = (status == "completed").then(|| Some(dice.time()));
            Write::UpdateInstance(Box::new(InstanceChange { ended_at, ..change(dice.number(4), status) }))
        }
        9 => Write::Signal(signal(dice.number(6), dice.time().0, dice.owner())),
        10 => Write::ConsumeSignal { id: id(dice.number(6)) },
        11 => Write::Timer(TimerRow { instance, ..timer(token, dice.time().0, dice.owner()) }),
        12 => Write::ConsumeTimer { instance, token },
        13 => Write::Call(CallRow { instance, ..call(token, dice.time().0, dice.owner()) }),
        14 => Write::ConsumeCall { instance, token },
        15 => Write::RetryCall {
            instance,
            token,
            owner: dice.owner(),
            visible_at: dice.time(),
            attempt: 2,
            last_error: None,
        },
        16 => Write::ClaimKey(inbox(["k", "l", "m"][dice.below(3) as usize])),
        17 => Write::DropTimer { instance, token },
        18 => Write::CreateTask(Box::new(task(dice.number(3)))),
        19 => {
            let expected_version = dice.below(2) as i64 + 1;
            let row = TaskRow { version: expected_version + 1, ..task(dice.number(3)) };
            Write::UpdateTask { task: Box::new(row), expected_version }
        }
        20 => Write::DeadLetter(Box::new(dead_letter(dice.number(4)))),
        21 => Write::ConsumeDeadLetter { id: id(dice.number(4)) },
        22 => {
            let (id, owner) = (id(dice.number(6)), dice.owner());
            Write::RetrySignal { id, owner, visible_at: dice.time(), attempt: 3 }
        }
        23 => Write::Errors(vec![ErrorGroupRow {
            id: id(dice.number(3)),
            source: "call".into(),
            target: "charge".into(),
            class: "transient".into(),
            step: None,
            message: "away".into(),
            count: 1 + dice.below(3),
            first_at: Time(5),
            last_at: Time(5),
            first_sample: b"{}".to_vec(),
            samples: b"[]".to_vec(),
        }]),
        _ => Write::Outbox(outbox(dice.number(9))),
    }
}

fn batch(of: Of, dice: &mut Dice) -> Vec<Commit> {
    let commits = 1 + dice.below(6);
    (0..commits)
        .map(|_| {
            let mut writes: Vec<Write> = (0..1 + dice.below(4))
                .map(|_| if of == Of::All { write(dice) } else { write_hot(dice) })
                .collect();
            // History is of an instance that is there.
            if let Some(Write::UpdateState(state)) = writes.first() {
                let (instance, version) = (state.instance, state.state_version);
                let row = HistoryRow { instance, version, at: dice.time(), events: b"[]".to_vec() };
                writes.push(Write::History(row));
            }
            // What a commit creates it does not move as well.
            if writes.iter().any(|write| matches!(write, Write::CreateInstance { .. })) {
                writes.retain(|write| !matches!(write, Write::MoveInstance { .. }));
            }
            Commit { tenant: dice.tenant(), writes }
        })
        .collect()
}

/// What an answer says; texts of errors are each store's own.
fn said(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Rejected(_) => "rejected".to_owned(),
        other => format!("{other:?}"),
    }
}

/// One batch and whatever is asked between batches, as text.
async fn step(store: &dyn Store, of: Of, seed: u64, number: usize) -> String {
    let mut dice = Dice(seed << 32 | number as u64);
    let outcomes = store.commit(node(1), batch(of, &mut dice)).await.unwrap();
    let mut said: Vec<String> = outcomes.iter().map(said).collect();
    said.push(asked(store, &mut dice).await);
    if of == Of::All {
        said.push(asked_rarely(store, &mut dice).await);
    }
    said.push(format!("{:?} {:?}", store.next_due().await, store.next_slot_due().await));
    said.push(queues(store).await);
    said.join("\n")
}

/// What the queues hold as it is kept, which must be what there is.
async fn queues(store: &dyn Store) -> String {
    let mut said = String::new();
    for tenant in ["acme", "beta"].map(tenant) {
        let kept = store.queues(Some(&tenant)).await.unwrap();
        let sum = |kind: QueueKind| kept.iter().filter(|row| row.kind == kind).map(|row| row.depth).sum();
        let counts = store.counts(Some(&tenant)).await.unwrap();
        assert_eq!((counts.calls, counts.deliveries), (sum(QueueKind::Call), sum(QueueKind::Delivery)));
        said += &format!("{kept:?}");
    }
    said + &format!("{:?}", store.queues(None).await)
}

/// What seldom changes, and events and deliveries.
async fn asked_rarely(store: &dyn Store, dice: &mut Dice) -> String {
    let (tenant, number, now) = (dice.tenant(), id(dice.number(3)), dice.time());
    let limit = 1 + dice.below(5) as usize;
    // Which of several workers comes first where not all fits is each store's own.
    let workers = vec![dice.word().to_owned()];
    match dice.below(12) {
        0 => {
            let ask =
                DeliveryAsk { node: node(2), now, limit, workers, full: vec![], full_of: vec![], pace: None };
            format!("{:?}", store.claim_deliveries(&ask).await)
        }
        1 => {
            let loan = Loan {
                worker: dice.word().into(),
                now,
                until: Time(now.0 + 20),
                limit,
                pace: None,
                lent_max: None,
            };
            format!("{:?}", store.lend(&tenant, &loan).await)
        }
        2 => format!("{:?}", store.next_delivery(&workers).await),
        3 => format!("{:?}", store.due_schedules(now, limit).await),
        4 => format!("{:?}", store.slots(&tenant, number, None, limit).await),
        5 => format!("{:?}", store.collection(&tenant, number).await),
        6 => format!("{:?}", store.secrets(&tenant).await),
        7 => format!("{:?}", store.dataset_items(&tenant, number, 0, 2).await),
        8 => format!("{:?}", store.workers().await),
        9 => format!("{:?}", store.children(&tenant, number).await),
        10 => {
            // In no order.
            let mut found = store.schedules_on(&tenant, dice.word(), 10).await.unwrap();
            found.sort();
            format!("{found:?}")
        }
        _ => format!("{:?} {:?}", store.purge_events(now, 100).await, store.keeps_events().await),
    }
}

/// What every step of an instance asks, and lists.
async fn asked(store: &dyn Store, dice: &mut Dice) -> String {
    let (now, limit, who) = (dice.time(), dice.below(6) as usize, node(1 + u128::from(dice.below(2))));
    match dice.below(8) {
        0 => format!("{:?}", store.claim_signals(who, now, limit).await),
        1 => format!("{:?}", store.claim_timers(who, now, limit).await),
        2 => format!("{:?}", store.claim_calls(who, now, limit, &[dice.tenant()]).await),
        3 => {
            // In no order.
            let mut owned: Vec<String> =
                store.owned(who, 100).await.unwrap().iter().map(|one| format!("{one:?}")).collect();
            owned.sort();
            owned.join(" ")
        }
        4 => format!("{:?}", store.counts(Some(&dice.tenant())).await),
        5 => {
            let page = Page { after: None, limit: 50 };
            let tenant = dice.tenant();
            format!("{:?}", store.instances(&tenant, &InstanceFilter::default(), &page).await)
        }
        6 => format!("{:?}", store.history(&dice.tenant(), id(1), 0, 50).await),
        _ => {
            let purge = Purge {
                ended_before: now,
                faulted_before: now,
                keys_before: Time(0),
                keys_kept: machine::time::Span::ZERO,
                retry_longest: machine::time::Span::ZERO,
                after: None,
                limit: 10,
            };
            format!("{:?}", store.purge(&purge).await)
        }
    }
}

/// Ids of the tenants' events as the feed has them. Commits of one batch are in any order.
async fn feed(store: &dyn Store) -> Vec<Uuid> {
    let mut ids = vec![];
    for tenant in ["acme", "beta"].map(tenant) {
        let items = store.feed(&tenant, FeedCursor::default(), 100).await.unwrap().unwrap();
        ids.extend(items.into_iter().map(|item| item.row.id));
    }
    ids.sort();
    ids
}

/// On a server that others use too the feed waits for whoever began to write before.
async fn feeds_agree(here: &dyn Store, there: &dyn Store, seed: u64) {
    let expected = feed(here).await;
    let mut pace = tokio::time::interval(std::time::Duration::from_millis(20));
    let mut found = feed(there).await;
    for _ in 0..LOOKS_MAX {
        if found == expected {
            return;
        }
        pace.tick().await;
        found = feed(there).await;
    }
    panic!("seed {seed}: {expected:?} on SQLite, {found:?} on PostgreSQL");
}

async fn dump(side: &dyn Side) -> Vec<(&'static str, TenantId, Vec<Vec<Cell>>)> {
    let mut all = vec![];
    for table in TABLES {
        for tenant in ["acme", "beta"].map(tenant) {
            let rows = side.read(table, &tenant, &[], 10_000).await.unwrap();
            let mut rows: Vec<Vec<Cell>> = rows.into_iter().map(|row| row.cells).collect();
            // Commits of a batch that share no row take effect in any order.
            if table.in_order {
                rows.sort_by_key(|row| format!("{row:?}"));
            }
            all.push((table.name, tenant, rows));
        }
    }
    all
}

#[tokio::test]
async fn both_stores_answer_and_end_the_same() {
    play(Of::Steps).await;
}

#[tokio::test]
async fn both_stores_answer_and_end_the_same_with_what_seldom_changes() {
    play(Of::All).await;
}

async fn play(of: Of) {
    let (seeds, batches) = of.size();
    for seed in 1..=seeds {
        let Some(database) = scratch::database() else { return };
        postgres::migrate(&database.owner_url, Some(database.application)).await.unwrap();
        let options = postgres::Options { database_clock: false, ..postgres::Options::default() };
        let there = postgres::Postgres::open_with(&database.url, options).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("windlass.db");
        let here = sqlite::Sqlite::open(&file).unwrap();
        for store in [&here as &dyn Store, &there] {
            store.join(node(1), Time(0), LEASE_MS).await.unwrap();
            store.join(node(2), Time(0), LEASE_MS).await.unwrap();
        }
        for number in 0..batches {
            let (one, other) = (step(&here, of, seed, number).await, step(&there, of, seed, number).await);
            assert_eq!(one, other, "seed {seed}, batch {number}: SQLite left, PostgreSQL right");
        }
        feeds_agree(&here, &there, seed).await;
        drop(here);
        let here = sqlite::AtRest::open(&file).unwrap();
        let there = postgres::AtRest::open(&database.url).await.unwrap();
        for (one, other) in dump(&here).await.into_iter().zip(dump(&there).await) {
            assert_eq!(one, other, "seed {seed}: SQLite left, PostgreSQL right");
        }
    }
}
