//! A graceful stop: what is in flight finishes, the rest is given back at once, no attempt is burnt.

use crate::support::*;
use machine::{Data, Fault, TenantId, expr::Evaluation, time::Span};
use runtime::{api::Refusal, engine::Evaluate, sandbox::NotRun};
use serde_json::json;
use uuid::Uuid;

const TWO: &str = "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } }, { b: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]";

/// Calls nobody owns.
async fn backlog(world: &World) -> Vec<store::rows::CallRow> {
    let outsider = Uuid::from_u128(9);
    world.store.join(outsider, world.now(), 1_000_000_000).await.unwrap();
    let later = world.now().after(Span::from_secs(3600));
    let rows = world.store.claim_calls(outsider, later, 100, &[]).await.unwrap();
    world.store.leave(outsider).await.unwrap();
    rows.into_iter().map(|claimed| claimed.row).collect()
}

#[tokio::test(start_paused = true)]
async fn a_call_in_flight_finishes_and_its_result_is_committed_before_the_node_leaves() {
    let world = World::new();
    let gate = Gate::new();
    let node = world.build().worker(gate.worker("w")).start().await;
    node.deploy("d", TWO).await;
    let id = node.start("d", json!(1)).await;
    until(|| async { gate.begun() == 1 }).await;
    let (tenant, handle) = (node.tenant.clone(), node.handle.clone());
    let ((), refused) = tokio::join!(node.stop(), async {
        pass(secs(1)).await;
        let refused = handle.start(&tenant, start_of("d", json!(2))).await;
        gate.open.add_permits(1);
        refused
    });
    assert!(matches!(refused, Err(Refusal::Unavailable(_))), "nothing new is taken: {refused:?}");
    assert_eq!(world.view(id).await.state_version, 2, "the first call's result is durable");
    assert_eq!(gate.begun(), 1, "the second call is not begun");
    let rows = backlog(&world).await;
    assert_eq!(rows.len(), 1, "it is backlog");
    assert_eq!((rows[0].attempt, rows[0].owner.is_some()), (1, true));
    let next = world.build().worker(gate.worker("w")).start().await;
    gate.open.add_permits(1);
    next.output(id).await;
    assert_eq!(gate.begun(), 2, "no call is made twice");
}

#[tokio::test(start_paused = true)]
async fn what_is_queued_is_given_back_with_no_attempt_burnt() {
    let world = World::new();
    let gate = Gate::new();
    let node = world.build().worker(gate.worker("w").concurrency_max(1)).start().await;
    node.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]").await;
    let mut ids = Vec::new();
    for n in 0..10 {
        ids.push(node.start("d", json!(n)).await);
    }
    until(|| async { gate.begun() == 1 }).await;
    gate.open.add_permits(1);
    node.stop().await;
    let rows = backlog(&world).await;
    assert_eq!((rows.len(), rows.iter().all(|row| row.attempt == 1)), (9, true));
    let next = world.build().worker(echo("w")).start().await;
    for id in ids {
        next.output(id).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_finish_within_the_grace_time_is_done_again_elsewhere() {
    let world = World::new();
    let gate = Gate::new();
    let node = world.build().worker(gate.worker("w")).start().await;
    node.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]").await;
    let id = node.start("d", json!(1)).await;
    until(|| async { gate.begun() == 1 }).await;
    let before = world.now();
    node.stop().await;
    let took = world.now().since(before);
    assert!(took >= Span::from_secs(10) && took < Span::from_secs(11), "{took:?}");
    let next = world.build().worker(echo("w")).start().await;
    next.output(id).await;
    let version = world.view(id).await.state_version;
    gate.open.add_permits(1);
    pass(secs(1)).await;
    assert_eq!(world.view(id).await.state_version, version, "the old node's late answer changes nothing");
}

