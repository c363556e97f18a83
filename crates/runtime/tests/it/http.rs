//! `call: http` against a real socket on this machine: answers, errors, limits and headers.

use crate::support::*;
use machine::{Fault, Time, time::Span};
use parking_lot::Mutex;
use runtime::clock::{Clock, SystemClock};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

/// Every request the stub got, head and body.
type Requests = Arc<Mutex<Vec<String>>>;

/// Answers each request with what `answer` makes of its path; `None` never answers.
async fn stub(answer: fn(&str, u16) -> Option<String>) -> (u16, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests = Requests::default();
    let seen = requests.clone();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let seen = seen.clone();
            tokio::spawn(async move {
                let mut bytes = Vec::new();
                let mut chunk = [0; 4096];
                while !whole(&bytes) {
                    match socket.read(&mut chunk).await {
                        Ok(0) | Err(_) => return,
                        Ok(count) => bytes.extend_from_slice(&chunk[..count]),
                    }
                }
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
                seen.lock().push(text);
                match answer(&path, port) {
                    Some(answer) => drop(socket.write_all(answer.as_bytes()).await),
                    None => std::future::pending().await,
                }
            });
        }
    });
    (port, requests)
}

fn whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

fn ok(kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn status(line: &str, extra: &str) -> String {
    format!("HTTP/1.1 {line}\r\n{extra}content-length: 0\r\nconnection: close\r\n\r\n")
}

fn routes(path: &str, port: u16) -> Option<String> {
    Some(match path {
        "/json" => ok("application/json", r#"{"a":[1,2.5,"x"]}"#),
        "/text" => ok("text/plain", "hello"),
        "/bad-json" => ok("application/json", "{oops"),
        "/duplicate" => ok("application/json", r#"{"a":1,"a":2}"#),
        "/huge" => ok("text/plain", &"x".repeat(3000)),
        "/moved" => status("302 Found", &format!("location: http://127.0.0.1:{port}/text\r\n")),
        "/missing" => status("404 Not Found", ""),
        "/broken" => status("503 Service Unavailable", "retry-after: 1\r\n"),
        "/nul" => "HTTP/1.1 500 Oops\r\ncontent-length: 8\r\nconnection: close\r\n\r\nboom\0bad".to_owned(),
        "/empty" => ok("application/json", ""),
        _ => return None,
    })
}

struct Near(World, Up, u16, Requests);

/// A node in real time and a stub beside it.
async fn near() -> Near {
    let (port, requests) = stub(routes).await;
    let world = World::real();
    let build = world.build().options(|options| {
        options.egress.allow_private = runtime::egress::Range::LOOPBACK.to_vec();
        options.answer_bytes_max = 2000;
        options.http_timeout = Span::from_millis(300);
    });
    let node = build.start().await;
    Near(world, node, port, requests)
}

impl Near {
    /// One call with these members in `with`, to its end.
    async fn call(&self, name: &str, with: &str) -> Result<Value, Fault> {
        let with = with.replace("HOST", &format!("http://127.0.0.1:{}", self.2));
        self.1.deploy(name, &format!("do: [ {{ c: {{ call: http, with: {with} }} }} ]")).await;
        let id = self.1.start(name, json!({ "who": "ann lee" })).await;
        match self.1.end(id).await {
            runtime::api::InstanceResult::Completed(data) => Ok(data.to_json()),
            runtime::api::InstanceResult::Faulted(fault) => Err(fault),
            other => panic!("{other:?}"),
        }
    }

    fn last_request(&self) -> String {
        self.3.lock().last().cloned().unwrap_or_default()
    }
}

#[tokio::test]
async fn json_and_text_answers_become_data() {
    let near = near().await;
    let get = |path: &str| format!("{{ method: get, endpoint: 'HOST{path}' }}");
    assert_eq!(near.call("json", &get("/json")).await.unwrap(), json!({ "a": [1, 2.5, "x"] }));
    assert_eq!(near.call("text", &get("/text")).await.unwrap(), json!("hello"));
    assert_eq!(near.call("empty", &get("/empty")).await.unwrap(), Value::Null);
    let whole = "{ method: get, endpoint: 'HOST/json', output: response }";
    let response = near.call("response", whole).await.unwrap();
    assert_eq!((&response["statusCode"], &response["content"]["a"][0]), (&json!(200), &json!(1)));
    assert_eq!(response["headers"]["content-type"], "application/json");
}

#[tokio::test]
async fn an_answer_that_is_not_what_it_says_is_a_communication_error() {
    let near = near().await;
    for path in ["bad-json", "duplicate"] {
        let fault =
            near.call(path, &format!("{{ method: get, endpoint: 'HOST/{path}' }}")).await.unwrap_err();
        assert!(fault.error_type.ends_with("/communication"), "{fault:?}");
    }
}

#[tokio::test]
async fn an_error_status_is_a_communication_error_with_that_status_and_can_be_caught() {
    let near = near().await;
    for (name, status) in [("missing", 404), ("broken", 503)] {
        let fault =
            near.call(name, &format!("{{ method: get, endpoint: 'HOST/{name}' }}")).await.unwrap_err();
        assert!(fault.error_type.ends_with("/communication"));
        assert_eq!((fault.status, fault.instance.as_deref()), (status, Some("/do/0/c")));
    }
    near.1
        .deploy(
            "caught",
            &format!(
                "do: [ {{ t: {{ try: [ {{ c: {{ call: http, with: {{ method: get, endpoint: 'http://127.0.0.1:{}/missing' }} }} }} ],
  catch: {{ errors: {{ with: {{ status: 404 }} }}, do: [ {{ none: {{ set: {{ found: false }} }} }} ] }} }} }} ]",
                near.2
            ),
        )
        .await;
    let id = near.1.start("caught", json!({})).await;
    assert_eq!(near.1.output(id).await, json!({ "found": false }));
    assert!(near.0.letters().await.is_empty());
}

