//! The IR of each kind of task that is executed.

use super::{tasks, yaml};
use crate::{
    data::Data,
    ir::{
        Authentication, Backoff, Call, Delay, ErrorFilter, HttpOutput, Kind, Read, Step, Template, Then,
        Workflow,
    },
    time::Span,
};

fn workflow(list: &str) -> Workflow {
    yaml(&tasks(list)).workflow
}

/// The step with this name.
fn step<'w>(workflow: &'w Workflow, name: &str) -> &'w Step {
    workflow.steps.iter().find(|step| step.name == name).unwrap_or_else(|| panic!("no step {name}"))
}

fn references(workflow: &Workflow) -> Vec<&str> {
    workflow.steps.iter().map(|step| step.reference.as_str()).collect()
}

fn json(text: &str) -> Data {
    Data::parse(text.as_bytes()).expect("the test has valid JSON")
}

/// A template as text: expressions in angle brackets.
fn show(workflow: &Workflow, template: &Template) -> String {
    match template {
        Template::Literal(data) => format!("{data:?}"),
        Template::Expr(id) | Template::Loose(id, _) => format!("<{}>", workflow.exprs[*id as usize].source),
        Template::Array(items) => {
            format!("[{}]", items.iter().map(|item| show(workflow, item)).collect::<Vec<_>>().join(", "))
        }
        Template::Object(members) => {
            let members = members.iter().map(|(key, value)| format!("{key}: {}", show(workflow, value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
    }
}

fn source(workflow: &Workflow, id: Option<u32>) -> &str {
    id.map_or("", |id| workflow.exprs[id as usize].source.as_str())
}

#[test]
fn header() {
    let document = "document:\n  dsl: '1.0.2'\n  namespace: acme\n  name: orders\n  version: 1.2.3\n  title: Orders\n  summary: All of them\n  metadata: { team: sales }\ninput:\n  schema: { format: 'json:2020-12', document: { type: object } }\n  from: .order\noutput:\n  as: { total: '${ .sum }', kind: order }\ntimeout: { after: { days: 1, hours: 2 } }\ndo:\n  - a: { set: { x: 1 } }";
    let workflow = yaml(document).workflow;
    assert_eq!((workflow.dsl.as_str(), workflow.namespace.as_str()), ("1.0.2", "acme"));
    assert_eq!((workflow.name.as_str(), workflow.version.as_str()), ("orders", "1.2.3"));
    assert_eq!(
        (workflow.title.as_deref(), workflow.summary.as_deref()),
        (Some("Orders"), Some("All of them"))
    );
    assert_eq!(workflow.document.get("metadata"), Some(json(r#"{"team":"sales"}"#)));
    assert_eq!(workflow.input_schema, Some(json(r#"{"type":"object"}"#)));
    assert_eq!(show(&workflow, &workflow.input.clone().unwrap()), "<.order>");
    assert_eq!(show(&workflow, &workflow.output.clone().unwrap()), "{total: <.sum>, kind: \"order\"}");
    assert_eq!(workflow.timeout, Some(Delay::Fixed(Span::from_secs(26 * 3600))));
    assert_eq!(workflow.root, [0]);
}

#[test]
fn what_every_task_may_carry() {
    let workflow = workflow(
        "  - a:\n      if: ${ .x }\n      input: { from: '.y' }\n      set: { x: 1 }\n      output: { as: { z: '${ .x }' } }\n      export: { as: '${ $context + . }' }\n      timeout: { after: PT5M }\n      metadata: { color: red }\n      then: exit",
    );
    let step = &workflow.steps[0];
    assert_eq!(source(&workflow, step.condition), ".x");
    assert_eq!(show(&workflow, step.input.as_ref().unwrap()), "<.y>");
    assert_eq!(show(&workflow, step.output.as_ref().unwrap()), "{z: <.x>}");
    assert_eq!(show(&workflow, step.export.as_ref().unwrap()), "<$context + .>");
    assert_eq!(step.timeout, Some(Delay::Fixed(Span::from_secs(300))));
    assert_eq!(step.then, Then::Exit);
}

#[test]
fn references_are_pointers_with_index_and_name() {
    let workflow = workflow(
        "  - outer:\n      do:\n        - a/b: { set: { x: 1 } }\n  - loop:\n      for: { in: .x }\n      do:\n        - inLoop: { set: { x: 1 } }\n  - split:\n      fork:\n        branches:\n          - left: { set: { x: 1 } }\n          - right: { do: [ { deep: { set: { x: 1 } } } ] }\n  - guarded:\n      try:\n        - risky: { set: { x: 1 } }\n      catch:\n        do:\n          - rescue: { set: { x: 1 } }",
    );
    assert_eq!(
        references(&workflow),
        [
            "/do/0/outer",
            "/do/0/outer/do/0/a~1b",
            "/do/1/loop",
            "/do/1/loop/do/0/inLoop",
            "/do/2/split",
            "/do/2/split/fork/branches/0/left",
            "/do/2/split/fork/branches/1/right",
            "/do/2/split/fork/branches/1/right/do/0/deep",
            "/do/3/guarded",
            "/do/3/guarded/try/0/risky",
            "/do/3/guarded/catch/do/0/rescue",
        ]
    );
    assert_eq!(workflow.root, [0, 2, 4, 8]);
}

#[test]
fn set() {
    let workflow = workflow(
        "  - literal: { set: { a: 1, b: [ x, .y ] } }\n  - mixed: { set: { a: ' ${ .x } ', b: [ '${ .y }', z ], c: .x } }\n  - whole: { set: '${ . }' }\n  - lines:\n      set: |\n        ${\n          .a\n        }",
    );
    let value = |name| match &step(&workflow, name).kind {
        Kind::Set { value } => show(&workflow, value),
        other => panic!("{other:?}"),
    };
    assert_eq!(value("literal"), r#"{"a":1,"b":["x",".y"]}"#);
    assert_eq!(value("mixed"), r#"{a: <.x>, b: [<.y>, "z"], c: ".x"}"#);
    assert_eq!(value("whole"), "<.>");
    assert_eq!(value("lines"), "<.a>");
}

#[test]
fn switch_and_then() {
    let workflow = workflow(
        "  - choose:\n      switch:\n        - red: { when: '.c == \"red\"', then: b }\n        - other: { then: end }\n        - blue: { when: '${ .c }', then: continue }\n  - a: { set: { x: 1 }, then: b }\n  - b: { set: { x: 1 }, then: a }",
    );
    let Kind::Switch { cases } = &workflow.steps[0].kind else { panic!("not a switch") };
    let cases: Vec<_> = cases.iter().map(|c| (c.name.as_str(), source(&workflow, c.when), c.then)).collect();
    assert_eq!(
        cases,
        [("red", ".c == \"red\"", Then::Goto(2)), ("other", "", Then::End), ("blue", ".c", Then::Continue)]
    );
    assert_eq!((step(&workflow, "a").then, step(&workflow, "b").then), (Then::Goto(2), Then::Goto(1)));
}

#[test]
fn for_with_its_variables() {
    let workflow = workflow(
        "  - pets:\n      for: { each: pet, in: .pets, at: i }\n      while: $pet.alive\n      do:\n        - toys:\n            for: { in: $pet.toys }\n            do:\n              - note: { set: { x: '${ [$pet, $i, $item, $index] }' } }",
    );
    let Kind::For { item, at, items, condition, list } = &workflow.steps[0].kind else { panic!("not a for") };
    assert_eq!((item.as_str(), at.as_str(), list.as_slice()), ("pet", "i", [1].as_slice()));
    let locals = |id: u32| workflow.exprs[id as usize].locals.join(" ");
    assert_eq!(locals(*items), "");
    assert_eq!(locals(condition.unwrap()), "pet i");
    let Kind::For { item, at, items, .. } = &workflow.steps[1].kind else { panic!("not a for") };
    assert_eq!((item.as_str(), at.as_str(), locals(*items).as_str()), ("item", "index", "pet i"));
    let Kind::Set { value: Template::Object(members) } = &workflow.steps[2].kind else { panic!("not a set") };
    let Template::Expr(id) = members[0].1 else { panic!("not an expression") };
    assert_eq!(locals(id), "pet i item index");
}

#[test]
fn an_inner_variable_hides_the_outer_one() {
    let workflow = workflow(
        "  - a:\n      for: { in: .x }\n      do:\n        - b:\n            for: { in: .y }\n            do:\n              - c: { set: '${ $item }' }",
    );
    let Kind::Set { value: Template::Expr(id) } = step(&workflow, "c").kind else { panic!("not a set") };
    assert_eq!(workflow.exprs[id as usize].locals, ["item", "index"]);
}

#[test]
fn fork() {
    let list = "  - f:\n      fork:\n        compete: true\n        branches:\n          - a: { set: { x: 1 } }\n          - b: { set: { x: 1 } }";
    assert_eq!(workflow(list).steps[0].kind, Kind::Fork { branches: vec![1, 2], compete: true });
}

#[test]
fn wait() {
    let workflow = workflow(
        "  - a: { wait: { minutes: 1, milliseconds: 5 } }\n  - b: { wait: PT0.5S }\n  - c: { wait: '${ .d }' }",
    );
    assert_eq!(step(&workflow, "a").kind, Kind::Wait { delay: Delay::Fixed(Span::from_millis(60_005)) });
    assert_eq!(step(&workflow, "b").kind, Kind::Wait { delay: Delay::Fixed(Span::from_millis(500)) });
    assert_eq!(step(&workflow, "c").kind, Kind::Wait { delay: Delay::Expr(0) });
}

#[test]
fn raise() {
    let document = format!(
        "use:\n  errors:\n    gone: {{ type: https://a.b/gone, status: 410, title: Gone, detail: '${{ .why }}' }}\n{}",
        tasks(
            "  - named: { if: .x, raise: { error: gone } }\n  - inline: { raise: { error: { type: '${ .t }', status: 500, instance: /x } } }"
        ),
    );
    let workflow = yaml(&document).workflow;
    let error = |name| match &step(&workflow, name).kind {
        Kind::Raise { error } => error.clone(),
        other => panic!("{other:?}"),
    };
    let named = error("named");
    assert_eq!((show(&workflow, &named.error_type), named.status), ("\"https://a.b/gone\"".to_owned(), 410));
    assert_eq!(show(&workflow, &named.title.unwrap()), "\"Gone\"");
    assert_eq!(show(&workflow, &named.detail.unwrap()), "<.why>");
    let inline = error("inline");
    assert_eq!((show(&workflow, &inline.error_type), inline.status), ("<.t>".to_owned(), 500));
    assert_eq!(show(&workflow, &inline.instance.unwrap()), "\"/x\"");
}

#[test]
fn try_and_retry() {
    let document = format!(
        "use:\n  retries:\n    often:\n      when: $problem.status == 503\n      delay: {{ seconds: 3 }}\n      backoff: {{ exponential: {{ factor: 1.5, maxDelay: PT1M }} }}\n      limit: {{ attempt: {{ count: 5, duration: PT10S }}, duration: '${{ .max }}' }}\n      jitter: {{ from: PT0S, to: PT1S }}\n{}",
        tasks(
            "  - a:\n      try:\n        - b: { set: { x: 1 } }\n      catch:\n        errors: { with: { type: https://a.b/c, status: 503, details: d } }\n        as: problem\n        when: $problem.title != null\n        exceptWhen: .y\n        retry: often\n        do:\n          - c: { set: { x: '${ $problem }' } }"
        ),
    );
    let workflow = yaml(&document).workflow;
    let Kind::Try { list, catch } = &workflow.steps[0].kind else { panic!("not a try") };
    assert_eq!((list.as_slice(), catch.list.as_deref()), ([1].as_slice(), Some([2].as_slice())));
    let filter = ErrorFilter {
        error_type: Some("https://a.b/c".to_owned()),
        status: Some(503),
        detail: Some("d".to_owned()),
        ..ErrorFilter::default()
    };
    assert_eq!((&catch.with, catch.error_as.as_str()), (&filter, "problem"));
    assert_eq!(source(&workflow, catch.when), "$problem.title != null");
    assert_eq!(source(&workflow, catch.except_when), ".y");
    let retry = catch.retry.as_ref().unwrap();
    assert_eq!(source(&workflow, retry.when), "$problem.status == 503");
    assert_eq!(retry.delay, Delay::Fixed(Span::from_secs(3)));
    assert_eq!(retry.backoff, Backoff::Exponential { factor: 1.5, max: Some(Span::from_secs(60)) });
    assert_eq!((retry.count_max, retry.attempt_max), (Some(5), Some(Delay::Fixed(Span::from_secs(10)))));
    assert!(matches!(retry.total_max, Some(Delay::Expr(_))));
    assert_eq!(retry.jitter, Some((Delay::Fixed(Span::ZERO), Delay::Fixed(Span::from_secs(1)))));
}

#[test]
fn defaults_of_catch_and_retry() {
    let workflow = workflow(
        "  - a:\n      try: [ { b: { set: { x: 1 } } } ]\n      catch: { retry: { backoff: { linear: {} } } }\n  - c:\n      try: [ { d: { set: { x: 1 } } } ]\n      catch: { retry: { backoff: { exponential: {} }, delay: PT1S } }\n  - e:\n      try: [ { f: { set: { x: 1 } } } ]\n      catch: {}",
    );
    let catch = |name| match &step(&workflow, name).kind {
        Kind::Try { catch, .. } => catch.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((catch("a").error_as.as_str(), catch("a").list), ("error", None));
    let retry = catch("a").retry.unwrap();
    assert_eq!(
        (retry.backoff, retry.delay, retry.count_max),
        (Backoff::Linear, Delay::Fixed(Span::ZERO), None)
    );
    assert_eq!(catch("c").retry.unwrap().backoff, Backoff::Exponential { factor: 2.0, max: None });
    assert_eq!(catch("e").retry, None);
}

#[test]
fn emit() {
    let workflow = workflow(
        "  - a:\n      emit:\n        event:\n          with: { source: https://a.b, type: t, data: { x: '${ .x }' }, extra: 1 }",
    );
    let Kind::Emit { event } = &workflow.steps[0].kind else { panic!("not an emit") };
    assert_eq!(show(&workflow, event), r#"{source: "https://a.b", type: "t", data: {x: <.x>}, extra: 1}"#);
}

#[test]
fn listen() {
    let workflow = workflow(
        "  - a:\n      listen:\n        to:\n          one:\n            with: { type: t, data: '${ .ok }' }\n            correlate:\n              order: { from: .data.id, expect: '${ $context.id }' }\n              kind: { from: '${ .kind }', expect: big }\n              any: { from: .x }\n        read: envelope",
    );
    let Kind::Listen { to, read, foreach: None } = &workflow.steps[0].kind else { panic!("not a listen") };
    let filters = &to.filters;
    assert_eq!((filters.len(), *read), (1, Read::Envelope));
    let with: Vec<_> =
        filters[0].with.iter().map(|(key, value)| (key.as_str(), show(&workflow, value))).collect();
    assert_eq!(with, [("type", "\"t\"".to_owned()), ("data", "<.ok>".to_owned())]);
    let correlate: Vec<_> = filters[0]
        .correlate
        .iter()
        .map(|c| {
            (c.key.as_str(), source(&workflow, Some(c.from)), c.expect.as_ref().map(|e| show(&workflow, e)))
        })
        .collect();
    assert_eq!(
        correlate,
        [
            ("order", ".data.id", Some("<$context.id>".to_owned())),
            ("kind", ".kind", Some("\"big\"".to_owned())),
            ("any", ".x", None),
        ]
    );
}

#[test]
fn call_http() {
    let document = format!(
        "use:\n  authentications:\n    mine: {{ basic: {{ username: u, password: '${{ .p }}' }} }}\n{}",
        tasks(
            "  - a:\n      call: http\n      with:\n        method: post\n        endpoint: { uri: 'https://a.b/{id}', authentication: { use: mine } }\n        headers: { x: '${ .h }', y: z }\n        query: { q: a }\n        body: { n: '${ .n }' }\n        output: response\n        redirect: true\n  - b:\n      call: http\n      with: { method: GET, endpoint: '${ .url }', headers: '${ .headers }', query: '${ .query }' }"
        ),
    );
    let workflow = yaml(&document).workflow;
    let http = |name| match &step(&workflow, name).kind {
        Kind::Call { call: Call::Http(http) } => http.clone(),
        other => panic!("{other:?}"),
    };
    let a = http("a");
    assert_eq!((a.method.as_str(), a.output, a.redirect), ("POST", HttpOutput::Response, true));
    assert_eq!(show(&workflow, &a.endpoint), "\"https://a.b/{id}\"");
    assert_eq!(show(&workflow, &Template::Object(a.headers)), "{x: <.h>, y: \"z\"}");
    assert_eq!(show(&workflow, &Template::Object(a.query)), "{q: \"a\"}");
    assert_eq!(show(&workflow, &a.body.unwrap()), "{n: <.n>}");
    let Some(Authentication::Basic { username, password }) = a.authentication else { panic!("not basic") };
    assert_eq!(
        (show(&workflow, &username), show(&workflow, &password)),
        ("\"u\"".to_owned(), "<.p>".to_owned())
    );
    let b = http("b");
    assert_eq!((b.method.as_str(), b.output, b.redirect), ("GET", HttpOutput::Content, false));
    assert_eq!(show(&workflow, &b.endpoint), "<.url>");
    assert_eq!((source(&workflow, b.headers_from), source(&workflow, b.query_from)), (".headers", ".query"));
}

#[test]
fn call_worker_and_human_task() {
    let workflow = workflow(
        "  - w: { call: 'mail/send:1.0.0@default', with: { to: '${ .to }' } }\n  - h: { call: 'human-task:1.0.0@default' }",
    );
    let Kind::Call { call: Call::Worker { name, with, .. } } = &workflow.steps[0].kind else {
        panic!("not a worker")
    };
    assert_eq!((name.as_str(), show(&workflow, with)), ("mail/send", "{to: <.to>}".to_owned()));
    let human = Call::HumanTask { with: Template::Literal(Data::object()) };
    assert_eq!(workflow.steps[1].kind, Kind::Call { call: human });
}

#[test]
fn functions_are_inlined() {
    let document = format!(
        "use:\n  functions:\n    getPet: {{ call: http, with: {{ method: get, endpoint: 'https://a.b/{{petId}}' }}, output: {{ as: .pet }} }}\n    checked:\n      input: {{ from: .inner }}\n      call: 'check:1.0.0@default'\n{}",
        tasks(
            "  - a: { call: getPet, with: { petId: '${ .id }' }, output: { as: .name } }\n  - b: { call: checked }"
        ),
    );
    let workflow = yaml(&document).workflow;
    let Kind::Function { with, task } = &step(&workflow, "a").kind else { panic!("not a function") };
    let inner = &workflow.steps[*task as usize];
    assert_eq!((inner.name.as_str(), inner.reference.as_str()), ("getPet", "/do/0/a"));
    assert_eq!(show(&workflow, with), "{petId: <.id>}");
    assert_eq!(show(&workflow, inner.output.as_ref().unwrap()), "<.pet>");
    assert!(matches!(inner.kind, Kind::Call { call: Call::Http(_) }));
    // Without `with` a function is given an empty object; its own `input.from` sees the arguments.
    let Kind::Function { with, task } = &step(&workflow, "b").kind else { panic!("not a function") };
    let inner = &workflow.steps[*task as usize];
    assert_eq!(show(&workflow, with), "{}");
    assert_eq!(show(&workflow, inner.input.as_ref().unwrap()), "<.inner>");
    assert!(matches!(inner.kind, Kind::Call { call: Call::Worker { .. } }));
}

#[test]
fn timeouts_by_name() {
    let document = format!(
        "timeout: long\nuse:\n  timeouts:\n    short: {{ after: PT1S }}\n    long: {{ after: {{ hours: 1 }} }}\n{}",
        tasks("  - a: { set: { x: 1 }, timeout: short }"),
    );
    let workflow = yaml(&document).workflow;
    assert_eq!(workflow.timeout, Some(Delay::Fixed(Span::from_secs(3600))));
    assert_eq!(workflow.steps[0].timeout, Some(Delay::Fixed(Span::from_secs(1))));
}

#[test]
fn equal_expressions_are_kept_once() {
    let workflow = workflow("  - a: { set: { x: '${ .x }', y: '${.x}' } }\n  - b: { if: .x, set: { z: 1 } }");
    assert_eq!(workflow.exprs.len(), 1);
}

#[test]
fn json_compiles_to_the_same() {
    let text = r#"{"document": {"dsl": "1.0.3", "namespace": "test", "name": "tested", "version": "1.0.0"},
        "do": [{"a": {"set": {"x": "${ .y }", "n": 1.5}, "then": "end"}}]}"#;
    let from_json = super::compile_text(text.as_bytes(), super::Format::Json).expect("it compiles").workflow;
    assert_eq!(from_json, workflow("  - a: { set: { x: '${ .y }', n: 1.5 }, then: end }"));
}
