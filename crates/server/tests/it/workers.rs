//! Workers somewhere else through the API: declared, asked, answered; late answers are refused.

use crate::harness::World;
use serde_json::{Value, json};

fn event(kind: &str, id: &str) -> Value {
    json!({ "specversion": "1.0", "id": id, "source": "test", "type": kind, "data": { "n": 1 } })
}

struct Caller<'w> {
    world: &'w World,
    token: String,
}

impl<'w> Caller<'w> {
    fn new(world: &'w World, tenant: &str) -> Caller<'w> {
        Caller { world, token: world.token(tenant, "admin") }
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> crate::harness::Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.world.ask(method, &format!("/api/v1{path}"), Some(&self.token), &body).await
    }

    async fn publish(&self, events: Value) {
        self.ask("POST", "/events", &events).await.ok(202);
    }

    async fn poll(&self, worker: &str) -> Vec<Value> {
        let answer = self.ask("POST", &format!("/workers/{worker}/poll"), &json!({ "max": 10 })).await;
        answer.ok(200)["items"].as_array().unwrap().clone()
    }
}

#[tokio::test]
async fn a_worker_asks_and_answers_with_two_requests() {
    let world = World::new().await;
    let acme = Caller::new(&world, "acme");
    let declared = acme.ask("PUT", "/workers/mail", &json!({ "types": ["order.*"], "batch_max": 2 })).await;
    assert_eq!(declared.ok(201)["lease_seconds"], 60);
    let changed = acme.ask("PUT", "/workers/mail", &json!({ "types": ["order.*"], "batch_max": 3 })).await;
    assert_eq!((&changed.ok(200)["version"], &changed.ok(200)["batch_max"]), (&json!(2), &json!(3)));
    assert!(acme.poll("mail").await.is_empty());
    acme.publish(json!([event("order.paid", "1"), event("order.paid", "2"), event("user.left", "3")])).await;
    let lent = acme.poll("mail").await;
    assert_eq!(lent.len(), 1);
    let (delivery, id) = (&lent[0], lent[0]["id"].as_str().unwrap());
    assert!(id.starts_with("dlv_"), "{id}");
    assert_eq!((&delivery["attempt"], delivery["events"].as_array().unwrap().len()), (&json!(1), 2));
    assert_eq!(delivery["keys"].as_array().unwrap().len(), 2);
    assert!(acme.poll("mail").await.is_empty(), "nobody else gets it");
    let longer = json!({ "attempt": 1, "seconds": 90 });
    let beat = acme.ask("POST", &format!("/deliveries/{id}/heartbeat"), &longer).await;
    assert!(beat.ok(200)["expires_at"].as_str().unwrap() > delivery["expires_at"].as_str().unwrap());
    // One is done and says what follows, the other comes again.
    let results = json!([{ "emit": [{ "type": "order.mailed", "data": 7 }] },
        { "class": "transient", "message": "the server is away" }]);
    let complete = format!("/deliveries/{id}/complete");
    assert_eq!(acme.ask("POST", &complete, &json!({ "attempt": 1, "results": results })).await.status, 204);
    acme.ask("POST", &complete, &json!({ "attempt": 1 })).await.problem(409, "delivery-lost");
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let wait = json!({ "max": 10, "wait_seconds": 20 });
        let answer = acme.ask("POST", "/workers/mail/poll", &wait).await;
        for one in answer.ok(200)["items"].as_array().unwrap() {
            seen.push((
                one["attempt"].as_i64().unwrap(),
                one["events"][0]["type"].as_str().unwrap().to_owned(),
            ));
            let complete = format!("/deliveries/{}/complete", one["id"].as_str().unwrap());
            assert_eq!(acme.ask("POST", &complete, &json!({ "attempt": one["attempt"] })).await.status, 204);
        }
    }
    seen.sort();
    assert_eq!(seen, [(1, "order.mailed".to_owned()), (2, "order.paid".to_owned())]);
    let listed = acme.ask("GET", "/workers", &Value::Null).await;
    assert_eq!(listed.ok(200)["items"][0]["name"], "mail");
    assert_eq!(acme.ask("DELETE", "/workers/mail", &Value::Null).await.status, 204);
    acme.ask("POST", "/workers/mail/poll", &json!({})).await.problem(404, "not-found");
}

