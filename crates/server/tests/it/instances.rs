//! Instances through the API: start, result, history, signals, orders, lists.

use crate::harness::{HELLO, LISTEN, SLEEP, World};
use axum::body::Body;
use serde_json::{Value, json};

fn hello(input: Value) -> Value {
    json!({"definition": {"namespace": "test", "name": "hello", "version": "1.0.0"}, "input": input})
}

#[tokio::test]
async fn start_result_and_history() {
    let world = World::new().await;
    world.deploy("hello", HELLO).await;
    let started = world.post("/api/v1/instances", hello(json!({"name": "ada"}))).await;
    let id = started.ok(201)["id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("ins_"));
    assert_eq!(started.header("location"), format!("/api/v1/instances/{id}"));
    let result = world.result(&id).await;
    assert_eq!(result, json!({"status": "completed", "output": {"greeting": "hello ada"}, "error": null}));
    let history = world.get(&format!("/api/v1/instances/{id}/history")).await.ok(200);
    let items = history["items"].as_array().unwrap();
    assert!(items.iter().any(|item| item["step"] == "/do/0/greet"), "{history}");
    for item in items {
        assert!(item["kind"].is_string() && item["version"].is_i64(), "{item}");
        assert!(item["time"].as_str().unwrap().ends_with('Z'), "{item}");
    }
    let instance = world.get(&format!("/api/v1/instances/{id}")).await;
    let body = instance.ok(200);
    assert_eq!(body["status"], "completed");
    assert_eq!(body["input"], json!({"name": "ada"}));
    assert_eq!(body["definition"], json!({"namespace": "test", "name": "hello", "version": "1.0.0"}));
    assert_eq!(instance.header("etag"), format!("\"{}\"", body["version"]));
    let again = world
        .request("GET", &format!("/api/v1/instances/{id}"))
        .header("if-none-match", instance.header("etag"));
    assert_eq!(world.send(again.body(Body::empty()).unwrap()).await.status, 304);
}

#[tokio::test]
async fn history_pages_event_by_event() {
    let world = World::new().await;
    let steps: Vec<String> = (0..9).map(|at| format!("  - s{at}:\n      set: {{ x: {at} }}")).collect();
    world.deploy("many", &steps.join("\n")).await;
    let id = world.start("many", json!({})).await;
    world.result(&id).await;
    let whole = world.get(&format!("/api/v1/instances/{id}/history?limit=200")).await.ok(200);
    assert_eq!(whole["next"], json!(null));
    let mut pieces = Vec::new();
    let mut path = format!("/api/v1/instances/{id}/history?limit=4");
    loop {
        let page = world.get(&path).await.ok(200);
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 4);
        pieces.extend(items.iter().cloned());
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/instances/{id}/history?limit=4&cursor={next}");
    }
    assert_eq!(Value::Array(pieces), whole["items"]);
    let other = world.start("many", json!({})).await;
    let cursor = path.split("cursor=").nth(1).unwrap();
    let stolen = format!("/api/v1/instances/{other}/history?cursor={cursor}");
    world.get(&stolen).await.problem(400, "invalid-cursor");
}

