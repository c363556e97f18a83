//! P11, P12, P20: bad data harms only its own instance, sizes are bounded, and the accounts close.

use crate::support::*;
use machine::Data;
use runtime::api::Order;
use serde_json::json;
use trial::tap::Act;
use worker::{Class, Outcome};

const ONE: &str = "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]";

#[tokio::test(start_paused = true)]
async fn an_answer_json_cannot_say_faults_its_instance_only() {
    let world = World::new();
    let (declaration, _) = recording(&world, "w", |_, input| match input.as_i64() {
        Some(3) => Outcome::Done(Data(machine::data::not_a_number())),
        Some(5) => Outcome::Done(Data::array([Data::NULL, Data(machine::data::not_a_number())])),
        _ => Outcome::Done(input),
    });
    let node = world.build().worker(declaration).start().await;
    node.deploy("d", ONE).await;
    let mut ids = Vec::new();
    for n in 0..10 {
        ids.push(node.start("d", json!(n)).await);
    }
    for (n, id) in ids.into_iter().enumerate() {
        match n {
            3 | 5 => {
                let fault = node.fault(id).await;
                assert!(fault.error_type.ends_with("/runtime") && fault.detail.unwrap().contains("NaN"));
            }
            _ => assert_eq!(node.output(id).await, json!(n)),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_above_the_size_limit_faults_its_instance_and_is_not_stored() {
    let world = World::new();
    let (declaration, _) = recording(&world, "w", |_, input| match input.as_i64() {
        Some(1) => Outcome::Done(Data::text("x".repeat(2 << 20))),
        Some(2) => Outcome::Done(Data::text("x".repeat((1 << 20) - 2))),
        _ => Outcome::Done(input),
    });
    let node = world.build().worker(declaration).start().await;
    node.deploy("d", ONE).await;
    let (large, fits) = (node.start("d", json!(1)).await, node.start("d", json!(2)).await);
    assert!(node.fault(large).await.detail.unwrap().contains("2097154 bytes"));
    assert_eq!(node.output(fits).await.as_str().unwrap().len(), (1 << 20) - 2);
    let stored = world.store.load(&world.tenant, large).await.unwrap().unwrap();
    assert!(stored.state_json.len() < 4096, "{}", stored.state_json.len());
}

/// Everything the store has of an instance as texts, of which none may hold a NUL.
async fn assert_no_nul(world: &World, id: uuid::Uuid) {
    let view = world.view(id).await;
    let loaded = world.store.load(&world.tenant, id).await.unwrap().unwrap();
    let history = world.store.history(&world.tenant, id, 0, 1000).await.unwrap();
    let mut texts: Vec<Vec<u8>> = history.into_iter().map(|row| row.events).collect();
    texts.extend([view.row.output, view.row.error, view.last_error_json].into_iter().flatten());
    texts.push(loaded.state_json);
    texts.extend(world.letters().await.into_iter().map(|letter| letter.detail.into_bytes()));
    let calls = world.store.calls(&world.tenant, id, 100).await.unwrap();
    texts.extend(calls.into_iter().filter_map(|call| call.last_error));
    for text in texts {
        let text = String::from_utf8(text).unwrap();
        assert!(!text.contains('\0') && !text.contains("\\u0000"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_nul_in_a_failure_text_is_replaced_before_anything_is_stored() {
    let world = World::new();
    let (declaration, _) = recording(&world, "w", |_, input| match input.as_i64() {
        Some(1) => Outcome::fail(Class::Validation, "nul \0 and \"quotes\""),
        Some(2) => Outcome::fail(Class::Poison, "nul \0 and \"quotes\""),
        _ => Outcome::retry("nul \0 and \"quotes\""),
    });
    let node = world.build().worker(declaration).start().await;
    node.deploy("d", ONE).await;
    for n in 1..4 {
        let id = node.start("d", json!(n)).await;
        if n == 3 {
            until(|| async {
                let calls = world.store.calls(&world.tenant, id, 1).await.unwrap();
                calls.first().is_none_or(|call| call.last_error.is_some())
            })
            .await;
            assert_no_nul(&world, id).await;
        }
        assert_eq!(node.fault(id).await.detail.as_deref(), Some("nul \u{fffd} and \"quotes\""));
        assert_no_nul(&world, id).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_nul_in_an_expressions_own_error_reaches_neither_the_error_nor_whoever_catches_it() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("faults", r#"do: [ { a: { set: { x: '${ error("\u0000x") }' } } } ]"#).await;
    let id = node.start("faults", json!({})).await;
    assert!(node.fault(id).await.detail.unwrap().contains("\u{fffd}x"));
    assert_no_nul(&world, id).await;
    node.deploy(
        "catches",
        r#"do: [ { a: { try: [ { b: { set: { x: '${ error("\u0000x") }' } } } ], catch: { as: err, do: [ { c: { set: { e: '${ $err.detail }' } } } ] } } } ]"#,
    )
    .await;
    let id = node.start("catches", json!({})).await;
    assert!(node.output(id).await["e"].as_str().unwrap().contains("\u{fffd}x"));
    assert_no_nul(&world, id).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_with_a_nul_faults_its_instance_only() {
    let world = World::new();
    let (declaration, _) = recording(&world, "w", |_, input| match input.as_i64() {
        Some(1) => Outcome::Done(Data::text("a\0b")),
        Some(2) => Outcome::Done(Data::array([Data::map([("a\0b".to_owned(), Data::NULL)])])),
        _ => Outcome::Done(input),
    });
    let node = world.build().worker(declaration).start().await;
    node.deploy("d", ONE).await;
    for n in 1..3 {
        let id = node.start("d", json!(n)).await;
        let fault = node.fault(id).await;
        assert!(fault.error_type.ends_with("/runtime") && fault.detail.unwrap().contains("NUL"));
        assert_no_nul(&world, id).await;
    }
    let fine = node.start("d", json!(3)).await;
    assert_eq!(node.output(fine).await, json!(3));
}

#[tokio::test(start_paused = true)]
async fn expressions_that_need_the_sandbox_fault_cleanly_on_a_node_without_one() {
    let world = World::new();
    let node = world.node().await;
    for (name, expression) in [
        ("recursion", "def f: 1 + f; f"),
        ("range", "[range(1e9)]"),
        ("last", "last(range(1e12))"),
        ("repeat", "[limit(3; repeat(1))]"),
    ] {
        node.deploy(name, &format!("do: [ {{ a: {{ set: {{ x: '${{ {expression} }}' }} }} }} ]")).await;
        let id = node.start(name, json!({})).await;
        let fault = node.fault(id).await;
        assert!(fault.error_type.ends_with("/expression"), "{name}: {fault:?}");
        assert_eq!((fault.status, fault.instance.as_deref()), (400, Some("/do/0/a")));
        assert!(fault.detail.unwrap().contains("sandbox"));
    }
    node.deploy("fine", "do: [ { a: { set: { x: '${ [.[] | . * 2] }' } } } ]").await;
    let id = node.start("fine", json!([1, 2])).await;
    assert_eq!(node.output(id).await, json!({ "x": [2, 4] }));
}

#[tokio::test(start_paused = true)]
async fn accepted_is_running_and_completed_and_faulted_and_cancelled_and_nothing_else() {
    let world = World::new();
    let (declaration, _) = recording(&world, "w", |_, input| match input.as_i64().unwrap_or(0) % 4 {
        0 => Outcome::Done(input),
        1 => Outcome::fail(Class::Validation, "no"),
        2 => Outcome::fail(Class::Poison, "no"),
        _ => Outcome::retry("down"),
    });
    let node = world.build().worker(declaration).start().await;
    node.deploy("works", ONE).await;
    node.deploy("waits", "do: [ { a: { listen: { to: { one: { with: { type: go } } } } } } ]").await;
    for n in 0..40 {
        node.start("works", json!(n)).await;
        let id = node.start("waits", json!(n)).await;
        match n % 4 {
            0 => node.handle.order(&node.tenant, id, Order::Cancel, "op").await.map(drop).unwrap(),
            1 => node.handle.order(&node.tenant, id, Order::Pause, "op").await.map(drop).unwrap(),
            _ => {}
        }
    }
    pass(secs(600)).await;
    let counts = world.counts().await;
    let mut instances = counts.instances.clone();
    instances.sort();
    let expected = [("cancelled", 10), ("completed", 10), ("faulted", 30), ("paused", 10), ("waiting", 20)];
    assert_eq!(instances, expected.map(|(status, count)| (status.to_owned(), count)));
    assert_eq!(counts.instances.iter().map(|(_, count)| count).sum::<u64>(), 80);
    assert_eq!(counts.dead_letters, 20, "poison and exhausted calls are dead letters, refusals are faults");
    assert_eq!((counts.calls, counts.signals, counts.timers), (0, 0, 0));
    assert_eq!(node.metric("windlass_instances_started_total"), 80.0);
    assert_eq!(node.metric("windlass_instances_ended_total"), 50.0);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_panics_does_not_block_its_instance() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", "do: [ { rest: { wait: { seconds: 1 } } } ]").await;
    let id = node.start("d", json!({})).await;
    let mut left = 1;
    node.tap.on_commit(move |_| {
        left -= 1;
        assert!(left != 0, "the store's client library panics once");
        Act::Pass
    });
    node.output(id).await;
    assert_eq!(world.view(id).await.state_version, 2);
}

/// Pitfall 11: what ends every node that takes it must not go round for ever.
#[tokio::test(start_paused = true)]
async fn a_call_that_ends_every_node_becomes_a_dead_letter() {
    let world = World::new();
    let mut instance = None;
    for round in 0..4 {
        let gate = Gate::new();
        let node = world.build().worker(gate.worker("w")).options(|options| options.taken_over_max = 3);
        let node = node.start().await;
        if round == 0 {
            node.deploy("d", ONE).await;
            instance = Some(node.start("d", json!(1)).await);
        }
        if round < 3 {
            until(async || gate.begun() == 1).await;
            node.crash().await;
            pass(secs(20)).await;
        } else {
            let letter = world.letter().await;
            assert_eq!((letter.source.as_str(), letter.reason.as_str()), ("call", "poison"));
            assert!(letter.detail.contains("3 nodes ended"), "{}", letter.detail);
            assert_eq!(gate.begun(), 0, "this node never made it");
            assert_eq!(world.counts().await.calls, 0);
            // Whoever has mended the cause puts it back, and it counts from the beginning.
            gate.open.add_permits(1);
            node.handle.replay_dead_letter(&node.tenant, letter.id, "op").await.unwrap();
            assert_eq!(node.output(instance.unwrap()).await, json!(1));
        }
    }
}
