//! Schedules that take several events: what is collected outlives the node, counts once, and starts one instance.

use crate::support::*;
use machine::{Data, language::Format};
use runtime::api::Published;
use serde_json::{Value, json};
use store::{
    Outcome, Write,
    views::{InstanceFilter, InstanceView},
};
use trial::tap::Act;

const BOTH: &str = "schedule:
  on:
    all:
      - { with: { type: placed }, correlate: { order: { from: .data.order } } }
      - { with: { type: paid }, correlate: { order: { from: .data.order } } }
do: [ { a: { set: { got: '${ map(.id) }' } } } ]";
const THREE: &str = "schedule: { on: { any: [ { with: { type: tick } } ], until: length == 3 } }
do: [ { a: { set: { got: '${ map(.id) }' } } } ]";

fn event(id: &str, kind: &str, order: &str) -> Data {
    let data = json!({ "order": order });
    Data::from_json(json!({ "specversion": "1.0", "id": id, "source": "test", "type": kind, "data": data }))
}

impl Up {
    async fn told(&self, id: &str, kind: &str, order: &str) -> Published {
        self.handle.publish(&self.tenant, event(id, kind, order)).await.unwrap()
    }

    async fn got(&self, published: &Published) -> Value {
        assert_eq!(published.started.len(), 1);
        self.output(published.started[0]).await["got"].clone()
    }

    async fn deploy_as(&self, version: &str, body: &str) {
        let source =
            format!("document: {{ dsl: '1.0.3', namespace: test, name: d, version: '{version}' }}\n{body}\n");
        self.handle.deploy(&self.tenant, source.as_bytes(), Format::Yaml, false).await.unwrap();
    }
}