#[tokio::test]
async fn a_nul_in_the_text_of_an_error_is_replaced() {
    let near = near().await;
    let fault = near.call("nul", "{ method: get, endpoint: 'HOST/nul' }").await.unwrap_err();
    assert!(fault.detail.as_deref().unwrap().ends_with(": boom\u{fffd}bad"), "{fault:?}");
}

#[tokio::test]
async fn redirects_are_errors_unless_they_are_wanted() {
    let near = near().await;
    let fault = near.call("off", "{ method: get, endpoint: 'HOST/moved' }").await.unwrap_err();
    assert_eq!(fault.status, 302);
    let followed = near.call("on", "{ method: get, endpoint: 'HOST/moved', redirect: true }").await.unwrap();
    assert_eq!(followed, json!("hello"));
}

#[tokio::test]
async fn the_request_carries_body_headers_and_one_stable_key() {
    let near = near().await;
    let with = "{ method: post, endpoint: 'HOST/json', headers: { X-Who: '${ .who }', Idempotency-Key: forged }, body: { hi: '${ .who }' } }";
    near.call("post", with).await.unwrap();
    let request = near.last_request();
    assert!(request.starts_with("POST /json HTTP/1.1\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\n{\"hi\":\"ann lee\"}"), "{request}");
    let head = request.to_lowercase();
    assert!(head.contains("\r\nx-who: ann lee\r\n"), "{request}");
    assert_eq!(head.matches("content-type:").count(), 1);
    assert_eq!(head.matches("idempotency-key:").count(), 1, "{request}");
    assert!(!head.contains("forged"));
    let given = "{ method: post, endpoint: 'HOST/json', headers: { Content-Type: application/vnd.x+json }, body: { a: 1 } }";
    near.call("given", given).await.unwrap();
    let head = near.last_request().to_lowercase();
    assert_eq!(head.matches("content-type:").count(), 1, "what the definition says wins: {head}");
    assert!(head.contains("content-type: application/vnd.x+json"));
}

#[tokio::test]
async fn the_key_is_the_same_when_the_definition_tries_again() {
    let near = near().await;
    near.1
        .deploy(
            "again",
            &format!(
                "do: [ {{ t: {{ try: [ {{ c: {{ call: http, with: {{ method: get, endpoint: 'http://127.0.0.1:{}/broken' }} }} }} ],
  catch: {{ retry: {{ delay: {{ milliseconds: 5 }}, limit: {{ attempt: {{ count: 2 }} }} }} }} }} }} ]",
                near.2
            ),
        )
        .await;
    let id = near.1.start("again", json!({})).await;
    near.1.end(id).await;
    let requests = near.3.lock().clone();
    let keys: Vec<_> = requests
        .iter()
        .map(|request| {
            request.lines().find(|line| line.to_lowercase().starts_with("idempotency-key")).unwrap()
        })
        .collect();
    assert!(keys.len() >= 2 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[tokio::test]
async fn bodies_above_the_cap_refused_connections_and_silence_are_errors_of_their_own() {
    let near = near().await;
    let fault = near.call("huge", "{ method: get, endpoint: 'HOST/huge' }").await.unwrap_err();
    assert!(fault.detail.unwrap().contains("larger than 2000 bytes"));
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let refused = format!("{{ method: get, endpoint: 'http://127.0.0.1:{port}/' }}");
    let fault = near.call("refused", &refused).await.unwrap_err();
    assert!(fault.error_type.ends_with("/communication"), "{fault:?}");
    assert_eq!(fault.status, 500);
    let fault = near.call("silent", "{ method: get, endpoint: 'HOST/silent' }").await.unwrap_err();
    assert!(fault.error_type.ends_with("/timeout"), "{fault:?}");
    assert_eq!(fault.status, 408);
    assert!(SystemClock.now() > Time(0));
}