#[tokio::test]
async fn what_is_refused_for_good_becomes_a_dead_letter_and_whoever_is_late_hears_so() {
    let world = World::new().await;
    let acme = Caller::new(&world, "acme");
    acme.ask("PUT", "/workers/mail", &json!({ "types": ["order"], "lease_seconds": 1 })).await.ok(201);
    acme.publish(json!([event("order", "1")])).await;
    let first = acme.poll("mail").await.remove(0);
    let id = first["id"].as_str().unwrap();
    // Its time is over: another gets it, and the first one's answer comes too late.
    let second = loop {
        let wait = acme.ask("POST", "/workers/mail/poll", &json!({ "wait_seconds": 5 })).await;
        if let Some(one) = wait.ok(200)["items"].get(0) {
            break one.clone();
        }
    };
    assert_eq!((&second["id"], &second["attempt"]), (&first["id"], &json!(2)));
    for (what, body) in [
        ("complete", json!({ "attempt": 1 })),
        ("fail", json!({ "attempt": 1, "class": "poison", "message": "no" })),
        ("heartbeat", json!({ "attempt": 1 })),
    ] {
        acme.ask("POST", &format!("/deliveries/{id}/{what}"), &body).await.problem(409, "delivery-lost");
    }
    let failed = json!({ "attempt": 2, "class": "validation", "message": "no such address" });
    assert_eq!(acme.ask("POST", &format!("/deliveries/{id}/fail"), &failed).await.status, 204);
    let letters = acme.ask("GET", "/dead-letters", &Value::Null).await;
    let letter = &letters.ok(200)["items"][0];
    assert_eq!((&letter["source"], &letter["attempts"]), (&json!("delivery"), &json!(2)));
    assert!(letter["detail"].as_str().unwrap().contains("no such address"), "{letter}");
    let replay = format!("/dead-letters/{}/replay", letter["id"].as_str().unwrap());
    assert!(acme.ask("POST", &replay, &Value::Null).await.status.is_success());
    assert_eq!(acme.poll("mail").await[0]["attempt"], 1, "it begins anew");
}

#[tokio::test]
async fn what_follows_from_several_is_emitted_once_and_who_never_answers_is_given_up_on() {
    let world = World::new().await;
    let acme = Caller::new(&world, "acme");
    let both = json!({ "types": ["order"], "batch_max": 3, "attempts_max": 2, "lease_seconds": 1 });
    acme.ask("PUT", "/workers/mail", &both).await.ok(201);
    acme.publish(json!([event("order", "1"), event("order", "2"), event("order", "3")])).await;
    let lent = acme.poll("mail").await.remove(0);
    let complete = format!("/deliveries/{}/complete", lent["id"].as_str().unwrap());
    let answer = json!({ "attempt": 1, "emit": [{ "type": "summed", "data": 3 }] });
    assert_eq!(acme.ask("POST", &complete, &answer).await.status, 204);
    let summed = loop {
        let listed = acme.ask("GET", "/events?type=summed", &Value::Null).await;
        let items = listed.ok(200)["items"].as_array().unwrap().clone();
        if !items.is_empty() {
            break items;
        }
    };
    assert_eq!(summed.len(), 1);
    acme.publish(json!([event("order", "4")])).await;
    let mut attempts = Vec::new();
    let letter = loop {
        let polled = acme.ask("POST", "/workers/mail/poll", &json!({ "wait_seconds": 2 })).await;
        attempts.extend(polled.ok(200)["items"].as_array().unwrap().iter().map(|one| one["attempt"].clone()));
        let letters = acme.ask("GET", "/dead-letters?source=delivery&worker=mail", &Value::Null).await;
        if let Some(letter) = letters.ok(200)["items"].get(0) {
            break letter.clone();
        }
    };
    assert_eq!(attempts, [json!(1), json!(2)]);
    assert_eq!((&letter["reason"], &letter["worker"]), (&json!("retries-exhausted"), &json!("mail")));
}

