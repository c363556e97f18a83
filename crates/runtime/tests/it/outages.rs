//! B29, B30, B31: nodes gone, store gone, both gone: everything goes on by itself afterwards.

use crate::{
    deliveries::{events, handled, noting, publish_all, settled},
    support::*,
};
use runtime::api::Refusal;
use serde_json::json;
use store::Write;
use trial::tap::Act;
use worker::{Handled, Outcome};

const REST: &str =
    "do: [ { rest: { wait: { seconds: 30 } } }, { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]";

#[tokio::test(start_paused = true)]
async fn a_timer_due_while_no_node_is_up_fires_when_one_starts() {
    let world = World::new();
    let node = world.build().worker(echo("w")).start().await;
    node.deploy("d", REST).await;
    let id = node.start("d", json!(1)).await;
    node.crash().await;
    pass(secs(3600)).await;
    assert_eq!(world.view(id).await.state_version, 1);
    let began = world.now();
    let next = world.build().worker(echo("w")).start().await;
    next.output(id).await;
    assert!(world.now().since(began).0 < 1_000_000, "at once");
}

#[tokio::test(start_paused = true)]
async fn signals_sent_before_all_nodes_died_are_used_when_one_starts() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", "do: [ { hear: { listen: { to: { one: { with: { type: go } } } } } } ]").await;
    let id = node.start("d", json!({})).await;
    let has_signal =
        |commit: &store::Commit| commit.writes.iter().any(|write| matches!(write, Write::Signal(_)));
    node.tap.once(has_signal, Act::CrashAfter);
    let lost = node.handle.signal(&node.tenant, id, signal_of("go", json!(1), None)).await;
    assert!(matches!(lost, Err(Refusal::Unavailable(_))), "{lost:?}");
    pass(secs(60)).await;
    assert_eq!(world.counts().await.signals, 1);
    let next = world.node().await;
    assert_eq!(next.output(id).await, json!([1]));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_a_minute_stops_work_without_a_storm_and_it_resumes_by_itself() {
    let world = World::new();
    let (declaration, seen) = recording(&world, "w", |_, input| Outcome::Done(input));
    let node = world.build().worker(declaration).start().await;
    node.deploy("d", REST).await;
    let mut ids = Vec::new();
    for n in 0..20 {
        ids.push(node.start("d", json!(n)).await);
    }
    pass(secs(20)).await;
    node.tap.break_down("*");
    node.tap.take_counts();
    pass(secs(60)).await;
    let asked: u64 = node.tap.take_counts().values().sum();
    assert!(asked < 400, "bounded back-off: {asked} requests in a minute");
    let refused = node.handle.start(&node.tenant, start_of("d", json!(0))).await;
    assert!(matches!(refused, Err(Refusal::Unavailable(_))), "{refused:?}");
    assert!(!node.handle.is_ready(), "a node that cannot write takes no work");
    node.tap.repair();
    let back = world.now();
    for id in ids {
        node.output(id).await;
    }
    while !node.handle.is_ready() {
        // It waited, it did not give up: the lease is renewed with the next try.
        pass(secs(1)).await;
    }
    assert!(world.now().since(back).0 < 10_000_000, "soon after, without anybody's help");
    assert_eq!(seen.lock().len(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_lease_is_not_renewed_is_not_ready() {
    let world = World::new();
    let node = world.build().start().await;
    node.tap.break_down("renew");
    pass(secs(10)).await;
    assert!(node.handle.is_ready(), "the lease still runs");
    pass(secs(10)).await;
    assert!(!node.handle.is_ready(), "another may take it over at any moment");
    node.tap.repair();
    pass(secs(5)).await;
    assert!(node.handle.is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_node_cut_off_from_the_store_begins_no_call_once_another_may_have_it() {
    let world = World::new();
    let gate = Gate::new();
    let node = world.build().worker(gate.worker("w").concurrency_max(1)).start().await;
    node.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]").await;
    let mut ids = Vec::new();
    for n in 0..100 {
        ids.push(node.start("d", json!(n)).await);
    }
    until(|| async { gate.begun() == 1 }).await;
    node.tap.break_down("*");
    pass(secs(10)).await;
    gate.open.add_permits(1);
    until(|| async { gate.begun() == 2 }).await;
    pass(secs(10)).await;
    gate.open.add_permits(99);
    pass(secs(60)).await;
    assert_eq!(gate.begun(), 2, "the others wait in memory, in front of a worker that is free");
    node.tap.repair();
    for id in ids {
        node.output(id).await;
    }
    assert_eq!(gate.begun(), 100, "nobody took it over, so that no call is made twice");
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_lease_may_be_over_hands_out_no_delivery() {
    let world = World::new();
    let (mail, calls) = noting(&world, "mail", &["order"], |_| Handled::done());
    let node = world.build().worker(mail).start().await;
    node.tap.break_down("renew");
    pass(secs(20)).await;
    publish_all(&node, events("order", 0..10)).await;
    pass(secs(60)).await;
    assert!(handled(&calls).is_empty(), "{:?}", handled(&calls));
    node.tap.repair();
    settled(&world).await;
    assert_eq!(handled(&calls), (0..10).collect::<Vec<i64>>());
}

#[tokio::test(start_paused = true)]
async fn what_had_to_be_read_first_for_longer_than_the_lease_is_not_begun() {
    let world = World::new();
    let (called, seen) = recording(&world, "called", |_, input| worker::Outcome::Done(input));
    let (mail, calls) = noting(&world, "mail", &["order"], |_| Handled::done());
    let workers = world.build().worker(called).worker(mail.key_by("data.n"));
    let node = workers.secrets(runtime::secrets::Keyring::fresh().0).start().await;
    node.handle.put_secret(&node.tenant, "one", &machine::Data::text("c4nary"), &[]).await.unwrap();
    node.deploy("d", "use: { secrets: [ one ] }\ndo: [ { a: { call: 'called:1.0.0@default', with: { v: '${ $secrets.one }' } } } ]").await;
    node.tap.break_down("renew");
    for reading in ["secret", "taken"] {
        node.tap.delay(reading, secs(20));
    }
    let id = node.start("d", json!({})).await;
    publish_all(&node, events("order", 0..3)).await;
    pass(secs(60)).await;
    assert_eq!((seen.lock().len(), handled(&calls)), (0, vec![]), "another may be at it by now");
    assert_eq!((world.counts().await.calls, world.letters().await.len()), (1, 0));
    node.tap.repair();
    node.output(id).await;
    settled(&world).await;
    assert_eq!(handled(&calls), [0, 1, 2]);
    assert_eq!(seen.lock().iter().map(|(context, _)| context.attempt).collect::<Vec<_>>(), [1]);
}

#[tokio::test(start_paused = true)]
async fn results_that_come_in_while_the_store_is_away_are_kept_and_committed_after() {
    let world = World::new();
    let gate = Gate::new();
    let node = world.build().worker(gate.worker("w")).start().await;
    node.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]").await;
    let mut ids = Vec::new();
    for n in 0..30 {
        ids.push(node.start("d", json!(n)).await);
    }
    until(|| async { gate.begun() == 30 }).await;
    node.tap.break_down("*");
    gate.open.add_permits(30);
    node.tap.take_counts();
    pass(secs(60)).await;
    let asked = node.tap.take_counts();
    assert!(asked["commit"] < 30 * 40, "each result backs off to 5 s: {asked:?}");
    node.tap.repair();
    for id in ids {
        node.output(id).await;
    }
    assert_eq!(gate.begun(), 30, "no call is made twice");
}

#[tokio::test(start_paused = true)]
async fn a_full_store_refuses_starts_as_full_and_takes_them_again_when_there_is_room() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", "do: [ { rest: { wait: { seconds: 5 } } } ]").await;
    let id = node.start("d", json!(1)).await;
    node.tap.on_commit(|_| Act::Full);
    let refused = node.handle.start(&node.tenant, start_of("d", json!(2))).await;
    assert!(matches!(refused, Err(Refusal::Full)), "{refused:?}");
    assert_eq!(world.status(id).await, "waiting", "reads work");
    pass(secs(60)).await;
    node.tap.on_commit(|_| Act::Pass);
    node.output(id).await;
    let id = node.start("d", json!(3)).await;
    node.output(id).await;
}

#[tokio::test(start_paused = true)]
async fn after_everything_died_in_the_middle_of_work_the_counts_add_up() {
    let world = World::new();
    let mut acknowledged = Vec::new();
    for round in 0..6u64 {
        let (declaration, _) = recording(&world, "w", |context, input| match context.attempt {
            1 => Outcome::retry("first never works"),
            _ => Outcome::Done(input),
        });
        let build = world.build().worker(declaration).options(|options| options.batch_max = 4);
        let node = if round % 2 == 0 { build.sole().start().await } else { build.start().await };
        node.deploy("d", REST).await;
        for n in 0..10 {
            acknowledged.push(node.start("d", json!(n)).await);
        }
        let mut left = 7 * round;
        node.tap.on_commit(move |_| {
            left = left.saturating_sub(1);
            match left {
                1 if round % 2 == 0 => Act::CrashBefore,
                1 => Act::CrashAfter,
                _ => Act::Pass,
            }
        });
        pass(secs(20 + round * 3)).await;
        node.crash().await;
    }
    let node = world.build().worker(echo("w")).sole().start().await;
    for id in &acknowledged {
        node.output(*id).await;
        assert_eq!(world.count(*id, "step.completed").await, 2, "P4");
    }
    let counts = world.counts().await;
    assert_eq!(counts.instances, [("completed".to_owned(), 60)], "P1, P11");
    assert_eq!((counts.calls, counts.timers, counts.signals, counts.dead_letters), (0, 0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn rows_claimed_while_the_answer_got_lost_are_found_again() {
    let world = World::new();
    let node = world.build().worker(echo("w")).start().await;
    node.deploy("d", REST).await;
    let id = node.start("d", json!(1)).await;
    // The claim lands, its answer does not.
    let timer = world.store.claim_timers(node.node.id(), machine::Time(i64::MAX), 9).await.unwrap();
    assert_eq!(timer.len(), 1);
    assert_eq!(node.output(id).await, json!(1));
    assert!(world.now().0 - EPOCH < 150_000_000, "two looks of the re-scan");
}
