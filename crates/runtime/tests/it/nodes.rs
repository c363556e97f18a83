//! B27, B28, C14, P7: many nodes over one store: at least once delivered, once effective, a zombie changes nothing.

use crate::{deliveries, support::*};
use machine::Data;
use runtime::api::{InstanceResult, TaskAct};
use serde_json::json;
use std::sync::Arc;
use store::{Write, rows::*};
use tokio::sync::Barrier;
use uuid::Uuid;

const LISTEN: &str = "do: [ { a: { listen: { to: { one: { with: { type: go } } } } } }, { b: { listen: { to: { one: { with: { type: go } } } } } } ]";

#[tokio::test(start_paused = true)]
async fn the_same_signal_told_to_many_nodes_moves_the_instance_once() {
    let world = World::new();
    let mut nodes = Vec::new();
    for _ in 0..4 {
        nodes.push(world.node().await);
    }
    nodes[0].deploy("d", LISTEN).await;
    let id = nodes[0].start("d", json!({})).await;
    let signal = Uuid::from_u128(6);
    let send = |node: &Up| {
        let (handle, tenant) = (node.handle.clone(), node.tenant.clone());
        async move { handle.signal(&tenant, id, signal_of("go", json!(1), Some(signal))).await }
    };
    let answers = futures_util::future::join_all(nodes.iter().map(send)).await;
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|id| *id == signal)), "{answers:?}");
    pass(secs(60)).await;
    assert_eq!(world.view(id).await.state_version, 2, "once");
    assert_eq!(world.count(id, "signal.received").await, 1);
    let row = world.view(id).await;
    assert_eq!((row.row.status.as_str(), world.counts().await.signals), ("waiting", 0));
    // Any node serves it later.
    nodes[3].signal(id, "go", json!(2)).await;
    nodes[1].output(id).await;
}

