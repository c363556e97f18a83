//! Children: starting them, what they tell, what becomes of them and of their parent.

use super::{Bench, bench, data};
use crate::{
    Command, Data, Fault,
    child::*,
    fault::Kind,
    id,
    ir::Then,
    state::{Status, WaitKind},
};
use uuid::Uuid;

const RUN: &str = "do: [ { c: { run: { workflow: { namespace: n, name: w, version: '1.0.0', input: { x: '${ .x }' } } } } } ]";

fn call<T: serde::de::DeserializeOwned>(run: &Bench, target: &str) -> (u64, T) {
    let call = run.calls.iter().find(|call| call.target == target).unwrap_or_else(|| panic!("no {target}"));
    (call.token, serde_json::from_value(call.input.to_json()).expect("its own shape"))
}

fn done(output: &str) -> Outcome {
    Outcome::Completed { output: data(output) }
}

fn failed(detail: &str) -> Outcome {
    Outcome::Faulted { error: Fault::new(Kind::Communication, detail) }
}

/// Starts the child that is asked for and answers its token.
fn started(run: &mut Bench) -> u64 {
    let (token, _) = call::<StartCall>(run, START);
    run.calls.clear();
    assert!(run.tell(Command::ChildStarted { token }));
    token
}

#[test]
fn run_workflow_waits_for_the_childs_output() {
    let mut run = bench(RUN).start(r#"{"x":1}"#);
    let (token, wanted) = call::<StartCall>(&run, START);
    assert_eq!(wanted.input, data(r#"{"x":1}"#));
    assert_eq!((wanted.parent.token, wanted.parent.depth, wanted.parent.tell), (token, 1, true));
    assert_eq!(run.state().status_word(), "waiting");
    started(&mut run);
    assert!(!run.tell(Command::ChildStarted { token }), "a second time changes nothing");
    assert!(run.tell(Command::ChildDone { token, outcome: done("42") }));
    run.completes_with("42");
    assert!(!run.tell(Command::ChildDone { token, outcome: done("43") }), "late");
}

#[test]
fn a_child_may_end_before_anybody_said_that_it_started() {
    let mut run = bench(RUN).start("{}");
    let (token, _) = call::<StartCall>(&run, START);
    assert!(run.tell(Command::ChildDone { token, outcome: done("1") }));
    run.completes_with("1");
    assert!(run.calls.len() == 1, "the row is consumed by whoever starts the child");
}

#[test]
fn the_snapshot_shows_the_child() {
    let mut run = bench(RUN).start("{}");
    let token = started(&mut run);
    let json = crate::snapshot::write(&run.program, run.state()).json;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let frame = &json["subWorkflowFrames"][0];
    assert_eq!(frame["waitingToken"], token.to_string());
    assert_eq!(frame["workflow"]["name"], "w");
    assert_eq!(frame["started"], true);
    assert_eq!(json["waiting"]["kind"], "Child");
    assert_eq!(json["resume"]["entryPointKind"], "SubWorkflowCompleted");
}

#[test]
fn without_await_the_step_ends_when_the_child_has_started() {
    let mut run = bench(
        "do: [ { c: { run: { await: false, workflow: { namespace: n, name: w, version: '1.0.0' } } } } ]",
    )
    .start(r#"{"x":1}"#);
    assert!(!call::<StartCall>(&run, START).1.parent.tell);
    started(&mut run);
    run.completes_with(r#"{"x":1}"#);
}

#[test]
fn a_faulted_child_faults_the_step_with_its_error_which_can_be_caught() {
    let mut run = bench(RUN).start("{}");
    let token = started(&mut run);
    assert!(run.tell(Command::ChildDone { token, outcome: failed("no route") }));
    run.faults_with("communication", 500, "/do/0/c");

    let mut run = bench(&format!(
        "do: [ {{ t: {{ try: {}, catch: {{ do: [ {{ d: {{ set: {{ ok: true }} }} }} ] }} }} }} ]",
        &RUN[4..]
    ))
    .start("{}");
    let token = started(&mut run);
    assert!(run.tell(Command::ChildDone { token, outcome: Outcome::Cancelled {} }));
    run.completes_with(r#"{"ok":true}"#);
}

#[test]
fn retry_starts_a_new_child() {
    let mut run = bench(RUN).start("{}");
    let first = started(&mut run);
    assert!(run.tell(Command::ChildDone { token: first, outcome: failed("once") }));
    assert!(run.tell(Command::Retry));
    let second = started(&mut run);
    assert_ne!(id::derive(run.subject.instance, first), id::derive(run.subject.instance, second));
    assert!(run.tell(Command::ChildDone { token: second, outcome: done("2") }));
    run.completes_with("2");
}

fn child_of(with: &str) -> String {
    format!(
        "do: [ {{ c: {{ call: 'child:1.0.0@default', with: {{ workflow: {{ namespace: n, name: w, version: '1.0.0' }}, {with} }} }} }} ]"
    )
}

#[test]
fn cancelling_the_parent_cancels_or_leaves_the_child() {
    for (policy, closed) in [("cancel", 1), ("abandon", 0)] {
        let mut run = bench(&child_of(&format!("onParentClose: {policy}"))).start("{}");
        let token = started(&mut run);
        assert!(run.tell(Command::Cancel));
        assert_eq!(run.state().status, Status::Cancelled);
        assert_eq!(run.closed.len(), closed, "{policy}");
        assert!(!run.tell(Command::ChildDone { token, outcome: done("1") }));
    }
}

#[test]
fn a_child_that_has_not_started_is_not_told_anything() {
    let mut run = bench(&child_of("onParentClose: wait")).start("{}");
    assert!(run.tell(Command::Cancel));
    assert_eq!(run.state().status, Status::Cancelled);
    assert!(run.closed.is_empty() && run.calls.is_empty());
}

#[test]
fn a_parent_that_must_wait_ends_after_its_child() {
    let mut run = bench(&child_of("onParentClose: wait")).start("{}");
    let token = started(&mut run);
    assert!(run.tell(Command::Cancel));
    assert_eq!((run.state().status, run.state().status_word()), (Status::Open, "cancelling"));
    assert!(!run.tell(Command::Cancel), "that is what it is coming to");
    assert!(run.tell(Command::Pause) && run.tell(Command::ChildDone { token, outcome: done("1") }));
    assert!(run.tell(Command::Resume));
    assert_eq!(run.state().status, Status::Cancelled);
    assert_eq!(run.events.last().map(String::as_str), Some("workflow.cancelled"));
}

#[test]
fn what_came_while_paused_counts_when_the_parent_is_cancelled() {
    let mut run = bench(&child_of("onParentClose: wait")).start("{}");
    let token = started(&mut run);
    assert!(run.tell(Command::Pause) && run.tell(Command::ChildDone { token, outcome: done("1") }));
    assert!(run.tell(Command::Cancel));
    assert_eq!(run.state().status, Status::Cancelled);
}

#[test]
fn a_fault_elsewhere_waits_for_the_child_and_can_be_retried() {
    let mut run = bench(&format!(
        "do: [ {{ f: {{ fork: {{ branches: {}, compete: false }} }} }} ]",
        child_of("onParentClose: wait")[4..]
            .replace(" } } ]", " } }, { w: { call: 'work:1.0.0@default' } } ]")
    ))
    .start("{}");
    let (child, _) = call::<StartCall>(&run, START);
    assert!(run.tell(Command::ChildStarted { token: child }));
    run.calls.retain(|call| call.target != START);
    run.failed(500);
    assert_eq!(run.state().status, Status::Open, "closing");
    assert!(run.state().faults());
    assert!(run.tell(Command::ChildDone { token: child, outcome: done("1") }));
    run.faults_with("communication", 500, "/do/0/f/fork/branches/1/w");
    assert!(run.tell(Command::Retry));
    assert_eq!(run.calls.len(), 2, "the step, and the child whose wait the fault cut off");
}

#[test]
fn a_losing_branch_closes_its_child() {
    let mut run = bench(&format!(
        "do: [ {{ f: {{ fork: {{ branches: {}, compete: true }} }} }} ]",
        RUN[4..].replace(" } } ]", " } }, { w: { wait: PT1S } } ]")
    ))
    .start("{}");
    let token = started(&mut run);
    run.tick();
    assert_eq!(run.state().status, Status::Completed);
    assert_eq!(run.closed, [id::derive(run.subject.instance, token)]);
}

#[test]
fn detached_answers_the_id_and_continue_with_completes() {
    for (with, then) in [("detached: true", Then::Continue), ("continueWith: true", Then::End)] {
        let body = child_of(with).replace(" } } ]", " } }, { after: { set: '${ . + { after: true } }' } } ]");
        let mut run = bench(&body).start("{}");
        let token = started(&mut run);
        let id = id::show(id::Kind::Instance, id::derive(run.subject.instance, token));
        run.completes_with(&match then {
            Then::End => format!(r#"{{"id":"{id}"}}"#),
            _ => format!(r#"{{"id":"{id}","after":true}}"#),
        });
    }
}

fn born_at(depth: u32, body: &str) -> Bench {
    let parent = Parent { instance: Uuid::from_u128(9), token: 5, depth, tell: true, item: None };
    let mut run = bench(body);
    let trace = Default::default();
    assert!(run.tell(Command::Start {
        input: Data::object(),
        business: None,
        trace,
        parent: Some(Box::new(parent)),
    }));
    run
}

#[test]
fn a_child_tells_its_parent_once() {
    let run = born_at(1, "do: [ { a: { set: { a: 1 } } } ]");
    assert_eq!(run.told, [done(r#"{"a":1}"#)]);
    let mut run = born_at(1, "do: [ { a: { call: 'work:1.0.0@default' } } ]");
    run.failed(500);
    assert!(matches!(run.told[..], [Outcome::Faulted { .. }]));
    assert!(run.tell(Command::Retry));
    run.done("1");
    assert_eq!((run.state().status, run.told.len()), (Status::Completed, 1), "the parent has gone on");
}

#[test]
fn a_child_whose_parent_closed_is_cancelled_and_says_nothing() {
    let mut run = born_at(1, "do: [ { a: { call: 'work:1.0.0@default' } } ]");
    assert!(run.tell(Command::ParentClosed));
    assert_eq!((run.state().status, run.told.len(), run.calls.len()), (Status::Cancelled, 0, 0));
    assert!(!run.tell(Command::ParentClosed));
}

#[test]
fn an_instance_that_starts_itself_comes_to_an_end() {
    let run = born_at(NESTING_MAX, RUN);
    run.faults_with("configuration", 400, "/do/0/c");
    assert!(born_at(NESTING_MAX - 1, RUN).calls.len() == 1);
    let run = born_at(NESTING_MAX, &child_of("continueWith: true"));
    assert_eq!(run.state().status, Status::Faulted, "it is as deep as can be");
}

#[test]
fn what_is_asked_for_is_checked() {
    let run = bench(&child_of("onParentClose: '${ 3 }'")).start("{}");
    run.faults_with("validation", 400, "/do/0/c");
    let run =
        bench("do: [ { c: { call: 'child:1.0.0@default', with: { workflow: '${ .w }' } } } ]").start("{}");
    run.faults_with("validation", 400, "/do/0/c");
}

#[test]
fn a_given_up_call_of_an_item_is_no_dead_letter() {
    for (item, letters) in [(None, 1), (Some(Item { index: 3, results: Uuid::from_u128(1), round: 0 }), 0)] {
        let mut run = born_at(1, "do: [ { a: { call: 'work:1.0.0@default' } } ]");
        run.state.as_mut().unwrap().parent.as_mut().unwrap().item = item;
        let call = run.calls.remove(0);
        let given_up = crate::command::GivenUp {
            token: call.token,
            target: call.target,
            attempts: 1,
            envelope: String::new(),
        };
        let fault = Fault::new(Kind::Runtime, "no");
        assert!(run.tell(Command::CallFailed { token: call.token, fault, given_up: Some(given_up) }));
        assert_eq!(run.given_up.len(), letters);
        assert!(run.state().waits.iter().all(|wait| wait.kind != WaitKind::Call));
    }
}
