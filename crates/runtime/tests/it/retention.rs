//! P22, B35: what ended long ago is deleted by itself; what lives, however old, is not.

use crate::support::*;
use machine::time::Span;
use runtime::{
    Options,
    api::{Order, Refusal},
    retention::Retention,
};
use serde_json::json;
use std::time::Duration;
use store::views::*;

const DAY: i64 = 86_400;

async fn days(days: u64) {
    pass(Duration::from_secs(days * DAY as u64)).await;
}

fn keep(options: &mut Options) {
    let kept = |days| Some(Span::from_secs(days * DAY));
    options.retention =
        Retention { ended: kept(10), faulted: kept(20), keys: kept(2), every: Span::from_secs(3600) };
    // Weeks pass: nothing needs to look every few seconds.
    options.lease = Span::from_secs(DAY);
    options.rescan = Some(Span::from_secs(DAY));
}

#[tokio::test(start_paused = true)]
async fn the_old_go_and_the_waiting_stay() {
    let world = World::new();
    let node = world.build().options(keep).start().await;
    node.deploy("quick", "do: [ { a: { set: { x: 1 } } } ]").await;
    node.deploy("year", "do: [ { a: { wait: { days: 365 } } } ]").await;
    node.deploy("bad", "do: [ { a: { raise: { error: { type: 'https://x', status: 400 } } } } ]").await;
    let done = node.start("quick", json!({})).await;
    let waits = node.start("year", json!({})).await;
    let faulted = node.start("bad", json!({})).await;
    let cancelled = node.start("year", json!({})).await;
    node.handle.order(&world.tenant, cancelled, Order::Cancel, "ann").await.unwrap();
    days(9).await;
    let young = node.start("quick", json!({})).await;
    for id in [done, waits, faulted, cancelled, young] {
        world.view(id).await;
    }
    days(2).await;
    let there = async |id| world.store.instance(&world.tenant, id).await.unwrap().is_some();
    assert!(!there(done).await && !there(cancelled).await);
    assert!(there(waits).await && there(faulted).await && there(young).await);
    assert!(world.store.history(&world.tenant, done, 0, 10).await.unwrap().is_empty());
    let gone = node.handle.order(&world.tenant, done, Order::Cancel, "ann").await;
    assert!(matches!(gone, Err(Refusal::NotFound(_))), "{gone:?}");
    days(10).await;
    assert!(!there(faulted).await && !there(young).await);
    assert_eq!(world.status(waits).await, "waiting");
    assert_eq!(node.metric("windlass_instances_purged_total"), 4.0);
    let counts = world.store.counts(Some(&world.tenant)).await.unwrap();
    assert_eq!(counts, Counts { instances: vec![("waiting".into(), 1)], timers: 1, ..Counts::default() });
}

#[tokio::test(start_paused = true)]
async fn the_result_of_a_child_stays_while_its_parent_goes_on() {
    let world = World::new();
    let node = world.build().options(keep).start().await;
    node.deploy("leaf", "do: [ { a: { set: { x: 1 } } } ]").await;
    let parent = "do:
- c: { run: { workflow: { namespace: test, name: leaf, version: '1.0.0' } } }
- w: { wait: { days: 30 } }";
    node.deploy("parent", parent).await;
    let parent = node.start("parent", json!({})).await;
    days(25).await;
    let children = world.store.children(&world.tenant, parent).await.unwrap();
    assert_eq!(children, [("completed".to_owned(), 1)]);
    days(16).await;
    assert!(world.store.instance(&world.tenant, parent).await.unwrap().is_none());
    assert!(world.store.children(&world.tenant, parent).await.unwrap().is_empty());
}

/// B10: of several nodes one sweeps; when it dies another goes on.
#[tokio::test(start_paused = true)]
async fn one_node_at_a_time_deletes() {
    let world = World::new();
    let options = |options: &mut Options| {
        keep(options);
        options.lease = Span::from_secs(3600);
    };
    let first = world.build().options(options).start().await;
    let second = world.build().options(options).start().await;
    first.deploy("quick", "do: [ { a: { set: { x: 1 } } } ]").await;
    // Long enough for both to look many times.
    for _ in 0..5 {
        first.start("quick", json!({})).await;
        days(1).await;
    }
    days(11).await;
    let deleted = |node: &Up| node.metric("windlass_instances_purged_total");
    let both = [deleted(&first), deleted(&second)];
    assert_eq!(both.iter().sum::<f64>(), 5.0);
    assert!(both.contains(&0.0), "one of them did all of it: {both:?}");
    let (sweeping, other) = if deleted(&first) > 0.0 { (first, second) } else { (second, first) };
    let id = other.start("quick", json!({})).await;
    sweeping.crash().await;
    days(11).await;
    assert!(world.store.instance(&world.tenant, id).await.unwrap().is_none());
    assert_eq!(deleted(&other), 1.0);
}
