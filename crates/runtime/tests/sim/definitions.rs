//! What the seeds run, and what the checker has to know of each: how often a step is visited, how long it lasts.

use machine::{Time, language::Format};
use runtime::Programs;
use std::sync::OnceLock;
use store::rows::DefinitionRow;

/// One definition and what is known about it beforehand.
pub(crate) struct Definition {
    pub(crate) name: &'static str,
    /// How often it is chosen, relative to the others.
    weight: u64,
    /// Signals its client sends.
    pub(crate) signals: u64,
    /// A person has a task in it.
    pub(crate) person: bool,
    body: &'static str,
    /// Steps that are visited more than once: their names and how often.
    visits: &'static [(&'static str, usize)],
    /// Microseconds that a wait lasts at least.
    pub(crate) waits: &'static [(&'static str, i64)],
    /// Microseconds after which a step times out, and not before.
    pub(crate) limits: &'static [(&'static str, i64)],
    /// Steps that fault by themselves, whatever the workers do.
    pub(crate) faults: &'static [&'static str],
    /// Steps that start instances: they fault when those do.
    pub(crate) starts: &'static [&'static str],
}

const PLAIN: Definition = Definition {
    name: "",
    weight: 10,
    signals: 0,
    person: false,
    body: "",
    visits: &[],
    waits: &[],
    limits: &[],
    faults: &[],
    starts: &[],
};

