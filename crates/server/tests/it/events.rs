//! The forms in which events come in and are shown.

use crate::harness::{Answer, World};
use axum::body::Body;
use serde_json::{Value, json};

async fn send(world: &World, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut request = world.request("POST", "/api/v1/events");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    world.send(request.body(Body::from(body.to_owned())).unwrap()).await
}

async fn shown(world: &World, published: &Value, form: &str) -> Value {
    let id = published["items"][0]["id"].as_str().unwrap();
    world.get(&format!("/api/v1/events/{id}?form={form}")).await.ok(200)["event"].clone()
}

const ATTRIBUTES: [(&str, &str); 4] =
    [("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", "s"), ("ce-type", "t")];

#[tokio::test]
async fn a_binary_event_has_its_attributes_in_headers() {
    let world = World::new().await;
    for (id, media_type, body, member, expected) in [
        ("1", "application/json; charset=utf-8", "{\"n\":7}", "data", json!({ "n": 7 })),
        ("2", "application/vnd.shop+json", "[1]", "data", json!([1])),
        ("3", "text/plain", "hello", "data", json!("hello")),
        ("4", "application/octet-stream", "\u{1}\u{2}", "data_base64", json!("AQI=")),
    ] {
        let headers = [
            ("ce-specversion", "1.0"),
            ("ce-id", id),
            ("ce-source", "s"),
            ("ce-type", "t"),
            ("ce-subject", "caf%C3%A9"),
            ("content-type", media_type),
        ];
        let event = shown(&world, &send(&world, &headers, body).await.ok(202), "cloudevent").await;
        assert_eq!((&event[member], &event["subject"]), (&expected, &json!("caf\u{e9}")), "{event}");
        assert_eq!(event["datacontenttype"], media_type.split(';').next().unwrap());
    }
    // The same again in structured mode is the same event.
    let same = json!({ "specversion": "1.0", "id": "1", "source": "s", "type": "t" });
    let again = world.post("/api/v1/events", same).await.ok(202);
    assert_eq!(again["items"][0]["replayed"], true);
}

#[tokio::test]
async fn a_binary_event_that_is_none_is_refused_by_its_header() {
    let world = World::new().await;
    for (extra, said) in [
        (("ce-no_name", "x"), "ce-no_name"),
        (("ce-data", "x"), "ce-data"),
        (("ce-subject", "%ff"), "not UTF-8"),
        (("ce-id", "2"), "more than once"),
    ] {
        let headers: Vec<_> = ATTRIBUTES.into_iter().chain([extra]).collect();
        let problem = send(&world, &headers, "").await.problem(422, "invalid-event");
        assert!(problem["detail"].as_str().unwrap().contains(said), "{problem}");
    }
    let headers: Vec<_> = ATTRIBUTES.into_iter().chain([("content-type", "application/json")]).collect();
    send(&world, &headers, "{").await.problem(400, "invalid-json");
    send(&world, &ATTRIBUTES[..3], "").await.problem(422, "invalid-event");
}

#[tokio::test]
async fn an_envelope_is_taken_and_offered() {
    let world = World::new().await;
    let envelope = json!({
        "eventId": "evt-1", "eventType": "OrderPlaced", "source": "shop", "tenantId": "acme",
        "traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "correlationId": "c", "causationId": "evt-0",
        "occurredAt": "2026-05-09T10:00:00Z", "payload": { "order": 1 }, "extensions": { "sku": "winch" },
    });
    let published = world.post("/api/v1/events", json!([envelope])).await.ok(202);
    assert_eq!(shown(&world, &published, "envelope").await, envelope);
    let event = shown(&world, &published, "cloudevent").await;
    assert_eq!(
        (&event["type"], &event["data"], &event["sku"]),
        (&json!("OrderPlaced"), &json!({ "order": 1 }), &json!("winch"))
    );
    let foreign = json!({ "eventId": "evt-2", "eventType": "OrderPlaced", "tenantId": "globex" });
    world.post("/api/v1/events", foreign).await.problem(422, "invalid-event");
    let unknown = json!({ "eventId": "evt-3", "eventType": "OrderPlaced", "eventTime": "now" });
    let problem = world.post("/api/v1/events", unknown).await.problem(422, "invalid-event");
    assert!(problem["detail"].as_str().unwrap().contains("eventTime"), "{problem}");
    let id = published["items"][0]["id"].as_str().unwrap();
    world.get(&format!("/api/v1/events/{id}?form=xml")).await.problem(400, "invalid-value");
}

