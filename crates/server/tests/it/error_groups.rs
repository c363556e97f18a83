//! What failed for good through the API: groups, samples, filters, pages; and dead letters by group.

use crate::harness::World;
use serde_json::{Value, json};

async fn raising(world: &World, name: &str, kind: &str) -> String {
    let step = json!({ "raise": { "error": { "type": kind, "status": 500, "title": "order 17" } } });
    world.deploy(name, &format!("  - r: {step}")).await;
    world.start(name, json!({})).await
}

#[tokio::test]
async fn errors_are_grouped_listed_and_shown_with_samples() {
    let world = World::new().await;
    let base = "https://serverlessworkflow.io/spec/1.0.0/errors/";
    let first = raising(&world, "one", &format!("{base}runtime")).await;
    world.start("one", json!({})).await;
    raising(&world, "two", &format!("{base}timeout")).await;
    let page = world.get("/api/v1/errors").await.ok(200);
    let shown = |item: &Value| {
        let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
        (text("worker"), text("class"), text("message"), item["count"].as_u64().unwrap())
    };
    let items: Vec<_> = page["items"].as_array().unwrap().iter().map(shown).collect();
    let group = |name: &str, class: &str, count| {
        (format!("test/{name}"), class.to_owned(), "order #".to_owned(), count)
    };
    assert_eq!(items, [group("two", "timeout", 1), group("one", "runtime", 2)]);
    let id = page["items"][1]["id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("err_"), "{id}");
    let read = world.get(&format!("/api/v1/errors/{id}")).await.ok(200);
    assert_eq!((&read["first"]["instance"], &read["first"]["message"]), (&json!(first), &json!("order 17")));
    assert_eq!(read["samples"].as_array().unwrap().len(), 1);
    assert_eq!((&read["source"], &read["step"]), (&json!("workflow"), &json!("test/one/do/0/r")));
    assert!(read["first_seen"].as_str().unwrap() <= read["last_seen"].as_str().unwrap());

    for (filter, expected) in [("worker=test/one", 1), ("class=timeout", 1), ("class=poison", 0)] {
        let found = world.get(&format!("/api/v1/errors?{filter}")).await.ok(200);
        assert_eq!(found["items"].as_array().unwrap().len(), expected, "{filter}");
    }
    let page = world.get("/api/v1/errors?limit=1").await.ok(200);
    let next = page["next"].as_str().unwrap();
    let rest = world.get(&format!("/api/v1/errors?limit=1&cursor={next}")).await.ok(200);
    assert_eq!((&rest["items"][0]["id"], &rest["next"]), (&json!(id), &json!(null)));

    let foreign = world.token("globex", "viewer");
    assert_eq!(world.ask("GET", "/api/v1/errors", Some(&foreign), "").await.ok(200)["items"], json!([]));
    world.ask("GET", &format!("/api/v1/errors/{id}"), Some(&foreign), "").await.problem(404, "not-found");
    world.get("/api/v1/errors/err_1").await.problem(400, "invalid-id");
    world.get("/api/v1/errors?cursor=x").await.problem(400, "invalid-cursor");
    world.get("/api/v1/errors?reason=x").await.problem(400, "unknown-parameter");
    let worker = world.token("acme", "worker");
    world.ask("GET", "/api/v1/errors", Some(&worker), "").await.problem(403, "forbidden");
}

#[tokio::test]
async fn dead_letters_are_counted_by_group() {
    let world = World::new().await;
    raising(&world, "one", "https://example.com/e").await;
    let group = world.get("/api/v1/errors").await.ok(200)["items"][0]["id"].as_str().unwrap().to_owned();
    let grouped = machine::id::parse(machine::id::Kind::ErrorGroup, &group).unwrap();
    for number in 1..=3 {
        world.grouped_letter(number, b"{}", Some(grouped)).await;
    }
    let alone = world.dead_letter(9, b"{}").await;
    let page = world.get("/api/v1/dead-letters/groups").await.ok(200);
    let items = page["items"].as_array().unwrap();
    let of = |group: &Value| {
        items.iter().find(|item| item["group"]["id"] == *group).map(|item| item["letters"].clone())
    };
    assert_eq!((of(&json!(group)), of(&json!(null))), (Some(json!(3)), Some(json!(1))));
    let mut seen = 0;
    let mut path = "/api/v1/dead-letters/groups?limit=1".to_owned();
    loop {
        let page = world.get(&path).await.ok(200);
        seen += page["items"].as_array().unwrap().len();
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/dead-letters/groups?limit=1&cursor={next}");
    }
    assert_eq!(seen, 2);
    let letters = world.get(&format!("/api/v1/dead-letters?group={group}")).await.ok(200);
    let letters = letters["items"].as_array().unwrap();
    assert!(letters.len() == 3 && letters.iter().all(|letter| letter["group"] == json!(group)));
    assert_eq!(world.get(&format!("/api/v1/dead-letters/{alone}")).await.ok(200)["group"], json!(null));
}
