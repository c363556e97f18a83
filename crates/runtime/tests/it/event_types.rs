//! Schemas of types of events: what does not fit is refused on every way in, and nothing of it is stored.

use crate::support::*;
use machine::Data;
use runtime::{
    api::{Published, Refusal},
    clock::SystemClock,
};
use serde_json::{Value, json};
use std::sync::Arc;
use store::{
    postgres::{Postgres, migrate},
    views::EventFilter,
};
use worker::{Declaration, Emit, Handled, each};

fn event(id: &str, data: Value) -> Data {
    Data::from_json(json!({ "specversion": "1.0", "id": id, "source": "s", "type": "paid", "data": data }))
}

fn schema() -> Data {
    Data::from_json(json!({
        "type": "object", "required": ["order"],
        "properties": { "order": { "type": "string" }, "lines": { "items": { "type": "integer" } } },
    }))
}

async fn set(node: &Up, schema: Data) -> bool {
    node.handle.put_event_type(&node.tenant, "paid", &schema).await.unwrap()
}

async fn publish(node: &Up, event: Data) -> Result<Published, Refusal> {
    node.handle.publish(&node.tenant, event).await
}

/// The places that a refusal names.
fn places(refusal: Refusal) -> Vec<String> {
    match refusal {
        Refusal::Invalid { code: "event-data-invalid", problems, .. } => {
            problems.into_iter().map(|problem| problem.pointer).collect()
        }
        other => panic!("{other:?}"),
    }
}

