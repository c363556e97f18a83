//! The console's files: what is there, what is not, and what a browser is told about them.

use crate::harness::World;
use axum::{body::Body, http::Request};

#[tokio::test]
async fn every_place_of_the_console_is_its_page() {
    let world = World::new().await;
    for path in ["/", "/t/acme", "/t/acme/instances", "/t/acme/instances/ins_1?tab=history"] {
        let page = world.ask("GET", path, None, "").await;
        assert_eq!(page.status, 200, "{path}");
        assert!(page.header("content-type").starts_with("text/html"), "{path}");
        assert!(page.text().contains("src=\"/console/app.js\""), "{path}");
        assert!(page.text().contains("href=\"/api/docs/\""), "without scripts there is a way on");
    }
}

#[tokio::test]
async fn everything_comes_from_here_and_nothing_is_inline() {
    let world = World::new().await;
    let page = world.ask("GET", "/", None, "").await;
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'self'") && !policy.contains("unsafe"), "{policy}");
    let text = page.text();
    assert!(!text.contains("<style") && !text.contains("style=") && !text.contains("onload="), "{text}");
    assert_eq!(text.matches("<script").count(), text.matches("<script type=\"module\" src=\"/").count());
    for (file, media) in [("app.js", "text/javascript"), ("app.css", "text/css")] {
        let answer = world.ask("GET", &format!("/console/{file}"), None, "").await;
        assert_eq!(answer.status, 200, "{file}");
        assert!(answer.header("content-type").starts_with(media), "{file}");
        assert!(answer.body.len() > 1000, "{file} is built");
    }
}

#[tokio::test]
async fn a_missing_file_is_not_found() {
    let world = World::new().await;
    for path in ["/console/app.js.map", "/console/", "/console/a/b.js", "/t", "/t/"] {
        assert_eq!(world.ask("GET", path, None, "").await.status, 404, "{path}");
    }
    world.ask("POST", "/console/app.js", None, "").await.problem(405, "method-not-allowed");
}

#[tokio::test]
async fn a_file_is_sent_again_only_when_it_has_changed_and_packed_if_wanted() {
    let world = World::new().await;
    let first = world.ask("GET", "/console/app.js", None, "").await;
    let tag = first.header("etag").to_owned();
    let again = Request::get("/console/app.js").header("if-none-match", &tag).body(Body::empty()).unwrap();
    let again = world.send(again).await;
    assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
    let packed =
        Request::get("/console/app.js").header("accept-encoding", "gzip, br").body(Body::empty()).unwrap();
    let packed = world.send(packed).await;
    assert_eq!(packed.header("content-encoding"), "gzip");
    assert!(packed.body.len() < first.body.len() / 2);
}

#[tokio::test]
async fn the_whole_console_is_small() {
    const PACKED_BYTES_MAX: usize = 80 * 1024;
    let world = World::new().await;
    let mut sum = 0;
    for file in ["index.html", "app.js", "app.css"] {
        let request = Request::get(format!("/console/{file}")).header("accept-encoding", "gzip");
        sum += world.send(request.body(Body::empty()).unwrap()).await.body.len();
    }
    assert!(sum < PACKED_BYTES_MAX, "{sum} bytes");
}
