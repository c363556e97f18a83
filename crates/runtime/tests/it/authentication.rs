//! Who calls: every scheme, against servers that check.

use crate::stub::*;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

fn with(port: u16, policy: &str) -> String {
    format!("{{ method: get, endpoint: {{ uri: 'http://127.0.0.1:{port}/', authentication: {policy} }} }}")
}

/// Answers with the `Authorization` it got, turned round so that it is not blotted out.
async fn mirror() -> Stub {
    Stub::plain(|asked, _| {
        let value = asked.header("authorization").unwrap_or_default();
        ok(json!(value.chars().rev().collect::<String>()))
    })
    .await
}

fn turned(answer: Value) -> String {
    answer.as_str().unwrap().chars().rev().collect()
}

#[tokio::test]
async fn basic_and_bearer_from_the_policy_from_data_and_from_secrets() {
    let (stub, near) = (mirror().await, Near::loopback().await);
    near.secret("one", json!("s3cret-token"), &[]).await;
    near.secret("two", json!({ "username": "ann", "password": "pä:ss" }), &[]).await;
    let cases = [
        ("{ basic: { username: ann, password: '${ .who }' } }", "Basic YW5uOmFubiBsZWU="),
        ("{ basic: { use: two } }", "Basic YW5uOnDDpDpzcw=="),
        ("{ basic: { username: ann, password: '${ $secrets.two.password }' } }", "Basic YW5uOnDDpDpzcw=="),
        ("{ bearer: { token: plain } }", "Bearer plain"),
        ("{ bearer: { use: one } }", "Bearer s3cret-token"),
        ("{ bearer: { token: '${ $secrets.one }' } }", "Bearer s3cret-token"),
        ("{ bearer: { token: '${ \"x-\\($secrets.one)\" }' } }", "Bearer x-s3cret-token"),
    ];
    for (at, (policy, wanted)) in cases.iter().enumerate() {
        let answer = near.http(&format!("c{at}"), &with(stub.port, policy)).await.unwrap();
        assert_eq!(turned(answer), *wanted, "{policy}");
    }
}

#[tokio::test]
async fn a_secret_that_is_missing_or_bound_elsewhere_is_a_configuration_error() {
    let (stub, near) = (mirror().await, Near::loopback().await);
    near.secret("two", json!({ "token": "t0ken" }), &["api.example.com"]).await;
    for (name, policy, said) in [
        ("unset", "{ bearer: { use: one } }", "the secret `one` is not set"),
        ("elsewhere", "{ bearer: { use: two } }", "bound to other hosts"),
        ("marked", "{ bearer: { token: '${ $secrets.two.token }' } }", "bound to other hosts"),
        ("field", "{ bearer: { token: '${ $secrets.two.nope }' } }", "has no field `nope`"),
    ] {
        let fault = near.http(name, &with(stub.port, policy)).await.unwrap_err();
        assert!(fault.error_type.ends_with("/configuration"), "{fault:?}");
        assert!(fault.detail.as_ref().unwrap().contains(said), "{fault:?}");
    }
    assert!(stub.asked().is_empty());
}

#[tokio::test]
async fn digest_answers_the_challenge() {
    let stub = Stub::plain(|asked, _| match asked.header("authorization") {
        None => says(
            "401 Unauthorized",
            "www-authenticate: Digest realm=\"r\", nonce=\"n\", qop=\"auth\", algorithm=SHA-256\r\n",
        ),
        Some(value) => {
            ok(json!(value.starts_with("Digest username=\"ann\", realm=\"r\", nonce=\"n\", uri=\"/\"")))
        }
    })
    .await;
    let near = Near::loopback().await;
    let answer =
        near.http("digest", &with(stub.port, "{ digest: { username: ann, password: p } }")).await.unwrap();
    assert_eq!((answer, stub.asked().len()), (json!(true), 2));
    let keys: Vec<_> =
        stub.asked().iter().map(|asked| asked.header("idempotency-key").unwrap().to_owned()).collect();
    assert_eq!(keys[0], keys[1]);
    let none = Stub::plain(|_, _| says("401 Unauthorized", "www-authenticate: Basic realm=x\r\n")).await;
    let fault =
        near.http("none", &with(none.port, "{ digest: { username: ann, password: p } }")).await.unwrap_err();
    assert!(fault.error_type.ends_with("/authentication") && fault.status == 401, "{fault:?}");
}

