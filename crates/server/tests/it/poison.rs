//! Poison payloads: each is refused at the edge with its own code, and nothing is stored.

use crate::harness::{APPROVE, HELLO, LISTEN, World, document};
use serde_json::json;

/// (JSON value, code).
fn corpus() -> Vec<(Vec<u8>, &'static str)> {
    let deep = |open: &str, close: &str, levels| {
        format!("{}1{}", open.repeat(levels), close.repeat(levels)).into_bytes()
    };
    vec![
        (br#""a\u0000b""#.to_vec(), "nul-character"),
        (br#"{"a\u0000": 1}"#.to_vec(), "nul-character"),
        (br#""\ud800""#.to_vec(), "lone-surrogate"),
        (br#""\udc00 x""#.to_vec(), "lone-surrogate"),
        (br#""\ud800\ud800""#.to_vec(), "lone-surrogate"),
        (br#"{"\ud800": 1}"#.to_vec(), "lone-surrogate"),
        (b"1e400".to_vec(), "number-out-of-range"),
        (b"[-1e400]".to_vec(), "number-out-of-range"),
        (b"18446744073709551616".to_vec(), "number-out-of-range"),
        (b"-9223372036854775809".to_vec(), "number-out-of-range"),
        (br#"{"a":[12345678901234567890123]}"#.to_vec(), "number-out-of-range"),
        (b"1e-400".to_vec(), "number-out-of-range"),
        (b"-0.5E-999".to_vec(), "number-out-of-range"),
        (br#"{"a":1,"a":2}"#.to_vec(), "duplicate-key"),
        (br#"{"x":{"b":1,"\u0062":2}}"#.to_vec(), "duplicate-key"),
        (deep("[", "]", 70), "too-deep"),
        (deep("[", "]", 10_000), "too-deep"),
        (deep("{\"a\":", "}", 10_000), "too-deep"),
        (b"\"\xff\xfe\"".to_vec(), "invalid-utf8"),
        (b"\"\xed\xa0\x80\"".to_vec(), "invalid-utf8"),
        (b"{\"a\":}".to_vec(), "invalid-json"),
        (b"[1,]".to_vec(), "invalid-json"),
        (b"NaN".to_vec(), "invalid-json"),
        (b"Infinity".to_vec(), "invalid-json"),
        (b"'a'".to_vec(), "invalid-json"),
        (b"1 2".to_vec(), "invalid-json"),
        (b"\"a\nb\"".to_vec(), "invalid-json"),
        (b"\0".to_vec(), "invalid-json"),
        (b"[".repeat(500_000), "too-deep"),
    ]
}

fn inside(value: &[u8], before: &str, after: &str) -> Vec<u8> {
    [before.as_bytes(), value, after.as_bytes()].concat()
}

#[tokio::test]
async fn poison_is_refused_at_every_door_and_nothing_is_stored() {
    let world = World::new().await;
    world.deploy("hello", HELLO).await;
    world.deploy("hear", LISTEN).await;
    world.deploy("approve", APPROVE).await;
    let instance = world.start("hear", json!({})).await;
    let asked = world.start("approve", json!({})).await;
    let task = world.task_of(&asked).await["id"].as_str().unwrap().to_owned();
    let before = world.get("/api/v1/instances").await.text();
    for (value, code) in corpus() {
        let start = inside(&value, r#"{"definition":{"namespace":"test","name":"hello"},"input":"#, "}");
        world.raw("/api/v1/instances", "application/json", start).await.problem(400, code);
        let bulk =
            inside(&value, r#"{"items":[{"definition":{"namespace":"test","name":"hello"},"input":"#, "}]}");
        world.raw("/api/v1/instances/bulk", "application/json", bulk).await.problem(400, code);
        let path = format!("/api/v1/instances/{instance}/signals/paid");
        world.raw(&path, "application/json", value.clone()).await.problem(400, code);
        let path = format!("/api/v1/tasks/{task}/complete");
        let result = inside(&value, r#"{"result":"#, "}");
        world.raw(&path, "application/json", result).await.problem(400, code);
        let key = inside(&value, r#"{"roles":["viewer"],"name":"#, "}");
        world.raw("/api/v1/keys", "application/json", key).await.problem(400, code);
    }
    assert_eq!(world.get("/api/v1/instances").await.text(), before, "poison left a trace");
}

#[tokio::test]
async fn data_at_the_edge_of_what_is_allowed_survives_unchanged() {
    let world = World::new().await;
    world.deploy("keep", "  - keep:\n      set: ${ . }").await;
    let levels = 60;
    let deep = format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    for value in [
        "9007199254740993",
        "-9223372036854775808",
        "18446744073709551615",
        "\"18446744073709551616 \\\" 1e-400\"",
        "\"\\ud83d\\ude00 é\"",
        "1.5e300",
        "5e-324",
        &deep,
    ] {
        let input: serde_json::Value = serde_json::from_str(value).unwrap();
        let id = world.start("keep", json!({ "v": input })).await;
        assert_eq!(world.result(&id).await["output"]["v"], input, "{value}");
    }
}

#[tokio::test]
async fn bad_documents_are_refused_with_positions_and_nothing_is_stored() {
    let world = World::new().await;
    let bad = [
        ("broken yaml", "do: [".to_owned()),
        ("tabs", "document:\n\t- x".to_owned()),
        ("unknown key", document("bad", "1.0.0", "  - a:\n      sett: { x: 1 }")),
        ("then to nowhere", document("bad", "1.0.0", "  - a:\n      set: { x: 1 }\n      then: nowhere")),
        (
            "duplicate names",
            document("bad", "1.0.0", "  - a:\n      set: { x: 1 }\n  - a:\n      set: { x: 2 }"),
        ),
        ("bad jq", document("bad", "1.0.0", "  - a:\n      set: { x: '${ .a[ }' }")),
        ("name with a path", document("../bad", "1.0.0", HELLO)),
        ("no steps", document("bad", "1.0.0", "  []")),
        ("a number that is none", document("bad", "1.0.0", "  - a:\n      set: { x: 1e400 }")),
        (
            "an integer of more than 64 bits",
            document("bad", "1.0.0", "  - a:\n      set: { x: 18446744073709551616 }"),
        ),
        ("a number that is lost", document("bad", "1.0.0", "  - a:\n      set: { x: 1e-400 }")),
        ("a scalar", "42".to_owned()),
        ("nothing", String::new()),
    ];
    for (what, text) in bad {
        let answer = world.raw("/api/v1/definitions", "application/yaml", text.clone()).await;
        let problem = answer.problem(422, "definition-invalid");
        let first = &problem["errors"][0];
        assert!(first["line"].as_u64().unwrap() >= 1 && first["column"].as_u64().unwrap() >= 1, "{what}");
        assert!(first["message"].is_string() && first["pointer"].is_string(), "{what}");
        let check = world.raw("/api/v1/definitions/validate", "application/yaml", text).await.ok(200);
        assert_eq!(check["valid"], false, "{what}");
        assert_eq!(check["problems"], problem["errors"], "{what}");
    }
    let deep = format!("do: {}", "[".repeat(10_000));
    world
        .raw("/api/v1/definitions", "application/yaml", deep.clone())
        .await
        .problem(422, "definition-invalid");
    world.raw("/api/v1/definitions", "application/json", deep).await.problem(422, "definition-invalid");
    world.raw("/api/v1/definitions", "application/yaml", &b"a: \xff"[..]).await.problem(400, "invalid-utf8");
    assert_eq!(world.get("/api/v1/definitions").await.ok(200)["items"], json!([]));
}

#[tokio::test]
async fn hostile_expressions_fail_their_step_and_the_server_keeps_serving() {
    let world = World::new().await;
    for (name, expression) in
        [("endless", "def f: 1 + f; f"), ("wide", "[range(1e9)]"), ("long", "last(range(1e12))")]
    {
        let steps = format!("  - bad:\n      set: {{ x: '${{ {expression} }}' }}");
        let answer =
            world.raw("/api/v1/definitions", "application/yaml", document(name, "1.0.0", &steps)).await;
        if answer.status.is_success() {
            let id = world.start(name, json!({})).await;
            let result = world.result(&id).await;
            assert_eq!(result["status"], "faulted", "{name}");
            assert!(result["error"]["type"].as_str().unwrap().ends_with("/expression"), "{name}: {result}");
        } else {
            answer.problem(422, "definition-invalid");
        }
        assert_eq!(world.get("/healthz").await.status, 200);
    }
}