const DEFINITIONS: [Definition; 22] = [
    // Timers between calls, and an event.
    Definition {
        name: "steps",
        waits: &[("rest", 1_000_000), ("rest2", 2_000_000)],
        body: "do:
- a: { call: 'effect:1.0.0@default', with: { give: '${ .client }' } }
- rest: { wait: { seconds: 1 } }
- b: { call: 'effect:1.0.0@default', with: { give: '${ . + 1 }' } }
- rest2: { wait: { seconds: 2 } }
- tell:
    emit: { event: { with: { source: 'https://sim', type: done, data: { n: '${ . }' } } } }
    output: { as: '${ .data.n }' }",
        ..PLAIN
    },
    // Three signals of the same type, in whatever order they come.
    Definition {
        name: "signals",
        signals: 3,
        body: "do:
- first: { listen: { to: { one: { with: { type: go } } } }, export: { as: '${ . }' } }
- a: { call: 'effect:1.0.0@default', with: { give: 1 } }
- second: { listen: { to: { one: { with: { type: go } } } }, export: { as: '${ $context + . }' } }
- third: { listen: { to: { one: { with: { type: go } } } }, output: { as: '${ $context + . }' } }",
        ..PLAIN
    },
    // Branches that all have to end, one of them a person's.
    Definition {
        name: "fork",
        signals: 1,
        person: true,
        waits: &[("c", 1_000_000)],
        body: "do:
- all:
    fork:
      branches:
      - a: { call: 'effect:1.0.0@default', with: { give: a } }
      - b: { listen: { to: { one: { with: { type: go } } } } }
      - c: { wait: { seconds: 1 } }
      - d: { call: 'human-task:1.0.0@default', with: { title: Decide } }
- e: { call: 'effect:1.0.0@default', with: { give: '${ . }' } }",
        ..PLAIN
    },
    // Waits that end early, next to others that must not.
    Definition {
        name: "limits",
        waits: &[("rest", 3_000_000), ("rest2", 1_000_000)],
        limits: &[("ask", 500_000)],
        faults: &["ask"],
        body: "do:
- t:
    try: [ { ask: { listen: { to: { one: { with: { type: never } } } }, timeout: { after: { milliseconds: 500 } } } } ]
    catch: { errors: { with: { status: 408 } } }
- rest: { wait: { seconds: 3 } }
- r:
    try: [ { c: { call: 'effect:1.0.0@default', with: { give: limits } } } ]
    catch: { retry: { delay: { milliseconds: 300 }, limit: { attempt: { count: 2 } } } }
- rest2: { wait: { seconds: 1 } }",
        ..PLAIN
    },
    // A call per iteration, each with a key of its own, and an event.
    Definition {
        name: "loop",
        visits: &[("c", 3)],
        body: "do:
- begin: { set: { sum: 0 } }
- each:
    for: { each: item, in: '${ [1, 2, 3] }' }
    do:
    - c:
        call: 'effect:1.0.0@default'
        with: { give: '${ .sum + $item }' }
        output: { as: '${ { sum: . } }' }
- tell:
    emit: { event: { with: { source: 'https://sim', type: done, data: { n: '${ . }' } } } }
    output: { as: '${ .data.n }' }",
        ..PLAIN
    },
    // Branches of which the first to end wins.
    Definition {
        name: "race",
        signals: 1,
        waits: &[("slow", 600_000)],
        body: "do:
- all:
    fork:
      compete: true
      branches:
      - quick: { call: 'effect:1.0.0@default', with: { give: called, slow: 1200 } }
      - slow: { wait: { milliseconds: 600 }, output: { as: '${ \"waited\" }' } }
      - heard: { listen: { to: { one: { with: { type: go } } } }, output: { as: '${ .[0] }' } }",
        ..PLAIN
    },
    // An error of the definition's own, caught, with what it said.
    Definition {
        name: "raise",
        weight: 5,
        faults: &["boom"],
        body: "do:
- t:
    try:
    - boom:
        raise: { error: { type: 'https://sim/boom', status: 418, title: Boom, detail: '${ \"client \\(.client)\" }' } }
    catch:
      errors: { with: { status: 418 } }
      as: error
      do:
      - told: { set: { status: '${ $error.status }', detail: '${ $error.detail }' } }
- a: { call: 'effect:1.0.0@default', with: { give: '${ . }' } }
- tell:
    emit: { event: { with: { source: 'https://sim', type: done, data: { n: '${ . }' } } } }
    output: { as: '${ .data.n }' }",
        ..PLAIN
    },
    // Expressions: one in process, one outside, one that fails.
    Definition {
        name: "sums",
        weight: 5,
        faults: &["bad"],
        body: "do:
- inside: { set: { n: '${ [range(5)] | add }' } }
- outside: { set: { n: '${ .n }', m: '${ .n | until(. > 30; . * 2) }' }, export: { as: '${ . }' } }
- t:
    try: [ { bad: { set: { n: '${ .m + \"one\" }' } } } ]
    catch: { as: error, do: [ { told: { set: { n: '${ .n }', m: '${ .m }', status: '${ $error.status }' } } } ] }
- a: { call: 'effect:1.0.0@default', with: { give: '${ . }' } }",
        ..PLAIN
    },
    // A call that is given up after three goes.
    Definition {
        name: "patient",
        body: "do:
- r:
    try: [ { c: { call: 'effect:1.0.0@default', with: { give: ok } } } ]
    catch:
      retry: { delay: { milliseconds: 100 }, limit: { attempt: { count: 2 } } }
      do: [ { fell: { set: { fell: true } } } ]
- tell:
    emit: { event: { with: { source: 'https://sim', type: done, data: { n: '${ . }' } } } }
    output: { as: '${ .data.n }' }",
        ..PLAIN
    },
    // A person who may be too late, and what happens then.
    Definition {
        name: "approval",
        person: true,
        limits: &[("decide", 1_500_000)],
        faults: &["decide"],
        body: "do:
- ask:
    try:
    - decide: { call: 'human-task:1.0.0@default', with: { title: Decide }, timeout: { after: { milliseconds: 1500 } } }
    catch:
      errors: { with: { status: 408 } }
      do: [ { escalate: { call: 'effect:1.0.0@default', with: { give: escalated } } } ]",
        ..PLAIN
    },
    // A call that may take too long.
    Definition {
        name: "bounded",
        limits: &[("slow", 150_000)],
        faults: &["slow"],
        body: "do:
- b:
    try:
    - slow:
        call: 'effect:1.0.0@default'
        with: { give: done, slow: 300 }
        timeout: { after: { milliseconds: 150 } }
    catch: { errors: { with: { status: 408 } }, do: [ { late: { set: { late: true } } } ] }
- rest: { wait: { milliseconds: 100 } }",
        waits: &[("rest", 100_000)],
        ..PLAIN
    },
    // A saga that may fail or take too long, caught.
    Definition {
        name: "saga",
        limits: &[("s", 900_000)],
        faults: &["s"],
        body: "do:
- t:
    try:
    - s:
        call: saga:1.0.0@default
        timeout: { after: { milliseconds: 900 } }
        with:
          steps:
          - { name: a, do: 'effect:1.0.0@default', undo: 'effect:1.0.0@default', with: { give: a, slow: 150 } }
          - { name: b, do: 'effect:1.0.0@default', undo: 'effect:1.0.0@default', with: { give: b, slow: 150 } }
          - { name: c, do: 'effect:1.0.0@default', undo: 'effect:1.0.0@default', with: { give: c, slow: 400 } }
          - { name: d, do: 'effect:1.0.0@default', undo: 'effect:1.0.0@default', with: { give: d, slow: 400 } }
    catch: { do: [ { fell: { set: { fell: true } } } ] }",
        ..PLAIN
    },
    // A saga with a pivot beside another branch; nobody catches, so the whole of it may be done anew.
    Definition {
        name: "trip",
        body: "do:
- all:
    fork:
      branches:
      - s:
          call: saga:1.0.0@default
          with:
            steps:
            - { name: a, do: 'effect:1.0.0@default', undo: 'effect:1.0.0@default', with: { give: a, slow: 200 } }
            - { name: b, do: 'effect:1.0.0@default', undo: 'effect:1.0.0@default', with: { give: b, slow: 200 } }
            - { name: c, do: 'effect:1.0.0@default', pivot: true, with: { give: c, slow: 200 } }
            - { name: d, do: 'effect:1.0.0@default', retry: { delay: PT0.1S, limit: { attempt: { count: 1 } } }, with: { give: d } }
      - e: { call: 'effect:1.0.0@default', with: { give: e, slow: 600 } }",
        ..PLAIN
    },
    // A saga that may lose.
    Definition {
        name: "rival",
        waits: &[("slow", 300_000)],
        body: "do:
- all:
    fork:
      compete: true
      branches:
      - s:
          call: saga:1.0.0@default
          with:
            steps:
            - { name: a, do: 'effect:1.0.0@default', undo: 'effect:1.0.0@default', with: { give: a, slow: 200 } }
            - { name: b, do: 'effect:1.0.0@default', undo: 'effect:1.0.0@default', with: { give: b, slow: 200 } }
            - { name: c, do: 'effect:1.0.0@default', undo: 'effect:1.0.0@default', with: { give: c, slow: 200 } }
      - slow: { wait: { milliseconds: 300 }, output: { as: '${ \"waited\" }' } }",
        ..PLAIN
    },
    // More steps than one turn takes.
    Definition {
        name: "long",
        weight: 1,
        visits: &[("s", 1010)],
        body: "do:
- many:
    for: { each: n, in: '${ [range(1010)] }' }
    do: [ { s: { set: '${ $n }' } } ]
- a: { call: 'effect:1.0.0@default', with: { give: '${ . }' } }",
        ..PLAIN
    },
    // A child that is waited for, and cancelled with its parent.
    Definition {
        name: "nest",
        starts: &["c"],
        body: "do:
- c: { run: { workflow: { namespace: sim, name: leaf, version: '1.0.0', input: { n: '${ .client }' } } } }
- a: { call: 'effect:1.0.0@default', with: { give: '${ . + 1 }' } }",
        ..PLAIN
    },
    // A child that its parent must outlive, whatever happens to the parent.
    Definition {
        name: "keep",
        starts: &["c"],
        body: "do:
- c:
    call: 'child:1.0.0@default'
    with:
      workflow: { namespace: sim, name: leaf, version: latest }
      input: { n: '${ .client }' }
      onParentClose: wait",
        ..PLAIN
    },
    // One child per item, few at a time.
    Definition {
        name: "many",
        starts: &["m"],
        body: "do:
- m:
    call: 'map:1.0.0@default'
    with:
      items: '${ [range(7)] | map({ n: . }) }'
      batchSize: 3
      concurrency: 5
      workflow: { namespace: sim, name: item, version: '1.0.0' }
    output: { as: '${ { n: .succeeded, results: [ .results[].output ] } }' }",
        ..PLAIN
    },
    // What the parents above start; no client does.
    Definition {
        name: "leaf",
        weight: 0,
        waits: &[("rest", 300_000)],
        body: "do:
- a: { call: 'effect:1.0.0@default', with: { give: '${ .n }' } }
- rest: { wait: { milliseconds: 300 } }",
        ..PLAIN
    },
    // What lives for weeks; only started when the rest is over.
    Definition {
        name: "ages",
        weight: 0,
        body: "do: [ { a: { wait: { days: 365 } } } ]",
        ..PLAIN
    },
    Definition {
        name: "kept",
        weight: 0,
        body: "do:
- c: { run: { workflow: { namespace: sim, name: leaf, version: '1.0.0', input: { n: 1 } } } }
- a: { wait: { days: 365 } }",
        ..PLAIN
    },
    Definition {
        name: "item",
        weight: 0,
        body: "do: [ { a: { call: 'effect:1.0.0@default', with: { give: '${ .n * 10 }' } } } ]",
        ..PLAIN
    },
];

