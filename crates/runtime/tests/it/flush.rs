//! A02–A06, C02–C04: what fails for good gives up its place at once and is recorded and acknowledged with others of its
//! tenant, a hundred at a time or after two seconds, in one commit; and once, whatever happens in between.

use crate::support::*;
use machine::{Data, TenantId, Time};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use store::{Commit, Write, rows::*, views::*};
use trial::tap::Act;
use worker::{Class, Declaration, Handled, Outcome, each};

const ONE: &str = "do: [ { a: { call: 'w:1.0.0@default' } } ]";

/// Every commit that records errors: when it was made, for whom, how many errors, and in how many statements.
type Flushes = Arc<Mutex<Vec<(Time, String, u64, usize)>>>;

fn records(commit: &Commit) -> bool {
    commit.writes.iter().any(|write| matches!(write, Write::Errors(_)))
}

fn recorded(commit: &Commit) -> u64 {
    let of = |write: &Write| match write {
        Write::Errors(rows) => rows.iter().map(|row| row.count).sum(),
        _ => 0,
    };
    commit.writes.iter().map(of).sum()
}

fn watch(world: &World, node: &Up) -> Flushes {
    let flushes = Flushes::default();
    let (noted, clock) = (flushes.clone(), world.clock.clone());
    node.tap.on_commit(move |batch| {
        for commit in batch.iter().filter(|commit| records(commit)) {
            let statements = commit.writes.iter().filter(|write| matches!(write, Write::Errors(_))).count();
            noted.lock().push((clock.now(), commit.tenant.to_string(), recorded(commit), statements));
        }
        Act::Pass
    });
    flushes
}

/// (errors, whole tenths of a second since `began`).
fn seen(flushes: &Flushes, began: Time) -> Vec<(u64, i64)> {
    flushes.lock().iter().map(|(at, _, errors, _)| (*errors, at.since(began).0 / 100_000)).collect()
}

fn failing(name: &str) -> Declaration {
    Declaration::new(name, worker::from_fn(|_, _| Outcome::fail(Class::Validation, "the order o-17 is bad")))
}

fn refusing() -> Declaration {
    Declaration::on("mail", ["order"], each(|_| Handled::fail(Class::Validation, "no address of c-4")))
}

fn events(count: usize) -> Vec<Data> {
    let event = |n: usize| {
        json!({ "specversion": "1.0", "id": format!("e-{n}"), "source": "test", "type": "order",
        "subject": "s", "data": { "n": n } })
    };
    (0..count).map(|n| Data::from_json(event(n))).collect()
}

async fn publish(node: &Up, tenant: &TenantId, count: usize) {
    for answer in node.handle.publish_many(tenant, events(count)).await {
        answer.unwrap();
    }
}

impl World {
    async fn groups(&self, tenant: &TenantId) -> Vec<ErrorGroupRow> {
        let filter = ErrorFilter { limit: PAGE_MAX, ..ErrorFilter::default() };
        self.store.error_groups(tenant, &filter).await.unwrap()
    }

