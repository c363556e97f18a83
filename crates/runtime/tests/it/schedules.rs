//! R10 of the schedules: every slot once, whoever fires it, however often the node dies.

use crate::support::*;
use machine::{Time, id, language::Format, time::Span};
use runtime::{
    ScheduleOrder,
    api::{Order, Refusal},
};
use serde_json::Value;
use store::{
    Write,
    rows::{ScheduleRow, SlotRow},
    views::{InstanceFilter, InstanceView},
};
use trial::tap::Act;
use uuid::Uuid;

impl World {
    fn schedule_id(&self, name: &str) -> Uuid {
        id::schedule(&self.tenant, "test", name)
    }

    async fn schedule(&self, name: &str) -> ScheduleRow {
        self.store.schedule(&self.tenant, self.schedule_id(name)).await.unwrap().unwrap()
    }

    /// Oldest first.
    async fn slots(&self, name: &str) -> Vec<SlotRow> {
        let mut slots = self.store.slots(&self.tenant, self.schedule_id(name), None, 200).await.unwrap();
        slots.reverse();
        slots
    }

    async fn outcomes(&self, name: &str) -> Vec<String> {
        self.slots(name).await.into_iter().map(|slot| format!("{} {}", slot.outcome, slot.count)).collect()
    }

    async fn instances_of(&self, name: &str) -> Vec<InstanceView> {
        let filter = InstanceFilter { name: Some(name.to_owned()), ..InstanceFilter::default() };
        self.store.instances(&self.tenant, &filter, &whole_page()).await.unwrap()
    }
}

const NOTHING: &str = "do: [ { a: { set: { x: 1 } } } ]";

