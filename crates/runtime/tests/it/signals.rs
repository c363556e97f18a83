//! P3: an acknowledged signal is used exactly once, or is to be seen as unused; early ones are kept.

use crate::support::*;
use runtime::api::Order;
use serde_json::{Value, json};
use uuid::Uuid;

const LISTEN: &str = "do: [ { hear: { listen: { to: { one: { with: { type: go } } } } } } ]";

/// Gives the instance as many unused signals as it may keep.
async fn fill(world: &World, id: Uuid) {
    let unused = |n| json!({ "command": "signal", "id": Uuid::from_u128(n), "event": { "type": "unused" } });
    let all: Vec<_> = (0..machine::state::SIGNALS_MAX as u128).map(unused).collect();
    world.rewrite(id, |json| json["continuationBuffer"] = json!(all)).await;
}

#[tokio::test(start_paused = true)]
async fn a_signal_before_its_start_is_kept_and_used_after_it() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", LISTEN).await;
    let id = Uuid::from_u128(60);
    node.signal(id, "go", json!(1)).await;
    pass(secs(2)).await;
    assert_eq!(world.counts().await.signals, 1);
    let mut start = start_of("d", json!({}));
    start.id = Some(id);
    node.handle.start(&node.tenant, start).await.unwrap();
    assert_eq!(node.output(id).await, json!([1]));
    assert_eq!(world.count(id, "signal.received").await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_signal_nothing_waits_for_yet_is_kept_for_a_later_step() {
    let world = World::new();
    let node = world.node().await;
    node.deploy(
        "d",
        "do:
- first: { listen: { to: { one: { with: { type: one } } } } }
- second: { listen: { to: { one: { with: { type: two } } } } }
",
    )
    .await;
    let id = node.start("d", json!({})).await;
    node.signal(id, "two", json!("early")).await;
    node.signal(id, "other", json!("unused")).await;
    pass(secs(1)).await;
    assert_eq!(world.count(id, "signal.buffered").await, 2);
    node.signal(id, "one", json!(1)).await;
    assert_eq!(node.output(id).await, json!(["early"]));
}

#[tokio::test(start_paused = true)]
async fn sending_again_with_the_same_id_has_no_second_effect() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", "do: [ { a: { listen: { to: { one: { with: { type: go } } } } } }, { b: { listen: { to: { one: { with: { type: go } } } } } } ]").await;
    let id = node.start("d", json!({})).await;
    let signal = Uuid::from_u128(61);
    for _ in 0..5 {
        let sent = signal_of("go", json!(1), Some(signal));
        assert_eq!(node.handle.signal(&node.tenant, id, sent).await.unwrap(), signal);
        pass(secs(1)).await;
    }
    assert_eq!((world.view(id).await.state_version, world.count(id, "signal.received").await), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn one_signal_id_may_be_sent_to_many_instances_and_each_gets_its_own() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", LISTEN).await;
    let signal = Uuid::from_u128(62);
    let (late, there) = (Uuid::from_u128(63), node.start("d", json!({})).await);
    for (id, data) in [(late, "for the late one"), (there, "for the other")] {
        node.handle.signal_early(&node.tenant, id, signal_of("go", json!(data), Some(signal))).await.unwrap();
    }
    assert_eq!(node.output(there).await, json!(["for the other"]));
    let mut start = start_of("d", json!({}));
    start.id = Some(late);
    node.handle.start(&node.tenant, start).await.unwrap();
    assert_eq!(node.output(late).await, json!(["for the late one"]));
}

#[tokio::test(start_paused = true)]
async fn signals_beyond_what_an_instance_keeps_become_dead_letters_not_nothing() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", LISTEN).await;
    let id = node.start("d", json!({})).await;
    fill(&world, id).await;
    for n in 0..3 {
        node.signal(id, "unused", json!(n)).await;
    }
    until(|| async { world.letters().await.len() == 3 }).await;
    assert_eq!(world.counts().await.signals, 0);
    for letter in world.letters().await {
        assert_eq!((letter.reason.as_str(), letter.instance), ("retries-exhausted", Some(id)));
        assert!(letter.detail.contains("unused signals"), "{}", letter.detail);
    }
    node.signal(id, "go", json!("still heard")).await;
    assert_eq!(node.output(id).await, json!(["still heard"]));
}

