//! A node over an in-memory store or a database, two tenants, one key per role, and short ways to ask.

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Request, StatusCode},
};
use machine::TenantId;
use runtime::{Handle, Node, Parts};
use serde_json::{Value, json};
use server::{Options, access::Role};
use std::{collections::HashMap, sync::Arc};
use store::sqlite::Sqlite;
use tower::ServiceExt;
use trial::{
    gossip::{Circle, Fate},
    lent::{self, Lent},
};
use uuid::Uuid;

pub(crate) struct World {
    pub(crate) node: Node,
    pub(crate) router: Router,
    /// (tenant, role) → token.
    tokens: HashMap<(String, &'static str), String>,
    /// Goes when this value does.
    _lent: Lent,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Checks that this is a well-formed problem with that code, and gives its body.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        let text = self.text();
        assert_eq!(self.status.as_u16(), status, "{text}");
        assert_eq!(self.header("content-type"), "application/problem+json", "{text}");
        let body = self.json();
        assert_eq!(body["code"], code, "{text}");
        assert_eq!(body["status"], status, "{text}");
        assert_eq!(body["type"], format!("/docs/errors.md#{code}"));
        assert_eq!(body["request_id"], self.header("x-request-id"));
        assert!(body["detail"].is_string() && body["title"].is_string() && body["retryable"].is_boolean());
        body
    }

    #[track_caller]
    pub(crate) fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        self.json()
    }
}

impl World {
    pub(crate) async fn new() -> World {
        World::with(Options::default()).await
    }

    pub(crate) async fn with(options: Options) -> World {
        let lent = lent::store(lent::Clock::Database, || Arc::new(Sqlite::in_memory().unwrap()));
        let store = lent.store.clone();
        let (secrets, hints) = (runtime::secrets::Keyring::fresh().0, Circle::new(Fate::chosen()).join());
        let node = Node::start(Parts { secrets, hints, ..Parts::new(store) }).await.unwrap();
        let handle = node.handle();
        let mut tokens = HashMap::new();
        for tenant in ["acme", "globex"] {
            let id = TenantId::new(tenant).unwrap();
            handle.create_tenant(&id, tenant).await.unwrap();
            for role in Role::ALL {
                tokens.insert((tenant.to_owned(), role.word()), key(&handle, &id, &[role.word()]).await);
            }
        }
        let router = server::router(handle, options).unwrap();
        World { node, router, tokens, _lent: lent }
    }

    pub(crate) fn token(&self, tenant: &str, role: &str) -> String {
        let found = self.tokens.iter().find(|((of, word), _)| of == tenant && *word == role);
        found.unwrap().1.clone()
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        send(&self.router, request).await
    }

