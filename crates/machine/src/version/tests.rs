//! Specifications of versions: two documents, what differs, and what becomes of an instance.

use super::{Fit, Mapping, Plan, diff};
use crate::{
    Command, Program,
    decide::tests::{Bench, bench, data},
    language::{Format, compile},
};

const HEAD: &str = "document: { dsl: '1.0.3', namespace: test, name: spec, version: '2.0.0' }\ndo:\n";

fn program(body: &str) -> Program {
    let body = body.trim_start_matches('\n').trim_end();
    let text = format!("{HEAD}{body}\n");
    let compiled =
        compile(text.as_bytes(), Format::Yaml).unwrap_or_else(|problems| panic!("{text}{problems:?}"));
    Program::new(compiled.workflow).unwrap()
}

/// The difference as one line per step: `changed /do/0/a -> /do/1/a: then with.x`.
#[track_caller]
fn differ(old: &str, new: &str, expected: &[&str]) {
    let found: Vec<String> = diff(&program(old).ir, &program(new).ir)
        .steps
        .into_iter()
        .map(|step| {
            let ends = [step.from, step.to].into_iter().flatten().collect::<Vec<_>>().join(" -> ");
            let what: Vec<String> = step.changes.into_iter().map(|change| change.what).collect();
            format!("{} {ends}: {}", step.change, what.join(" ")).trim_end_matches([':', ' ']).to_owned()
        })
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn differences_are_told_step_by_step() {
    let old = "
  - a: { set: { x: 1 } }
  - b: { call: 'mail:1.0.0@default', with: { to: me }, timeout: { after: PT1S } }
  - c: { do: [ { d: { wait: PT1S } }, { e: { wait: PT2S } } ] }
  - f: { raise: { error: { type: https://example.com/e, status: 400 } } }
";
    differ(old, old, &[]);
    let new = "
  - n: { emit: { event: { with: { source: https://example.com, type: x } } } }
  - a: { wait: PT1S }
  - b: { call: 'mail:1.0.0@default', with: { to: you }, then: end }
  - c: { do: [ { e: { wait: PT2S } }, { d: { wait: PT1S } } ], if: .go }
  - g: { raise: { error: { type: https://example.com/e, status: 400 } } }
";
    differ(
        old,
        new,
        &[
            "added /do/0/n",
            "changed /do/0/a -> /do/1/a: kind",
            "changed /do/1/b -> /do/2/b: with.to timeout then",
            "changed /do/2/c -> /do/3/c: if",
            "moved /do/2/c/do/1/e -> /do/3/c/do/0/e",
            "renamed /do/3/f -> /do/4/g",
        ],
    );
    differ(
        new,
        "\n  - a: { wait: PT1S }",
        &[
            "removed /do/0/n",
            "removed /do/2/b",
            "removed /do/3/c",
            "removed /do/3/c/do/0/e",
            "removed /do/3/c/do/1/d",
            "removed /do/4/g",
        ],
    );
}

#[test]
fn differences_of_the_definition_itself() {
    let with = |head: &str| {
        let text = format!("{head}\ndo: [ {{ a: {{ set: {{ x: 1 }} }} }} ]\n");
        compile(text.as_bytes(), Format::Yaml).unwrap().workflow
    };
    let old = with("document: { dsl: 1.0.3, namespace: n, name: n, version: 1.0.0, title: A }");
    let new = with(
        "document: { dsl: 1.0.3, namespace: n, name: n, version: 1.1.0, title: B }\ntimeout: { after: PT1H }",
    );
    let what: Vec<String> = diff(&old, &new).definition.into_iter().map(|change| change.what).collect();
    assert_eq!(what, ["document.title", "timeout"]);
}

fn mapping(pairs: &[(&str, &str)]) -> Mapping {
    pairs.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect()
}

fn show(fit: Fit) -> String {
    match fit {
        Fit::Safe => "safe".to_owned(),
        Fit::NeedsMapping { references } => {
            let needs = references.iter().map(|need| {
                format!("{} -> {}: {}", need.reference, need.suggestion.as_deref().unwrap_or("?"), need.why)
            });
            format!("needs {}", needs.collect::<Vec<_>>().join("; "))
        }
        Fit::Breaks { reasons } => format!("breaks {}", reasons.join("; ")),
    }
}

/// What becomes of an instance of `old` (started with `{}`) in `new`.
#[track_caller]
fn fits(old: &str, new: &str, pairs: &[(&str, &str)], expected: &str) {
    let mapping = mapping(pairs);
    let old = bench(&format!("do:\n{}", old.trim_start_matches('\n'))).start("{}");
    let new = program(new);
    let fit = Plan::new(&old.program, &new, &mapping).fit(old.state());
    assert_eq!(show(fit), expected);
}

const ASKS: &str = "
  - before: { set: { x: 1 } }
  - ask: { call: 'human-task:1.0.0@default', with: { title: T } }
  - after: { set: { y: '${ . }' } }
";

#[test]
fn an_instance_fits_where_nothing_changed_around_it() {
    fits(ASKS, ASKS, &[], "safe");
    // Inserted before and after, and what comes later is another.
    fits(
        ASKS,
        "
  - zero: { set: { z: 1 } }
  - before: { set: { x: 2 } }
  - ask: { call: 'human-task:1.0.0@default', with: { title: T }, then: end, timeout: { after: PT1H } }
  - more: { wait: PT1S }
",
        &[],
        "safe",
    );
}

#[test]
fn an_instance_needs_a_word() {
    let renamed = "
  - before: { set: { x: 1 } }
  - question: { call: 'human-task:1.0.0@default', with: { title: T } }
";
    let why = "it is gone, but another step does the same";
    fits(ASKS, renamed, &[], &format!("needs /do/1/ask -> /do/1/question: {why}"));
    fits(ASKS, renamed, &[("/do/1/ask", "/do/1/question")], "safe");
    let moved = "
  - ask: { call: 'human-task:1.0.0@default', with: { title: T } }
  - before: { set: { x: 1 } }
  - after: { set: { y: '${ . }' } }
";
    let found = "needs /do/1/ask -> /do/0/ask: it changed places with another step of its list";
    fits(ASKS, moved, &[], found);
    fits(ASKS, moved, &[("/do/1/ask", "/do/0/ask")], "safe");
    let changed = "
  - before: { set: { x: 1 } }
  - ask: { call: 'human-task:1.0.0@default', with: { title: T }, output: { as: .approved } }
";
    let found = "needs /do/1/ask -> /do/1/ask: the instance is in it, and its `output` changed";
    fits(ASKS, changed, &[], found);
    fits(ASKS, changed, &[("/do/1/ask", "/do/1/ask")], "safe");
}

#[test]
fn an_instance_breaks() {
    fits(ASKS, "\n  - before: { set: { x: 1 } }", &[], "breaks /do/1/ask is gone");
    let other = "\n  - before: { set: { x: 1 } }\n  - ask: { wait: PT1S }";
    fits(ASKS, other, &[], "breaks /do/1/ask was `call` and is `wait`");
    let inner = "
  - before: { set: { x: 1 } }
  - group: { do: [ { ask: { call: 'human-task:1.0.0@default', with: { title: T } } } ] }
";
    fits(ASKS, inner, &[], "breaks /do/1/ask is in another list now: /do/1/group/do/0/ask");
    let pairs = [("/do/1/ask", "/do/1/group/do/0/ask")];
    fits(ASKS, inner, &pairs, "breaks /do/1/ask is in another list now: /do/1/group/do/0/ask");
    let astray = "breaks /do/1/ask is mapped to a step that is not there";
    fits(ASKS, ASKS, &[("/do/1/ask", "/do/1/nobody")], astray);
    let listen =
        |kind: &str| format!("\n  - l: {{ listen: {{ to: {{ one: {{ with: {{ type: {kind} }} }} }} }} }}");
    let found = "breaks /do/0/l is listening, and its `listen.to.one.with.type` changed";
    fits(&listen("a"), &listen("b"), &[], found);
    let fork = |branches: &str| format!("\n  - f: {{ fork: {{ branches: [ {branches} ] }} }}");
    let (one, two) = ("{ a: { wait: PT1S } }", "{ b: { wait: PT1S } }");
    let found = "breaks /do/0/f is under way and has other branches now";
    fits(&fork(one), &fork(&format!("{one}, {two}")), &[], found);
}

/// Moves a started instance to `new` and goes on there.
fn moved(mut bench: Bench, new: &str, pairs: &[(&str, &str)]) -> Bench {
    let mapping = mapping(pairs);
    let new = program(new);
    let decision = Plan::new(&bench.program, &new, &mapping).migrate(bench.state()).map_err(show).unwrap();
    bench.program = new;
    bench.accept(decision);
    assert_eq!(bench.events.pop().as_deref(), Some("workflow.migrated"));
    bench
}

fn started(body: &str) -> Bench {
    bench(&format!("do:\n{}", body.trim_start_matches('\n'))).start("{}")
}

#[test]
fn a_call_under_way_comes_back_to_the_new_version() {
    let old = "\n  - a: { call: 'w:1.0.0@default' }\n  - b: { set: { old: true } }";
    let new = "
  - zero: { set: { never: true } }
  - a: { call: 'w:1.0.0@default' }
  - b: { set: { new: '${ .r }' } }
";
    let mut bench = moved(started(old), new, &[]);
    bench.done(r#"{"r":1}"#);
    bench.completes_with(r#"{"new":1}"#);
}

#[test]
fn a_timer_and_a_renamed_step() {
    let old = "\n  - a: { wait: PT1S }\n  - b: { set: { old: true } }";
    let new = "\n  - pause: { wait: PT9S }\n  - c: { set: { new: true } }";
    let mut bench = moved(started(old), new, &[("/do/0/a", "/do/0/pause")]);
    bench.tick();
    bench.completes_with(r#"{"new":true}"#);
}

#[test]
fn a_retry_and_a_task_inside_loops() {
    let old = "
  - t:
      try:
        - each:
            for: { in: '[1,2]' }
            do:
              - w: { call: 'w:1.0.0@default', with: { n: '${ $item }' } }
              - s: { set: { n: 0 } }
      catch: { retry: { delay: PT1S, limit: { attempt: { count: 2 } } } }
";
    let new = "
  - first: { set: {} }
  - t:
      try:
        - ready: { wait: PT1S, if: 'false' }
        - each:
            for: { in: '[1,2]' }
            do:
              - x: { set: { n: '${ $item }' } }
              - w: { call: 'w:1.0.0@default', with: { n: '${ $item }' } }
              - s: { set: { n: 5 } }
      catch: { retry: { delay: PT1S, limit: { attempt: { count: 2 } } } }
"
    .replace("set: {}", "set: { q: 1 }");
    // While backing off: the next attempt is of the new version.
    let mut bench = started(old);
    bench.failed(503);
    let mut bench = moved(bench, &new, &[]);
    bench.tick();
    bench.done("{}").done("{}");
    bench.completes_with(r#"{"n":5}"#);
    // In the second iteration, at the call.
    let mut bench = started(old);
    bench.done("{}");
    let mut bench = moved(bench, &new, &[]);
    bench.done("{}");
    bench.completes_with(r#"{"n":5}"#);
    // A person's task.
    let mut bench = moved(started(ASKS), &format!("\n  - zero: {{ wait: PT1S }}{ASKS}"), &[]);
    let token = bench.tasks.remove(0).token;
    assert!(bench.tell(Command::TaskDone { token, result: data("true") }));
    bench.completes_with(r#"{"y":true}"#);
}

#[test]
fn branches_change_places() {
    let old = "
  - f:
      fork:
        branches:
          - a: { call: 'a:1.0.0@default' }
          - b: { call: 'b:1.0.0@default' }
";
    let new = "
  - f:
      fork:
        branches:
          - b: { call: 'b:1.0.0@default' }
          - a: { call: 'a:1.0.0@default' }
";
    let mut bench = started(old);
    bench.done("1");
    let pairs = [
        ("/do/0/f/fork/branches/0/a", "/do/0/f/fork/branches/1/a"),
        ("/do/0/f/fork/branches/1/b", "/do/0/f/fork/branches/0/b"),
    ];
    let mut bench = moved(bench, new, &pairs);
    bench.done("2");
    bench.completes_with("[2,1]");
}

#[test]
fn a_faulted_instance_is_mended_and_run_again() {
    let old = "\n  - a: { set: { x: 1 } }\n  - b: { set: { y: '${ .x + \"1\" }' } }";
    let new = "\n  - a: { set: { x: 1 } }\n  - b: { set: { y: '${ .x + 1 }' } }";
    let bench = started(old);
    bench.faults_with("expression", 400, "/do/1/b");
    let mut bench = moved(bench, new, &[("/do/1/b", "/do/1/b")]);
    assert!(bench.tell(Command::Retry));
    bench.completes_with(r#"{"y":2}"#);
}

#[test]
fn an_ended_instance_stays_where_it_is() {
    let bench = started("\n  - a: { set: { x: 1 } }");
    let (new, none) = (program("\n  - a: { set: { x: 1 } }"), Mapping::new());
    let fit = Plan::new(&bench.program, &new, &none).fit(bench.state());
    assert_eq!(show(fit), "breaks the instance is completed");
}
