//! Reading text: syntax, limits and the YAML traps.

use super::{compile_text, refused, same, show_all, tasks, warned, yaml};
use crate::language::Format;

fn refused_json(document: &str, expected: &str) {
    let problems = compile_text(document.as_bytes(), Format::Json).expect_err("it should not compile");
    same(&show_all(&problems), expected);
}

fn set(yaml_value: &str) -> String {
    tasks(&format!("  - a:\n      set:\n        x: {yaml_value}"))
}

/// What the only member of the only `set` becomes.
fn value_of(yaml_value: &str) -> String {
    let workflow = yaml(&set(yaml_value)).workflow;
    match &workflow.steps[0].kind {
        crate::ir::Kind::Set { value: crate::ir::Template::Literal(data) } => {
            String::from_utf8(data.get("x").expect("x is set").to_bytes()).expect("JSON is UTF-8")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn broken_yaml() {
    refused(
        "document: [",
        r#"2:1  syntax: this is not valid YAML: while parsing a node, did not find expected node content => check the indentation, and quote texts that hold `: `, ` #` or start with one of `{[*&!|>%@`"#,
    );
    refused(
        "a: b: c",
        r#"1:5  syntax: this is not valid YAML: mapping values are not allowed in this context => check the indentation, and quote texts that hold `: `, ` #` or start with one of `{[*&!|>%@`"#,
    );
    refused(
        "document:\n\tdsl: 1.0.3",
        r#"2:2  syntax: this is not valid YAML: tabs disallowed within this context (block indentation) => indent with spaces"#,
    );
    refused(
        &set("\"\\ud800\""),
        r#"5:12  syntax: this is not valid YAML: while parsing a quoted scalar, found invalid Unicode character escape code => half of a surrogate pair is no character; write the whole one, such as `\U0001F600`"#,
    );
    refused(
        &set("\"\\(.x)\""),
        r#"5:12  syntax: this is not valid YAML: while parsing a quoted scalar, found unknown escape character => double quotes give `\` a meaning; use single quotes"#,
    );
    refused(
        &set("*nobody"),
        r#"5:12  syntax: this is not valid YAML: while parsing node, found unknown anchor => an alias `*name` repeats a value marked `&name` before it"#,
    );
}

#[test]
fn not_a_document() {
    refused("", "1:1  empty-document: the document is empty");
    refused("# only a comment\n", "1:1  empty-document: the document is empty");
    refused("just text", "1:1  wrong-type: the document must be an object, but is text");
    refused("- a\n- b", "1:1  wrong-type: the document must be an object, but is a list");
}

#[test]
fn broken_json() {
    refused_json("{\n  \"document\": }", "2:15  syntax: this is not valid JSON: expected value");
    refused_json("{\n  \"ä\": 1, 'do': 2}", "2:11  syntax: this is not valid JSON: key must be a string");
    refused_json("{\"a\": 1e400}", "1:11  number-range: the number is outside the range of a 64-bit float");
    refused_json(
        "{\"a\": \"\\ud800\"}",
        r#"1:14  lone-surrogate: the `\u` escape is only half of a character (a lone surrogate) => write both halves, or the character itself"#,
    );
    refused_json("{\"a\": 1} x", "1:10  syntax: this is not valid JSON: trailing characters");
    refused_json("", "1:1  syntax: this is not valid JSON: EOF while parsing a value");
}

#[test]
fn json_has_positions_too() {
    refused_json(
        "{\n  \"document\": {\"dsl\": \"1.0.3\", \"namespace\": \"n\", \"name\": \"w\", \"version\": \"1\"},\n  \"do\": [\n    {\"a\": {\"set\": {\"x\": 1, \"x\": 2}, \"thn\": \"end\"}},\n    {\"b\": {\"set\": {\"y\": \"a\\u0000b\"}}}\n  ]\n}",
        r#"
            2:74 /document/version bad-version: the version `1` is not a semantic version => write three numbers, such as `1.0.0`
            4:28 /do/0/a/set/x duplicate-key: `x` is given twice in the same object => remove or rename one of the two
            4:37 /do/0/a/thn unknown-key: `thn` is not known here => did you mean `then`?
            5:25 /do/1/b/set/y nul-character: the text holds a NUL character => remove the `\0` escape
        "#,
    );
}

#[test]
fn duplicate_keys() {
    refused(
        &tasks("  - a:\n      set: { x: 1 }\n      set: { x: 2 }"),
        "5:7 /do/0/a/set duplicate-key: `set` is given twice in the same object => remove or rename one of the two",
    );
    refused(
        &set("{ y: 1, \"y\": 2 }"),
        "5:20 /do/0/a/set/x/y duplicate-key: `y` is given twice in the same object => remove or rename one of the two",
    );
}

#[test]
fn characters() {
    refused("do:\n  \0", "2:3  nul-character: the document holds a NUL character");
    refused(
        &set("\"a\\0b\""),
        r#"5:12 /do/0/a/set/x nul-character: the text holds a NUL character => remove the `\0` escape"#,
    );
    let bytes = b"document:\n  name: \xff".as_slice();
    let problems = compile_text(bytes, Format::Yaml).expect_err("it is not UTF-8");
    same(
        &show_all(&problems),
        "2:9  not-utf8: the document is not valid UTF-8 => save the file with UTF-8 encoding",
    );
    assert_eq!(yaml(&format!("\u{feff}{}", set("1"))).workflow.name, "tested");
}

#[test]
fn size_and_depth() {
    refused(
        &format!("# {}", "x".repeat(1024 * 1024)),
        "1:1  too-large: the document has 1048578 bytes, more than the allowed 1048576 => move large literals out of the definition and pass them as input",
    );
    refused(
        &set(&format!("{}{}", "[".repeat(61), "]".repeat(61))),
        "5:71 /do/0/a/set/x/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0 too-deep: the document is nested deeper than 64 levels => split it into several definitions, or pass deep literals as input",
    );
    yaml(&set(&format!("{}{}", "[".repeat(59), "]".repeat(59))));
    refused(
        &set(&"[".repeat(300)),
        r#"5:267  too-deep: the document is nested deeper than 64 levels => split it into several definitions, or pass deep literals as input"#,
    );
    refused_json(
        &"[".repeat(100_000),
        "1:128  too-deep: the document is nested deeper than 64 levels => split it into several definitions, or pass deep literals as input",
    );
    refused_json(
        &format!("{}1{}", "[".repeat(100), "]".repeat(100)),
        "1:65 /0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0 too-deep: the document is nested deeper than 64 levels => split it into several definitions, or pass deep literals as input",
    );
}

#[test]
fn numbers() {
    refused(
        &set("1e400"),
        "5:12 /do/0/a/set/x number-range: number 1e400 is outside the range of a 64-bit float => quote it if it is meant as text",
    );
    for (number, why) in [
        ("18446744073709551616", "is an integer that does not fit into 64 bits"),
        ("-9223372036854775809", "is an integer that does not fit into 64 bits"),
        ("1e-400", "is too small for a 64-bit float"),
    ] {
        let problem = format!("number-range: number {number} {why} => quote it if it is meant as text");
        refused(&set(number), &format!("5:12 /do/0/a/set/x {problem}"));
        let json = format!(
            r#"{{"document":{{"dsl":"1.0.3","namespace":"t","name":"n","version":"1.0.0"}},"do":[{{"a":{{"set":{{
"x":{number}}}}}}}]}}"#
        );
        refused_json(&json, &format!("2:1 /do/0/a/set/x {problem}"));
    }
    refused(
        &set(".inf"),
        "5:12 /do/0/a/set/x number-range: infinity has no JSON form => quote it if it is meant as text",
    );
    refused(
        &set(".NaN"),
        "5:12 /do/0/a/set/x number-range: not-a-number has no JSON form => quote it if it is meant as text",
    );
    assert_eq!(value_of("18446744073709551615"), "18446744073709551615");
    assert_eq!(value_of("0e-400"), "0");
    assert_eq!(value_of("0x1F"), "31");
    assert_eq!(value_of("0o17"), "15");
    assert_eq!(value_of("+1"), "1");
    assert_eq!(value_of("1_000"), "\"1_000\"");
    assert_eq!(value_of("1.50"), "1.5");
    assert_eq!(value_of(".5"), "0.5");
    assert_eq!(value_of("1e3"), "1000");
    assert_eq!(value_of("9007199254740993"), "9007199254740993");
    assert_eq!(value_of("18446744073709551615"), "18446744073709551615");
    assert_eq!(value_of("1.0.3"), "\"1.0.3\"");
    assert_eq!(value_of("2026-01-31"), "\"2026-01-31\"");
    warned(
        &set("012"),
        "5:12 /do/0/a/set/x leading-zero: 012 is read as the decimal number without its leading zeros => quote it to keep it as text",
    );
    assert_eq!(value_of("012"), "12");
}