    async fn errors(&self) -> u64 {
        self.groups(&self.tenant).await.iter().map(|group| group.count).sum()
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_go_at_once_and_fewer_after_two_seconds() {
    let cases: [(usize, &[(u64, i64)]); 4] =
        [(100, &[(100, 0)]), (1, &[(1, 20)]), (99, &[(99, 20)]), (250, &[(100, 0), (100, 0), (50, 20)])];
    for (count, expected) in cases {
        // Deliveries that become dead letters.
        let world = World::new();
        let node = world.build().worker(refusing()).start().await;
        let flushes = watch(&world, &node);
        let began = world.now();
        publish(&node, &node.tenant, count).await;
        until(|| async { world.counts().await.deliveries == 0 }).await;
        assert_eq!(seen(&flushes, began), expected, "{count} deliveries");
        let count = count as u64;
        assert_eq!((world.counts().await.dead_letters, world.errors().await), (count, count));

        // Calls that fault their instances.
        let world = World::new();
        let node = world.build().worker(failing("w")).start().await;
        node.deploy("d", ONE).await;
        let flushes = watch(&world, &node);
        let began = world.now();
        let starts = (0..count).map(|n| node.start("d", json!(n)));
        let ids = futures_util::future::join_all(starts).await;
        for id in ids {
            node.fault(id).await;
        }
        assert_eq!(seen(&flushes, began), expected, "{count} calls");
        assert_eq!((world.counts().await.calls, world.errors().await), (0, count));
    }
}

#[tokio::test(start_paused = true)]
async fn the_numbers_are_settings() {
    let world = World::new();
    let few = |options: &mut runtime::Options| {
        (options.errors_flushed_max, options.errors_kept) = (3, machine::time::Span::from_secs(9));
    };
    let node = world.build().worker(refusing()).options(few).start().await;
    let flushes = watch(&world, &node);
    let began = world.now();
    publish(&node, &node.tenant, 7).await;
    until(|| async { world.counts().await.deliveries == 0 }).await;
    assert_eq!(seen(&flushes, began), [(3, 0), (3, 0), (1, 90)]);
}

#[tokio::test(start_paused = true)]
async fn what_is_alike_is_one_group_with_counts_times_and_samples() {
    let world = World::new();
    let node = world.build().worker(failing("w")).worker(refusing()).start().await;
    node.deploy("d", ONE).await;
    let first = node.start("d", json!(1)).await;
    node.fault(first).await;
    pass(secs(60)).await;
    let second = node.start("d", json!(2)).await;
    node.fault(second).await;
    publish(&node, &node.tenant, 5).await;
    until(|| async { world.counts().await.deliveries == 0 }).await;
    let groups = world.groups(&world.tenant).await;
    let shown: Vec<_> = groups
        .iter()
        .map(|group| (group.source.as_str(), group.target.as_str(), group.class.as_str(), group.count))
        .collect();
    assert_eq!(shown, [("delivery", "mail", "validation", 5), ("call", "w", "validation", 2)]);
    let (mail, call) = (&groups[0], &groups[1]);
    assert_eq!((mail.message.as_str(), mail.step.as_deref()), ("no address of #", None));
    assert_eq!((call.message.as_str(), call.step.as_deref()), ("the order # is bad", Some("test/d/do/0/a")));
    assert!(call.last_at.since(call.first_at) >= machine::time::Span::from_secs(60));
    let instance = |bytes: &[u8], at: usize| {
        let sample: Value = serde_json::from_slice(bytes).unwrap();
        let sample = if sample.is_array() { sample[at].clone() } else { sample };
        assert_eq!(sample["message"], "the order o-17 is bad");
        sample["instance"].clone()
    };
    let id = |id| json!(machine::id::show(machine::id::Kind::Instance, id));
    assert_eq!(
        (instance(&call.first_sample, 0), instance(&call.samples, 0)),
        (id(first), id(second)),
        "one of the first and the last"
    );
    let samples: Vec<Value> = serde_json::from_slice(&mail.samples).unwrap();
    assert_eq!(samples.len(), 3, "a few");
    assert!(samples[0]["event"].as_str().unwrap().starts_with("evt_"));
    let letters = world.letters().await;
    assert!(letters.iter().all(|letter| letter.group == Some(mail.id)), "letters name their group");
}

#[tokio::test(start_paused = true)]
async fn tenants_are_written_apart_and_do_not_wait_for_each_other() {
    let world = World::new();
    let node = world.build().worker(refusing()).start().await;
    let zoo = TenantId::new("zoo").unwrap();
    let flushes = watch(&world, &node);
    for tenant in [&world.tenant, &zoo] {
        publish(&node, tenant, 60).await;
    }
    until(|| async { world.store.counts(None).await.unwrap().deliveries == 0 }).await;
    let mut of: Vec<_> =
        flushes.lock().iter().map(|(_, tenant, errors, writes)| (tenant.clone(), *errors, *writes)).collect();
    of.sort_unstable();
    assert_eq!(of, [("acme".to_owned(), 60, 1), ("zoo".to_owned(), 60, 1)]);

    // What one of them has cannot land; the other's is acknowledged all the same.
    let world = World::new();
    let node = world.build().worker(refusing()).start().await;
    let broken = Arc::new(Mutex::new(true));
    let breaks = broken.clone();
    node.tap.on_commit(move |batch| {
        let of_zoo = |commit: &&mut Commit| commit.tenant.as_str() == "zoo" && records(commit);
        for commit in batch.iter_mut().filter(|commit| of_zoo(commit) && *breaks.lock()) {
            commit.writes.push(Write::ConsumeSignal { id: uuid::Uuid::from_u128(9) });
        }
        Act::Pass
    });
    for tenant in [&zoo, &world.tenant] {
        publish(&node, tenant, 60).await;
    }
    until(|| async { world.counts().await.deliveries == 0 }).await;
    assert_eq!(world.errors().await, 60);
    assert_eq!(world.store.counts(Some(&zoo)).await.unwrap().deliveries, 60, "nothing is acknowledged");
    assert!(world.groups(&zoo).await.is_empty());
    *broken.lock() = false;
    until(|| async { world.store.counts(Some(&zoo)).await.unwrap().deliveries == 0 }).await;
    let zoo: Vec<u64> = world.groups(&zoo).await.iter().map(|group| group.count).collect();
    assert_eq!(zoo, [60], "and found again once it can");
}

#[tokio::test(start_paused = true)]
async fn a_place_is_free_as_soon_as_its_call_has_failed() {
    let world = World::new();
    let (worker, calls) = recording(&world, "w", |_, _| Outcome::fail(Class::Validation, "no"));
    let node = world
        .build()
        .worker(worker.concurrency_max(1))
        .worker(refusing().concurrency_max(1))
        .options(|options| (options.calls_in_flight_max, options.deliveries_in_flight_max) = (1, 1))
        .start()
        .await;
    node.deploy("d", ONE).await;
    let flushes = watch(&world, &node);
    let began = world.now();
    let starts = (0..50).map(|n| node.start("d", json!(n)));
    let ids = futures_util::future::join_all(starts).await;
    publish(&node, &node.tenant, 40).await;
    until(|| async { calls.lock().len() == 50 && node.metric("windlass_errors_waiting") == 90.0 }).await;
    assert!(flushes.lock().is_empty(), "nothing is written for a failure alone");
    assert_eq!(world.status(ids[0]).await, "running");
    for id in ids {
        node.fault(id).await;
    }
    assert_eq!(seen(&flushes, began), [(90, 20)]);
    assert_eq!(node.metric("windlass_errors_waiting"), 0.0);
    assert_eq!(node.metric("windlass_error_writes_total"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_the_flush_brings_the_work_back_and_records_it_once() {
    let world = World::new();
    let (worker, calls) = recording(&world, "w", |_, _| Outcome::fail(Class::Poison, "no"));
    let build = || world.build().worker(worker.clone()).worker(refusing()).sole();
    let node = build().start().await;
    node.deploy("d", ONE).await;
    let id = node.start("d", json!(1)).await;
    publish(&node, &node.tenant, 3).await;
    until(|| async { node.metric("windlass_errors_waiting") == 4.0 }).await;
    node.crash().await;
    pass(secs(10)).await;
    let counts = world.counts().await;
    assert_eq!((counts.calls, counts.deliveries, counts.dead_letters), (1, 3, 0), "all is there still");
    assert_eq!((world.errors().await, world.status(id).await.as_str()), (0, "running"));
    let node = build().start().await;
    node.fault(id).await;
    until(|| async { world.counts().await.deliveries == 0 }).await;
    assert_eq!(calls.lock().len(), 2, "it was done again");
    assert_eq!((world.errors().await, world.letters().await.len()), (4, 4));
}

#[tokio::test(start_paused = true)]
async fn a_crash_or_a_lost_answer_in_the_flush_records_each_error_once() {
    for act in [Act::Unavailable, Act::Full, Act::Lost, Act::Landed, Act::CrashBefore, Act::CrashAfter] {
        let world = World::new();
        let build = || world.build().worker(failing("w")).worker(refusing()).sole();
        let node = build().start().await;
        node.deploy("d", ONE).await;
        node.tap.once(records, act);
        let ids = futures_util::future::join_all((0..7).map(|n| node.start("d", json!(n)))).await;
        publish(&node, &node.tenant, 5).await;
        if matches!(act, Act::CrashBefore | Act::CrashAfter) {
            until(|| async { node.tap.crash.is_cancelled() }).await;
            let landed = if act == Act::CrashAfter { 12 } else { 0 };
            assert_eq!(world.errors().await, landed, "{act:?}: acknowledged and recorded, or neither");
            assert_eq!(world.counts().await.deliveries, if landed > 0 { 0 } else { 5 });
            node.crash().await;
            let node = build().start().await;
            settle(&world, &node, &ids).await;
        } else {
            if act == Act::Unavailable {
                until(|| async { world.now().0 > EPOCH + 2_100_000 }).await;
                assert_eq!(world.status(ids[0]).await, "running", "no acknowledgement without the commit");
            }
            settle(&world, &node, &ids).await;
        }
        assert_eq!((world.errors().await, world.letters().await.len()), (12, 5), "{act:?}");
    }
}

async fn settle(world: &World, node: &Up, ids: &[uuid::Uuid]) {
    for id in ids {
        node.fault(*id).await;
    }
    until(|| async { world.counts().await.deliveries == 0 }).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_not_this_nodes_any_more_does_not_hold_up_its_group() {
    let world = World::new();
    let node = world.build().worker(refusing()).start().await;
    publish(&node, &node.tenant, 9).await;
    until(|| async { node.metric("windlass_errors_waiting") == 9.0 }).await;
    let filter = DeliveryFilter::default();
    let rows = world.store.deliveries(&world.tenant, &filter, None, 10).await.unwrap();
    for row in [&rows[2], &rows[7]] {
        world.write(vec![Write::ConsumeDelivery { id: row.id, attempt: row.attempt }]).await;
    }
    until(|| async { world.counts().await.deliveries == 0 }).await;
    assert_eq!((world.errors().await, world.letters().await.len()), (7, 7));
}

#[tokio::test(start_paused = true)]
async fn a_graceful_stop_waits_for_nothing_and_loses_nothing() {
    let world = World::new();
    let node = world.build().worker(failing("w")).worker(refusing()).start().await;
    node.deploy("d", ONE).await;
    let id = node.start("d", json!(1)).await;
    publish(&node, &node.tenant, 3).await;
    until(|| async { node.metric("windlass_errors_waiting") == 4.0 }).await;
    let before = world.now();
    node.stop().await;
    assert!(world.now().since(before) < machine::time::Span::from_secs(1));
    assert_eq!((world.errors().await, world.status(id).await.as_str()), (4, "faulted"));
    assert_eq!((world.counts().await.deliveries, world.letters().await.len()), (0, 3));
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_is_handled_is_an_ordinary_commit() {
    let world = World::new();
    let node = world.build().worker(failing("w")).start().await;
    let caught = "do: [ { t: { try: [ { a: { call: 'w:1.0.0@default' } } ], catch: { do: [ { s: { set: { ok: true } } } ] } } } ]";
    node.deploy("caught", caught).await;
    let began = world.now();
    let id = node.start("caught", json!(1)).await;
    assert_eq!(node.output(id).await, json!({ "ok": true }));
    assert!(world.now().since(began) < machine::time::Span::from_millis(100));
    assert!(world.groups(&world.tenant).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_holds_up_somebody_does_not_wait_two_seconds() {
    let second = machine::time::Span::from_secs(1);
    // A parent that handles its child's fault, again and again.
    let world = World::new();
    let node = world.build().worker(failing("w")).worker(refusing().order_by("subject")).start().await;
    node.deploy("d", ONE).await;
    let parent = "do: [ { l: { for: { each: i, in: '${ [1, 2, 3] }' }, do: [ { t: {
        try: [ { c: { run: { workflow: { namespace: test, name: d, version: '1.0.0' } } } } ],
        catch: { do: [ { s: { set: { ok: true } } } ] } } } ] } } ]";
    node.deploy("parent", parent).await;
    let began = world.now();
    let id = node.start("parent", json!(1)).await;
    assert_eq!(node.output(id).await, json!({ "ok": true }));
    assert!(world.now().since(began) < second, "{:?}", world.now().since(began));
    assert_eq!(world.errors().await, 3);
    // Events of one order key.
    let began = world.now();
    publish(&node, &node.tenant, 5).await;
    until(|| async { world.counts().await.deliveries == 0 }).await;
    assert!(world.now().since(began) < second);
    assert_eq!(world.letters().await.len(), 5);
    // A worker somewhere else.
    let declared = runtime::api::Declared { types: vec!["bill".to_owned()], ..Default::default() };
    node.handle.declare_worker(&node.tenant, "bill", &declared).await.unwrap();
    let mut bill = events(1)[0].to_json();
    bill["type"] = json!("bill");
    bill["id"] = json!("b-1");
    node.handle.publish(&node.tenant, Data::from_json(bill)).await.unwrap();
    let lent = node.handle.poll_deliveries(&node.tenant, "bill", 1, secs(1)).await.unwrap();
    let began = world.now();
    let failed = vec![Handled::fail(Class::Validation, "no")];
    node.handle.answer_delivery(&node.tenant, lent[0].id, lent[0].attempt, failed).await.unwrap();
    assert!(world.now().since(began) < second);
    assert_eq!(world.letters().await.len(), 6, "what was answered is so");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_faults_as_it_starts_is_recorded_with_its_start() {
    let world = World::new();
    let node = world.node().await;
    let raise = "do: [ { r: { raise: { error: { type: 'https://example.com/sold-out', status: 409, title: 'Sold out' } } } } ]";
    node.deploy("raise", raise).await;
    let flushes = watch(&world, &node);
    let id = node.start("raise", json!(1)).await;
    assert_eq!(world.status(id).await, "faulted");
    assert_eq!(flushes.lock().len(), 1);
    // A batch of children that all fault is one commit, and one statement.
    node.deploy(
        "map",
        "do: [ { m: { call: 'map:1.0.0@default', with: { items: '${ .items }', onError: collect,
        workflow: { namespace: test, name: raise, version: '1.0.0' } } } } ]",
    )
    .await;
    let items: Vec<Value> = (0..30).map(|n| json!(n)).collect();
    let map = node.start("map", json!({ "items": items })).await;
    assert_eq!(node.output(map).await["failed"], json!(30));
    let of: Vec<_> = flushes.lock().iter().map(|(_, _, errors, writes)| (*errors, *writes)).collect();
    assert_eq!(of, [(1, 1), (30, 1)]);
    let groups = world.groups(&world.tenant).await;
    let shown: Vec<_> =
        groups.iter().map(|group| (group.source.as_str(), group.target.as_str(), group.count)).collect();
    assert_eq!(shown, [("workflow", "test/raise", 31)]);
    assert_eq!(groups[0].class, "https://example.com/sold-out");
}
