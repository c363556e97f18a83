//! Batches: every item once, through crashes, takeovers and lost answers; ramps that halt when what is put back fails.

use crate::{deliveries::*, support::*};
use machine::{Data, time::Span};
use parking_lot::Mutex;
use runtime::api::{Act as Do, BatchOrder, NewBatch, Refusal};
use serde_json::json;
use std::{collections::BTreeSet, sync::Arc};
use store::{Write, rows::*, views::*};
use trial::tap::Act;
use uuid::Uuid;
use worker::{Class, Failure, Handled};

const WAITS: &str = "do: [ { hear: { listen: { to: { one: { with: { type: go } } } } } } ]";

fn batch_of(act: Do, query: &str) -> NewBatch {
    NewBatch {
        act,
        query: query.to_owned(),
        rate: 100,
        why: Some("a test".to_owned()),
        idempotency_key: None,
    }
}

async fn make(node: &Up, wanted: NewBatch) -> Uuid {
    node.handle.create_batch(&node.tenant, wanted, "ann").await.unwrap().0
}

impl World {
    async fn batch(&self, id: Uuid) -> BatchRow {
        self.store.batch(&self.tenant, id).await.unwrap().unwrap()
    }

    async fn batch_is(&self, id: Uuid, status: &str) -> BatchRow {
        until(|| async { self.batch(id).await.status == status }).await;
        self.batch(id).await
    }

    async fn items(&self, batch: Uuid, outcome: Option<ItemOutcome>) -> Vec<BatchItemRow> {
        let ask = ItemAsk { batch, outcome, after: None, limit: PAGE_MAX };
        self.store.batch_items(&self.tenant, &ask).await.unwrap()
    }
}

fn counts(row: &BatchRow) -> (u64, [u64; 4]) {
    let BatchCounts { sent, done, failed, skipped } = row.counts;
    (row.matched, [sent, done, failed, skipped])
}

async fn many(node: &Up, count: usize) -> Vec<Uuid> {
    let mut ids = Vec::new();
    for n in 0..count {
        ids.push(node.start("w", json!({ "n": n })).await);
    }
    ids
}