#[test]
fn words_that_other_readers_take_for_booleans() {
    for word in ["yes", "no", "on", "off", "y", "True", "FALSE"] {
        assert_eq!(value_of(word), format!("\"{word}\""));
    }
    assert_eq!(value_of("true"), "true");
    assert_eq!(value_of("'true'"), "\"true\"");
    assert_eq!(value_of("~"), "null");
    assert_eq!(value_of(""), "null");
    assert_eq!(value_of("!!str 12"), "\"12\"");
    assert_eq!(value_of("!!int 12"), "12");
}

#[test]
fn keys_must_be_text() {
    refused(
        &set("{ 1: a }"),
        "5:14 /do/0/a/set/x key-not-text: a key must be text, but this one is a number => put the key in quotes",
    );
    refused(
        &set("{ true: a }"),
        "5:14 /do/0/a/set/x key-not-text: a key must be text, but this one is a boolean => put the key in quotes",
    );
    refused(
        &set("{ [a]: b }"),
        "5:14 /do/0/a/set/x key-not-text: a key must be text, but this one is a list or object => put the key in quotes",
    );
    refused(
        &set("{ ~: b }"),
        "5:14 /do/0/a/set/x key-not-text: a key must be text, but this one is empty => put the key in quotes",
    );
    assert_eq!(value_of("{ '1': a, on: b }"), "{\"1\":\"a\",\"on\":\"b\"}");
}

