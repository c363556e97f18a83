//! Keys: what opens a door and what does not.

use crate::harness::{World, key};
use axum::{body::Body, http::Request};
use machine::TenantId;
use serde_json::json;

#[tokio::test]
async fn only_the_right_secret_opens() {
    let world = World::new().await;
    let token = world.token("acme", "viewer");
    let other = world.token("globex", "viewer");
    let (id, secret) = token.strip_prefix("wlk_").unwrap().split_once('_').unwrap();
    let (_, other_secret) = other.strip_prefix("wlk_").unwrap().split_once('_').unwrap();
    assert_eq!(world.ask("GET", "/api/v1/me", Some(&token), "").await.status, 200);
    let last = if secret.ends_with('1') { '2' } else { '1' };
    let flipped = format!("wlk_{id}_{}{last}", &secret[..secret.len() - 1]);
    for wrong in [
        String::new(),
        "wlk".to_owned(),
        "wlk_".to_owned(),
        format!("wlk_{id}"),
        format!("wlk_{id}_"),
        format!("wlk__{secret}"),
        format!("wlk_{id}_{other_secret}"),
        format!("wlk_{id}_{secret}x"),
        format!("{id}_{secret}"),
        format!("WLK_{id}_{secret}"),
        flipped,
        "x".repeat(10_000),
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.".to_owned(),
        "wlk_' OR 1=1 --_x".to_owned(),
    ] {
        let answer = world.ask("GET", "/api/v1/me", Some(&wrong), "").await;
        answer.problem(401, "unauthenticated");
        assert!(answer.header("www-authenticate").starts_with("Bearer"), "{wrong}");
    }
}

#[tokio::test]
async fn other_schemes_and_two_keys_are_refused() {
    let world = World::new().await;
    let token = world.token("acme", "admin");
    let basic = Request::get("/api/v1/me").header("authorization", format!("Basic {token}"));
    world.send(basic.body(Body::empty()).unwrap()).await.problem(401, "unauthenticated");
    let bearer = format!("Bearer {token}");
    let twice = Request::get("/api/v1/me").header("authorization", &bearer).header("authorization", &bearer);
    world.send(twice.body(Body::empty()).unwrap()).await.problem(401, "unauthenticated");
    let in_query = format!("/api/v1/me?access_token={token}");
    world.ask("GET", &in_query, None, "").await.problem(401, "unauthenticated");
}

#[tokio::test]
async fn me_tells_who_and_what() {
    let world = World::new().await;
    let me = world.ask("GET", "/api/v1/me", Some(&world.token("globex", "worker")), "").await.ok(200);
    assert_eq!(me["tenant"], "globex");
    assert_eq!(me["roles"], json!(["worker"]));
    let permissions = [
        "events:publish",
        "instances:read",
        "instances:signal",
        "records:read",
        "records:write",
        "stream:read",
        "tasks:act",
        "tasks:read",
        "workers:act",
        "workers:read",
    ];
    assert_eq!(me["permissions"], json!(permissions));
}

#[tokio::test]
async fn a_key_is_shown_once_works_and_is_revoked_at_once() {
    let world = World::new().await;
    let made = world.post("/api/v1/keys", json!({"name": "ci", "roles": ["developer"]})).await.ok(201);
    let secret = made["secret"].as_str().unwrap();
    let id = made["id"].as_str().unwrap();
    assert_eq!(world.ask("GET", "/api/v1/me", Some(secret), "").await.ok(200)["name"], "ci");
    for name in ["two\nlines", "\u{1b}[31mred", "turned\u{202e}round"] {
        let answer = world.post("/api/v1/keys", json!({"name": name, "roles": ["developer"]})).await;
        answer.problem(400, "invalid-value");
    }
    let list = world.get("/api/v1/keys").await;
    assert!(!list.text().contains(secret.rsplit_once('_').unwrap().1), "a list shows no secret");
    assert!(list.json()["items"].as_array().unwrap().iter().any(|key| key["id"] == id));
    let path = format!("/api/v1/keys/{id}");
    let revoke = world.request("DELETE", &path).body(Body::empty()).unwrap();
    assert_eq!(world.send(revoke).await.status, 204);
    world.ask("GET", "/api/v1/me", Some(secret), "").await.problem(401, "unauthenticated");
}

