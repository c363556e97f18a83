//! Events addressed to nobody: whoever waits is told once, whoever comes late within a day too, and nobody's buffer
//! fills with what it does not want.

use crate::support::*;
use machine::{Data, time::Span};
use runtime::api::{Published, Refusal};
use serde_json::{Value, json};
use store::{
    Write,
    rows::EventRow,
    views::{InstanceFilter, InstanceView},
};
use trial::tap::Act;
use uuid::Uuid;

fn event(id: &str, kind: &str, data: Value) -> Data {
    Data::from_json(json!({ "specversion": "1.0", "id": id, "source": "test", "type": kind, "data": data }))
}

impl Up {
    async fn publish(&self, id: &str, kind: &str, data: Value) -> Published {
        self.handle.publish(&self.tenant, event(id, kind, data)).await.unwrap()
    }
}

impl World {
    async fn event(&self, id: Uuid) -> EventRow {
        self.store.event(&self.tenant, id).await.unwrap().unwrap()
    }

    async fn all(&self, name: &str) -> Vec<InstanceView> {
        let filter = InstanceFilter { name: Some(name.to_owned()), ..InstanceFilter::default() };
        self.store.instances(&self.tenant, &filter, &whole_page()).await.unwrap()
    }

    async fn buffered(&self, id: Uuid) -> usize {
        let snapshot = self.snapshot(id).await;
        snapshot.to_string().matches("\"command\":").count()
    }
}

const HEAR: &str = "do: [ { hear: { listen: { to: { one: { with: { type: paid } } } } } } ]";
const HEAR_ORDER: &str = "do:
- hear:
    listen:
      to:
        one:
          with: { type: paid }
          correlate: { order: { from: .data.order, expect: '${ .order }' } }
";
const HEAR_IF: &str = "do:
- hear:
    listen:
      to:
        one:
          with: { type: paid, data: '${ .amount > 100 }' }
";

#[tokio::test(start_paused = true)]
async fn every_wait_that_matches_is_told_and_no_other() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("plain", HEAR).await;
    node.deploy("order", HEAR_ORDER).await;
    node.deploy("amount", HEAR_IF).await;
    let (one, two) = (node.start("plain", json!({})).await, node.start("plain", json!({})).await);
    let (a, b) =
        (node.start("order", json!({"order": "a"})).await, node.start("order", json!({"order": 7})).await);
    let large = node.start("amount", json!({})).await;
    let published = node.publish("e1", "paid", json!({ "order": "a", "amount": 5 })).await;
    for id in [one, two, a] {
        assert_eq!(node.output(id).await, json!([{ "order": "a", "amount": 5 }]));
    }
    pass(secs(1)).await;
    let row = world.event(published.id).await;
    assert_eq!((row.told, row.taken, row.kept_until), (4, 3, None), "the key told it to one of two");
    for id in [b, large] {
        assert_eq!(world.status(id).await, "waiting");
        assert_eq!(world.buffered(id).await, 0, "what it does not want is not kept");
        assert_eq!(world.view(id).await.state_version, 1);
    }
    node.publish("e2", "paid", json!({ "order": 7.0, "amount": 500 })).await;
    node.output(b).await;
    node.output(large).await;
    assert_eq!(world.counts().await.signals, 0);
}