/// A server that gives out numbered tokens and takes only the newest.
async fn guarded(life: i64) -> (Stub, Arc<AtomicU32>, Arc<Mutex<Option<&'static str>>>) {
    let (given, refusing) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(None)));
    let (count, refuse) = (given.clone(), refusing.clone());
    let stub = Stub::plain(move |asked, port| match asked.path.as_str() {
        "/realm/oauth2/token" | "/token" => match *refuse.lock() {
            Some(status) => (status, "content-type: application/json\r\n".to_owned(), json!({ "error": "invalid_client", "error_description": asked.body }).to_string()),
            None => {
                let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                ok(json!({ "access_token": format!("token-{number}"), "token_type": "bearer", "expires_in": life }))
            }
        },
        "/realm/.well-known/openid-configuration" => {
            ok(json!({ "issuer": format!("http://127.0.0.1:{port}/realm"), "token_endpoint": format!("http://127.0.0.1:{port}/token") }))
        }
        _ => match asked.header("authorization") == Some(&format!("Bearer token-{}", count.load(Ordering::SeqCst))) {
            true => ok(json!("welcome")),
            false => says("401 Unauthorized", ""),
        },
    })
    .await;
    (stub, given, refusing)
}

fn oauth(port: u16, scheme: &str, more: &str) -> String {
    with(port, &format!("{{ {scheme}: {{ authority: 'http://127.0.0.1:{port}/realm', {more} }} }}"))
}

