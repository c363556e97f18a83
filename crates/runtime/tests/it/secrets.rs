//! Secrets go out and nowhere else: not into rows, not into answers, not to another tenant.

use crate::{stub::*, support::*};
use machine::TenantId;
use runtime::{Node, Parts, egress::Range, secrets::Keyring};
use serde_json::json;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use worker::{Class, Context, Declaration, Outcome, from_fn};

#[tokio::test]
async fn a_secret_reaches_every_part_of_a_request_and_an_echo_is_blotted_out() {
    let stub = Stub::plain(|asked, _| {
        ok(json!({ "path": asked.path, "head": asked.header("x-key"), "body": asked.body }))
    })
    .await;
    let near = Near::loopback().await;
    near.secret("one", json!("s3cret/ü"), &[]).await;
    let with = format!(
        "{{ method: post, endpoint: '${{ \"http://127.0.0.1:{}/p/\\($secrets.one)\" }}', query: {{ q: '${{ $secrets.one }}' }}, headers: {{ X-Key: '${{ \"k \\($secrets.one)\" }}' }}, body: {{ b: '${{ $secrets.one }}' }} }}",
        stub.port
    );
    let answer = near.http("echo", &with).await.unwrap();
    let asked = stub.last();
    assert_eq!(asked.path, "/p/s3cret%2F%C3%BC?q=s3cret%2F%C3%BC");
    assert_eq!((asked.header("x-key"), asked.body.as_str()), (Some("k s3cret/ü"), "{\"b\":\"s3cret/ü\"}"));
    assert_eq!(
        answer,
        json!({ "path": "/p/[secret one]?q=[secret one]", "head": "k [secret one]", "body": "{\"b\":\"[secret one]\"}" })
    );
}

#[tokio::test]
async fn data_that_looks_like_a_mark_stays_data() {
    let stub = Stub::plain(|asked, _| ok(json!(asked.body.len()))).await;
    let near = Near::loopback().await;
    near.secret("one", json!("s3cret-value"), &[]).await;
    let with = format!(
        "{{ method: post, endpoint: 'http://127.0.0.1:{}/', body: {{ forged: secret-0123456789abcdef0123456789abcdef, real: '${{ $secrets.one }}' }} }}",
        stub.port
    );
    near.http("forged", &with).await.unwrap();
    assert_eq!(
        stub.last().body,
        r#"{"forged":"secret-0123456789abcdef0123456789abcdef","real":"s3cret-value"}"#
    );
}

#[tokio::test]
async fn secrets_are_of_one_tenant() {
    let near = Near::loopback().await;
    let other = TenantId::new("other").unwrap();
    let value = machine::Data::text("s3cret");
    near.node.handle.put_secret(&other, "one", &value, &[]).await.unwrap();
    let fault = near
        .http("mine", "{ method: get, endpoint: 'http://127.0.0.1:1/', headers: { X: '${ $secrets.one }' } }")
        .await
        .unwrap_err();
    assert!(fault.detail.unwrap().contains("`one` is not set"));
    assert!(near.world.store.secrets(&near.world.tenant).await.unwrap().is_empty());
    near.node.handle.delete_secret(&other, "one").await.unwrap();
    assert!(near.node.handle.delete_secret(&other, "one").await.is_err());
}

#[tokio::test]
async fn a_worker_gets_the_value_and_what_it_says_is_blotted_out() {
    let world = World::real();
    let discreet = Arc::new(AtomicBool::new(false));
    let seen = discreet.clone();
    let teller = from_fn(move |_: &Context, input| {
        seen.store(runtime::egress::is_discreet(), Ordering::SeqCst);
        let text = input.get("key").unwrap().to_text();
        match input.get("how").unwrap().to_text().as_str() {
            "done" => Outcome::Done(machine::Data::text(format!("<{text}>"))),
            "panic" => panic!("{text}"),
            _ => Outcome::fail(Class::Poison, format!("I was given {text}")),
        }
    });
    let node =
        world.build().secrets(Keyring::fresh().0).worker(Declaration::new("teller", teller)).start().await;
    node.handle.put_secret(&world.tenant, "one", &machine::Data::text("c4nary-value"), &[]).await.unwrap();
    let body = "use: { secrets: [ one ] }\ndo: [ { c: { call: 'teller:1.0.0@default', with: { how: '${ .how }', key: '${ $secrets.one }' } } } ]";
    node.deploy("tell", body).await;
    let id = node.start("tell", json!({ "how": "done" })).await;
    assert_eq!(node.output(id).await, json!("<[secret one]>"));
    assert!(discreet.load(Ordering::SeqCst), "a panic here would not be shown");
    let failing = node.start("tell", json!({ "how": "fail" })).await;
    assert_eq!(node.fault(failing).await.detail.unwrap(), "I was given [secret one]");
    let panicking = node.start("tell", json!({ "how": "panic" })).await;
    assert!(node.fault(panicking).await.detail.unwrap().contains("panicked"));
    until(|| async { world.letters().await.len() == 2 }).await;
    for letter in world.letters().await {
        assert!(!String::from_utf8_lossy(&letter.envelope).contains("c4nary-value"));
    }
    for id in [id, failing, panicking] {
        assert!(!world.snapshot(id).await.to_string().contains("c4nary-value"));
    }
}

