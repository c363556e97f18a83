//! Children: started once, told of once, closed with their parent, through crashes.

use crate::support::*;
use machine::Data;
use runtime::api::Order;
use serde_json::{Value, json};
use store::{Commit, Write, views::InstanceFilter};
use trial::tap::Act;
use uuid::Uuid;
use worker::{Class, Outcome};

const PARENT: &str = "do:
- c: { run: { workflow: { namespace: test, name: child, version: '1.0.0', input: { x: '${ .x }' } } } }
";
const WORKING_CHILD: &str = "do: [ { w: { call: 'work:1.0.0@default', with: { x: '${ .x }' } } } ]";
const WAITING_CHILD: &str = "do: [ { w: { listen: { to: { one: { with: { type: go } } } } } } ]";

impl World {
    /// The children of an instance, oldest first.
    pub(crate) async fn children(&self, parent: Uuid) -> Vec<store::views::InstanceView> {
        let filter = InstanceFilter { parent: Some(parent), ..InstanceFilter::default() };
        let mut all = self.store.instances(&self.tenant, &filter, &whole_page()).await.unwrap();
        all.reverse();
        all
    }

    async fn child(&self, parent: Uuid) -> store::views::InstanceView {
        until(|| async { !self.children(parent).await.is_empty() }).await;
        self.children(parent).await.remove(0)
    }

    pub(crate) async fn nothing_is_queued(&self) {
        until(|| async {
            let counts = self.counts().await;
            counts.signals + counts.calls + counts.timers + counts.dead_letters == 0
        })
        .await;
    }
}

fn echo() -> worker::Declaration {
    worker::Declaration::new("work", worker::from_fn(|_, input| Outcome::Done(input)))
}

#[tokio::test(start_paused = true)]
async fn a_child_is_an_instance_with_a_parent_and_its_output_is_the_steps() {
    let world = World::new();
    let node = world.build().worker(echo()).start().await;
    node.deploy("parent", PARENT).await;
    node.deploy("child", WORKING_CHILD).await;
    let id = node.start("parent", json!({"x": 7})).await;
    assert_eq!(node.output(id).await, json!({"x": 7}));
    let child = world.child(id).await;
    assert_eq!((child.row.name.as_str(), child.row.status.as_str()), ("child", "completed"));
    assert_eq!(child.row.parent.unwrap().instance, id);
    assert_eq!(world.count(id, "child.started").await, 1);
    assert_eq!(world.store.children(&world.tenant, id).await.unwrap(), [("completed".to_owned(), 1)]);
    world.nothing_is_queued().await;
}

#[tokio::test(start_paused = true)]
async fn a_child_that_needs_nothing_ends_in_the_commit_that_starts_it() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("parent", PARENT).await;
    node.deploy("child", "do: [ { s: { set: { y: '${ .x + 1 }' } } } ]").await;
    let id = node.start("parent", json!({"x": 1})).await;
    assert_eq!(node.output(id).await, json!({"y": 2}));
    assert_eq!(world.view(id).await.state_version, 2, "start, and the child's end");
}

#[tokio::test(start_paused = true)]
async fn a_large_output_is_read_from_the_childs_row() {
    let world = World::new();
    let text = "x".repeat(100_000);
    let answer = Data::text(text.clone());
    let worker = worker::Declaration::new("work", worker::from_fn(move |_, _| Outcome::Done(answer.clone())));
    let node = world.build().worker(worker).start().await;
    node.deploy("parent", PARENT).await;
    node.deploy("child", WORKING_CHILD).await;
    let id = node.start("parent", json!({})).await;
    assert_eq!(node.output(id).await, json!(text));
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_is_not_there_faults_the_step_and_a_retry_finds_it() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("parent", PARENT).await;
    let id = node.start("parent", json!({"x": 1})).await;
    let fault = node.fault(id).await;
    assert!(fault.error_type.ends_with("configuration"), "{fault:?}");
    assert_eq!(fault.instance.as_deref(), Some("/do/0/c"));
    node.deploy("child", "do: [ { s: { set: { y: 1 } } } ]").await;
    node.handle.order(&node.tenant, id, Order::Retry, "op").await.unwrap();
    assert_eq!(node.output(id).await, json!({"y": 1}));
    world.nothing_is_queued().await;
}

