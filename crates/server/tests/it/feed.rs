//! The feed of events over HTTP: cursors that go on, that are refused, and that belong to one tenant.

use crate::harness::World;
use serde_json::{Value, json};
use std::time::Duration;

async fn publish(world: &World, id: &str) {
    let event =
        json!({ "specversion": "1.0", "id": id, "source": "shop", "type": "paid", "data": { "order": id } });
    world.post("/api/v1/events", event).await.ok(202);
}

fn ids(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["event_id"].as_str().unwrap()).collect()
}

/// The next so many items: a database shows them once no transaction of whoever else uses its server is older.
async fn read(world: &World, path: &str, count: usize) -> Value {
    let reading = async {
        loop {
            let page = world.get(path).await.ok(200);
            if ids(&page).len() >= count {
                return page;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), reading).await.expect("the feed shows what was published")
}

#[tokio::test]
async fn a_reader_goes_on_with_next_and_misses_nothing() {
    let world = World::new().await;
    let empty = world.get("/api/v1/feed").await.ok(200);
    assert_eq!(empty["items"], json!([]));
    let mut next = empty["next"].as_str().unwrap().to_owned();
    for id in ["a", "b", "c"] {
        publish(&world, id).await;
    }
    let page = read(&world, &format!("/api/v1/feed?after={next}&limit=2"), 2).await;
    assert_eq!(ids(&page), ["a", "b"]);
    assert_eq!(page["next"], page["items"][1]["cursor"]);
    for member in ["id", "source", "type", "received_at", "told", "taken", "started", "kept_until"] {
        assert!(page["items"][0].get(member).is_some(), "{member}");
    }
    // Any item's cursor is a place to go on from.
    let first = page["items"][0]["cursor"].as_str().unwrap();
    let again = read(&world, &format!("/api/v1/feed?after={first}"), 2).await;
    assert_eq!(ids(&again), ["b", "c"]);
    next = again["next"].as_str().unwrap().to_owned();
    let end = world.get(&format!("/api/v1/feed?after={next}")).await.ok(200);
    assert_eq!((&end["items"], end["next"].as_str()), (&json!([]), Some(next.as_str())));
    publish(&world, "d").await;
    assert_eq!(ids(&read(&world, &format!("/api/v1/feed?after={next}"), 1).await), ["d"]);
}

#[tokio::test]
async fn what_is_no_cursor_of_this_feed_is_refused() {
    let world = World::new().await;
    publish(&world, "a").await;
    let page = read(&world, "/api/v1/feed", 1).await;
    let cursor = page["next"].as_str().unwrap();
    let foreign = world.token("globex", "admin");
    let stolen = format!("/api/v1/feed?after={cursor}");
    world.ask("GET", &stolen, Some(&foreign), "").await.problem(400, "invalid-cursor");
    // The same tenant, the right mark, a commit that has never been.
    let ahead = format!("{}ff{}", &cursor[..8], &cursor[10..]);
    for wrong in ["zz", "00", &cursor[2..], &cursor[..70], &ahead] {
        let problem = world.get(&format!("/api/v1/feed?after={wrong}")).await.problem(400, "invalid-cursor");
        assert_eq!(problem["errors"][0]["pointer"], "after", "{problem}");
    }
    world.get("/api/v1/feed?limit=201").await.problem(400, "page-too-large");
    world.get("/api/v1/feed?limit=0").await.problem(400, "invalid-parameter");
    world.get("/api/v1/feed?cursor=00").await.problem(400, "unknown-parameter");
}