async fn deploy_version(node: &Up, name: &str, version: &str, body: &str) {
    let source = format!(
        "document: {{ dsl: '1.0.3', namespace: test, name: {name}, version: '{version}' }}\n{body}\n"
    );
    node.handle.deploy(&node.tenant, source.as_bytes(), Format::Yaml, false).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_interval_fires_every_slot_once_and_each_has_its_row() {
    let world = World::new();
    let node = world.build().options(|options| options.rescan = None).start().await;
    node.deploy("d", &format!("schedule: {{ every: PT10S }}\n{NOTHING}")).await;
    pass(secs(35)).await;
    let slots = world.slots("d").await;
    assert_eq!(world.outcomes("d").await, ["fired 1"; 3]);
    let instances = world.instances_of("d").await;
    assert_eq!(instances.len(), 3);
    let anchor = world.schedule("d").await.anchor;
    for (count, slot) in slots.iter().enumerate() {
        assert_eq!(slot.slot, anchor.after(Span::from_secs(10 * (count as i64 + 1))));
        assert!(slot.late >= Span::ZERO && slot.late < Span::from_millis(50), "{:?}", slot.late);
        assert_eq!(slot.instance, Some(id::started_by(slot.schedule, slot.slot)));
        assert!(instances.iter().any(|view| Some(view.row.id) == slot.instance));
    }
}

#[tokio::test(start_paused = true)]
async fn cron_fires_at_the_minute_in_its_zone() {
    let world = World::new();
    let node = world.node().await;
    let source = format!(
        "document:
  dsl: '1.0.3'
  namespace: test
  name: d
  version: '1.0.0'
  metadata: {{ windlass: {{ timeZone: Asia/Kolkata }} }}
schedule: {{ cron: '15 * * * *' }}
{NOTHING}"
    );
    node.handle.deploy(&node.tenant, source.as_bytes(), Format::Yaml, false).await.unwrap();
    pass(secs(3 * 3600)).await;
    let slots = world.slots("d").await;
    assert_eq!(slots.len(), 3);
    // Kolkata is half an hour off the full hours.
    assert!(slots.iter().all(|slot| slot.slot.rfc3339().ends_with(":45:00Z")), "{slots:?}");
    assert_eq!(world.schedule("d").await.time_zone, "Asia/Kolkata");
    let upcoming = node.handle.upcoming(&node.tenant, world.schedule_id("d"), 4).await.unwrap();
    assert_eq!(upcoming.len(), 4);
    assert_eq!(upcoming[1].since(upcoming[0]), Span::from_secs(3600));
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_follows_the_policy_and_nothing_fires_twice() {
    for (missed, outcomes) in [
        ("all", vec!["fired 1"; 11]),
        ("latest", [vec!["fired 1"], vec!["merged 1"; 9], vec!["fired 1"]].concat()),
        ("skip", [vec!["fired 1"], vec!["skipped 1"; 9], vec!["fired 1"]].concat()),
        ("{ window: PT3M }", [vec!["fired 1"], vec!["skipped 1"; 7], vec!["fired 1"; 3]].concat()),
    ] {
        let world = World::new();
        let node = world.node().await;
        let source = format!(
            "document:\n  dsl: '1.0.3'\n  namespace: test\n  name: d\n  version: '1.0.0'\n  metadata: {{ windlass: {{ missed: {missed} }} }}\nschedule: {{ every: PT1M }}\n{NOTHING}"
        );
        node.handle.deploy(&node.tenant, source.as_bytes(), Format::Yaml, false).await.unwrap();
        pass(secs(61)).await;
        node.crash().await;
        pass(secs(10 * 60)).await;
        let node = world.build().sole().start().await;
        pass(secs(5)).await;
        assert_eq!(world.outcomes("d").await, outcomes, "{missed}");
        let fired = outcomes.iter().filter(|outcome| outcome.starts_with("fired")).count();
        assert_eq!(world.instances_of("d").await.len(), fired, "{missed}");
        node.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_around_the_commit_of_a_slot_neither_loses_nor_doubles_it() {
    for act in [Act::CrashBefore, Act::CrashAfter, Act::Lost, Act::Landed, Act::Unavailable] {
        let world = World::new();
        let node = world.node().await;
        node.deploy("d", &format!("schedule: {{ every: PT10S }}\n{NOTHING}")).await;
        node.tap.once(|commit| commit.writes.iter().any(|write| matches!(write, Write::Slot(_))), act);
        pass(secs(15)).await;
        let node = match act {
            Act::CrashBefore | Act::CrashAfter => world.build().sole().start().await,
            _ => node,
        };
        pass(secs(10)).await;
        assert_eq!(world.outcomes("d").await, ["fired 1"; 2], "{act:?}");
        assert_eq!(world.instances_of("d").await.len(), 2, "{act:?}");
        node.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_nodes_fire_a_slot_once() {
    let world = World::new();
    let (one, two) = (world.node().await, world.node().await);
    one.deploy("d", &format!("schedule: {{ every: PT10S }}\n{NOTHING}")).await;
    // The other node has looked and knows of the slots.
    pass(secs(205)).await;
    let fired = world.outcomes("d").await.len();
    assert_eq!(fired, 20);
    assert_eq!(world.instances_of("d").await.len(), fired);
    drop(two);
}

#[tokio::test(start_paused = true)]
async fn after_counts_from_the_end_of_the_instance_before() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", "schedule: { after: PT1M }\ndo: [ { rest: { wait: { seconds: 30 } } } ]").await;
    pass(secs(61)).await;
    assert_eq!(world.instances_of("d").await.len(), 1);
    assert_eq!(world.schedule("d").await.next_slot, None, "it waits for the end");
    pass(secs(30)).await;
    let next = world.schedule("d").await.next_slot.unwrap();
    let ended = world.instances_of("d").await[0].row.ended_at.unwrap();
    assert_eq!(next, ended.after(Span::from_secs(60)));
    pass(secs(300)).await;
    assert_eq!(world.instances_of("d").await.len(), 4, "one per 90 s");
    // An instance that somebody else started is nobody's predecessor.
    let next = world.schedule("d").await.next_slot.unwrap();
    let id = node.start("d", Value::Null).await;
    node.handle.order(&node.tenant, id, Order::Cancel, "ann").await.unwrap();
    assert_eq!(world.schedule("d").await.next_slot, Some(next));
    // One that ends in the very commit that starts it counts too.
    node.deploy("pure", &format!("schedule: {{ after: PT1M }}\n{NOTHING}")).await;
    pass(secs(301)).await;
    assert_eq!(world.instances_of("pure").await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn the_newest_version_decides() {
    let world = World::new();
    let node = world.node().await;
    deploy_version(&node, "d", "2.0.0", &format!("schedule: {{ every: PT1H }}\n{NOTHING}")).await;
    let first = world.schedule("d").await;
    deploy_version(&node, "d", "1.0.0", &format!("schedule: {{ every: PT5S }}\n{NOTHING}")).await;
    assert_eq!(world.schedule("d").await, first, "an older version changes nothing");
    pass(secs(60)).await;
    deploy_version(&node, "d", "2.1.0", &format!("schedule: {{ every: PT1H }}\n{NOTHING}")).await;
    let same = world.schedule("d").await;
    assert_eq!((same.version.as_str(), same.next_slot), ("2.1.0", first.next_slot), "the same goes on");
    deploy_version(&node, "d", "2.2.0", &format!("schedule: {{ every: PT30M }}\n{NOTHING}")).await;
    let other = world.schedule("d").await;
    assert_eq!(other.next_slot, Some(other.anchor.after(Span::from_secs(1800))));
    deploy_version(&node, "d", "3.0.0", NOTHING).await;
    let ended = world.schedule("d").await;
    assert_eq!((ended.status.as_str(), ended.due_at), ("ended", None));
    let refused = node.handle.trigger_schedule(&node.tenant, ended.id, "ann").await;
    assert!(matches!(refused, Err(Refusal::Conflict { code: "schedule-ended", .. })), "{refused:?}");
    pass(secs(7200)).await;
    assert!(world.instances_of("d").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_paused_schedule_fires_nothing_and_forgets_the_slots_of_the_pause() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", &format!("schedule: {{ every: PT10S }}\n{NOTHING}")).await;
    let id = world.schedule_id("d");
    let order = async |order| node.handle.order_schedule(&node.tenant, id, order, "ann").await.unwrap();
    pass(secs(11)).await;
    assert_eq!(order(ScheduleOrder::Pause).await.status, "paused");
    assert_eq!(order(ScheduleOrder::Pause).await.status, "paused");
    pass(secs(60)).await;
    assert_eq!(world.outcomes("d").await, ["fired 1"]);
    let instance = node.handle.trigger_schedule(&node.tenant, id, "ann").await.unwrap();
    node.output(instance).await;
    assert_eq!(world.outcomes("d").await, ["fired 1", "triggered 1"]);
    assert_eq!(order(ScheduleOrder::Resume).await.status, "active");
    pass(secs(10)).await;
    assert_eq!(world.outcomes("d").await, ["fired 1", "triggered 1", "fired 1"]);
    let nowhere =
        node.handle.order_schedule(&node.tenant, Uuid::from_u128(1), ScheduleOrder::Pause, "").await;
    assert!(matches!(nowhere, Err(Refusal::NotFound(_))));
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_schedules_of_the_same_second_all_fire() {
    let world = World::new();
    let node = world.node().await;
    for number in 0..300 {
        node.deploy(&format!("d{number}"), &format!("schedule: {{ cron: '* * * * *' }}\n{NOTHING}")).await;
    }
    pass(secs(61)).await;
    assert_eq!(world.counts().await.instances, [("completed".to_owned(), 300)]);
    let slots: Vec<Time> = world.slots("d299").await.iter().map(|slot| slot.slot).collect();
    assert_eq!(slots.len(), 1);
}
