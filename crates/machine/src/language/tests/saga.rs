//! What a saga must look like, and what becomes of it.

use super::{refused, tasks, warned, yaml};
use crate::ir::{Kind, Retry, Then};

fn saga(steps: &str) -> String {
    tasks(&format!("  - s:\n      call: saga:1.0.0@default\n      with:\n        steps:\n{steps}"))
}

#[test]
fn functions_become_steps_with_their_place_as_reference() {
    let document = format!(
        "use: {{ functions: {{ f: {{ set: {{ x: 1 }} }} }}, retries: {{ often: {{ delay: PT3S }} }} }}\n{}",
        saga(
            "          - { name: a, do: f, undo: 'u:1.0.0@default', with: { n: '${ $steps | length }' } }\n          - { name: b, do: 'w:2.0.0@default', pivot: true, retry: often }"
        )
    );
    let workflow = yaml(&document).workflow;
    let Kind::Saga { steps } = &workflow.steps[0].kind else { panic!("{:?}", workflow.steps[0]) };
    let reference = |id: u32| workflow.steps[id as usize].reference.as_str();
    assert_eq!(reference(steps[0].r#do), "/do/0/s/with/steps/0/do");
    assert_eq!(steps[0].undo.map(reference), Some("/do/0/s/with/steps/0/undo"));
    assert_eq!((steps[0].pivot, &steps[0].retry), (false, &Retry::of_sagas()));
    assert!(steps[1].pivot && steps[1].undo.is_none());
    assert_eq!(steps[1].retry.count_max, None, "the engine's cap");
    assert!(workflow.steps.iter().all(|step| step.then == Then::Continue));
}

#[test]
fn its_shape_is_checked() {
    refused(
        &tasks("  - s: { call: 'saga:1.0.0@default' }"),
        "3:8 /do/0/s missing-key: `s` needs `with` => add `with:`",
    );
    refused(
        &saga("          - { name: a }\n          - { do: 'f:1.0.0@default', undone: x, name: b }"),
        r#"
            7:13 /do/0/s/with/steps/0 missing-key: item 1 needs `do` => add `do:`
            8:38 /do/0/s/with/steps/1/undone unknown-key: `undone` is not known here => did you mean `undo`?
        "#,
    );
    refused(
        &saga("          - { name: a, do: nowhere }"),
        "7:28 /do/0/s/with/steps/0/do unknown-reference: there is no function `nowhere` => declare it in `use.functions`, or call a worker: `nowhere:1.0.0@default`",
    );
}

#[test]
fn what_would_leave_it_half_done_is_refused() {
    let ends = "{ switch: [ { a: { when: .x, then: end } }, { b: { then: continue } } ] }";
    refused(
        &format!(
            "use: {{ functions: {{ f: {ends} }} }}\n{}",
            saga("          - { name: a, do: f }\n          - { name: a, do: 'w:1.0.0@default' }")
        ),
        r#"
            8:28 /do/0/s/with/steps/0/do end-in-saga: `f` ends the workflow, which would leave the saga half done => use `then: exit` in functions of a saga
            9:13 /do/0/s/with/steps/1 duplicate-task: two steps of this saga are called `a` => the saga's output names each step's output; rename one of them
        "#,
    );
    refused(
        &saga(
            "          - { name: a, do: 'w:1.0.0@default', retry: { limit: { attempt: { duration: PT1S } } } }",
        ),
        "7:54 /do/0/s/with/steps/0/retry bad-value: an attempt of a saga's step has no limit of its own => give the function's task a `timeout`",
    );
}

#[test]
fn an_undo_past_the_pivot_is_never_used() {
    warned(
        &saga("          - { name: a, do: 'w:1.0.0@default', pivot: true, undo: 'x:1.0.0@default' }"),
        "7:60 /do/0/s/with/steps/0/undo unused-undo: `a` is never undone: once the pivot is done, a saga only goes forward => leave `undo` out, or move the pivot",
    );
}

#[test]
fn only_earlier_steps_have_an_output() {
    let step = |name: &str, with: &str| {
        format!("          - {{ name: {name}, do: 'w:1.0.0@default', with: {{ n: '{with}' }} }}\n")
    };
    let fine = ["${ $steps.one.id }", "${ . as $steps | $steps.x }", "${ $steps[.which] }", "$steps.x"];
    for with in fine {
        yaml(&saga(&(step("one", "1") + &step("two", with))));
    }
    refused(
        &saga(
            &(step("one", "${ $steps.one }")
                + &step("two", "${ 1 + $steps.ome.n }")
                + &step("three", "${ [$steps[\"other\"]] }")),
        ),
        r#"
            7:60 /do/0/s/with/steps/0/with/n unknown-reference: `$steps.one` is not the output of an earlier step of this saga => no step comes before this one
            8:60 /do/0/s/with/steps/1/with/n unknown-reference: `$steps.ome` is not the output of an earlier step of this saga => did you mean `$steps.one`?
            9:62 /do/0/s/with/steps/2/with/n unknown-reference: `$steps.other` is not the output of an earlier step of this saga => the steps before are one, two
        "#,
    );
}
