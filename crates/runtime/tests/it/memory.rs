//! What a node keeps in memory goes away again.

use crate::support::*;
use serde_json::json;
use store::Write;
use trial::tap::Act;

#[tokio::test(start_paused = true)]
async fn instances_that_wait_or_ended_leave_nothing_in_memory() {
    let world = World::new();
    let node = world.build().worker(echo("w")).start().await;
    node.deploy(
        "waits",
        "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } }, { b: { wait: { hours: 1 } } } ]",
    )
    .await;
    node.deploy("ends", "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]").await;
    for n in 0..50 {
        node.start("waits", json!(n)).await;
        node.start("ends", json!(n)).await;
    }
    pass(secs(1)).await;
    assert_eq!(node.metric("windlass_instances_in_memory"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn callers_that_gave_up_waiting_leave_nothing_in_memory() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", "do: [ { a: { wait: { hours: 1 } } } ]").await;
    let mut ids = Vec::new();
    for n in 0..20 {
        ids.push(node.start("d", json!(n)).await);
    }
    let ask = |id| node.handle.result(&node.tenant, id, secs(500));
    {
        let mut asked: Vec<_> = ids.iter().map(|id| Box::pin(ask(*id))).collect();
        for question in &mut asked {
            assert!(futures_util::poll!(question.as_mut()).is_pending());
        }
        assert_eq!(node.metric("windlass_results_awaited"), 20.0);
    }
    assert_eq!(node.metric("windlass_results_awaited"), 0.0);
    ask(ids[0]).await.unwrap();
    assert_eq!(node.metric("windlass_results_awaited"), 0.0, "nor do those who waited in vain");
    node.end(ids[1]).await;
    assert_eq!(node.metric("windlass_results_awaited"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_state_kept_for_a_call_that_another_node_did_is_forgotten() {
    let world = World::new();
    let gate = Gate::new();
    // The first node has no room for calls of its own: they are backlog, and the other node takes them.
    let build =
        world.build().worker(gate.worker("w")).options(|options| options.calls_queued_per_tenant_max = 1);
    let first = build.start().await;
    first.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]").await;
    let mut ids = Vec::new();
    for n in 0..20 {
        ids.push(first.start("d", json!(n)).await);
    }
    let second = world.build().worker(echo("w")).start().await;
    for id in &ids[1..] {
        second.output(*id).await;
    }
    pass(secs(120)).await;
    assert!(first.metric("windlass_instances_in_memory") <= 1.0);
    gate.open.add_permits(1);
    first.output(ids[0]).await;
}

#[tokio::test(start_paused = true)]
async fn a_line_of_work_for_one_instance_ends_when_it_is_done() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", "do: [ { a: { listen: { to: { one: { with: { type: go } } } } } } ]").await;
    let id = node.start("d", json!({})).await;
    let consumes = |commit: &store::Commit| {
        commit.writes.iter().any(|write| matches!(write, Write::ConsumeSignal { .. }))
    };
    node.tap.once(consumes, Act::Unavailable);
    let sent = (0..20).map(|n| node.signal(id, "other", json!(n)));
    futures_util::future::join_all(sent).await;
    until(|| async { world.count(id, "signal.buffered").await == 20 }).await;
    pass(secs(1)).await;
    assert_eq!(node.metric("windlass_instances_in_memory"), 0.0);
}
