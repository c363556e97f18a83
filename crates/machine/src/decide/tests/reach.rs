//! Any command on any reachable state neither panics nor breaks an invariant.

use super::{Bench, bench, data};
use crate::{
    Command,
    fault::Fault,
    state::{Body, Status},
};
use proptest::prelude::*;
use uuid::Uuid;

const DOCUMENTS: &[&str] = &[
    "do:\n- a: { call: 'w:1.0.0@default', timeout: { after: PT1S } }\n- b: { wait: PT1S }\n- c: { listen: { to: { one: { with: { type: go } } } } }",
    r"
    timeout: { after: PT1H }
    do:
    - f:
        fork:
          branches:
          - x: { do: [ { x1: { call: 'w:1.0.0@default' } }, { x2: { wait: PT1S } } ] }
          - y:
              try: [ { y1: { call: 'w:1.0.0@default' } } ]
              catch: { retry: { delay: PT1S, limit: { attempt: { count: 2, duration: PT3S } } }, do: [ { y2: { set: { n: 1 } } } ] }
          - z: { call: 'human-task:1.0.0@default', with: { title: t }, timeout: { after: PT9S } }
    - g: { set: { all: '${ . }' } }",
    r"
    do:
    - r:
        fork:
          compete: true
          branches:
          - p: { for: { each: i, in: '[1,2]' }, do: [ { p1: { call: 'w:1.0.0@default' } } ] }
          - q: { listen: { to: { one: { with: { type: go, data: '${ .ok }' } } } } }
    - again: { switch: [ { more: { when: '. == 1', then: r } } ] }
    output: { as: '{ v: . }' }",
    r"
    input: { from: '. // {}' }
    do:
    - a: { call: 'w:1.0.0@default' }
    - f:
        fork:
          branches:
          - x: { call: 'w:1.0.0@default', output: { as: '. + 1' } }
          - y: { for: { each: i, in: '[1,2]' }, while: '. != 3 or error', do: [ { y1: { call: 'w:1.0.0@default' } } ] }
          - z: { fork: { compete: true, branches: [ { z1: { call: 'w:1.0.0@default' } }, { z2: { wait: PT1S } } ] } }
        output: { as: '.[0] + .[1]' }
    - g: { try: [ { h: { raise: { error: { type: 'https://x', status: 400 } } } } ], catch: { retry: { delay: PT1S, limit: { attempt: { count: 1 } } } } }
    output: { as: '. + {}' }",
    r"
    timeout: { after: PT1H }
    use:
      functions:
        inner: { call: 'saga:1.0.0@default', with: { steps: [ { name: i, do: 'w:1.0.0@default', undo: 'w:1.0.0@default' }, { name: j, pivot: true, do: 'w:1.0.0@default' }, { name: k, do: 'w:1.0.0@default', retry: { delay: PT1S, limit: { attempt: { count: 1 } } } } ] } }
        both: { fork: { branches: [ { x: { call: 'w:1.0.0@default' } }, { y: { call: inner } } ] } }
        back: { try: [ { b1: { call: 'w:1.0.0@default', timeout: { after: PT2S } } } ], catch: { errors: { with: { status: 408 } }, retry: { delay: PT1S, limit: { attempt: { count: 1 } } } } }
    do:
    - t:
        try:
        - f:
            fork:
              compete: true
              branches:
              - s:
                  call: 'saga:1.0.0@default'
                  timeout: { after: PT9S }
                  with:
                    steps:
                    - { name: a, do: 'w:1.0.0@default', undo: back, retry: { delay: PT1S, limit: { attempt: { count: 1 } } } }
                    - { name: b, do: both, undo: inner }
                    - { name: c, do: 'w:1.0.0@default' }
              - r: { fork: { branches: [ { p: { call: 'w:1.0.0@default', then: end } }, { q: { call: inner } } ] } }
        catch: { retry: { delay: PT1S, limit: { attempt: { count: 1, duration: PT20S } } } }
    - o: { call: inner, output: { as: '. + 1' } }",
];

#[derive(Clone, Debug)]
enum Act {
    Done(usize, u8),
    Failed(usize),
    Timer(usize),
    Task(usize),
    Signal(u8, bool),
    Order(u8),
    Stray(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0usize..4, 0u8..4).prop_map(|(which, value)| Act::Done(which, value)),
        2 => (0usize..4).prop_map(Act::Failed),
        3 => (0usize..4).prop_map(Act::Timer),
        2 => (0usize..2).prop_map(Act::Task),
        2 => (0u8..4, any::<bool>()).prop_map(|(id, ok)| Act::Signal(id, ok)),
        1 => (0u8..4).prop_map(Act::Order),
        1 => (0u64..60).prop_map(Act::Stray),
    ]
}

