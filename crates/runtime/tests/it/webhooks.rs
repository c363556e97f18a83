//! T10, F29: events are sent to webhooks, signed as Standard Webhooks says; what receivers answer is heeded.

use crate::{
    stub::{Answer, Asked, Stub, ok, says},
    support::*,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use machine::{Data, time::Span};
use ring::hmac;
use runtime::{
    api::{Refusal, Webhook},
    egress::Range,
    secrets::Keyring,
};
use serde_json::json;
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

const BODY: [u8; 4096] = [b'x'; 4096];
const HEADER: [u8; 8] = *b"x: yyy\r\n";

fn secret(byte: u8) -> String {
    format!("whsec_{}", STANDARD.encode([byte; 32]))
}

struct Near(World, Up, Stub);

impl Near {
    async fn start(answer: impl Fn(&Asked, u16) -> Answer + Send + Sync + 'static) -> Near {
        let stub = Stub::plain(answer).await;
        let world = World::real();
        let build = world.build().secrets(Keyring::fresh().0);
        let options = |options: &mut runtime::Options| {
            options.egress.allow_private = Range::LOOPBACK.to_vec();
            options.http_timeout = Span::from_secs(1);
            options.lease = Span::from_secs(3);
        };
        let node = build.options(options).start().await;
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
        "/closed" => says("503 Service Unavailable", "retry-after: Fri, 06 Nov 2099 08:49:37 GMT\r\n"),
        _ => ok(json!({})),
    })
    .await;
    for path in ["/moved", "/gone", "/busy", "/closed", "/fine"] {
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
    let waits = async |name: &str| {
        let waiting = near.0.store.deliveries(&near.0.tenant, &Default::default(), None, 10).await.unwrap();
        let row = waiting.into_iter().find(|row| row.worker == name && row.attempt == 1)?;
        Some(row.visible_at.since(near.0.now()).0 / 1_000_000)
    };
    for (name, seconds) in [("webhook:busy", 500..=600), ("webhook:closed", 86_000..=86_400)] {
        until(|| async { waits(name).await.is_some() }).await;
        let found = waits(name).await.unwrap();
        assert!(seconds.contains(&found), "{name} waits {found} s");
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

/// Reads a request and answers with `first`, then with `more` again and again, for as long as the other side listens.
async fn endless(first: &'static str, more: &'static [u8], pause: Duration) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut asked = [0; 4096];
                let _ = socket.read(&mut asked).await;
                let mut sent = socket.write_all(first.as_bytes()).await;
                while sent.is_ok() {
                    pass(pause).await;
                    sent = socket.write_all(more).await;
                }
            });
        }
    });
    port
}

/// F29: a receiver that dribbles, or answers without an end, costs its own attempt and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receivers_that_never_end_are_left() {
    let near = Near::start(|_, _| ok(json!({}))).await;
    let slow = endless("HTTP/1.1 200 OK\r\nx: ", b"y", Duration::from_millis(20)).await;
    let headers = endless("HTTP/1.1 200 OK\r\n", &HEADER, Duration::ZERO).await;
    let body = endless("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n", &BODY, Duration::ZERO).await;
    for (name, port) in [("slow", slow), ("headers", headers), ("body", body)] {
        let webhook = near.webhook("/", &["old"]);
        let url = format!("http://127.0.0.1:{port}/");
        near.put(name, Webhook { url, attempts_max: 1, ..webhook }).await.unwrap();
    }
    near.put("fine", near.webhook("/fine", &["old"])).await.unwrap();
    near.publish("order.placed", "1").await;
    until(|| async { near.0.counts().await.deliveries == 0 }).await;
    assert_eq!(near.of("/fine").len(), 1);
    let mut letters: Vec<String> = near.0.letters().await.into_iter().map(|letter| letter.detail).collect();
    letters.sort_by_key(|detail| !detail.contains("no answer within 1 s"));
    // Nobody reads the body of an answer: the status says all there is to know.
    assert_eq!(letters.len(), 2, "{letters:?}");
    assert!(letters[0].contains("no answer within 1 s"), "{letters:?}");
}

