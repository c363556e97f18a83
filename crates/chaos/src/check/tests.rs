//! Every check is seen to pass on a sound record and to fail on one that was doctored.

use super::*;
use crate::record::{Counts, Effect, Fault, Handled, Published, Settings, Told, Wait};

/// Two roots, one child, a timer, a signal, an effect that is refused once, on two nodes.
fn sound() -> Record {
    let expected = |key: &str, n| Expected {
        key: key.into(),
        tenant: "north".into(),
        program: "p".into(),
        status: "completed".into(),
        n,
        ..Expected::default()
    };
    let mut one = expected("k1", 7);
    one.effects = ["k1/a".into(), "k1/b".into(), "k1/c/s1".into()].into();
    one.waits = vec![Wait { before: "k1/a".into(), after: "k1/b".into(), ms: 50 }];
    one.children = [("k1/c".into(), 4)].into();
    one.signals = vec![("go".into(), 1)];
    one.meets = 1;
    one.told = vec![vec!["k1/x".into(), "k1/y".into()], vec!["k1/z".into()]];
    let last = |id: &str, key: &str, n| Final {
        id: id.into(),
        tenant: "north".into(),
        key: key.into(),
        status: "completed".into(),
        version: 3,
        n: Some(n),
        versions: vec![1, 2, 3],
        ..Final::default()
    };
    let mut finals = vec![last("i1", "k1", 7), last("i2", "k2", 2), last("i3", "k1/c", 4)];
    finals[2].parent = Some("i1".into());
    finals[0].met = 1;
    finals[0].signals =
        vec![("signal.buffered".into(), "sig".into()), ("signal.received".into(), "sig".into())];
    let effect = |t, key: &str, id: &str, status| Effect {
        t,
        key: key.into(),
        id: id.into(),
        hash: format!("hash of {id}"),
        status,
    };
    let sink = vec![
        effect(1_000, "e1", "k1/a", 200),
        effect(60_000, "e2", "k1/b", 503),
        effect(61_000, "e2", "k1/b", 200),
        effect(62_000, "e3", "k1/c/s1", 200),
    ];
    // Branches may be told in any order.
    let told = |node| {
        let one = move |id: &str| Told { node, tenant: "north".into(), id: id.into() };
        ["k1/x", "k1/z", "k1/y"].map(one)
    };
    Record {
        feed: [told(Some(0)), told(Some(1)), told(None)].concat(),
        settings: Settings { seed: 1, seconds: 1, nodes: 2, ..Settings::default() },
        expected: vec![one, expected("k2", 2)],
        ops: ops(),
        faults: vec![],
        sink,
        finals,
        counts: Counts { instances: [("north/completed".into(), 3)].into(), ..Counts::default() },
        published: vec![published("o1"), published("o2")],
        // The second came twice, and its answer counted once.
        handled: vec![handled("o1", "h1"), handled("o2", "h2"), handled("o2", "h2")],
        emitted: vec![published("h1-0"), published("h2-0")],
    }
}

fn published(id: &str) -> Published {
    Published { tenant: "north".into(), id: id.into() }
}

fn handled(id: &str, key: &str) -> Handled {
    Handled { tenant: "north".into(), id: id.into(), key: key.into() }
}

fn op(n: u64, act: Act, key: &str, id: &str) -> Op {
    let at = i64::try_from(n).unwrap() * 1_000;
    Op {
        n,
        op: act,
        key: key.into(),
        tenant: "north".into(),
        client: 1,
        t0: at,
        t1: Some(at + 500),
        res: Res::Ok,
        id: Some(id.into()),
        ..Op::default()
    }
}

fn ops() -> Vec<Op> {
    let mut ops = vec![
        op(0, Act::Start, "k1", "i1"),
        op(1, Act::Start, "k2", "i2"),
        op(2, Act::Signal, "k1", "i1"),
        op(3, Act::Read, "k1", "i1"),
        op(4, Act::Read, "k1", "i1"),
        op(5, Act::History, "k1", "i1"),
    ];
    ops[2].signal = Some("sig".into());
    ops[3].versions = vec![1];
    ops[4].versions = vec![3];
    ops[5].versions = vec![1, 2, 3];
    for node in 0..2 {
        for n in 0..5 {
            let mut tail = op(10 + 5 * node + n, Act::Read, "k2", "i2");
            tail.node = usize::try_from(node).unwrap();
            tail.tail = true;
            tail.versions = vec![3];
            ops.push(tail);
        }
    }
    ops
}

fn failed(record: &Record) -> Vec<&'static str> {
    check(record).iter().filter(|verdict| !verdict.wrong.is_empty()).map(|verdict| verdict.name).collect()
}

/// Exactly these checks fail on a record that was doctored so.
fn caught(wanted: &[&str], doctor: impl FnOnce(&mut Record)) {
    let mut record = sound();
    doctor(&mut record);
    assert_eq!(failed(&record), wanted);
}