async fn stored(world: &World) -> usize {
    world.store.events(&world.tenant, &EventFilter::default(), &whole_page()).await.unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn an_event_that_does_not_fit_is_refused_with_its_places() {
    let world = World::new();
    let node = world.node().await;
    let first = publish(&node, event("old", json!(1))).await.unwrap();
    assert!(set(&node, schema()).await, "it is new");
    let bad = json!({ "order": 7, "lines": [1, "two"] });
    let mut found = places(publish(&node, event("1", bad)).await.unwrap_err());
    found.sort();
    assert_eq!(found, ["/data/lines/1", "/data/order"]);
    assert_eq!(places(publish(&node, event("2", Value::Null)).await.unwrap_err()), ["/data"]);
    let binary =
        json!({ "specversion": "1.0", "id": "3", "source": "s", "type": "paid", "data_base64": "AQI=" });
    assert_eq!(places(publish(&node, Data::from_json(binary)).await.unwrap_err()), ["/data"]);
    assert_eq!(stored(&world).await, 1, "nothing of them is there");
    publish(&node, event("1", json!({ "order": "o-1" }))).await.unwrap();
    // Other types are not asked, and what was taken before stays taken.
    let other = json!({ "specversion": "1.0", "id": "9", "source": "s", "type": "left", "data": 1 });
    publish(&node, Data::from_json(other)).await.unwrap();
    let again = publish(&node, event("old", json!(1))).await.unwrap();
    assert_eq!((again.id, again.replayed), (first.id, true));
    // Changed, it holds as it is now; forgotten, it holds no more.
    assert!(!set(&node, Data::from_json(json!({ "type": "integer" }))).await, "it was there");
    publish(&node, event("4", json!(4))).await.unwrap();
    publish(&node, event("5", json!({ "order": "o-1" }))).await.unwrap_err();
    node.handle.forget_event_type(&node.tenant, "paid").await.unwrap();
    publish(&node, event("5", json!("anything"))).await.unwrap();
    let gone = node.handle.forget_event_type(&node.tenant, "paid").await.unwrap_err();
    assert!(matches!(gone, Refusal::NotFound(_)), "{gone}");
}

#[tokio::test(start_paused = true)]
async fn of_many_events_those_that_do_not_fit_are_refused_alone() {
    let world = World::new();
    let node = world.node().await;
    set(&node, schema()).await;
    let good = |id: &str| event(id, json!({ "order": id }));
    let many = vec![good("1"), good("2"), event("3", json!({})), good("4"), event("5", json!([]))];
    let answers = node.handle.publish_many(&node.tenant, many).await;
    let refused: Vec<usize> =
        answers.iter().enumerate().filter(|(_, answer)| answer.is_err()).map(|(at, _)| at).collect();
    assert_eq!(refused, [2, 4]);
    assert_eq!(stored(&world).await, 3);
}

#[tokio::test(start_paused = true)]
async fn what_is_emitted_and_does_not_fit_is_a_dead_letter_that_can_be_published_later() {
    let world = World::new();
    let says = Declaration::on(
        "says",
        ["go"],
        each(|_| Handled::emit([Emit::new("paid", Data::from_json(json!({ "by": "worker" })))])),
    );
    let node = world.build().worker(says).start().await;
    set(&node, schema()).await;
    node.deploy(
        "emits",
        "do: [ { say: { emit: { event: { with: { source: 'https://a.b', type: paid, data: { by: flow } } } } } } ]",
    )
    .await;
    let instance = node.start("emits", json!({})).await;
    node.output(instance).await;
    let go = json!({ "specversion": "1.0", "id": "1", "source": "s", "type": "go" });
    publish(&node, Data::from_json(go)).await.unwrap();
    until(|| async { world.letters().await.len() == 2 }).await;
    for letter in world.letters().await {
        assert_eq!((letter.source.as_str(), letter.reason.as_str()), ("event", "refused"));
        assert!(letter.detail.contains("/data lacks"), "{}", letter.detail);
        let refused = node.handle.replay_dead_letter(&node.tenant, letter.id, "ann").await.unwrap_err();
        assert_eq!(places(refused), ["/data"], "it still does not fit");
    }
    assert_eq!(world.counts().await.deliveries, 0, "the delivery itself is done");
    node.handle.forget_event_type(&node.tenant, "paid").await.unwrap();
    for letter in world.letters().await {
        node.handle.replay_dead_letter(&node.tenant, letter.id, "ann").await.unwrap();
    }
    assert_eq!((world.letters().await.len(), stored(&world).await), (0, 3));
}

#[tokio::test(start_paused = true)]
async fn what_can_be_no_schema_is_refused_and_schemas_are_the_tenants_own() {
    let world = World::new();
    let node = world.node().await;
    for (name, schema, code) in [
        ("paid", json!({ "type": "nonsense" }), "schema-invalid"),
        ("paid", json!({ "$ref": "https://example.com/other.json" }), "schema-invalid"),
        ("paid", json!({ "title": "x".repeat(70_000) }), "invalid-value"),
        ("paid.*", json!({}), "invalid-value"),
        ("windlass.worker.failed", json!(false), "invalid-value"),
        ("", json!({}), "invalid-value"),
    ] {
        let refusal = node.handle.put_event_type(&node.tenant, name, &Data::from_json(schema)).await;
        assert!(matches!(&refusal, Err(Refusal::Invalid { code: said, .. }) if *said == code), "{refusal:?}");
    }
    set(&node, Data::from_json(json!(false))).await;
    publish(&node, event("1", json!({}))).await.unwrap_err();
    let other = machine::TenantId::new("globex").unwrap();
    node.handle.publish(&other, event("1", json!({}))).await.unwrap();
    assert_eq!(node.handle.event_types(&other).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_node_is_told_of_a_schema() {
    let Some(database) = scratch::database() else { return };
    migrate(&database.owner_url, Some(database.application)).await.unwrap();
    let store = Arc::new(Postgres::open(&database.url).await.unwrap());
    let world = World::over(store.clone(), Arc::new(SystemClock));
    let one = world.build().hints(Arc::new(store.hints())).start().await;
    let two = world.build().hints(Arc::new(store.hints())).start().await;
    publish(&two, event("1", json!(1))).await.unwrap();
    set(&one, schema()).await;
    let count = std::sync::atomic::AtomicU64::new(2);
    let refuses = || async {
        let id = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_string();
        publish(&two, event(&id, json!(1))).await.is_err()
    };
    until(refuses).await;
    publish(&two, event("good", json!({ "order": "o-1" }))).await.unwrap();
    one.stop().await;
    two.stop().await;
}
