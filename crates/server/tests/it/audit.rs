//! T12: whatever a request changes leaves one entry that says who did it; the list and the export are the tenant's own.

use crate::harness::{APPROVE, Answer, LISTEN, SLEEP, World, document};
use axum::{body::Body, http::Request};
use machine::audit::verify;
use runtime::audit::is_signed;
use serde_json::{Value, json};
use server::routes::ROUTES;
use std::collections::{BTreeMap, BTreeSet};

/// Acts that need more than this world has: a bus, an endpoint that fails, an operator who lets clocks be moved.
const ELSEWHERE: [&str; 3] = ["bus.resend", "breaker.probe", "clock.advance"];

const TOKEN: &str = "  - token:
      call: signal-token:1.0.0@default
      export: { as: '{ token: .token }' }
  - hear:
      listen: { to: { one: { with: { type: paid } } } }";

/// One world, and the acts that were seen in it.
struct Sweep {
    world: World,
    seen: BTreeSet<String>,
}

impl Sweep {
    /// The acts of a tenant so far, with how often each was done.
    async fn acts(&self, tenant: &str) -> BTreeMap<String, usize> {
        let mut found = BTreeMap::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/api/v1/audit?limit=200{cursor}");
            let page = self.send("platform", tenant, ("GET", &path), "", "").await.ok(200);
            for item in page["items"].as_array().unwrap() {
                *found.entry(item["act"].as_str().unwrap().to_owned()).or_default() += 1;
            }
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return found,
            }
        }
    }

    /// A request with a key of acme.
    async fn send(
        &self,
        role: &str,
        tenant: &str,
        (method, path): (&str, &str),
        media_type: &str,
        body: &str,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if role != "nobody" {
            let key = format!("Bearer {}", self.world.token("acme", role));
            request = request.header("authorization", key).header("tenant", tenant);
        }
        if !media_type.is_empty() {
            request = request.header("content-type", media_type);
        }
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let request = request.header("x-request-id", "req-of-the-test").header("traceparent", trace);
        self.world.send(request.body(Body::from(body.to_owned())).unwrap()).await
    }

    /// Does something and checks that exactly one entry comes of it in the tenant.
    async fn one(&mut self, act: &str, role: &str, tenant: &str, ask: (&str, &str, &str, String)) -> Value {
        let before = self.acts(tenant).await;
        let (method, path, media_type, body) = ask;
        // Keys of other tenants come with the header, platform's own acts without.
        let home = if role == "platform" { "acme" } else { tenant };
        let answer = self.send(role, home, (method, path), media_type, &body).await;
        assert!(answer.status.is_success(), "{method} {path}: {}", answer.text());
        let mut expected = before;
        *expected.entry(act.to_owned()).or_default() += 1;
        assert_eq!(self.acts(tenant).await, expected, "{method} {path}");
        self.seen.insert(act.to_owned());
        serde_json::from_slice(&answer.body).unwrap_or_default()
    }

    /// The same as acme's admin.
    async fn own(&mut self, act: &str, method: &str, path: &str, body: Value) -> Value {
        let (media_type, body) = match body {
            Value::Null => ("", String::new()),
            body => ("application/json", body.to_string()),
        };
        self.one(act, "admin", "acme", (method, path, media_type, body)).await
    }

    async fn deploy(&mut self, name: &str, steps: &str) {
        let ask = ("POST", "/api/v1/definitions", "application/yaml", document(name, "1.0.0", steps));
        self.one("definition.deploy", "admin", "acme", ask).await;
    }

    async fn start(&mut self, name: &str) -> String {
        let body = json!({ "definition": { "namespace": "test", "name": name } });
        text(&self.own("instance.start", "POST", "/api/v1/instances", body).await["id"])
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

async fn of_instances(sweep: &mut Sweep) {
    sweep.deploy("sleep", SLEEP).await;
    let id = sweep.start("sleep").await;
    for verb in ["pause", "resume", "cancel"] {
        sweep
            .own(&format!("instance.{verb}"), "POST", &format!("/api/v1/instances/{id}/{verb}"), Value::Null)
            .await;
    }
    let items = vec![json!({ "definition": { "namespace": "test", "name": "sleep" } }); 60];
    sweep.own("instance.start-many", "POST", "/api/v1/instances/bulk", json!({ "items": items })).await;
    sweep.deploy("listen", LISTEN).await;
    let id = sweep.start("listen").await;
    sweep
        .own("instance.signal", "POST", &format!("/api/v1/instances/{id}/signals/other"), json!({ "x": 1 }))
        .await;
    let next = document("listen", "1.1.0", LISTEN);
    let ask = ("POST", "/api/v1/definitions", "application/yaml", next);
    sweep.one("definition.deploy", "admin", "acme", ask).await;
    let to = json!({ "version": "1.1.0" });
    sweep.own("instance.migrate", "POST", &format!("/api/v1/instances/{id}/migrate"), to).await;
    let body = json!({ "definition": { "namespace": "test", "name": "listen", "version": "1.0.0" } });
    sweep.own("instance.start", "POST", "/api/v1/instances", body).await;
    let all = json!({ "namespace": "test", "name": "listen", "version": "1.1.0", "from": "1.0.0" });
    sweep.own("instance.migrate-many", "POST", "/api/v1/instances/migrate", all).await;
    sweep.deploy("bad", "  - r: { raise: { error: { type: 'https://e.com/e', status: 500 } } }").await;
    let id = sweep.start("bad").await;
    let result = sweep.world.result(&id).await;
    assert_eq!(result["status"], "faulted");
    sweep.own("instance.retry", "POST", &format!("/api/v1/instances/{id}/retry"), Value::Null).await;
}

async fn of_people(sweep: &mut Sweep) {
    sweep.deploy("approve", APPROVE).await;
    let id = sweep.start("approve").await;
    let task = text(&sweep.world.task_of(&id).await["id"]);
    for (verb, body) in [
        ("claim", Value::Null),
        ("release", Value::Null),
        ("assign", json!({ "to": "admin" })),
        ("complete", json!({ "result": { "ok": true } })),
    ] {
        sweep.own(&format!("task.{verb}"), "POST", &format!("/api/v1/tasks/{task}/{verb}"), body).await;
    }
}

async fn of_events(sweep: &mut Sweep) {
    let schema = json!({ "schema": {} });
    sweep.own("event-type.put", "PUT", "/api/v1/event-types/w", schema).await;
    sweep.own("event-type.delete", "DELETE", "/api/v1/event-types/w", Value::Null).await;
    sweep.own("worker.put", "PUT", "/api/v1/workers/mail", json!({ "types": ["w"] })).await;
    for number in 1..=2 {
        let event =
            json!({ "specversion": "1.0", "id": number.to_string(), "source": "s", "type": "w", "data": {} });
        sweep.own("event.publish", "POST", "/api/v1/events", event).await;
        let lent = sweep.world.post("/api/v1/workers/mail/poll", json!({})).await.ok(200);
        let path = format!("/api/v1/deliveries/{}", text(&lent["items"][0]["id"]));
        let attempt = &lent["items"][0]["attempt"];
        match number {
            1 => {
                let body = json!({ "attempt": attempt });
                sweep.own("delivery.complete", "POST", &format!("{path}/complete"), body).await;
            }
            _ => {
                let body = json!({ "attempt": attempt, "class": "validation", "message": "no" });
                sweep.own("delivery.fail", "POST", &format!("{path}/fail"), body).await;
            }
        }
    }
    let letters = sweep.world.get("/api/v1/dead-letters").await.ok(200);
    let letter = text(&letters["items"][0]["id"]);
    sweep
        .own("dead-letter.replay", "POST", &format!("/api/v1/dead-letters/{letter}/replay"), Value::Null)
        .await;
    // One without an instance.
    let letter = sweep.world.dead_letter(9, b"x").await;
    sweep
        .own("dead-letter.discard", "POST", &format!("/api/v1/dead-letters/{letter}/discard"), Value::Null)
        .await;
    sweep.own("worker.delete", "DELETE", "/api/v1/workers/mail", Value::Null).await;
    let value = json!({ "value": "whsec_YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=" });
    sweep.own("secret.put", "PUT", "/api/v1/secrets/hook", value).await;
    let hook = json!({ "url": "https://example.com/hook", "types": ["w"], "secrets": ["hook"] });
    sweep.own("webhook.put", "PUT", "/api/v1/webhooks/shop", hook).await;
    sweep.own("webhook.delete", "DELETE", "/api/v1/webhooks/shop", Value::Null).await;
    let ask = ("POST", "/api/v1/datasets", "application/x-ndjson", "1\n2\n".to_owned());
    sweep.one("dataset.create", "admin", "acme", ask).await;
}

async fn of_records(sweep: &mut Sweep) {
    sweep.own("record-kind.put", "PUT", "/api/v1/record-kinds/order", json!({})).await;
    let order = json!({ "id": "o1", "kind": "order", "body": { "total": 7 } });
    sweep.own("record.create", "POST", "/api/v1/records", order).await;
    let body = json!({ "body": { "total": 8 } });
    sweep.own("record.put", "PUT", "/api/v1/records/o1", body).await;
    sweep.own("record.delete", "DELETE", "/api/v1/records/o1", Value::Null).await;
    let page = sweep.world.get("/api/v1/audit?q=act:record.*").await.ok(200);
    let [gone, changed, made] = page["items"].as_array().unwrap().as_slice() else { panic!("{page}") };
    assert_eq!(made["object"], json!({ "kind": "record", "id": "o1" }), "the commit tells its id");
    assert!(made["before"].is_null() && made["after"].is_string() && gone["after"].is_null());
    assert_eq!((&changed["before"], &gone["before"]), (&made["after"], &changed["after"]));
    sweep.own("record-kind.delete", "DELETE", "/api/v1/record-kinds/order", Value::Null).await;
    sweep.own("group.put", "PUT", "/api/v1/groups/sales", json!({ "members": ["ann"] })).await;
    sweep.own("group.delete", "DELETE", "/api/v1/groups/sales", Value::Null).await;
}

async fn of_the_rest(sweep: &mut Sweep) {
    let batch = json!({ "act": "pause", "q": "definition:test/sleep status:waiting", "rate": 1 });
    let batch = text(&sweep.own("batch.create", "POST", "/api/v1/batches", batch).await["id"]);
    let path = format!("/api/v1/batches/{batch}");
    sweep.own("batch.change", "PATCH", &path, json!({ "rate": 2 })).await;
    for verb in ["pause", "resume", "cancel"] {
        sweep.own(&format!("batch.{verb}"), "POST", &format!("{path}/{verb}"), Value::Null).await;
    }
    let daily = "document: { dsl: 1.0.3, namespace: test, name: daily, version: 1.0.0 }\nschedule: { every: P1D }\ndo: [ { a: { set: { x: 1 } } } ]";
    let ask = ("POST", "/api/v1/definitions", "application/yaml", daily.to_owned());
    sweep.one("definition.deploy", "admin", "acme", ask).await;
    let schedules = sweep.world.get("/api/v1/schedules").await.ok(200);
    let path = format!("/api/v1/schedules/{}", text(&schedules["items"][0]["id"]));
    for verb in ["pause", "resume", "trigger"] {
        sweep.own(&format!("schedule.{verb}"), "POST", &format!("{path}/{verb}"), Value::Null).await;
    }
    sweep.own("secret.put", "PUT", "/api/v1/secrets/s", json!({ "value": "v" })).await;
    sweep.own("secret.delete", "DELETE", "/api/v1/secrets/s", Value::Null).await;
    let key = json!({ "name": "ci", "roles": ["viewer"] });
    let key = text(&sweep.own("key.create", "POST", "/api/v1/keys", key).await["id"]);
    sweep.own("key.revoke", "DELETE", &format!("/api/v1/keys/{key}"), Value::Null).await;
    // Whoever keeps tenants: the entry is the tenant's that is changed.
    let id = "newco";
    let body = json!({ "id": id, "title": "New" }).to_string();
    let made = sweep.send("platform", "acme", ("POST", "/api/v1/tenants"), "application/json", &body).await;
    made.ok(201);
    assert_eq!(sweep.acts(id).await, BTreeMap::from([("tenant.create".to_owned(), 1)]));
    sweep.seen.insert("tenant.create".to_owned());
    let path = format!("/api/v1/tenants/{id}");
    let weight = json!({ "weight": 3 }).to_string();
    sweep.one("tenant.change", "platform", id, ("PATCH", &path, "application/json", weight)).await;
    sweep.one("tenant.delete", "platform", id, ("DELETE", &path, "", String::new())).await;
    let restore = format!("{path}/restore");
    sweep.one("tenant.restore", "platform", id, ("POST", &restore, "", String::new())).await;
}

#[tokio::test]
async fn every_act_of_the_route_table_leaves_exactly_one_entry() {
    let mut sweep = Sweep { world: World::new().await, seen: BTreeSet::new() };
    of_instances(&mut sweep).await;
    of_people(&mut sweep).await;
    of_events(&mut sweep).await;
    of_records(&mut sweep).await;
    of_the_rest(&mut sweep).await;
    let known: BTreeSet<String> = ROUTES.iter().filter_map(|route| route.act).map(str::to_owned).collect();
    let left: BTreeSet<&str> = known.difference(&sweep.seen).map(String::as_str).collect();
    assert_eq!(left, BTreeSet::from(ELSEWHERE));
}

#[tokio::test]
async fn an_entry_says_who_did_what_to_what_in_which_request() {
    let sweep = Sweep { world: World::new().await, seen: BTreeSet::new() };
    let ask = ("PUT", "/api/v1/event-types/order.paid");
    let media = "application/json";
    sweep.send("admin", "acme", ask, media, r#"{"schema":{"title":"a"}}"#).await.ok(201);
    sweep.send("admin", "acme", ask, media, r#"{"schema":{"title":"b"}}"#).await.ok(200);
    let refused = sweep.send("viewer", "acme", ask, media, r#"{"schema":{}}"#).await;
    refused.problem(403, "forbidden");
    let page = sweep.world.get("/api/v1/audit?q=act:event-type.*%20who:admin").await.ok(200);
    let [second, first] = page["items"].as_array().unwrap().as_slice() else { panic!("{page}") };
    assert_eq!(first["object"], json!({ "kind": "event-type", "id": "order.paid" }));
    assert_eq!(first["request"], "req-of-the-test");
    assert_eq!(first["trace"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!((&first["who"]["kind"], &first["who"]["subject"]), (&json!("key"), &json!("admin")));
    assert!(first["before"].is_null() && first["after"].is_string());
    assert_eq!(second["before"], first["after"]);
    let other = sweep.world.get("/api/v1/audit?q=who:nobody").await.ok(200);
    assert_eq!(other["items"], json!([]));
    let key = sweep.world.token("globex", "admin");
    let foreign = sweep.world.ask("GET", "/api/v1/audit", Some(&key), "").await.ok(200);
    assert_eq!(foreign["items"], json!([]), "what is acme's is acme's");
}

#[tokio::test]
async fn an_export_is_verified_without_a_server() {
    let sweep = Sweep { world: World::new().await, seen: BTreeSet::new() };
    for number in 0..5 {
        let path = format!("/api/v1/event-types/t{number}");
        sweep.send("admin", "acme", ("PUT", &path), "application/json", r#"{"schema":{}}"#).await.ok(201);
    }
    let first = sweep.world.get("/api/v1/audit/export?limit=2").await;
    assert_eq!((first.header("content-type"), first.header("audit-next")), ("application/x-ndjson", "3"));
    let rest = sweep.world.get("/api/v1/audit/export?from=3").await;
    let (first, rest) = (verify(&first.body, &is_signed).unwrap(), verify(&rest.body, &is_signed).unwrap());
    assert_eq!((first.from, first.to, rest.from, rest.to), (1, 2, 3, 5));
    assert_eq!((first.last, &first.keys), (rest.prev, &rest.keys), "one goes on from the other");
    let mut forged = sweep.world.get("/api/v1/audit/export").await.body;
    let at = forged.windows(2).position(|pair| pair == b"t3").unwrap();
    forged[at + 1] = b'9';
    assert_eq!(verify(&forged, &is_signed).unwrap_err().seq, Some(4));
    sweep.world.get("/api/v1/audit/export?limit=0").await.problem(400, "invalid-parameter");
    let viewer = sweep.world.token("acme", "viewer");
    sweep.world.ask("GET", "/api/v1/audit", Some(&viewer), "").await.problem(403, "forbidden");
}

#[tokio::test]
async fn a_token_acts_without_being_written_down() {
    let mut sweep = Sweep { world: World::new().await, seen: BTreeSet::new() };
    sweep.deploy("wait", TOKEN).await;
    let id = sweep.start("wait").await;
    let view = sweep.world.get(&format!("/api/v1/instances/{id}")).await.ok(200);
    let token = text(&view["context"]["token"]);
    let path = format!("/api/v1/signals/{token}?name=paid");
    sweep.one("instance.signal", "nobody", "acme", ("POST", &path, "application/json", "{}".into())).await;
    let page = sweep.world.get("/api/v1/audit?q=act:instance.signal").await.ok(200);
    assert_eq!(
        (&page["items"][0]["who"]["kind"], &page["items"][0]["object"]["id"]),
        (&json!("token"), &json!(id))
    );
    assert!(!page.to_string().contains(&token));
}
