//! Sessions of the console: what opens one, what one may do, what ends it, and that no other page can use it.

use crate::harness::{self, Answer, World};
use axum::{body::Body, http::Request};
use machine::{Time, time::Span};
use serde_json::{Value, json};
use server::{CSRF_HEADER, Options};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use trial::time::VirtualClock;

/// The `name=value` of the cookie that the answer sets.
fn cookie(answer: &Answer) -> String {
    answer.header("set-cookie").split(';').next().unwrap().to_owned()
}

async fn log_in(world: &World, body: Value) -> Answer {
    let request =
        Request::post("/api/v1/session").header("content-type", "application/json").header(CSRF_HEADER, "1");
    world.send(request.body(Body::from(body.to_string())).unwrap()).await
}

async fn session(world: &World, role: &str) -> String {
    let answer = log_in(world, json!({ "key": world.token("acme", role) })).await;
    assert_eq!(answer.status, 204, "{}", answer.text());
    cookie(&answer)
}

/// A request with the cookie, and with the header if `csrf`.
async fn ask(world: &World, (method, path): (&str, &str), cookie: &str, csrf: bool) -> Answer {
    let mut request = Request::builder().method(method).uri(path).header("cookie", cookie);
    if csrf {
        request = request.header(CSRF_HEADER, "1");
    }
    world.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn a_key_opens_a_session_that_may_do_what_the_key_may() {
    let world = World::new().await;
    let answer = log_in(&world, json!({ "key": world.token("acme", "viewer") })).await;
    assert_eq!(answer.status, 204);
    let set = answer.header("set-cookie");
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="] {
        assert!(set.contains(attribute), "{attribute} in {set}");
    }
    assert!(!set.contains("Secure"), "over plain HTTP the browser would drop it");
    let viewer = cookie(&answer);
    let me = ask(&world, ("GET", "/api/v1/me"), &viewer, false).await.ok(200);
    assert_eq!((&me["tenant"], &me["roles"]), (&json!("acme"), &json!(["viewer"])));
    ask(&world, ("GET", "/api/v1/instances"), &viewer, false).await.ok(200);
    ask(&world, ("GET", "/api/v1/keys"), &viewer, false).await.problem(403, "forbidden");
    // Beside other cookies, too.
    let among = format!("a=b; {viewer}; c=d");
    ask(&world, ("GET", "/api/v1/me"), &among, false).await.ok(200);
}

#[tokio::test]
async fn every_route_admits_a_session_as_it_admits_its_key() {
    let world = World::new().await;
    for role in ["admin", "viewer", "monitor"] {
        let (token, cookie) = (world.token("acme", role), session(&world, role).await);
        for path in [
            "/api/v1/definitions",
            "/api/v1/tasks",
            "/api/v1/queues",
            "/api/v1/keys",
            "/api/v1/tenants",
            "/metrics",
        ] {
            let by_key = world.ask("GET", path, Some(&token), "").await;
            let by_cookie = ask(&world, ("GET", path), &cookie, false).await;
            assert_eq!(by_cookie.status, by_key.status, "{path} as {role}");
        }
    }
}

#[tokio::test]
async fn a_change_with_a_cookie_needs_the_header_that_other_pages_cannot_send() {
    let world = World::new().await;
    let admin = session(&world, "admin").await;
    let path = "/api/v1/keys/nobody";
    ask(&world, ("DELETE", path), &admin, false).await.problem(403, "csrf-refused");
    ask(&world, ("DELETE", path), &admin, true).await.problem(404, "not-found");
    let foreign = Request::delete(path)
        .header("cookie", &admin)
        .header(CSRF_HEADER, "1")
        .header("sec-fetch-site", "cross-site");
    world.send(foreign.body(Body::empty()).unwrap()).await.problem(403, "csrf-refused");
    // A key is sent by whoever knows it, so that it needs no header.
    world.ask("DELETE", path, Some(&world.token("acme", "admin")), "").await.problem(404, "not-found");
    // Nor can another page log somebody in or out.
    let body = Body::from(json!({ "key": world.token("acme", "admin") }).to_string());
    let request =
        Request::post("/api/v1/session").header("content-type", "application/json").body(body).unwrap();
    world.send(request).await.problem(403, "csrf-refused");
    world.ask("DELETE", "/api/v1/session", None, "").await.problem(403, "csrf-refused");
}

