//! What a schedule makes of events, one after the other.

use super::*;
use crate::{ir::When, language::tests::yaml};
use serde_json::json;

/// Offers events of the form `type`, `type:order` or `type:order:data` and checks what each led to: `-` not taken,
/// `?` left out because of `until`, `+` collected, `!` given up, or the ids of the events that an instance is started with.
fn check(on: &str, events: &str, expected: &str) {
    let source = format!(
        "document: {{ dsl: 1.0.3, namespace: n, name: w, version: 1.0.0 }}\nschedule: {{ on: {on} }}\ndo: [ {{ a: {{ set: {{ x: 1 }} }} }} ]"
    );
    let program = Program::new(yaml(&source).workflow).expect("it compiles");
    let Some(When::On(to)) = program.ir.schedule.as_ref().map(|schedule| &schedule.when) else {
        panic!("it has events");
    };
    let (mut open, mut found) = (Vec::new(), Vec::new());
    for (id, event) in events.split_whitespace().enumerate() {
        let mut parts = event.split(':');
        let kind = parts.next();
        let event = json!({ "id": id, "type": kind, "data": { "order": parts.next(), "n": parts.next() } });
        // Stored and read back in between, as the runtime does it.
        let stored = serde_json::to_vec(&open).expect("it is JSON");
        let open_again = serde_json::from_slice(&stored).expect("it is JSON");
        let offered =
            offer(&program, to, open_again, &Data::from_json(event), &[]).expect("nothing is asked");
        open = offered.open;
        found.push(match (offered.complete, offered.taken, offered.given_up) {
            (Some(items), ..) => {
                let ids = items.items().into_iter().flatten().map(|item| item.get("id").unwrap_or_default());
                ids.map(|id| id.to_text()).collect::<Vec<_>>().join(",")
            }
            (None, false, _) if offered.failed.is_some() => "?".to_owned(),
            (None, false, _) => "-".to_owned(),
            (None, true, 0) => "+".to_owned(),
            (None, true, _) => "!".to_owned(),
        });
    }
    assert_eq!(found.join(" "), expected, "{on}");
}

#[test]
fn one_and_any_start_with_each_event() {
    check("{ one: { with: { type: a } } }", "a b a", "0 - 2");
    check("{ any: [ { with: { type: a } }, { with: { type: b } } ] }", "a b c", "0 1 -");
    check("{ any: [] }", "a b", "0 1");
}

#[test]
fn an_event_with_which_until_cannot_be_computed_is_left_out() {
    let on = "{ any: [ { with: { type: a } } ], until: '(map(.data.n | tonumber) | add) >= 3' }";
    check(on, "a:o:x a:o:1 a:o:y a:o:1 a:o:1 a:o:z a:o:9", "? + ? + 1,3,4 ? 6");
}

#[test]
fn all_starts_when_every_filter_has_its_event() {
    let on = "{ all: [ { with: { type: a } }, { with: { type: b } } ] }";
    check(on, "a b", "+ 0,1");
    check(on, "b c a a b", "+ - 0,2 + 3,4");
    // A second one of the same kind waits for its own counterpart.
    check(on, "a a b b b", "+ + 0,2 1,3 +");
}

#[test]
fn events_that_belong_together_are_collected_together() {
    let on = "{ all: [ { with: { type: a }, correlate: { order: { from: .data.order } } },
        { with: { type: b }, correlate: { order: { from: .data.order } } } ] }";
    check(on, "a:1 a:2 b:3 b:2 b:1 a:3", "+ + + 1,3 0,4 2,5");
    let only = "{ all: [ { with: { type: a }, correlate: { order: { from: .data.order, expect: '7' } } },
        { with: { type: b }, correlate: { order: { from: .data.order } } } ] }";
    check(only, "a:1 a:7 b:1 b:7", "- + + 1,3");
}

#[test]
fn until_says_when_there_are_enough() {
    check("{ any: [ { with: { type: a } } ], until: length == 2 }", "a b a a a", "+ - 0,2 + 3,4");
    check(
        "{ any: [ { with: { type: a } } ], until: { one: { with: { type: stop } } } }",
        "stop a a stop stop a",
        "- + + 1,2 - +",
    );
    check(
        "{ any: [ { with: { type: a }, correlate: { o: { from: .data.order } } } ],
           until: { one: { with: { type: stop }, correlate: { o: { from: .data.order } } } } }",
        "a:1 a:2 stop:3 a:1 stop:1 stop:2",
        "+ + - + 0,3 1",
    );
    check(
        "{ any: [ { with: { type: a } } ], until: { all: [ { with: { type: x } }, { with: { type: y } } ] } }",
        "a x a x y",
        "+ + + - 0,2",
    );
}

#[test]
fn what_faults_takes_nothing_and_ends_nothing() {
    check("{ any: [ { with: { type: a } } ], until: '(.[0].type + 1) == 2' }", "a a", "? ?");
    check(
        "{ all: [ { with: { type: a, data: '${ .n + 1 > 1 }' } }, { with: { type: b } } ] }",
        "a:1:x b",
        "- +",
    );
}

#[test]
fn the_oldest_collection_is_given_up_at_the_limit() {
    let events = "a ".repeat(EVENTS_MAX + 1);
    let expected = format!("{}! +", "+ ".repeat(EVENTS_MAX - 1));
    check("{ any: [ { with: { type: a } } ], until: length > 2000 }", &events, &expected);
    // Each is a collection of its own: the first one goes, the others stay.
    let last = format!("{}! !", "+ ".repeat(EVENTS_MAX - 1));
    check("{ all: [ { with: { type: a } }, { with: { type: b } } ] }", &events, &last);
}
