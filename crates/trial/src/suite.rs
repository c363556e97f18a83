//! What every worker that handles events must do, whoever wrote it (R01). Each check is one promise; all of them publish the
//! samples of the declaration.

use crate::{
    corpus, outside,
    tap::Act,
    time::pass,
    world::{Side, World, noted},
};
use machine::{
    Data,
    id::{self, Kind},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};
use store::{Outcome, Write, rows::DeliveryRow};
use uuid::Uuid;
use worker::{Class, Declaration, Emit, Failure, Handled, each};

/// Commits after which, and before which, the node is killed.
const CRASHES: usize = 8;
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Runs the whole suite over a declaration, in virtual time. Panics with what is not as it must be.
pub async fn check(worker: &Declaration) {
    checked(worker, Side::Inside).await;
}

/// The same over a worker that is somewhere else: its handler asks the node for deliveries and answers them. Besides, it dies
/// with a delivery, answers too late, and never answers.
pub async fn check_remote(worker: &Declaration) {
    let expected = checked(worker, Side::Outside).await;
    outside::died(worker, &expected).await;
    outside::late(worker, &expected).await;
    outside::silent(worker).await;
}

async fn checked(worker: &Declaration, side: Side) -> Vec<String> {
    assert_eq!(worker.problem(), None);
    let on = worker.on.as_ref().expect("a worker that handles events");
    assert!(
        !on.samples.is_empty(),
        "worker `{}` has no sample to try it with: add `.sample(…)`",
        worker.name
    );
    let expected = once(worker, side).await;
    often(worker, &expected, side).await;
    crashes(worker, &expected, side).await;
    wrong_tenant(worker, side).await;
    exhausted(worker, side).await;
    poison(worker, &expected, side).await;
    trace(worker, side).await;
    expected
}

/// The samples as events with ids of their own.
pub(crate) fn samples(worker: &Declaration) -> Vec<Data> {
    let samples = worker.on.as_ref().map(|on| on.samples.clone()).unwrap_or_default();
    let whole = |(at, sample): (usize, Data)| {
        let mut event = sample.to_json();
        event["specversion"] = json!("1.0");
        event["source"] = json!("trial");
        event["id"] = json!(format!("sample-{at}"));
        Data::from_json(event)
    };
    samples.into_iter().enumerate().map(whole).collect()
}

/// What the samples come to when each is delivered once.
async fn once(worker: &Declaration, side: Side) -> Vec<String> {
    let world = World::new(side);
    let node = world.node(vec![worker.clone()], true).await;
    node.publish(&world, samples(worker)).await;
    world.settled().await;
    let letters: Vec<String> = world.letters().await.into_iter().map(|letter| letter.detail).collect();
    assert_eq!(letters, [""; 0], "the samples of `{}` are handled", worker.name);
    node.stop().await;
    world.outputs(&worker.name).await
}

/// Published twice and ten times, delivered ten times, by two nodes at the same time: one effect, one output (R03).
async fn often(worker: &Declaration, expected: &[String], side: Side) {
    for times in [2, 10] {
        let world = World::new(side);
        let nodes =
            [world.node(vec![worker.clone()], false).await, world.node(vec![worker.clone()], false).await];
        let all = (0..times).map(|at| nodes[at % 2].publish(&world, samples(worker)));
        futures_util::future::join_all(all).await;
        world.settled().await;
        assert_eq!(world.outputs(&worker.name).await, expected, "`{}`, published {times} times", worker.name);
        for row in world.events().await.iter().filter(|row| row.source == "trial") {
            let twins = (0..times as u128).map(|at| twin(&world, worker, row.id, at));
            let commit = store::Commit { tenant: world.tenant.clone(), writes: twins.collect() };
            let landed = world.store.commit(nodes[0].node.id(), vec![commit]).await.unwrap();
            assert_eq!(landed, [Outcome::Committed]);
        }
        pass(Duration::from_secs(60)).await;
        world.settled().await;
        assert_eq!(world.outputs(&worker.name).await, expected, "`{}`, delivered {times} times", worker.name);
        for node in nodes {
            node.stop().await;
        }
    }
}

/// Another delivery of the same event.
fn twin(world: &World, worker: &Declaration, event: Uuid, at: u128) -> Write {
    let now = world.clock.now();
    Write::Delivery(Box::new(DeliveryRow {
        id: Uuid::from_u128(event.as_u128().rotate_left(64) ^ (at + 1)),
        worker: worker.name.clone(),
        events: [event].into_iter().collect(),
        order_key: None,
        created_at: now,
        visible_at: now,
        attempt: 0,
        last_error: None,
        owner: None,
        taken_over: 0,
        traced: store::rows::Traced::default(),
    }))
}

