//! What is a schema, what fits it, and what checking may cost.

use super::{COST_MAX, Schema, VIOLATIONS_MAX};
use crate::Data;

fn data(json: &str) -> Data {
    Data::parse(json.as_bytes()).unwrap()
}

/// The places that do not fit, as `path message`.
fn check(schema: &str, json: &str) -> Vec<String> {
    let schema = Schema::new(&data(schema)).unwrap_or_else(|error| panic!("{schema}: {error}"));
    match schema.check(&data(json)) {
        Ok(()) => vec![],
        Err(violations) => violations.iter().map(|v| format!("{} {}", v.path, v.message)).collect(),
    }
}

fn refused(schema: &str) -> (String, String) {
    let error = Schema::new(&data(schema)).err().unwrap_or_else(|| panic!("{schema} is accepted"));
    (error.pointer, error.message)
}

#[test]
fn places_that_do_not_fit_are_named() {
    let order = r#"{"type":"object","required":["id"],"additionalProperties":false,
        "properties":{"id":{"type":"integer"},"lines":{"type":"array","items":{"type":"object","properties":{"n":{"minimum":1}}}}}}"#;
    assert_eq!(check(order, r#"{"id":1,"lines":[{"n":1}]}"#), Vec::<String>::new());
    assert_eq!(check(order, r#"{"id":"x"}"#), ["/id must be integer, but is string"]);
    assert_eq!(check(order, "{}"), [" lacks id"]);
    assert_eq!(check(order, r#"{"id":1,"x":2}"#), [" has unknown members: x"]);
    assert_eq!(check(order, r#"{"id":1,"lines":[{"n":1},{"n":0}]}"#).len(), 1);
    assert!(check(order, r#"{"id":1,"lines":[{"n":1},{"n":0}]}"#)[0].starts_with("/lines/1/n "));
    assert_eq!(check("false", "1"), [" is not allowed"]);
    assert_eq!(check("true", "1"), Vec::<String>::new());
    assert_eq!(check(r#"{"format":"email"}"#, r#""nobody""#).len(), 1, "formats are checked");
}

#[test]
fn drafts_are_told_apart() {
    let old = r#"{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true}"#;
    assert_eq!(check(old, "1").len(), 1);
    let new =
        r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","prefixItems":[{"type":"string"}]}"#;
    assert_eq!(check(new, "[1]").len(), 1);
    assert!(Schema::new(&data(r#"{"$schema":"https://example.com/own"}"#)).is_err());
}

#[test]
fn what_is_no_schema_is_refused_with_its_place() {
    assert_eq!(refused(r#"{"properties":{"a":{"type":"strnig"}}}"#).0, "/properties/a/type");
    assert_eq!(refused(r#"{"properties":{"a":{"minimum":"1"}}}"#).0, "/properties/a/minimum");
    assert_eq!(refused(r#"{"items":{"pattern":"("}}"#).0, "/items/pattern");
    assert!(!refused("[]").1.is_empty());
}

#[test]
fn references_stay_inside() {
    let tree = r##"{"type":"object","properties":{"name":{"$ref":"#/$defs/n"},"children":{"items":{"$ref":"#"}}},"$defs":{"n":{"type":"string"}}}"##;
    assert_eq!(check(tree, r#"{"name":"a","children":[{"name":"b","children":[]}]}"#), Vec::<String>::new());
    assert_eq!(
        check(tree, r#"{"name":"a","children":[{"name":1}]}"#),
        ["/children/0/name must be string, but is integer".replace("integer", "number")]
    );
    assert_eq!(check(r##"{"$ref":"#pos","$defs":{"p":{"$anchor":"pos","minimum":1}}}"##, "0").len(), 1);
    for outside in ["https://json-schema.org/draft/2020-12/schema", "file:///etc/passwd", "other.json#/a"] {
        let (pointer, message) = refused(&format!(r#"{{"items":{{"$ref":"{outside}"}}}}"#));
        assert_eq!(pointer, "/items/$ref");
        assert!(message.contains("outside this schema"), "{message}");
    }
    assert_eq!(
        refused(r##"{"$ref":"#/$defs/x"}"##),
        ("/$ref".to_owned(), "nothing stands at `#/$defs/x`".to_owned())
    );
    assert_eq!(refused(r#"{"items":{"$id":"https://a.b/c"}}"#).0, "/items/$id");
    assert!(refused(r##"{"allOf":[{"$ref":"#"}]}"##).1.contains("without going deeper"));
}

#[test]
fn a_schema_that_multiplies_is_stopped_before_it_is_checked() {
    let bomb = r##"{"anyOf":[{"items":{"$ref":"#"},"minItems":2},{"items":{"$ref":"#"},"minItems":3}]}"##;
    let deep = format!("{}{}", "[".repeat(60), "]".repeat(60));
    let found = check(bomb, &deep);
    assert_eq!(found, [" is too large or too deep to be checked against its schema"]);
    assert!(check(bomb, "[[],[]]").len() > 1, "what is small is checked");
    let wide = (0..30).map(|i| {
        format!(r##""a{i}":{{"anyOf":[{{"$ref":"#/$defs/a{}"}},{{"$ref":"#/$defs/a{}"}}]}}"##, i + 1, i + 1)
    });
    let wide = format!(
        r##"{{"$ref":"#/$defs/a0","$defs":{{{},"a30":false}}}}"##,
        wide.collect::<Vec<_>>().join(",")
    );
    assert_eq!(check(&wide, "1"), [" is too large or too deep to be checked against its schema"]);
}

#[test]
fn ordinary_large_data_is_within_the_bound() {
    let items: Vec<String> = (0..100_000).map(|n| format!(r#"{{"n":{n}}}"#)).collect();
    let list = format!("[{}]", items.join(","));
    let schema = r#"{"items":{"type":"object","properties":{"n":{"type":"integer","minimum":0},"m":{"type":"string"}},"required":["n"]}}"#;
    assert_eq!(check(schema, &list), Vec::<String>::new());
    const { assert!(COST_MAX > 1_000_000) };
}

#[test]
fn patterns_are_small() {
    assert_eq!(refused(r#"{"pattern":"(a{1000}){1000}"}"#).0, "/pattern");
    assert_eq!(refused(r#"{"patternProperties":{"(a{99}){99}":{}}}"#).0, "/patternProperties/(a{99}){99}");
    assert_eq!(check(r#"{"pattern":"^[A-Z]{2,34}$"}"#, r#""DE""#), Vec::<String>::new());
}

#[test]
fn the_places_told_are_bounded() {
    let list = format!("[{}]", vec!["1"; 500].join(","));
    assert_eq!(check(r#"{"items":{"type":"string"}}"#, &list).len(), VIOLATIONS_MAX);
}
