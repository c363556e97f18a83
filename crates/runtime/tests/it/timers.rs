//! B25, B26, A12–A14, C01, P8: timers fire once, never early, and need nobody's notification.

use crate::support::*;
use async_trait::async_trait;
use machine::{Time, command::SignalEnvelope, id, time::Span};
use runtime::{api::Order, clock::Clock};
use serde_json::json;
use std::sync::Arc;
use store::{Write, rows::TimerRow};
use uuid::Uuid;

const REST: &str = "do: [ { rest: { wait: { seconds: 45 } } }, { after: { set: { x: 1 } } } ]";

#[tokio::test(start_paused = true)]
async fn a_wait_is_suspended_on_disk_with_its_due_time_before_anything_else_happens() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", REST).await;
    let id = node.start("d", json!({})).await;
    let view = world.view(id).await;
    assert_eq!(view.runtime_status, "Suspended");
    assert_eq!(view.row.status, "waiting", "the business status stays open");
    assert_eq!(world.snapshot(id).await["status"], "Open");
    assert_eq!(view.waiting_until, Some(Time(view.row.created_at.0 + 45_000_000)));
    assert_eq!(node.metric("windlass_instances_in_memory"), 0.0, "it costs no memory");
}

#[tokio::test(start_paused = true)]
async fn timers_fire_at_or_after_their_time_and_soon_after() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", "do: [ { rest: { wait: '${ .span }' } } ]").await;
    let mut ids = Vec::new();
    for milliseconds in [1, 7, 999, 1000, 1001, 59_999, 3_600_000] {
        let span = format!("PT{}.{:03}S", milliseconds / 1000, milliseconds % 1000);
        ids.push((node.start("d", json!({ "span": span })).await, milliseconds));
    }
    for (id, milliseconds) in ids {
        node.output(id).await;
        let row = world.view(id).await.row;
        let lasted = row.ended_at.unwrap().since(row.created_at).0;
        assert!(lasted >= milliseconds * 1000, "{milliseconds} ms lasted {lasted} µs");
        assert!(lasted <= milliseconds * 1000 + 50_000, "{milliseconds} ms lasted {lasted} µs");
    }
}

/// A clock that heard the time late and knows by how much at most.
struct Behind {
    right: Arc<dyn Clock>,
    by: Span,
}

#[async_trait]
impl Clock for Behind {
    fn now(&self) -> Time {
        Time(self.right.now().0 - self.by.0)
    }
    async fn sleep_until(&self, time: Time) {
        self.right.sleep_until(time.after(self.by)).await;
    }
    fn steady_micros(&self) -> u64 {
        self.right.steady_micros()
    }
    fn doubt(&self) -> Span {
        self.by
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_of_a_node_whose_clock_is_behind_is_not_early_on_another() {
    let world = World::new();
    let by = Span::from_secs(3);
    let late = World::over(world.store.clone(), Arc::new(Behind { right: world.clock.clone(), by }));
    let (behind, right) = (late.node().await, world.node().await);
    behind.deploy("d", REST).await;
    let began = world.now();
    let id = behind.start("d", json!({})).await;
    behind.crash().await;
    right.output(id).await;
    let lasted = world.now().since(began);
    assert!(lasted >= Span::from_secs(45), "{lasted:?}");
}

#[tokio::test(start_paused = true)]
async fn with_the_rescan_off_timers_still_fire() {
    let world = World::new();
    let node = world.build().options(|options| options.rescan = None).start().await;
    node.deploy("d", REST).await;
    let id = node.start("d", json!({})).await;
    node.output(id).await;
    assert!(world.now().0 < EPOCH + 46_000_000);
}

#[tokio::test(start_paused = true)]
async fn a_due_row_nobody_announced_is_found_within_half_a_minute() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", "do: [ { hear: { listen: { to: { one: { with: { type: go } } } } } } ]").await;
    let id = node.start("d", json!({})).await;
    pass(secs(100)).await;
    let before = world.now();
    let envelope = json!({
        "signalId": Uuid::from_u128(3), "workflowInstanceId": id, "runtimeProvider": "windlass",
        "signalType": "ExternalSignal", "expectedVersion": 1,
        "payload": { "event": { "type": "go", "data": 1 } },
    });
    let row = store::rows::SignalRow {
        id: Uuid::from_u128(3),
        instance: id,
        signal_type: "ExternalSignal".to_owned(),
        envelope: serde_json::to_vec(&envelope).unwrap(),
        created_at: before,
        visible_at: before,
        attempt: 0,
        owner: None,
        taken_over: 0,
    };
    world.write(vec![Write::Signal(row)]).await;
    node.output(id).await;
    assert!(world.now().since(before) <= Span::from_secs(36), "30 s and its jitter");
}

#[tokio::test(start_paused = true)]
async fn a_timer_row_behind_the_nodes_back_is_found_not_before_it_is_due() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", "do: [ { rest: { wait: { days: 9 } } } ]").await;
    let id = node.start("d", json!({})).await;
    let token: u64 = world.view(id).await.waiting_token.unwrap().parse().unwrap();
    world.write(vec![Write::DropTimer { instance: id, token }]).await;
    pass(secs(600)).await;
    assert_eq!(world.view(id).await.state_version, 1);
    let due_at = world.now().after(Span::from_secs(40));
    let row = TimerRow {
        instance: id,
        token,
        due_at,
        envelope: b"{}".to_vec(),
        attempt: 0,
        owner: None,
        taken_over: 0,
    };
    world.write(vec![Write::Timer(row)]).await;
    node.output(id).await;
    let ended = world.view(id).await.row.ended_at.unwrap();
    assert!(ended >= due_at && ended.since(due_at) <= Span::from_secs(36));
}

