//! Pages around the API: viewer, error codes, health.

use crate::harness::{self, World};
use axum::{body::Body, http::Request};
use runtime::{Node, Parts};
use std::sync::Arc;
use trial::tap::Tap;

#[tokio::test]
async fn the_viewer_is_here_and_complete() {
    let world = World::new().await;
    let redirect = world.ask("GET", "/api/docs", None, "").await;
    assert_eq!((redirect.status.as_u16(), redirect.header("location")), (308, "/api/docs/"));
    let viewer = world.ask("GET", "/api/docs/", None, "").await;
    assert_eq!(viewer.status, 200);
    for file in ["swagger-ui-bundle.js", "swagger-ui.css", "swagger-initializer.js"] {
        let answer = world.ask("GET", &format!("/api/docs/{file}"), None, "").await;
        assert_eq!(answer.status, 200, "{file}");
    }
    let start = world.ask("GET", "/api/docs/swagger-initializer.js", None, "").await;
    assert!(start.text().contains("/api/v1/openapi.json"));
    world.ask("GET", "/api/docs/nothing.js", None, "").await.problem(404, "route-not-found");
}

#[tokio::test]
async fn the_codes_are_served_where_problems_point() {
    let world = World::new().await;
    let page = world.ask("GET", "/docs/errors.md", None, "").await;
    assert!(page.text().contains("## unknown-parameter"));
}

#[tokio::test]
async fn health_is_always_and_readiness_follows_the_node() {
    let world = World::new().await;
    assert_eq!(world.ask("GET", "/healthz", None, "").await.status, 200);
    assert_eq!(world.ask("GET", "/readyz", None, "").await.ok(200)["ready"], true);
    let World { node, router, .. } = world;
    node.stop().await;
    let request = Request::get("/readyz").body(Body::empty()).unwrap();
    let problem = harness::send(&router, request).await.problem(503, "not-ready");
    assert!(problem["errors"][0]["message"].is_string());
}

#[tokio::test]
async fn probes_ask_the_store_nothing_while_the_lease_is_renewed() {
    const PROBES: u64 = 50;
    let store = Arc::new(store::sqlite::Sqlite::in_memory().unwrap());
    let tap = Arc::new(Tap::new(store, Default::default()));
    let node = Node::start(Parts::new(tap.clone())).await.unwrap();
    let router = server::router(node.handle(), server::Options::default()).unwrap();
    tap.take_counts();
    for _ in 0..PROBES {
        let request = Request::get("/readyz").body(Body::empty()).unwrap();
        assert_eq!(harness::send(&router, request).await.ok(200)["ready"], true);
    }
    // The node itself looks for work now and then.
    let asked: u64 = tap.take_counts().values().sum();
    assert!(asked < PROBES, "{asked} questions for {PROBES} probes");
    node.stop().await;
}