#[tokio::test(start_paused = true)]
async fn a_paused_instance_full_of_signals_still_takes_the_answers_it_waits_for() {
    let world = World::new();
    let gate = Gate::new();
    let node = world.build().worker(gate.worker("w")).start().await;
    node.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]").await;
    let id = node.start("d", json!(5)).await;
    until(|| async { gate.begun() == 1 }).await;
    node.handle.order(&node.tenant, id, Order::Pause, "op").await.unwrap();
    fill(&world, id).await;
    gate.open.add_permits(1);
    until(|| async { world.counts().await.calls == 0 }).await;
    node.handle.order(&node.tenant, id, Order::Resume, "op").await.unwrap();
    assert_eq!(node.output(id).await, json!(5));
}

#[tokio::test(start_paused = true)]
async fn many_signals_in_any_order_on_two_nodes_are_each_used_once() {
    let world = World::new();
    let nodes = [world.node().await, world.node().await];
    nodes[0].deploy("d", "do: [ { loop: { for: { each: i, in: '${ [range(40)] }' }, do: [ { hear: { listen: { to: { one: { with: { type: go } } } } } } ] } } ]").await;
    let id = nodes[0].start("d", json!({})).await;
    let sent = (0..40).flat_map(|n| {
        // Every signal goes to both nodes.
        let signal = || signal_of("go", json!(n), Some(Uuid::from_u128(1000 + n)));
        nodes.each_ref().map(|node| node.handle.signal_early(&node.tenant, id, signal()))
    });
    for answer in futures_util::future::join_all(sent.collect::<Vec<_>>()).await {
        answer.unwrap();
    }
    nodes[1].output(id).await;
    assert_eq!(world.count(id, "signal.received").await, 40);
    assert_eq!(world.counts().await.signals, 0);
}

/// Ids that history has in entries of this kind, sorted.
async fn named(world: &World, id: Uuid, kind: &str) -> Vec<String> {
    let rows = world.store.history(&world.tenant, id, 0, 10_000).await.unwrap();
    let events = rows.iter().flat_map(|row| serde_json::from_slice::<Vec<Value>>(&row.events).unwrap());
    let own = events.filter(|event| event["kind"] == kind);
    let mut ids: Vec<String> =
        own.map(|event| event["detail"]["signal"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

#[tokio::test(start_paused = true)]
async fn signals_that_lose_against_the_end_are_to_be_seen_as_unmatched() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", LISTEN).await;
    let id = node.start("d", json!({})).await;
    let sent = futures_util::future::join_all((0..4).map(|n| node.signal(id, "go", json!(n)))).await;
    node.output(id).await;
    let ended = world.view(id).await.row;
    until(|| async { world.counts().await.signals == 0 }).await;
    assert_eq!(world.count(id, "signal.received").await, 1);
    let mut told = named(&world, id, "signal.received").await;
    told.extend(named(&world, id, "signal.unmatched").await);
    told.sort();
    let mut sent: Vec<String> =
        sent.into_iter().map(|id| machine::id::show(machine::id::Kind::Signal, id)).collect();
    sent.sort();
    assert_eq!(told, sent);
    let after = world.view(id).await.row;
    assert_eq!((after.status, after.ended_at, after.output), (ended.status, ended.ended_at, ended.output));
}

#[tokio::test(start_paused = true)]
async fn a_signal_that_loses_against_a_cancellation_is_to_be_seen_as_unmatched() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", LISTEN).await;
    let id = node.start("d", json!({})).await;
    node.handle.order(&node.tenant, id, Order::Cancel, "op").await.unwrap();
    let sent = node.signal(id, "go", json!(1)).await;
    until(|| async { world.counts().await.signals == 0 }).await;
    let sent = machine::id::show(machine::id::Kind::Signal, sent);
    assert_eq!(named(&world, id, "signal.unmatched").await, [sent]);
    assert_eq!(world.status(id).await, "cancelled");
}