#[tokio::test(start_paused = true)]
async fn what_a_query_finds_is_acted_on_and_nothing_that_came_later() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("w", WAITS).await;
    node.deploy("other", WAITS).await;
    let ids = many(&node, 450).await;
    let other = node.start("other", json!({})).await;
    pass(secs(1)).await;
    // Nothing is looked for before the last instance is there.
    node.tap.break_down("due_batches");
    let batch = make(&node, batch_of(Do::Cancel, "definition:w status:waiting")).await;
    pass(secs(2)).await;
    let later = node.start("w", json!({})).await;
    node.tap.repair();
    let row = world.batch_is(batch, "done").await;
    assert_eq!(counts(&row), (450, [0, 450, 0, 0]));
    assert!(row.ended_at.is_some() && row.selected_at.is_some() && row.due_at.is_none());
    for id in &ids {
        assert_eq!(world.status(*id).await, "cancelled");
    }
    assert_eq!((world.status(other).await, world.status(later).await), ("waiting".into(), "waiting".into()));
    // History says who, why and in which batch.
    let history = world.store.history(&world.tenant, ids[0], 0, 100).await.unwrap();
    let said =
        history.iter().map(|row| String::from_utf8_lossy(&row.events).into_owned()).collect::<String>();
    assert!(
        said.contains("\"by\":\"ann\"") && said.contains(&format!("a test (bat_{}", batch.simple())),
        "{said}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_item_that_changed_meanwhile_is_left_alone() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("w", WAITS).await;
    let ids = many(&node, 6).await;
    pass(secs(1)).await;
    let slow = NewBatch { rate: 1, ..batch_of(Do::Pause, "definition:w status:waiting") };
    let batch = make(&node, slow).await;
    until(|| async { world.batch(batch).await.counts.done == 1 }).await;
    let last = ids.iter().max().copied().unwrap();
    node.handle.order(&node.tenant, last, runtime::api::Order::Cancel, "op").await.unwrap();
    let row = world.batch_is(batch, "done").await;
    assert_eq!(counts(&row), (6, [0, 5, 0, 1]));
    let skipped = world.items(batch, Some(ItemOutcome::Skipped)).await;
    assert_eq!((skipped.len(), skipped[0].item), (1, last));
    assert!(skipped[0].detail.as_deref().unwrap().contains("does not meet the query"), "{skipped:?}");
    // A rate of one in a second was kept.
    assert!(row.ended_at.unwrap().since(row.created_at) >= Span::from_secs(5), "{row:?}");
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_paused_resumed_hurried_and_cancelled() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("w", WAITS).await;
    many(&node, 40).await;
    pass(secs(1)).await;
    let slow = NewBatch { rate: 2, ..batch_of(Do::Cancel, "definition:w status:waiting") };
    let batch = make(&node, slow).await;
    let order = async |order| node.handle.order_batch(&node.tenant, batch, order, "bob").await;
    until(|| async { world.batch(batch).await.counts.done > 2 }).await;
    let paused = order(BatchOrder::Pause).await.unwrap();
    assert_eq!((paused.status.as_str(), paused.detail.as_deref()), ("paused", Some("paused by bob")));
    pass(secs(5)).await;
    let stopped = counts(&world.batch(batch).await);
    pass(secs(600)).await;
    assert_eq!(counts(&world.batch(batch).await), stopped);
    assert_eq!(order(BatchOrder::Pause).await.unwrap().row_version, paused.row_version, "once is enough");
    order(BatchOrder::Resume).await.unwrap();
    until(|| async { world.batch(batch).await.counts.done > 6 }).await;
    order(BatchOrder::Rate(10)).await.unwrap();
    until(|| async { world.batch(batch).await.counts.done > 20 }).await;
    order(BatchOrder::Cancel).await.unwrap();
    pass(secs(60)).await;
    let ended = world.batch(batch).await;
    assert!(ended.status == "cancelled" && ended.counts.done < 40 && ended.ended_at.is_some(), "{ended:?}");
    let refused = order(BatchOrder::Resume).await;
    assert!(matches!(refused, Err(Refusal::Conflict { code: "batch-ended", .. })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn pressing_twice_runs_once_and_an_empty_query_is_refused() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("w", WAITS).await;
    many(&node, 3).await;
    let keyed = |query: &str| NewBatch { idempotency_key: Some("k".into()), ..batch_of(Do::Pause, query) };
    let first = node.handle.create_batch(&node.tenant, keyed("definition:w"), "ann").await.unwrap();
    let again = node.handle.create_batch(&node.tenant, keyed("definition:w"), "ann").await.unwrap();
    assert_eq!((first.1, again), (false, (first.0, true)));
    let other = node.handle.create_batch(&node.tenant, keyed("definition:x"), "ann").await;
    assert!(matches!(other, Err(Refusal::KeyReused)), "{other:?}");
    let all = node.handle.create_batch(&node.tenant, batch_of(Do::Cancel, "  "), "ann").await;
    assert!(matches!(all, Err(Refusal::Invalid { code: "empty-query", .. })), "{all:?}");
    let page = Page { after: None, limit: 10 };
    assert_eq!(world.store.batches(&world.tenant, &BatchFilter::default(), &page).await.unwrap().len(), 1);
    world.batch_is(first.0, "done").await;
}

/// The node ends before or after any of its commits; another goes on, and every instance is acted on once.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_commit_does_nothing_twice_and_leaves_nothing_out() {
    for (seed, act) in
        [(3, Act::CrashBefore), (5, Act::CrashAfter), (9, Act::CrashAfter), (14, Act::CrashBefore)]
    {
        let world = World::new();
        let first = world.node().await;
        first.deploy("w", WAITS).await;
        let ids = many(&first, 30).await;
        pass(secs(1)).await;
        let left = Arc::new(Mutex::new(seed));
        first.tap.on_commit(move |_| {
            let mut left = left.lock();
            *left -= 1;
            if *left == 0 { act } else { Act::Pass }
        });
        let batch = make(&first, batch_of(Do::Pause, "definition:w status:waiting")).await;
        pass(secs(2)).await;
        first.crash().await;
        let second = world.node().await;
        let row = world.batch_is(batch, "done").await;
        assert_eq!(counts(&row), (30, [0, 30, 0, 0]), "{seed} {act:?}");
        for id in ids {
            assert_eq!(world.count(id, "workflow.paused").await, 1, "{seed} {act:?}");
        }
        second.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_lost_is_not_acted_on_again() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("w", WAITS).await;
    let ids = many(&node, 20).await;
    pass(secs(1)).await;
    let count = Arc::new(Mutex::new(0u32));
    node.tap.on_commit(move |batch| {
        let settles = |write: &Write| matches!(write, Write::SettleItem(_) | Write::PutBatch { .. });
        if !batch.iter().flat_map(|commit| &commit.writes).any(settles) {
            return Act::Pass;
        }
        *count.lock() += 1;
        match *count.lock() % 4 {
            1 => Act::Landed,
            3 => Act::Lost,
            _ => Act::Pass,
        }
    });
    let wanted =
        NewBatch { idempotency_key: Some("k".into()), ..batch_of(Do::Pause, "definition:w status:waiting") };
    let batch = make(&node, wanted).await;
    let row = world.batch_is(batch, "done").await;
    assert_eq!(row.matched, 20);
    assert_eq!(row.counts.done + row.counts.skipped, 20, "{row:?}");
    for id in ids {
        assert_eq!(world.count(id, "workflow.paused").await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn signals_and_retries_go_to_each_instance_once() {
    let world = World::new();
    let healed = Arc::new(Mutex::new(false));
    let state = healed.clone();
    let (declaration, _) = recording(&world, "c", move |_, input| match *state.lock() {
        true => worker::Outcome::Done(input),
        false => worker::Outcome::fail(worker::Class::Validation, "no"),
    });
    let node = world.build().worker(declaration).start().await;
    node.deploy("w", WAITS).await;
    node.deploy("f", "do: [ { a: { call: 'c:1.0.0@default', with: { n: 1 } } } ]").await;
    let ids = many(&node, 5).await;
    let failed = node.start("f", json!({})).await;
    node.fault(failed).await;
    pass(secs(1)).await;
    let signal = Do::Signal { name: "go".into(), data: Data::from_json(json!({ "x": 1 })) };
    let batch = make(&node, batch_of(signal, "definition:w")).await;
    assert_eq!(counts(&world.batch_is(batch, "done").await), (5, [0, 5, 0, 0]));
    for id in ids {
        assert_eq!(node.output(id).await, json!([{ "x": 1 }]));
    }
    *healed.lock() = true;
    let batch = make(&node, batch_of(Do::Retry, "status:faulted")).await;
    assert_eq!(counts(&world.batch_is(batch, "done").await), (1, [0, 1, 0, 0]));
    assert_eq!(node.output(failed).await, json!({ "n": 1 }));
}

/// A worker that fails for good while its numbers are in `broken`.
async fn letters_of(world: &World, count: i64, broken: &Arc<Mutex<BTreeSet<i64>>>) -> (Up, Calls) {
    broken.lock().extend(0..count);
    let state = broken.clone();
    let (mail, calls) =
        noting(world, "mail", &["order.*"], move |delivery| match state.lock().contains(&number(delivery)) {
            true => Handled::Fail(Failure { class: Class::Validation, message: "broken".into() }),
            false => Handled::done(),
        });
    let node = world.build().worker(mail).start().await;
    publish_all(&node, events("order.placed", 0..count)).await;
    until(|| async { world.counts().await.dead_letters == count as u64 }).await;
    calls.lock().clear();
    (node, calls)
}

#[tokio::test(start_paused = true)]
async fn a_ramp_tries_one_then_ten_then_a_hundred_then_the_rest() {
    let world = World::new();
    let broken = Arc::new(Mutex::new(BTreeSet::new()));
    let (node, calls) = letters_of(&world, 150, &broken).await;
    broken.lock().clear();
    pass(secs(1)).await;
    let batch = make(&node, batch_of(Do::Replay { ramp: true }, "worker:mail")).await;
    let row = world.batch_is(batch, "done").await;
    assert_eq!(counts(&row), (150, [0, 150, 0, 0]));
    assert_eq!(handled(&calls), (0..150).collect::<Vec<_>>());
    assert!(world.letters().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_ramp_halts_when_what_it_tried_fails_again_and_goes_on_when_told() {
    let world = World::new();
    let broken = Arc::new(Mutex::new(BTreeSet::new()));
    let (node, calls) = letters_of(&world, 40, &broken).await;
    pass(secs(1)).await;
    let group = world.letter().await.group.unwrap();
    // The oldest is tried first.
    let mut letters = world.letters().await;
    letters.sort_by_key(|letter| letter.id);
    let n = |letter: &DeadLetterRow| serde_json::from_slice::<serde_json::Value>(&letter.envelope).unwrap();
    let order: Vec<i64> = letters.iter().map(|letter| n(letter)["data"]["n"].as_i64().unwrap()).collect();
    let query = format!("group:err_{}", group.simple());
    let batch = make(&node, batch_of(Do::Replay { ramp: true }, &query)).await;
    let row = world.batch_is(batch, "halted").await;
    assert_eq!(counts(&row), (40, [0, 0, 1, 0]), "nothing but the first was tried");
    assert_eq!(row.detail.as_deref(), Some("1 of 1 that were tried failed again"));
    let failed = world.items(batch, Some(ItemOutcome::Failed)).await;
    assert!(failed[0].detail.as_deref().unwrap().contains("it failed again, as dl_"), "{failed:?}");
    assert_eq!((handled(&calls).len(), world.letters().await.len()), (1, 40));
    pass(secs(60)).await;
    assert_eq!(world.batch(batch).await.status, "halted");
    // One of the next ten still fails.
    let bad = order[5];
    broken.lock().retain(|n| *n == bad);
    let resume =
        async || node.handle.order_batch(&node.tenant, batch, BatchOrder::Resume, "bob").await.unwrap();
    resume().await;
    let row = world.batch_is(batch, "halted").await;
    assert_eq!(counts(&row).1[2], 2, "{row:?}");
    assert!(row.counts.done + row.counts.failed <= 11, "the third stage was not begun: {row:?}");
    resume().await;
    let row = world.batch_is(batch, "done").await;
    assert_eq!(counts(&row), (40, [0, 38, 2, 0]));
    // What failed again is a dead letter again: the first, which nothing was wrong with any more, and the bad one.
    assert_eq!(world.letters().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_ramp_goes_on_after_a_crash_where_it_was() {
    let world = World::new();
    let broken = Arc::new(Mutex::new(BTreeSet::new()));
    let (node, calls) = letters_of(&world, 60, &broken).await;
    broken.lock().clear();
    pass(secs(1)).await;
    let batch = make(&node, batch_of(Do::Replay { ramp: true }, "worker:mail")).await;
    until(|| async { world.batch(batch).await.counts.done > 5 }).await;
    node.crash().await;
    let (mail, more) = noting(&world, "mail", &["order.*"], |_| Handled::done());
    let _node = world.build().worker(mail).start().await;
    let row = world.batch_is(batch, "done").await;
    assert_eq!(counts(&row), (60, [0, 60, 0, 0]));
    let mut all = handled(&calls);
    all.extend(handled(&more));
    all.sort_unstable();
    all.dedup();
    assert_eq!(all, (0..60).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_discarded_by_query() {
    let world = World::new();
    let broken = Arc::new(Mutex::new(BTreeSet::new()));
    let (node, _) = letters_of(&world, 12, &broken).await;
    pass(secs(1)).await;
    let preview = node
        .handle
        .preview(
            &node.tenant,
            machine::query::Subject::DeadLetters,
            &machine::query::parse(machine::query::Subject::DeadLetters, "worker:mail", world.now()).unwrap(),
        )
        .await
        .unwrap();
    assert_eq!((preview.matched, preview.more, preview.samples.len()), (12, false, 5));
    let batch = make(&node, batch_of(Do::Discard, "worker:mail reason:refused")).await;
    assert_eq!(counts(&world.batch_is(batch, "done").await), (12, [0, 12, 0, 0]));
    assert!(world.letters().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn instances_are_moved_to_another_version_by_query() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("w", WAITS).await;
    let ids = many(&node, 30).await;
    let next = format!("document: {{ dsl: '1.0.3', namespace: test, name: w, version: '1.1.0' }}\n{WAITS}\n");
    let format = machine::language::Format::Yaml;
    node.handle.deploy(&node.tenant, next.as_bytes(), format, false).await.unwrap();
    pass(secs(1)).await;
    let migrate = |version: &str| Do::Migrate { version: version.to_owned(), mapping: Default::default() };
    let batch = make(&node, batch_of(migrate("1.1.0"), "definition:test/w@1.0.0 status:waiting")).await;
    let row = world.batch_is(batch, "done").await;
    assert_eq!(counts(&row), (30, [0, 30, 0, 0]), "{:?}", world.items(batch, None).await);
    for id in &ids {
        assert_eq!(world.view(*id).await.row.version, "1.1.0");
    }
    // A version that is not there is said of each.
    let batch = make(&node, batch_of(migrate("9.0.0"), "definition:test/w status:waiting")).await;
    until(|| async { world.batch(batch).await.counts.failed == 30 }).await;
    assert!(world.items(batch, Some(ItemOutcome::Failed)).await.iter().all(|item| item.detail.is_some()));
}