#[tokio::test(start_paused = true)]
async fn an_idle_node_stops_at_once_and_leaves_no_lease() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", "do: [ { a: { wait: { seconds: 5 } } } ]").await;
    let id = node.start("d", json!(1)).await;
    let before = world.now();
    let handle = node.handle.clone();
    node.stop().await;
    assert!(world.now().since(before) < Span::from_millis(50));
    assert!(!handle.is_ready());
    let next = world.node().await;
    next.output(id).await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_in_an_endless_pure_loop_does_not_hold_up_the_stop() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", "do: [ { a: { set: { x: 1 } } }, { b: { set: { x: 2 }, then: a } } ]").await;
    let id = node.start("d", json!({})).await;
    // It is never idle, so virtual time stands still.
    while world.view(id).await.state_version < 5 {
        tokio::task::yield_now().await;
    }
    node.stop().await;
    assert_eq!(world.counts().await.signals, 1, "its next turn is backlog");
    assert_eq!(world.status(id).await, "running");
}

/// A sandbox as it should be, one that has no room for anybody, or one that never comes to an end.
enum Sandbox {
    Open,
    Full,
    Busy,
}

#[async_trait::async_trait]
impl Evaluate for Sandbox {
    async fn evaluate(&self, _: &TenantId, evaluation: Evaluation) -> Result<Result<Data, Fault>, NotRun> {
        match self {
            Sandbox::Open => Ok(evaluation.run()),
            Sandbox::Full => Err(NotRun("no room".to_owned())),
            Sandbox::Busy => std::future::pending().await,
        }
    }
}

/// Only the sandbox may evaluate it.
const UNBOUNDED: &str = "[limit(2; repeat(1))] | add";

#[tokio::test(start_paused = true)]
async fn what_waits_for_the_sandbox_is_left_to_the_next_node_undecided() {
    let world = World::new();
    let node = world.build().evaluator(Sandbox::Full).start().await;
    let compute = format!("compute: {{ set: {{ x: '${{ {UNBOUNDED} }}' }} }}");
    node.deploy("child", &format!("do: [ {{ {compute} }} ]")).await;
    let run = "run: { workflow: { namespace: test, name: child, version: '1.0.0' } }";
    node.deploy("parent", &format!("do: [ {{ child: {{ {run} }} }} ]")).await;
    node.deploy("later", &format!("do: [ {{ nap: {{ wait: PT1S }} }}, {{ {compute} }} ]")).await;
    let filter =
        format!("schedule: {{ on: {{ one: {{ with: {{ type: t, data: '${{ {UNBOUNDED} > 0 }}' }} }} }} }}");
    node.deploy("reacts", &format!("{filter}\ndo: [ {{ s: {{ set: {{ x: 1 }} }} }} ]")).await;
    let (parent, later) = (node.start("parent", json!({})).await, node.start("later", json!({})).await);
    pass(secs(2)).await;
    let (tenant, handle) = (node.tenant.clone(), node.handle.clone());
    let event = Data::parse(br#"{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{}}"#).unwrap();
    let ((), refused, published) = tokio::join!(
        async {
            pass(secs(2)).await;
            node.stop().await;
        },
        handle.start(&tenant, start_of("child", json!({}))),
        handle.publish(&tenant, event),
    );
    assert!(matches!(refused, Err(Refusal::Unavailable(_))), "{refused:?}");
    assert!(
        matches!(published, Err(Refusal::Unavailable(_))),
        "no event without what it starts: {published:?}"
    );
    let next = world.build().evaluator(Sandbox::Open).start().await;
    assert_eq!(next.output(parent).await, json!({ "x": 2 }));
    assert_eq!(next.output(later).await, json!({ "x": 2 }));
}

/// Requests are let out before the node stops, and would otherwise wait for the sandbox until their time is over.
#[tokio::test(start_paused = true)]
async fn who_waits_for_the_sandbox_hears_of_a_stop_before_it_comes() {
    let world = World::new();
    let node = world.build().evaluator(Sandbox::Busy).start().await;
    node.deploy("computes", &format!("do: [ {{ c: {{ set: {{ x: '${{ {UNBOUNDED} }}' }} }} }} ]")).await;
    node.deploy("plain", "do: [ { s: { set: { x: 1 } } } ]").await;
    let started = node.handle.start(&node.tenant, start_of("computes", json!({})));
    let (refused, ()) = tokio::join!(started, async {
        pass(secs(2)).await;
        node.node.leaving();
    });
    assert!(matches!(refused, Err(Refusal::Unavailable(_))), "{refused:?}");
    let plain = node.start("plain", json!({})).await;
    assert_eq!(node.output(plain).await, json!({ "x": 1 }), "everything else goes on");
    node.stop().await;
}
