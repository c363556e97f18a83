//! Steps that wait: calls, timers, people, events.

use super::{bench, data};
use crate::{Command, Time, state::WaitKind};

const CALL: &str = "do:\n- a: { call: 'greet:1.0.0@default', with: { name: '${ .who }' } }";

#[test]
fn a_call_waits_for_its_answer_and_outputs_it() {
    let mut run = bench(CALL).start(r#"{"who":"Ann"}"#);
    assert_eq!(run.calls[0].target, "greet");
    assert_eq!(run.calls[0].input, data(r#"{"name":"Ann"}"#));
    assert_eq!(run.state().status_word(), "running");
    run.done(r#"{"hello":"Ann"}"#).completes_with(r#"{"hello":"Ann"}"#);
}

#[test]
fn a_late_or_foreign_answer_changes_nothing() {
    let mut run = bench(CALL).start("{}");
    assert!(!run.tell(Command::CallDone { token: 999, result: data("1") }));
    let token = run.calls[0].token;
    assert!(!run.tell(Command::Timer { token }), "a timer cannot answer a call");
    run.done("1");
    assert!(!run.tell(Command::CallDone { token, result: data("2") }), "twice");
    run.completes_with("1");
}

#[test]
fn call_keys_are_stable_over_retries_and_distinct_over_iterations() {
    let body = r"
        do:
        - l:
            for: { each: x, in: '[1,2]' }
            do:
            - t:
                try: [ { c: { call: 'w:1.0.0@default' } } ]
                catch: { retry: { delay: { seconds: 1 } } }";
    let mut run = bench(body).start("{}");
    let first = run.calls[0].key.clone();
    run.failed(503).tick();
    assert_eq!(run.calls[0].key, first, "a retry keeps the key");
    run.done("{}");
    assert_ne!(run.calls[0].key, first, "another iteration has another key");
}

#[test]
fn jumping_back_to_a_call_makes_a_new_key() {
    let body = r"
        do:
        - c: { call: 'w:1.0.0@default' }
        - again: { switch: [ { more: { when: '. < 2', then: c } } ] }";
    let mut run = bench(body).start("{}");
    let first = run.calls[0].key.clone();
    run.done("1");
    assert_ne!(run.calls[0].key, first);
    run.done("2").completes_with("2");
}

#[test]
fn wait_stands_until_its_time_and_passes_its_input_on() {
    let mut run = bench("do:\n- w: { wait: { minutes: 5 } }").start(r#"{"k":1}"#);
    assert_eq!(run.timers[0].1, Time(1_000_000_000 + 300_000_000));
    assert_eq!((run.state().status_word(), run.state().runtime_status()), ("waiting", "Suspended"));
    run.tick().completes_with(r#"{"k":1}"#);
}

#[test]
fn a_stale_timer_cannot_end_a_newer_wait() {
    let mut run = bench("do:\n- a: { wait: PT1S }\n- b: { wait: PT1S }").start("{}");
    let old = run.timers[0].0;
    run.tick();
    assert!(!run.tell(Command::Timer { token: old }));
    assert_eq!(run.state().waits.len(), 1);
}

#[test]
fn a_person_answers_a_task() {
    let body = "do:\n- ask: { call: 'human-task:1.0.0@default', with: { title: Approve, candidateGroups: [ finance ], data: '${ .sum }' } }";
    let mut run = bench(body).start(r#"{"sum":5}"#);
    let task = run.tasks[0].clone();
    assert_eq!(
        (task.title.as_str(), task.candidate_groups.as_slice()),
        ("Approve", ["finance".to_owned()].as_slice())
    );
    assert_eq!(task.payload, data("5"));
    let stored = crate::snapshot::write(&run.program, run.state());
    assert_eq!(stored.waiting.unwrap().kind, "TaskCompletion");
    assert_eq!(stored.resume.unwrap().entry_point_kind, "TaskOnComplete");
    assert!(run.tell(Command::TaskDone { token: task.token, result: data(r#"{"ok":true}"#) }));
    run.completes_with(r#"{"ok":true}"#);
}

#[test]
fn listen_takes_a_matching_signal_and_outputs_an_array() {
    let body = "do:\n- l: { listen: { to: { one: { with: { type: paid, data: '${ .sum > 10 }' } } } } }";
    let mut run = bench(body).start("{}");
    assert!(run.signal("shipped", "{}"));
    assert!(run.signal("paid", r#"{"sum":5}"#));
    assert_eq!(run.state().buffer.len(), 2, "signals nobody waits for are kept");
    assert!(run.signal("paid", r#"{"sum":50}"#));
    run.completes_with(r#"[{"sum":50}]"#);
}

#[test]
fn a_signal_that_came_before_its_wait_counts() {
    let body = "do:\n- w: { wait: PT1S }\n- l: { listen: { to: { one: { with: { type: paid } } } } }";
    let mut run = bench(body).start("{}");
    assert!(run.signal("paid", "1"));
    run.tick().completes_with("[1]");
}

#[test]
fn the_same_signal_is_kept_once() {
    let mut run = bench("do:\n- w: { wait: PT1S }").start("{}");
    let id = uuid::Uuid::from_u128(99);
    let event = data(r#"{"type":"x","data":1}"#);
    assert!(run.tell(Command::Signal { id, event: event.clone() }));
    assert!(!run.tell(Command::Signal { id, event }));
}

#[test]
fn correlation_compares_with_what_was_expected_when_the_wait_began() {
    let body = r"
        do:
        - set: { set: { order: '${ .order }' } }
        - l:
            listen:
              to:
                one:
                  with: { type: paid }
                  correlate: { order: { from: .data.order, expect: '${ .order }' } }";
    let body = body.replace("- set: {", "- keep: {");
    let mut run = bench(&body).start(r#"{"order":7}"#);
    run.signal("paid", r#"{"order":8}"#);
    assert_eq!(run.state().buffer.len(), 1);
    run.signal("paid", r#"{"order":7}"#);
    run.completes_with(r#"[{"order":7}]"#);
}

#[test]
fn fork_branches_wait_side_by_side_with_their_own_tokens() {
    let body = r"
        do:
        - both:
            fork:
              branches:
              - a: { call: 'w:1.0.0@default' }
              - b: { wait: PT1S }
              - c: { call: 'w:1.0.0@default' }";
    let mut run = bench(body).start("{}");
    assert_eq!(run.state().waits.len(), 3);
    run.done("1").tick().done("3").completes_with(r#"[1,{},3]"#);
}

#[test]
fn the_first_of_competing_branches_wins_and_the_others_are_cancelled() {
    let body = r"
        do:
        - race:
            fork:
              compete: true
              branches:
              - slow: { wait: PT1H }
              - ask: { call: 'human-task:1.0.0@default', with: { title: t } }
              - call: { call: 'w:1.0.0@default' }";
    let mut run = bench(body).start("{}");
    run.done(r#"{"won":1}"#).completes_with(r#"{"won":1}"#);
    assert!(run.timers.is_empty() && run.tasks.is_empty(), "losers leave nothing behind");
}

#[test]
fn a_limit_interrupts_with_a_timeout_and_leaves_nothing_behind() {
    let body = "do:\n- c: { call: 'w:1.0.0@default', timeout: { after: PT5S } }";
    let mut run = bench(body).start("{}");
    assert_eq!(run.state().shown_wait().unwrap().kind, WaitKind::Call);
    run.tick();
    run.faults_with("timeout", 408, "/do/0/c");
    assert!(run.calls.is_empty());
}

#[test]
fn a_limit_that_is_not_reached_is_dropped() {
    let mut run = bench("do:\n- c: { call: 'w:1.0.0@default', timeout: { after: PT5S } }").start("{}");
    run.done("1").completes_with("1");
    assert!(run.timers.is_empty());
}

#[test]
fn the_whole_workflow_may_have_a_limit() {
    let mut run = bench("timeout: { after: PT5S }\ndo:\n- c: { call: 'w:1.0.0@default' }").start("{}");
    run.tick();
    run.faults_with("timeout", 408, "/");
}

#[test]
fn http_calls_carry_method_address_and_body() {
    let body = r"
        do:
        - h:
            call: http
            with:
              method: post
              endpoint: https://api.test/pets/{id}
              query: { q: '${ .word }' }
              headers: { x-a: '1' }
              body: { n: '${ .id }' }";
    let run = bench(body).start(r#"{"id":"a b","word":"x&y"}"#);
    let request = run.calls[0].input.clone();
    assert_eq!(request.get("url").unwrap().as_str(), Some("https://api.test/pets/a%20b?q=x%26y"));
    assert_eq!(request.get("method").unwrap().as_str(), Some("POST"));
    assert_eq!(request.get("body"), Some(data(r#"{"n":"a b"}"#)));
}

#[test]
fn http_headers_and_query_may_come_from_an_expression() {
    let body = r"
        do:
        - h:
            call: http
            with:
              method: get
              endpoint: https://api.test/
              query: '${ .query }'
              headers: '${ .headers }'";
    let run = bench(body).start(r#"{"query":{"n":1},"headers":{"x-b":"2"}}"#);
    let request = run.calls[0].input.clone();
    assert_eq!(request.get("url").unwrap().as_str(), Some("https://api.test/?n=1"));
    assert_eq!(request.get("headers"), Some(data(r#"[["x-b","2"]]"#)));
}

#[test]
fn what_one_decision_makes_and_drops_is_never_made() {
    let body = "do:\n- race: { fork: { compete: true, branches: [ { a: { call: 'w:1.0.0@default' } }, { t: { call: 'human-task:1.0.0@default', with: { title: t } } }, { b: { set: { won: true } } } ] } }";
    let run = bench(body);
    let command =
        Command::Start { input: data("{}"), business: None, trace: Default::default(), parent: None };
    let answer = crate::decide(&run.program, &run.subject, None, &command, run.now, &[]);
    let crate::Answer::Decided(decision) = answer else { panic!("a start decides") };
    assert_eq!(decision.effects, []);
    assert_eq!(decision.state.output, Some(data(r#"{"won":true}"#)));
}

#[test]
fn a_filter_that_faults_on_an_event_does_not_take_it() {
    let mut run =
        bench("do:\n- l: { listen: { to: { one: { with: { type: go, data: '${ .n + {} == 1 }' } } } } }")
            .start("{}");
    assert!(run.signal("go", r#"{"n":1}"#));
    assert_eq!(run.state().status_word(), "waiting");
}

#[test]
fn attributes_may_be_regular_expressions() {
    let mut run =
        bench("do:\n- l: { listen: { to: { one: { with: { type: 'order\\.(paid|shipped)' } } } } }")
            .start("{}");
    run.signal("order.paid.twice", "1");
    assert_eq!(run.state().buffer.len(), 1);
    run.signal("order.shipped", "2");
    run.completes_with("[2]");
}

#[test]
fn emitted_events_carry_the_trace_of_the_start() {
    let mut run = bench("do:\n- e: { emit: { event: { with: { source: 'https://a', type: t } } } }");
    let trace = crate::command::Trace {
        traceparent: Some("00-1-2-01".into()),
        tracestate: None,
        correlation_id: Some("c".into()),
        hops: Some(2),
    };
    assert!(run.tell(Command::Start { input: data("{}"), business: None, trace, parent: None }));
    assert_eq!(run.emitted[0].get("traceparent"), Some(data(r#""00-1-2-01""#)));
    assert_eq!(run.emitted[0].get("correlationid"), Some(data(r#""c""#)));
    assert_eq!(run.emitted[0].get("hops"), Some(data("3")));
}

fn unmatched(run: &super::Bench) -> usize {
    run.events.iter().filter(|event| *event == "signal.unmatched").count()
}

#[test]
fn a_signal_after_the_end_is_said_to_be_unmatched_and_changes_nothing_else() {
    let mut run = bench("do:\n- l: { listen: { to: { one: { with: { type: go } } } } }").start("{}");
    assert!(run.signal("go", "1"));
    let ended = run.state().clone();
    assert!(run.signal("go", "2"));
    assert_eq!((unmatched(&run), run.events.last().unwrap().as_str()), (1, "signal.unmatched"));
    assert!(*run.state() == ended, "it stays as it ended");
    run.completes_with("[1]");
}

#[test]
fn signals_that_were_kept_for_nothing_are_said_to_be_unmatched_at_the_end() {
    let mut run = bench("do:\n- w: { wait: PT1S }").start("{}");
    assert!(run.signal("a", "1") && run.signal("b", "2"));
    run.tick();
    assert_eq!((unmatched(&run), run.events.last().unwrap().as_str()), (2, "workflow.completed"));
}

#[test]
fn a_cancelled_instance_says_which_signals_it_had_no_use_for() {
    let mut run = bench("do:\n- w: { wait: PT1S }").start("{}");
    assert!(run.signal("early", "1"));
    assert!(run.tell(Command::Pause));
    assert!(run.signal("paused", "2"));
    assert!(run.tell(Command::Cancel));
    assert!(run.signal("late", "3"));
    assert_eq!(unmatched(&run), 3);
}

#[test]
fn signals_left_over_when_a_resumed_instance_ends_are_unmatched() {
    let mut run = bench("do:\n- l: { listen: { to: { one: { with: { type: go } } } } }").start("{}");
    run.tell(Command::Pause);
    assert!(run.signal("go", "1") && run.signal("go", "2"));
    run.tell(Command::Resume);
    run.completes_with("[1]");
    assert_eq!((unmatched(&run), run.state().buffer.len()), (1, 0));
}

#[test]
fn a_faulted_instance_keeps_signals_for_when_it_is_run_again() {
    let body =
        "do:\n- c: { call: 'w:1.0.0@default' }\n- l: { listen: { to: { one: { with: { type: go } } } } }";
    let mut run = bench(body).start("{}");
    assert!(run.signal("go", "1"));
    run.failed(500);
    assert!(run.signal("go", "2"));
    assert_eq!((unmatched(&run), run.state().buffer.len()), (0, 2));
    run.tell(Command::Retry);
    run.done("0").completes_with("[1]");
    assert_eq!(unmatched(&run), 1);
}