#[tokio::test]
async fn a_new_key_seals_old_secrets_anew_at_the_start() {
    let lent = World::lend(trial::lent::Clock::Database);
    let store = lent.store.clone();
    let tenant = TenantId::new("acme").unwrap();
    let (old, old_text) = Keyring::fresh();
    let new_text = Keyring::fresh().1;
    let start = async |secrets: Keyring| {
        let mut parts = Parts { secrets, sole: true, ..Parts::new(store.clone()) };
        parts.options.egress.allow_private = Range::LOOPBACK.to_vec();
        Node::start(parts).await.unwrap()
    };
    let node = start(old).await;
    node.handle().create_tenant(&tenant, "Acme").await.unwrap();
    node.handle().put_secret(&tenant, "one", &machine::Data::text("value"), &[]).await.unwrap();
    node.stop().await;
    let read = async || store::Store::secret(store.as_ref(), &tenant, "one").await.unwrap().unwrap();
    let before = read().await;
    start(format!("fresh:{new_text}\n{old_text}").parse().unwrap()).await.stop().await;
    let after = read().await;
    assert_eq!((after.key_id.as_str(), after.version), ("fresh", before.version + 1));
    // The old key is not needed any more.
    let node = start(format!("fresh:{new_text}").parse().unwrap()).await;
    assert_eq!(read().await.version, after.version);
    node.stop().await;
}

#[tokio::test]
async fn a_node_without_a_key_takes_no_secret() {
    let world = World::new();
    let node = world.node().await;
    let refused =
        node.handle.put_secret(&world.tenant, "one", &machine::Data::text("v"), &[]).await.unwrap_err();
    assert!(refused.to_string().contains("no key to seal secrets with"));
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_secret_cannot_be_read_waits_for_the_store_and_no_attempt_is_counted() {
    let world = World::new();
    let (worker, seen) = recording(&world, "w", |_, input| Outcome::Done(input));
    let once = worker::RetryPolicy { attempts_max: 1, ..worker::RetryPolicy::default() };
    let node = world.build().secrets(Keyring::fresh().0).worker(worker.retry(once)).start().await;
    node.handle.put_secret(&world.tenant, "one", &machine::Data::text("c4nary"), &[]).await.unwrap();
    let uses = "use: { secrets: [ one ] }";
    node.deploy(
        "w",
        &format!(
            "{uses}\ndo: [ {{ c: {{ call: 'w:1.0.0@default', with: {{ v: '${{ $secrets.one }}' }} }} }} ]"
        ),
    )
    .await;
    let with = "{ method: get, endpoint: 'http://127.0.0.1:1/', headers: { X: '${ $secrets.one }' } }";
    node.deploy("http", &format!("{uses}\ndo: [ {{ c: {{ call: http, with: {with} }} }} ]")).await;
    node.tap.break_down("secret");
    let (id, http) = (node.start("w", json!({})).await, node.start("http", json!({})).await);
    pass(secs(60)).await;
    assert_eq!(world.counts().await.calls, 2);
    assert!(seen.lock().is_empty());
    assert_eq!((world.status(id).await, world.status(http).await), ("running".into(), "running".into()));
    node.tap.repair();
    assert_eq!(node.output(id).await, json!("[secret one]"));
    assert_eq!(seen.lock().iter().map(|(context, _)| context.attempt).collect::<Vec<_>>(), [1]);
    // It got as far as the request, which is not allowed here.
    assert!(!node.fault(http).await.detail.unwrap().contains("secret"));
}