#[tokio::test(start_paused = true)]
async fn publishing_again_has_no_second_effect() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("twice", "do: [ { a: { listen: { to: { one: { with: { type: paid } } } } } }, { b: { listen: { to: { one: { with: { type: paid } } } } } } ]").await;
    let id = node.start("twice", json!({})).await;
    let first = node.publish("e1", "paid", json!(1)).await;
    pass(secs(1)).await;
    let again = node.publish("e1", "paid", json!(1)).await;
    assert_eq!((again.id, again.replayed, first.replayed), (first.id, true, false));
    pass(secs(1)).await;
    assert_eq!(world.status(id).await, "waiting", "one event is one event");
    node.publish("e2", "paid", json!(2)).await;
    assert_eq!(node.output(id).await, json!([2]));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_nothing_took_is_offered_to_whoever_listens_within_its_time() {
    let world = World::new();
    let node = world.build().options(|options| options.events_kept = Span::from_secs(100)).start().await;
    node.deploy("order", HEAR_ORDER).await;
    node.deploy("amount", HEAR_IF).await;
    let picky = node.start("amount", json!({})).await;
    let early = node.publish("e1", "paid", json!({ "order": "a", "amount": 5 })).await;
    pass(secs(5)).await;
    assert!(world.event(early.id).await.kept_until.is_some(), "it was told, and not wanted");
    let other = node.start("order", json!({ "order": "b" })).await;
    let (one, two) =
        (node.start("order", json!({"order": "a"})).await, node.start("order", json!({"order": "a"})).await);
    for id in [one, two] {
        assert_eq!(node.output(id).await, json!([{ "order": "a", "amount": 5 }]), "each of them");
    }
    pass(secs(200)).await;
    let late = node.start("order", json!({ "order": "a" })).await;
    pass(secs(5)).await;
    for id in [picky, other, late] {
        assert_eq!(world.status(id).await, "waiting");
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_offered_an_early_event_once() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("loop", "do: [ { a: { listen: { to: { one: { with: { type: paid } } } } } }, { b: { listen: { to: { one: { with: { type: paid } } } } } } ]").await;
    node.publish("e1", "paid", json!(1)).await;
    let id = node.start("loop", json!({})).await;
    pass(secs(60)).await;
    assert_eq!(world.status(id).await, "waiting");
    assert_eq!(world.count(id, "signal.received").await, 1);
}

#[tokio::test(start_paused = true)]
async fn events_that_come_during_an_iteration_wait_for_it() {
    let world = World::new();
    let node = world.node().await;
    node.deploy(
        "each",
        "do:
- hear:
    listen: { to: { any: [ { with: { type: tick } } ], until: '${ length >= 3 }' } }
    foreach:
      do: [ { rest: { wait: { seconds: 10 } } } ]
",
    )
    .await;
    let id = node.start("each", json!({})).await;
    for number in 0..3 {
        node.publish(&format!("e{number}"), "tick", json!(number)).await;
        pass(secs(1)).await;
    }
    node.output(id).await;
    assert_eq!(world.count(id, "signal.received").await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_paused_instance_hears_it_on_resume() {
    use runtime::api::Order;
    let world = World::new();
    let node = world.node().await;
    node.deploy("plain", HEAR).await;
    let id = node.start("plain", json!({})).await;
    node.handle.order(&node.tenant, id, Order::Pause, "ann").await.unwrap();
    node.publish("e1", "paid", json!(1)).await;
    pass(secs(1)).await;
    assert_eq!(world.status(id).await, "paused");
    node.handle.order(&node.tenant, id, Order::Resume, "ann").await.unwrap();
    assert_eq!(node.output(id).await, json!([1]));
}

#[tokio::test(start_paused = true)]
async fn schedules_start_from_events_in_the_same_commit() {
    let world = World::new();
    let node = world.node().await;
    let start = "schedule: { on: { any: [ { with: { type: placed, data: '${ .amount > 10 }' } }, { with: { type: 'ord.*' } } ] } }\ndo: [ { a: { set: { got: '${ . }' } } } ]";
    node.deploy("starts", start).await;
    let none = node.publish("e0", "placed", json!({ "amount": 1 })).await;
    assert!(none.started.is_empty());
    let published = node.publish("e1", "placed", json!({ "amount": 11 })).await;
    assert_eq!(published.started.len(), 1);
    let output = node.output(published.started[0]).await;
    assert_eq!(output["got"][0]["data"], json!({ "amount": 11 }));
    let row = world.event(published.id).await;
    assert_eq!((row.started, row.kept_until), (1, None));
    assert_eq!(node.publish("e2", "order.x", json!({})).await.started.len(), 1, "a pattern");
    assert!(node.publish("e1", "placed", json!({ "amount": 11 })).await.replayed);
    let schedule = machine::id::schedule(&node.tenant, "test", "starts");
    node.handle.order_schedule(&node.tenant, schedule, runtime::ScheduleOrder::Pause, "ann").await.unwrap();
    assert!(node.publish("e3", "placed", json!({ "amount": 99 })).await.started.is_empty());
    pass(secs(5)).await;
    assert_eq!(world.all("starts").await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_one_instance_emits_another_hears_once() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("hears", HEAR).await;
    node.deploy(
        "starts",
        "schedule: { on: { one: { with: { type: paid } } } }\ndo: [ { a: { set: { x: 1 } } } ]",
    )
    .await;
    node.deploy("emits", "do: [ { say: { emit: { event: { with: { source: 'https://a.b', type: paid, data: { n: 1 } } } } } } ]")
        .await;
    let hears = node.start("hears", json!({})).await;
    let emits = node.start("emits", json!({})).await;
    node.output(emits).await;
    assert_eq!(node.output(hears).await, json!([{ "n": 1 }]));
    pass(secs(40)).await;
    assert_eq!(world.all("starts").await.len(), 1);
    assert_eq!(world.counts().await.outbox, 0);
}

#[tokio::test(start_paused = true)]
async fn a_crash_around_the_commit_neither_loses_nor_doubles_an_event() {
    for act in [Act::CrashBefore, Act::CrashAfter, Act::Lost, Act::Landed] {
        let world = World::new();
        let node = world.node().await;
        node.deploy("plain", HEAR).await;
        node.deploy(
            "starts",
            "schedule: { on: { one: { with: { type: paid } } } }\ndo: [ { a: { set: { x: 1 } } } ]",
        )
        .await;
        let id = node.start("plain", json!({})).await;
        node.tap.once(|commit| commit.writes.iter().any(|write| matches!(write, Write::Publish(_))), act);
        let publish =
            tokio::time::timeout(secs(5), node.handle.publish(&node.tenant, event("e1", "paid", json!(1))))
                .await;
        let node = match act {
            Act::CrashBefore | Act::CrashAfter => {
                assert!(!matches!(publish, Ok(Ok(_))), "it was not acknowledged");
                world.build().sole().start().await
            }
            _ => {
                publish.unwrap().unwrap();
                node
            }
        };
        // Whoever was not answered asks again.
        node.publish("e1", "paid", json!(1)).await;
        assert_eq!(node.output(id).await, json!([1]), "{act:?}");
        pass(secs(40)).await;
        assert_eq!(world.count(id, "signal.received").await, 1);
        assert_eq!(world.all("starts").await.len(), 1, "{act:?}");
        node.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_cloud_event_is_refused() {
    let world = World::new();
    let node = world.node().await;
    for (wrong, code) in [
        (json!([]), "invalid-event"),
        (json!({ "id": "1", "source": "s", "type": "t" }), "invalid-event"),
        (json!({ "specversion": "0.3", "id": "1", "source": "s", "type": "t" }), "invalid-event"),
        (json!({ "specversion": "1.0", "id": "", "source": "s", "type": "t" }), "invalid-event"),
        (
            json!({ "specversion": "1.0", "id": "1", "source": "s", "type": "t", "data": "x".repeat(70_000) }),
            "event-too-large",
        ),
    ] {
        let refused = node.handle.publish(&node.tenant, Data::from_json(wrong)).await;
        assert!(matches!(refused, Err(Refusal::Invalid { code: found, .. }) if found == code), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn events_are_forgotten_after_their_time() {
    let world = World::new();
    let node = world.build().options(unhurried).start().await;
    let id = node.publish("e1", "paid", json!(1)).await.id;
    pass(secs(7 * 86_400 + 3_660)).await;
    assert_eq!(world.store.event(&world.tenant, id).await.unwrap(), None);
}