    /// A request of tenant `acme` with its admin key.
    pub(crate) fn request(&self, method: &str, path: &str) -> axum::http::request::Builder {
        let key = format!("Bearer {}", self.token("acme", "admin"));
        Request::builder().method(method).uri(path).header("authorization", key)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(self.request("GET", path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.post_with(path, &[], body).await
    }

    pub(crate) async fn post_with(&self, path: &str, headers: &[(&str, &str)], body: Value) -> Answer {
        let mut request = self.request("POST", path).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }

    /// A POST that says nothing but its address.
    pub(crate) async fn act(&self, path: &str) -> Answer {
        self.send(self.request("POST", path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn raw(&self, path: &str, media_type: &str, body: impl Into<Body>) -> Answer {
        let request = self.request("POST", path).header("content-type", media_type);
        self.send(request.body(body.into()).unwrap()).await
    }

    /// Any request with any key.
    pub(crate) async fn ask(&self, method: &str, path: &str, token: Option<&str>, body: &str) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        self.send(request.body(Body::from(body.to_owned())).unwrap()).await
    }

    /// Deploys a definition named `name` with these steps.
    pub(crate) async fn deploy(&self, name: &str, steps: &str) -> Answer {
        let answer =
            self.raw("/api/v1/definitions", "application/yaml", document(name, "1.0.0", steps)).await;
        assert!(answer.status.is_success(), "{}", answer.text());
        answer
    }

    pub(crate) async fn start(&self, name: &str, input: Value) -> String {
        let body = json!({ "definition": { "namespace": "test", "name": name }, "input": input });
        self.post("/api/v1/instances", body).await.ok(201)["id"].as_str().unwrap().to_owned()
    }

    /// The result, waiting for it.
    pub(crate) async fn result(&self, id: &str) -> Value {
        let request =
            self.request("GET", &format!("/api/v1/instances/{id}/result")).header("prefer", "wait=30");
        self.send(request.body(Body::empty()).unwrap()).await.ok(200)
    }

    /// Puts rows into the store as the node itself would.
    pub(crate) async fn write(&self, tenant: &str, write: store::Write) {
        let commit = store::Commit { tenant: TenantId::new(tenant).unwrap(), writes: vec![write] };
        let answer = self.node.handle().store().commit(self.node.id(), vec![commit]).await;
        assert_eq!(answer, Ok(vec![store::Outcome::Committed]));
    }

    /// A dead letter of `acme`.
    pub(crate) async fn dead_letter(&self, number: u128, envelope: &[u8]) -> String {
        self.grouped_letter(number, envelope, None).await
    }

    /// The same, of an error group.
    pub(crate) async fn grouped_letter(&self, number: u128, envelope: &[u8], group: Option<Uuid>) -> String {
        let row = store::rows::DeadLetterRow {
            id: Uuid::from_u128(number),
            source: "signal".to_owned(),
            reason: "deserialization".to_owned(),
            detail: "not an envelope".to_owned(),
            instance: None,
            envelope: envelope.to_vec(),
            origin: b"{}".to_vec(),
            attempts: 3,
            last_node: self.node.id(),
            failed_at: machine::Time(0),
            group,
        };
        self.write("acme", store::Write::DeadLetter(Box::new(row))).await;
        machine::id::show(machine::id::Kind::DeadLetter, Uuid::from_u128(number))
    }

    /// The first task of the instance, waiting until there is one.
    pub(crate) async fn task_of(&self, instance: &str) -> Value {
        let mut changes = self.node.handle().changes();
        loop {
            let page = self.get(&format!("/api/v1/tasks?instance={instance}")).await.ok(200);
            if let Some(task) = page["items"].get(0) {
                return task.clone();
            }
            changes.recv().await.unwrap();
        }
    }
}

pub(crate) async fn send(router: &Router, request: Request<Body>) -> Answer {
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, 64 << 20).await.unwrap().to_vec();
    Answer { status: parts.status, headers: parts.headers, body }
}

/// Makes a key and gives its token.
pub(crate) async fn key(handle: &Handle, tenant: &TenantId, roles: &[&str]) -> String {
    let words: Vec<String> = roles.iter().map(|role| (*role).to_owned()).collect();
    let made = handle.create_key(tenant, &roles.join("-"), &words, None).await.unwrap();
    format!("wlk_{}_{}", made.id, made.secret)
}

pub(crate) fn document(name: &str, version: &str, steps: &str) -> String {
    format!(
        "document:\n  dsl: 1.0.3\n  namespace: test\n  name: {name}\n  version: {version}\ndo:\n{steps}\n"
    )
}

/// Greets at once.
pub(crate) const HELLO: &str = r#"  - greet:
      set:
        greeting: ${ "hello " + .name }"#;
/// Waits for an hour.
pub(crate) const SLEEP: &str = "  - nap:\n      wait: { hours: 1 }";
/// Waits for a person.
pub(crate) const APPROVE: &str = "  - approve:
      call: human-task:1.0.0@default
      with:
        title: Approve it
        candidateGroups: [managers]
        data: ${ . }";
/// Waits for a signal.
pub(crate) const LISTEN: &str = "  - hear:
      listen:
        to:
          one:
            with:
              type: paid";