#[tokio::test]
async fn a_key_may_end_by_itself() {
    let world = World::new().await;
    let count = async || world.get("/api/v1/keys").await.json()["items"].as_array().unwrap().len();
    let before = count().await;
    let body = |expires_at: &str| json!({"name": "ci", "roles": ["viewer"], "expires_at": expires_at});
    let made = world.post("/api/v1/keys", body("2999-01-31T12:00:00Z")).await.ok(201);
    assert_eq!(made["expires_at"], "2999-01-31T12:00:00Z");
    world.post("/api/v1/keys", body("tomorrow")).await.problem(400, "invalid-value");
    world.post("/api/v1/keys", body("1999-01-31T12:00:00Z")).await.problem(400, "invalid-value");
    assert_eq!(count().await, before + 1, "no other was made");
}

#[tokio::test]
async fn a_key_hands_out_no_more_than_it_has() {
    let world = World::new().await;
    for role in ["platform", "monitor"] {
        let body = json!({"name": "x", "roles": ["viewer", role]});
        world.post("/api/v1/keys", body).await.problem(403, "forbidden");
    }
    let problem = world.post("/api/v1/keys", json!({"name": "x", "roles": ["admn"]})).await;
    assert_eq!(problem.problem(400, "invalid-value")["errors"][0]["hint"], "did you mean \"admin\"?");
    world.post("/api/v1/keys", json!({"name": "x", "roles": []})).await.problem(400, "invalid-value");
}

