//! History says which visit of a step an event is of, and has an end for every step that began.

use super::{Bench, bench};
use crate::command::Command;

/// Every visit is begun once and ended once.
fn assert_ends(run: &Bench) {
    let of = |kinds: &[&str]| {
        let mut found: Vec<&str> = (run.visits.iter())
            .filter_map(|line| line.split_once(' '))
            .filter(|(kind, _)| kinds.contains(kind))
            .map(|(_, visit)| visit)
            .collect();
        found.sort_unstable();
        found
    };
    let began = of(&["step.started"]);
    assert_eq!(began, of(&["step.completed", "step.faulted", "step.cancelled"]), "{:#?}", run.visits);
    let mut once = began.clone();
    once.dedup();
    assert_eq!(began, once);
}

fn visits<'a>(run: &'a Bench, step: &str) -> Vec<&'a str> {
    let prefix = format!("step.completed {step} ");
    run.visits.iter().filter_map(|line| line.strip_prefix(prefix.as_str())).collect()
}

#[test]
fn loops_in_loops_are_told_apart() {
    let run = bench(
        "do:
        - outer:
            for: { each: a, in: '${ [1, 2] }' }
            do:
            - inner:
                for: { each: b, in: '${ [1, 2] }' }
                do: [ { s: { set: '${ $b }' } } ]",
    );
    let run = run.start("{}");
    assert_eq!(visits(&run, "s"), ["0.0", "0.1", "1.0", "1.1"]);
    assert_eq!(visits(&run, "inner"), ["0", "1"]);
    assert_eq!(visits(&run, "outer"), [""]);
    assert_ends(&run);
}

#[test]
fn a_jump_back_makes_another_visit() {
    let run = bench(
        "do:
        - a: { set: { n: '${ .n + 1 }' } }
        - b: { switch: [ { more: { when: .n < 3, then: a } }, { enough: { then: end } } ] }",
    );
    let run = run.start(r#"{"n":0}"#);
    assert_eq!(visits(&run, "a"), ["", "~1", "~2"]);
    assert_ends(&run);
}

#[test]
fn what_loses_or_is_left_has_an_end() {
    let run = bench(
        "do:
        - race:
            fork:
              compete: true
              branches:
              - slow: { do: [ { rest: { wait: { days: 1 } } } ] }
              - quick: { set: { won: true } }
        - t:
            try:
            - each:
                for: { each: n, in: '${ [1] }' }
                do: [ { boom: { raise: { error: { type: 'https://x', status: 400 } } } } ]
            catch: { do: [ { told: { set: { x: 1 } } } ] }",
    );
    let run = run.start("{}");
    assert_ends(&run);
    assert!(run.visits.contains(&"step.cancelled rest ".to_owned()), "{:#?}", run.visits);
    assert!(run.visits.contains(&"step.faulted boom 0".to_owned()), "{:#?}", run.visits);
    assert!(run.visits.contains(&"step.cancelled each ".to_owned()), "{:#?}", run.visits);
}

#[test]
fn a_cancelled_instance_ends_its_steps() {
    let mut run = bench("do: [ { list: { do: [ { rest: { wait: { days: 1 } } } ] } } ]").start("{}");
    assert!(run.tell(Command::Cancel));
    assert_ends(&run);
}