/// Killed before and after every commit: nothing is lost, nothing is there twice.
async fn crashes(worker: &Declaration, expected: &[String], side: Side) {
    for crash_at in 1..=CRASHES {
        for act in [Act::CrashBefore, Act::CrashAfter] {
            let world = World::new(side);
            let node = world.node(vec![worker.clone()], true).await;
            let mut commits = 0;
            node.tap.on_commit(move |_| {
                commits += 1;
                if commits == crash_at { act } else { Act::Pass }
            });
            let (handle, tenant, events) = (node.handle.clone(), world.tenant.clone(), samples(worker));
            let publishing = tokio::spawn(async move { handle.publish_many(&tenant, events).await });
            pass(Duration::from_secs(1)).await;
            publishing.abort();
            node.crash().await;
            let node = world.node(vec![worker.clone()], true).await;
            node.publish(&world, samples(worker)).await;
            world.settled().await;
            let outputs = world.outputs(&worker.name).await;
            assert_eq!(outputs, expected, "`{}`, {act:?} at commit {crash_at}", worker.name);
            assert!(world.letters().await.is_empty());
            node.stop().await;
        }
    }
}

/// An event that names another tenant is a dead letter; nothing else of the store is touched, and the handler does not hear
/// of it (R04).
async fn wrong_tenant(worker: &Declaration, side: Side) {
    let world = World::new(side);
    let node = world.node(vec![worker.clone()], true).await;
    node.tap.on_commit(|batch| {
        let mut is_trial = false;
        for write in batch.iter_mut().flat_map(|commit| &mut commit.writes) {
            match write {
                Write::Publish(row) if row.source == "trial" => {
                    let mut event: Value = serde_json::from_slice(&row.event).unwrap();
                    event["tenantid"] = json!("another");
                    row.event = serde_json::to_vec(&event).unwrap();
                    is_trial = true;
                }
                Write::Delivery(row) => row.owner = None,
                _ => {}
            }
        }
        // Whoever comes next reads it from the store.
        if is_trial { Act::CrashAfter } else { Act::Pass }
    });
    let (handle, tenant, one) = (node.handle.clone(), world.tenant.clone(), samples(worker).remove(0));
    let publishing = tokio::spawn(async move { handle.publish(&tenant, one).await });
    pass(Duration::from_secs(1)).await;
    publishing.abort();
    node.crash().await;
    let (on_trial, of_second) = noted(&world, worker, None);
    let node = world.node(vec![on_trial], true).await;
    world.settled().await;
    let asked = node.tap.take_counts();
    for method in ["load", "inbox", "taken", "watermarks", "instance", "definition", "dead_letter"] {
        assert_eq!(asked.get(method), None, "`{}` touched the store: {asked:?}", worker.name);
    }
    let letters = world.letters().await;
    assert_eq!(letters.len(), 1, "`{}`: {letters:?}", worker.name);
    assert!(letters[0].detail.contains("another tenant"), "{}", letters[0].detail);
    let told = node.handle.metrics().into_iter().find(|one| one.name == "windlass_foreign_events_total");
    assert_eq!(told.map(|one| one.value), Some(1.0));
    assert!(of_second.lock().is_empty(), "`{}` was given it", worker.name);
    node.stop().await;
}

/// As many attempts as the policy says, further and further apart, and then a dead letter with the event as it was stored (R05).
async fn exhausted(worker: &Declaration, side: Side) {
    let world = World::new(side);
    let failure = Failure { class: Class::Transient, message: "on purpose".to_owned() };
    let (on_trial, calls) = noted(&world, worker, Some(Handled::Retry { failure, after: None }));
    let node = world.node(vec![on_trial], true).await;
    let one = samples(worker).remove(0);
    node.publish(&world, vec![one]).await;
    world.settled().await;
    let calls = calls.lock().clone();
    let attempts: Vec<u32> = calls.iter().map(|(_, attempt, _)| *attempt).collect();
    assert_eq!(
        attempts,
        (1..=worker.retry.attempts_max).collect::<Vec<_>>(),
        "attempts of `{}`",
        worker.name
    );
    let waits: Vec<i64> = calls.windows(2).map(|pair| pair[1].2 - pair[0].2).collect();
    let due = (1..worker.retry.attempts_max).filter_map(|made| worker.retry.delay(made, 1.0));
    for (wait, due) in waits.iter().zip(due) {
        assert!(*wait >= due.0, "`{}` waited {wait} µs of {due:?}: {waits:?}", worker.name);
    }
    let letters = world.letters().await;
    let stored = world.events().await.into_iter().find(|row| row.source == "trial").unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].reason, "retries-exhausted");
    assert_eq!(letters[0].attempts, worker.retry.attempts_max);
    let same = String::from_utf8_lossy(&letters[0].envelope) == String::from_utf8_lossy(&stored.event);
    assert!(same, "the letter of `{}` is not the event as it was stored", worker.name);
    node.stop().await;
}

