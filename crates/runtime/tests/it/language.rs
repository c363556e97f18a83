//! What the language costs and keeps, through the real node: commits, events, what a crash leaves.

use crate::{
    stub::{Near, Stub, ok},
    support::*,
};
use machine::{Data, Fault, TenantId, expr::Evaluation, ir::Lifecycle, language::Format, time::Span};
use runtime::{
    api::{Order, Refusal, TaskAct},
    sandbox::{NotRun, ScriptCall},
};
use serde_json::json;
use std::sync::Arc;

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
        // Before anything of it is published.
        rows.push(node.metric("windlass_rows_total") - before);
        assert_eq!(node.output(id).await, json!({ "x": 1 }));
        assert_eq!(world.view(id).await.state_version, 1, "no commit more");
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

const REMEMBERS: &str = "use:
  functions:
    remember:
      do:
      - keep: { set: { s: 1 }, export: { as: '{ own: 1 }' } }
      - rest: { wait: { hours: 1 } }
      - look: { set: { own: '${ $context.own }' } }
do:
- first: { set: { s: 1 }, export: { as: '{ mine: 7 }' } }
- call: { call: remember, output: { as: '. + { after: $context }' } }
";

#[tokio::test(start_paused = true)]
async fn what_a_function_exported_outlives_a_crash_and_stays_its_own() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("remembers", REMEMBERS).await;
    let id = node.start("remembers", json!({})).await;
    until(|| async { world.status(id).await == "waiting" }).await;
    node.crash().await;
    let node = world.build().sole().start().await;
    pass(secs(3600)).await;
    assert_eq!(node.output(id).await, json!({ "own": 1, "after": { "mine": 7 } }));
    assert_eq!(world.count(id, "step.started").await, 5, "the call of the function began once");
}

#[tokio::test]
async fn a_definition_refers_to_32_documents_and_not_one_more() {
    let stub = Stub::secure(&["elsewhere.example"], |_, _| ok(json!({ "set": { "x": 1 } }))).await;
    let line = format!("elsewhere.example:443=127.0.0.1:{}", stub.port);
    let near = Near::new(|egress| {
        egress.resolve = vec![line.parse().unwrap()];
        egress.roots = vec![stub.root.clone()];
    })
    .await;
    let document = |count: usize| {
        let step = |n: usize| format!("- s{n}: {{ call: 'https://elsewhere.example/f{n}.json' }}\n");
        let steps: String = (0..count).map(step).collect();
        format!(
            "document: {{ dsl: '1.0.3', namespace: test, name: many-{count}, version: '1.0.0' }}\ndo:\n{steps}"
        )
    };
    let deploy = async |count: usize| {
        near.node.handle.deploy(&near.node.tenant, document(count).as_bytes(), Format::Yaml, false).await
    };
    deploy(32).await.unwrap();
    assert_eq!(stub.asked().len(), 32);
    let refused = deploy(33).await.unwrap_err();
    let Refusal::Invalid { code, problems, .. } = refused else { panic!("{refused:?}") };
    assert_eq!(
        (code, problems.len(), problems[0].pointer.as_str()),
        ("definition-invalid", 1, "/do/32/s32/call")
    );
    let why = "(a definition may refer to at most 32 documents)";
    assert!(problems[0].message.ends_with(why), "{}", problems[0].message);
}

/// A sandbox with one place, in which a script takes for ever.
struct Endless {
    place: Arc<tokio::sync::Semaphore>,
}

#[async_trait::async_trait]
impl runtime::engine::Evaluate for Endless {
    async fn evaluate(&self, _: &TenantId, evaluation: Evaluation) -> Result<Result<Data, Fault>, NotRun> {
        Ok(evaluation.run())
    }

    async fn script(&self, _: &TenantId, _: ScriptCall) -> Result<Result<Data, Fault>, NotRun> {
        let _place = self.place.acquire().await;
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_script_that_nobody_waits_for_leaves_its_place_at_once() {
    let world = World::new();
    let place = Arc::new(tokio::sync::Semaphore::new(1));
    let node = world.build().evaluator(Endless { place: place.clone() });
    let node = node.options(|options| options.scripts = true).start().await;
    let script = "run: { script: { language: js, code: 'for (;;);' } }";
    node.deploy(
        "limited",
        &format!("do:\n- t:\n    try: [ {{ s: {{ {script}, timeout: {{ after: PT1S }} }} }} ]\n    catch: {{ do: [ {{ late: {{ set: {{ late: true }} }} }} ] }}"),
    )
    .await;
    node.deploy("cancelled", &format!("do:\n- s: {{ {script} }}")).await;
    let id = node.start("limited", json!({})).await;
    until(|| async { place.available_permits() == 0 }).await;
    assert_eq!(node.output(id).await, json!({ "late": true }));
    let ended = world.now();
    until(|| async { place.available_permits() == 1 }).await;
    assert!(world.now().since(ended) < Span::from_secs(1), "the sandbox would have let it run for 10 s");
    let id = node.start("cancelled", json!({})).await;
    until(|| async { place.available_permits() == 0 }).await;
    node.handle.order(&node.tenant, id, Order::Cancel, "ann").await.unwrap();
    until(|| async { place.available_permits() == 1 }).await;
}