#[tokio::test]
async fn a_token_is_asked_for_once_and_again_when_it_is_no_longer_taken() {
    let (stub, given, _) = guarded(3600).await;
    let near = Near::loopback().await;
    near.secret("one", json!("cl1ent-secret"), &[]).await;
    let policy = oauth(
        stub.port,
        "oauth2",
        "grant: client_credentials, scopes: [ read, write ], audiences: [ api ], client: { id: me, secret: '${ $secrets.one }' }",
    );
    assert_eq!(near.http("first", &policy).await.unwrap(), json!("welcome"));
    let asked = stub.asked();
    assert_eq!(
        asked[0].body,
        "grant_type=client_credentials&scope=read+write&audience=api&client_id=me&client_secret=cl1ent-secret"
    );
    assert_eq!(near.http("second", &policy).await.unwrap(), json!("welcome"));
    assert_eq!(given.load(Ordering::SeqCst), 1, "the second call used the token of the first");
    // Somebody else asks: what the node holds is stale now, and replaced once.
    given.fetch_add(1, Ordering::SeqCst);
    assert_eq!(near.http("third", &policy).await.unwrap(), json!("welcome"));
    assert_eq!(given.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn every_way_for_a_client_to_say_who_it_is() {
    let (stub, _, _) = guarded(0).await;
    let near = Near::loopback().await;
    let token_request = |name: &'static str, scheme: &'static str, more: &'static str| {
        let (near, stub) = (&near, &stub);
        async move {
            let answer = near.http(name, &oauth(stub.port, scheme, more)).await;
            assert_eq!(answer.unwrap(), json!("welcome"), "{name}");
            stub.asked().into_iter().rfind(|asked| asked.method == "POST").unwrap()
        }
    };
    let basic = token_request(
        "basic",
        "oauth2",
        "client: { id: 'm e', secret: 's:x', authentication: client_secret_basic }",
    )
    .await;
    assert_eq!(basic.header("authorization"), Some("Basic bSUyMGU6cyUzQXg="));
    assert_eq!(basic.body, "grant_type=client_credentials");
    let jwt =
        token_request("jwt", "oauth2", "client: { id: me, secret: s, authentication: client_secret_jwt }")
            .await;
    assert!(jwt.body.contains("client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_assertion=eyJ"), "{}", jwt.body);
    let given = token_request(
        "given",
        "oauth2",
        "client: { id: me, assertion: a.b.c, authentication: private_key_jwt }",
    )
    .await;
    assert!(given.body.ends_with("client_assertion=a.b.c"));
    let password = token_request(
        "password",
        "oauth2",
        "grant: password, username: ann, password: p, client: { id: me, authentication: none }",
    )
    .await;
    assert_eq!(password.body, "grant_type=password&username=ann&password=p&client_id=me");
    let exchange = token_request("exchange", "oauth2", "grant: 'urn:ietf:params:oauth:grant-type:token-exchange', subject: { token: t, type: u }, actor: { token: v, type: w }").await;
    assert!(
        exchange.body.ends_with("&subject_token=t&subject_token_type=u&actor_token=v&actor_token_type=w")
    );
    let refresh = token_request(
        "refresh",
        "oauth2",
        "grant: refresh_token, subject: { token: t, type: refresh_token }",
    )
    .await;
    assert_eq!(refresh.body, "grant_type=refresh_token&refresh_token=t");
    let json = token_request(
        "json",
        "oauth2",
        "request: { encoding: application/json }, client: { id: me, secret: s }",
    )
    .await;
    assert_eq!(json.body, r#"{"grant_type":"client_credentials","client_id":"me","client_secret":"s"}"#);
    let oidc =
        token_request("oidc", "oidc", "grant: client_credentials, client: { id: me, secret: s }").await;
    assert_eq!(
        (oidc.path.as_str(), oidc.body.as_str()),
        ("/token", "grant_type=client_credentials&scope=openid&client_id=me&client_secret=s")
    );
}

#[tokio::test]
async fn a_refused_client_is_an_authentication_error_that_tells_no_secret() {
    let (stub, _, refusing) = guarded(60).await;
    let near = Near::loopback().await;
    near.secret("one", json!("cl1ent-secret"), &[]).await;
    near.secret("two", json!({ "authority": format!("http://127.0.0.1:{}/realm", stub.port), "client": { "id": "me", "secret": "cl1ent-secret" } }), &[]).await;
    // A server that is broken or has too much to do has refused nobody.
    let rows = [
        ("400 Bad Request", "/authentication", 401),
        ("401 Unauthorized", "/authentication", 401),
        ("429 Too Many", "/communication", 429),
        ("503 Oops", "/communication", 503),
    ];
    for (at, (answer, kind, status)) in rows.into_iter().enumerate() {
        *refusing.lock() = Some(answer);
        let policy = oauth(stub.port, "oauth2", "client: { id: me, secret: '${ $secrets.one }' }");
        let fault = near.http(&format!("r{at}"), &policy).await.unwrap_err();
        assert!(fault.error_type.ends_with(kind) && fault.status == status, "{fault:?}");
        let detail = fault.detail.unwrap();
        assert!(detail.contains("invalid_client") && !detail.contains("cl1ent-secret"), "{detail}");
    }
    *refusing.lock() = None;
    let from_secret = with(stub.port, "{ oauth2: { use: two } }");
    assert_eq!(near.http("from-secret", &from_secret).await.unwrap(), json!("welcome"));
    let issuers = oauth(stub.port, "oidc", "issuers: [ somebody-else ], client: { id: me, secret: s }");
    let fault = near.http("issuers", &issuers).await.unwrap_err();
    assert!(fault.detail.unwrap().contains("not one that the policy lists"));
    // Reached under another name than it gives itself.
    let other = with(
        stub.port,
        &format!(
            "{{ oidc: {{ authority: 'http://localhost:{}/realm', client: {{ id: me, secret: s }} }} }}",
            stub.port
        ),
    );
    let fault = near.http("other", &other).await.unwrap_err();
    assert!(fault.detail.unwrap().contains("speaks for the issuer"));
}
