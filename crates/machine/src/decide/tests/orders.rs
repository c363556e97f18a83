//! What operators order.

use super::{bench, data};
use crate::{Command, state::Status};

const TWO: &str = "do:\n- a: { call: 'w:1.0.0@default' }\n- b: { call: 'w:1.0.0@default' }";

#[test]
fn cancelling_leaves_nothing_behind_and_ends() {
    let mut run = bench(
        "do:\n- f: { fork: { branches: [ { a: { call: 'w:1.0.0@default' } }, { b: { wait: PT1H } } ] } }",
    )
    .start("{}");
    assert!(run.tell(Command::Cancel));
    assert_eq!(run.state().status, Status::Cancelled);
    assert!(run.calls.is_empty() && run.timers.is_empty());
    assert!(!run.tell(Command::Cancel) && !run.tell(Command::Retry) && !run.tell(Command::Pause));
}

#[test]
fn what_comes_in_while_paused_is_obeyed_on_resume_in_order() {
    let mut run = bench(TWO).start("{}");
    assert!(run.tell(Command::Pause));
    assert_eq!(run.state().status_word(), "paused");
    run.done("1");
    assert!(run.calls.is_empty(), "a paused instance does not go on");
    assert!(run.tell(Command::Resume));
    run.done("2").completes_with("2");
}

#[test]
fn an_early_signal_survives_pause_and_resume() {
    let mut run = bench(
        "do:\n- c: { call: 'w:1.0.0@default' }\n- l: { listen: { to: { one: { with: { type: go } } } } }",
    )
    .start("{}");
    run.tell(Command::Pause);
    assert!(run.signal("go", "5"));
    run.tell(Command::Resume);
    run.done("1").completes_with("[5]");
}

#[test]
fn retry_runs_the_faulted_step_again_with_the_same_key() {
    let mut run = bench(TWO).start("{}");
    run.done("1");
    let key = run.calls[0].key.clone();
    run.failed(500);
    assert_eq!(run.state().status, Status::Faulted);
    assert!(run.tell(Command::Retry));
    assert_eq!(run.calls[0].key, key);
    run.done("2").completes_with("2");
}

#[test]
fn retry_also_restarts_what_the_fault_cut_off() {
    let mut run = bench("do:\n- f: { fork: { branches: [ { a: { call: 'w:1.0.0@default' } }, { b: { call: 'w:1.0.0@default' } } ] } }").start("{}");
    run.failed(500);
    assert!(run.calls.is_empty());
    assert!(run.tell(Command::Retry));
    assert_eq!(run.calls.len(), 2);
    run.done("1").done("2").completes_with("[1,2]");
}

#[test]
fn retry_after_the_workflow_output_failed_begins_again() {
    let mut run = bench("do:\n- a: { call: 'w:1.0.0@default' }\noutput: { as: '. + {}' }").start("{}");
    run.done("1");
    assert_eq!(run.state().status, Status::Faulted);
    assert!(run.tell(Command::Retry));
    run.done(r#"{"ok":1}"#).completes_with(r#"{"ok":1}"#);
}

#[test]
fn commands_before_the_start_change_nothing() {
    let mut run = bench(TWO);
    assert!(!run.tell(Command::Cancel));
    assert!(!run.tell(Command::CallDone { token: 1, result: data("1") }));
}
