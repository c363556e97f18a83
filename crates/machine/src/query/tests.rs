//! What queries mean, and what is said of those that are wrong.

use super::*;
use crate::time::Span;

const NOW: Time = Time(1_700_000_000_000_000);

fn read(subject: Subject, text: &str) -> Vec<Condition> {
    parse(subject, text, NOW).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn one(subject: Subject, text: &str) -> Condition {
    let mut all = read(subject, text);
    assert_eq!(all.len(), 1, "{text}");
    all.remove(0)
}

fn is(field: Field, test: Test) -> Condition {
    Condition { field, not: false, test }
}

fn equal(text: &str) -> Pattern {
    Pattern::Equal(text.to_owned())
}

fn prefix(text: &str) -> Pattern {
    Pattern::Prefix(text.to_owned())
}

fn ago(seconds: i64) -> Time {
    Time(NOW.0 - Span::from_secs(seconds).0)
}

#[test]
fn texts_are_equal_begin_so_or_are_any_of_a_list() {
    let cases = [
        ("status:faulted", Field::Status, vec![equal("faulted")]),
        ("status:faulted,waiting", Field::Status, vec![equal("faulted"), equal("waiting")]),
        ("key:o-1", Field::Key, vec![equal("o-1")]),
        ("key:o-*", Field::Key, vec![prefix("o-")]),
        ("key:\"o-*\"", Field::Key, vec![equal("o-*")]),
        ("key:\"a \\\"b\\\" , c\",d", Field::Key, vec![equal("a \"b\" , c"), equal("d")]),
        ("key:\"\"", Field::Key, vec![equal("")]),
        ("part.region:eu", Field::Part("region".to_owned()), vec![equal("eu")]),
        ("worker:charge:1.0.0@default", Field::Worker, vec![equal("charge:1.0.0@default")]),
        ("waiting:task-completion", Field::Waiting, vec![equal("task-completion")]),
        // A bare word is a business key.
        ("order-7", Field::Key, vec![equal("order-7")]),
        ("order-*", Field::Key, vec![prefix("order-")]),
        ("\"status:faulted\"", Field::Key, vec![equal("status:faulted")]),
        ("ins_nothex", Field::Key, vec![equal("ins_nothex")]),
    ];
    for (text, field, patterns) in cases {
        assert_eq!(one(Subject::Instances, text), is(field, Test::Texts(patterns)), "{text}");
    }
    let word = one(Subject::DeadLetters, "mail");
    assert_eq!(word, is(Field::Worker, Test::Texts(vec![equal("mail")])));
    assert!(read(Subject::Instances, "  ").is_empty());
}

#[test]
fn a_minus_turns_a_term_around() {
    let [first, second] = read(Subject::Instances, "-status:completed -order-7").try_into().unwrap();
    assert!(first.not && second.not);
    assert_eq!(second.test, Test::Texts(vec![equal("order-7")]));
}

#[test]
fn definitions_are_named_in_three_parts() {
    let named = |namespace: Option<Pattern>, name: Pattern, version: Option<Pattern>| {
        Test::Definitions(vec![DefinitionPattern { namespace, name, version }])
    };
    let cases = [
        ("definition:order", named(None, equal("order"), None)),
        ("definition:order@1.*", named(None, equal("order"), Some(prefix("1.")))),
        ("definition:shop/order*", named(Some(equal("shop")), prefix("order"), None)),
        ("definition:shop/order@1.0.0", named(Some(equal("shop")), equal("order"), Some(equal("1.0.0")))),
    ];
    for (text, test) in cases {
        assert_eq!(one(Subject::Instances, text), is(Field::Definition, test), "{text}");
    }
}

#[test]
fn ids_may_be_begun() {
    let id = |text: &str| Uuid::parse_str(text).unwrap();
    let range = (id("01920000-0000-0000-0000-000000000000"), id("0192ffff-ffff-ffff-ffff-ffffffffffff"));
    for text in ["ins_0192", "id:ins_0192", "id:0192", "id:ins_0192*"] {
        assert_eq!(one(Subject::Instances, text), is(Field::Id, Test::Ids(vec![range])), "{text}");
    }
    let whole = id("01920000-0000-7000-8000-00000000000a");
    let group = one(Subject::DeadLetters, "group:err_0192000000007000800000000000000a");
    assert_eq!(group, is(Field::Group, Test::Ids(vec![(whole, whole)])));
    assert_eq!(one(Subject::Instances, "parent:01920000-0000-7000-8000-00000000000a").field, Field::Parent);
}

#[test]
fn times_are_given_by_distance_by_day_or_in_full() {
    let day = Time::parse_rfc3339("2026-01-31T00:00:00Z").unwrap();
    let next = day.after(Span::from_secs(86_400));
    let noon = Time::parse_rfc3339("2026-01-31T12:00:00Z").unwrap();
    let just_after = |time: Time| Some(Time(time.0 + 1));
    let cases = [
        ("started:>-1h", Field::Created, just_after(ago(3600)), None),
        ("started>=-1h", Field::Created, Some(ago(3600)), None),
        ("started<-90s", Field::Created, None, Some(ago(90))),
        ("started:<=now", Field::Created, None, just_after(NOW)),
        ("ended:2026-01-31", Field::Ended, Some(day), Some(next)),
        ("ended>2026-01-31", Field::Ended, Some(next), None),
        ("ended<=2026-01-31", Field::Ended, None, Some(next)),
        ("changed:<2026-01-31T12:00:00Z", Field::Changed, None, Some(noon)),
        ("age:>2h", Field::Created, None, Some(ago(7200))),
        ("age<2w", Field::Created, Some(ago(14 * 86_400)), None),
    ];
    for (text, field, from, to) in cases {
        assert_eq!(one(Subject::Instances, text), is(field, Test::Times(from, to)), "{text}");
    }
}

#[test]
fn numbers_are_compared() {
    let cases = [
        ("attempts:3", Some(3), Some(4)),
        ("attempts:>3", Some(4), None),
        ("attempts>=3", Some(3), None),
        ("attempts<3", None, Some(3)),
        ("attempts<=3", None, Some(4)),
    ];
    for (text, from, to) in cases {
        assert_eq!(one(Subject::Deliveries, text), is(Field::Attempts, Test::Numbers(from, to)), "{text}");
    }
}

#[test]
fn text_is_searched_for_within_bounds_only() {
    let found = read(Subject::Instances, "error~\"timed out\" status:faulted");
    assert_eq!(found[0], is(Field::Error, Test::Contains("timed out".to_owned())));
    assert_eq!(read(Subject::DeadLetters, "group:err_01 error~x").len(), 2);
    for (text, at) in [("error~x", 1), ("key:a error~x", 7), ("-status:faulted error~x", 17)] {
        let error = parse(Subject::Instances, text, NOW).unwrap_err();
        assert_eq!((error.at, error.hint.is_some()), (at, true), "{text}: {error}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let long = "x".repeat(QUERY_BYTES_MAX + 1);
    let many = "key:a ".repeat(TERMS_MAX + 1);
    let listed = format!("key:a{}", ",a".repeat(VALUES_MAX));
    let cases: &[(&str, usize, &str, Option<&str>)] = &[
        ("stat:failed", 1, "no field \"stat\"", Some("status")),
        ("key:a  -statsu:x", 9, "no field \"statsu\"", Some("did you mean status?")),
        ("status:failed", 8, "\"failed\" is no status", Some("did you mean faulted?")),
        ("status:xyz", 8, "\"xyz\" is no status", Some("known are pending")),
        ("status:faultet", 8, "\"faultet\" is no status", Some("did you mean faulted?")),
        ("status:waiting,", 16, "a value is missing", None),
        ("key:", 5, "a value is missing", Some("\"\"")),
        ("key:\"abc", 5, "do not end", None),
        ("key:\"a\\b\"", 8, "stands before", None),
        (":x", 1, "name of a field is missing", None),
        ("-", 1, "a word or field:value is missing", None),
        ("key>3", 1, "only times, ages and numbers", None),
        ("key~3", 1, "only error is searched", None),
        ("error:x status:faulted", 1, "searched for a text", Some("error~x")),
        ("error~\"\" status:faulted", 7, "nothing to search for", None),
        ("started:>2h", 10, "this must be a time", Some("age:>2h")),
        ("started:>tomorrow", 10, "this must be a time", None),
        ("started:-1h,-2h", 13, "only one value", None),
        ("age:2h", 5, "compared", Some("age:>2h")),
        ("age:>2", 6, "a length", None),
        ("id:zz", 4, "ins_0192", None),
        ("id:-", 4, "ins_0192", None),
        ("part.:x", 1, "name of a part", None),
        (&long, 1, "at most 1000 bytes", None),
        (&many, 121, "at most 20 terms", None),
        (&listed, 105, "at most 50 values", None),
    ];
    for (text, at, message, hint) in cases {
        let error = parse(Subject::Instances, text, NOW).expect_err(text);
        assert_eq!(error.at, *at, "{text}: {error}");
        assert!(error.message.contains(message), "{text}: {error}");
        if let Some(hint) = hint {
            assert!(error.hint.as_deref().is_some_and(|given| given.contains(hint)), "{text}: {error:?}");
        }
    }
    let error = parse(Subject::DeadLetters, "attempts:many", NOW).unwrap_err();
    assert_eq!((error.at, error.message.as_str()), (10, "this must be a whole number"));
}

#[test]
fn anything_is_read_or_refused_within_the_text() {
    let pieces =
        ["status", ":", "faulted", " ", "-", "\"", ",", "~", "<", ">", "=", "*", "age", "2h", "\\", "é"];
    for seed in 0..20_000usize {
        let text: String = (0..6)
            .map(|place| pieces[(seed >> (3 * place)).wrapping_mul(31 + place) % pieces.len()])
            .collect();
        for subject in [Subject::Instances, Subject::DeadLetters, Subject::Deliveries] {
            if let Err(error) = parse(subject, &text, NOW) {
                assert!((1..=text.chars().count() + 1).contains(&error.at), "{text:?}: {error}");
            }
        }
    }
}