#[tokio::test]
async fn bad_declarations_and_answers_are_named_and_others_have_no_part_in_it() {
    let world = World::new().await;
    let (acme, globex) = (Caller::new(&world, "acme"), Caller::new(&world, "globex"));
    for body in [
        json!({}),
        json!({ "types": [] }),
        json!({ "types": ["a*b"] }),
        json!({ "types": ["a"], "attempts_max": 0 }),
        json!({ "types": ["a"], "batch_max": 5000 }),
        json!({ "types": ["a"], "lease_seconds": 0 }),
        json!({ "types": ["a"], "order_by": "data[0]" }),
        json!({ "types": "a" }),
    ] {
        acme.ask("PUT", "/workers/mail", &body).await.problem(400, "invalid-value");
    }
    acme.ask("PUT", "/workers/mail", &json!({ "types": ["a"], "speed": 1 }))
        .await
        .problem(400, "unknown-key");
    acme.ask("PUT", "/workers/a%20b", &json!({ "types": ["a"] })).await.problem(400, "invalid-value");
    acme.ask("PUT", "/workers/mail", &json!({ "types": ["order"] })).await.ok(201);
    acme.publish(json!([event("order", "1")])).await;
    globex.ask("POST", "/workers/mail/poll", &json!({})).await.problem(404, "not-found");
    let lent = acme.poll("mail").await.remove(0);
    let complete = format!("/deliveries/{}/complete", lent["id"].as_str().unwrap());
    globex.ask("POST", &complete, &json!({ "attempt": 1 })).await.problem(409, "delivery-lost");
    for (body, code) in [
        (json!({}), "missing-key"),
        (json!({ "attempt": 0 }), "invalid-value"),
        (json!({ "attempt": 1, "results": [{}, {}] }), "invalid-value"),
        (json!({ "attempt": 1, "results": [{ "class": "bad", "message": "m" }] }), "invalid-value"),
        (json!({ "attempt": 1, "emit": [{ "data": 1 }] }), "missing-key"),
        (json!({ "attempt": 1, "emit": [], "results": [] }), "invalid-value"),
    ] {
        acme.ask("POST", &complete, &body).await.problem(400, code);
    }
    assert_eq!(acme.ask("POST", &complete, &json!({ "attempt": 1 })).await.status, 204, "nothing was lost");
    for body in [json!({ "max": 0 }), json!({ "wait_seconds": 61 })] {
        acme.ask("POST", "/workers/mail/poll", &body).await.problem(400, "invalid-value");
    }
}

#[tokio::test]
async fn the_terms_of_a_worker_are_kept_and_shown() {
    let world = World::new().await;
    let acme = Caller::new(&world, "acme");
    let terms = json!({ "types": ["order.*"], "retry_factor": 3, "key_by": "data.n", "concurrency_max": 2,
        "rate": { "max": 1000 }, "terminal": { "alert": true, "mark_failed": "order.failed" },
        "debounce": { "by": "data.none", "quiet_ms": 50 } });
    let declared = acme.ask("PUT", "/workers/mail", &terms).await;
    let shown = declared.ok(201);
    assert_eq!(
        (&shown["retry_factor"], &shown["rate"]),
        (&json!(3.0), &json!({ "max": 1000, "seconds": 1 }))
    );
    assert_eq!((&shown["terminal"]["alert"], &shown["concurrency_max"]), (&json!(true), &json!(2)));
    // Two events about the same: the second has no effect, and is not handed out once the first is done.
    acme.publish(json!([event("order.paid", "1"), event("order.paid", "2")])).await;
    let mut lent = Vec::new();
    while lent.len() < 2 {
        lent.extend(acme.poll("mail").await);
    }
    let domain = |one: &Value| one["domain_keys"][0].as_str().unwrap().to_owned();
    assert_eq!(domain(&lent[0]), domain(&lent[1]));
    acme.publish(event("order.paid", "3")).await;
    assert!(acme.poll("mail").await.is_empty(), "two are out already");
    for one in &lent {
        let complete = format!("/deliveries/{}/complete", one["id"].as_str().unwrap());
        let emit = json!({ "attempt": one["attempt"], "emit": [{ "type": "mail.sent" }] });
        assert_eq!(acme.ask("POST", &complete, &emit).await.status, 204);
    }
    let wait = json!({ "max": 10, "wait_seconds": 1 });
    let rest = acme.ask("POST", "/workers/mail/poll", &wait).await;
    assert_eq!(rest.ok(200)["items"], json!([]), "the third is about the same");
    let mut sent = 0;
    while sent == 0 {
        let events = acme.ask("GET", "/events?type=mail.sent", &Value::Null).await;
        sent = events.ok(200)["items"].as_array().unwrap().len();
    }
    assert_eq!(sent, 1);
    let wrong = [
        json!({ "retry_factor": 0.5 }),
        json!({ "key_by": "data[0]" }),
        json!({ "concurrency_max": 0 }),
        json!({ "rate": { "max": 0 } }),
        json!({ "rate": { "most": 1 } }),
        json!({ "debounce": { "quiet_ms": 10, "wait_max_ms": 5 } }),
        json!({ "terminal": { "mark_failed": "*" } }),
    ];
    for mut terms in wrong {
        terms["types"] = json!(["order.*"]);
        acme.ask("PUT", "/workers/bad", &terms).await.problem(400, "invalid-value");
    }
}

