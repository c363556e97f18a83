//! R05, R06, R07, P5: attempts, back-off, time limits, panics, missing workers, trace and key.

use crate::support::*;
use async_trait::async_trait;
use machine::{Data, retry::RetryPolicy, time::Span};
use runtime::api::Order;
use serde_json::json;
use std::time::Duration;
use worker::{Class, Context, Declaration, Failure, Outcome, Worker};

const ONE: &str = "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]";

fn policy(attempts_max: u32) -> RetryPolicy {
    RetryPolicy { attempts_max, base: Span::from_millis(100), factor: 2.0, cap: Span::from_secs(2) }
}

#[tokio::test(start_paused = true)]
async fn attempts_are_as_many_as_the_worker_allows_each_within_its_back_off() {
    let world = World::new();
    let (declaration, seen) = recording(&world, "w", |_, _| Outcome::retry("down"));
    // The back-off alone: a worker that fails at everything would be given a pause.
    let alone = |options: &mut runtime::Options| (options.kill_switch, options.retry_budget) = (None, false);
    let node = world.build().worker(declaration.retry(policy(9))).options(alone).start().await;
    node.deploy("d", ONE).await;
    let mut ids = Vec::new();
    for n in 0..20 {
        ids.push(node.start("d", json!(n)).await);
    }
    for id in &ids {
        let fault = node.fault(*id).await;
        assert_eq!((fault.status, fault.detail.as_deref()), (500, Some("down")));
        assert!(fault.error_type.ends_with("/communication"));
    }
    let seen = seen.lock().clone();
    let mut spread = Vec::new();
    for id in ids {
        let shown = machine::id::show(machine::id::Kind::Instance, id);
        let mine: Vec<_> = seen.iter().filter(|(context, _)| context.instance == shown).collect();
        let attempts: Vec<u32> = mine.iter().map(|(context, _)| context.attempt).collect();
        assert_eq!(attempts, (1..=9).collect::<Vec<_>>());
        for (pair, attempt) in mine.windows(2).zip(1..) {
            let waited = pair[1].1.since(pair[0].1).0;
            let ceiling = policy(9).delay(attempt, 1.0).unwrap().0;
            assert!(waited <= ceiling + 30_000, "attempt {attempt}: {waited} of {ceiling}");
            if attempt == 8 {
                spread.push(waited);
            }
        }
    }
    let (least, most) = (spread.iter().min().unwrap(), spread.iter().max().unwrap());
    assert!(*least < 700_000 && *most > 1_300_000, "full jitter, also at the cap: {spread:?}");
    assert_eq!(world.letters().await.len(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_longer_than_the_back_off_is_honoured() {
    let world = World::new();
    let (declaration, seen) = recording(&world, "w", |context, input| match context.attempt {
        1 => Outcome::Retry {
            failure: Failure { class: Class::RateLimited, message: "slow down".to_owned() },
            after: Some(Span::from_secs(120)),
        },
        _ => Outcome::Done(input),
    });
    let node = world.build().worker(declaration.retry(policy(5))).start().await;
    node.deploy("d", ONE).await;
    let id = node.start("d", json!(1)).await;
    node.output(id).await;
    let seen = seen.lock();
    let waited = seen[1].1.since(seen[0].1);
    assert!(waited >= Span::from_secs(120) && waited < Span::from_secs(121), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn classes_of_failure_become_errors_of_the_language() {
    for (class, kind, status) in [
        (Class::Auth, "authentication", 401),
        (Class::Validation, "validation", 400),
        (Class::Poison, "runtime", 500),
        (Class::Transient, "communication", 500),
    ] {
        let world = World::new();
        let (declaration, seen) = recording(&world, "w", move |_, _| Outcome::fail(class, "no"));
        let node = world.build().worker(declaration).start().await;
        node.deploy("d", ONE).await;
        let id = node.start("d", json!(1)).await;
        let fault = node.fault(id).await;
        assert!(fault.error_type.ends_with(kind), "{}", fault.error_type);
        assert_eq!((fault.status, fault.instance.as_deref()), (status, Some("/do/0/a")));
        assert_eq!(seen.lock().len(), 1, "a plain failure is not tried again");
    }
}

struct Panics;

#[async_trait]
impl Worker for Panics {
    async fn handle(&self, context: &Context, _: Data) -> Outcome {
        panic!("worker of {} is broken", context.step);
    }
}

#[tokio::test(start_paused = true)]
async fn a_panicking_worker_faults_its_own_instance_only() {
    let world = World::new();
    let build = world.build().worker(Declaration::new("panics", Panics)).worker(echo("w"));
    let node = build.start().await;
    node.deploy("bad", "do: [ { a: { call: 'panics:1.0.0@default' } } ]").await;
    node.deploy("good", ONE).await;
    for n in 0..20 {
        let bad = node.start("bad", json!(n)).await;
        let good = node.start("good", json!(n)).await;
        assert_eq!(node.fault(bad).await.detail.as_deref(), Some("the worker panicked"));
        node.output(good).await;
    }
    assert_eq!(world.letters().await.len(), 20);
    assert!(node.handle.is_ready());
}

struct Hangs;

#[async_trait]
impl Worker for Hangs {
    async fn handle(&self, context: &Context, input: Data) -> Outcome {
        if context.attempt < 3 {
            pass(Duration::from_secs(3600)).await;
        }
        Outcome::Done(input)
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_over_its_time_limit_counts_as_failed_and_is_tried_again() {
    let world = World::new();
    let declaration = Declaration::new("w", Hangs).timeout(Span::from_secs(10)).retry(policy(3));
    let node = world.build().worker(declaration).start().await;
    node.deploy("d", ONE).await;
    let id = node.start("d", json!(1)).await;
    node.output(id).await;
    let lasted = world.now().0 - EPOCH;
    assert!((20_000_000..22_000_000).contains(&lasted), "{lasted}");
}

#[tokio::test(start_paused = true)]
async fn a_call_without_its_worker_waits_and_is_done_once_a_node_has_it() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", ONE).await;
    let id = node.start("d", json!(1)).await;
    pass(secs(300)).await;
    assert_eq!(world.status(id).await, "running");
    assert_eq!((world.counts().await.calls, world.letters().await.len()), (1, 0));
    assert_eq!(node.metric("windlass_instances_in_memory"), 0.0);
    let labels: Vec<_> = node.handle.metrics().into_iter().flat_map(|metric| metric.labels).collect();
    assert!(labels.contains(&("target", "other".to_owned())), "{labels:?}");
    node.stop().await;
    let (declaration, seen) = recording(&world, "w", |_, input| Outcome::Done(input));
    let next = world.build().worker(declaration).start().await;
    next.output(id).await;
    let seen = seen.lock();
    assert_eq!((seen.len(), seen[0].0.attempt), (1, 1), "waiting burnt no attempt");
}

#[tokio::test(start_paused = true)]
async fn trace_and_correlation_reach_the_worker_and_the_emitted_event() {
    let world = World::new();
    let (declaration, seen) = recording(&world, "w", |_, input| Outcome::Done(input));
    let node = world.build().worker(declaration).start().await;
    node.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } }, { b: { call: 'w:1.0.0@default', with: { v: '${ . }' } } }, { c: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]").await;
    let mut start = start_of("d", json!({}));
    start.traceparent = Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned());
    start.correlation_id = Some("order-9".to_owned());
    let id = node.handle.start(&node.tenant, start.clone()).await.unwrap().id;
    node.output(id).await;
    let seen = seen.lock().clone();
    assert_eq!(seen.len(), 3);
    for (context, _) in seen.iter() {
        // A span of its own in the trace of whoever started the instance.
        assert!(context.traceparent.as_ref().unwrap().starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
        assert_ne!(context.traceparent, start.traceparent);
        assert_eq!(context.correlation_id, start.correlation_id);
        assert_eq!(context.tenant, node.tenant);
    }
    let row = world.view(id).await.row;
    assert_eq!((row.traceparent, row.correlation_id), (start.traceparent, start.correlation_id));
}

#[tokio::test(start_paused = true)]
async fn the_key_is_the_same_over_retries_faults_and_operator_retries_and_differs_per_step_and_iteration() {
    let world = World::new();
    let (declaration, seen) = recording(&world, "w", |context, input| match context.attempt {
        1 => Outcome::retry("once more"),
        2 if context.step.ends_with("/b") => Outcome::fail(Class::Validation, "no"),
        _ => Outcome::Done(input),
    });
    let node = world.build().worker(declaration.retry(policy(3))).start().await;
    node.deploy(
        "d",
        "do:
- loop: { for: { each: i, in: '${ [1, 2, 3] }' }, do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ] }
- b: { call: 'w:1.0.0@default', with: { v: '${ . }' } }
",
    )
    .await;
    let id = node.start("d", json!({})).await;
    node.fault(id).await;
    for _ in 0..2 {
        node.handle.order(&node.tenant, id, Order::Retry, "op").await.unwrap();
        node.fault(id).await;
    }
    let seen = seen.lock();
    let keys = |step: &str| {
        let mut keys: Vec<_> = seen
            .iter()
            .filter(|(context, _)| context.step.ends_with(step))
            .map(|(context, _)| context.key.clone())
            .collect();
        let all = keys.len();
        keys.dedup();
        (all, keys.len())
    };
    assert_eq!(keys("/a"), (6, 3), "two attempts for each of three iterations");
    assert_eq!(keys("/b"), (6, 1), "three faults, two attempts each, one key");
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_wait_ended_is_dropped_and_its_late_answer_changes_nothing() {
    let world = World::new();
    let gate = Gate::new();
    let node = world.build().worker(gate.worker("w")).start().await;
    node.deploy(
        "d",
        "do:
- t:
    try: [ { a: { call: 'w:1.0.0@default', timeout: { after: { seconds: 5 } } } } ]
    catch: { errors: { with: { status: 408 } } }
- rest: { wait: { seconds: 5 } }
",
    )
    .await;
    let id = node.start("d", json!({})).await;
    pass(secs(6)).await;
    assert_eq!((gate.begun(), world.counts().await.calls), (1, 0));
    let version = world.view(id).await.state_version;
    gate.open.add_permits(1);
    pass(secs(1)).await;
    assert_eq!(world.view(id).await.state_version, version);
    node.output(id).await;
}

/// A call runs on the version it names and on no other.
#[tokio::test(start_paused = true)]
async fn a_call_waits_for_the_version_it_names() {
    let world = World::new();
    let version = |version: &'static str| {
        let answer = move |_: &worker::Context, _| worker::Outcome::Done(machine::Data::text(version));
        Declaration::new("w", worker::from_fn(answer)).version(version)
    };
    let node = world.build().worker(version("1.0.0")).worker(version("1.1.0")).start().await;
    for wanted in ["1.0.0", "1.1.0", "2.0.0"] {
        node.deploy(
            &format!("d{}", wanted.replace('.', "")),
            &format!("do: [ {{ c: {{ call: 'w:{wanted}@default' }} }} ]"),
        )
        .await;
    }
    for (name, wanted) in [("d100", "1.0.0"), ("d110", "1.1.0")] {
        let id = node.start(name, json!({})).await;
        assert_eq!(node.output(id).await, json!(wanted));
    }
    let id = node.start("d200", json!({})).await;
    pass(Duration::from_secs(60)).await;
    let calls = world.store.calls(&world.tenant, id, 10).await.unwrap();
    let said = String::from_utf8(calls[0].last_error.clone().unwrap()).unwrap();
    assert_eq!(said, "worker `w` is registered on this node in version 1.0.0, 1.1.0, not 2.0.0");
    node.crash().await;
    let node = world.build().worker(version("2.0.0")).start().await;
    assert_eq!(node.output(id).await, json!("2.0.0"));
}
