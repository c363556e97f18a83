//! B33, B34, P13: four causes, four reasons; what was given up is kept whole and can be put back once.

use crate::support::*;
use machine::{retry::RetryPolicy, time::Span};
use parking_lot::Mutex;
use runtime::api::{Order, Refusal};
use serde_json::json;
use std::sync::Arc;
use store::{Write, rows::*};
use trial::tap::Act;
use uuid::Uuid;
use worker::{Class, Outcome};

const LISTEN: &str = "do: [ { hear: { listen: { to: { one: { with: { type: go } } } } } } ]";

fn not_found(answer: Result<(), Refusal>) -> bool {
    matches!(answer, Err(Refusal::NotFound(_)))
}

#[tokio::test(start_paused = true)]
async fn a_missing_definition_is_a_reason_of_its_own_and_replay_works_once_it_is_deployed() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", LISTEN).await;
    let model = node.start("d", json!({})).await;
    // An instance of a definition that was never deployed here.
    let id = Uuid::from_u128(42);
    let (view, loaded) = (world.view(model).await, world.snapshot(model).await);
    let instance = InstanceRow { id, name: "gone".to_owned(), ..view.row.clone() };
    let state = StateRow {
        instance: id,
        expected_version: 0,
        state_version: 1,
        snapshot_schema_version: 1,
        runtime_status: view.runtime_status,
        waiting_kind: view.waiting_kind,
        waiting_token: view.waiting_token,
        waiting_until: None,
        active_task_id: None,
        resume_pointer_json: view.resume_pointer_json,
        last_signal_id: None,
        last_error_code: None,
        last_error_json: None,
        last_executed_by: node.node.id(),
        last_executed_on: world.now(),
        state_json: serde_json::to_vec(&loaded).unwrap(),
    };
    let history = HistoryRow { instance: id, version: 1, at: world.now(), events: b"[]".to_vec() };
    let create = Write::CreateInstance { instance: Box::new(instance), state: Box::new(state) };
    world.write(vec![create, Write::History(history)]).await;
    node.signal(id, "go", json!(7)).await;
    let letter = world.letter().await;
    assert_eq!(letter.reason, "definition-missing");
    assert!(letter.detail.contains("gone"), "{}", letter.detail);
    node.deploy("gone", LISTEN).await;
    node.handle.replay_dead_letter(&node.tenant, letter.id, "op").await.unwrap();
    assert_eq!(node.output(id).await, json!([7]));
    assert!(world.letters().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_signal_to_nobody_is_tried_with_growing_delays_then_kept_and_replayed_after_the_start() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", LISTEN).await;
    let id = Uuid::from_u128(43);
    let retries = Arc::new(Mutex::new(Vec::new()));
    let (noted, clock) = (retries.clone(), world.clock.clone());
    node.tap.on_commit(move |batch| {
        for write in batch.iter().flat_map(|commit| &commit.writes) {
            if let Write::RetrySignal { visible_at, attempt, .. } = write {
                noted.lock().push((*attempt, visible_at.since(clock.now())));
            }
        }
        Act::Pass
    });
    let before = world.now();
    node.signal(id, "go", json!(8)).await;
    let letter = world.letter().await;
    assert_eq!((letter.source.as_str(), letter.reason.as_str()), ("signal", "retries-exhausted"));
    assert_eq!((letter.instance, letter.last_node), (Some(id), node.node.id()));
    assert!(letter.failed_at > before && letter.failed_at <= world.now());
    assert_eq!(letter.attempts, 5);
    let policy =
        RetryPolicy { attempts_max: 6, base: Span::from_millis(200), factor: 3.0, cap: Span::from_secs(60) };
    for (attempt, delay) in retries.lock().iter() {
        let ceiling = policy.delay(*attempt, 1.0).unwrap();
        assert!(*delay <= ceiling && *delay >= Span(ceiling.0 / 2), "{attempt}: {delay:?} of {ceiling:?}");
    }
    let mut start = start_of("d", json!({}));
    start.id = Some(id);
    node.handle.start(&node.tenant, start).await.unwrap();
    node.handle.replay_dead_letter(&node.tenant, letter.id, "op").await.unwrap();
    assert_eq!(node.output(id).await, json!([8]));
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_call_keeps_its_envelope_and_replay_runs_the_faulted_step_again() {
    let world = World::new();
    let healed = Arc::new(Mutex::new(false));
    let state = healed.clone();
    let (declaration, seen) = recording(&world, "w", move |_, input| match *state.lock() {
        true => Outcome::Done(input),
        false => Outcome::retry("still down"),
    });
    let retry = RetryPolicy { attempts_max: 3, ..RetryPolicy::default() };
    let node = world.build().worker(declaration.retry(retry)).start().await;
    node.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { n: 1 } } } ]").await;
    let sent = Arc::new(Mutex::new(Vec::new()));
    let noted = sent.clone();
    node.tap.on_commit(move |batch| {
        for write in batch.iter().flat_map(|commit| &commit.writes) {
            if let Write::Call(row) = write {
                noted.lock().push(row.envelope.clone());
            }
        }
        Act::Pass
    });
    let id = node.start("d", json!({})).await;
    assert_eq!(node.fault(id).await.detail.as_deref(), Some("still down"));
    let letter = world.letter().await;
    assert_eq!(
        (letter.source.as_str(), letter.reason.as_str(), letter.attempts),
        ("call", "retries-exhausted", 3)
    );
    assert_eq!(letter.envelope, sent.lock()[0], "byte for byte");
    *healed.lock() = true;
    let replay = || node.handle.replay_dead_letter(&node.tenant, letter.id, "op");
    let (first, second) = tokio::join!(replay(), replay());
    assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
    assert!(not_found(first) || not_found(second));
    assert!(not_found(replay().await), "pressing again finds nothing");
    assert_eq!(node.output(id).await, json!({ "n": 1 }));
    let seen = seen.lock();
    assert_eq!(seen.len(), 4, "three attempts and one more: replaying twice acts once");
    assert!(seen.iter().all(|(context, _)| context.key == seen[0].0.key), "P5: one key");
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_call_is_a_dead_letter_and_replay_puts_back_the_same_bytes() {
    let world = World::new();
    let (declaration, seen) = recording(&world, "w", |_, input| Outcome::Done(input));
    let node = world.build().worker(declaration).start().await;
    node.deploy("d", LISTEN).await;
    let id = node.start("d", json!({})).await;
    let now = world.now();
    let row = CallRow {
        instance: id,
        token: world.view(id).await.waiting_token.unwrap().parse().unwrap(),
        target: "w".to_owned(),
        envelope: b"not a call".to_vec(),
        created_at: now,
        visible_at: now,
        attempt: 1,
        last_error: None,
        owner: None,
        taken_over: 0,
    };
    world.write(vec![Write::Call(row)]).await;
    for _ in 0..2 {
        let letter = world.letter().await;
        assert_eq!((letter.source.as_str(), letter.reason.as_str()), ("call", "deserialization"));
        assert_eq!(letter.envelope, b"not a call");
        node.handle.replay_dead_letter(&node.tenant, letter.id, "op").await.unwrap();
        until(|| async { world.counts().await.calls == 0 }).await;
    }
    let letter = world.letter().await;
    node.handle.order(&node.tenant, id, Order::Cancel, "op").await.unwrap();
    let refused = node.handle.replay_dead_letter(&node.tenant, letter.id, "op").await;
    assert!(matches!(refused, Err(Refusal::Conflict { code: "not-allowed-now", .. })), "{refused:?}");
    assert_eq!(world.letter().await.id, letter.id, "nothing is lost: it waits to be discarded");
    assert_eq!(world.counts().await.calls, 0, "a cancelled instance has no effect any more");
    assert!(seen.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn rows_the_store_refuses_for_good_become_a_dead_letter_and_others_go_on() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", "do: [ { rest: { wait: { seconds: 1 } } } ]").await;
    let bad = node.start("d", json!("bad")).await;
    let good = node.start("d", json!("good")).await;
    node.tap.on_commit(move |batch| {
        for commit in batch.iter_mut() {
            let is_bad = |write: &Write| matches!(write, Write::UpdateState(state) if state.instance == bad);
            if commit.writes.iter().any(is_bad) {
                let row = HistoryRow { instance: bad, version: 1, at: machine::Time(0), events: vec![] };
                commit.writes.push(Write::History(row));
            }
        }
        Act::Pass
    });
    node.output(good).await;
    let letter = world.letter().await;
    assert_eq!((letter.source.as_str(), letter.reason.as_str()), ("timer", "retries-exhausted"));
    assert_eq!(world.view(bad).await.state_version, 1);
    node.tap.on_commit(|_| Act::Pass);
    node.handle.replay_dead_letter(&node.tenant, letter.id, "op").await.unwrap();
    node.output(bad).await;
}

#[tokio::test(start_paused = true)]
async fn discarding_removes_the_letter_and_nothing_else() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", LISTEN).await;
    node.signal(Uuid::from_u128(44), "go", json!(1)).await;
    let letter = world.letter().await;
    node.handle.discard_dead_letter(&node.tenant, letter.id, "op", None).await.unwrap();
    assert!(world.letters().await.is_empty());
    assert!(not_found(node.handle.discard_dead_letter(&node.tenant, letter.id, "op", None).await));
    assert!(not_found(node.handle.replay_dead_letter(&node.tenant, letter.id, "op").await));
    let other = machine::TenantId::new("other").unwrap();
    assert!(world.store.dead_letter(&other, letter.id).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_caught_failure_is_no_dead_letter() {
    let world = World::new();
    let (declaration, _) = recording(&world, "w", |_, _| Outcome::fail(Class::Poison, "no"));
    let node = world.build().worker(declaration).start().await;
    node.deploy(
        "d",
        "do: [ { t: { try: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ], catch: { do: [ { b: { set: { caught: true } } } ] } } } ]",
    )
    .await;
    let id = node.start("d", json!({})).await;
    assert_eq!(node.output(id).await, json!({ "caught": true }));
    assert!(world.letters().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_crash_in_the_middle_of_a_replay_replays_once() {
    for act in [Act::CrashBefore, Act::CrashAfter] {
        let world = World::new();
        let node = world.node().await;
        node.deploy("d", LISTEN).await;
        let id = Uuid::from_u128(45);
        node.signal(id, "go", json!(1)).await;
        let letter = world.letter().await;
        let mut start = start_of("d", json!({}));
        start.id = Some(id);
        node.handle.start(&node.tenant, start).await.unwrap();
        node.tap.once(
            |commit| commit.writes.iter().any(|write| matches!(write, Write::ConsumeDeadLetter { .. })),
            act,
        );
        let lost = node.handle.replay_dead_letter(&node.tenant, letter.id, "op").await;
        assert!(matches!(lost, Err(Refusal::Unavailable(_))), "{lost:?}");
        let next = world.node().await;
        let again = next.handle.replay_dead_letter(&next.tenant, letter.id, "op").await;
        assert_eq!(again.is_ok(), act == Act::CrashBefore, "{again:?}");
        assert_eq!(next.output(id).await, json!([1]));
        assert_eq!(world.count(id, "signal.received").await, 1);
    }
}

/// The events of these kinds, with what they say.
async fn told(world: &World, id: Uuid, kind: &str) -> Vec<serde_json::Value> {
    let rows = world.store.history(&world.tenant, id, 0, 1000).await.unwrap();
    let events =
        rows.iter().flat_map(|row| serde_json::from_slice::<Vec<serde_json::Value>>(&row.events).unwrap());
    events.filter(|event| event["kind"] == kind).map(|mut event| event["detail"].take()).collect()
}

fn shown(letter: &DeadLetterRow) -> String {
    machine::id::show(machine::id::Kind::DeadLetter, letter.id)
}

#[tokio::test(start_paused = true)]
async fn history_says_who_discarded_or_replayed_a_letter() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", LISTEN).await;
    let id = node.start("d", json!({})).await;
    for letter in [1, 2] {
        let row = letter_of(&node, Uuid::from_u128(letter), id);
        world.write(vec![Write::DeadLetter(Box::new(row))]).await;
    }
    let letters = world.letters().await;
    let why = Some("a test order".to_owned());
    node.handle.discard_dead_letter(&node.tenant, letters[0].id, "ann", why).await.unwrap();
    let said = json!({ "letter": shown(&letters[0]), "by": "ann", "reason": "a test order" });
    assert_eq!(told(&world, id, "dead-letter.discarded").await, [said]);
    assert!(not_found(node.handle.discard_dead_letter(&node.tenant, letters[0].id, "bob", None).await));
    let changed = node.handle.replay_changed(&node.tenant, letters[1].id, "bob", machine::Data::int(1)).await;
    assert!(matches!(changed, Err(Refusal::Invalid { .. })), "{changed:?}");
    node.handle.replay_dead_letter(&node.tenant, letters[1].id, "bob").await.unwrap();
    let said = json!({ "letter": shown(&letters[1]), "by": "bob" });
    assert_eq!(told(&world, id, "dead-letter.replayed").await, [said]);
    assert_eq!(node.output(id).await, json!([7]));
    assert_eq!(world.count(id, "dead-letter.discarded").await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_letter_of_an_ended_instance_is_discarded_without_waking_it() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", LISTEN).await;
    let id = node.start("d", json!({})).await;
    node.handle.order(&node.tenant, id, Order::Cancel, "op").await.unwrap();
    let row = letter_of(&node, Uuid::from_u128(3), id);
    world.write(vec![Write::DeadLetter(Box::new(row))]).await;
    let before = world.view(id).await.row;
    node.handle.discard_dead_letter(&node.tenant, Uuid::from_u128(3), "ann", None).await.unwrap();
    assert_eq!(told(&world, id, "dead-letter.discarded").await.len(), 1);
    assert_eq!((world.view(id).await.row, world.letters().await.len()), (before, 0));
}

#[tokio::test(start_paused = true)]
async fn a_letter_of_an_instance_that_cannot_be_read_can_still_be_replayed_and_discarded() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", LISTEN).await;
    let id = node.start("d", json!({})).await;
    world.rewrite(id, |json| *json = json!({ "nothing": "of use" })).await;
    node.signal(id, "go", json!(1)).await;
    let letter = world.letter().await;
    assert_eq!(letter.reason, "snapshot-inconsistent");
    node.handle.replay_dead_letter(&node.tenant, letter.id, "ann").await.unwrap();
    until(|| async { world.letters().await.first().is_some_and(|again| again.id != letter.id) }).await;
    let again = world.letter().await;
    node.handle.discard_dead_letter(&node.tenant, again.id, "ann", None).await.unwrap();
    assert_eq!((world.letters().await.len(), world.counts().await.signals), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_replayed_call_says_which_letter_it_was() {
    let world = World::new();
    let (declaration, _) = recording(&world, "w", |_, _| Outcome::fail(Class::Poison, "no"));
    let node = world.build().worker(declaration).start().await;
    node.deploy("d", "do: [ { a: { call: 'w:1.0.0@default' } } ]").await;
    let id = node.start("d", json!({})).await;
    let letter = world.letter().await;
    node.handle.replay_dead_letter(&node.tenant, letter.id, "ann").await.unwrap();
    let said = told(&world, id, "workflow.retried").await;
    assert_eq!((&said[0]["letter"], &said[0]["by"]), (&json!(shown(&letter)), &json!("ann")));
}

/// A signal `go` that was given up.
fn letter_of(node: &Up, letter: Uuid, instance: Uuid) -> DeadLetterRow {
    let envelope = machine::command::SignalEnvelope {
        signal_id: letter,
        workflow_instance_id: instance,
        runtime_provider: machine::command::RUNTIME_PROVIDER.to_owned(),
        signal_type: machine::command::SignalType::ExternalSignal,
        expected_version: 0,
        waiting_token: None,
        occurred_at_utc: String::new(),
        due_at_utc: None,
        payload: machine::Data::from_json(json!({ "event": { "type": "go", "data": 7 } })),
        tenant_id: None,
        trace_id: None,
        correlation_id: None,
    };
    DeadLetterRow {
        id: letter,
        source: "signal".to_owned(),
        reason: "retries-exhausted".to_owned(),
        detail: "no".to_owned(),
        instance: Some(instance),
        envelope: serde_json::to_vec(&envelope).unwrap(),
        origin: serde_json::to_vec(&json!({ "id": letter, "name": "ExternalSignal" })).unwrap(),
        attempts: 3,
        last_node: node.node.id(),
        failed_at: machine::Time(0),
        group: None,
    }
}
