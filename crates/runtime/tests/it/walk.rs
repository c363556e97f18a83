//! Walk (a): start → worker → timer → person → done, with the rows of every hop.

use crate::support::*;
use machine::{Data, Time, id};
use runtime::api::TaskAct;
use serde_json::json;
use worker::Outcome;

const WALK: &str = "do:
- charge: { call: 'charge:1.0.0@default', with: { amount: '${ .amount }' } }
- rest: { wait: { seconds: 60 } }
- tell: { emit: { event: { with: { source: 'https://shop', type: order.charged } } } }
- approve: { call: 'human-task:1.0.0@default', with: { title: Approve, candidateGroups: [finance], priority: 3 } }
- finish: { set: { approved: '${ .ok }' } }
";

#[tokio::test(start_paused = true)]
async fn an_instance_walks_from_start_over_worker_timer_and_person_to_its_end() {
    let world = World::new();
    let gate = Gate::new();
    let node = world.build().worker(gate.worker("charge")).start().await;
    node.deploy("walk", WALK).await;
    let began = world.now();
    let mut start = start_of("walk", json!({ "amount": 5 }));
    start.business_key = Some("order-1".to_owned());
    start.traceparent = Some("00-trace-01".to_owned());
    let id = node.handle.start(&node.tenant, start).await.unwrap().id;

    // Hop 1: the start's commit. Projection, snapshot and history at version 1, and the call it asks for.
    let view = world.view(id).await;
    assert_eq!((view.state_version, view.row.status.as_str()), (1, "running"));
    assert_eq!((view.runtime_status.as_str(), view.waiting_kind.as_deref()), ("Open", Some("Call")));
    assert_eq!(view.row.business_key.as_deref(), Some("order-1"));
    assert_eq!(view.row.input, br#"{"amount":5}"#);
    assert_eq!((view.row.created_at, view.row.ended_at), (began, None));
    assert_eq!(view.last_executed_by, node.node.id());
    assert_eq!(world.counts().await.calls, 1);
    assert_eq!(world.count(id, "workflow.started").await, 1);

    // Hop 2: the worker's answer becomes a timer row, in the commit that consumes the call.
    gate.open.add_permits(1);
    until(|| async { world.view(id).await.state_version == 2 }).await;
    let view = world.view(id).await;
    assert_eq!((view.row.status.as_str(), view.runtime_status.as_str()), ("waiting", "Suspended"));
    assert_eq!(view.waiting_kind.as_deref(), Some("Timer"));
    let due = view.waiting_until.unwrap();
    assert_eq!(
        (due, due.since(view.last_executed_on).0),
        (Time(view.last_executed_on.0 + 60_000_000), 60_000_000)
    );
    let counts = world.counts().await;
    assert_eq!((counts.calls, counts.timers), (0, 1));

    // Hop 3: the due timer becomes a task for a person, and an event for the outside.
    until(|| async { world.view(id).await.state_version == 3 }).await;
    assert!(world.now() >= due);
    let view = world.view(id).await;
    assert_eq!((view.row.status.as_str(), view.runtime_status.as_str()), ("waiting", "Open"));
    assert_eq!(view.waiting_kind.as_deref(), Some("TaskCompletion"));
    let task = world.tasks(id).await.remove(0);
    assert_eq!(view.active_task_id, Some(task.id));
    assert_eq!((task.title.as_str(), task.status.as_str(), task.priority), ("Approve", "open", 3));
    assert_eq!((task.step.as_str(), task.version), ("/do/3/approve", 1));
    assert_eq!(task.candidate_groups, br#"["finance"]"#);
    assert_eq!(world.counts().await.timers, 0);

    // Hop 4: the person's answer ends the instance.
    let act = |act| node.handle.act_on_task(&node.tenant, task.id, act, "ann", None);
    act(TaskAct::Claim).await.unwrap();
    let result = Data::from_json(json!({ "ok": true }));
    let task = act(TaskAct::Complete { result }).await.unwrap();
    assert_eq!(
        (task.status.as_str(), task.result.as_deref()),
        ("completed", Some(br#"{"ok":true}"#.as_slice()))
    );
    let view = world.view(id).await;
    assert_eq!((view.state_version, view.row.status.as_str()), (4, "completed"));
    assert_eq!(view.runtime_status, "Completed");
    assert_eq!((view.waiting_kind, view.active_task_id), (None, None));
    assert!(view.row.ended_at.is_some());
    assert_eq!(view.row.output.as_deref(), Some(br#"{"approved":true}"#.as_slice()));
    assert_eq!(node.output(id).await, json!({ "approved": true }));
    let events = world.store.task_events(&world.tenant, task.id).await.unwrap();
    let lines: Vec<_> = events.iter().map(|e| (e.sequence, e.kind.as_str(), e.actor.as_str())).collect();
    assert_eq!(lines, [(1, "created", "workflow"), (2, "assigned", "ann"), (3, "completed", "ann")]);
    until(|| async { world.counts().await.outbox == 0 }).await;
    let completed: Vec<_> =
        world.history(id).await.into_iter().filter(|(kind, _)| kind == "step.completed").collect();
    let steps: Vec<_> = completed.iter().map(|(_, step)| step.as_str()).collect();
    assert_eq!(steps, ["/do/0/charge", "/do/1/rest", "/do/2/tell", "/do/3/approve", "/do/4/finish"]);
}

#[tokio::test(start_paused = true)]
async fn a_completed_task_stays_readable_and_a_second_completion_is_a_conflict() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("ask", "do: [ { ask: { call: 'human-task:1.0.0@default', with: { title: T } } } ]").await;
    let id = node.start("ask", json!({})).await;
    let task = world.tasks(id).await.remove(0);
    let complete = |n: i64| {
        let act = TaskAct::Complete { result: Data::int(n) };
        node.handle.act_on_task(&node.tenant, task.id, act, "ann", None)
    };
    let (first, second) = tokio::join!(complete(1), complete(2));
    assert!(first.is_ok() != second.is_ok(), "exactly one has an effect: {first:?} {second:?}");
    let refusal = first.err().or(second.err()).unwrap();
    let runtime::api::Refusal::Conflict { code, .. } = refusal else { panic!("{refusal:?}") };
    assert_eq!(code, "task-ended");
    assert_eq!(world.view(id).await.state_version, 2);
    assert_eq!(world.tasks(id).await[0].status, "completed");
    assert_eq!(world.store.task_events(&world.tenant, task.id).await.unwrap().len(), 2);
    let shown = id::show(id::Kind::Instance, id);
    assert!(shown.starts_with("ins_"));
}

#[tokio::test(start_paused = true)]
async fn a_worker_sees_its_input_and_its_answer_is_the_steps_output() {
    let world = World::new();
    let (declaration, seen) = recording(&world, "double", |_, input| {
        Outcome::Done(Data::int(input.get("n").and_then(|n| n.as_i64()).unwrap_or(0) * 2))
    });
    let node = world.build().worker(declaration).start().await;
    node.deploy("one", "do: [ { a: { call: 'double:1.0.0@default', with: { n: '${ .n }' } } } ]").await;
    let id = node.start("one", json!({ "n": 21 })).await;
    assert_eq!(node.output(id).await, json!(42));
    let (context, _) = seen.lock()[0].clone();
    assert_eq!((context.step.as_str(), context.attempt), ("/do/0/a", 1));
    assert_eq!(context.instance, id::show(id::Kind::Instance, id));
}
