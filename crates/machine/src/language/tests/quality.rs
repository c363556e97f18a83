//! Warnings: documents that mean something else than they seem to.

use super::{Format, compile_text, refused, tasks, warned, yaml};

#[test]
fn embedded_expressions_are_literal() {
    warned(
        &tasks("  - a:\n      set:\n        x: Hello ${ .name }!"),
        r#"5:18 /do/0/a/set/x embedded-expression: `${ }` inside a longer text is not an expression; the text stays as it is => make the whole text an expression: `${ "Hello \(.name)" }`"#,
    );
    warned(
        &tasks(
            "  - a:\n      call: http\n      with:\n        method: get\n        endpoint: https://a.b/${.id}\n        headers: { x: 'v${ .v }' }",
        ),
        r#"
            7:31 /do/0/a/with/endpoint embedded-expression: `${ }` inside a longer text is not an expression; the text stays as it is => make the whole text an expression: `${ "Hello \(.name)" }`
            8:23 /do/0/a/with/headers/x embedded-expression: `${ }` inside a longer text is not an expression; the text stays as it is => make the whole text an expression: `${ "Hello \(.name)" }`
        "#,
    );
    // No braces, no expression; and code may have its own `${ }`.
    warned(&tasks("  - a:\n      set: { x: 'costs 5$ { or so' }"), "");
    warned(&tasks("  - a: { run: { shell: { command: 'echo ${HOME} x' } } }"), "");
}

#[test]
fn expressions_that_are_not_closed_or_empty_are_none() {
    refused(
        &tasks("  - a:\n      set:\n        x: ${ .name\n        y: '${}'"),
        r#"
            5:12 /do/0/a/set/x bad-expression: the expression is not closed: it begins with `${` and has no `}` => write `${ .name }`, or `${ "${" }` for the text itself
            6:13 /do/0/a/set/y bad-expression: there is no expression between `${` and `}` => write `${ .name }`, or `${ "${" }` for the text itself
        "#,
    );
}

#[test]
fn then_beside_if() {
    warned(
        &tasks("  - a:\n      if: .x\n      set: { x: 1 }\n      then: end"),
        "6:7 /do/0/a/then if-then: `then` is ignored when `if` is false: the flow goes on with the next task => use `switch` if both outcomes should jump",
    );
    warned(&tasks("  - a:\n      if: .x\n      set: { x: 1 }\n      then: continue"), "");
}

#[test]
fn concurrent_exports() {
    let branches = "  - a:\n      fork:\n        compete: COMPETE\n        branches:\n          - one:\n              set: { x: 1 }\n              export: { as: .x }\n          - two:\n              do:\n                - inner:\n                    set: { x: 1 }\n                    export: { as: .x }";
    warned(
        &tasks(&branches.replace("COMPETE", "false")),
        r#"
            9:15 /do/0/a/fork/branches/0/one/export concurrent-export: several branches of this fork export; where they write the same, the later branch wins => let one branch export, or export once after the fork
            14:21 /do/0/a/fork/branches/1/two/do/0/inner/export concurrent-export: several branches of this fork export; where they write the same, the later branch wins => let one branch export, or export once after the fork
        "#,
    );
    warned(&tasks(&branches.replace("COMPETE", "true")), "");
}

#[test]
fn tasks_that_nothing_leads_to() {
    warned(
        &tasks("  - a: { set: { x: 1 }, then: end }\n  - b: { set: { x: 1 } }\n  - c: { set: { x: 1 } }"),
        "4:5 /do/1/b unreachable-task: nothing leads to the task `b` => remove it, or lead to it with `then`",
    );
    warned(
        &tasks(
            "  - a: { set: { x: 1 }, then: c }\n  - b: { set: { x: 1 } }\n  - c: { set: { x: 1 }, then: b }",
        ),
        "",
    );
    warned(
        &tasks("  - a: { raise: { error: { type: https://a.b/c, status: 400 } } }\n  - b: { set: { x: 1 } }"),
        "4:5 /do/1/b unreachable-task: nothing leads to the task `b` => remove it, or lead to it with `then`",
    );
    warned(
        &tasks(
            "  - s:\n      switch:\n        - c: { when: .x, then: b }\n        - d: { then: end }\n  - a: { set: { x: 1 } }\n  - b: { set: { x: 1 } }",
        ),
        "7:5 /do/1/a unreachable-task: nothing leads to the task `a` => remove it, or lead to it with `then`",
    );
    // A task with `if` may be skipped, so the next one is reached.
    warned(
        &tasks("  - a: { if: .x, set: { x: 1 }, then: end }\n  - b: { set: { x: 1 } }"),
        "3:33 /do/0/a/then if-then: `then` is ignored when `if` is false: the flow goes on with the next task => use `switch` if both outcomes should jump",
    );
}

