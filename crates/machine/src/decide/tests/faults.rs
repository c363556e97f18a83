//! Raising, catching, retrying.

use super::{bench, check};

#[test]
fn an_uncaught_error_faults_the_instance_where_it_was_raised() {
    let run =
        bench("do:\n- r: { raise: { error: { type: 'https://x.test/compliance', status: 418, title: T } } }")
            .start("{}");
    run.faults_with("compliance", 418, "/do/0/r");
}

#[test]
fn a_failing_expression_is_an_expression_error() {
    let run = bench("do:\n- a: { do: [ { b: { set: { x: '${ .a + {} }' } } } ] }").start(r#"{"a":1}"#);
    run.faults_with("expression", 400, "/do/0/a/do/0/b");
}

#[test]
fn catch_takes_what_its_filter_names() {
    let body = r"
        do:
        - t:
            try:
            - c: { call: 'w:1.0.0@default' }
            catch:
              errors: { with: { status: 404 } }
              as: e
              do:
              - seen: { set: { status: '${ $e.status }', where: '${ $e.instance }' } }";
    let mut run = bench(body).start("{}");
    run.failed(404).completes_with(r#"{"status":404,"where":"/do/0/t/try/0/c"}"#);
    let mut run = bench(body).start("{}");
    run.failed(500).faults_with("communication", 500, "/do/0/t/try/0/c");
}

#[test]
fn standard_types_match_in_all_their_spellings() {
    let body = r"
        do:
        - t:
            try: [ { a: { set: { x: '${ 1 + {} }' } } } ]
            catch:
              errors: { with: { type: 'https://open-workflow-specification.org/dsl/errors/types/expression' } }
              do: [ { ok: { set: { caught: true } } } ]";
    check(body, "{}", r#"{"caught":true}"#);
}

#[test]
fn when_and_except_when_decide_about_catching() {
    let body = r"
        do:
        - t:
            try: [ { c: { call: 'w:1.0.0@default' } } ]
            catch:
              when: $error.status >= 500
              exceptWhen: $error.status == 501
              do: [ { ok: { set: { caught: true } } } ]";
    let outcome = |status| {
        let mut run = bench(body).start("{}");
        run.failed(status);
        run.state().status_word()
    };
    assert_eq!((outcome(503), outcome(501), outcome(404)), ("completed", "faulted", "faulted"));
}

#[test]
fn retries_come_first_with_growing_delays_then_the_catch_steps_once() {
    let body = r"
        do:
        - t:
            try: [ { c: { call: 'w:1.0.0@default' } } ]
            catch:
              retry: { delay: { seconds: 1 }, backoff: { exponential: {} }, limit: { attempt: { count: 3 } } }
              do: [ { gave-up: { set: { gaveUp: true } } } ]";
    let mut run = bench(body).start("{}");
    let mut delays = Vec::new();
    for _ in 0..3 {
        run.failed(503);
        delays.push((run.timers[0].1.0 - run.now.0) / 1_000_000);
        run.tick();
    }
    assert_eq!(delays, [1, 2, 4]);
    run.failed(503).completes_with(r#"{"gaveUp":true}"#);
    assert_eq!(run.events.iter().filter(|event| event.starts_with("step.retried")).count(), 3);
}

#[test]
fn exhausted_retries_without_catch_steps_raise_the_error_again() {
    let body = r"
        do:
        - t:
            try: [ { c: { call: 'w:1.0.0@default' } } ]
            catch: { retry: { delay: PT1S, limit: { attempt: { count: 1 } } } }";
    let mut run = bench(body).start("{}");
    run.failed(503).tick().failed(503);
    run.faults_with("communication", 503, "/do/0/t/try/0/c");
}

#[test]
fn the_overall_limit_ends_retries() {
    let body = r"
        do:
        - t:
            try: [ { c: { call: 'w:1.0.0@default' } } ]
            catch:
              retry: { delay: PT10S, limit: { duration: PT15S } }
              do: [ { g: { set: { n: 1 } } } ]";
    let mut run = bench(body).start("{}");
    run.failed(503).tick().failed(503).completes_with(r#"{"n":1}"#);
}

#[test]
fn an_attempt_may_have_its_own_limit() {
    let body = r"
        do:
        - t:
            try: [ { c: { call: 'w:1.0.0@default' } } ]
            catch: { retry: { delay: PT1S, limit: { attempt: { count: 2, duration: PT5S } } } }";
    let mut run = bench(body).start("{}");
    run.tick();
    assert!(run.calls.is_empty(), "the slow attempt is cut off");
    run.tick();
    run.done("1").completes_with("1");
}

#[test]
fn context_written_inside_a_failing_try_is_kept() {
    let body = r"
        do:
        - t:
            try:
            - note: { set: { a: 1 }, export: { as: '{ done: true }' } }
            - c: { call: 'w:1.0.0@default' }
            catch:
              do: [ { see: { set: { kept: '${ $context.done }' } } } ]";
    let mut run = bench(body).start("{}");
    run.failed(500).completes_with(r#"{"kept":true}"#);
}

#[test]
fn a_catch_without_steps_or_retry_swallows_the_error() {
    check(
        "do:\n- t: { try: [ { r: { raise: { error: { type: 'https://x', status: 400 } } } } ], catch: { errors: {} } }",
        r#"{"k":1}"#,
        r#"{"k":1}"#,
    );
}

#[test]
fn an_error_in_the_catch_steps_goes_outwards() {
    let body = r"
        do:
        - outer:
            try:
            - inner:
                try: [ { c: { call: 'w:1.0.0@default' } } ]
                catch:
                  do: [ { again: { raise: { error: { type: 'https://x/second', status: 409 } } } } ]
            catch:
              do: [ { ok: { set: { status: '${ $error.status }' } } } ]";
    let mut run = bench(body).start("{}");
    run.failed(500).completes_with(r#"{"status":409}"#);
}

#[test]
fn a_failing_branch_cancels_its_siblings() {
    let body = r"
        do:
        - t:
            try:
            - both:
                fork:
                  branches:
                  - a: { call: 'w:1.0.0@default' }
                  - b: { wait: PT1H }
            catch:
              do: [ { ok: { set: { caught: '${ $error.status }' } } } ]";
    let mut run = bench(body).start("{}");
    run.failed(502).completes_with(r#"{"caught":502}"#);
    assert!(run.timers.is_empty());
}

#[test]
fn a_failing_competitor_leaves_the_race_to_the_others() {
    let body = r"
        do:
        - race:
            fork:
              compete: true
              branches:
              - a: { call: 'w:1.0.0@default' }
              - b: { call: 'w:1.0.0@default' }";
    let mut run = bench(body).start("{}");
    run.failed(500);
    run.done("2").completes_with("2");
    let mut run = bench(body).start("{}");
    run.failed(500).failed(501);
    run.faults_with("communication", 501, "/do/0/race/fork/branches/1/b");
}

#[test]
fn a_timeout_is_catchable_and_ends_what_is_inside() {
    let body = r"
        do:
        - t:
            try:
            - ask: { call: 'human-task:1.0.0@default', with: { title: t }, timeout: { after: { hours: 72 } } }
            catch:
              errors: { with: { type: 'https://serverlessworkflow.io/spec/1.0.0/errors/timeout' } }
              do: [ { escalate: { call: 'human-task:1.0.0@default', with: { title: Escalated } } } ]";
    let mut run = bench(body).start("{}");
    run.tick();
    assert_eq!(run.tasks.iter().map(|task| task.title.as_str()).collect::<Vec<_>>(), ["Escalated"]);
}

#[test]
fn a_fork_whose_output_faults_is_caught_around_it() {
    let body = r"
        do:
        - t:
            try:
            - f:
                fork: { branches: [ { a: { set: { x: 1 } } }, { b: { set: { x: 2 } } } ] }
                output: { as: .x }
            catch:
              do: [ { ok: { set: { where: '${ $error.instance }' } } } ]";
    check(body, "{}", r#"{"where":"/do/0/t/try/0/f"}"#);
    let run = bench("do:\n- f: { fork: { branches: [ { a: { set: { x: 1 } } } ] } }\noutput: { as: .x }")
        .start("{}");
    assert_eq!(run.state().status_word(), "faulted");
}

#[test]
fn a_try_does_not_catch_its_own_output() {
    let body = "do:\n- t: { try: [ { a: { set: { x: 1 } } } ], catch: { do: [ { no: { set: { caught: true } } } ] }, output: { as: '. + 1' } }";
    bench(body).start("{}").faults_with("expression", 400, "/do/0/t");
}

#[test]
fn data_that_grows_without_end_faults_its_instance() {
    let doubling = "do:\n- l: { for: { each: x, in: '[range(60)]' }, do: [ { d: { set: { a: '${ . }', b: '${ . }' } } } ] }";
    bench(doubling).start(r#"{"k":"some text"}"#).faults_with("runtime", 500, "/do/0/l/do/0/d");
    let nesting =
        "do:\n- l: { for: { each: x, in: '[range(900)]' }, do: [ { d: { set: { a: '${ . }' } } } ] }";
    bench(nesting).start("{}").faults_with("runtime", 500, "/do/0/l/do/0/d");
}