#[test]
fn tags_and_merge_keys() {
    refused(
        &set("!secret abc"),
        "5:12 /do/0/a/set/x bad-tag: the tag `!secret` does not fit here => remove the tag; write the value itself",
    );
    refused(
        &set("!!binary aGk="),
        "5:12 /do/0/a/set/x bad-tag: the tag `!!binary` does not fit here => remove the tag; write the value itself",
    );
    refused(
        &set("!!int abc"),
        "5:12 /do/0/a/set/x bad-tag: the tag `!!int` does not fit here => remove the tag; write the value itself",
    );
    refused(
        &tasks("  - a: &a\n      set: { x: 1 }\n  - b:\n      <<: *a"),
        "6:7 /do/1/b merge-key: merge keys (`<<`) are not part of YAML 1.2 => repeat the keys, or move what is shared to `use`",
    );
}

#[test]
fn several_documents() {
    refused(
        &format!("{}---\na: b\n", set("1")),
        "6:1  several-documents: the file holds several documents => keep one definition per file; remove the `---` line and what follows",
    );
    yaml(&format!("---\n{}...\n", set("1")));
}

#[test]
fn aliases_are_copied_within_a_budget() {
    assert_eq!(value_of("[ &a { k: [1, 2] }, *a ]"), r#"[{"k":[1,2]},{"k":[1,2]}]"#);
    let mut bomb = String::from("[ &a0 [x, x, x, x, x, x, x, x]");
    for level in 1..9 {
        let alias = format!("*a{}", level - 1);
        bomb += &format!(", &a{level} [{}]", [alias.as_str(); 8].join(", "));
    }
    refused(
        &set(&(bomb + "]")),
        "5:187  too-many-aliases: the aliases of this document expand to more than 10000 values => write the values out, or move what is shared to `use`",
    );
    refused(&set("&a [ *a ]"), "5:17 /do/0/a/set/x/0 alias-cycle: the alias stands inside what it repeats");
    let deep = format!("[ &a {}{}, {}*a{} ]", "[".repeat(40), "]".repeat(40), "[".repeat(40), "]".repeat(40));
    refused(
        &set(&deep),
        "5:139  too-deep: the document is nested deeper than 64 levels => split it into several definitions, or pass deep literals as input",
    );
}

#[test]
fn problems_inside_an_alias_point_to_what_it_repeats() {
    refused(
        &tasks("  - a: &a\n      set: { x: 1 }\n      thn: end\n  - b: *a"),
        r#"
            5:7 /do/0/a/thn unknown-key: `thn` is not known here => did you mean `then`?
            5:7 /do/1/b/thn unknown-key: `thn` is not known here => did you mean `then`?
        "#,
    );
}
