//! Extensions: what runs before and after, and what `$task` is there.

use super::{Bench, bench, data};
use crate::Command;

/// A document with extensions, each `extend` and more keys.
fn extended(extensions: &[&str], tasks: &str) -> Bench {
    let list: Vec<String> =
        extensions.iter().enumerate().map(|(n, e)| format!("{{ e{n}: {{ {e} }} }}")).collect();
    bench(&format!("use: {{ extensions: [ {} ] }}\ndo:\n{tasks}", list.join(", ")))
}

const LOG: &str = "extend: all, before: [ { b: { call: 'log:1.0.0@default', with: { at: '${ $task.reference }', dot: '${ . }' } } } ], after: [ { a: { call: 'log:1.0.0@default', with: { after: '${ $task.name }', dot: '${ . }' } } } ]";

#[test]
fn extensions_see_the_task_and_change_no_data() {
    let mut run =
        extended(&[LOG], "- one: { set: { n: '${ .n + 1 }' } }\n- two: { set: { n: '${ .n * 10 }' } }")
            .start(r#"{"n":1}"#);
    let mut keys = Vec::new();
    for seen in [
        r#"{"at":"/do/0/one","dot":{"n":1}}"#,
        r#"{"after":"one","dot":{"n":2}}"#,
        r#"{"at":"/do/1/two","dot":{"n":2}}"#,
        r#"{"after":"two","dot":{"n":20}}"#,
    ] {
        assert_eq!(run.calls[0].input, data(seen));
        keys.push(run.calls[0].key.clone());
        run.done(r#""logged""#);
    }
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 4, "every call has a key of its own");
    run.completes_with(r#"{"n":20}"#);
}

#[test]
fn several_run_in_order_and_those_after_in_reverse() {
    let mark = |n: u32| {
        format!(
            "extend: set, before: [ {{ b{n}: {{ wait: PT1S }} }} ], after: [ {{ a{n}: {{ wait: PT1S }} }} ]"
        )
    };
    let mut run = extended(&[&mark(1), &mark(2)], "- one: { set: { x: 1 } }").start("{}");
    for _ in 0..4 {
        run.tick();
    }
    run.completes_with(r#"{"x":1}"#);
    let order: Vec<&str> =
        run.events.iter().filter_map(|event| event.strip_prefix("step.completed ")).collect();
    assert_eq!(order, ["b1", "b2", "a2", "a1", "one"]);
}

#[test]
fn exit_before_replaces_the_task() {
    let mock = "extend: call, when: '$task.with.endpoint.uri | startswith(\"https://mocked\")', before: [ { m: { set: { content: 1 }, then: exit } }, { never: { raise: { error: { type: 'https://x', status: 500 } } } } ], after: [ { a: { wait: PT1S } } ]";
    let call = |uri: &str| {
        format!(
            "- c:\n    call: http\n    with: {{ method: get, endpoint: {{ uri: '{uri}' }} }}\n    output: {{ as: .content }}"
        )
    };
    let run = extended(&[mock], &call("https://mocked.service")).start("{}");
    run.completes_with("1");
    let mut run = extended(&[mock], &call("https://real.service")).start("{}");
    run.done(r#"{"content":2}"#);
    run.completes_with("2");
}

#[test]
fn the_definition_of_the_task_is_at_hand() {
    let e = "extend: set, before: [ { b: { set: { of: '${ $task.definition.set.x }' }, then: exit } } ]";
    extended(&[e], "- one: { set: { x: 7 } }").start("{}").completes_with(r#"{"of":7}"#);
}

#[test]
fn only_tasks_of_the_kind_are_extended_and_extensions_are_not() {
    let e = "extend: set, before: [ { b: { set: { y: 1 }, then: exit } } ]";
    extended(&[e], "- one: { do: [ { s: { set: { x: 7 } } } ] }").start("{}").completes_with(r#"{"y":1}"#);
    let composite = "extend: composite, before: [ { b: { set: { y: 2 }, then: exit } } ]";
    extended(&[composite], "- one: { do: [ { s: { set: { x: 7 } } } ] }")
        .start("{}")
        .completes_with(r#"{"y":2}"#);
    extended(&[composite], "- one: { set: { x: 7 } }").start("{}").completes_with(r#"{"x":7}"#);
}

#[test]
fn a_skipped_task_is_not_extended() {
    let e = "extend: set, before: [ { b: { set: { y: 1 }, then: exit } } ]";
    extended(&[e], "- one: { if: 'false', set: { x: 7 } }").start(r#"{"k":1}"#).completes_with(r#"{"k":1}"#);
}

#[test]
fn a_condition_decides_for_each_task() {
    let e = "extend: set, when: '$task.name == \"two\"', before: [ { b: { wait: PT1S } } ]";
    let mut run = extended(&[e], "- one: { set: { x: 1 } }\n- two: { set: { x: 2 } }").start("{}");
    assert!(run.events.contains(&"step.completed one".to_owned()));
    run.tick();
    run.completes_with(r#"{"x":2}"#);
}

#[test]
fn jumps_and_loops_pass_through_extensions() {
    let e = "extend: all, before: [ { b: { set: { gone: 1 } } } ], after: [ { a: { set: { gone: 2 } } } ]";
    let tasks = "- l: { for: { each: x, in: '[1,2,3]' }, do: [ { s: { set: { n: '${ (.n // 0) + $x }' } } } ] }\n- sw: { switch: [ { big: { when: '.n > 5', then: last } } ] }\n- skipped: { set: { n: 0 } }\n- last: { set: { n: '${ .n * 2 }' }, then: end }";
    extended(&[e], tasks).start("{}").completes_with(r#"{"n":12}"#);
}

#[test]
fn faults_of_extensions_are_faults_of_the_task_and_can_be_run_again() {
    let e = "extend: set, before: [ { b: { call: 'w:1.0.0@default' } } ]";
    let tasks = "- t: { try: [ { one: { set: { x: 1 } } } ], catch: { do: [ { c: { wait: PT1S } } ] } }";
    let mut run = extended(&[e], tasks).start(r#"{"in":1}"#);
    run.failed(500).tick();
    run.completes_with(r#"{"in":1}"#);
    let mut run = extended(&[e], "- one: { set: { x: '${ .n + {} }' } }").start(r#"{"n":1}"#);
    run.done("1");
    run.faults_with("expression", 400, "/do/0/one");
    assert!(run.tell(Command::Retry), "the step's own beginning is made again, not its extensions");
    assert!(run.calls.is_empty());
    run.faults_with("expression", 400, "/do/0/one");
}