async fn all(world: &World) -> Vec<InstanceView> {
    let filter = InstanceFilter { name: Some("d".to_owned()), ..InstanceFilter::default() };
    world.store.instances(&world.tenant, &filter, &whole_page()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_is_collected_outlives_the_node() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", BOTH).await;
    let first = node.told("p1", "placed", "1").await;
    assert!(first.started.is_empty());
    let row = world.store.event(&world.tenant, first.id).await.unwrap().unwrap();
    assert_eq!((row.collected, row.started, row.kept_until), (1, 0, None), "it is nobody else's");
    node.told("p2", "placed", "2").await;
    node.crash().await;
    let node = world.build().sole().start().await;
    assert!(node.told("p1", "placed", "1").await.replayed, "it counts once");
    let two = node.told("m2", "paid", "2").await;
    assert_eq!(node.got(&two).await, json!(["p2", "m2"]));
    assert!(node.told("m3", "paid", "3").await.started.is_empty());
    node.stop().await;
    let node = world.node().await;
    let one = node.told("m1", "paid", "1").await;
    assert_eq!(node.got(&one).await, json!(["p1", "m1"]));
    let three = node.told("p3", "placed", "3").await;
    assert_eq!(node.got(&three).await, json!(["m3", "p3"]));
    assert_eq!(all(&world).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_crash_around_the_commit_neither_loses_nor_doubles_what_is_collected() {
    for nth in 0..3 {
        for act in [Act::CrashBefore, Act::CrashAfter, Act::Lost, Act::Landed] {
            let world = World::new();
            let mut node = world.node().await;
            node.deploy("d", THREE).await;
            let mut started = Vec::new();
            for number in 0..3 {
                let id = format!("e{number}");
                if number == nth {
                    let publishes = |write: &Write| matches!(write, Write::Publish(_));
                    node.tap.once(move |commit| commit.writes.iter().any(publishes), act);
                    let publish = node.handle.publish(&node.tenant, event(&id, "tick", "x"));
                    let published = tokio::time::timeout(secs(5), publish).await;
                    if matches!(act, Act::CrashBefore | Act::CrashAfter) {
                        assert!(!matches!(published, Ok(Ok(_))), "it was not acknowledged");
                        node = world.build().sole().start().await;
                    } else {
                        started.extend(published.unwrap().unwrap().started);
                        continue;
                    }
                }
                started.extend(node.told(&id, "tick", "x").await.started);
            }
            pass(secs(40)).await;
            let instances = all(&world).await;
            assert_eq!(instances.len(), 1, "{nth} {act:?}");
            assert_eq!(node.output(instances[0].row.id).await["got"], json!(["e0", "e1", "e2"]));
            assert!(node.told("e3", "tick", "x").await.started.is_empty(), "a new one begins");
            node.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_collected_is_in_the_ledger_and_the_rest_is_kept() {
    let world = World::new();
    let node = world.node().await;
    let until = "(map(.data.order | tonumber) | add) >= 3";
    node.deploy(
        "d",
        &format!(
            "schedule: {{ on: {{ any: [ {{ with: {{ type: tick }} }} ], until: '{until}' }} }}\n\
             do: [ {{ a: {{ set: {{ got: '${{ map(.id) }}' }} }} }} ]"
        ),
    )
    .await;
    assert!(node.told("a", "tick", "1").await.started.is_empty());
    let left_out = node.told("bad", "tick", "x").await;
    let row = world.store.event(&world.tenant, left_out.id).await.unwrap().unwrap();
    assert_eq!((row.collected, row.started), (0, 0));
    let done = node.told("b", "tick", "2").await;
    assert_eq!(node.got(&done).await, json!(["a", "b"]), "those before and after it stay");
    let schedule = machine::id::schedule(&world.tenant, "test", "d");
    let ledger = async || world.store.slots(&world.tenant, schedule, None, 10).await.unwrap();
    let said: Vec<_> = ledger().await.into_iter().map(|slot| (slot.outcome, slot.detail.unwrap())).collect();
    assert_eq!(said.len(), 1);
    assert!(said[0].0 == "failed" && said[0].1.starts_with("event bad was left out"), "{said:?}");

    // What an unknown program wrote there is given up, not obeyed and not in the way.
    let before = world.store.collection(&world.tenant, schedule).await.unwrap();
    let garbage = Write::PutCollection { schedule, open: b"[[".to_vec(), expected_version: before.version };
    assert_eq!(world.write(vec![garbage]).await, Outcome::Committed);
    assert!(node.told("c", "tick", "1").await.started.is_empty());
    let done = node.told("d", "tick", "2").await;
    assert_eq!(node.got(&done).await, json!(["c", "d"]));
    assert_eq!(ledger().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn events_published_at_once_are_each_collected_once() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", THREE).await;
    let events = (0..60).map(|number| event(&format!("e{number}"), "tick", "x")).collect();
    let published = node.handle.publish_many(&node.tenant, events).await;
    let started: Vec<_> = published.into_iter().flat_map(|one| one.unwrap().started).collect();
    assert_eq!(started.len(), 20);
    let mut seen = Vec::new();
    for id in started {
        let got: Vec<String> = serde_json::from_value(node.output(id).await["got"].clone()).unwrap();
        assert_eq!(got.len(), 3);
        seen.extend(got);
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 60);
}

#[tokio::test(start_paused = true)]
async fn two_nodes_collect_into_the_same() {
    let world = World::new();
    let (one, two) = (world.node().await, world.node().await);
    one.deploy("d", THREE).await;
    let publish = |node: &Up, number: usize| {
        let (handle, tenant) = (node.handle.clone(), node.tenant.clone());
        async move { handle.publish(&tenant, event(&format!("e{number}"), "tick", "x")).await }
    };
    let both = (0..6).map(|number| publish(if number % 2 == 0 { &one } else { &two }, number));
    let published = futures_util::future::join_all(both).await;
    let started: usize = published.into_iter().map(|one| one.unwrap().started.len()).sum();
    assert_eq!(started, 2);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_wants_the_same_goes_on_with_what_is_collected() {
    let world = World::new();
    let node = world.node().await;
    node.deploy_as("1.0.0", THREE).await;
    node.told("e0", "tick", "x").await;
    node.deploy_as("1.1.0", &THREE.replace("got:", "more: 1, got:")).await;
    node.told("e1", "tick", "x").await;
    let published = node.told("e2", "tick", "x").await;
    assert_eq!(node.got(&published).await, json!(["e0", "e1", "e2"]));
    node.told("e3", "tick", "x").await;
    node.deploy_as("1.2.0", &THREE.replace("== 3", "== 2")).await;
    assert!(node.told("e4", "tick", "x").await.started.is_empty(), "another condition begins anew");
    let published = node.told("e5", "tick", "x").await;
    assert_eq!(node.got(&published).await, json!(["e4", "e5"]));
}

#[tokio::test(start_paused = true)]
async fn a_paused_schedule_collects_nothing_and_keeps_what_it_has() {
    use runtime::ScheduleOrder::{Pause, Resume};
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", THREE).await;
    node.told("e0", "tick", "x").await;
    let schedule = machine::id::schedule(&node.tenant, "test", "d");
    node.handle.order_schedule(&node.tenant, schedule, Pause, "ann").await.unwrap();
    for id in ["e1", "e2", "e3"] {
        assert!(node.told(id, "tick", "x").await.started.is_empty());
    }
    node.handle.order_schedule(&node.tenant, schedule, Resume, "ann").await.unwrap();
    node.told("e4", "tick", "x").await;
    let published = node.told("e5", "tick", "x").await;
    assert_eq!(node.got(&published).await, json!(["e0", "e4", "e5"]));
}

#[tokio::test(start_paused = true)]
async fn what_is_given_up_stands_in_the_ledger() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", &THREE.replace("length == 3", "length > 5000")).await;
    for number in 0..1000 {
        node.told(&format!("e{number}"), "tick", "x").await;
    }
    let schedule = machine::id::schedule(&node.tenant, "test", "d");
    let slots = world.store.slots(&world.tenant, schedule, None, 10).await.unwrap();
    assert_eq!(slots.len(), 1);
    assert_eq!(slots[0].outcome, "failed");
    assert_eq!(
        slots[0].detail.as_deref(),
        Some("1000 events were given up: more were collected than a schedule keeps")
    );
}
