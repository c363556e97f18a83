//! B20, B21, B22, P6: a commit lands whole or not at all, whatever breaks, and its cause comes again until it has.

use crate::support::*;
use machine::Data;
use runtime::api::{Refusal, TaskAct};
use serde_json::json;
use store::{Commit, Write, rows::HistoryRow};
use trial::tap::Act;
use uuid::Uuid;

/// Two rows that cannot both be: whatever commit holds them is refused.
fn poison() -> [Write; 2] {
    let row = HistoryRow { instance: Uuid::nil(), version: 1, at: machine::Time(0), events: vec![] };
    [Write::History(row.clone()), Write::History(row)]
}

fn starts(commit: &Commit) -> bool {
    commit.writes.iter().any(|write| matches!(write, Write::CreateInstance { .. }))
}

fn consumes_a_timer(commit: &Commit) -> bool {
    commit.writes.iter().any(|write| matches!(write, Write::ConsumeTimer { .. }))
}

fn consumes_a_call(commit: &Commit) -> bool {
    commit.writes.iter().any(|write| matches!(write, Write::ConsumeCall { .. }))
}

const EVERYTHING: &str = "do:
- all:
    fork:
      branches:
      - work: { call: 'w:1.0.0@default', with: { v: '${ . }' } }
      - rest: { wait: { seconds: 9 } }
      - ask: { call: 'human-task:1.0.0@default', with: { title: T } }
      - tell: { emit: { event: { with: { source: 'https://x', type: t } } } }
";

#[tokio::test(start_paused = true)]
async fn a_start_lands_whole_or_not_at_all_whichever_row_fails() {
    let world = World::new();
    let gate = Gate::new();
    let node = world.build().worker(gate.worker("w")).start().await;
    node.deploy("d", EVERYTHING).await;
    let mut position = 0;
    loop {
        let at = position;
        let length = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let measured = length.clone();
        node.tap.on_commit(move |batch| {
            for commit in batch.iter_mut().filter(|commit| starts(commit)) {
                measured.store(commit.writes.len(), std::sync::atomic::Ordering::SeqCst);
                let at = at.min(commit.writes.len());
                commit.writes.splice(at..at, poison());
            }
            Act::Pass
        });
        let mut start = start_of("d", json!({}));
        start.idempotency_key = Some(format!("key-{position}"));
        let refused = node.handle.start(&node.tenant, start).await.unwrap_err();
        assert!(matches!(refused, Refusal::Invalid { code: "refused-by-store", .. }), "{refused:?}");
        let counts = world.counts().await;
        assert!(counts.instances.is_empty(), "{counts:?}");
        assert_eq!((counts.calls, counts.timers, counts.tasks_open, counts.outbox), (0, 0, 0, 0));
        let key = world.store.inbox(&world.tenant, "start", &format!("key-{position}")).await.unwrap();
        assert_eq!(key, None, "the idempotency record goes with it");
        position += 1;
        if position > length.load(std::sync::atomic::Ordering::SeqCst) {
            break;
        }
    }
    assert!(position >= 9, "key, instance, history, call, timer, task, task event, outbox: {position}");
    assert_eq!(gate.begun(), 0, "nothing acts on what did not land");
}