#[test]
fn a_sound_record_passes_and_every_check_looks_at_something() {
    let verdicts = check(&sound());
    let idle: Vec<_> = verdicts.iter().filter(|verdict| verdict.looked_at == 0).collect();
    assert!(failed(&sound()).is_empty() && idle.is_empty(), "{verdicts:?}");
}

#[test]
fn a_lost_start_is_seen() {
    caught(&["C1", "C8"], |record| drop(record.finals.remove(1)));
    caught(&["C1"], |record| record.ops[4].status = Some(404));
    caught(&["C1", "C2"], |record| record.ops.push(op(30, Act::Start, "k2", "i9")));
}

#[test]
fn a_doubled_start_is_seen() {
    caught(&["C2"], |record| {
        let double = Final { id: "i9".into(), ..record.finals[1].clone() };
        record.finals.push(double);
        record.counts.instances = [("north/completed".into(), 4)].into();
    });
    caught(&["C2"], |record| {
        let refused = Op { res: Res::Fail, status: Some(422), ..op(30, Act::Start, "k2", "i2") };
        record.ops.push(refused);
    });
    // A child that was started twice, though it has the same output.
    caught(&["C2"], |record| {
        let double = Final { id: "i9".into(), ..record.finals[2].clone() };
        record.finals.push(double);
        record.counts.instances = [("north/completed".into(), 4)].into();
    });
}

#[test]
fn a_wrong_output_is_seen() {
    caught(&["C3"], |record| record.finals[0].n = Some(8));
    caught(&["C3"], |record| record.finals[2].n = Some(5));
    caught(&["C3", "C8"], |record| record.finals[1].status = "faulted".into());
    caught(&["C3"], |record| {
        let stray = Final { id: "i9".into(), key: "k9".into(), ..record.finals[2].clone() };
        record.finals.push(stray);
        record.counts.instances = [("north/completed".into(), 4)].into();
    });
}

/// The first root was cancelled before it had done much.
fn cancel(record: &mut Record, res: Res) {
    record.ops.push(Op { res, ..op(40, Act::Cancel, "k1", "i1") });
    let one = &mut record.finals[0];
    (one.status, one.n) = ("cancelled".into(), None);
    record.finals.remove(2);
    record.counts.instances = [("north/cancelled".into(), 1), ("north/completed".into(), 1)].into();
    record.sink.truncate(1);
    record.feed.clear();
}

#[test]
fn a_cancelled_instance_ends_anywhere_but_only_if_it_was_cancelled() {
    caught(&[], |record| cancel(record, Res::Ok));
    caught(&[], |record| cancel(record, Res::Info));
    // Acknowledged and then not done.
    caught(&["C3"], |record| record.ops.push(op(40, Act::Cancel, "k1", "i1")));
    caught(&[], |record| record.ops.push(Op { res: Res::Info, ..op(40, Act::Cancel, "k1", "i1") }));
    // Nobody asked for it.
    caught(&["C3"], |record| {
        cancel(record, Res::Ok);
        record.ops.pop();
    });
}

#[test]
fn a_doubled_a_missing_and_a_changed_effect_are_seen() {
    caught(&["C4"], |record| {
        let doubled = Effect { key: "e9".into(), t: 90_000, ..record.sink[0].clone() };
        record.sink.push(doubled);
    });
    caught(&["C4"], |record| drop(record.sink.remove(3)));
    caught(&["C4"], |record| record.sink[1].hash = "other".into());
    caught(&["C4"], |record| {
        let stray = Effect { id: "k7/a".into(), key: "e9".into(), ..record.sink[0].clone() };
        record.sink.push(stray);
    });
}

#[test]
fn a_signal_that_is_lost_or_used_twice_is_seen() {
    caught(&["C5"], |record| drop(record.finals[0].signals.pop()));
    caught(&["C5"], |record| {
        record.finals[0].signals.push(("signal.received".into(), "sig".into()));
    });
    caught(&["C5"], |record| {
        record.finals[0].signals.push(("signal.unmatched".into(), "other".into()));
    });
    // An event that was emitted reaches the wait for it, once.
    caught(&["C5"], |record| record.finals[0].met = 0);
    caught(&["C5"], |record| record.finals[0].met = 2);
    // A faulted instance keeps what it was told, once.
    let fault = |record: &mut Record| {
        record.finals[0].status = "faulted".into();
        record.finals[0].n = None;
        record.expected[0].status = "faulted".into();
        record.counts.instances = [("north/completed".into(), 2), ("north/faulted".into(), 1)].into();
        record.finals[0].signals.pop();
    };
    caught(&[], fault);
    caught(&["C5"], |record| {
        fault(record);
        record.finals[0].signals.clear();
    });
    // What is not known may have happened or not, but not twice.
    caught(&[], |record| {
        record.ops[2].res = Res::Info;
        record.finals[0].signals.clear();
    });
}

