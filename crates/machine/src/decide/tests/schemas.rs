//! Data against the schemas of the definition.

use super::bench;

const NUMBER: &str =
    "{ schema: { document: { type: object, properties: { n: { type: integer } }, required: [ n ] } } }";

/// Runs `body` and checks the detail of the validation fault, if one is wanted.
#[track_caller]
fn check(body: &str, input: &str, fault: Option<(&str, &str)>) {
    let run = bench(body).start(input);
    match fault {
        None => assert_eq!(run.state().error, None),
        Some((instance, detail)) => {
            run.faults_with("validation", 400, instance);
            assert_eq!(run.state().error.as_ref().unwrap().detail.as_deref(), Some(detail));
        }
    }
}

#[test]
fn the_workflows_raw_input_and_its_output() {
    let body = format!("input: {NUMBER}\ndo:\n- a: {{ set: {{ x: 1 }} }}");
    check(&body, r#"{"n":1}"#, None);
    let detail = "the workflow's input does not fit its schema: /n must be integer, but is string";
    check(&body, r#"{"n":"x"}"#, Some(("/", detail)));
    let body = body.replace("required: [ n ] } }", "required: [ n ] } }, from: .deeper");
    check(&body, r#"{"n":1,"deeper":{"n":"x"}}"#, None);
    let body = format!("output: {NUMBER}\ndo:\n- a: {{ set: {{ n: '${{ .v }}' }} }}");
    check(&body, r#"{"v":1}"#, None);
    let detail = "the workflow's output does not fit its schema: /n must be integer, but is null";
    check(&body, "{}", Some(("/", detail)));
}

#[test]
fn input_output_and_exported_context_of_a_task() {
    let task = |part: &str| format!("do:\n- a: {{ {part}, set: {{ n: '${{ .v }}' }} }}");
    let lacks = |what: &str| format!("{what} does not fit its schema: it lacks n");
    check(&task(&format!("input: {NUMBER}")), r#"{"v":1}"#, Some(("/do/0/a", &lacks("the input"))));
    check(&task(&format!("input: {NUMBER}")), r#"{"n":1}"#, None);
    check(&task(&format!("output: {NUMBER}")), r#"{"v":1}"#, None);
    let detail = "the output does not fit its schema: /n must be integer, but is null";
    check(&task(&format!("output: {NUMBER}")), "{}", Some(("/do/0/a", detail)));
    let export = NUMBER.replace("{ schema", "{ as: '{ m: .n }', schema");
    check(
        &task(&format!("export: {export}")),
        r#"{"v":1}"#,
        Some(("/do/0/a", &lacks("the exported context"))),
    );
}

#[test]
fn a_violation_can_be_caught() {
    let body = format!(
        "do:\n- t: {{ try: [ {{ a: {{ input: {NUMBER}, set: {{ x: 1 }} }} }} ], catch: {{ errors: {{ with: {{ type: https://serverlessworkflow.io/spec/1.0.0/errors/validation, status: 400 }} }}, do: [ {{ c: {{ set: {{ caught: '${{ $error.instance }}' }} }} }} ] }} }}"
    );
    super::check(&body, "{}", r#"{"caught":"/do/0/t/try/0/a"}"#);
}

#[test]
fn the_arguments_of_a_function_are_its_input() {
    let body = format!(
        "use: {{ functions: {{ f: {{ input: {NUMBER}, set: {{ twice: '${{ .n * 2 }}' }} }} }} }}\ndo:\n- a: {{ call: f, with: {{ n: '${{ .v }}' }} }}"
    );
    super::check(&body, r#"{"v":2}"#, r#"{"twice":4}"#);
    let run = bench(&body).start(r#"{"v":"x"}"#);
    run.faults_with("validation", 400, "/do/0/a");
}

#[test]
fn forms_must_be_schemas_when_they_are_asked() {
    let body = "do:\n- a: { call: 'human-task:1.0.0@default', with: { title: t, form: '${ .form }' } }";
    let run = bench(body).start(r#"{"form":{"type":"object"}}"#);
    assert!(run.tasks[0].form.is_some());
    bench(body).start(r#"{"form":{"type":1}}"#).faults_with("validation", 400, "/do/0/a");
}
