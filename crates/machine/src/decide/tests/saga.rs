//! Sagas: forward, back, and what happens in between.

use super::{Bench, bench, data};
use crate::{Command, state::Status};

/// Three steps whose functions are workers: `book`, `pay` and `ship`, undone by `unbook` and `unpay`.
const TRIP: &str = r"
    use:
      functions:
        unpay: { call: 'unpay:1.0.0@default', with: { paid: '${ .output.id }', of: '${ .input.sum }' } }
    do:
    - trip:
        call: saga:1.0.0@default
        with:
          steps:
          - { name: book, do: 'book:1.0.0@default', undo: 'unbook:1.0.0@default', with: { city: '${ .city }' } }
          - { name: pay, do: 'pay:1.0.0@default', undo: unpay, with: { sum: 7, booked: '${ $steps.book.id }' } }
          - { name: ship, do: 'ship:1.0.0@default', with: { paid: '${ $steps.pay.id }' } }";

const INPUT: &str = r#"{"city":"Oslo"}"#;

fn target(run: &Bench) -> &str {
    match run.calls.as_slice() {
        [call] => &call.target,
        calls => panic!("{} calls: {calls:?}", calls.len()),
    }
}

/// Answers the only call, which must be this one.
#[track_caller]
fn did(run: &mut Bench, name: &str) {
    assert_eq!(target(run), name);
    let result = format!(r#"{{"id":"{name}"}}"#);
    run.done(&result);
}

/// Lets the only call, which must be this one, fail for good.
#[track_caller]
fn broke(run: &mut Bench, name: &str) {
    assert_eq!(target(run), name);
    run.failed(503);
}

#[test]
fn a_saga_that_goes_well_names_each_output() {
    let mut run = bench(TRIP).start(INPUT);
    assert_eq!(run.calls[0].input, data(r#"{"city":"Oslo"}"#));
    assert_eq!(run.calls[0].step, "/do/0/trip/with/steps/0/do");
    did(&mut run, "book");
    assert_eq!(run.calls[0].input, data(r#"{"sum":7,"booked":"book"}"#));
    did(&mut run, "pay");
    assert_eq!(run.calls[0].input, data(r#"{"paid":"pay"}"#));
    did(&mut run, "ship");
    run.completes_with(r#"{"book":{"id":"book"},"pay":{"id":"pay"},"ship":{"id":"ship"}}"#);
}

#[test]
fn a_fault_undoes_what_is_done_in_reverse_and_then_faults_the_instance() {
    let mut run = bench(TRIP).start(INPUT);
    did(&mut run, "book");
    did(&mut run, "pay");
    broke(&mut run, "ship");
    assert_eq!(run.state().status, Status::Open, "undoing comes first");
    assert_eq!(run.calls[0].input, data(r#"{"paid":"pay","of":7}"#));
    assert_eq!(run.calls[0].step, "/do/0/trip/with/steps/1/undo");
    did(&mut run, "unpay");
    let given = r#"{"input":{"city":"Oslo"},"output":{"id":"book"}}"#;
    assert_eq!(run.calls[0].input, data(given), "undo sees what was given and what came of it");
    did(&mut run, "unbook");
    run.faults_with("communication", 503, "/do/0/trip/with/steps/2/do");
    assert!(run.calls.is_empty() && run.timers.is_empty());
}

#[test]
fn the_fault_can_be_caught_outside_after_the_undoing() {
    let body = TRIP.replace(
        "    - trip:\n        call:",
        "    - around:\n        try:\n        - trip:\n            call:",
    );
    let body = body.replace(
        "            call: saga:1.0.0@default\n        with:\n          steps:",
        "            call: saga:1.0.0@default\n            with:\n              steps:",
    );
    let body = body.replace("\n          - {", "\n              - {");
    let body = format!(
        "{body}\n        catch: {{ do: [ {{ seen: {{ set: {{ status: '${{ $error.status }}' }} }} }} ] }}"
    );
    let mut run = bench(&body).start(INPUT);
    did(&mut run, "book");
    broke(&mut run, "pay");
    assert!(!run.events.iter().any(|event| event.starts_with("step.caught")));
    did(&mut run, "unbook");
    run.completes_with(r#"{"status":503}"#);
}

#[test]
fn the_first_step_failing_leaves_nothing_to_undo() {
    let mut run = bench(TRIP).start(INPUT);
    broke(&mut run, "book");
    run.faults_with("communication", 503, "/do/0/trip/with/steps/0/do");
    assert!(run.tell(Command::Retry));
    did(&mut run, "book");
    assert_eq!(target(&run), "pay");
}

#[test]
fn retrying_an_undone_saga_does_it_anew_with_other_keys() {
    let mut run = bench(TRIP).start(INPUT);
    let first = run.calls[0].key.clone();
    did(&mut run, "book");
    broke(&mut run, "pay");
    did(&mut run, "unbook");
    assert_eq!(run.state().status, Status::Faulted);
    assert!(run.tell(Command::Retry));
    assert_eq!(target(&run), "book");
    assert_ne!(run.calls[0].key, first, "what was undone and is done again is another effect");
    for name in ["book", "pay", "ship"] {
        did(&mut run, name);
    }
    assert_eq!(run.state().status, Status::Completed);
}

#[test]
fn cancelling_undoes_first_and_a_second_cancel_changes_nothing() {
    let mut run = bench(TRIP).start(INPUT);
    did(&mut run, "book");
    assert!(run.tell(Command::Cancel));
    assert_eq!(run.state().status_word(), "cancelling");
    // The call to `pay` was under way: nobody knows what it did, so it is undone too.
    let given = r#"{"paid":null,"of":7}"#;
    assert_eq!(run.calls[0].input, data(given));
    assert!(!run.tell(Command::Cancel));
    did(&mut run, "unpay");
    assert!(!run.tell(Command::Cancel));
    assert_eq!(target(&run), "unbook", "neither lost nor begun twice");
    did(&mut run, "unbook");
    assert_eq!(run.state().status, Status::Cancelled);
    assert!(run.calls.is_empty() && run.timers.is_empty());
    let told = |kind: &str| run.events.iter().filter(|event| event.starts_with(kind)).count();
    let kinds = ["workflow.cancelling", "saga.undoing", "saga.undone", "workflow.cancelled"];
    assert_eq!(kinds.map(told), [1, 1, 1, 1]);
}

#[test]
fn a_step_that_only_waits_has_done_nothing_yet() {
    let body = r"
        use: { functions: { hold: { wait: PT1H } } }
        do:
        - s:
            call: saga:1.0.0@default
            with: { steps: [ { name: a, do: 'a:1.0.0@default', undo: 'b:1.0.0@default' }, { name: w, do: hold, undo: 'c:1.0.0@default' } ] }";
    let mut run = bench(body).start("{}");
    did(&mut run, "a");
    run.tell(Command::Cancel);
    assert!(run.timers.is_empty());
    did(&mut run, "b");
    assert_eq!(run.state().status, Status::Cancelled);
}

#[test]
fn cancelling_while_undoing_for_a_fault_ends_cancelled() {
    let mut run = bench(TRIP).start(INPUT);
    did(&mut run, "book");
    broke(&mut run, "pay");
    assert_eq!(target(&run), "unbook");
    assert!(run.tell(Command::Cancel));
    assert_eq!(target(&run), "unbook", "the undo under way goes on");
    did(&mut run, "unbook");
    assert_eq!(run.state().status, Status::Cancelled);
}

#[test]
fn pausing_while_undoing_holds_the_rest_back() {
    let mut run = bench(TRIP).start(INPUT);
    did(&mut run, "book");
    did(&mut run, "pay");
    broke(&mut run, "ship");
    assert!(run.tell(Command::Pause));
    did(&mut run, "unpay");
    assert!(run.calls.is_empty());
    assert!(run.tell(Command::Cancel), "what was done while paused counts");
    did(&mut run, "unbook");
    assert_eq!(run.state().status, Status::Cancelled);
}

#[test]
fn a_step_done_while_paused_is_undone_by_a_cancel() {
    let mut run = bench(TRIP).start(INPUT);
    assert!(run.tell(Command::Pause));
    did(&mut run, "book");
    assert!(run.tell(Command::Cancel));
    assert_eq!(run.calls[0].input, data(r#"{"input":{"city":"Oslo"},"output":{"id":"book"}}"#));
    did(&mut run, "unbook");
    assert_eq!(run.state().status, Status::Cancelled, "`pay` never began");
}

#[test]
fn limits_of_the_step_and_of_the_workflow_undo() {
    for (document, instance) in [
        (TRIP.replace("    - trip:\n", "    - trip:\n        timeout: { after: PT1M }\n"), "/do/0/trip"),
        (format!("    timeout: {{ after: PT1M }}\n{}", TRIP.trim_start_matches('\n')), "/"),
    ] {
        let mut run = bench(&document).start(INPUT);
        did(&mut run, "book");
        run.tick();
        did(&mut run, "unpay");
        did(&mut run, "unbook");
        run.faults_with("timeout", 408, instance);
        assert!(run.tell(Command::Retry));
        assert_eq!((target(&run), run.timers.len()), ("book", 1), "anew, with a limit");
    }
}

#[test]
fn an_undo_is_retried_and_then_an_incident_that_keeps_the_state() {
    let mut run = bench(TRIP).start(INPUT);
    did(&mut run, "book");
    did(&mut run, "pay");
    broke(&mut run, "ship");
    let key = run.calls[0].key.clone();
    let mut delays = Vec::new();
    for _ in 0..6 {
        broke(&mut run, "unpay");
        delays.push((run.timers[0].1.0 - run.now.0) / 1_000_000);
        run.tick();
        assert_eq!(run.calls[0].key, key);
    }
    assert_eq!(delays, [1, 2, 4, 8, 16, 32]);
    broke(&mut run, "unpay");
    run.faults_with("communication", 503, "/do/0/trip/with/steps/1/undo");
    let [incident] = run.incidents.as_slice() else { panic!("{:?}", run.incidents) };
    assert_eq!((incident.step.as_str(), incident.attempts), ("/do/0/trip/with/steps/1/undo", 7));
    assert!(run.tell(Command::Retry));
    assert_eq!(run.calls[0].key, key);
    did(&mut run, "unpay");
    did(&mut run, "unbook");
    run.faults_with("communication", 503, "/do/0/trip/with/steps/2/do");
    assert_eq!(run.incidents.len(), 1);
}

#[test]
fn an_incident_while_cancelling_goes_on_cancelling() {
    let body = TRIP
        .replace("undo: unpay,", "undo: unpay, retry: { delay: PT1S, limit: { attempt: { count: 0 } } },");
    let mut run = bench(&body).start(INPUT);
    did(&mut run, "book");
    run.tell(Command::Cancel);
    broke(&mut run, "unpay");
    assert_eq!(run.state().status, Status::Faulted);
    assert!(run.tell(Command::Retry));
    assert_eq!(run.state().status_word(), "cancelling");
    did(&mut run, "unpay");
    did(&mut run, "unbook");
    assert_eq!(run.state().status, Status::Cancelled);
}

#[test]
fn a_try_inside_an_undo_has_the_first_word() {
    let body = TRIP.replace(
        "unpay: { call: 'unpay:1.0.0@default', with: { paid: '${ .output.id }', of: '${ .input.sum }' } }",
        "unpay: { try: [ { u: { call: 'unpay:1.0.0@default' } } ], catch: { do: [ { note: { call: 'note:1.0.0@default' } } ] } }",
    );
    let mut run = bench(&body).start(INPUT);
    did(&mut run, "book");
    did(&mut run, "pay");
    broke(&mut run, "ship");
    broke(&mut run, "unpay");
    did(&mut run, "note");
    did(&mut run, "unbook");
    run.faults_with("communication", 503, "/do/0/trip/with/steps/2/do");
}

/// Like the trip, with payment as the pivot.
fn pivot() -> String {
    TRIP.replace(
        "name: pay, do: 'pay:1.0.0@default', undo: unpay",
        "name: pay, pivot: true, do: 'pay:1.0.0@default'",
    )
}

#[test]
fn past_the_pivot_a_saga_only_goes_forward() {
    let mut run = bench(&pivot()).start(INPUT);
    did(&mut run, "book");
    did(&mut run, "pay");
    for _ in 0..6 {
        broke(&mut run, "ship");
        run.tick();
    }
    broke(&mut run, "ship");
    run.faults_with("communication", 503, "/do/0/trip/with/steps/2/do");
    assert_eq!(run.incidents.len(), 1);
    assert!(run.tell(Command::Retry));
    did(&mut run, "ship");
    assert_eq!(run.state().status, Status::Completed);
}

#[test]
fn before_the_pivot_is_done_it_can_still_go_back() {
    let mut run = bench(&pivot()).start(INPUT);
    did(&mut run, "book");
    broke(&mut run, "pay");
    did(&mut run, "unbook");
    run.faults_with("communication", 503, "/do/0/trip/with/steps/1/do");
}

#[test]
fn a_cancel_waits_for_the_pivot_and_then_goes_where_it_leads() {
    let mut run = bench(&pivot()).start(INPUT);
    did(&mut run, "book");
    run.tell(Command::Cancel);
    assert_eq!(run.state().status_word(), "cancelling");
    did(&mut run, "pay");
    did(&mut run, "ship");
    assert_eq!(run.state().status, Status::Cancelled, "done to the end, then cancelled");

    let mut run = bench(&pivot()).start(INPUT);
    did(&mut run, "book");
    run.tell(Command::Cancel);
    broke(&mut run, "pay");
    did(&mut run, "unbook");
    assert_eq!(run.state().status, Status::Cancelled);
}

#[test]
fn a_fault_beside_a_saga_past_its_pivot_waits_for_its_end() {
    let body = format!(
        "{}\n    - never: {{ set: {{ x: 1 }} }}",
        pivot().replace(
            "    - trip:\n        call:",
            "    - trip:\n        timeout: { after: PT1M }\n        call:"
        )
    );
    let mut run = bench(&body).start(INPUT);
    did(&mut run, "book");
    did(&mut run, "pay");
    run.tick();
    assert_eq!(run.state().status, Status::Open);
    did(&mut run, "ship");
    run.faults_with("timeout", 408, "/do/0/trip");
    assert!(run.tell(Command::Retry));
    run.completes_with(r#"{"x":1}"#);
}

const PAIR: &str = r"{ call: 'saga:1.0.0@default', with: { steps: [
    { name: a, do: 'NAME-a:1.0.0@default', undo: 'NAME-x:1.0.0@default' },
    { name: b, do: 'NAME-b:1.0.0@default', undo: 'NAME-y:1.0.0@default' } ] } }";

fn pair(name: &str) -> String {
    PAIR.replace("NAME", name).replace('\n', " ")
}

/// Answers the call to that worker, among several.
#[track_caller]
fn does(run: &mut Bench, name: &str) {
    let position = run.calls.iter().position(|call| call.target == name);
    let position = position.unwrap_or_else(|| panic!("no call {name}: {:?}", run.calls));
    let call = run.calls.remove(position);
    assert!(run.tell(Command::CallDone { token: call.token, result: data("1") }));
}

#[track_caller]
fn fails(run: &mut Bench, name: &str) {
    let position = run.calls.iter().position(|call| call.target == name).expect("a call of that name");
    let call = run.calls.remove(position);
    let fault = crate::Fault::new(crate::fault::Kind::Communication, "x");
    assert!(run.tell(Command::CallFailed { token: call.token, fault, given_up: None }));
}

fn targets(run: &Bench) -> Vec<&str> {
    let mut all: Vec<&str> = run.calls.iter().map(|call| call.target.as_str()).collect();
    all.sort_unstable();
    all
}

#[test]
fn a_fault_in_one_branch_undoes_the_saga_of_another_before_it_goes_on() {
    let body = format!(
        "do:\n- f: {{ fork: {{ branches: [ {{ s: {} }}, {{ c: {{ call: 'c:1.0.0@default' }} }} ] }} }}",
        pair("s")
    );
    let mut run = bench(&body).start("{}");
    does(&mut run, "s-a");
    fails(&mut run, "c");
    assert_eq!(targets(&run), ["s-y"], "the step under way is undone too");
    does(&mut run, "s-y");
    does(&mut run, "s-x");
    run.faults_with("communication", 500, "/do/0/f/fork/branches/1/c");
    assert!(run.tell(Command::Retry));
    assert_eq!(targets(&run), ["c", "s-a"]);
    for name in ["c", "s-a", "s-b"] {
        does(&mut run, name);
    }
    assert_eq!(run.state().status, Status::Completed);
}

#[test]
fn losing_a_competition_undoes_before_the_fork_completes() {
    let body = format!(
        "do:\n- f: {{ fork: {{ compete: true, branches: [ {{ s: {} }}, {{ c: {{ call: 'c:1.0.0@default' }} }} ] }} }}",
        pair("s")
    );
    let mut run = bench(&body).start("{}");
    does(&mut run, "s-a");
    does(&mut run, "c");
    assert_eq!(run.state().status, Status::Open);
    does(&mut run, "s-y");
    does(&mut run, "s-x");
    run.completes_with("1");
}

#[test]
fn a_competing_branch_may_still_win_while_another_undoes() {
    let body = format!(
        "do:\n- f: {{ fork: {{ compete: true, branches: [ {{ s: {} }}, {{ c: {{ call: 'c:1.0.0@default' }} }} ] }} }}",
        pair("s")
    );
    let mut run = bench(&body).start("{}");
    does(&mut run, "s-a");
    fails(&mut run, "s-b");
    assert_eq!(targets(&run), ["c", "s-x"]);
    does(&mut run, "c");
    assert_eq!(targets(&run), ["s-x"]);
    does(&mut run, "s-x");
    run.completes_with("1");
    // And the other way round.
    let mut run = bench(&body).start("{}");
    does(&mut run, "s-a");
    fails(&mut run, "s-b");
    fails(&mut run, "c");
    does(&mut run, "s-x");
    run.faults_with("communication", 500, "/do/0/f/fork/branches/0/s/with/steps/1/do");
}

#[test]
fn sagas_side_by_side_are_undone_side_by_side() {
    let body =
        format!("do:\n- f: {{ fork: {{ branches: [ {{ s: {} }}, {{ t: {} }} ] }} }}", pair("s"), pair("t"));
    let mut run = bench(&body).start("{}");
    does(&mut run, "s-a");
    does(&mut run, "t-a");
    run.tell(Command::Cancel);
    assert_eq!(targets(&run), ["s-y", "t-y"]);
    does(&mut run, "t-y");
    does(&mut run, "s-y");
    does(&mut run, "s-x");
    assert_eq!(run.state().status_word(), "cancelling");
    does(&mut run, "t-x");
    assert_eq!(run.state().status, Status::Cancelled);
}

#[test]
fn a_saga_inside_a_saga_is_undone_first() {
    let body = format!(
        "use: {{ functions: {{ inner: {} }} }}\ndo:\n- outer: {{ call: 'saga:1.0.0@default', with: {{ steps: [ {{ name: one, do: 'one:1.0.0@default', undo: 'undo-one:1.0.0@default' }}, {{ name: two, do: inner, undo: 'undo-two:1.0.0@default' }} ] }} }}",
        pair("i")
    );
    let mut run = bench(&body).start("{}");
    does(&mut run, "one");
    does(&mut run, "i-a");
    run.tell(Command::Cancel);
    let mut order = Vec::new();
    while run.state().status == Status::Open {
        let name = targets(&run)[0].to_owned();
        assert_eq!(run.calls.len(), 1);
        does(&mut run, &name);
        order.push(name);
    }
    assert_eq!(order, ["i-y", "i-x", "undo-two", "undo-one"]);
    assert_eq!(run.state().status, Status::Cancelled);

    // A fault of the inner saga is the fault of the outer one's step: that step undid itself.
    let mut run = bench(&body).start("{}");
    does(&mut run, "one");
    does(&mut run, "i-a");
    fails(&mut run, "i-b");
    does(&mut run, "i-x");
    assert_eq!(targets(&run), ["undo-one"]);
    does(&mut run, "undo-one");
    assert_eq!(run.state().status, Status::Faulted);
}

#[test]
fn a_try_around_retries_the_whole_saga_after_undoing_it() {
    let body = format!(
        "do:\n- t: {{ try: [ {{ s: {} }} ], catch: {{ retry: {{ delay: PT1S, limit: {{ attempt: {{ count: 2 }} }} }} }} }}",
        pair("s")
    );
    let mut run = bench(&body).start("{}");
    let key = run.calls[0].key.clone();
    does(&mut run, "s-a");
    fails(&mut run, "s-b");
    assert!(run.timers.is_empty());
    does(&mut run, "s-x");
    run.tick();
    assert_ne!(run.calls[0].key, key);
    does(&mut run, "s-a");
    does(&mut run, "s-b");
    run.completes_with(r#"{"a":1,"b":1}"#);
}

#[test]
fn each_iteration_has_a_saga_of_its_own() {
    let body = format!("do:\n- l: {{ for: {{ in: '[1,2]' }}, do: [ {{ s: {} }} ] }}", pair("s"));
    let mut run = bench(&body).start("{}");
    does(&mut run, "s-a");
    does(&mut run, "s-b");
    does(&mut run, "s-a");
    fails(&mut run, "s-b");
    does(&mut run, "s-x");
    run.faults_with("communication", 500, "/do/0/l/do/0/s/with/steps/1/do");
    assert!(run.calls.is_empty(), "the first iteration's saga is history");
}

#[test]
fn an_end_beside_a_saga_undoes_it_before_the_workflow_completes() {
    let body = format!(
        "do:\n- f: {{ fork: {{ branches: [ {{ s: {} }}, {{ c: {{ call: 'c:1.0.0@default', then: end }} }} ] }} }}",
        pair("s")
    );
    let mut run = bench(&body).start("{}");
    does(&mut run, "s-a");
    does(&mut run, "c");
    does(&mut run, "s-y");
    assert_eq!(run.state().status, Status::Open);
    does(&mut run, "s-x");
    run.completes_with("1");
}

#[test]
fn a_step_cut_off_by_its_own_limit_may_have_had_an_effect() {
    let body = r"
        use: { functions: { slow: { call: 'slow:1.0.0@default', timeout: { after: PT5S } } } }
        do:
        - s: { call: 'saga:1.0.0@default', with: { steps: [ { name: a, do: slow, undo: 'x:1.0.0@default' } ] } }";
    let mut run = bench(body).start("{}");
    run.tick();
    assert_eq!(run.calls[0].input, data(r#"{"input":{},"output":null,"interrupted":true}"#));
    does(&mut run, "x");
    run.faults_with("timeout", 408, "/do/0/s/with/steps/0/do");
}

#[test]
fn a_yield_inside_an_undo_goes_on() {
    let body = r"
        use:
          functions:
            long: { for: { each: i, in: '[range(1500)]' }, do: [ { n: { set: { i: '${ $i }' } } } ] }
        do:
        - s: { call: 'saga:1.0.0@default', with: { steps: [ { name: a, do: 'a:1.0.0@default', undo: long }, { name: b, do: 'b:1.0.0@default' } ] } }";
    let mut run = bench(body).start("{}");
    does(&mut run, "a");
    fails(&mut run, "b");
    while let Some(token) = run.continues.pop() {
        assert!(run.tell(Command::Continue { token }));
    }
    run.faults_with("communication", 500, "/do/0/s/with/steps/1/do");
}