#[tokio::test]
async fn what_is_not_signed_here_is_refused() {
    let world = World::new().await;
    let viewer = session(&world, "viewer").await;
    let admin_key = world.token("acme", "admin");
    log_in(&world, json!({ "key": format!("{admin_key}x") })).await.problem(401, "unauthenticated");
    log_in(&world, json!({ "key": "wlk_" })).await.problem(401, "unauthenticated");
    log_in(&world, json!({ "link": "never-made" })).await.problem(401, "unauthenticated");
    log_in(&world, json!({})).await.problem(400, "missing-key");
    let (claim, signature) = viewer.rsplit_once('.').unwrap();
    let (head, end) = claim.rsplit_once('.').unwrap();
    let longer = format!("{head}.{}.{signature}", end.parse::<i64>().unwrap() + 1);
    let other = cookie(&log_in(&world, json!({ "key": admin_key })).await);
    let swapped = format!("{}.{signature}", other.rsplit_once('.').unwrap().0);
    for forged in
        [longer, swapped, format!("{claim}."), format!("{claim}.AAAA"), "windlass_session=".to_owned()]
    {
        ask(&world, ("GET", "/api/v1/me"), &forged, false).await.problem(401, "unauthenticated");
    }
    // Two of them: one was put there by somebody else.
    let twice = format!("{viewer}; {viewer}");
    ask(&world, ("GET", "/api/v1/me"), &twice, false).await.problem(401, "unauthenticated");
    // A wrong key is not made good by a cookie.
    let both = Request::get("/api/v1/me").header("cookie", &viewer).header("authorization", "Bearer wlk_a_b");
    world.send(both.body(Body::empty()).unwrap()).await.problem(401, "unauthenticated");
}

#[tokio::test]
async fn a_session_ends_by_itself_and_with_its_key() {
    let began = Instant::now();
    let at = |hours: u64| {
        let clock = Arc::new(VirtualClock(began - Duration::from_secs(hours * 60 * 60)));
        Options { clock, ..Options::default() }
    };
    let world = World::with(at(0)).await;
    let viewer = session(&world, "viewer").await;
    ask(&world, ("GET", "/api/v1/me"), &viewer, false).await.ok(200);
    // The same deployment, thirteen hours later, on another node: the signature is good there, the session is over.
    for (hours, status) in [(11, 200), (13, 401)] {
        let later = server::router(world.node.handle(), at(hours)).unwrap();
        let request = Request::get("/api/v1/me").header("cookie", &viewer).body(Body::empty()).unwrap();
        assert_eq!(harness::send(&later, request).await.status, status, "after {hours} hours");
    }

    let made = world.post("/api/v1/keys", json!({ "name": "ci", "roles": ["viewer"] })).await.ok(201);
    let own = cookie(&log_in(&world, json!({ "key": made["secret"] })).await);
    ask(&world, ("GET", "/api/v1/me"), &own, false).await.ok(200);
    let path = format!("/api/v1/keys/{}", made["id"].as_str().unwrap());
    let revoke = world.request("DELETE", &path).body(Body::empty()).unwrap();
    assert_eq!(world.send(revoke).await.status, 204);
    ask(&world, ("GET", "/api/v1/me"), &own, false).await.problem(401, "unauthenticated");
}

#[tokio::test]
async fn logging_out_takes_the_cookie_away() {
    let world = World::new().await;
    let viewer = session(&world, "viewer").await;
    let answer = ask(&world, ("DELETE", "/api/v1/session"), &viewer, true).await;
    assert_eq!(answer.status, 204);
    assert!(
        answer.header("set-cookie").starts_with("windlass_session=; "),
        "{}",
        answer.header("set-cookie")
    );
    assert!(answer.header("set-cookie").contains("Max-Age=0"));
}

#[tokio::test]
async fn behind_https_the_cookie_is_for_https_alone() {
    let world = World::new().await;
    let body = Body::from(json!({ "key": world.token("acme", "viewer") }).to_string());
    let request =
        Request::post("/api/v1/session").header("content-type", "application/json").header(CSRF_HEADER, "1");
    let answer = world.send(request.header("origin", "https://windlass.example").body(body).unwrap()).await;
    assert!(answer.header("set-cookie").ends_with("; Secure"), "{}", answer.header("set-cookie"));
}

#[tokio::test]
async fn a_link_logs_in_once_and_not_for_ever() {
    let options = Options::default();
    let links = options.links.clone();
    let now = options.clock.now();
    let world = World::with(options).await;
    let key = world.token("acme", "operator");
    let key_id = key.strip_prefix("wlk_").unwrap().split_once('_').unwrap().0;
    let link = links.make(key_id, now.after(Span::from_millis(60_000))).unwrap();
    let answer = log_in(&world, json!({ "link": link })).await;
    assert_eq!(answer.status, 204, "{}", answer.text());
    let me = ask(&world, ("GET", "/api/v1/me"), &cookie(&answer), false).await.ok(200);
    assert_eq!(me["roles"], json!(["operator"]));
    log_in(&world, json!({ "link": link })).await.problem(401, "unauthenticated");
    let late = links.make(key_id, Time(now.0 - 1)).unwrap();
    log_in(&world, json!({ "link": late })).await.problem(401, "unauthenticated");
    let lost = links.make("nobody", now.after(Span::from_millis(60_000))).unwrap();
    log_in(&world, json!({ "link": lost })).await.problem(401, "unauthenticated");
}
