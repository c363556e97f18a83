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
fn an_answer_given_while_paused_is_not_undone_by_a_limit_that_passed_before_it() {
    let mut run = bench(
        "do:\n- ask: { call: 'human-task:1.0.0@default', with: { title: t }, timeout: { after: PT1H } }",
    )
    .start("{}");
    run.tell(Command::Pause);
    let (limit, task) = (run.timers[0].0, run.tasks[0].token);
    assert!(run.tell(Command::Timer { token: limit }));
    assert!(run.tell(Command::TaskDone { token: task, result: data("true") }));
    run.tell(Command::Resume);
    run.completes_with("true");
}

#[test]
fn a_given_up_call_is_put_back_only_while_it_is_waited_for() {
    let mut run = bench(TWO).start("{}");
    let token = run.calls[0].token;
    assert!(run.tell(Command::PutBack { token }));
    assert!(run.events.contains(&"dead-letter.replayed a".to_owned()));
    assert!(!run.tell(Command::PutBack { token: token + 100 }));
    run.tell(Command::Cancel);
    assert!(!run.tell(Command::PutBack { token }));
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
fn retry_makes_only_the_hop_that_faulted_again() {
    // (document, input): each faults on its way out of, or between, steps after one call was made.
    let documents = [
        ("do:\n- a: { call: 'w:1.0.0@default' }\noutput: { as: '. + {}' }", "the workflow's output"),
        ("do:\n- a: { call: 'w:1.0.0@default', output: { as: '. + {}' } }", "a step's output"),
        (
            "do:\n- d: { do: [ { a: { call: 'w:1.0.0@default' } } ], output: { as: '. + {}' } }",
            "an outer step's output",
        ),
        (
            "do:\n- l: { for: { each: x, in: '[1,2]' }, while: '. + {} | true', do: [ { a: { call: 'w:1.0.0@default' } } ] }",
            "a loop's condition",
        ),
        (
            "do:\n- f: { fork: { branches: [ { a: { call: 'w:1.0.0@default' } } ] }, output: { as: '. + {}' } }",
            "a fork's output",
        ),
    ];
    for (document, what) in documents {
        let mut run = bench(document).start(r#"{"k":1}"#);
        if run.calls.is_empty() {
            continue;
        }
        run.done("1");
        assert_eq!(run.state().status, Status::Faulted, "{what}");
        let completed = run.events.iter().filter(|event| *event == "step.completed a").count();
        assert!(run.tell(Command::Retry), "{what}");
        assert!(run.calls.is_empty(), "{what}: the call is not made again");
        assert_eq!(
            run.events.iter().filter(|event| *event == "step.completed a").count(),
            completed,
            "{what}"
        );
    }
}

#[test]
fn retry_after_a_faulting_workflow_input_begins_with_it() {
    let mut run = bench("input: { from: '. + {}' }\ndo:\n- a: { call: 'w:1.0.0@default' }").start("1");
    assert_eq!(run.state().status, Status::Faulted);
    assert!(run.tell(Command::Retry));
    assert_eq!(run.state().status, Status::Faulted, "the input is what it was");
    assert!(run.calls.is_empty());
}

#[test]
fn retry_after_an_attempt_ran_out_of_time_keeps_the_key() {
    let body = r"
        do:
        - first: { call: 'w:1.0.0@default' }
        - t:
            try: [ { c: { call: 'w:1.0.0@default' } } ]
            catch: { errors: { with: { status: 500 } }, retry: { delay: PT1S, limit: { attempt: { duration: PT5S } } } }";
    let mut run = bench(body).start("{}");
    run.done("1");
    let key = run.calls[0].key.clone();
    run.tick();
    assert_eq!(run.state().status, Status::Faulted);
    assert!(run.tell(Command::Retry));
    assert_eq!(run.calls.iter().map(|call| &call.key).collect::<Vec<_>>(), [&key]);
    assert_eq!(run.timers.len(), 1, "the attempt is limited again");
}

#[test]
fn retry_limits_the_steps_around_again() {
    let body = "timeout: { after: PT1H }\ndo:\n- d: { timeout: { after: PT1M }, do: [ { a: { call: 'w:1.0.0@default' } } ] }";
    let mut run = bench(body).start("{}");
    assert_eq!(run.timers.len(), 2);
    run.failed(500);
    assert!(run.timers.is_empty());
    assert!(run.tell(Command::Retry));
    assert_eq!(run.timers.len(), 2);
}

#[test]
fn a_call_given_up_while_paused_is_a_dead_letter_once_it_faults() {
    use crate::{Effect, command::GivenUp, decide::decide};
    let mut run = bench(TWO).start("{}");
    let call = run.calls.remove(0);
    let given_up = GivenUp { token: call.token, target: "w".into(), attempts: 5, envelope: "{}".into() };
    let fault = crate::Fault::new(crate::fault::Kind::Communication, "no answer");
    run.tell(Command::Pause);
    run.tell(Command::CallFailed { token: call.token, fault, given_up: Some(given_up.clone()) });
    let answer = decide(&run.program, &run.subject, run.state.as_ref(), &Command::Resume, run.now, &[]);
    let crate::Answer::Decided(decision) = answer else { panic!("resuming decides") };
    assert_eq!(decision.state.status, Status::Faulted);
    assert!(decision.effects.contains(&Effect::DeadLetter(given_up)));
}

#[test]
fn answers_are_kept_while_paused_however_many_signals_are() {
    let mut run = bench(TWO).start("{}");
    for number in 0..1005u128 {
        let event = data(r#"{"type":"x"}"#);
        let kept = run.tell(Command::Signal { id: uuid::Uuid::from_u128(number + 1), event });
        assert_eq!(kept, number < 1000, "what there is no room for must be told again later");
    }
    assert_eq!(run.state().buffer.len(), 1000);
    run.tell(Command::Pause);
    run.done("1");
    run.tell(Command::Resume);
    run.done("2").completes_with("2");
}

#[test]
fn commands_before_the_start_change_nothing() {
    let mut run = bench(TWO);
    assert!(!run.tell(Command::Cancel));
    assert!(!run.tell(Command::CallDone { token: 1, result: data("1") }));
}