#[tokio::test]
async fn a_platform_key_makes_a_tenant_and_its_first_key() {
    let world = World::new().await;
    let platform = world.token("acme", "platform");
    let body = json!({"id": "initech", "title": "Initech"}).to_string();
    assert_eq!(world.ask("POST", "/api/v1/tenants", Some(&platform), &body).await.status, 201);
    world.ask("POST", "/api/v1/tenants", Some(&platform), &body).await.problem(409, "tenant-exists");
    let request = Request::post("/api/v1/keys")
        .header("authorization", format!("Bearer {platform}"))
        .header("tenant", "initech")
        .header("content-type", "application/json");
    let body = Body::from(json!({"name": "first", "roles": ["admin"]}).to_string());
    let made = world.send(request.body(body).unwrap()).await.ok(201);
    let me = world.ask("GET", "/api/v1/me", Some(made["secret"].as_str().unwrap()), "").await.ok(200);
    assert_eq!(me["tenant"], "initech");
    let list = world.ask("GET", "/api/v1/tenants?limit=2", Some(&platform), "").await.ok(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    let next = list["next"].as_str().unwrap();
    let list = world.ask("GET", &format!("/api/v1/tenants?cursor={next}"), Some(&platform), "").await.ok(200);
    assert_eq!(list["items"][0]["id"], "initech");
}

#[tokio::test]
async fn a_tenants_weight_and_title_can_be_changed() {
    let world = World::new().await;
    let platform = world.token("acme", "platform");
    let change = async |id: &str, body: &str| {
        world.ask("PATCH", &format!("/api/v1/tenants/{id}"), Some(&platform), body).await
    };
    let changed = change("acme", r#"{"weight": 5}"#).await.ok(200);
    assert_eq!((&changed["id"], &changed["weight"]), (&json!("acme"), &json!(5)));
    let changed = change("acme", r#"{"title": "Acme Ltd"}"#).await.ok(200);
    assert_eq!((&changed["title"], &changed["weight"]), (&json!("Acme Ltd"), &json!(5)));
    for wrong in [r#"{"weight": 0}"#, r#"{"weight": 1001}"#, r#"{"weight": 1.5}"#, r#"{"weight": "2"}"#] {
        change("acme", wrong).await.problem(400, "invalid-value");
    }
    change("acme", "{}").await.problem(400, "missing-key");
    change("nobody", r#"{"weight": 2}"#).await.problem(404, "not-found");
    change("No%20Such%20Id", r#"{"weight": 2}"#).await.problem(404, "not-found");
    let admin = world.token("acme", "admin");
    let refused = world.ask("PATCH", "/api/v1/tenants/acme", Some(&admin), r#"{"weight": 9}"#).await;
    refused.problem(403, "forbidden");
    let list = world.ask("GET", "/api/v1/tenants", Some(&platform), "").await.ok(200);
    assert_eq!(list["items"][0]["weight"], 5);
}

#[tokio::test]
async fn the_tenant_header_opens_nothing_for_others() {
    let world = World::new().await;
    let ask = |token: String, tenant: &str, path: &str| {
        let request = Request::get(path).header("tenant", tenant);
        let request = request.header("authorization", format!("Bearer {token}"));
        request.body(Body::empty()).unwrap()
    };
    let admin = world.token("acme", "admin");
    world.send(ask(admin.clone(), "globex", "/api/v1/keys")).await.problem(404, "not-found");
    world.send(ask(admin.clone(), "no-such", "/api/v1/keys")).await.problem(404, "not-found");
    world.send(ask(admin.clone(), "../x", "/api/v1/keys")).await.problem(404, "not-found");
    assert_eq!(world.send(ask(admin, "acme", "/api/v1/keys")).await.status, 200);
    let platform = world.token("acme", "platform");
    world.send(ask(platform.clone(), "no-such", "/api/v1/keys")).await.problem(404, "not-found");
    assert_eq!(world.send(ask(platform, "globex", "/api/v1/keys")).await.status, 200);
    // Other roles of a platform key hold at home only.
    let acme = TenantId::new("acme").unwrap();
    let both = key(&world.node.handle(), &acme, &["admin", "platform"]).await;
    assert_eq!(world.send(ask(both.clone(), "acme", "/api/v1/instances")).await.status, 200);
    world.send(ask(both, "globex", "/api/v1/instances")).await.problem(403, "forbidden");
}

#[tokio::test]
async fn metrics_need_their_permission_unless_opened() {
    let world = World::new().await;
    world.ask("GET", "/metrics", None, "").await.problem(401, "unauthenticated");
    world.ask("GET", "/metrics", Some(&world.token("acme", "admin")), "").await.problem(403, "forbidden");
    let answer = world.ask("GET", "/metrics", Some(&world.token("acme", "monitor")), "").await;
    assert_eq!(answer.status, 200);
    for line in ["# TYPE windlass_instances gauge", "windlass_tasks_open 0", "windlass_http_requests_total"] {
        assert!(answer.text().contains(line), "{line} is missing in\n{}", answer.text());
    }
    let open = World::with(server::Options { metrics_public: true, ..Default::default() }).await;
    assert_eq!(open.ask("GET", "/metrics", None, "").await.status, 200);
}

#[tokio::test]
async fn an_expired_key_is_refused() {
    use sha2::{Digest, Sha256};
    let world = World::new().await;
    let far = machine::Time(i64::MAX);
    for (id, expires_at, status) in [("old", machine::Time(1), 401), ("new", far, 200)] {
        let row = store::rows::KeyRow {
            id: id.to_owned(),
            name: id.to_owned(),
            hash: Sha256::digest(b"secret").to_vec(),
            roles: br#"["viewer","no-such-role"]"#.to_vec(),
            created_at: machine::Time(0),
            expires_at: Some(expires_at),
            revoked_at: None,
            subject: None,
        };
        world.write("acme", store::Write::CreateKey(row)).await;
        let answer = world.ask("GET", "/api/v1/me", Some(&format!("wlk_{id}_secret")), "").await;
        assert_eq!(answer.status, status, "{id}");
    }
}

#[tokio::test]
async fn a_revocation_elsewhere_is_noticed_within_the_caches_life() {
    let life = std::time::Duration::from_millis(20);
    let world = World::with(server::Options { key_cache: life, ..Default::default() }).await;
    let token = world.token("acme", "viewer");
    let id = token.split('_').nth(1).unwrap();
    assert_eq!(world.ask("GET", "/api/v1/me", Some(&token), "").await.status, 200);
    // As another node would do it: this server is not told.
    let acme = TenantId::new("acme").unwrap();
    world.node.handle().revoke_key(&acme, id).await.unwrap();
    tokio::time::timeout(life * 2, std::future::pending::<()>()).await.ok();
    world.ask("GET", "/api/v1/me", Some(&token), "").await.problem(401, "unauthenticated");
}