#[tokio::test(start_paused = true)]
async fn a_completion_lands_whole_or_not_at_all_whichever_row_fails() {
    let world = World::new();
    let node = world.node().await;
    let ask = "{ call: 'human-task:1.0.0@default', with: { title: T } }";
    node.deploy("d", &format!("do: [ {{ a: {ask} }}, {{ b: {ask} }} ]")).await;
    let id = node.start("d", json!({})).await;
    let task = world.tasks(id).await.remove(0);
    let complete = || {
        let act = TaskAct::Complete { result: Data::bool(true) };
        node.handle.act_on_task(&node.tenant, task.id, act, "ann", None)
    };
    // Task, snapshot, projection or history, the next task and its event, the completion's own event.
    for position in 0..6 {
        node.tap.on_commit(move |batch| {
            for commit in batch.iter_mut() {
                let at = position.min(commit.writes.len());
                commit.writes.splice(at..at, poison());
            }
            Act::Pass
        });
        complete().await.unwrap_err();
        assert_eq!(world.view(id).await.state_version, 1);
        let tasks = world.tasks(id).await;
        assert_eq!((tasks.len(), &tasks[0]), (1, &task));
        assert_eq!(world.store.task_events(&world.tenant, task.id).await.unwrap().len(), 1);
    }
    node.tap.on_commit(|_| Act::Pass);
    complete().await.unwrap();
    assert_eq!((world.view(id).await.state_version, world.tasks(id).await.len()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_before_its_commit_leaves_the_timer_and_the_next_node_fires_it() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", "do: [ { a: { wait: { seconds: 1 } } }, { b: { wait: { seconds: 1 } } } ]").await;
    let id = node.start("d", json!({})).await;
    node.tap.once(consumes_a_timer, Act::CrashBefore);
    pass(secs(2)).await;
    assert_eq!((world.view(id).await.state_version, world.counts().await.timers), (1, 1));
    let next = world.node().await;
    assert_eq!(next.output(id).await, json!({}));
    assert_eq!(world.count(id, "step.completed").await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_after_its_commit_has_moved_the_instance_and_nothing_comes_again() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", "do: [ { a: { wait: { seconds: 1 } } }, { b: { wait: { seconds: 1 } } } ]").await;
    let id = node.start("d", json!({})).await;
    node.tap.once(consumes_a_timer, Act::CrashAfter);
    pass(secs(2)).await;
    assert_eq!(world.view(id).await.state_version, 2);
    assert_eq!(world.counts().await.timers, 1, "the first is gone, the next is there");
    let next = world.node().await;
    next.output(id).await;
    assert_eq!(world.view(id).await.state_version, 3);
    assert_eq!(world.count(id, "step.completed").await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_handled_but_not_committed_is_handled_again_under_the_same_key() {
    let world = World::new();
    let (declaration, seen) = recording(&world, "w", |_, input| worker::Outcome::Done(input));
    let node = world.build().worker(declaration.clone()).start().await;
    node.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]").await;
    node.tap.once(consumes_a_call, Act::CrashBefore);
    let id = node.start("d", json!({})).await;
    pass(secs(1)).await;
    assert_eq!((world.counts().await.calls, seen.lock().len()), (1, 1));
    let next = world.build().worker(declaration).start().await;
    next.output(id).await;
    let seen = seen.lock();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].0.key, seen[1].0.key);
    assert_eq!(seen[1].0.attempt, 1, "a dead node burns no attempt");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_read_back_and_never_repeated() {
    for act in [Act::Lost, Act::Landed] {
        let world = World::new();
        let (declaration, seen) = recording(&world, "w", |_, input| worker::Outcome::Done(input));
        let node = world.build().worker(declaration).start().await;
        node.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } }, { b: { wait: { seconds: 1 } } } ]").await;
        node.tap.once(starts, act);
        let mut start = start_of("d", json!({}));
        start.idempotency_key = Some("k".to_owned());
        let id = node.handle.start(&node.tenant, start).await.unwrap().id;
        node.tap.once(consumes_a_call, act);
        until(|| async { world.view(id).await.state_version == 2 }).await;
        node.tap.once(consumes_a_timer, act);
        node.output(id).await;
        assert_eq!(world.view(id).await.state_version, 3, "{act:?}");
        assert_eq!((world.count(id, "step.completed").await, seen.lock().len()), (2, 1), "{act:?}");
        assert_eq!(world.counts().await.instances, [("completed".to_owned(), 1)]);
    }
}

#[tokio::test(start_paused = true)]
async fn one_bad_commit_does_not_spoil_its_batch() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", "do: [ { a: { set: { x: 1 } } } ]").await;
    node.tap.on_commit(|batch| {
        let is_bad = |write: &Write| matches!(write, Write::CreateInstance { instance, .. } if instance.input == b"13");
        for commit in batch.iter_mut().filter(|commit| commit.writes.iter().any(is_bad)) {
            commit.writes.extend(poison());
        }
        Act::Pass
    });
    let all = (0..100).map(|n| start_of("d", json!(n))).collect();
    let answers = node.handle.start_many(&node.tenant, all).await;
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer.is_err(), n == 13, "{n}: {answer:?}");
    }
    assert_eq!(world.counts().await.instances, [("completed".to_owned(), 99)]);
}