#[tokio::test]
async fn a_queue_says_how_much_a_worker_has_to_do() {
    let world = World::new().await;
    let acme = Caller::new(&world, "acme");
    acme.ask("GET", "/queues/mail", &Value::Null).await.problem(404, "not-found");
    acme.ask("PUT", "/workers/mail", &json!({ "types": ["order.*"] })).await.ok(201);
    let queue = async || acme.ask("GET", "/queues/mail", &Value::Null).await.ok(200);
    assert_eq!((&queue().await["backlog"], &queue().await["oldest_seconds"]), (&json!(0), &json!(0.0)));
    acme.publish(json!([event("order.paid", "1"), event("order.paid", "2"), event("user.left", "3")])).await;
    assert_eq!((&queue().await["backlog"], &queue().await["ready"]), (&json!(2), &json!(2)));
    let lent = acme.ask("POST", "/workers/mail/poll", &json!({ "max": 1 })).await.ok(200);
    let held = queue().await;
    assert_eq!((&held["backlog"], &held["ready"], &held["later"]), (&json!(2), &json!(1), &json!(1)));
    let complete = format!("/deliveries/{}/complete", lent["items"][0]["id"].as_str().unwrap());
    assert_eq!(acme.ask("POST", &complete, &json!({ "attempt": 1 })).await.status, 204);
    assert_eq!((&queue().await["backlog"], &queue().await["deliveries"]), (&json!(1), &json!(1)));
    let listed = acme.ask("GET", "/queues", &Value::Null).await.ok(200);
    let own = listed["items"].as_array().unwrap().iter().find(|queue| queue["name"] == "mail").unwrap();
    assert_eq!(own["backlog"], 1);
    // Another tenant's worker of the same name has a queue of its own; whoever watches all of them sees the sum.
    let globex = Caller::new(&world, "globex");
    globex.ask("GET", "/queues/mail", &Value::Null).await.problem(404, "not-found");
    globex.ask("PUT", "/workers/mail", &json!({ "types": ["order.*"] })).await.ok(201);
    globex.publish(json!([event("order.paid", "1")])).await;
    assert_eq!(globex.ask("GET", "/queues/mail", &Value::Null).await.ok(200)["backlog"], 1);
    let monitor = world.token("acme", "monitor");
    let whole = world.ask("GET", "/metrics/queues/mail", Some(&monitor), "").await.ok(200);
    assert_eq!((&whole["backlog"], &whole["calls"]), (&json!(2), &json!(0)));
    world.ask("GET", "/metrics/queues/mail", Some(&acme.token), "").await.problem(403, "forbidden");
    let metrics = world.ask("GET", "/metrics", Some(&monitor), "").await.text().to_owned();
    assert!(metrics.contains("windlass_queue_backlog{queue=\"mail\",kind=\"deliveries\"} 2"), "{metrics}");
    let processed = "windlass_messages_total{tenant=\"acme\",target=\"mail\",event_type=\"order.paid\",outcome=\"processed\"} 1";
    assert!(metrics.contains(processed), "{metrics}");
}
