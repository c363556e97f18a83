//! What needs no server: refusals as problems, roles, the table, small readers.

use crate::{
    access::{Access, Permission, Role},
    app::detached,
    code, etag,
    problem::{Problem, excerpt},
    query::nearest_hint,
    router,
    routes::{Entry, ROUTES, Route, find},
};
use axum::http::{HeaderMap, HeaderValue};
use runtime::api::Refusal;
use std::time::Duration;
use uuid::Uuid;

#[test]
fn each_refusal_has_its_code() {
    let conflict = |code| Refusal::Conflict { code, detail: "d".into(), existing: None };
    let invalid = |code| Refusal::Invalid { code, detail: "d".into(), problems: vec![] };
    let cases = [
        (Refusal::NotFound("instance".into()), 404, "not-found"),
        (invalid("definition-invalid"), 422, "definition-invalid"),
        (invalid("signal-too-large"), 413, "signal-too-large"),
        (invalid("never-heard-of"), 400, "invalid-request"),
        (conflict("version-exists"), 409, "version-exists"),
        (conflict("never-heard-of"), 409, "conflict"),
        // A code of another status cannot slip in through a conflict.
        (conflict("not-found"), 409, "conflict"),
        (Refusal::KeyReused, 422, "idempotency-key-reused"),
        (Refusal::Stale { current: 7 }, 412, "stale"),
        (Refusal::Busy, 429, "busy"),
        (Refusal::Full, 507, "store-full"),
        (Refusal::Unavailable("x".into()), 503, "unavailable"),
    ];
    for (refusal, status, word) in cases {
        let problem = Problem::from(refusal);
        assert_eq!((problem.status().as_u16(), problem.code.word), (status, word));
    }
}

#[test]
fn refusals_carry_what_the_client_does_next() {
    let header = |refusal, name: &str| {
        let headers = Problem::from(refusal).headers;
        headers.into_iter().find(|(found, _)| found == name).map(|(_, value)| value)
    };
    assert_eq!(header(Refusal::Busy, "retry-after").unwrap(), "1");
    assert_eq!(header(Refusal::Unavailable("x".into()), "retry-after").unwrap(), "2");
    assert_eq!(header(Refusal::Stale { current: 7 }, "etag").unwrap(), "\"7\"");
    let taken = Refusal::Conflict {
        code: "business-key-taken",
        detail: String::new(),
        existing: Some(Uuid::from_u128(1)),
    };
    assert_eq!(header(taken, "location").unwrap(), "/api/v1/instances/ins_00000000000000000000000000000001");
}

#[test]
fn nothing_internal_shows() {
    let secret = "near \"SELECT\": /var/lib/windlass.db";
    let refusals = [
        Problem::from(Refusal::Unavailable(secret.into())),
        Problem::from(Refusal::Conflict { code: "conflict", detail: secret.into(), existing: None }),
        Problem::from(Refusal::Invalid { code: "refused-by-store", detail: secret.into(), problems: vec![] }),
        Problem::from(store::Error::Corrupt(secret.into())),
        Problem::from(store::Error::Unavailable(secret.into())),
        Problem::internal(secret),
    ];
    for problem in refusals {
        let body = serde_json::to_string(&problem.body(None, None)).unwrap();
        assert!(!body.contains("SELECT") && !body.contains("/var/"), "{body}");
    }
}

#[tokio::test]
async fn work_that_panics_is_an_internal_problem() {
    let problem = detached::<(), _>(Duration::MAX, async { panic!("boom") }).await.unwrap_err();
    assert_eq!(problem.code, code::INTERNAL);
}