#[test]
fn arguments_that_hold_nothing() {
    refused(
        &tasks("  - a:\n      if: $input.x\n      set: { x: 1 }"),
        "4:11 /do/0/a/if argument-unavailable: `$input` is not available in `if` and `input.from` => use another argument, or move the expression",
    );
    refused(
        &tasks("  - a:\n      set: { x: '${ $output }' }"),
        "4:17 /do/0/a/set/x argument-unavailable: `$output` is not available in a task => use another argument, or move the expression",
    );
    warned(&tasks("  - a:\n      set: { x: 1 }\n      export: { as: $output }"), "");
    for (place, argument) in [
        ("input: { from: '$context' }", "context"),
        ("input: { from: '$task.name' }", "task"),
        ("output: { as: '$input' }", "input"),
        ("output: { as: '$task.name' }", "task"),
        ("output: { as: '$output' }", "output"),
    ] {
        let document = format!("{place}\n{}", tasks("  - a: { set: { x: 1 } }"));
        let problems = compile_text(document.as_bytes(), Format::Yaml).unwrap_err();
        assert_eq!(problems.len(), 1, "{place}");
        assert!(problems[0].message.starts_with(&format!("`${argument}` is not available")), "{place}");
    }
    let fine = "input: { from: '{ a: $workflow.id, b: $runtime.name }' }\noutput: { as: '{ c: $context }' }";
    warned(
        &format!(
            "{fine}\n{}",
            tasks("  - a: { set: { x: 1 }, input: { from: '{ c: $context, t: $task.name }' } }")
        ),
        "",
    );
}

#[test]
fn schemas_must_be_schemas() {
    refused(
        &tasks("  - a:\n      input: { schema: { document: { type: obect } } }\n      set: { x: 1 }"),
        "4:44 /do/0/a/input/schema/document/type bad-schema: this is not a usable JSON Schema: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'",
    );
    refused(
        &format!(
            "output: {{ schema: {{ document: {{ $ref: 'https://a.b/c' }} }} }}\n{}",
            tasks("  - a: { set: { x: 1 } }")
        ),
        "1:39 /output/schema/document/$ref bad-schema: this is not a usable JSON Schema: `https://a.b/c` is outside this schema; put what it refers to under `$defs`",
    );
    refused(
        &tasks("  - a:\n      call: human-task:1.0.0@default\n      with: { form: { type: obect } }"),
        "5:29 /do/0/a/with/form/type bad-schema: this is not a usable JSON Schema: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'",
    );
    warned(&tasks("  - a:\n      call: human-task:1.0.0@default\n      with: { form: '${ .form }' }"), "");
}

#[test]
fn attributes_of_events_have_plain_names() {
    refused(
        &tasks("  - a: { emit: { event: { with: { source: 'https://a.b', type: t, orderId: 1 } } } }"),
        "3:67 /do/0/a/emit/event/with/orderId bad-name: `orderId` cannot be an attribute of an event => use small letters and digits only, or put it into `data`",
    );
}

#[test]
fn lifecycle_events_are_asked_for_by_a_word() {
    let document = |word: &str| {
        tasks("  - a: { set: { x: 1 } }").replace(
            "version: 1.0.0",
            &format!("version: 1.0.0, metadata: {{ windlass: {{ lifecycleEvents: {word} }} }}"),
        )
    };
    assert_eq!(yaml(&document("all")).workflow.lifecycle, crate::ir::Lifecycle::All);
    assert_eq!(yaml(&document("workflow")).workflow.lifecycle, crate::ir::Lifecycle::Workflow);
    refused(
        &document("some"),
        "1:113 /document/metadata/windlass/lifecycleEvents bad-value: `lifecycleEvents` must be none, workflow or all",
    );
}
