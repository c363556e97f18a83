//! T10, F29: events are sent to webhooks, signed as Standard Webhooks says; what receivers answer is heeded.

use crate::{
    stub::{Answer, Asked, Stub, ok, says},
    support::*,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use machine::Data;
use ring::hmac;
use runtime::{
    api::{Refusal, Webhook},
    clock::SystemClock,
    egress::Range,
    secrets::Keyring,
};
use serde_json::json;
use std::sync::Arc;
use store::sqlite::Inline;

fn secret(byte: u8) -> String {
    format!("whsec_{}", STANDARD.encode([byte; 32]))
}

struct Near(World, Up, Stub);

impl Near {
    async fn start(answer: impl Fn(&Asked, u16) -> Answer + Send + Sync + 'static) -> Near {
        let stub = Stub::plain(answer).await;
        let world = World::over(Arc::new(Inline::new().unwrap()), Arc::new(SystemClock));
        let build = world.build().secrets(Keyring::fresh().0);
        let node =
            build.options(|options| options.egress.allow_private = Range::LOOPBACK.to_vec()).start().await;
        for (name, byte) in [("old", 1), ("new", 2)] {
            let value = Data::text(secret(byte));
            node.handle.put_secret(&node.tenant, name, &value, &[]).await.unwrap();
        }
        Near(world, node, stub)
    }

    fn webhook(&self, path: &str, secrets: &[&str]) -> Webhook {
        Webhook {
            url: format!("http://127.0.0.1:{}{path}", self.2.port),
            types: vec!["order.*".to_owned()],
            secrets: secrets.iter().map(|name| (*name).to_owned()).collect(),
            attempts_max: 3,
            disabled: None,
        }
    }

    async fn put(&self, name: &str, webhook: Webhook) -> Result<bool, Refusal> {
        self.1.handle.put_webhook(&self.1.tenant, name, &webhook).await
    }

    async fn publish(&self, kind: &str, id: &str) {
        let event =
            json!({ "specversion": "1.0", "id": id, "source": "s", "type": kind, "data": { "n": 1 } });
        self.1.handle.publish(&self.1.tenant, Data::from_json(event)).await.unwrap();
    }

    fn of(&self, path: &str) -> Vec<Asked> {
        self.2.asked().into_iter().filter(|asked| asked.path == path).collect()
    }
}

/// Whether one of the signatures is of this secret.
fn is_signed(asked: &Asked, byte: u8) -> bool {
    let (id, timestamp) = (asked.header("webhook-id").unwrap(), asked.header("webhook-timestamp").unwrap());
    let key = hmac::Key::new(hmac::HMAC_SHA256, &[byte; 32]);
    let signed = format!("{id}.{timestamp}.{}", asked.body);
    let expected = format!("v1,{}", STANDARD.encode(hmac::sign(&key, signed.as_bytes())));
    asked.header("webhook-signature").unwrap().split(' ').any(|given| given == expected)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_sent_signed_to_who_wants_them() {
    let near = Near::start(|_, _| ok(json!({}))).await;
    assert!(near.put("shop", near.webhook("/shop", &["old"])).await.unwrap());
    assert!(near.put("both", near.webhook("/both", &["new", "old"])).await.unwrap());
    near.publish("order.placed", "1").await;
    near.publish("user.left", "2").await;
    until(|| async { near.of("/shop").len() + near.of("/both").len() == 2 }).await;
    let (shop, both) = (near.of("/shop").remove(0), near.of("/both").remove(0));
    assert!(is_signed(&shop, 1) && !is_signed(&shop, 2));
    assert!(is_signed(&both, 1) && is_signed(&both, 2), "two signatures while one secret replaces the other");
    assert_eq!(shop.method, "POST");
    let id = shop.header("webhook-id").unwrap();
    assert!(id.starts_with("evt_") && !id.contains('.'));
    assert!(shop.body.contains("\"order.placed\""), "{}", shop.body);
    until(|| async { near.0.counts().await.deliveries == 0 }).await;
    assert_eq!(near.1.handle.webhooks(&near.1.tenant).await.unwrap().len(), 2);
    assert!(
        near.1.handle.declared_workers(&near.1.tenant).await.unwrap().is_empty(),
        "a webhook is no worker"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_receivers_answer_is_heeded() {
    let near = Near::start(|asked, port| match asked.path.as_str() {
        "/moved" => says("302 Found", &format!("location: http://127.0.0.1:{port}/elsewhere\r\n")),
        "/gone" => says("410 Gone", ""),
        "/busy" => says("429 Too Many Requests", "retry-after: 600\r\n"),
        _ => ok(json!({})),
    })
    .await;
    for path in ["/moved", "/gone", "/busy", "/fine"] {
        near.put(&path[1..], near.webhook(path, &["old"])).await.unwrap();
    }
    near.publish("order.placed", "1").await;
    until(|| async {
        near.of("/fine").len() == 1 && !near.of("/gone").is_empty() && !near.of("/busy").is_empty()
    })
    .await;
    // Gone is gone: a dead letter, and nothing more is sent.
    until(|| async { near.0.letters().await.iter().any(|letter| letter.detail.contains("410")) }).await;
    let disabled = async || {
        let all = near.1.handle.webhooks(&near.1.tenant).await.unwrap();
        all.into_iter().find(|(name, _, _)| name == "gone").unwrap().2.disabled
    };
    until(|| async { disabled().await.is_some() }).await;
    near.publish("order.placed", "2").await;
    until(|| async { near.of("/fine").len() == 2 }).await;
    assert_eq!(near.of("/gone").len(), 1);
    // Who asks to wait is given time; a redirect is a failure like any other.
    let waiting = near.0.store.deliveries(&near.0.tenant, &Default::default(), None, 10).await.unwrap();
    let busy = waiting.iter().find(|row| row.worker == "webhook:busy" && row.attempt == 1);
    if let Some(busy) = busy {
        assert!(busy.visible_at.since(near.0.now()).0 > 500_000_000, "{busy:?}");
    }
    assert!(near.of("/elsewhere").is_empty(), "redirects are not followed");
    // Made again, it is sent to again.
    near.put("gone", near.webhook("/fine", &["old"])).await.unwrap();
    assert_eq!(disabled().await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries_keep_their_id_and_end_as_a_dead_letter_that_can_be_replayed() {
    let near = Near::start(|_, _| says("500 Internal Server Error", "")).await;
    near.put("shop", Webhook { attempts_max: 1, ..near.webhook("/shop", &["old"]) }).await.unwrap();
    near.publish("order.placed", "1").await;
    let letter = near.0.letter().await;
    assert_eq!((letter.source.as_str(), letter.reason.as_str()), ("delivery", "retries-exhausted"));
    near.1.handle.replay_dead_letter(&near.1.tenant, letter.id, "ann").await.unwrap();
    until(|| async { near.of("/shop").len() == 2 }).await;
    let asked = near.of("/shop");
    assert_eq!(asked[0].header("webhook-id"), asked[1].header("webhook-id"));
    assert!(asked.iter().all(|asked| is_signed(asked, 1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_a_webhook_is_refused() {
    let near = Near::start(|_, _| ok(json!({}))).await;
    let fine = || near.webhook("/", &["old"]);
    near.1.handle.put_secret(&near.1.tenant, "short", &Data::text("whsec_c2hvcnQ="), &[]).await.unwrap();
    for (name, webhook, said) in [
        ("a b", fine(), "name"),
        ("a", Webhook { types: vec![], ..fine() }, "types"),
        ("a", Webhook { secrets: vec![], ..fine() }, "secrets"),
        ("a", Webhook { secrets: vec!["none".to_owned()], ..fine() }, "not set"),
        ("a", Webhook { secrets: vec!["short".to_owned()], ..fine() }, "24 to 64 bytes"),
        ("a", Webhook { url: "ftp://a.b".to_owned(), ..fine() }, "neither http"),
        ("a", Webhook { url: "https://u:p@a.b".to_owned(), ..fine() }, "user name"),
    ] {
        let refusal = near.put(name, webhook).await.unwrap_err().to_string();
        assert!(refusal.contains(said), "{refusal}");
    }
    let strict = World::new().node().await;
    let refusal = strict.handle.put_webhook(&strict.tenant, "a", &fine()).await.unwrap_err().to_string();
    assert!(refusal.contains("https"), "{refusal}");
}
