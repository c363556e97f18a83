//! Custom functions: what they see of their caller, and what history says of them.

use super::{Bench, bench, check};
use crate::{command::Command, state::Status};

/// What happened to the steps, as `kind name`.
fn told(run: &Bench) -> String {
    let steps = run.events.iter().filter_map(|event| event.strip_prefix("step."));
    steps.collect::<Vec<_>>().join(", ")
}

#[test]
fn a_function_has_a_context_of_its_own() {
    let body = "use:
  functions:
    f:
      do:
      - a: { set: { before: '${ $context }' }, export: { as: '{ own: 1 }' } }
      - b: { set: { before: '${ .before }', own: '${ $context.own }', given: '${ .given }' } }
output: { as: '{ result: ., context: $context }'}
do:
- first: { set: { s: 1 }, export: { as: '{ mine: 7 }' } }
- call: { call: f, with: { given: '${ $context.mine }' }, output: { as: '. + { after: $context }' } }
- again: { call: f, export: { as: '$context + { last: .own }' } }";
    check(body, "{}", r#"{"context":{"last":1,"mine":7},"result":{"before":null,"given":null,"own":1}}"#);
    let once = body.replace("- again: { call: f, export: { as: '$context + { last: .own }' } }", "");
    check(
        &once,
        "{}",
        r#"{"context":{"mine":7},"result":{"after":{"mine":7},"before":null,"given":null,"own":1}}"#,
    );
}

#[test]
fn what_a_function_is_given_is_computed_by_the_caller() {
    check(
        "use: { functions: { f: { if: '.n == 7 and $context == null', input: { from: .n }, set: { n: '${ . }' } } } }
do:
- first: { set: { s: 1 }, export: { as: '{ mine: 7 }' } }
- call: { call: f, with: { n: '${ $context.mine }' } }",
        "{}",
        r#"{"n":7}"#,
    );
}

#[test]
fn functions_in_functions_and_forks_keep_to_themselves() {
    check(
        "use:
  functions:
    inner: { do: [ { a: { set: { saw: '${ $context }' }, export: { as: '{ inner: 1 }' } } } ] }
    outer:
      do:
      - a: { set: { s: 1 }, export: { as: '{ outer: 1 }' } }
      - both:
          fork:
            branches:
            - x: { call: inner }
            - y: { set: { y: '${ $context }' }, export: { as: '{ y: 2 }' } }
      - b: { set: { branches: '${ . }', after: '${ $context }' } }
output: { as: '. + { context: $context }' }
do:
- call: { call: outer }",
        "{}",
        r#"{"after":{"outer":1,"y":2},"branches":[{"saw":null},{"y":{"outer":1}}],"context":null}"#,
    );
}

#[test]
fn the_end_inside_a_function_has_the_context_of_the_workflow() {
    check(
        "use: { functions: { f: { do: [ { a: { set: { x: 1 }, export: { as: '{ own: 1 }' }, then: end } } ] } } }
output: { as: '. + { context: $context }' }
do:
- first: { set: { s: 1 }, export: { as: '{ mine: 7 }' } }
- call: { call: f }",
        "{}",
        r#"{"context":{"mine":7},"x":1}"#,
    );
}

#[test]
fn what_a_function_exported_is_stored_with_the_instance_and_gone_when_it_is_left() {
    let body = "use:
  functions:
    f:
      do:
      - a: { set: { s: 1 }, export: { as: '{ own: 1 }' } }
      - w: { call: 'w:1.0.0@default' }
      - b: { set: { own: '${ $context.own }' } }
do:
- t:
    try: [ { call: { call: f } } ]
    catch: { do: [ { c: { set: { context: '${ $context }' } } } ] }";
    let mut run = bench(body).start("{}");
    run.done("{}").completes_with(r#"{"own":1}"#);
    let mut run = bench(body).start("{}");
    run.failed(500).completes_with(r#"{"context":null}"#);
}

#[test]
fn a_call_of_a_function_begins_and_ends_once() {
    let body = "use: { functions: { f: { call: 'w:1.0.0@default' } } }\ndo: [ { a: { call: f } } ]";
    let mut run = bench(body).start("{}");
    run.done("1").completes_with("1");
    assert_eq!(told(&run), "started a, completed a");
    let mut run = bench(body).start("{}");
    run.failed(500);
    assert_eq!(run.state().status, Status::Faulted);
    run.tell(Command::Retry);
    run.done("1").completes_with("1");
    assert_eq!(told(&run), "started a, faulted a, started a, completed a");
    let mut run = bench(body).start("{}");
    run.tell(Command::Cancel);
    assert_eq!(told(&run), "started a, cancelled a");
}

#[test]
fn a_caught_fault_of_a_function_is_told_once() {
    let body = "use: { functions: { f: { call: 'w:1.0.0@default' } } }
do: [ { t: { try: [ { a: { call: f } } ], catch: { do: [ { c: { set: { x: 1 } } } ] } } } ]";
    let mut run = bench(body).start("{}");
    run.failed(500).completes_with(r#"{"x":1}"#);
    assert_eq!(told(&run), "started t, started a, faulted a, caught t, started c, completed c, completed t");
}