/// The rows a real store would hold agree with what the state waits for.
fn check_rows(run: &Bench) {
    let words = if run.state().status.is_ended() {
        &crate::state::ENDED_WORDS[..]
    } else {
        &crate::state::OPEN_WORDS
    };
    assert!(words.contains(&run.state().status_word()), "a word that lists know");
    let state = run.state();
    let tokens = |kinds: &[&str]| {
        let mut all: Vec<u64> = state
            .waits
            .iter()
            .filter(|wait| kinds.contains(&wait.kind.word()))
            .map(|wait| wait.token)
            .collect();
        all.sort_unstable();
        all
    };
    let sorted = |mut all: Vec<u64>| {
        all.sort_unstable();
        all
    };
    if state.status != Status::Paused {
        assert_eq!(tokens(&["Call"]), sorted(run.calls.iter().map(|call| call.token).collect()));
        assert_eq!(tokens(&["TaskCompletion"]), sorted(run.tasks.iter().map(|task| task.token).collect()));
        assert_eq!(
            tokens(&["Timer", "Retry", "Timeout", "AttemptTimeout"]),
            sorted(run.timers.iter().map(|timer| timer.0).collect())
        );
    }
    for branch in state.branches.iter().filter(|_| state.status == Status::Open) {
        let waits = state.waits.iter().any(|wait| wait.branch == branch.id && !wait.kind.is_limit());
        let forks = matches!(branch.top_body(), Some(Body::Fork { .. }));
        let top = branch.frames.last().map(|frame| frame.sequence);
        let closes = state.closings.iter().any(|closing| match top {
            Some(top) => closing.frames.contains(&top),
            None => closing.branches.contains(&branch.id),
        });
        assert!(waits || forks || closes, "a branch is stranded: {branch:?}");
    }
    assert_eq!(
        state.status.is_ended(),
        state.output.is_some() || state.error.is_some() || state.status == Status::Cancelled
    );
}

fn apply(run: &mut Bench, act: &Act) {
    let paused = run.state().status == Status::Paused;
    match act {
        Act::Done(which, value) if !run.calls.is_empty() => {
            let call = run.calls.remove(which % run.calls.len());
            run.tell(Command::CallDone { token: call.token, result: data(&value.to_string()) });
        }
        Act::Failed(which) if !run.calls.is_empty() => {
            let call = run.calls.remove(which % run.calls.len());
            let fault = Fault::new(crate::fault::Kind::Communication, "x");
            run.tell(Command::CallFailed { token: call.token, fault, given_up: None });
        }
        Act::Timer(which) if !run.timers.is_empty() => {
            let (token, due) = run.timers.remove(which % run.timers.len());
            run.now = run.now.max(due);
            run.tell(Command::Timer { token });
        }
        Act::Task(which) if !run.tasks.is_empty() => {
            let task = run.tasks.remove(which % run.tasks.len());
            run.tell(Command::TaskDone { token: task.token, result: data("true") });
        }
        Act::Signal(id, ok) => {
            let event = data(&format!(r#"{{"type":"go","data":{{"ok":{ok}}}}}"#));
            run.tell(Command::Signal { id: Uuid::from_u128(u128::from(*id)), event });
        }
        Act::Order(which) => {
            let order = [Command::Cancel, Command::Pause, Command::Resume, Command::Retry]
                [usize::from(*which)]
            .clone();
            if order != Command::Cancel || run.now.0 % 3 == 0 {
                run.tell(order);
            }
        }
        Act::Stray(token) => {
            let known = run.state().waits.iter().any(|wait| wait.token == *token);
            if !known && !paused {
                assert!(!run.tell(Command::Timer { token: *token }));
                assert!(!run.tell(Command::CallDone { token: *token, result: data("0") }));
                assert!(!run.tell(Command::PutBack { token: *token }));
            }
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_command_has_an_answer(document in 0..DOCUMENTS.len(), acts in prop::collection::vec(act(), 0..60)) {
        let mut run = bench(DOCUMENTS[document]).start("{}");
        check_rows(&run);
        for act in &acts {
            apply(&mut run, act);
            check_rows(&run);
        }
    }
}
