//! B23, B24, P10: an idle node is nearly silent, and every bound holds.

use crate::support::*;
use machine::time::Span;
use runtime::{Node, Options, Parts};
use serde_json::json;
use std::sync::{Arc, atomic::Ordering};
use store::sqlite::Inline;
use trial::tap::Act;

#[tokio::test(start_paused = true)]
async fn an_idle_node_only_renews_its_lease_and_looks_round_every_half_minute() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", "do: [ { rest: { wait: { days: 1 } } } ]").await;
    for _ in 0..20 {
        node.start("d", json!({})).await;
    }
    pass(secs(60)).await;
    node.tap.take_counts();
    pass(secs(600)).await;
    let counts = node.tap.take_counts();
    let of = |method: &str| counts.get(method).copied().unwrap_or(0);
    assert!((118..=122).contains(&of("renew")), "every third of 15 s: {counts:?}");
    assert!((15..=26).contains(&of("outlook")), "every 30 s, jittered: {counts:?}");
    // A store that knows that the node owns nothing saves it the question.
    assert!([0, of("outlook")].contains(&of("owned")), "{counts:?}");
    for silent in ["next_due", "next_slot_due", "outbox", "claim_signals", "claim_calls", "claim_timers"] {
        assert_eq!(of(silent), 0, "one question is for all: {counts:?}");
    }
    for silent in ["due_schedules", "take_over"] {
        assert_eq!(of(silent), 0, "nothing is due: {counts:?}");
    }
    for silent in ["commit", "load", "instance", "definition", "counts"] {
        assert_eq!(of(silent), 0, "{counts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_rescan_an_idle_node_does_not_look_for_work_at_all() {
    let world = World::new();
    let node = world.build().options(|options| options.rescan = None).start().await;
    node.deploy("d", "do: [ { rest: { wait: { days: 1 } } } ]").await;
    node.start("d", json!({})).await;
    // Longer than a late hint is under way.
    pass(secs(60)).await;
    node.tap.take_counts();
    pass(secs(600)).await;
    let counts = node.tap.take_counts();
    assert!(counts.keys().all(|method| ["renew", "take_over"].contains(method)), "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn work_born_on_the_node_is_done_without_a_claim() {
    let world = World::new();
    let node = world.build().worker(echo("w")).start().await;
    node.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } }, { b: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]").await;
    pass(secs(1)).await;
    node.tap.take_counts();
    for n in 0..50 {
        let id = node.start("d", json!(n)).await;
        node.output(id).await;
    }
    let counts = node.tap.take_counts();
    let claims = ["claim_calls", "claim_signals", "claim_timers", "load"];
    assert!(claims.iter().all(|method| !counts.contains_key(method)), "{counts:?}");
    assert!(counts["commit"] <= 150, "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_in_flight_never_exceed_the_nodes_cap_nor_the_workers() {
    for (node_cap, worker_cap, expected) in [(5, 100, 5), (100, 3, 3)] {
        let world = World::new();
        let gate = Gate::new();
        let declaration = gate.worker("w").concurrency_max(worker_cap);
        let build = world.build().worker(declaration);
        let node = build.options(|options| options.calls_in_flight_max = node_cap).start().await;
        node.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]").await;
        let mut ids = Vec::new();
        for n in 0..40 {
            ids.push(node.start("d", json!(n)).await);
        }
        pass(secs(1)).await;
        assert_eq!(gate.begun(), expected);
        gate.open.add_permits(40);
        for id in ids {
            node.output(id).await;
        }
        assert_eq!(gate.within.1.load(Ordering::SeqCst), expected, "the most there ever were");
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_at_its_cap_does_not_hold_up_another_worker() {
    let world = World::new();
    let gate = Gate::new();
    let node =
        world.build().worker(gate.worker("slow").concurrency_max(1)).worker(echo("quick")).start().await;
    node.deploy("slow", "do: [ { a: { call: 'slow:1.0.0@default' } } ]").await;
    node.deploy("quick", "do: [ { a: { call: 'quick:1.0.0@default', with: { v: '${ . }' } } } ]").await;
    for n in 0..10 {
        node.start("slow", json!(n)).await;
    }
    let id = node.start("quick", json!(1)).await;
    node.output(id).await;
    assert_eq!(gate.begun(), 1);
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_tenant_go_out_in_the_order_they_came_whatever_their_target() {
    let world = World::new();
    let (a, seen) = recording(&world, "a", |_, input| worker::Outcome::Done(input));
    let gate = Gate::new();
    let log = seen.clone();
    let z = worker::from_fn(move |context: &worker::Context, input| {
        log.lock().push((context.clone(), machine::Time(0)));
        worker::Outcome::Done(input)
    });
    let build = world.build().worker(a).worker(worker::Declaration::new("z", z)).worker(gate.worker("gate"));
    let node = build.options(|options| options.calls_in_flight_max = 1).start().await;
    for target in ["gate", "a", "z"] {
        node.deploy(target, &format!("do: [ {{ {target}: {{ call: '{target}:1.0.0@default' }} }} ]")).await;
    }
    let mut ids = vec![node.start("gate", json!(0)).await];
    for target in ["z", "a", "z", "a"] {
        ids.push(node.start(target, json!(0)).await);
    }
    gate.open.add_permits(1);
    for id in ids {
        node.output(id).await;
    }
    let steps: Vec<String> = seen.lock().iter().map(|(context, _)| context.step.clone()).collect();
    assert_eq!(steps, ["/do/0/z", "/do/0/a", "/do/0/z", "/do/0/a"]);
}

#[tokio::test(start_paused = true)]
async fn a_tenants_surplus_stays_in_the_store_and_still_completes() {
    let world = World::new();
    let gate = Gate::new();
    let build = world.build().worker(gate.worker("w").concurrency_max(2));
    let node = build.options(|options| options.calls_queued_per_tenant_max = 4).start().await;
    node.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]").await;
    let mut ids = Vec::new();
    for n in 0..20 {
        ids.push(node.start("d", json!(n)).await);
    }
    pass(secs(5)).await;
    assert_eq!(gate.begun(), 2);
    assert_eq!(world.counts().await.calls, 20);
    node.tap.take_counts();
    pass(secs(10)).await;
    let commits = node.tap.take_counts().get("commit").copied().unwrap_or(0);
    assert!(commits <= 101, "a full lane is looked at now and then, in one commit: {commits}");
    gate.open.add_permits(20);
    for id in ids {
        node.output(id).await;
    }
    assert_eq!(gate.begun(), 20, "each once");
}

#[tokio::test(start_paused = true)]
async fn a_tenant_with_no_room_does_not_hide_the_backlog_of_others() {
    let world = World::new();
    let gate = Gate::new();
    let build = world.build().worker(gate.worker("w").concurrency_max(1)).worker(echo("quick"));
    let change = |options: &mut Options| {
        options.calls_queued_per_tenant_max = 2;
        options.claim_max = 4;
    };
    let node = build.options(change).start().await;
    node.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]").await;
    for n in 0..30 {
        node.start("d", json!(n)).await;
    }
    // A call of another tenant, due after all of them, left by a node that had no such worker.
    let other = machine::TenantId::new("other").unwrap();
    let leaving = world.node().await;
    let source = b"document: { dsl: '1.0.3', namespace: test, name: q, version: '1.0.0' }
do: [ { a: { call: 'quick:1.0.0@default', with: { v: 1 } } } ]";
    leaving.handle.deploy(&other, source, machine::language::Format::Yaml, false).await.unwrap();
    let id = leaving.handle.start(&other, start_of("q", json!({}))).await.unwrap().id;
    pass(secs(1)).await;
    leaving.stop().await;
    let end = node.handle.result(&other, id, secs(60)).await.unwrap();
    assert_eq!(end, runtime::api::InstanceResult::Completed(machine::Data::int(1)));
}

#[tokio::test(start_paused = true)]
async fn calls_that_found_no_room_are_not_lost_when_putting_them_back_fails() {
    let world = World::new();
    let gate = Gate::new();
    let build = world.build().worker(gate.worker("w"));
    let node = build.options(|options| options.calls_queued_per_tenant_max = 1).start().await;
    node.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]").await;
    let puts_back = |commit: &store::Commit| {
        commit.writes.iter().any(|write| matches!(write, store::Write::RetryCall { .. }))
    };
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(node.start("d", json!(n)).await);
    }
    node.tap.once(puts_back, Act::Unavailable);
    pass(secs(2)).await;
    gate.open.add_permits(5);
    for id in ids {
        node.output(id).await;
    }
}

