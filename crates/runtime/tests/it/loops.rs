//! Loops of events: a worker may ignore its own, and whatever goes round ends by a count.

use crate::{deliveries::*, support::*};
use machine::Data;
use serde_json::json;
use worker::{Emit, Handled};

#[tokio::test(start_paused = true)]
async fn a_worker_that_ignores_its_own_is_not_handed_what_it_emits() {
    let world = World::new();
    let echo = |delivery: &worker::Delivery| Handled::emit([Emit::new("echo", delivery.data())]);
    let (mirror, to_mirror) = noting(&world, "mirror", &["echo"], echo);
    let (ear, to_ear) = noting(&world, "ear", &["echo"], |_| Handled::done());
    let node = world.build().worker(mirror.ignore_own()).worker(ear).start().await;
    node.handle.publish(&node.tenant, event("echo", 1)).await.unwrap();
    // Somebody outside who calls himself the worker is not it.
    let mut forged = event("echo", 2).to_json();
    forged["source"] = json!("windlass/workers/mirror");
    node.handle.publish(&node.tenant, Data::from_json(forged)).await.unwrap();
    until(|| async { handled(&to_ear).len() == 4 && world.counts().await.outbox == 0 }).await;
    settled(&world).await;
    assert_eq!((handled(&to_mirror), handled(&to_ear)), (vec![1, 2], vec![1, 1, 2, 2]));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_triggers_itself_ends_as_a_dead_letter_and_goes_on_when_somebody_says_so() {
    let world = World::new();
    let echo = |delivery: &worker::Delivery| Handled::emit([Emit::new("echo", delivery.data())]);
    let (mirror, to_mirror) = noting(&world, "mirror", &["echo"], echo);
    let node = world.build().worker(mirror).options(|options| options.hops_max = 5).start().await;
    node.handle.publish(&node.tenant, event("echo", 1)).await.unwrap();
    until(|| async { world.counts().await.dead_letters == 1 }).await;
    settled(&world).await;
    let letter = world.letter().await;
    assert_eq!((letter.reason.as_str(), letter.source.as_str()), ("loop", "event"), "{}", letter.detail);
    // The one that was published, and five that were emitted.
    assert_eq!(to_mirror.lock().len(), 6);
    node.handle.replay_dead_letter(&node.tenant, letter.id, "somebody").await.unwrap();
    until(|| async { to_mirror.lock().len() == 12 && world.counts().await.dead_letters == 1 }).await;
    assert_ne!(world.letter().await.id, letter.id);
}

#[tokio::test(start_paused = true)]
async fn instances_that_start_each_other_by_events_end_by_the_same_count() {
    let world = World::new();
    let node = world.build().options(|options| options.hops_max = 3).start().await;
    let ping = "schedule: { on: { one: { with: { type: ping } } } }\ndo: [ { again: { emit: { event: { with: { source: 'https://ping.test', type: ping } } } } } ]";
    node.deploy("ping", ping).await;
    let first =
        json!({ "specversion": "1.0", "id": "1", "source": "test", "type": "ping", "correlationid": "c-1" });
    node.handle.publish(&node.tenant, Data::from_json(first)).await.unwrap();
    until(|| async { world.counts().await.dead_letters == 1 }).await;
    let letter = world.letter().await;
    assert_eq!(letter.reason, "loop", "{}", letter.detail);
    let emitted = Data::parse(&letter.envelope).unwrap().to_json();
    assert_eq!((&emitted["hops"], &emitted["correlationid"]), (&json!(4), &json!("c-1")));
    // An event that says so itself is refused at once.
    let tired = json!({ "specversion": "1.0", "id": "2", "source": "test", "type": "pong", "hops": "4" });
    let refusal = node.handle.publish(&node.tenant, Data::from_json(tired)).await.unwrap_err();
    assert!(matches!(refusal, runtime::api::Refusal::Invalid { code: "event-loop", .. }), "{refusal}");
}
