//! Codes are documented, unique, and cover what the runtime names; nothing internal shows.

use crate::harness::World;
use axum::{body::Body, http::Request};
use server::code::ALL;
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../../docs/errors.md");

#[test]
fn every_code_has_a_section_and_every_section_a_code() {
    let sections: BTreeSet<&str> = PAGE.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let codes: BTreeSet<&str> = ALL.iter().map(|code| code.word).collect();
    assert_eq!(sections, codes);
    assert_eq!(codes.len(), ALL.len(), "a code is listed twice");
    for code in ALL {
        let kebab = code.word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        assert!(kebab && (400..600).contains(&code.status), "{code:?}");
        let head = format!("## {}\n\nStatus {}", code.word, code.status);
        assert!(PAGE.contains(&head), "{} has another status in docs/errors.md", code.word);
    }
}

#[test]
fn every_code_of_a_documents_problems_is_in_the_table() {
    let rows: Vec<String> = PAGE.lines().filter(|line| line.starts_with("| `")).map(str::to_owned).collect();
    let codes: Vec<String> =
        machine::language::CODES.iter().map(|(code, meaning)| format!("| `{code}` | {meaning} |")).collect();
    assert_eq!(rows, codes);
}

#[test]
fn what_the_runtime_names_is_known() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/src");
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap_or_default();
        let fields = text.split("code: \"").skip(1);
        let calls = text.split("conflict(\"").skip(1);
        for rest in fields.chain(calls) {
            let word = rest.split('"').next().unwrap();
            assert!(ALL.iter().any(|code| code.word == word), "the runtime answers {word}");
        }
    }
}

#[tokio::test]
async fn a_request_id_is_echoed_if_sane_and_made_if_not() {
    let world = World::new().await;
    let ask = |id: &str| Request::get("/healthz").header("x-request-id", id).body(Body::empty()).unwrap();
    assert_eq!(world.send(ask("abc-1.2_3")).await.header("x-request-id"), "abc-1.2_3");
    for insane in ["", "a b", "<script>", &"x".repeat(200), "a\tb"] {
        let given = world.send(ask(insane)).await;
        assert!(given.header("x-request-id").starts_with("req_"), "{insane:?}");
    }
}

#[tokio::test]
async fn every_answer_carries_the_security_headers() {
    let world = World::new().await;
    for path in ["/", "/api/v1/me", "/api/v1/nowhere", "/healthz", "/api/docs/", "/api/v1/openapi.json"] {
        let answer = world.ask("GET", path, None, "").await;
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        // The console's page holds nothing of anybody: it may be kept, and is asked for by its tag.
        let kept = if path == "/" { "no-cache" } else { "no-store" };
        assert_eq!(answer.header("cache-control"), kept, "{path}");
        assert_eq!(answer.header("x-frame-options"), "DENY", "{path}");
        assert!(!answer.header("content-security-policy").is_empty(), "{path}");
        assert!(!answer.headers.contains_key("access-control-allow-origin"), "{path}");
    }
}

#[tokio::test]
async fn a_problem_names_the_address() {
    let world = World::new().await;
    let problem = world.ask("GET", "/api/v1/nowhere?x=1", None, "").await.problem(404, "route-not-found");
    assert_eq!(problem["instance"], "/api/v1/nowhere");
    assert_eq!(problem["retryable"], false);
}