#[tokio::test]
async fn the_same_key_is_the_same_instance() {
    let world = World::new().await;
    world.deploy("hello", HELLO).await;
    let key = [("idempotency-key", "k-1")];
    let first = world.post_with("/api/v1/instances", &key, hello(json!({"name": "a"}))).await;
    assert_eq!(first.header("idempotency-replayed"), "");
    let again = world.post_with("/api/v1/instances", &key, hello(json!({"name": "a"}))).await;
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(first.ok(201)["id"], again.ok(201)["id"]);
    let other = world.post_with("/api/v1/instances", &key, hello(json!({"name": "b"}))).await;
    other.problem(422, "idempotency-key-reused");
    let all = world.get("/api/v1/instances").await.ok(200);
    assert_eq!(all["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn fifty_at_once_with_one_key_start_one() {
    let world = World::new().await;
    world.deploy("hello", HELLO).await;
    let key = [("idempotency-key", "same")];
    let body = hello(json!({"name": "a"}));
    let asks = (0..50).map(|_| world.post_with("/api/v1/instances", &key, body.clone()));
    let answers = futures_util::future::join_all(asks).await;
    let id = answers[0].json()["id"].clone();
    assert!(answers.iter().all(|answer| answer.status == 201 && answer.json()["id"] == id));
    assert_eq!(world.get("/api/v1/instances").await.ok(200)["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_open_business_key_is_taken() {
    let world = World::new().await;
    world.deploy("sleep", SLEEP).await;
    let body = json!({"definition": {"namespace": "test", "name": "sleep"}, "key": "order-1"});
    let id = world.post("/api/v1/instances", body.clone()).await.ok(201)["id"].as_str().unwrap().to_owned();
    let taken = world.post("/api/v1/instances", body).await;
    taken.problem(409, "business-key-taken");
    assert_eq!(taken.header("location"), format!("/api/v1/instances/{id}"));
    let found = world.get("/api/v1/instances?key=order-1").await.ok(200);
    assert_eq!(found["items"][0]["id"], id);
    assert_eq!(found["items"][0]["key"], "order-1");
}

#[tokio::test]
async fn an_unknown_definition_starts_nothing() {
    let world = World::new().await;
    world.post("/api/v1/instances", hello(json!({}))).await.problem(404, "not-found");
    let missing = "/api/v1/instances/ins_00000000000000000000000000000001";
    for path in ["", "/history", "/result"] {
        world.get(&format!("{missing}{path}")).await.problem(404, "not-found");
    }
    for verb in ["cancel", "pause", "resume", "retry", "signals/x"] {
        world.act(&format!("{missing}/{verb}")).await.problem(404, "not-found");
    }
    world.get("/api/v1/instances/tsk_00000000000000000000000000000001").await.problem(400, "invalid-id");
    world.get("/api/v1/instances/nonsense").await.problem(400, "invalid-id");
    world.get("/api/v1/instances/%ff").await.problem(400, "invalid-id");
}

#[tokio::test]
async fn bulk_answers_each_item_by_itself() {
    let world = World::new().await;
    world.deploy("hello", HELLO).await;
    let good = hello(json!({"name": "x"}));
    let unknown = json!({"definition": {"namespace": "test", "name": "none"}});
    let body = json!({"items": [good, unknown, {"definition": 7}, good, {"odd": 1}]});
    let key = [("idempotency-key", "bulk-1")];
    let first = world.post_with("/api/v1/instances/bulk", &key, body.clone()).await.ok(200);
    let statuses: Vec<u64> =
        first["items"].as_array().unwrap().iter().map(|item| item["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [201, 404, 400, 201, 400]);
    assert_eq!(first["items"][2]["problem"]["errors"][0]["pointer"], "/items/2/definition");
    assert_ne!(first["items"][0]["id"], first["items"][3]["id"]);
    let again = world.post_with("/api/v1/instances/bulk", &key, body).await;
    assert_eq!(again.header("idempotency-replayed"), "true");
    let again = again.ok(200);
    for at in [0, 3] {
        assert_eq!(again["items"][at]["id"], first["items"][at]["id"]);
        assert_eq!(again["items"][at]["replayed"], true);
    }
    world.post("/api/v1/instances/bulk", json!({"items": []})).await.problem(400, "invalid-value");
}

#[tokio::test]
async fn a_bulk_key_used_for_another_body_starts_nothing() {
    let world = World::new().await;
    world.deploy("hello", HELLO).await;
    let good = hello(json!({"name": "x"}));
    let key = [("idempotency-key", "bulk-2")];
    let first = world.post_with("/api/v1/instances/bulk", &key, json!({"items": [good, good]})).await;
    assert_eq!(
        (first.ok(200)["items"].as_array().unwrap().len(), first.header("idempotency-replayed")),
        (2, "")
    );
    let other = json!({"items": [good, good, good]});
    let refused = world.post_with("/api/v1/instances/bulk", &key, other).await;
    refused.problem(422, "idempotency-key-reused");
    let there = world.get("/api/v1/instances").await.ok(200);
    assert_eq!(there["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn of_two_items_with_one_business_key_the_earlier_starts_and_the_later_learns_who_holds_it() {
    let world = World::new().await;
    world.deploy("hear", LISTEN).await;
    for round in 0..20 {
        let item =
            json!({"definition": {"namespace": "test", "name": "hear"}, "key": format!("order-{round}")});
        let items = vec![item; 4];
        let answer = world.post("/api/v1/instances/bulk", json!({"items": items})).await.ok(200);
        let items = answer["items"].as_array().unwrap();
        let statuses: Vec<u64> = items.iter().map(|item| item["status"].as_u64().unwrap()).collect();
        assert_eq!(statuses, [201, 409, 409, 409]);
        let holder = format!("/api/v1/instances/{}", items[0]["id"].as_str().unwrap());
        for loser in &items[1..] {
            assert_eq!(loser["problem"]["code"], "business-key-taken");
            assert_eq!(loser["location"], holder);
        }
    }
}

#[tokio::test]
async fn a_signal_is_heard_once() {
    let world = World::new().await;
    world.deploy("hear", LISTEN).await;
    let id = world.start("hear", json!({})).await;
    let path = format!("/api/v1/instances/{id}/signals/paid");
    let signal = "0198c0de-0000-7000-8000-000000000001";
    let first = world.post_with(&path, &[("signal-id", signal)], json!({"amount": 5})).await.ok(202);
    assert_eq!(first["id"], "sig_0198c0de000070008000000000000001");
    let result = world.result(&id).await;
    assert_eq!(result["status"], "completed", "{result}");
    assert!(result["output"].to_string().contains("\"amount\":5"), "{result}");
    world.post(&path, json!({})).await.problem(409, "instance-ended");
    world.post_with(&path, &[("signal-id", "7")], json!({})).await.problem(400, "invalid-header");

    let id = world.start("hear", json!({})).await;
    let other = format!("/api/v1/instances/{id}/signals/other");
    let key = [("idempotency-key", "s-1")];
    let first = world.post_with(&other, &key, json!(1)).await.ok(202);
    let again = world.post_with(&other, &key, json!(1)).await.ok(202);
    assert_eq!(first, again);
}

#[tokio::test]
async fn orders_answer_the_status_afterwards() {
    let world = World::new().await;
    world.deploy("sleep", SLEEP).await;
    let id = world.start("sleep", json!({})).await;
    let path = |verb: &str| format!("/api/v1/instances/{id}/{verb}");
    let pending = world.get(&path("result")).await;
    assert_eq!(pending.ok(202), json!({"status": "waiting"}));
    assert_eq!(world.act(&path("pause")).await.ok(200)["status"], "paused");
    assert_eq!(world.get("/api/v1/instances?status=paused").await.ok(200)["items"][0]["id"], id);
    assert_eq!(world.post(&path("resume"), json!({})).await.ok(200)["status"], "waiting");
    world.act(&path("retry")).await.problem(409, "not-allowed-now");
    assert_eq!(world.act(&path("cancel")).await.ok(200)["status"], "cancelled");
    assert_eq!(world.result(&id).await, json!({"status": "cancelled", "output": null, "error": null}));
    world.act(&path("pause")).await.problem(409, "not-allowed-now");
}

#[tokio::test]
async fn a_fault_is_answered_as_the_language_says() {
    let world = World::new().await;
    let steps = "  - no:
      raise:
        error: { type: 'https://example.com/errors/no', status: 418, title: No, detail: not today }";
    world.deploy("no", steps).await;
    let id = world.start("no", json!({})).await;
    let result = world.result(&id).await;
    assert_eq!(result["status"], "faulted");
    assert_eq!(result["error"]["type"], "https://example.com/errors/no");
    assert_eq!(result["error"]["status"], 418);
    assert_eq!(result["output"], json!(null));
}

#[tokio::test]
async fn lists_filter_and_page_without_loss() {
    let world = World::new().await;
    world.deploy("hello", HELLO).await;
    world.deploy("sleep", SLEEP).await;
    world.deploy("hear", LISTEN).await;
    let mut ids = Vec::new();
    for at in 0..7 {
        ids.push(world.start("sleep", json!({"at": at})).await);
        world.start("hear", json!({})).await;
    }
    let done = world.start("hello", json!({"name": "x"})).await;
    world.result(&done).await;
    ids.reverse();
    let mut seen = Vec::new();
    let mut path = "/api/v1/instances?status=suspended&limit=3".to_owned();
    loop {
        let page = world.get(&path).await.ok(200);
        seen.extend(
            page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()),
        );
        assert!(
            page["items"].as_array().unwrap().iter().all(|item| item["waiting"]["kind"] == "timer"),
            "{page}"
        );
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/instances?status=suspended&limit=3&cursor={next}");
    }
    assert_eq!(seen, ids, "newest first, each once");
    let count = |page: Value| page["items"].as_array().unwrap().len();
    assert_eq!(count(world.get("/api/v1/instances?status=waiting").await.ok(200)), 14);
    assert_eq!(count(world.get("/api/v1/instances?status=completed,suspended").await.ok(200)), 8);
    assert_eq!(count(world.get("/api/v1/instances?name=hear&namespace=test").await.ok(200)), 7);
    assert_eq!(count(world.get("/api/v1/instances?to=2001-01-01T00:00:00Z").await.ok(200)), 0);
    assert_eq!(count(world.get("/api/v1/instances?from=2001-01-01T00:00:00Z&limit=200").await.ok(200)), 15);
}

#[tokio::test]
async fn tracing_headers_are_kept() {
    let world = World::new().await;
    world.deploy("hello", HELLO).await;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (given, kept) in [(parent, json!(parent)), ("00-bad", json!(null)), ("", json!(null))] {
        let headers = [("traceparent", given), ("correlation-id", "c-1")];
        let id = world.post_with("/api/v1/instances", &headers, hello(json!({}))).await.ok(201)["id"].clone();
        let body = world.get(&format!("/api/v1/instances/{}", id.as_str().unwrap())).await.ok(200);
        assert_eq!((&body["traceparent"], &body["correlation_id"]), (&kept, &json!("c-1")), "{given:?}");
    }
}

#[tokio::test]
async fn an_order_with_a_stale_tag_changes_nothing() {
    let world = World::new().await;
    world.deploy("sleep", SLEEP).await;
    let id = world.start("sleep", json!({})).await;
    let path = format!("/api/v1/instances/{id}");
    let order = async |tag: &str, order: &str| {
        let request = world.request("POST", &format!("{path}/{order}")).header("if-match", tag);
        world.send(request.body(Body::empty()).unwrap()).await
    };
    for word in ["pause", "resume", "retry", "cancel"] {
        order("\"99\"", word).await.problem(412, "stale");
    }
    let seen = world.get(&path).await;
    assert_eq!(seen.ok(200)["status"], "waiting", "nothing changed");
    let tag = seen.header("etag").to_owned();
    assert_eq!(order(&tag, "pause").await.ok(200)["status"], "paused");
    order(&tag, "resume").await.problem(412, "stale");
    assert_eq!(order("*", "cancel").await.ok(200)["status"], "cancelled");
    let history = world.get(&format!("{path}/history")).await.ok(200);
    let ended = history["items"].as_array().unwrap().iter().find(|item| item["kind"] == "workflow.cancelled");
    assert!(ended.unwrap()["detail"]["by"].is_string(), "history says who: {history}");
}

#[tokio::test]
async fn another_signal_under_the_same_key_is_refused_and_the_same_one_is_answered_again() {
    let world = World::new().await;
    world.deploy("listen", LISTEN).await;
    let id = world.start("listen", json!({})).await;
    let path = |name: &str| format!("/api/v1/instances/{id}/signals/{name}");
    let key = [("idempotency-key", "k")];
    let first = world.post_with(&path("unused"), &key, json!(1)).await.ok(202);
    world.post_with(&path("other"), &key, json!(1)).await.problem(422, "idempotency-key-reused");
    world.post_with(&path("unused"), &key, json!(2)).await.problem(422, "idempotency-key-reused");
    world.act(&format!("/api/v1/instances/{id}/cancel")).await.ok(200);
    assert_eq!(world.post_with(&path("unused"), &key, json!(1)).await.ok(202), first);
    world.post_with(&path("unused"), &key, json!(2)).await.problem(422, "idempotency-key-reused");
    world.post(&path("unused"), json!(1)).await.problem(409, "instance-ended");
}

#[tokio::test]
async fn instances_are_found_by_the_parts_of_their_key() {
    let world = World::new().await;
    world.deploy("sleep", SLEEP).await;
    let start = |key: &str, parts: Value| json!({"definition": {"namespace": "test", "name": "sleep", "version": "1.0.0"}, "key": key, "parts": parts});
    let eu = world.post("/api/v1/instances", start("eu-1", json!({"region": "eu", "n": "1"}))).await.ok(201);
    world.post("/api/v1/instances", start("us-1", json!({"region": "us", "n": "1"}))).await.ok(201);
    world.post("/api/v1/instances", start("none", json!({}))).await.ok(201);
    let found = async |parts: &str| world.get(&format!("/api/v1/instances?parts={parts}")).await.ok(200);
    let one = found("region:eu,n:1").await;
    assert_eq!(one["items"].as_array().unwrap().len(), 1);
    assert_eq!((&one["items"][0]["id"], &one["items"][0]["parts"]["region"]), (&eu["id"], &json!("eu")));
    assert_eq!(found("n:1").await["items"].as_array().unwrap().len(), 2);
    assert_eq!(found("region:mars").await["items"], json!([]));
    world.get("/api/v1/instances?parts=region").await.problem(400, "invalid-parameter");
    for parts in [json!({"a b": "x"}), json!({"a": 1}), json!({"a": ""}), json!([])] {
        world.post("/api/v1/instances", start("k", parts)).await.problem(400, "invalid-value");
    }
}

#[tokio::test]
async fn a_call_nobody_serves_is_seen_at_deploy_and_on_the_instance() {
    let world = World::new().await;
    let deployed = world.deploy("lonely", "  - ask:\n      call: nobody:1.0.0@default").await.ok(201);
    assert_eq!(deployed["warnings"][0]["code"], "no-worker", "{deployed}");
    let id = world.start("lonely", json!({})).await;
    let calls = loop {
        let shown = world.get(&format!("/api/v1/instances/{id}")).await.ok(200);
        if shown["calls"][0]["last_error"].is_string() {
            break shown["calls"].clone();
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((&calls[0]["step"], &calls[0]["target"]), (&json!("/do/0/ask"), &json!("nobody")));
    assert!(calls[0]["last_error"].as_str().unwrap().contains("no worker named"), "{calls}");
}

#[tokio::test]
async fn a_query_filters_the_list_and_a_bad_one_is_placed() {
    let world = World::new().await;
    world.deploy("hello", HELLO).await;
    world.deploy("sleep", SLEEP).await;
    let done = world.start("hello", json!({"name": "ada"})).await;
    world.result(&done).await;
    let open = world.start("sleep", json!({})).await;
    let found = async |query: &str| -> Vec<String> {
        let page = world.get(&format!("/api/v1/instances?q={query}")).await.ok(200);
        let items = page["items"].as_array().unwrap();
        items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(found("status:completed").await, [done.as_str()]);
    assert_eq!(found("definition:test/sle*+started:%3E-1h").await, [open.as_str()]);
    assert_eq!(found("-status:completed").await, [open.as_str()]);
    assert_eq!(found(&done).await, [done.as_str()]);
    assert_eq!(found("age:%3E1h").await, Vec::<String>::new());
    let refused = world.get("/api/v1/instances?q=key:a+statsu:faulted").await;
    let problem = refused.problem(400, "invalid-query");
    assert_eq!(problem["errors"][0]["pointer"], "q");
    assert_eq!(problem["errors"][0]["hint"], "did you mean status?");
    assert!(problem["detail"].as_str().unwrap().contains("at character 7"), "{problem}");
    // Each list has fields of its own.
    world.get("/api/v1/dead-letters?q=status:faulted").await.problem(400, "invalid-query");
    world.get("/api/v1/dead-letters?q=worker:mail+failed:%3E-1h").await.ok(200);
    world.get("/api/v1/deliveries?q=worker:mail+attempts:%3E3").await.ok(200);
}
