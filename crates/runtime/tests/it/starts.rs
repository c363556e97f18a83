//! P1, P2: an acknowledged start is there, once per key, once per business key.

use crate::support::*;
use machine::Data;
use runtime::api::{InstanceResult, Refusal, Start};
use serde_json::json;
use store::Write;
use trial::tap::Act;
use uuid::Uuid;

const WAITS: &str = "do: [ { hear: { listen: { to: { one: { with: { type: go } } } } } } ]";

fn keyed(key: &str, input: serde_json::Value) -> Start {
    Start { idempotency_key: Some(key.to_owned()), ..start_of("d", input) }
}

#[tokio::test(start_paused = true)]
async fn fifty_starts_at_once_with_one_key_make_one_instance() {
    let world = World::new();
    let nodes = [world.node().await, world.node().await];
    nodes[0].deploy("d", WAITS).await;
    // Some answers get lost on the way, whether or not the commit landed.
    let mut count = 0;
    nodes[0].tap.on_commit(move |_| {
        count += 1;
        [Act::Landed, Act::Pass, Act::Lost][count % 3]
    });
    let starts = (0..50).map(|n| {
        let node = &nodes[n % 2];
        node.handle.start(&node.tenant, keyed("k", json!({ "same": 1 })))
    });
    let answers = futures_util::future::join_all(starts).await;
    let first = answers[0].as_ref().unwrap().id;
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().id == first), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| !answer.as_ref().unwrap().replayed).count(), 1);
    assert_eq!(world.counts().await.instances, [("waiting".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn the_same_key_with_another_request_is_refused() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", WAITS).await;
    node.deploy("other", WAITS).await;
    let first = node.handle.start(&node.tenant, keyed("k", json!(1))).await.unwrap();
    assert!(!first.replayed);
    let again = node.handle.start(&node.tenant, keyed("k", json!(1))).await.unwrap();
    assert_eq!((again.id, again.replayed), (first.id, true));
    for other in [
        keyed("k", json!(2)),
        Start { business_key: Some("b".to_owned()), ..keyed("k", json!(1)) },
        Start { idempotency_key: Some("k".to_owned()), ..start_of("other", json!(1)) },
    ] {
        let refused = node.handle.start(&node.tenant, other).await;
        assert!(matches!(refused, Err(Refusal::KeyReused)), "{refused:?}");
    }
    assert_eq!(world.counts().await.instances, [("waiting".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_key_belongs_to_its_tenant() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", WAITS).await;
    node.handle.start(&node.tenant, keyed("k", json!(1))).await.unwrap();
    let other = machine::TenantId::new("other").unwrap();
    let missing = node.handle.start(&other, keyed("k", json!(1))).await;
    assert!(matches!(missing, Err(Refusal::NotFound(_))), "{missing:?}");
}

#[tokio::test(start_paused = true)]
async fn one_open_instance_per_business_key_and_the_refusal_names_it() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", WAITS).await;
    let start = || Start { business_key: Some("order-1".to_owned()), ..start_of("d", json!({})) };
    let first = node.handle.start(&node.tenant, start()).await.unwrap().id;
    let taken = node.handle.start(&node.tenant, start()).await;
    let Err(Refusal::Conflict { code, existing, .. }) = taken else { panic!("{taken:?}") };
    assert_eq!((code, existing), ("business-key-taken", Some(first)));
    node.signal(first, "go", json!(1)).await;
    node.output(first).await;
    let second = node.handle.start(&node.tenant, start()).await.unwrap().id;
    let found = world.store.instance_by_key(&world.tenant, "order-1").await.unwrap().unwrap();
    assert_eq!(found.row.id, second, "an ended instance frees the key");
}

#[tokio::test(start_paused = true)]
async fn an_id_that_is_taken_is_a_conflict_that_names_it() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", WAITS).await;
    let id = Uuid::from_u128(70);
    let start = |input| Start { id: Some(id), ..start_of("d", input) };
    node.handle.start(&node.tenant, start(json!(1))).await.unwrap();
    for act in [Act::Pass, Act::Lost, Act::Landed] {
        pass(secs(1)).await;
        node.tap.once(|commit| commit.writes.iter().any(|w| matches!(w, Write::CreateInstance { .. })), act);
        let taken = node.handle.start(&node.tenant, start(json!(2))).await;
        let Err(Refusal::Conflict { code, existing, .. }) = taken else { panic!("{act:?}: {taken:?}") };
        assert_eq!((code, existing), ("instance-exists", Some(id)));
    }
    assert_eq!(world.view(id).await.row.input, b"1");
}

#[tokio::test(start_paused = true)]
async fn a_start_is_acknowledged_only_once_it_is_durable() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", WAITS).await;
    node.tap.once(|_| true, Act::Unavailable);
    let refused = node.handle.start(&node.tenant, keyed("k", json!(1))).await;
    assert!(matches!(refused, Err(Refusal::Unavailable(_))), "{refused:?}");
    assert!(world.counts().await.instances.is_empty());
    let started = node.handle.start(&node.tenant, keyed("k", json!(1))).await.unwrap();
    assert!(!started.replayed, "the failed one left no record");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_does_not_undo_a_start() {
    let world = World::new();
    let node = world.build().worker(echo("w")).start().await;
    node.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]").await;
    let id = Uuid::from_u128(71);
    let start = Start { id: Some(id), ..start_of("d", json!(1)) };
    {
        let mut asked = Box::pin(node.handle.start(&node.tenant, start));
        // Polled once, then dropped, as a cut connection does.
        let polled = futures_util::poll!(asked.as_mut());
        assert!(polled.is_pending());
    }
    until(|| async { world.store.instance(&world.tenant, id).await.unwrap().is_some() }).await;
    assert_eq!(node.output(id).await, json!(1));
}

#[tokio::test(start_paused = true)]
async fn starting_and_waiting_answers_the_end_or_where_it_stands() {
    let world = World::new();
    let node = world.build().worker(echo("w")).start().await;
    node.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]").await;
    node.deploy("slow", "do: [ { a: { wait: { hours: 1 } } } ]").await;
    let wait = |start| node.handle.start_and_wait(&node.tenant, start, secs(5));
    let (started, end) = wait(keyed("k", json!(9))).await.unwrap();
    assert_eq!(end, InstanceResult::Completed(Data::int(9)));
    let (again, end) = wait(keyed("k", json!(9))).await.unwrap();
    assert_eq!((again.id, end), (started.id, InstanceResult::Completed(Data::int(9))), "also when replayed");
    let (_, end) = wait(start_of("slow", json!(1))).await.unwrap();
    assert_eq!(end, InstanceResult::Pending("waiting".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn starts_of_unknown_definitions_are_refused_and_store_nothing() {
    let world = World::new();
    let node = world.node().await;
    let missing = node.handle.start(&node.tenant, keyed("k", json!(1))).await;
    assert!(matches!(missing, Err(Refusal::NotFound(_))), "{missing:?}");
    node.deploy("d", WAITS).await;
    let started = node.handle.start(&node.tenant, keyed("k", json!(1))).await.unwrap();
    assert!(!started.replayed);
}