/// Payloads of the corpus harm nobody but themselves: the samples beside them come to the same as ever (P12).
async fn poison(worker: &Declaration, expected: &[String], side: Side) {
    let world = World::new(side);
    let node = world.node(vec![worker.clone()], true).await;
    let kind = samples(worker)[0].get("type").and_then(|kind| kind.as_str().map(str::to_owned)).unwrap();
    let mut published = 0;
    for (at, (_, data)) in corpus::poison().into_iter().enumerate() {
        // What cannot be read, or is refused, never becomes an event.
        let Ok(data) = Data::parse(&data) else { continue };
        let head = json!({ "specversion": "1.0", "id": format!("poison-{at}"), "source": "poison", "type": kind,
            "subject": format!("poison-{at}") });
        let mut entries = Data::from_json(head).entries().unwrap();
        entries.push(("data".to_owned(), data));
        let all = [vec![Data::map(entries)], samples(worker)].concat();
        let answers = node.handle.publish_many(&world.tenant, all).await;
        published += usize::from(answers[0].is_ok());
        assert!(answers[1..].iter().all(Result::is_ok), "{answers:?}");
    }
    assert!(published >= 6, "{published} of the corpus");
    world.settled().await;
    let outputs = world.outputs(&worker.name).await;
    for output in expected {
        let count = |all: &[String]| all.iter().filter(|other| *other == output).count();
        assert_eq!(count(&outputs), count(expected), "`{}` beside poison: {output}", worker.name);
    }
    for letter in world.letters().await {
        let event: Value = serde_json::from_slice(&letter.envelope).unwrap();
        assert_eq!(event["source"], "poison", "`{}` gave up a sample: {}", worker.name, letter.detail);
    }
    node.stop().await;
}

/// One trace from the event before it to the event after it, each naming what it follows from (R07).
async fn trace(worker: &Declaration, side: Side) {
    let world = World::new(side);
    let sample = samples(worker).remove(0);
    let text = |name: &str| sample.get(name).and_then(|value| value.as_str().map(str::to_owned));
    let (kind, subject, data) =
        (text("type").unwrap(), text("subject"), sample.get("data").unwrap_or_default());
    let first = Declaration::on(
        "trial-first",
        ["trial.begin"],
        each(move |_| {
            Handled::emit([Emit {
                event_type: kind.clone(),
                subject: subject.clone(),
                data: data.clone(),
                once: None,
            }])
        }),
    );
    let last = Declaration::on(
        "trial-last",
        ["*"],
        each({
            let source = format!("windlass/workers/{}", worker.name);
            move |delivery| match delivery.attribute("source") == Some(source.clone()) {
                true => Handled::emit([Emit::new("trial.end", Data::NULL)]),
                false => Handled::done(),
            }
        }),
    );
    let node = world.node(vec![first, worker.clone(), last], true).await;
    let begin = json!({ "specversion": "1.0", "id": "begin", "source": "trial", "type": "trial.begin",
        "traceparent": format!("00-{TRACE}-00f067aa0ba902b7-01"), "correlationid": "trial-7" });
    node.publish(&world, vec![Data::from_json(begin)]).await;
    world.settled().await;
    pass(Duration::from_secs(60)).await;
    world.settled().await;
    let events = world.events().await;
    let by_id: BTreeMap<String, &store::rows::EventRow> =
        events.iter().map(|row| (id::show(Kind::Event, row.id), row)).collect();
    let mut chains = 0;
    for row in events.iter().filter(|row| row.source.starts_with("windlass/workers/")) {
        let event: Value = serde_json::from_slice(&row.event).unwrap();
        assert!(event["traceparent"].as_str().unwrap().contains(TRACE), "{event}");
        assert_eq!(event["correlationid"], "trial-7", "{event}");
        let cause = event["causationid"].as_str().unwrap();
        assert!(by_id.contains_key(cause), "{event} follows from nothing");
        chains += usize::from(row.event_type == "trial.end");
    }
    let emits = events.iter().filter(|row| row.source == format!("windlass/workers/{}", worker.name)).count();
    assert_eq!(chains, emits, "what `{}` emits leads on", worker.name);
    node.stop().await;
}