#[tokio::test]
async fn work_goes_on_when_nobody_waits_for_it() {
    let (done, finished) = tokio::sync::oneshot::channel();
    let (go, started) = tokio::sync::oneshot::channel::<()>();
    let asked = tokio::spawn(detached(Duration::MAX, async move {
        started.await.ok();
        done.send(()).ok();
        Ok(())
    }));
    tokio::task::yield_now().await;
    asked.abort();
    assert!(asked.await.is_err());
    go.send(()).unwrap();
    finished.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn work_that_takes_too_long_is_answered_and_goes_on() {
    let (done, finished) = tokio::sync::oneshot::channel();
    let (go, started) = tokio::sync::oneshot::channel::<()>();
    let asked = detached(Duration::from_secs(3), async move {
        started.await.ok();
        done.send(()).ok();
        Ok(())
    });
    let problem = asked.await.unwrap_err();
    assert_eq!((problem.code, problem.code.status), (code::OUTCOME_UNKNOWN, 504));
    assert!(problem.detail.contains("within 3 s"), "{}", problem.detail);
    go.send(()).unwrap();
    finished.await.unwrap();
}

#[test]
fn the_table_has_each_line_once_and_knows_its_methods() {
    for (at, route) in ROUTES.iter().enumerate() {
        let twin = ROUTES[..at].iter().any(|other| (other.method, other.path) == (route.method, route.path));
        assert!(!twin, "{} {} is there twice", route.method, route.path);
    }
    assert!(matches!(find("HEAD", "/api/v1/me"), Entry::Found(Route { access: Access::Anyone, .. })));
    assert!(matches!(find("PUT", "/api/v1/keys"), Entry::OtherMethods(all) if all == "GET, HEAD, POST"));
    assert!(matches!(find("GET", "/api/v1/unlisted"), Entry::Missing));
}

#[test]
fn the_server_refuses_to_build_when_table_and_handlers_disagree() {
    let mut whole = router::description();
    assert!(router::check(&mut whole).is_ok());
    let mut more = whole.clone();
    let stray = more.paths.paths["/api/v1/keys"].clone();
    more.paths.paths.insert("/api/v1/stray".to_owned(), stray);
    let error = router::check(&mut more).unwrap_err().to_string();
    assert_eq!(error, "no permission is declared for: GET /api/v1/stray, POST /api/v1/stray");
    whole.paths.paths.remove("/api/v1/me");
    let error = router::check(&mut whole).unwrap_err().to_string();
    assert_eq!(error, "no handler answers: GET /api/v1/me");
}

#[test]
fn only_health_docs_pages_and_tokens_are_public() {
    let public: Vec<&str> =
        ROUTES.iter().filter(|route| route.access == Access::Public).map(|route| route.path).collect();
    let wanted = [
        // Its token is a key of its own.
        "/api/v1/signals/{token}",
        // What opens a session is in the body; ending one needs nothing but the browser that has it.
        "/api/v1/session",
        "/api/v1/session",
        "/api/v1/openapi.json",
        "/healthz",
        "/readyz",
        "/",
        "/t/{tenant}",
        "/t/{tenant}/{*place}",
        "/console/{file}",
        "/docs/errors.md",
        "/api/docs",
        "/api/docs/",
        "/api/docs/{*file}",
    ];
    assert_eq!(public, wanted);
}

#[test]
fn wide_roles_touch_no_tenant_data() {
    for role in Role::ALL.iter().filter(|role| role.is_wide()) {
        for permission in [Permission::InstancesRead, Permission::DefinitionsWrite, Permission::TasksAct] {
            assert!(!role.allows(permission), "{}", role.word());
        }
    }
    assert!(!Role::Admin.allows(Permission::TenantsWrite));
}

#[test]
fn near_words_are_suggested_and_far_ones_listed() {
    assert_eq!(nearest_hint("limti", &["limit", "cursor"]).unwrap(), "did you mean \"limit\"?");
    assert_eq!(nearest_hint("zzzzzz", &["limit"]).unwrap(), "known here: limit");
    assert_eq!(nearest_hint("x", &[]), None);
    assert_eq!(excerpt(&"é".repeat(100)).chars().count(), 81);
}

#[test]
fn if_match_names_one_version_or_none() {
    let read = |value: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert("if-match", HeaderValue::from_static(value));
        etag::if_match(&headers).map_err(|problem| problem.code)
    };
    assert_eq!(read("\"3\""), Ok(Some(3)));
    assert_eq!(read("W/\"3\""), Ok(Some(3)));
    assert_eq!(read("*"), Ok(None));
    for odd in ["", ",", "3", "\"x\"", "\"1\", \"2\"", "\""] {
        assert_eq!(read(odd), Err(code::INVALID_HEADER), "{odd}");
    }
}