#[test]
fn a_gap_and_a_step_back_are_seen() {
    caught(&["C6"], |record| record.finals[0].versions = vec![1, 3]);
    caught(&["C6"], |record| record.finals[0].version = 4);
    caught(&["C6"], |record| record.ops[5].versions = vec![2, 3]);
    caught(&["C6"], |record| record.ops[3].versions = vec![4]);
}

#[test]
fn an_early_timer_is_seen() {
    caught(&["C7"], |record| record.sink[1].t = 50_999);
    caught(&[], |record| record.sink[1].t = 51_000);
}

#[test]
fn a_sum_that_does_not_close_is_seen() {
    caught(&["C8"], |record| record.counts.instances = [("north/completed".into(), 4)].into());
    caught(&["C8"], |record| record.counts.left = [("calls".into(), 1)].into());
    caught(&["C3", "C8"], |record| {
        record.finals[1].status = "waiting".into();
        record.counts.instances = [("north/completed".into(), 2), ("north/waiting".into(), 1)].into();
    });
}

#[test]
fn an_event_that_a_reader_of_the_feed_misses_or_sees_out_of_order_is_seen() {
    // One live reader skipped an event, saw one twice, or saw two the other way round.
    caught(&["C9"], |record| drop(record.feed.remove(1)));
    caught(&["C9"], |record| record.feed.insert(1, record.feed[0].clone()));
    caught(&["C9"], |record| record.feed.swap(0, 1));
    // Nobody saw it: it was never published, or twice.
    caught(&["C9"], |record| record.feed.retain(|told| told.id != "k1/z"));
    caught(&["C9"], |record| {
        record.feed = record.feed.iter().flat_map(|told| [told.clone(), told.clone()]).collect();
    });
    // Everybody saw what one instance emitted the other way round.
    caught(&["C10"], |record| {
        for told in &mut record.feed {
            told.id = told.id.replace('x', "q").replace('y', "x").replace('q', "y");
        }
    });
}

#[test]
fn a_node_that_does_not_serve_again_is_seen() {
    caught(&["C13"], |record| record.ops.last_mut().unwrap().res = Res::Info);
    caught(&["C13"], |record| record.ops.last_mut().unwrap().res = Res::Fail);
    caught(&[], |record| {
        let last = record.ops.last_mut().unwrap();
        (last.res, last.status) = (Res::Fail, Some(409));
    });
    caught(&["C13"], |record| record.ops.retain(|op| !op.tail || op.node == 0));
}

#[test]
fn repeats_beyond_the_budget_are_seen() {
    let refused = Effect { status: 503, ..sound().sink[0].clone() };
    caught(&[], |record| record.sink.push(refused));
    caught(&["C14"], |record| record.sink.push(record.sink[0].clone()));
}

#[test]
fn an_event_that_is_not_handled_or_takes_effect_twice_is_seen() {
    caught(&["C15"], |record| record.published.push(published("o3")));
    caught(&["C15"], |record| record.handled.push(handled("o1", "h3")));
    caught(&["C15"], |record| drop(record.emitted.pop()));
    caught(&["C15"], |record| record.emitted.push(published("h1-0")));
    caught(&["C15"], |record| record.emitted.push(published("h9-0")));
    // What nobody acknowledged may have been published all the same.
    caught(&[], |record| drop(record.published.pop()));
}

/// One of each kind, and each met something.
fn every_fault(record: &Record) -> Vec<Fault> {
    let fault = |kind: &str| Fault { kind: kind.to_owned(), t1: 1_000_000, hit: true, ..Fault::default() };
    nemesis::names(&record.settings).into_iter().map(fault).collect()
}

#[test]
fn a_run_that_misses_a_kind_of_fault_is_invalid() {
    let mut record = sound();
    record.faults = every_fault(&record);
    let lost = record.faults.iter_mut().find(|fault| fault.kind == "lose replies to COMMIT").unwrap();
    lost.hit = false;
    assert!(invalid(&record).unwrap().ends_with("never came: lose replies to COMMIT"));
    // Where there are no hints none can be lost.
    record.faults = every_fault(&record);
    record.faults.retain(|fault| fault.kind != "lose hints");
    assert!(invalid(&record).unwrap().ends_with("never came: lose hints"));
    record.settings.hints = crate::record::Hints::Off;
    assert!(!invalid(&record).unwrap().contains("never came"));
}

#[test]
fn a_run_without_enough_success_under_faults_is_invalid() {
    let mut record = sound();
    assert!(invalid(&record).unwrap().contains("never came: kill node, kill node at a COMMIT, end node"));
    record.faults = every_fault(&record);
    assert!(invalid(&record).unwrap().contains("were answered"));
    record.ops = (0..200).map(|n| op(n, Act::Read, "k1", "i1")).collect();
    assert!(invalid(&record).unwrap().contains("instances"));
    record.finals = vec![Final::default(); 20];
    assert_eq!(invalid(&record), None);
    for op in &mut record.ops {
        (op.t0, op.t1) = (2_000_000, Some(2_000_001));
    }
    assert!(invalid(&record).unwrap().contains("were answered"), "success outside of faults does not count");
}
