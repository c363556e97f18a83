//! Data and control flow of steps that need nothing from outside.

use super::{bench, check, data};

#[test]
fn set_replaces_the_data_and_feeds_the_next_step() {
    check(
        "do:\n- a: { set: { x: '${ .n + 1 }', y: lit } }\n- b: { set: { z: '${ .x * 2 }' } }",
        r#"{"n":1}"#,
        r#"{"z":4}"#,
    );
}

#[test]
fn a_whole_expression_may_be_set() {
    check("do:\n- a: { set: '${ .list | map(. + 1) }' }", r#"{"list":[1,2]}"#, "[2,3]");
}

#[test]
fn text_around_an_expression_is_literal() {
    check("do:\n- a: { set: { x: 'Hello ${ .n }' } }", r#"{"n":1}"#, r#"{"x":"Hello ${ .n }"}"#);
}

#[test]
fn input_output_and_export_transform() {
    let body = r"
        input: { from: .order }
        do:
        - a:
            input: { from: .total }
            set: { doubled: '${ . * 2 }' }
            output: { as: .doubled }
            export: { as: '{ last: ., before: $context }' }
        - b:
            set: { total: '${ . }', seen: '${ $context.last }' }
        output: { as: '{ result: . }' }";
    check(body, r#"{"order":{"total":21}}"#, r#"{"result":{"total":42,"seen":42}}"#);
}

#[test]
fn then_goes_forward_back_out_and_to_the_end() {
    let body = r"
        do:
        - first: { set: { n: '${ .n + 1 }' } }
        - again:
            switch:
            - more: { when: .n < 3, then: first }
            - enough: { then: continue }
        - nested:
            do:
            - leave: { set: { n: '${ .n * 10 }' }, then: exit }
            - unreached: { set: { n: never } }
        - stop: { set: { n: '${ .n + 1 }' }, then: end }
        - never: { set: { n: never } }";
    check(body, r#"{"n":0}"#, r#"{"n":31}"#);
}

#[test]
fn switch_takes_the_first_match_else_the_default_wherever_it_stands() {
    let body = r"
        do:
        - pick:
            switch:
            - otherwise: { then: c }
            - one: { when: .n == 1, then: a }
            - also: { when: .n == 1, then: b }
        - a: { set: a, then: end }
        - b: { set: b, then: end }
        - c: { set: c, then: end }";
    let body = body
        .replace("set: a", "set: { v: a }")
        .replace("set: b", "set: { v: b }")
        .replace("set: c", "set: { v: c }");
    check(&body, r#"{"n":1}"#, r#"{"v":"a"}"#);
    check(&body, r#"{"n":2}"#, r#"{"v":"c"}"#);
}

#[test]
fn a_skipped_step_passes_its_input_on_and_ignores_its_then() {
    check(
        "do:\n- a: { if: .go, set: { x: 1 }, then: end }\n- b: { set: { seen: '${ .go }' } }",
        r#"{"go":false}"#,
        r#"{"seen":false}"#,
    );
}

#[test]
fn for_threads_its_output_through_the_iterations() {
    let body = r"
        do:
        - sum:
            for: { each: x, in: .items, at: i }
            do:
            - add: { set: { items: '${ .items }', total: '${ (.total // 0) + $x * $i }' } }
            output: { as: .total }";
    check(body, r#"{"items":[5,6,7]}"#, "20");
    check(
        "do:\n- l: { for: { in: .none }, do: [ { a: { set: { x: 1 } } } ] }",
        r#"{"none":[],"k":1}"#,
        r#"{"none":[],"k":1}"#,
    );
}

#[test]
fn for_stops_when_while_no_longer_holds() {
    let body = r"
        do:
        - l:
            for: { each: x, in: '[1,2,3,4]' }
            while: '(.n // 0) < 3'
            do:
            - add: { set: { n: '${ (.n // 0) + $x }' } }";
    check(body, "{}", r#"{"n":3}"#);
}

#[test]
fn exit_in_a_loop_leaves_the_iteration_only() {
    let body = r"
        do:
        - l:
            for: { each: x, in: '[1,2,3]' }
            do:
            - add: { set: { n: '${ (.n // 0) + $x }' }, then: exit }
            - never: { set: { n: 100 } }";
    check(body, "{}", r#"{"n":6}"#);
}

#[test]
fn fork_answers_in_declaration_order_and_merges_contexts() {
    let body = r"
        do:
        - start: { set: { n: 1 }, export: { as: '{ base: true, a: 0 }' } }
        - both:
            fork:
              branches:
              - slow: { set: { v: '${ .n + 1 }' }, export: { as: '$context + { a: 1 }' } }
              - fast: { set: { v: '${ .n + 2 }' }, export: { as: '$context + { b: 2 }' } }
        - finally: { set: { out: '${ map(.v) }', context: '${ $context }' } }";
    check(body, "{}", r#"{"out":[2,3],"context":{"base":true,"a":1,"b":2}}"#);
}

#[test]
fn emit_outputs_the_event_it_emits() {
    let run = bench("do:\n- e: { emit: { event: { with: { source: 'https://a', type: t.v1, data: { n: '${ .n }' } } } } }")
        .start(r#"{"n":1}"#);
    assert_eq!(run.emitted.len(), 1);
    assert_eq!(run.emitted[0].get("data"), Some(data(r#"{"n":1}"#)));
    assert_eq!(run.state().output.as_ref(), Some(&run.emitted[0]));
    for attribute in ["id", "specversion", "time", "source", "type"] {
        assert!(run.emitted[0].get(attribute).is_some(), "{attribute}");
    }
}

#[test]
fn arguments_are_there_where_the_language_says() {
    let body = r"
        do:
        - a:
            set:
              task: '${ $task.name }'
              reference: '${ $task.reference }'
              id: '${ $workflow.id }'
              workflow: '${ $workflow.definition.document.name }'
              runtime: '${ $runtime.name }'
              tenant: '${ $runtime.metadata.tenant }'
              input: '${ $workflow.input.n }'";
    check(
        body,
        r#"{"n":9}"#,
        r#"{"task":"a","reference":"/do/0/a","id":"ins_00000000000000000000000000000007","workflow":"spec",
            "runtime":"windlass","tenant":"acme","input":9}"#,
    );
}

#[test]
fn values_that_look_like_expressions_in_data_are_never_evaluated() {
    check(
        "do:\n- a: { set: { x: '${ .evil }' } }\n- b: { set: { y: '${ .x }' } }",
        r#"{"evil":"${ 1 + 1 }"}"#,
        r#"{"y":"${ 1 + 1 }"}"#,
    );
}

#[test]
fn a_long_pure_stretch_yields_and_goes_on() {
    let mut run = bench("do:\n- l: { for: { each: x, in: '[range(2500)]' }, do: [ { a: { set: { n: '${ (.n // 0) + 1 }' } } } ] }")
        .start("{}");
    let mut turns = 1;
    while let Some(token) = run.continues.pop() {
        assert!(run.tell(crate::Command::Continue { token }));
        turns += 1;
    }
    assert_eq!(turns, 3);
    run.completes_with(r#"{"n":2500}"#);
}

/// A loop of this many steps, driven to its end; the bench is as it was `turns` turns before the limit.
fn goes_round(steps: u32, turns: u32) -> super::Bench {
    let body = format!(
        "do:\n- l: {{ for: {{ each: x, in: '[range({steps})]' }}, do: [ {{ a: {{ set: {{ n: '${{ $x }}' }} }} }} ] }}"
    );
    let mut run = bench(&body).start("{}");
    run.state.as_mut().unwrap().yields = crate::state::YIELDS_MAX - turns;
    while let Some(token) = run.continues.pop() {
        assert!(run.tell(crate::Command::Continue { token }));
    }
    run
}

#[test]
fn a_million_steps_without_waiting_and_not_one_more() {
    // The turn in which the loop begins, and two more; the loop itself is a step too.
    goes_round(2_999, 2).completes_with(r#"{"n":2998}"#);
    let run = goes_round(3_000, 2);
    run.faults_with("runtime", 500, "/do/0/l");
    let detail = run.state().error.clone().unwrap().detail;
    let expected = "more than 1000000 steps without waiting for anything: does the flow go round for ever?";
    assert_eq!(detail.as_deref(), Some(expected));
}

#[test]
fn history_tells_the_beginning_of_a_long_stretch_and_counts_the_rest() {
    let run = goes_round(5_000, crate::state::YIELDS_MAX);
    let (began, untold) = (run.events.iter().filter(|event| *event == "step.started a"), "steps.untold");
    assert_eq!((began.count(), run.events.contains(&untold.to_owned())), (5_000, false));
    let run = goes_round(20_000, crate::state::YIELDS_MAX);
    run.completes_with(r#"{"n":19999}"#);
    let told = |what: &str| run.events.iter().filter(|event| *event == what).count();
    assert_eq!(told("step.started a"), 10_999);
    assert_eq!(told("steps.untold"), 10);
    assert_eq!(told("workflow.completed"), 1);
}

#[test]
fn data_is_nested_64_levels_and_not_one_more() {
    // The object around the expression's result is a level too; a result alone is held to the same limit.
    let nested =
        |arrays: u32| format!("do:\n- a: {{ set: {{ x: '${{ reduce range({arrays}) as $n (0; [.]) }}' }} }}");
    assert_eq!(bench(&nested(63)).start("{}").state().error, None);
    let run = bench(&nested(64)).start("{}");
    run.faults_with("runtime", 500, "/do/0/a");
    let detail = run.state().error.clone().unwrap().detail;
    assert_eq!(detail.as_deref(), Some("the data is nested deeper than 64 levels"));
    bench(&nested(65)).start("{}").faults_with("expression", 400, "/do/0/a");
}

#[test]
fn a_flow_that_goes_round_for_ever_without_waiting_faults_and_can_be_retried() {
    let mut run = bench("do:\n- a: { set: { x: 1 }, then: a }").start("{}");
    run.state.as_mut().unwrap().yields = crate::state::YIELDS_MAX - 2;
    for _ in 0..2 {
        let token = run.continues.pop().expect("it goes on in a turn of its own");
        assert!(run.tell(crate::Command::Continue { token }));
    }
    assert_eq!(run.state().status, crate::state::Status::Faulted);
    let fault = run.state().error.clone().unwrap();
    assert!(fault.detail.unwrap().contains("without waiting"), "it says why");
    assert!(run.tell(crate::Command::Retry), "an operator may let it go on");
    assert_eq!(run.continues.len(), 1);
}
