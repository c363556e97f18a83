//! Events for the outside: `emit`, and what happens to the instance itself.

use super::{bench, check, data};
use crate::{Command, Data, ir::Lifecycle, token::Origin};

fn emit(with: &str) -> Data {
    let mut run =
        bench(&format!("do:\n- e: {{ emit: {{ event: {{ with: {{ {with} }} }} }} }}")).start(r#"{"n":1}"#);
    run.emitted.remove(0)
}

#[test]
fn what_an_event_lacks_is_filled_in() {
    let event = emit("source: '${ null }', type: t, data: { a: 1 }");
    assert_eq!(
        event.get("source").unwrap().as_str(),
        Some("urn:windlass:instance:ins_00000000000000000000000000000007")
    );
    assert_eq!(event.get("datacontenttype").unwrap().as_str(), Some("application/json"));
    let event = emit(
        "source: 'https://a', type: t, id: mine, time: '2024-01-02T03:04:05Z', subject: s, orderid: '${ .n }', data: x, datacontenttype: text/plain",
    );
    for (name, value) in [
        ("id", r#""mine""#),
        ("subject", r#""s""#),
        ("orderid", "1"),
        ("datacontenttype", r#""text/plain""#),
        ("time", r#""2024-01-02T03:04:05Z""#),
    ] {
        assert_eq!(event.get(name), Some(data(value)), "{name}");
    }
    assert_eq!(emit("source: 'https://a', type: t").get("datacontenttype"), None, "no data, no type of it");
}

#[test]
fn what_is_no_event_is_not_emitted() {
    for with in [
        "source: 'https://a', type: '${ null }'",
        "source: 'https://a', type: '${ .n }'",
        "source: 'https://a', type: t, order: { a: 1 }",
        "source: 'https://a', type: t, time: '${ \"now\" }'",
    ] {
        let run = bench(&format!("do:\n- e: {{ emit: {{ event: {{ with: {{ {with} }} }} }} }}"))
            .start(r#"{"n":1}"#);
        run.faults_with("validation", 400, "/do/0/e");
        assert!(run.emitted.is_empty(), "{with}");
    }
}

/// The lifecycle events of a document, without the common part of their type.
fn told(lifecycle: Lifecycle, body: &str, more: impl FnOnce(&mut super::Bench)) -> Vec<String> {
    let mut run = bench(body);
    run.program.lifecycle = lifecycle;
    let mut run = run.start("{}");
    more(&mut run);
    let short = |event: &Data| {
        let name =
            event.get("type").unwrap().to_text().replace("io.serverlessworkflow.", "").replace(".v1", "");
        let step = event.get("data").unwrap().get("task").map(|task| task.to_text()).unwrap_or_default();
        format!("{name} {step}").trim().to_owned()
    };
    run.emitted.iter().map(short).collect()
}

#[test]
fn nothing_is_told_unless_asked_for() {
    assert_eq!(told(Lifecycle::None, "do:\n- a: { set: { x: 1 } }", |_| ()), Vec::<String>::new());
}

#[test]
fn the_workflows_life() {
    let body = "do:\n- l: { listen: { to: { one: { with: { type: a } } } } }";
    let found = told(Lifecycle::Workflow, body, |run| {
        assert!(run.tell(Command::Pause) && run.tell(Command::Resume));
        run.signal("a", "1");
    });
    let expected =
        ["started", "correlation-started", "suspended", "resumed", "correlation-completed", "completed"];
    assert_eq!(found, expected.map(|word| format!("workflow.{word}")));
    let found = told(Lifecycle::Workflow, body, |run| assert!(run.tell(Command::Cancel)));
    assert_eq!(found.last().unwrap(), "workflow.cancelled");
    let body = "do:\n- r: { raise: { error: { type: 'https://x', status: 500 } } }";
    assert_eq!(told(Lifecycle::Workflow, body, |_| ()), ["workflow.started", "workflow.faulted"]);
}

#[test]
fn the_steps_life() {
    let body = "do:\n- t: { try: [ { c: { call: 'w:1.0.0@default' } } ], catch: { retry: { delay: { seconds: 1 } } } }";
    let found = told(Lifecycle::All, body, |run| {
        run.failed(500).tick();
        assert!(run.tell(Command::Pause) && run.tell(Command::Resume));
        run.done("1");
    });
    let (t, c) = ("/do/0/t", "/do/0/t/try/0/c");
    let expected = [
        "workflow.started",
        &format!("task.created {t}"),
        &format!("task.started {t}"),
        &format!("task.created {c}"),
        &format!("task.started {c}"),
        &format!("task.faulted {c}"),
        &format!("task.retried {t}"),
        &format!("task.created {c}"),
        &format!("task.started {c}"),
        &format!("task.suspended {c}"),
        &format!("task.suspended {t}"),
        "workflow.suspended",
        "workflow.resumed",
        &format!("task.resumed {c}"),
        &format!("task.resumed {t}"),
        &format!("task.completed {c}"),
        &format!("task.completed {t}"),
        "workflow.completed",
    ];
    assert_eq!(found, expected);
    let race = "do:\n- f: { fork: { compete: true, branches: [ { slow: { wait: PT1H } }, { c: { call: 'w:1.0.0@default' } } ] } }";
    let found = told(Lifecycle::All, race, |run| _ = run.done("1"));
    assert!(found.contains(&"task.cancelled /do/0/f/fork/branches/0/slow".to_owned()), "{found:?}");
}

#[test]
fn lifecycle_events_say_who_and_when() {
    let mut run = bench("do:\n- a: { set: { x: 1 } }");
    run.program.lifecycle = Lifecycle::Workflow;
    let run = run.start("{}");
    let event = &run.emitted[0];
    let name = "spec-ins_00000000000000000000000000000007.test";
    let wanted = format!(
        r#"{{"name":"{name}","startedAt":"1970-01-01T00:16:40Z","definition":{{"name":"spec","namespace":"test","version":"1.0.0"}}}}"#
    );
    assert_eq!(event.get("data"), Some(data(&wanted)));
    assert_eq!(run.emitted[1].get("data").unwrap().get("output"), Some(data(r#"{"x":1}"#)));
    assert_ne!(run.emitted[0].get("id"), run.emitted[1].get("id"));
}

#[test]
fn a_signal_token_is_bound_to_the_instance() {
    let body = r"
        do:
        - t: { call: 'signal-token:1.0.0@default', export: { as: '{ token: .token }' } }
        - l: { listen: { to: { one: { with: { type: paid }, correlate: { token: { from: .data.token, expect: '${ $context.token }' } } } } } }";
    let mut run = bench(body);
    run.subject.origin = Some(Origin { key: [3; 32], public_url: "https://w.example".to_owned() }.into());
    let mut run = run.start("{}");
    let token = run.state().context.get("token").unwrap().to_text();
    let (tenant, instance) = crate::token::read(&[3; 32], &token).unwrap();
    assert_eq!((tenant, instance), (run.subject.tenant.clone(), run.subject.instance));
    run.signal("paid", r#"{"token":"guessed"}"#);
    run.signal("paid", &format!(r#"{{"token":"{token}","n":1}}"#));
    run.completes_with(&format!(r#"[{{"token":"{token}","n":1}}]"#));
    let run = bench("do:\n- t: { call: 'signal-token:1.0.0@default' }").start("{}");
    run.faults_with("configuration", 400, "/do/0/t");
}

#[test]
fn loose_texts_are_expressions_if_they_can_be() {
    let loose = |value: &str| format!("evaluate: {{ mode: loose }}\ndo:\n- a: {{ set: {{ v: '{value}' }} }}");
    for (text, value) in [
        (".n", "1"),
        ("${ .n + 1 }", "2"),
        (" .n * 3", "3"),
        ("Hello there", r#""Hello there""#),
        ("hello", r#""hello""#),
        ("https://a.b/c", r#""https://a.b/c""#),
        (".n + {}", r#"".n + {}""#),
        ("{ a: .n }", r#"{"a":1}"#),
        ("$workflow.definition.document.name", r#""spec""#),
    ] {
        check(&loose(text), r#"{"n":1}"#, &format!(r#"{{"v":{value}}}"#));
    }
    check("do:\n- a: { set: { v: .n } }", r#"{"n":1}"#, r#"{"v":".n"}"#);
}

#[test]
fn definitions_are_at_hand_where_they_are_named() {
    let body = "do:\n- a: { metadata: { k: 5 }, set: { own: '${ $task.definition.metadata.k }', first: '${ $workflow.definition.do[0] | keys[0] }' } }";
    let run = bench(body);
    assert!(run.program.ir.definition.is_some());
    run.start("{}").completes_with(r#"{"own":5,"first":"a"}"#);
    assert_eq!(bench("do:\n- a: { set: { v: '${ $task.name }' } }").program.ir.definition, None);
}
