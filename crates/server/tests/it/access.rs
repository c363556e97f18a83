//! The route table, the OpenAPI document and the live routes are the same thing; the matrix of roles is on record.

use crate::harness::World;
use server::{
    access::{Access, Role},
    routes::ROUTES,
};
use std::{collections::BTreeSet, fmt::Write};

fn documented() -> BTreeSet<String> {
    let description = serde_json::to_value(server::description()).unwrap();
    let mut found = BTreeSet::new();
    for (path, item) in description["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            found.insert(format!("{} {path}", method.to_uppercase()));
        }
    }
    found
}

#[test]
fn the_document_lists_what_the_table_lists() {
    let lines = ROUTES.iter().filter(|route| route.documented);
    let declared: BTreeSet<String> = lines.map(|route| format!("{} {}", route.method, route.path)).collect();
    assert_eq!(documented(), declared);
}

/// The path with something acceptable in place of its parameters.
fn concrete(path: &str) -> String {
    let id = match path {
        _ if path.contains("/tasks/") => "tsk_00000000000000000000000000000001",
        _ if path.contains("/events/") => "evt_00000000000000000000000000000001",
        _ if path.contains("/schedules/") => "sch_00000000000000000000000000000001",
        _ if path.contains("/errors/") => "err_00000000000000000000000000000001",
        _ if path.contains("/dead-letters/") => "dl_00000000000000000000000000000001",
        _ => "ins_00000000000000000000000000000001",
    };
    let path = path.replace("{id}", id).replace("{namespace}", "test").replace("{name}", "hello");
    path.replace("{version}", "1.0.0")
        .replace("{type}", "t")
        .replace("{target}", "x:443")
        .replace("{*file}", "index.html")
        .replace("{file}", "app.js")
        .replace("{*place}", "instances")
}

#[tokio::test]
async fn live_routes_are_those_of_the_table() {
    let world = World::new().await;
    let methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];
    let paths: BTreeSet<&str> = ROUTES.iter().map(|route| route.path).collect();
    for path in paths {
        for method in methods {
            let route = ROUTES.iter().find(|route| route.path == path && route.method == method);
            let answer = world.ask(method, &concrete(path), None, "").await;
            match route.map(|route| route.access) {
                None => {
                    answer.problem(405, "method-not-allowed");
                    assert!(!answer.header("allow").is_empty(), "{method} {path}");
                }
                // The token in the path is what lets in, and this one is nobody's.
                Some(Access::Public) if path.contains("{token}") => {
                    answer.problem(404, "not-found");
                }
                // What is in the body is what lets in, and no page elsewhere may send it.
                Some(Access::Public) if path == "/api/v1/session" => {
                    answer.problem(403, "csrf-refused");
                }
                Some(Access::Public) => assert!(answer.status.as_u16() < 400, "{method} {path}"),
                Some(_) => {
                    answer.problem(401, "unauthenticated");
                }
            }
        }
    }
}

#[tokio::test]
async fn head_is_get_without_body() {
    let world = World::new().await;
    assert_eq!(world.ask("HEAD", "/api/v1/instances", None, "").await.status, 401);
    let token = world.token("acme", "viewer");
    let answer = world.ask("HEAD", "/api/v1/instances", Some(&token), "").await;
    assert_eq!((answer.status.as_u16(), answer.body.len()), (200, 0));
}

/// What a role may reach, asked of the running server, against the recorded matrix. Set `WINDLASS_BLESS=1` to record.
#[tokio::test]
async fn the_matrix_of_routes_and_roles_is_as_recorded() {
    let world = World::new().await;
    let mut matrix = String::from("route × role: + may, - may not\n");
    let roles: Vec<&str> = Role::ALL.iter().map(|role| role.word()).collect();
    writeln!(matrix, "{:<66} {:<18} {}", "route", "needs", roles.join(" ")).unwrap();
    for route in ROUTES.iter().filter(|route| route.access != Access::Public) {
        let line = format!("{} {}", route.method, route.path);
        write!(matrix, "{line:<66} {:<18}", route.access.word()).unwrap();
        for role in Role::ALL {
            let token = world.token("acme", role.word());
            // The body is never acceptable, so that nothing changes; being let in shows before it is read.
            let body = if route.method == "POST" { "[" } else { "" };
            let path = concrete(route.path);
            let answer = if route.path == "/api/v1/stream" {
                world.ask(route.method, "/api/v1/stream?topics=none", Some(&token), body).await
            } else {
                world.ask(route.method, &path, Some(&token), body).await
            };
            let admitted = answer.status != 403;
            assert_ne!(answer.status, 401, "{line} as {}", role.word());
            assert_eq!(admitted, route.access.admits(&[*role]), "{line} as {}", role.word());
            write!(matrix, " {:<width$}", if admitted { "+" } else { "-" }, width = role.word().len())
                .unwrap();
        }
        matrix.truncate(matrix.trim_end().len());
        matrix.push('\n');
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/matrix.txt");
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        std::fs::write(path, &matrix).unwrap();
    }
    let recorded = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(matrix, recorded, "WINDLASS_BLESS=1 records the matrix anew");
}

#[tokio::test]
async fn no_decoration_of_an_address_opens_it() {
    let world = World::new().await;
    for path in [
        "/api/v1/instances/health",
        "/api/v1/instances/healthz",
        "/api/v1/instances;x",
        "/api/v1//instances",
        "//api/v1/instances",
        "/api/v1/instances/",
        "/api/v1/%69nstances",
        "/api/v1/me/healthz",
        "/api/v1/me/../../healthz",
        "/healthz/../api/v1/me",
        "/healthz%2f..%2fapi/v1/me",
        "/metrics/healthz",
        "/api/v1/me%00",
        "/api/v1/me?x=/healthz",
        "/api/docs/../v1/me",
        "/api/docs/..%2fv1%2fme",
    ] {
        let answer = world.ask("GET", path, None, "").await;
        assert!(matches!(answer.status.as_u16(), 400 | 401 | 404), "{path}: {}", answer.status);
    }
}

#[test]
fn operations_say_what_they_need() {
    let description = serde_json::to_value(server::description()).unwrap();
    assert!(description["openapi"].as_str().unwrap().starts_with("3.1"));
    let start = &description["paths"]["/api/v1/instances"]["post"];
    assert_eq!(start["x-permission"], "instances:start");
    assert_eq!(start["security"][0]["key"], serde_json::json!([]));
    assert_eq!(description["paths"]["/healthz"]["get"]["security"], serde_json::json!([]));
}

/// The document, against the recorded one: a change of the API is a visible difference. `WINDLASS_BLESS=1` records.
#[test]
fn the_document_is_as_recorded() {
    let mut text = server::description().to_pretty_json().unwrap();
    text.push('\n');
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/openapi.json");
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let recorded = std::fs::read_to_string(path).unwrap_or_default();
    assert!(text == recorded, "the API's description changed; WINDLASS_BLESS=1 records it anew");
}

#[test]
fn every_reference_of_the_document_leads_somewhere() {
    fn walk(value: &serde_json::Value, whole: &serde_json::Value) {
        if let Some(target) = value.get("$ref").and_then(|target| target.as_str()) {
            assert!(whole.pointer(&target[1..]).is_some(), "{target} is not there");
        }
        let members = value.as_object().into_iter().flat_map(|object| object.values());
        for inner in members.chain(value.as_array().into_iter().flatten()) {
            walk(inner, whole);
        }
    }
    let whole = serde_json::to_value(server::description()).unwrap();
    walk(&whole, &whole);
}