#[tokio::test(start_paused = true)]
async fn a_task_completed_on_two_nodes_at_once_completes_once() {
    let world = World::new();
    let (first, second) = (world.node().await, world.node().await);
    first.deploy("d", "do: [ { a: { call: 'human-task:1.0.0@default', with: { title: T } } } ]").await;
    for n in 0..20 {
        let id = first.start("d", json!(n)).await;
        let task = world.tasks(id).await[0].id;
        let act = |node: &Up, who: i64| {
            let (handle, tenant) = (node.handle.clone(), node.tenant.clone());
            let act = TaskAct::Complete { result: Data::int(who) };
            async move { handle.act_on_task(&tenant, task, act, "ann", None).await }
        };
        let (one, two) = tokio::join!(act(&first, 1), act(&second, 2));
        assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
        let winner = if one.is_ok() { 1 } else { 2 };
        assert_eq!(first.output(id).await, json!(winner));
        assert_eq!(world.view(id).await.state_version, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn when_a_node_dies_the_others_take_its_work_after_its_lease_and_go_on_meanwhile() {
    let world = World::new();
    let gate = Gate::new();
    let dying = world.build().worker(gate.worker("w")).start().await;
    let survivor = world.build().worker(echo("w")).start().await;
    dying.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]").await;
    let mut ids = Vec::new();
    for n in 0..10 {
        ids.push(dying.start("d", json!(n)).await);
    }
    pass(secs(1)).await;
    dying.crash().await;
    let quick = survivor.start("d", json!("quick")).await;
    assert_eq!(survivor.output(quick).await, json!("quick"), "throughput continues");
    for (n, id) in ids.into_iter().enumerate() {
        assert_eq!(survivor.output(id).await, json!(n));
    }
    let lasted = world.now().0 - EPOCH;
    assert!((10_000_000..30_000_000).contains(&lasted), "about the lease and a third: {lasted}");
}

#[tokio::test(start_paused = true)]
async fn events_that_a_dead_node_was_handling_are_handled_after_its_lease_also_without_hints() {
    struct Stuck;
    #[worker::async_trait]
    impl worker::Handler for Stuck {
        async fn handle(&self, _: &[worker::Delivery]) -> Vec<worker::Handled> {
            std::future::pending().await
        }
    }
    let world = World::new();
    let deaf = || Arc::new(store::NoHints);
    let stuck = worker::Declaration::on("mail", ["order"], Stuck);
    let dying = world.build().worker(stuck).hints(deaf()).start().await;
    let (mail, calls) = deliveries::noting(&world, "mail", &["order"], |_| worker::Handled::done());
    let survivor = world.build().worker(mail).hints(deaf()).start().await;
    deliveries::publish_all(&dying, deliveries::events("order", 0..10)).await;
    pass(secs(1)).await;
    dying.crash().await;
    deliveries::settled(&world).await;
    assert_eq!(deliveries::handled(&calls), (0..10).collect::<Vec<_>>());
    let lasted = world.now().0 - EPOCH;
    assert!((10_000_000..30_000_000).contains(&lasted), "about the lease and a third: {lasted}");
    survivor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_taken_over_changes_nothing_and_says_so() {
    let world = World::new();
    let gate = Gate::new();
    let zombie = world.build().worker(gate.worker("w")).start().await;
    zombie.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]").await;
    let id = zombie.start("d", json!(1)).await;
    pass(secs(1)).await;
    // Its lease is not renewed for a while: everything it says gets lost.
    zombie.tap.break_down("renew");
    let next = world.build().worker(echo("w")).start().await;
    assert_eq!(next.output(id).await, json!(1));
    let version = world.view(id).await.state_version;
    gate.open.add_permits(1);
    zombie.node.fenced().await;
    assert_eq!(world.view(id).await.state_version, version);
    assert!(!zombie.handle.is_ready());
    let refused = zombie.handle.start(&zombie.tenant, start_of("d", json!(2))).await;
    assert!(matches!(refused, Err(runtime::api::Refusal::Unavailable(_))), "{refused:?}");
    next.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_result_asked_of_a_node_that_did_not_end_it_is_the_stored_one() {
    let world = World::new();
    let (asked, other) = (world.node().await, world.node().await);
    asked.deploy("d", "do: [ { hear: { listen: { to: { one: { with: { type: go } } } } } } ]").await;
    let id = asked.start("d", json!({})).await;
    let (result, ()) = tokio::join!(asked.handle.result(&asked.tenant, id, secs(10)), async {
        pass(secs(1)).await;
        other.signal(id, "go", json!(1)).await;
    });
    assert_eq!(result.unwrap(), InstanceResult::Completed(Data::from_json(json!([1]))));
}

#[tokio::test(start_paused = true)]
async fn the_row_of_a_signal_is_the_cause_and_two_nodes_that_hold_it_apply_it_once() {
    let world = World::new();
    let (first, second) = (world.node().await, world.node().await);
    first.deploy("d", LISTEN).await;
    let id = first.start("d", json!({})).await;
    let envelope = json!({
        "signalId": Uuid::from_u128(8), "workflowInstanceId": id, "runtimeProvider": "windlass",
        "signalType": "ExternalSignal", "expectedVersion": 1,
        "payload": { "event": { "type": "go", "data": 1 } },
    });
    let now = world.now();
    let row = SignalRow {
        id: Uuid::from_u128(8),
        instance: id,
        signal_type: "ExternalSignal".to_owned(),
        envelope: serde_json::to_vec(&envelope).unwrap(),
        created_at: now,
        visible_at: now,
        attempt: 0,
        owner: None,
        taken_over: 0,
    };
    world.write(vec![Write::Signal(row.clone())]).await;
    // Both nodes are handed the row at the same moment.
    let together = Arc::new(Barrier::new(2));
    let claimed = Claimed { tenant: world.tenant.clone(), row };
    first.tap.hand_out(claimed.clone(), together.clone());
    second.tap.hand_out(claimed, together);
    until(|| async { world.view(id).await.state_version == 2 }).await;
    pass(secs(120)).await;
    assert_eq!((world.view(id).await.state_version, world.counts().await.signals), (2, 0));
    let stale = first.metric("windlass_stale_total") + second.metric("windlass_stale_total");
    assert!(stale >= 1.0, "the other came too late");
}

#[tokio::test(start_paused = true)]
async fn a_take_over_that_takes_long_is_done_once_and_holds_up_no_renewal() {
    let world = World::new();
    let (lost, node) = (world.node().await, world.node().await);
    node.tap.stall("take_over");
    lost.crash().await;
    pass(secs(30)).await;
    node.tap.take_counts();
    pass(secs(300)).await;
    let counts = node.tap.take_counts();
    assert!((58..=62).contains(&counts["renew"]), "every third of 15 s: {counts:?}");
    assert!(!counts.contains_key("take_over"), "the first one is still under way: {counts:?}");
    assert!(node.handle.is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_told_what_is_due_is_not_ready() {
    let world = World::new();
    let node = world.node().await;
    pass(secs(1)).await;
    assert!(node.handle.is_ready());
    node.tap.stall("outlook");
    // The next re-scan comes within 36 s; a lease is 15 s.
    pass(secs(60)).await;
    assert!(!node.handle.is_ready());
}
