//! Listening: how many events are consumed, in which order, what they are correlated by.

use super::{Bench, bench, data};
use crate::{
    Command,
    state::{EVENTS_MAX, Interest, Key, Status},
};

/// A document that listens `to`, with further keys of the task.
fn listen(to: &str, more: &str) -> Bench {
    bench(&format!("do:\n- l: {{ listen: {to}{more} }}"))
}

/// Sends `type data` lines and checks the output.
#[track_caller]
fn check(to: &str, more: &str, events: &[&str], output: &str) {
    let mut run = listen(to, more).start(r#"{"room":"a"}"#);
    for event in events {
        assert_eq!(run.state().status, Status::Open, "ended before {event}");
        let (name, payload) = event.split_once(' ').unwrap();
        assert!(run.signal(name, payload));
    }
    run.completes_with(output);
}

const ANY: &str = "{ to: { any: [ { with: { type: a } }, { with: { type: b } } ] } }";
const ALL: &str = "{ to: { all: [ { with: { type: a } }, { with: { type: b } } ] } }";

#[test]
fn strategies() {
    check("{ to: { one: { with: { type: a } } } }", "", &["b 1", "a 2"], "[2]");
    check(ANY, "", &["c 1", "b 2"], "[2]");
    check("{ to: { any: [] } }", "", &["whatever 1"], "[1]");
    check(ALL, "", &["b 1", "b 2", "a 3"], "[1,3]");
    let same = "{ to: { all: [ { with: { type: a } }, { with: { type: a } } ] } }";
    check(same, "", &["a 1", "a 2"], "[1,2]");
    check("{ to: { all: [] } }", "", &[], "[]");
}

#[test]
fn until_a_condition_holds_for_what_was_consumed() {
    let to = "{ to: { any: [ { with: { type: a } } ], until: 'length > 1' } }";
    check(to, "", &["a 1", "b 9", "a 2"], "[1,2]");
    let to = "{ to: { any: [], until: '${ map(.n) | add > 5 }' } }";
    check(to, "", &[r#"a {"n":1}"#, r#"b {"n":5}"#], r#"[{"n":1},{"n":5}]"#);
}

#[test]
fn until_another_event_comes_which_is_not_part_of_the_output() {
    let to = "{ to: { any: [ { with: { type: a } } ], until: { one: { with: { type: stop } } } } }";
    check(to, "", &["a 1", "a 2", "stop 3"], "[1,2]");
    check(to, "", &["stop 3"], "[]");
    let to = "{ to: { any: [], until: { one: { with: { type: stop } } } } }";
    check(to, "", &["a 1", "stop 2"], "[1]");
    let to = "{ to: { any: [], until: { all: [ { with: { type: x } }, { with: { type: y } } ] } } }";
    check(to, "", &["x 1", "a 2", "x 3", "y 4"], "[2,3]");
}

#[test]
fn read_modes() {
    let one = |read: &str| format!("{{ to: {{ one: {{ with: {{ type: a }} }} }}, read: {read} }}");
    check(&one("data"), "", &[r#"a {"x":1}"#], r#"[{"x":1}]"#);
    check(&one("envelope"), "", &[r#"a {"x":1}"#], r#"[{"type":"a","data":{"x":1}}]"#);
    check(&one("raw"), "", &[r#"a {"x":1}"#], r#"["{\"x\":1}"]"#);
    check(&one("raw"), "", &[r#"a "text""#], r#"["text"]"#);
}

#[test]
fn wanted_attributes_are_computed_once_when_listening_begins() {
    check("{ to: { one: { with: { type: '${ .room }' } } } }", "", &["b 1", "a 2"], "[2]");
    check(
        "{ to: { one: { with: { data: { k: '${ .room }' } } } } }",
        "",
        &[r#"x {"k":"a"}"#],
        r#"[{"k":"a"}]"#,
    );
    let mut run = listen("{ to: { one: { with: { type: '${ .room + {} }' } } } }", "");
    run = run.start(r#"{"room":"a"}"#);
    run.faults_with("expression", 400, "/do/0/l");
}

#[test]
fn a_dot_in_a_type_is_only_a_dot() {
    let to = "{ to: { one: { with: { type: order.paid } } } }";
    check(to, "", &["orderXpaid 1", "order.paid 2"], "[2]");
    let to = "{ to: { one: { with: { type: 'order\\..*' } } } }";
    check(to, "", &["orderXpaid 1", "order.paid 2"], "[2]");
}

const CORRELATED: &str = "{ to: { all: [
    { with: { type: a }, correlate: { room: { from: .data.room } } },
    { with: { type: b }, correlate: { room: { from: .data.room } } } ] } }";

#[test]
fn the_first_value_seen_is_expected_of_the_other_events() {
    let (first, other, same) = (r#"b {"room":1}"#, r#"a {"room":2}"#, r#"a {"room":1}"#);
    check(CORRELATED, "", &[first, other, same], r#"[{"room":1},{"room":1}]"#);
}

#[test]
fn what_one_filter_expects_of_a_key_all_expect() {
    let to = "{ to: { all: [
        { with: { type: a }, correlate: { room: { from: .data } } },
        { with: { type: b }, correlate: { room: { from: .data, expect: '${ .room }' } } } ] } }";
    check(to, "", &[r#"a "b""#, r#"a "a""#, r#"b "b""#, r#"b "a""#], r#"["a","a"]"#);
}

#[test]
fn events_that_came_early_are_used_in_order() {
    let to = "{ to: { any: [ { with: { type: a } } ], until: 'length == 3' } }";
    let body = format!("do:\n- w: {{ wait: PT1S }}\n- l: {{ listen: {to} }}");
    let mut run = bench(&body).start("{}");
    for (name, payload) in [("a", "1"), ("x", "0"), ("a", "2")] {
        assert!(run.signal(name, payload));
    }
    run.tick();
    assert_eq!(run.state().buffer.len(), 1, "what nobody wants stays");
    run.signal("a", "3");
    run.completes_with("[1,2,3]");
}

#[test]
fn early_events_beyond_the_end_are_left_for_the_next_step() {
    let one = "{ to: { one: { with: { type: a } } } }";
    let body = format!(
        "do:\n- w: {{ wait: PT1S }}\n- l: {{ listen: {one} }}\n- m: {{ listen: {one}, output: {{ as: '.[0]' }} }}"
    );
    let mut run = bench(&body).start("{}");
    run.signal("a", "1");
    run.signal("a", "2");
    run.tick().completes_with("2");
}

const EACH: &str = ", foreach: { item: event, at: i, do: [
    { c: { call: 'w:1.0.0@default', with: { n: '${ $event }', i: '${ $i }' } } } ] }";

#[test]
fn foreach_goes_through_the_events_one_by_one_while_listening_goes_on() {
    let to = "{ to: { any: [ { with: { type: a } } ], until: 'length == 3' } }";
    let mut run = listen(to, EACH).start("{}");
    run.signal("a", "10");
    run.signal("a", "20");
    assert_eq!(run.calls.len(), 1, "one at a time");
    assert_eq!(run.calls[0].input, data(r#"{"n":10,"i":0}"#));
    let first = run.calls[0].key.clone();
    run.done("11");
    assert_eq!(run.calls[0].input, data(r#"{"n":20,"i":1}"#));
    assert_ne!(run.calls[0].key, first, "every iteration has its own key");
    run.done("21");
    assert_eq!(run.state().status_word(), "waiting");
    run.signal("a", "30");
    run.done("31").completes_with("[11,21,31]");
}

#[test]
fn an_event_that_ends_the_listening_waits_for_those_before_it() {
    let to = "{ to: { any: [ { with: { type: a } } ], until: { one: { with: { type: stop } } } } }";
    let mut run = listen(to, EACH).start("{}");
    run.signal("a", "10");
    run.signal("a", "20");
    run.signal("stop", "0");
    run.signal("a", "30");
    run.done("11");
    run.done("21").completes_with("[11,21]");
}

#[test]
fn foreach_transforms_and_exports_each_item() {
    let to = "{ to: { any: [], until: 'length == 2' } }";
    let each = ", foreach: { output: { as: '{ twice: (. * 2), at: $index }' }, export: { as: '$context + { last: $output }' } }, output: { as: '{ all: ., last: $context.last }' }";
    check(
        to,
        each,
        &["a 1", "b 2"],
        r#"{"all":[{"twice":2,"at":0},{"twice":4,"at":1}],"last":{"twice":4,"at":1}}"#,
    );
    let each = ", foreach: { do: [ { s: { set: { v: '${ $item + . }' } } } ] }";
    check(to, each, &["a 1", "b 2"], r#"[{"v":2},{"v":4}]"#);
}

#[test]
fn exit_leaves_the_iteration_and_end_the_workflow() {
    let to = "{ to: { any: [], until: 'length == 2' } }";
    let each =
        ", foreach: { do: [ { s: { set: { v: '${ $item }' }, then: exit } }, { t: { set: { v: 0 } } } ] }";
    check(to, each, &["a 1", "b 2"], r#"[{"v":1},{"v":2}]"#);
    let each = ", foreach: { do: [ { s: { set: { v: '${ $item }' }, then: end } } ] }";
    check(to, each, &["a 1"], r#"{"v":1}"#);
}

#[test]
fn listening_for_ever_keeps_nothing_of_what_is_done() {
    let mut run = listen("{ to: { any: [], until: '${ false }' } }", EACH).start("{}");
    let mut sizes = Vec::new();
    for n in 0..EVENTS_MAX + 10 {
        assert!(run.tell(Command::Signal {
            id: uuid::Uuid::from_u128(n as u128 + 1),
            event: data(r#"{"type":"a","data":7}"#)
        }));
        assert_eq!(run.calls[0].input.get("i"), Some(data(&n.to_string())));
        run.done("1");
        run.events.clear();
        sizes.push(crate::snapshot::write(&run.program, run.state()).json.len());
    }
    assert!(sizes.last().unwrap() < &(sizes[0] + 50), "{:?}", (sizes[0], sizes.last()));
    assert_eq!(run.state().status_word(), "waiting");
}

#[test]
fn too_many_events_fault_the_step() {
    let mut run = listen("{ to: { any: [], until: 'length == 5000' } }", "").start("{}");
    for n in 0..EVENTS_MAX {
        assert_eq!(run.state().status, Status::Open);
        assert!(run.tell(Command::Signal { id: uuid::Uuid::from_u128(n as u128 + 1), event: data("{}") }));
    }
    run.faults_with("runtime", 500, "/do/0/l");
    assert!(run.state().error.as_ref().unwrap().detail.as_ref().unwrap().contains("1000 events"));
}

#[test]
fn a_fault_of_an_iteration_is_run_again_and_listening_goes_on() {
    let to = "{ to: { any: [ { with: { type: a } } ], until: 'length == 2' } }";
    let mut run = listen(to, EACH).start("{}");
    run.signal("a", "10");
    run.failed(500);
    assert_eq!(run.state().status, Status::Faulted);
    run.signal("a", "20");
    assert!(run.tell(Command::Retry));
    assert_eq!(run.state().waits.len(), 2, "the call and the events");
    run.done("11");
    run.done("21").completes_with("[11,21]");
}

#[test]
fn a_fault_beside_a_listening_branch_costs_it_nothing_it_consumed() {
    let to = "{ to: { any: [ { with: { type: a } } ], until: 'length == 2' } }";
    let body = format!(
        "do:\n- f: {{ fork: {{ branches: [ {{ l: {{ listen: {to} }} }}, {{ c: {{ call: 'w:1.0.0@default' }} }} ] }} }}"
    );
    let mut run = bench(&body).start("{}");
    run.signal("a", "1");
    run.failed(500);
    assert!(run.tell(Command::Retry));
    run.signal("a", "2");
    run.done("3").completes_with("[[1,2],3]");
}

#[test]
fn a_limit_ends_the_listening_and_its_iteration() {
    let body = format!("do:\n- l: {{ listen: {ANY}, timeout: {{ after: PT1S }}{EACH} }}");
    let mut run = bench(&body).start("{}");
    run.signal("a", "1");
    run.tick();
    run.faults_with("timeout", 408, "/do/0/l");
    assert!(run.calls.is_empty());
}

#[test]
fn paused_instances_keep_events_for_later() {
    let mut run = listen(ALL, "").start("{}");
    assert!(run.tell(Command::Pause));
    run.signal("a", "1");
    run.signal("b", "2");
    assert!(run.tell(Command::Resume));
    run.completes_with("[1,2]");
}

fn interest(event_type: Option<&str>, key: Option<(&str, &str)>) -> Interest {
    Interest {
        event_type: event_type.map(str::to_owned),
        key: key.map(|(from, value)| Key { from: from.to_owned(), value: data(value) }),
    }
}

#[test]
fn interests_say_what_an_index_needs() {
    let of = |to: &str| {
        let run = listen(to, "").start(r#"{"room":"a"}"#);
        run.state().interests(&run.program)
    };
    assert_eq!(of(ANY), [interest(Some("a"), None), interest(Some("b"), None)]);
    assert_eq!(of("{ to: { any: [] } }"), [interest(None, None)]);
    assert_eq!(of("{ to: { one: { with: { type: 'a.*' } } } }"), [interest(None, None)]);
    assert_eq!(of("{ to: { one: { with: { type: '${ .room }' } } } }"), [interest(Some("a"), None)]);
    let to = "{ to: { one: { with: { type: a }, correlate: { r: { from: .data.room, expect: '${ .room }' } } } } }";
    assert_eq!(of(to), [interest(Some("a"), Some((".data.room", r#""a""#)))]);
    let to = "{ to: { one: { with: { type: a }, correlate: { r: { from: '.data[$workflow.id]', expect: x } } } } }";
    assert_eq!(of(to), [interest(Some("a"), None)], "only the instance can compute it");
    let to = "{ to: { any: [ { with: { type: a } } ], until: { one: { with: { type: stop } } } } }";
    assert_eq!(of(to), [interest(Some("a"), None), interest(Some("stop"), None)]);
}

#[test]
fn interests_follow_what_was_consumed() {
    let mut run = listen(CORRELATED, "").start("{}");
    assert_eq!(run.state().interests(&run.program), [interest(Some("a"), None), interest(Some("b"), None)]);
    run.signal("b", r#"{"room":1}"#);
    assert_eq!(run.state().interests(&run.program), [interest(Some("a"), Some((".data.room", "1")))]);
    run.signal("a", r#"{"room":1}"#);
    assert_eq!(run.state().interests(&run.program), []);
}

#[test]
fn an_iteration_still_shows_what_is_listened_for() {
    let to = "{ to: { any: [ { with: { type: a } } ], until: 'length == 2' } }";
    let mut run = listen(to, EACH).start("{}");
    run.signal("a", "1");
    assert_eq!(run.state().interests(&run.program), [interest(Some("a"), None)]);
    run.done("1");
    run.signal("a", "2");
    assert_eq!(run.state().interests(&run.program), [], "the last one was consumed");
}

#[test]
fn an_inner_variable_of_the_same_name_is_not_seen_by_the_filter() {
    let body = "do:\n- f: { for: { each: item, in: '[\"a\"]' }, do: [ { l: { listen: { to: { any: [ { with: { data: '${ .k == $item }' } } ], until: 'length == 2' } }, foreach: { do: [ { s: { set: { v: '${ $item.n }' } } } ] } } } ] }";
    let mut run = bench(body).start("{}");
    run.signal("x", r#"{"k":"b","n":0}"#);
    run.signal("x", r#"{"k":"a","n":1}"#);
    run.signal("x", r#"{"k":"a","n":2}"#);
    run.completes_with(r#"[{"v":1},{"v":2}]"#);
}

#[test]
fn snapshots_from_before_listening_was_a_body_still_read() {
    let to =
        "{ to: { one: { with: { type: a }, correlate: { r: { from: .data, expect: '${ .room }' } } } } }";
    let mut run = listen(to, "").start(r#"{"room":"a"}"#);
    let json = crate::snapshot::write(&run.program, run.state()).json;
    let mut old: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let state = &mut old["workflowState"];
    state["branches"][0]["frames"][1]["body"] = serde_json::json!("leaf");
    state["waits"][0]["expect"] = serde_json::json!([[["a"]]]);
    run.state = Some(crate::snapshot::read(&run.program, &serde_json::to_vec(&old).unwrap()).unwrap());
    run.signal("a", r#""b""#);
    run.signal("a", r#""a""#);
    run.completes_with(r#"["a"]"#);
}
