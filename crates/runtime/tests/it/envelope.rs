//! B17, B18, B19: the signal envelope: what it holds, what it must hold, and every signal type.

use crate::support::*;
use machine::command::{ENVELOPE_MAX, SignalEnvelope, SignalType};
use serde_json::{Value, json};
use store::{Write, rows::*};
use uuid::Uuid;

const LISTEN: &str = "do: [ { hear: { listen: { to: { one: { with: { type: go } } } } } } ]";

/// An envelope with every required member.
fn envelope(instance: Uuid, signal_type: &str) -> Value {
    json!({
        "signalId": Uuid::from_u128(5),
        "workflowInstanceId": instance,
        "runtimeProvider": "windlass",
        "signalType": signal_type,
        "expectedVersion": 1,
    })
}

fn row(world: &World, instance: Uuid, envelope: &[u8]) -> SignalRow {
    SignalRow {
        id: Uuid::from_u128(5),
        instance,
        signal_type: "whatever".to_owned(),
        envelope: envelope.to_vec(),
        created_at: world.now(),
        visible_at: world.now(),
        attempt: 0,
        owner: None,
        taken_over: 0,
    }
}

/// Puts the envelope into the queue behind the node's back.
async fn send(world: &World, instance: Uuid, envelope: &Value) {
    let row = row(world, instance, &serde_json::to_vec(envelope).unwrap());
    world.write(vec![Write::Signal(row)]).await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_required_member_makes_a_dead_letter_with_reason_deserialization() {
    for member in ["signalId", "workflowInstanceId", "runtimeProvider", "signalType", "expectedVersion"] {
        let world = World::new();
        let node = world.node().await;
        node.deploy("d", LISTEN).await;
        let id = node.start("d", json!({})).await;
        let mut envelope = envelope(id, "ExternalSignal");
        envelope.as_object_mut().unwrap().remove(member);
        send(&world, id, &envelope).await;
        let letter = world.letter().await;
        assert_eq!(
            (letter.source.as_str(), letter.reason.as_str()),
            ("signal", "deserialization"),
            "{member}"
        );
        assert!(letter.detail.contains(member), "{}", letter.detail);
        assert_eq!(letter.envelope, serde_json::to_vec(&envelope).unwrap(), "byte for byte");
        assert_eq!((letter.last_node, letter.instance), (node.node.id(), Some(id)));
        assert_eq!((world.counts().await.signals, world.view(id).await.state_version), (0, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn optional_members_may_be_missing() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", LISTEN).await;
    let id = node.start("d", json!({})).await;
    let mut envelope = envelope(id, "ExternalSignal");
    envelope["payload"] = json!({ "event": { "type": "go", "data": 3 } });
    send(&world, id, &envelope).await;
    assert_eq!(node.output(id).await, json!([3]));
}

#[tokio::test(start_paused = true)]
async fn what_is_no_envelope_at_all_is_a_dead_letter() {
    let bad: [&[u8]; 5] = [b"", b"{", b"\xff\xfe", b"[]", b"{\"signalType\":7}"];
    for bytes in bad {
        let world = World::new();
        let node = world.node().await;
        node.deploy("d", LISTEN).await;
        let id = node.start("d", json!({})).await;
        world.write(vec![Write::Signal(row(&world, id, bytes))]).await;
        let letter = world.letter().await;
        assert_eq!(letter.reason, "deserialization");
        assert_eq!(letter.envelope, bytes);
    }
}

#[tokio::test(start_paused = true)]
async fn a_type_that_only_a_newer_build_may_know_is_left_to_it_for_an_hour_and_is_a_dead_letter_then() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", LISTEN).await;
    let id = node.start("d", json!({})).await;
    send(&world, id, &envelope(id, "Nonsense")).await;
    pass(secs(3500)).await;
    assert!(world.letters().await.is_empty());
    pass(secs(200)).await;
    assert!(world.letter().await.detail.contains("Nonsense"));
}

#[tokio::test(start_paused = true)]
async fn an_external_signal_is_an_event_to_listen_steps() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", LISTEN).await;
    let id = node.start("d", json!({})).await;
    node.signal(id, "go", json!({ "x": 1 })).await;
    assert_eq!(node.output(id).await, json!([{ "x": 1 }]));
}

#[tokio::test(start_paused = true)]
async fn a_task_completed_signal_completes_the_task_step() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", "do: [ { ask: { call: 'human-task:1.0.0@default', with: { title: T } } } ]").await;
    let id = node.start("d", json!({})).await;
    let mut envelope = envelope(id, "TaskCompleted");
    envelope["waitingToken"] = json!(world.view(id).await.waiting_token);
    envelope["payload"] = json!({ "result": { "ok": true } });
    send(&world, id, &envelope).await;
    assert_eq!(node.output(id).await, json!({ "ok": true }));
}

#[tokio::test(start_paused = true)]
async fn timer_due_and_retry_due_signals_resume_their_wait_and_a_stranger_token_does_not() {
    let definitions = [
        ("TimerDue", "do: [ { rest: { wait: { hours: 9 } } } ]"),
        (
            "RetryDue",
            "do:
- t:
    try: [ { bad: { raise: { error: { type: 'https://x/y', status: 500 } } } } ]
    catch: { retry: { delay: { hours: 9 }, limit: { attempt: { count: 1 } } } }",
        ),
    ];
    for (signal_type, definition) in definitions {
        let world = World::new();
        let node = world.node().await;
        node.deploy("d", definition).await;
        let id = node.start("d", json!({})).await;
        let token: u64 = world.view(id).await.waiting_token.unwrap().parse().unwrap();
        let mut envelope = envelope(id, signal_type);
        envelope["waitingToken"] = json!((token + 1).to_string());
        send(&world, id, &envelope).await;
        until(|| async { world.counts().await.signals == 0 }).await;
        assert_eq!(world.view(id).await.state_version, 1, "stale: nothing changes");
        envelope["waitingToken"] = json!(token.to_string());
        send(&world, id, &envelope).await;
        until(|| async { world.view(id).await.state_version > 1 }).await;
        assert!(world.now().0 < EPOCH + 3_600_000_000, "long before the timer row was due");
    }
}

#[tokio::test(start_paused = true)]
async fn an_internal_continue_goes_on_with_a_long_pure_stretch() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", "do: [ { loop: { for: { each: i, in: '${ [range(3000)] }' }, do: [ { a: { set: { n: '${ $i }' } } } ] } } ]")
        .await;
    let id = node.start("d", json!({})).await;
    assert_eq!(node.output(id).await, json!({ "n": 2999 }));
    assert!(world.view(id).await.state_version >= 3, "one turn does not hold the node");
}

