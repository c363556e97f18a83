//! Events addressed to nobody, told to one wait.

use super::{Bench, bench, data};
use crate::{Command, state::WaitKind};
use uuid::Uuid;

fn told(run: &mut Bench, number: u128, token: u64, event: &str) -> bool {
    run.tell(Command::Event { id: Uuid::from_u128(number), event: data(event), token })
}

fn waits(run: &Bench) -> Vec<u64> {
    let events = run.state().waits.iter().filter(|wait| wait.kind == WaitKind::Event);
    events.map(|wait| wait.token).collect()
}

#[test]
fn the_wait_takes_what_it_wants_and_nothing_else_is_kept() {
    let mut run = bench("do: [ { l: { listen: { to: { one: { with: { type: a } } } } } } ]").start("{}");
    let token = waits(&run)[0];
    assert!(!told(&mut run, 1, token, r#"{"type":"b","data":1}"#), "not wanted");
    assert!(!told(&mut run, 2, token + 9, r#"{"type":"a","data":1}"#), "no such wait");
    assert!(run.state().buffer.is_empty());
    assert!(told(&mut run, 3, token, r#"{"type":"a","data":2}"#));
    run.completes_with("[2]");
    assert!(!told(&mut run, 3, token, r#"{"type":"a","data":2}"#), "late");
}

#[test]
fn each_branch_has_its_own() {
    let mut run = bench(
        "do:
        - f:
            fork:
              branches:
              - one: { listen: { to: { one: { with: { type: a } } } } }
              - two: { listen: { to: { one: { with: { type: a } } } } }",
    )
    .start("{}");
    let tokens = waits(&run);
    assert!(told(&mut run, 1, tokens[1], r#"{"type":"a","data":1}"#));
    assert_eq!(waits(&run), [tokens[0]]);
    assert!(told(&mut run, 1, tokens[0], r#"{"type":"a","data":1}"#));
    run.completes_with("[[1],[1]]");
}

const EACH: &str = "
    do:
    - l:
        listen: { to: { any: [ { with: { type: a, data: '${ . > 0 }' } } ], until: 'length > 1' } }
        foreach: { do: [ { w: { wait: { seconds: 1 } } } ] }";

#[test]
fn during_an_iteration_the_next_is_kept_and_dropped_if_it_is_not_wanted() {
    let mut run = bench(EACH).start("{}");
    let token = waits(&run)[0];
    assert!(told(&mut run, 1, token, r#"{"type":"a","data":1}"#));
    assert!(told(&mut run, 2, token, r#"{"type":"a","data":-1}"#), "nobody can say yet");
    assert!(told(&mut run, 3, token, r#"{"type":"a","data":2}"#));
    assert!(!told(&mut run, 3, token, r#"{"type":"a","data":2}"#), "kept already");
    assert_eq!(run.state().buffer.len(), 2);
    let timer = run.timers.pop().unwrap().0;
    assert!(run.tell(Command::Timer { token: timer }));
    assert!(run.state().buffer.is_empty(), "one taken, one not wanted");
    let timer = run.timers.pop().unwrap().0;
    assert!(run.tell(Command::Timer { token: timer }));
    run.completes_with("[1,2]");
}

#[test]
fn while_paused_it_waits_and_when_the_wait_ends_it_is_forgotten() {
    let mut run = bench("do: [ { l: { listen: { to: { one: { with: { type: a } } } } } } ]").start("{}");
    let token = waits(&run)[0];
    assert!(run.tell(Command::Pause));
    assert!(told(&mut run, 1, token, r#"{"type":"a","data":1}"#));
    assert!(told(&mut run, 2, token, r#"{"type":"a","data":2}"#));
    assert!(run.tell(Command::Resume));
    run.completes_with("[1]");
    assert!(run.state().buffer.is_empty());
}