#[tokio::test]
async fn a_worker_is_given_envelopes_if_it_asks_for_them() {
    let world = World::new().await;
    world
        .ask(
            "PUT",
            "/api/v1/workers/mail",
            Some(&world.token("acme", "admin")),
            r#"{"types": ["OrderPlaced"]}"#,
        )
        .await
        .ok(201);
    world
        .post("/api/v1/events", json!({ "eventId": "1", "eventType": "OrderPlaced", "payload": 7 }))
        .await
        .ok(202);
    let polled = world.post("/api/v1/workers/mail/poll", json!({ "form": "envelope" })).await.ok(200);
    let event = &polled["items"][0]["events"][0];
    assert_eq!((&event["eventId"], &event["payload"]), (&json!("1"), &json!(7)), "{polled}");
}

#[tokio::test]
async fn events_that_do_not_fit_their_schema_are_named_with_their_places() {
    let world = World::new().await;
    let admin = world.token("acme", "admin");
    let schema = json!({ "schema": { "type": "object", "required": ["order"] } }).to_string();
    let path = "/api/v1/event-types/order.paid";
    let set = world.ask("PUT", path, Some(&admin), &schema).await.ok(201);
    assert_eq!((&set["type"], &set["version"]), (&json!("order.paid"), &json!(1)));
    assert_eq!(world.ask("PUT", path, Some(&admin), &schema).await.ok(200)["version"], 2);
    let event = |id: &str, data: Value| json!({ "specversion": "1.0", "id": id, "source": "s", "type": "order.paid", "data": data });
    let good = |id: &str| event(id, json!({ "order": id }));
    // Structured, binary, and by line.
    let problem =
        world.post("/api/v1/events", event("1", json!({}))).await.problem(422, "event-data-invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/0/data", "{problem}");
    let headers = [
        ("ce-specversion", "1.0"),
        ("ce-id", "2"),
        ("ce-source", "s"),
        ("ce-type", "order.paid"),
        ("content-type", "application/json"),
    ];
    send(&world, &headers, "[]").await.problem(422, "event-data-invalid");
    let lines = format!("{}\n{}\n", good("3"), event("4", json!(4)));
    let answers = by_line(&world, "", lines).await;
    assert_eq!((&answers[0]["line"], &answers[1]["line"]), (&json!(1), &json!(2)));
    assert_eq!(answers[1]["problem"]["code"], "event-data-invalid", "{answers:?}");
    assert_eq!(answers[1]["problem"]["errors"][0]["pointer"], "/data", "{answers:?}");
    // In a batch every one that is refused is named; the others are there.
    let batch = json!([good("5"), event("6", json!({})), good("7"), { "id": "8" }, event("9", json!(9))]);
    let problem = world.post("/api/v1/events", batch).await.problem(422, "event-data-invalid");
    let pointers: Vec<&str> = problem["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["pointer"].as_str().unwrap())
        .collect();
    assert_eq!(pointers, ["/1/data", "/3", "/4/data"], "{problem}");
    assert!(problem["detail"].as_str().unwrap().starts_with("3 of 5 events are refused"), "{problem}");
    let kept = world.get("/api/v1/events").await.ok(200);
    let mut ids: Vec<&str> =
        kept["items"].as_array().unwrap().iter().map(|event| event["event_id"].as_str().unwrap()).collect();
    ids.sort();
    assert_eq!(ids, ["3", "5", "7"]);
    // Shown, listed, refused, forgotten.
    assert_eq!(world.get(path).await.ok(200)["schema"]["required"], json!(["order"]));
    assert_eq!(world.get("/api/v1/event-types").await.ok(200)["items"][0]["type"], "order.paid");
    let nonsense = json!({ "schema": { "properties": { "a": { "type": "word" } } } }).to_string();
    let problem = world.ask("PUT", path, Some(&admin), &nonsense).await.problem(422, "schema-invalid");
    assert!(problem["errors"][0]["pointer"].as_str().unwrap().starts_with("/schema"), "{problem}");
    world.ask("PUT", path, Some(&admin), "{}").await.problem(400, "missing-key");
    assert_eq!(world.ask("DELETE", path, Some(&admin), "").await.status, 204);
    world.get(path).await.problem(404, "not-found");
    world.post("/api/v1/events", event("1", json!({}))).await.ok(202);
}

async fn by_line(world: &World, query: &str, lines: impl Into<axum::body::Body>) -> Vec<Value> {
    let answer = world.raw(&format!("/api/v1/events{query}"), "application/x-ndjson", lines).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("content-type"), "application/x-ndjson");
    answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn line(id: usize) -> String {
    json!({ "specversion": "1.0", "id": id.to_string(), "source": "s", "type": "order.paid", "data": id })
        .to_string()
}

#[tokio::test]
async fn thousands_of_lines_are_answered_each_by_its_number() {
    let world = World::new().await;
    let mut text = String::new();
    for id in 1..=3000 {
        text.push_str(&line(id));
        text.push('\n');
    }
    let answers = by_line(&world, "", text.clone()).await;
    assert_eq!(answers.len(), 3001);
    for (at, answer) in answers[..3000].iter().enumerate() {
        assert_eq!((&answer["line"], &answer["replayed"]), (&json!(at + 1), &json!(false)), "{answer}");
    }
    assert_eq!(answers[3000], json!({ "events": 3000, "accepted": 3000, "refused": 0 }));
    // Again it has no second effect, and one asks only for what is refused.
    assert_eq!(by_line(&world, "?answers=refused", text).await.len(), 1);
    let again = by_line(&world, "", line(7)).await;
    assert_eq!((&again[0]["id"], &again[0]["replayed"]), (&answers[6]["id"], &json!(true)));
}

#[tokio::test]
async fn lines_that_are_refused_are_named_and_the_others_are_accepted() {
    let world = World::new().await;
    let long = format!("{{\"id\": \"{}\"}}", "x".repeat(300_000));
    // The fourth is empty, the last has no end.
    let text = [line(1).as_str(), "{", &long, "", "\u{fffd}", &line(2)].join("\n");
    // It comes in pieces that begin and end anywhere.
    let pieces: Vec<Result<Vec<u8>, std::io::Error>> =
        text.as_bytes().chunks(1013).map(|piece| Ok(piece.to_vec())).collect();
    let body = axum::body::Body::from_stream(futures_util::stream::iter(pieces));
    let answers = by_line(&world, "", body).await;
    let said: Vec<(u64, &str)> = answers[..5]
        .iter()
        .map(|answer| {
            (answer["line"].as_u64().unwrap(), answer["problem"]["code"].as_str().unwrap_or("accepted"))
        })
        .collect();
    let expected =
        [(1, "accepted"), (2, "invalid-json"), (3, "event-too-large"), (5, "invalid-json"), (6, "accepted")];
    assert_eq!(said, expected);
    assert_eq!(answers[5], json!({ "events": 5, "accepted": 2, "refused": 3 }));
    assert_eq!(by_line(&world, "", "").await, [json!({ "events": 0, "accepted": 0, "refused": 0 })]);
}

#[tokio::test]
async fn a_stream_that_breaks_off_says_how_far_it_was_read() {
    let world = World::new().await;
    let pieces = [Ok(format!("{}\n{{", line(1))), Err(std::io::Error::other("gone"))];
    let body = axum::body::Body::from_stream(futures_util::stream::iter(pieces));
    let answers = by_line(&world, "", body).await;
    assert_eq!((&answers[0]["line"], answers.len()), (&json!(1), 2));
    assert_eq!(
        (&answers[1]["accepted"], &answers[1]["problem"]["code"]),
        (&json!(1), &json!("interrupted-body"))
    );
}

#[tokio::test]
async fn an_event_is_found_by_its_source_and_id_and_says_what_matched() {
    let world = World::new().await;
    let path = "/api/v1/events/by-name?source=s&id=1";
    world.get(path).await.problem(404, "not-found");
    let published = world.post("/api/v1/events", serde_json::from_str(&line(1)).unwrap()).await.ok(202);
    let shown = world.get(path).await.ok(200);
    assert_eq!(shown["id"], published["items"][0]["id"]);
    let verdict = |shown: &Value| shown["verdict"].as_str().unwrap().to_owned();
    assert!(verdict(&shown).contains("no worker wants this type"), "{shown}");
    let admin = world.token("acme", "admin");
    let declare = |types: &str| format!(r#"{{"types": ["{types}"]}}"#);
    world.ask("PUT", "/api/v1/workers/mail", Some(&admin), &declare("order.plaid")).await.ok(201);
    let shown = world.get(path).await.ok(200);
    assert!(verdict(&shown).contains("order.plaid"), "{shown}");
    world.ask("PUT", "/api/v1/workers/mail", Some(&admin), &declare("order.paid")).await.ok(200);
    let shown = world.get(path).await.ok(200);
    assert!(verdict(&shown).contains("mail does now"), "{shown}");
    world.post("/api/v1/events", serde_json::from_str(&line(2)).unwrap()).await.ok(202);
    let shown = world.get("/api/v1/events/by-name?source=s&id=2").await.ok(200);
    assert!(verdict(&shown).contains("delivered to 1 worker"), "{shown}");
    assert_eq!(shown["workers"], json!(["mail"]));
    world.get("/api/v1/events/by-name?source=s").await.problem(400, "invalid-parameter");
}