#[tokio::test(start_paused = true)]
async fn signals_beyond_the_room_in_memory_stay_in_the_store_and_are_still_used() {
    let world = World::new();
    let node = world.build().options(|options| options.turns_in_flight_max = 2).start().await;
    node.deploy("d", "do: [ { loop: { for: { each: i, in: '${ [range(30)] }' }, do: [ { hear: { listen: { to: { one: { with: { type: go } } } } } } ] } } ]").await;
    let id = node.start("d", json!({})).await;
    let sent: Vec<_> = (0..30).map(|n| node.signal(id, "go", json!(n))).collect();
    futures_util::future::join_all(sent).await;
    node.output(id).await;
    assert_eq!(world.count(id, "signal.received").await, 30);
}

#[tokio::test(start_paused = true)]
async fn options_no_node_can_work_with_are_refused_at_the_start() {
    let bad: [fn(&mut Options); 6] = [
        |options| options.batch_max = 0,
        |options| options.batches_in_flight_max = 0,
        |options| options.commits_queued_max = 0,
        |options| options.turns_in_flight_max = 0,
        |options| options.lease = Span::ZERO,
        |options| options.poison.attempts_max = 0,
    ];
    for break_it in bad {
        let mut parts = Parts::new(Arc::new(Inline::new().unwrap()));
        break_it(&mut parts.options);
        let refused = Node::start(parts).await.err().unwrap();
        assert!(refused.to_string().contains("options: "), "{refused}");
    }
}
