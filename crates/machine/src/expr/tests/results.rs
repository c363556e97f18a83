//! Expressions and their results.

use super::{args, compile, data, eval};

#[track_caller]
fn check(source: &str, input: &str, expected: &str) {
    match eval(source, input) {
        Ok(found) => assert_eq!(String::from_utf8_lossy(&found.to_bytes()), expected, "{source}"),
        Err(fault) => panic!("{source}: {:?}", fault.detail),
    }
}

#[test]
fn everyday_expressions_answer_as_jq_does() {
    let order = r#"{"id":"o1","total":120.5,"paid":false,"lines":[{"sku":"a","qty":2,"price":10},{"sku":"b","qty":1,"price":100.5}],"customer":{"name":"Ann Lee","age":17,"tags":["vip","eu"]}}"#;
    let rows = [
        (".", "7"),
        (".id", r#""o1""#),
        (".customer.name", r#""Ann Lee""#),
        (".missing.deep.field", "null"),
        (".lines[0].sku", r#""a""#),
        (".lines[-1].sku", r#""b""#),
        (".lines[5]", "null"),
        (".lines | length", "2"),
        (".total > 100 and (.paid | not)", "true"),
        (".customer.age < 18", "true"),
        (".customer.age == 17.0", "true"),
        (".lines | map(.qty * .price) | add", "120.5"),
        ("[.lines[] | select(.qty > 1) | .sku]", r#"["a"]"#),
        (".lines[] | .sku", r#"["a","b"]"#),
        (".lines[] | select(.qty > 5)", "null"),
        (r#"{ order: .id, n: (.lines | length) }"#, r#"{"order":"o1","n":2}"#),
        (r#". + {status: "sold"} | keys"#, r#"["customer","id","lines","paid","status","total"]"#),
        (r#"if .paid then "done" elif .total > 100 then "big" else "small" end"#, r#""big""#),
        (r#""Hello \(.customer.name), \(.lines | length) lines""#, r#""Hello Ann Lee, 2 lines""#),
        (r#".nickname // .customer.name"#, r#""Ann Lee""#),
        (r#".customer.tags | contains(["eu"])"#, "true"),
        (r#".customer.tags | index("eu")"#, "1"),
        (r#".customer | has("age")"#, "true"),
        (r#".customer | to_entries | map(.key)"#, r#"["name","age","tags"]"#),
        (r#".customer | with_entries(select(.key != "tags"))"#, r#"{"name":"Ann Lee","age":17}"#),
        (r#"[{key:"a",value:1},{name:"b",v:2}] | from_entries"#, r#"{"a":1,"b":2}"#),
        (r#".lines | any(.price > 100)"#, "true"),
        (r#".lines | all(.price > 100)"#, "false"),
        (r#".id | test("^o[0-9]+$")"#, "true"),
        (r#".customer.name | capture("(?<first>\\w+) (?<last>\\w+)")"#, r#"{"first":"Ann","last":"Lee"}"#),
        (r#""a1b22" | [scan("[0-9]+")]"#, r#"["1","22"]"#),
        (r#""a-b-c" | gsub("-"; "+")"#, r#""a+b+c""#),
        (r#""a-b-c" | sub("-(?<x>b)"; "<\(.x)>")"#, r#""a<b>-c""#),
        (r#""aXbX" | [splits("X")]"#, r#"["a","b",""]"#),
        (r#""ab" | [match("";"g").offset]"#, "[0,1,2]"),
        (r#""äöü" | [match("ö").offset, length, .[1:2]]"#, r#"[1,3,"ö"]"#),
        (r#".lines | sort_by(-.price) | map(.sku)"#, r#"["b","a"]"#),
        (r#".lines | group_by(.qty) | map(length)"#, "[1,1]"),
        (r#"[3,1,2] | sort"#, "[1,2,3]"),
        (r#"[3,1,2,3] | unique"#, "[1,2,3]"),
        (r#"[3,1,2] | [min, max]"#, "[1,3]"),
        (r#".lines | max_by(.price).sku"#, r#""b""#),
        (r#"first(.lines[])"#, r#"{"sku":"a","qty":2,"price":10}"#),
        (r#"[limit(3; .customer.tags[], 1, 2, 3)]"#, r#"["vip","eu",1]"#),
        (r#"[range(0; 10; 3)]"#, "[0,3,6,9]"),
        (r#"reduce .lines[] as $l (0; . + $l.qty)"#, "3"),
        (r#"[foreach (1,2,3) as $n (0; . + $n)]"#, "[1,3,6]"),
        (r#".customer.tags | join(", ")"#, r#""vip, eu""#),
        (r#"[1,null,"x"] | join("-")"#, r#""1--x""#),
        (r#""a,b" | split(",")"#, r#"["a","b"]"#),
        (r#""AbC" | ascii_downcase, ascii_upcase"#, r#"["abc","ABC"]"#),
        (r#""  x " | trim"#, r#""x""#),
        (r#"42 | tostring"#, r#""42""#),
        (r#""42.5" | tonumber"#, "42.5"),
        (r#"{a:[1,2]} | tojson"#, r#""{\"a\":[1,2]}""#),
        (r#""[1,{\"a\":2}]" | fromjson"#, r#"[1,{"a":2}]"#),
        (r#"[1,[2,[3]]] | flatten"#, "[1,2,3]"),
        (r#"{a:{b:1}} * {a:{c:2}}"#, r#"{"a":{"b":1,"c":2}}"#),
        (r#"[1,2,3] - [2]"#, "[1,3]"),
        (r#".customer.age |= . + 1 | .customer.age"#, "18"),
        (r#".lines[].qty += 1 | [.lines[].qty]"#, "[3,2]"),
        (r#"del(.lines, .customer) | keys"#, r#"["id","paid","total"]"#),
        (r#"[paths] | length"#, "18"),
        (r#"[.. | numbers] | length"#, "6"),
        (r#"getpath(["customer","tags",0])"#, r#""vip""#),
        (r#"setpath(["a","b"]; 1) | .a"#, r#"{"b":1}"#),
        (r#"null | .[2] = 1"#, "[null,null,1]"),
        (r#".lines as [{sku: $first}] | $first"#, r#""a""#),
        (r#"try error("x") catch ."#, r#""x""#),
        (r#".lines.sku? // "none""#, r#""none""#),
        (r#"[.lines[] as $l | $l.qty] | add"#, "3"),
        (r#"@base64 "\(.id)""#, r#""bzE=""#),
        (r#".id | @base64 | @base64d"#, r#""o1""#),
        (r#""a b&c" | @uri"#, r#""a%20b%26c""#),
        (r#"["a\"b",1,null] | @csv"#, r#""\"a\"\"b\",1,""#),
        (r#"0 | todate"#, r#""1970-01-01T00:00:00Z""#),
        (r#""2015-03-05T23:51:47Z" | fromdate"#, "1425599507"),
        (r#"1425599621 | strftime("%Y-%m-%d")"#, r#""2015-03-05""#),
        (r#"[1,2,3] | IN(2)"#, "false"),
        (r#"2 | IN(1,2)"#, "true"),
        (r#".lines | INDEX(.sku) | .b.qty"#, "1"),
        (r#"[[1,2],[3]] | transpose"#, "[[1,3],[2,null]]"),
        (r#"def twice(f): f | f; 3 | twice(. * 2)"#, "12"),
        (r#"label $out | 1, break $out, 2"#, "1"),
        (r#"[.[]?] | length"#, "5"),
        (r#"type, (.lines | type), (.id | type)"#, r#"["object","array","string"]"#),
        (r#"ltrimstr("x")? // "no""#, r#""no""#),
        (r#"[1,2,3,4] | .[1:3]"#, "[2,3]"),
        (r#""x" * 3"#, r#""xxx""#),
        (r#"walk(if type == "number" then . + 1 else . end) | .customer.age"#, "18"),
    ];
    for (source, expected) in rows {
        let input = if source == "." { "7" } else { order };
        check(source, input, expected);
    }
}

#[test]
fn numbers_keep_their_precision_and_print_as_json() {
    let rows = [
        ("10 / 5", "null", "2"),
        ("1 / 3", "null", "0.3333333333333333"),
        (r#""\(10 / 4 * 2)""#, "null", r#""5""#),
        (". + 1", "9007199254740993", "9007199254740994"),
        (". * 2", "0.5", "1"),
        ("[1.0, 2.50, 1e3]", "null", "[1,2.5,1000]"),
        (".[4 / 2]", "[1,2,3]", "3"),
        (".[1.7]", "[1,2,3]", "2"),
        ("5 % 3, -5 % 3", "null", "[2,-2]"),
        ("3.7 | floor, ceil, round", "null", "[3,4,4]"),
        ("18446744073709551615", "null", "18446744073709551615"),
        ("-1 | length, abs", "null", "[1,1]"),
        ("16 | sqrt", "null", "4"),
        (r#"tojson"#, "[2.0, 1.5]", r#""[2,1.5]""#),
    ];
    for (source, input, expected) in rows {
        check(source, input, expected);
    }
}

#[test]
fn arguments_and_locals_are_variables() {
    let rows = [
        ("$context.user", r#""ann""#),
        ("$context", r#"{"user":"ann","limits":{"max":3},"list":[1,2,3]}"#),
        ("$input.color", r#""red""#),
        ("$item.id + $context.limits.max", "10"),
        ("$error", "null"),
        ("$error == null", "true"),
        ("$context.list | map(. + $item.id)", "[8,9,10]"),
        ("$task.name", "null"),
        (". as $context | $context", "1"),
    ];
    for (source, expected) in rows {
        check(source, "1", expected);
    }
    let compiled = compile("$context.a + $item + $workflow.id").expect("compiles");
    assert_eq!(compiled.uses, [true, false, false, false, false, false, true, false]);
    let inner = super::Compiled::new("$x", &["x".to_owned(), "x".to_owned()]).expect("compiles");
    let args = super::Args { locals: vec![data("1"), data("2")], ..args() };
    assert_eq!(inner.eval(&data("null"), &args), Some(Ok(data("2"))), "the innermost wins");
}

#[test]
fn errors_become_expression_faults() {
    let rows = [
        (r#"error("too late")"#, "null", "too late"),
        (r#"error({code: 7})"#, "null", r#"{"code":7}"#),
        (".a", "7", r#"cannot index 7 with "a""#),
        (".[]", "7", "cannot use 7 as iterable (array or object)"),
        (r#"1 + "a""#, "null", r#"cannot calculate 1 + "a""#),
        ("1 % 0", "null", "cannot calculate 1 % 0"),
        ("1 / 0", "null", "the result holds inf, which is not JSON"),
        ("[0 / 0]", "null", "the result holds NaN, which is not JSON"),
        (r#""\u0000""#, "null", "the result holds a NUL character"),
        (r#""/w==" | @base64d"#, "null", "the result holds text that is not valid UTF-8"),
        (r#"{(1): 2}"#, "null", "object keys must be text, not 1"),
        (
            r#""[" | fromjson"#,
            "null",
            r#"cannot parse "[" as JSON: EOF while parsing a list at line 1 column 1"#,
        ),
        (r#""x" | test("(")"#, "null", "not a regular expression: found open group without closing ')'"),
    ];
    for (source, input, expected) in rows {
        let fault = eval(source, input).expect_err(source);
        assert_eq!(fault.detail.as_deref(), Some(expected), "{source}");
        assert!(fault.is_type("https://serverlessworkflow.io/spec/1.0.0/errors/expression"), "{source}");
    }
}

#[test]
fn shortcuts_agree_with_the_interpreter() {
    let inputs = ["null", "1", r#""x""#, "[1]", r#"{"a":{"b":2.0}}"#, r#"{"a":null}"#, r#"{"a":[]}"#];
    let sources = [
        ".",
        ".a",
        ".a.b",
        r#"."a""#,
        r#".["a"]"#,
        "$context.user",
        "$context.user.x",
        "$item",
        "3",
        r#""t""#,
    ];
    for source in sources {
        let compiled = compile(source).expect(source);
        assert!(compiled.parts.shortcut.is_some(), "{source}");
        for input in inputs {
            let (input, args) = (data(input), args());
            let quick = compiled.eval(&input, &args).expect("short").map_err(|f| f.detail);
            let slow = compiled.interpret(&input, &args, 1000).0.map_err(|f| f.detail);
            assert_eq!(quick, slow, "{source} on {input:?}");
        }
    }
}

#[test]
fn results_read_back_as_they_are() {
    for source in ["10 / 4 * 2", "[1.0, {a: 2.50}]", "1e3", "123456789012345678901234567890", "4 | sqrt"] {
        let result = eval(source, "null").expect(source);
        let stored = data(&String::from_utf8_lossy(&result.to_bytes()));
        assert_eq!(format!("{:?}", result.0), format!("{:?}", stored.0), "{source}");
    }
}
