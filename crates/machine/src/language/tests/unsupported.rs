//! What compiles but is not executed, each with its place.

use super::{not_executed, refused, tasks, yaml};
use crate::ir::Kind;

#[test]
fn calls() {
    let resource = "document: { endpoint: https://a.b/c.json }";
    not_executed(
        &tasks(
            "  - a:\n      call: grpc\n      with: { proto: { endpoint: file://x }, service: { name: s, host: h }, method: m }",
        ),
        "4:13 /do/0/a/call configuration: this engine has no connector for `call: grpc` => do it in a worker, and call that",
    );
    not_executed(
        &tasks(&format!(
            "  - a:\n      call: asyncapi\n      with: {{ {resource}, operation: x, message: {{ payload: {{ a: 1 }} }} }}"
        )),
        "4:13 /do/0/a/call configuration: this engine has no connector for `call: asyncapi` => do it in a worker, and call that",
    );
    not_executed(
        &tasks("  - a:\n      call: a2a\n      with: { method: message/send }"),
        "4:13 /do/0/a/call configuration: this engine has no connector for `call: a2a` => do it in a worker, and call that",
    );
    not_executed(
        &tasks(
            "  - a:\n      call: mcp\n      with: { method: tools/list, transport: { stdio: { command: x } } }",
        ),
        "4:13 /do/0/a/call configuration: this engine has no connector for `call: mcp` => do it in a worker, and call that",
    );
    not_executed(
        &tasks("  - a: { call: 'human-task:2.0.0@default' }"),
        "3:16 /do/0/a/call unsupported: this engine does not support `human-task` 2.0.0 (only 1.0.0) yet",
    );
}

#[test]
fn processes_and_workflows() {
    let elsewhere = "do it in a worker, and call that";
    not_executed(
        &tasks("  - a: { run: { container: { image: x } } }"),
        &format!(
            "3:17 /do/0/a/run/container configuration: this engine does not start containers => {elsewhere}"
        ),
    );
    not_executed(
        &tasks("  - a: { run: { shell: { command: x } } }"),
        &format!("3:17 /do/0/a/run/shell configuration: this engine does not run commands => {elsewhere}"),
    );
    not_executed(
        &tasks("  - a: { run: { script: { language: python, code: x } } }"),
        "3:37 /do/0/a/run/script/language configuration: scripts in `python` are not run => write it in `js`",
    );
    not_executed(
        &tasks(
            "  - a: { run: { script: { language: js, source: { endpoint: https://example.com/x.js } } } }",
        ),
        "3:41 /do/0/a/run/script/source configuration: scripts from elsewhere are not run => write the script into `code`",
    );
}

#[test]
fn authentication() {
    let call = |policy: &str| {
        tasks(&format!(
            "  - a:\n      call: http\n      with: {{ method: get, endpoint: {{ uri: https://a.b, authentication: {policy} }} }}"
        ))
    };
    not_executed(
        &call("{ oauth2: { authority: https://a.b, grant: authorization_code } }"),
        "5:76 /do/0/a/with/endpoint/authentication/oauth2 unsupported: this engine does not support the grant `authorization_code`, which needs a person with a browser yet",
    );
    not_executed(
        &call("{ bearer: { token: '${ $authorization.parameter }' } }"),
        "5:93 /do/0/a/with/endpoint/authentication/bearer/token unsupported: this engine does not support `$authorization` yet",
    );
}

#[test]
fn whole_definition() {
    let document = |more: &str| format!("{more}\n{}", tasks("  - a: { set: { x: 1 } }"));
    not_executed(&document("schedule: { every: PT1H }"), "");
    not_executed(
        &document("schedule: { on: { all: [ { with: { type: t } }, { with: { type: u } } ] } }"),
        "",
    );
    not_executed(
        &document("evaluate: { language: cel, mode: loose }"),
        "1:23 /evaluate/language unsupported: this engine does not support expressions in `cel` yet",
    );
    not_executed(&document("evaluate: { language: jq, mode: strict }"), "");
    not_executed(
        &document("input: { schema: { format: avro, document: {} } }"),
        "1:18 /input/schema unsupported: this engine does not support schemas of the format `avro` yet",
    );
}

#[test]
fn what_is_wrong_and_what_is_not_executed_is_told_at_once() {
    refused(
        &tasks(
            "  - a: { call: mcp, with: { method: tools/list, transport: { stdio: { command: x } } } }\n  - b: { set: { x: '${ $authorization }' }, then: nowhere }\n  - c: { sett: {} }",
        ),
        "
        3:16 /do/0/a/call configuration: this engine has no connector for `call: mcp` => do it in a worker, and call that
        4:20 /do/1/b/set/x unsupported: this engine does not support `$authorization` yet
        4:51 /do/1/b/then unknown-target: `then` leads to `nowhere`, but no task of this list is called that => it can lead to a, b, c, continue, exit, end
        5:5 /do/2/c bad-task: the task `c` does not say what to do => did you mean `set` instead of `sett`?
        ",
    );
}

#[test]
fn what_is_declared_but_not_used_does_not_count() {
    let declared = "use:\n  functions:\n    f: { run: { shell: { command: x } } }\n  authentications:\n    o: { oidc: { authority: https://a.b, grant: authorization_code } }";
    not_executed(&format!("{declared}\n{}", tasks("  - a: { set: { x: 1 } }")), "");
}

#[test]
fn error_filters_are_literal() {
    refused(
        &tasks(
            "  - a:\n      try: [ { b: { set: { x: 1 } } } ]\n      catch: { errors: { with: { type: '${ .x }' } } }",
        ),
        "5:40 /do/0/a/catch/errors/with/type static-only: the wanted `type` of an error cannot be an expression => compare in `catch.when`: `$error.type == (.x)`",
    );
    refused(
        &tasks(
            "  - a:\n      try: [ { b: { set: { x: 1 } } } ]\n      catch: { as: e, errors: { with: { details: '${ .x }' } } }",
        ),
        "5:50 /do/0/a/catch/errors/with/details static-only: the wanted `details` of an error cannot be an expression => compare in `catch.when`: `$e.detail == (.x)`",
    );
}

/// Scripts are executed, but an operator has to allow them: where they stand is told apart.
#[test]
fn scripts_are_for_the_operator_to_allow() {
    let compiled =
        yaml(&tasks("  - a: { run: { script: { language: javascript, code: x }, return: code } }"));
    assert!(compiled.unsupported.is_empty());
    let found = super::show_all(&compiled.scripts);
    let expected =
        "3:17 /do/0/a/run/script configuration: the operator of this engine does not allow scripts";
    assert!(found.starts_with(expected), "{found}");
}

#[test]
fn the_step_says_so_too() {
    let workflow = yaml(&tasks("  - a: { run: { shell: { command: x } } }")).workflow;
    assert!(matches!(&workflow.steps[0].kind, Kind::Unsupported { what, .. } if what == "`run.shell`"));
}