/// P12: a receiver that does not answer leaves room to the tenant's others, and is left alone when it keeps failing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_receiver_holds_up_no_other_and_gets_a_pause() {
    let near = Near::start(|_, _| ok(json!({}))).await;
    let dead = endless("", b"", Duration::from_secs(60)).await;
    let webhook = near.webhook("/", &["old"]);
    let url = format!("http://127.0.0.1:{dead}/");
    near.put("dead", Webhook { url, attempts_max: 100, ..webhook }).await.unwrap();
    near.put("fine", near.webhook("/fine", &["old"])).await.unwrap();
    for at in 0..40 {
        near.publish("order.placed", &at.to_string()).await;
    }
    until(|| async { near.of("/fine").len() == 40 }).await;
    let target = format!("127.0.0.1:{dead}");
    until(|| async {
        let open = near.1.handle.breakers(&near.1.tenant);
        open.iter().any(|one| one.target == target && one.state.word == "open")
    })
    .await;
    // What is parked has used up no attempt, and says why it waits.
    let why = async || {
        let rows = near.0.store.deliveries(&near.0.tenant, &Default::default(), None, 100).await.unwrap();
        let row = rows.into_iter().find(|row| row.attempt == 0 && row.last_error.is_some())?;
        near.1.handle.explain_delivery(&near.1.tenant, row.id).await.ok()
    };
    until(|| async { why().await.is_some_and(|why| why.reasons[0].kind == "breaker") }).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_sent_on_a_lease_that_may_be_over() {
    let near = Near::start(|_, _| ok(json!({}))).await;
    near.put("shop", near.webhook("/shop", &["old"])).await.unwrap();
    near.1.tap.break_down("renew");
    until(|| async { !near.1.handle.is_ready() }).await;
    near.publish("order.placed", "1").await;
    // Long enough for it to have come.
    pass(Duration::from_millis(500)).await;
    assert_eq!((near.of("/shop").len(), near.0.counts().await.deliveries), (0, 1));
    near.1.tap.repair();
    until(|| async { near.0.counts().await.deliveries == 0 }).await;
    assert_eq!(near.of("/shop").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_whose_secret_cannot_be_read_waits_for_the_store_and_no_attempt_is_counted() {
    let near = Near::start(|_, _| ok(json!({}))).await;
    near.put("shop", near.webhook("/shop", &["old"])).await.unwrap();
    near.1.tap.break_down("secret");
    near.1.tap.take_counts();
    near.publish("order.placed", "1").await;
    let asked = std::sync::atomic::AtomicU64::new(0);
    until(|| async {
        let more = near.1.tap.take_counts().get("secret").copied().unwrap_or(0);
        asked.fetch_add(more, std::sync::atomic::Ordering::Relaxed) + more > 3
    })
    .await;
    let (filter, tenant) = (store::views::DeliveryFilter::default(), &near.1.tenant);
    let rows = near.0.store.deliveries(tenant, &filter, None, 10).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.attempt).collect::<Vec<_>>(), [0]);
    near.1.tap.repair();
    until(|| async { near.0.counts().await.deliveries == 0 }).await;
    assert_eq!((near.of("/shop").len(), near.0.letters().await.len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_of_a_newer_build_is_served_and_keeps_what_is_not_known_when_it_is_disabled() {
    let near = Near::start(|_, _| says("410 Gone", "")).await;
    near.put("shop", near.webhook("/shop", &["old"])).await.unwrap();
    let (_, row, _) = near.1.handle.webhooks(&near.1.tenant).await.unwrap().remove(0);
    let mut json: serde_json::Value = serde_json::from_slice(&row.declaration).unwrap();
    json["dreams"] = json!(1);
    let expected_version = row.row_version;
    let declaration = serde_json::to_vec(&json).unwrap();
    let row = store::rows::WorkerRow { declaration, row_version: expected_version + 1, ..row };
    near.0.write(vec![store::Write::PutWorker { row, expected_version }]).await;
    near.publish("order.placed", "1").await;
    until(|| async { near.1.handle.webhooks(&near.1.tenant).await.unwrap()[0].2.disabled.is_some() }).await;
    let (_, row, _) = near.1.handle.webhooks(&near.1.tenant).await.unwrap().remove(0);
    let stored: serde_json::Value = serde_json::from_slice(&row.declaration).unwrap();
    assert_eq!(stored["dreams"], json!(1));
}