#[tokio::test(start_paused = true)]
async fn a_childs_error_is_the_steps() {
    let world = World::new();
    let worker = worker::Declaration::new(
        "work",
        worker::from_fn(|_, _| Outcome::fail(Class::Validation, "not that")),
    );
    let node = world.build().worker(worker).start().await;
    node.deploy("parent", PARENT).await;
    node.deploy("child", WORKING_CHILD).await;
    let id = node.start("parent", json!({})).await;
    let fault = node.fault(id).await;
    assert!(fault.error_type.ends_with("validation"));
    assert_eq!((fault.detail.as_deref(), fault.instance.as_deref()), (Some("not that"), Some("/do/0/c")));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_parent_cancels_its_child() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("parent", PARENT).await;
    node.deploy("child", WAITING_CHILD).await;
    let id = node.start("parent", json!({})).await;
    let child = world.child(id).await.row.id;
    node.handle.order(&node.tenant, id, Order::Cancel, "op").await.unwrap();
    until(|| async { world.status(child).await == "cancelled" }).await;
    world.nothing_is_queued().await;
    assert_eq!(world.status(id).await, "cancelled");
}

fn with_policy(policy: &str) -> String {
    format!(
        "do:
- c:
    call: 'child:1.0.0@default'
    with: {{ workflow: {{ namespace: test, name: child, version: latest }}, onParentClose: {policy}, id: the-child }}
"
    )
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_child_goes_on_and_a_parent_that_waits_ends_after_it() {
    for (policy, before) in [("abandon", "cancelled"), ("wait", "cancelling")] {
        let world = World::new();
        let node = world.node().await;
        node.deploy("parent", &with_policy(policy)).await;
        node.deploy("child", WAITING_CHILD).await;
        let id = node.start("parent", json!({})).await;
        let child = world.child(id).await;
        assert_eq!(child.row.business_key.as_deref(), Some("the-child"));
        node.handle.order(&node.tenant, id, Order::Cancel, "op").await.unwrap();
        pass(secs(10)).await;
        assert_eq!(world.status(id).await, before);
        assert_eq!(world.status(child.row.id).await, "waiting");
        node.signal(child.row.id, "go", json!(1)).await;
        node.output(child.row.id).await;
        until(|| async { world.status(id).await == "cancelled" }).await;
        world.nothing_is_queued().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_taken_faults_the_step() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("parent", &with_policy("cancel")).await;
    node.deploy("child", WAITING_CHILD).await;
    let first = node.start("parent", json!({})).await;
    world.child(first).await;
    let second = node.start("parent", json!({})).await;
    assert!(node.fault(second).await.error_type.ends_with("validation"));
    assert!(world.children(second).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_starts_itself_ends_with_a_fault() {
    let world = World::new();
    let node = world.node().await;
    node.deploy(
        "child",
        "do: [ { c: { run: { workflow: { namespace: test, name: child, version: '1.0.0' } } } } ]",
    )
    .await;
    let id = node.start("child", json!({})).await;
    let fault = node.fault(id).await;
    assert!(fault.detail.unwrap().contains("more than 64 levels deep"));
    world.nothing_is_queued().await;
}

/// The commits in which a parent and its child go through their lives.
fn creates(commit: &Commit) -> bool {
    commit
        .writes
        .iter()
        .any(|write| matches!(write, Write::CreateInstance { instance, .. } if instance.parent.is_some()))
}

fn tells(commit: &Commit) -> bool {
    commit
        .writes
        .iter()
        .any(|write| matches!(write, Write::Signal(row) if row.signal_type == "SubWorkflowCompleted"))
}

fn hears(commit: &Commit) -> bool {
    let consumes = commit.writes.iter().any(|write| matches!(write, Write::ConsumeSignal { .. }));
    consumes && commit.writes.iter().any(|write| matches!(write, Write::UpdateState(_)))
}

#[tokio::test(start_paused = true)]
async fn a_crash_or_a_lost_answer_anywhere_leaves_one_child_and_one_end() {
    for which in [creates, tells, hears] {
        for act in [Act::CrashBefore, Act::CrashAfter, Act::Lost, Act::Landed, Act::Unavailable] {
            let world = World::new();
            let node = world.build().worker(echo()).start().await;
            node.deploy("parent", PARENT).await;
            node.deploy("child", WORKING_CHILD).await;
            node.tap.once(which, act);
            let id = node.start("parent", json!({"x": 1})).await;
            let node = match act {
                Act::CrashBefore | Act::CrashAfter => {
                    pass(secs(1)).await;
                    node.crash().await;
                    world.build().worker(echo()).sole().start().await
                }
                _ => node,
            };
            assert_eq!(node.output(id).await, json!({"x": 1}), "{act:?}");
            assert_eq!(world.children(id).await.len(), 1, "{act:?}");
            assert_eq!(world.count(id, "child.ended").await, 1, "{act:?}");
            world.nothing_is_queued().await;
            let frames: Value = world.snapshot(id).await["subWorkflowFrames"].clone();
            assert_eq!(frames, json!([]), "{act:?}");
        }
    }
}
