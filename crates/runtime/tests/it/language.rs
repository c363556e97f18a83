//! What the language costs and keeps, through the real node: commits, events, what a crash leaves.

use crate::support::*;
use machine::ir::Lifecycle;
use runtime::api::{Refusal, TaskAct};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_hundred_pure_steps_are_one_commit() {
    let world = World::new();
    let node = world.node().await;
    let steps: Vec<String> =
        (0..100).map(|n| format!("- s{n}: {{ set: {{ n: '${{ .n + 1 }}' }} }}")).collect();
    node.deploy("pure", &format!("do:\n{}", steps.join("\n"))).await;
    let before = node.metric("windlass_commits_total");
    let id = node.start("pure", json!({ "n": 0 })).await;
    assert_eq!(node.output(id).await, json!({ "n": 100 }));
    assert_eq!(world.view(id).await.state_version, 1);
    assert_eq!(node.metric("windlass_commits_total") - before, 1.0);
}

const GOSSIP: &str = "do:
- hear:
    listen: { to: { any: [ { with: { type: word } } ], until: { one: { with: { type: stop } } } } }
    foreach: { item: word, at: i, do: [ { rest: { wait: { seconds: 60 } } }, { keep: { set: { said: '${ $word }', at: '${ $i }' } } } ] }
";

#[tokio::test(start_paused = true)]
async fn listening_with_foreach_goes_on_after_a_crash_in_the_middle_of_an_iteration() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("gossip", GOSSIP).await;
    let id = node.start("gossip", json!({})).await;
    node.signal(id, "word", json!("a")).await;
    node.signal(id, "word", json!("b")).await;
    until(|| async { world.count(id, "signal.buffered").await == 1 }).await;
    node.crash().await;
    let node = world.build().sole().start().await;
    node.signal(id, "stop", json!(null)).await;
    assert_eq!(node.output(id).await, json!([{ "said": "a", "at": 0 }, { "said": "b", "at": 1 }]));
    assert_eq!(world.count(id, "signal.received").await, 3);
}

#[tokio::test(start_paused = true)]
async fn lifecycle_events_are_rows_of_the_commit_that_they_tell_of() {
    let mut rows = Vec::new();
    for lifecycle in [Lifecycle::None, Lifecycle::Workflow, Lifecycle::All] {
        let world = World::new();
        let node = world.build().options(|options| options.lifecycle = lifecycle).start().await;
        node.deploy("one", "do:\n- one: { set: { x: 1 } }").await;
        let before = node.metric("windlass_rows_total");
        let id = node.start("one", json!({})).await;
        assert_eq!(node.output(id).await, json!({ "x": 1 }));
        assert_eq!(world.view(id).await.state_version, 1, "no commit more");
        rows.push(node.metric("windlass_rows_total") - before);
        until(|| async { world.counts().await.outbox == 0 }).await;
    }
    // Started and completed; then created, started and completed of the step too.
    assert_eq!([rows[1] - rows[0], rows[2] - rows[0]], [2.0, 5.0], "{rows:?}");
}

const ASK: &str = "do:
- ask:
    call: human-task:1.0.0@default
    with: { title: Approve, form: { type: object, required: [ approved ], properties: { approved: { type: boolean } } } }
";

#[tokio::test(start_paused = true)]
async fn a_result_that_does_not_fit_the_form_changes_nothing() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("ask", ASK).await;
    let id = node.start("ask", json!({})).await;
    let task = world.tasks(id).await.remove(0);
    let complete = |result: serde_json::Value| {
        let act = TaskAct::Complete { result: machine::Data::from_json(result) };
        node.handle.act_on_task(&node.tenant, task.id, act, "ada", None)
    };
    let refused = complete(json!({ "approved": "yes" })).await.unwrap_err();
    let Refusal::Invalid { code, problems, .. } = refused else { panic!("{refused:?}") };
    assert_eq!((code, problems[0].pointer.as_str()), ("task-result-invalid", "/approved"));
    assert_eq!(world.tasks(id).await.remove(0).version, task.version);
    complete(json!({ "approved": true })).await.unwrap();
    assert_eq!(node.output(id).await, json!({ "approved": true }));
}