impl Definition {
    /// How often a step is visited when nothing goes wrong. `None` if that depends: a saga may be undone and done
    /// anew, and a faulted instance runs what the fault cut off again.
    pub(crate) fn visits(&self, step: &str) -> Option<usize> {
        match self.saga_steps() {
            0 => Some(look_up(self.visits, step).unwrap_or(1)),
            _ => None,
        }
    }

    /// How many steps its saga has.
    pub(crate) fn saga_steps(&self) -> usize {
        self.body.matches("- { name: ").count()
    }
}

/// What the table says about a step, given by its reference.
pub(crate) fn look_up<T: Copy>(table: &[(&str, T)], step: &str) -> Option<T> {
    let name = step.rsplit('/').next()?;
    table.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

pub(crate) fn named(name: &str) -> &'static Definition {
    DEFINITIONS.iter().find(|definition| definition.name == name).expect("only these are started")
}

/// Chooses one, given a way to draw a number below a limit.
pub(crate) fn choose(below: impl Fn(u64) -> u64) -> &'static Definition {
    let mut point = below(DEFINITIONS.iter().map(|definition| definition.weight).sum());
    for definition in &DEFINITIONS {
        match point.checked_sub(definition.weight) {
            Some(rest) => point = rest,
            None => return definition,
        }
    }
    unreachable!("the point is below the sum")
}

