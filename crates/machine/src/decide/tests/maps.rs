//! `map`: which items are started when, what is counted, and how the step ends.

use super::{Bench, bench};
use crate::{
    Command, Fault,
    child::*,
    fault::Kind,
    state::{Body, Status},
};

fn map(more: &str) -> String {
    format!(
        "do: [ {{ m: {{ call: 'map:1.0.0@default', with: {{ items: '${{ .items }}', workflow: {{ namespace: n, name: w, version: '1.0.0' }}, {more} }} }} }} ]"
    )
}

fn numbers(count: usize) -> String {
    format!(r#"{{"items":[{}]}}"#, vec!["1"; count].join(","))
}

/// The batches asked for and not answered yet: token, first and count of each.
fn batches(run: &Bench) -> Vec<(u64, u64, u64)> {
    let of = |call: &crate::command::Call| {
        let batch: StartItemsCall = serde_json::from_value(call.input.to_json()).ok()?;
        Some((call.token, batch.first, batch.count))
    };
    run.calls.iter().filter(|call| call.target == START_ITEMS).filter_map(of).collect()
}

fn answer(run: &mut Bench, tally: Tally) {
    let (token, ..) = batches(run)[0];
    run.calls.retain(|call| call.token != token);
    assert!(run.tell(Command::Items { token, tally }));
}

fn tally(succeeded: u64, failed: u64) -> Tally {
    let fault = (failed > 0).then(|| Fault::new(Kind::Communication, "down"));
    Tally { succeeded, failed, fault, total: None }
}

fn step(run: &Bench) -> Map {
    match &run.state().branches[0].frames.last().unwrap().body {
        Body::Map(map) => (**map).clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn batches_follow_each_other_within_the_concurrency() {
    let mut run = bench(&map("batchSize: 10, concurrency: 20")).start(&numbers(35));
    assert_eq!(run.datasets, [(35, 35), (35, 0)], "items, and a place for results");
    assert_eq!(batches(&run).iter().map(|b| (b.1, b.2)).collect::<Vec<_>>(), [(0, 10), (10, 10)]);
    answer(&mut run, tally(10, 0));
    assert_eq!(batches(&run).iter().map(|b| (b.1, b.2)).collect::<Vec<_>>(), [(10, 10), (20, 10)]);
    answer(&mut run, tally(0, 0));
    assert_eq!(batches(&run).len(), 1, "ten are under way");
    let token = step(&run).rounds[0];
    assert!(run.tell(Command::Items { token, tally: tally(2, 0) }));
    assert_eq!(batches(&run).len(), 1, "too few to be worth a batch");
    assert!(run.tell(Command::Items { token, tally: tally(8, 0) }));
    assert_eq!(batches(&run).iter().map(|b| (b.1, b.2)).collect::<Vec<_>>(), [(20, 10), (30, 5)]);
    answer(&mut run, tally(10, 0));
    answer(&mut run, tally(5, 0));
    let call = run.calls.remove(0);
    assert_eq!(call.target, RESULTS);
    assert!(run.tell(Command::CallDone { token: call.token, result: super::data(r#"{"ok":1}"#) }));
    run.completes_with(r#"{"ok":1}"#);
}

#[test]
fn a_reference_is_counted_by_its_first_batch() {
    let body = map("batchSize: 10").replace("${ .items }", "ds_00000000000000000000000000000009");
    let mut run = bench(&body).start("{}");
    assert_eq!(batches(&run).len(), 1, "nobody knows how many there are");
    answer(&mut run, Tally { total: Some(4), ..tally(4, 0) });
    assert_eq!((run.calls.len(), run.calls[0].target.as_str()), (1, RESULTS));
    assert_eq!(run.datasets, [(4, 0)]);

    let mut run = bench(&body).start("{}");
    answer(&mut run, Tally { total: Some(5000), ..tally(10, 0) });
    assert_eq!(batches(&run).len(), STARTING_MAX);
    while let Some((_, _, count)) = batches(&run).first().copied() {
        answer(&mut run, tally(count, 0));
    }
    assert_eq!(run.state().status, Status::Completed, "many results come by reference only");
    let output = run.state().output.clone().unwrap();
    assert_eq!(output.get("succeeded"), Some(crate::Data::int(5000)));
    assert_eq!(output.get("results"), None);
}

#[test]
fn a_failure_faults_the_step_cancels_the_rest_and_retry_goes_through_them_again() {
    let mut run = bench(&map("batchSize: 5, concurrency: 10")).start(&numbers(40));
    answer(&mut run, tally(0, 0));
    let token = step(&run).rounds[0];
    assert!(run.tell(Command::Items { token, tally: tally(0, 1) }));
    run.faults_with("communication", 500, "/do/0/m");
    assert_eq!(run.calls.iter().map(|call| call.target.as_str()).collect::<Vec<_>>(), [CLOSE_ITEMS]);
    assert!(!run.tell(Command::Items { token, tally: tally(1, 0) }), "too late");
    run.calls.clear();
    assert!(run.tell(Command::Retry));
    assert_eq!((step(&run).rounds.len(), batches(&run)[0].1), (2, 0));
    assert_eq!((step(&run).failed, step(&run).succeeded), (0, 0), "they are counted anew");
}

#[test]
fn tolerated_failures_are_collected() {
    let mut run = bench(&map("onError: collect, toleratedFailures: 2")).start(&numbers(10));
    answer(&mut run, tally(7, 2));
    assert_eq!(run.state().status, Status::Open);
    let token = step(&run).rounds[0];
    assert!(run.tell(Command::Items { token, tally: tally(0, 1) }));
    run.faults_with("communication", 500, "/do/0/m");
    let detail = run.state().error.clone().unwrap().detail.unwrap();
    assert_eq!(detail, "3 items failed, 2 are tolerated; one of them: down");
}

#[test]
fn while_paused_nothing_is_started_and_ends_are_added_up() {
    let mut run = bench(&map("batchSize: 5, concurrency: 10")).start(&numbers(40));
    answer(&mut run, tally(0, 0));
    let token = step(&run).rounds[0];
    assert!(run.tell(Command::Pause));
    for _ in 0..5 {
        assert!(run.tell(Command::Items { token, tally: tally(1, 0) }));
    }
    assert_eq!((run.state().buffer.len(), batches(&run).len()), (1, 1));
    assert!(run.tell(Command::Resume));
    assert_eq!((step(&run).succeeded, batches(&run).len()), (5, 2));
}

#[test]
fn the_snapshot_does_not_grow_with_the_items() {
    let body =
        map("batchSize: 100, concurrency: 100").replace("${ .items }", "ds_00000000000000000000000000000009");
    let mut run = bench(&body).start("{}");
    answer(&mut run, Tally { total: Some(100_000), ..tally(100, 0) });
    let size = |run: &Bench| crate::snapshot::write(&run.program, run.state()).json.len();
    let first = size(&run);
    for _ in 0..500 {
        answer(&mut run, tally(100, 0));
    }
    assert!(size(&run) < first + 50, "{} and {first}", size(&run));
}