#[tokio::test(start_paused = true)]
async fn a_timer_with_a_strangers_token_changes_nothing_and_is_counted_as_stale() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", "do: [ { rest: { wait: { days: 9 } } } ]").await;
    let id = node.start("d", json!({})).await;
    let due_at = world.now();
    let row = TimerRow {
        instance: id,
        token: 4711,
        due_at,
        envelope: b"{}".to_vec(),
        attempt: 0,
        owner: None,
        taken_over: 0,
    };
    world.write(vec![Write::Timer(row)]).await;
    until(|| async { world.counts().await.timers == 1 }).await;
    assert_eq!(world.view(id).await.state_version, 1);
    assert_eq!(node.metric("windlass_stale_total"), 1.0);
    assert!(world.letters().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_timer_of_a_wait_that_ended_another_way_never_ends_a_newer_one() {
    let world = World::new();
    let node = world.node().await;
    node.deploy(
        "d",
        "do:
- a:
    try: [ { ask: { listen: { to: { one: { with: { type: go } } } }, timeout: { after: { seconds: 10 } } } } ]
    catch: {}
- b: { wait: { seconds: 30 } }
",
    )
    .await;
    let id = node.start("d", json!({})).await;
    let outsider = Uuid::from_u128(9);
    world.store.join(outsider, world.now(), 1_000_000_000).await.unwrap();
    let later = world.now().after(Span::from_secs(10));
    let old = world.store.claim_timers(outsider, later, 9).await.unwrap().remove(0).row;
    node.signal(id, "go", json!(1)).await;
    until(|| async { world.view(id).await.waiting_kind.as_deref() == Some("Timer") }).await;
    // The queue delivers the old timer again, as a slow node might.
    world.write(vec![Write::Timer(TimerRow { owner: None, ..old })]).await;
    node.output(id).await;
    let row = world.view(id).await.row;
    assert!(row.ended_at.unwrap().since(row.created_at) >= Span::from_secs(30));
    assert_eq!(world.count(id, "step.completed").await, 3);
}

#[tokio::test(start_paused = true)]
async fn rescheduling_three_times_resumes_once_at_the_last_time() {
    let world = World::new();
    let node = world.node().await;
    let limited = |n: u32| {
        format!(
            "- s{n}: {{ try: [ {{ w{n}: {{ listen: {{ to: {{ one: {{ with: {{ type: move }} }} }} }}, timeout: {{ after: {{ seconds: 20 }} }} }} }} ], catch: {{}} }}\n"
        )
    };
    node.deploy(
        "d",
        &format!("do:\n{}{}{}{}", limited(0), limited(1), limited(2), "- last: { wait: { seconds: 20 } }"),
    )
    .await;
    let id = node.start("d", json!({})).await;
    for _ in 0..3 {
        pass(secs(5)).await;
        node.signal(id, "move", json!(0)).await;
    }
    node.output(id).await;
    let row = world.view(id).await.row;
    let lasted = row.ended_at.unwrap().since(row.created_at);
    assert!(lasted >= Span::from_secs(35) && lasted < Span::from_secs(36), "{lasted:?}");
    until(|| async { world.counts().await.timers == 0 }).await;
}

#[tokio::test(start_paused = true)]
async fn two_nodes_on_the_same_due_row_resume_it_once() {
    let world = World::new();
    let (first, second) = (world.node().await, world.node().await);
    first.deploy("d", REST).await;
    let mut ids = Vec::new();
    for n in 0..50 {
        let node = if n % 2 == 0 { &first } else { &second };
        ids.push(node.start("d", json!(n)).await);
    }
    for id in ids {
        first.output(id).await;
        assert_eq!(world.view(id).await.state_version, 2);
        assert_eq!(world.count(id, "step.completed").await, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_look_ahead_delays_timers_by_moments_only() {
    let world = World::new();
    let node = world.build().options(|options| options.rescan = None).start().await;
    node.deploy("d", "do: [ { a: { wait: { seconds: 1 } } }, { b: { wait: { seconds: 1 } } } ]").await;
    let id = node.start("d", json!({})).await;
    let other = node.start("d", json!({})).await;
    node.tap.break_down("next_due");
    pass(secs(10)).await;
    node.tap.repair();
    node.output(id).await;
    node.output(other).await;
    assert!(world.now().0 < EPOCH + 14_000_000);
}

#[tokio::test(start_paused = true)]
async fn the_timers_envelope_names_its_wait() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", REST).await;
    let id = node.start("d", json!({})).await;
    let outsider = Uuid::from_u128(9);
    world.store.join(outsider, world.now(), 1_000_000_000).await.unwrap();
    let later = world.now().after(Span::from_secs(60));
    let row = world.store.claim_timers(outsider, later, 9).await.unwrap().remove(0).row;
    let envelope: SignalEnvelope = serde_json::from_slice(&row.envelope).unwrap();
    assert_eq!(envelope.waiting_token, world.view(id).await.waiting_token);
    assert_eq!((envelope.signal_id, envelope.expected_version), (id::derive(id, row.token), 1));
    node.handle.order(&node.tenant, id, Order::Cancel, "op").await.unwrap();
    assert_eq!(world.counts().await.timers, 0);
}