#[tokio::test(start_paused = true)]
async fn a_sub_workflow_signal_is_a_dead_letter_while_no_sub_workflow_can_wait() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", LISTEN).await;
    let id = node.start("d", json!({})).await;
    send(&world, id, &envelope(id, "SubWorkflowCompleted")).await;
    assert_eq!(world.letter().await.reason, "deserialization");
}

#[tokio::test(start_paused = true)]
async fn the_envelope_is_small_holds_no_snapshot_and_reads_back_byte_for_byte() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", "do: [ { rest: { wait: { hours: 1 } } } ]").await;
    let mut start = start_of("d", json!({ "big": "x".repeat(200_000) }));
    start.traceparent = Some("00-t-01".to_owned());
    start.correlation_id = Some("corr".to_owned());
    let id = node.handle.start(&node.tenant, start).await.unwrap().id;
    let outsider = Uuid::from_u128(9);
    world.store.join(outsider, world.now(), 1_000_000_000).await.unwrap();
    let later = world.now().after(machine::time::Span::from_secs(7200));
    let timer = world.store.claim_timers(outsider, later, 1).await.unwrap().remove(0).row;
    assert!(timer.envelope.len() < 1024, "{} bytes", timer.envelope.len());
    let read: SignalEnvelope = serde_json::from_slice(&timer.envelope).unwrap();
    assert_eq!(serde_json::to_vec(&read).unwrap(), timer.envelope);
    assert_eq!((read.signal_type, read.workflow_instance_id), (SignalType::TimerDue, id));
    assert_eq!((read.trace_id.as_deref(), read.correlation_id.as_deref()), (Some("00-t-01"), Some("corr")));
    assert_eq!(read.due_at_utc, world.view(id).await.waiting_until.map(machine::Time::rfc3339));
    let json: Value = serde_json::from_slice(&timer.envelope).unwrap();
    assert!(json.get("workflowState").is_none() && json["payload"] == json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_signal_above_the_cap_is_refused_before_anything_is_stored() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", LISTEN).await;
    let id = node.start("d", json!({})).await;
    let signal = signal_of("go", json!("x".repeat(ENVELOPE_MAX)), None);
    let refused = node.handle.signal(&node.tenant, id, signal).await.unwrap_err();
    assert!(format!("{refused:?}").contains("signal-too-large"), "{refused:?}");
    assert_eq!((world.counts().await.signals, world.view(id).await.state_version), (0, 1));
    let fits = signal_of("go", json!("x".repeat(ENVELOPE_MAX - 1024)), None);
    node.handle.signal(&node.tenant, id, fits).await.unwrap();
    node.output(id).await;
}