/// All of them as rows, compiled once for all seeds.
pub(crate) fn rows() -> &'static [DefinitionRow] {
    static ROWS: OnceLock<Vec<DefinitionRow>> = OnceLock::new();
    ROWS.get_or_init(|| DEFINITIONS.iter().map(row).collect())
}

/// The programs of all nodes of all seeds: a definition is compiled once.
pub(crate) fn programs() -> Programs {
    static PROGRAMS: OnceLock<Programs> = OnceLock::new();
    PROGRAMS.get_or_init(Programs::default).clone()
}

fn row(definition: &Definition) -> DefinitionRow {
    let Definition { name, body, .. } = definition;
    let source =
        format!("document: {{ dsl: '1.0.3', namespace: sim, name: {name}, version: '1.0.0' }}\n{body}\n");
    let compiled = machine::language::compile(source.as_bytes(), Format::Yaml)
        .unwrap_or_else(|problems| panic!("{name}: {problems:?}"));
    assert!(compiled.unsupported.is_empty(), "{name}: {:?}", compiled.unsupported);
    DefinitionRow {
        namespace: "sim".to_owned(),
        name: (*name).to_owned(),
        version: "1.0.0".to_owned(),
        title: None,
        source: source.into_bytes(),
        media_type: "application/yaml".to_owned(),
        ir: serde_json::to_vec(&compiled.workflow).expect("plain JSON"),
        created_at: Time(super::time::EPOCH),
    }
}
