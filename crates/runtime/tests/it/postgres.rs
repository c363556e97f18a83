//! The runtime over PostgreSQL, in real time: a walk from start to end, many at once, and nodes that share a database.

use crate::support::*;
use machine::time::Span;
use runtime::clock::SystemClock;
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc};
use store::postgres::{Postgres, migrate};
use uuid::Uuid;

/// A world over a database of its own; `None`, said loudly, without PostgreSQL.
async fn world() -> Option<(World, scratch::Database)> {
    let database = scratch::database()?;
    migrate(&database.owner_url, Some(database.application)).await.unwrap();
    let store = Postgres::open(&database.url).await.unwrap();
    Some((World::over(Arc::new(store), Arc::new(SystemClock)), database))
}

const WALK: &str = "do:
- charge: { call: 'charge:1.0.0@default', with: { v: '${ .n }' } }
- rest: { wait: { milliseconds: 50 } }
- hear: { listen: { to: { one: { with: { type: go } } } } }
- finish: { set: { done: true } }
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_walks_over_worker_timer_and_signal_to_its_end() {
    let Some((world, _database)) = world().await else { return };
    let node = world.build().worker(echo("charge")).start().await;
    node.deploy("walk", WALK).await;
    let id = node.start("walk", json!({ "n": 1 })).await;
    node.signal(id, "go", json!(1)).await;
    assert_eq!(node.output(id).await, json!({ "done": true }));
    assert_eq!(world.count(id, "step.completed").await, 4);
    let counts = world.counts().await;
    assert_eq!((counts.calls, counts.timers, counts.signals), (0, 0, 0));
    node.stop().await;
}

const STEPS: &str = "do:
- one: { call: 'work:1.0.0@default', with: { v: '${ .n }' } }
- two: { wait: { milliseconds: 20 } }
- three: { call: 'work:1.0.0@default', with: { v: 3 } }
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_dies_is_taken_over_and_no_step_ends_twice() {
    let Some((world, _database)) = world().await else { return };
    let build =
        || world.build().worker(echo("work")).options(|options| options.lease = Span::from_millis(1_500));
    let (first, second) = (build().start().await, build().start().await);
    first.deploy("steps", STEPS).await;
    let mut ids: Vec<Uuid> = Vec::new();
    for n in 0..60 {
        let node = if n % 2 == 0 { &first } else { &second };
        ids.push(node.start("steps", json!({ "n": n })).await);
    }
    first.crash().await;
    for n in 60..80 {
        ids.push(second.start("steps", json!({ "n": n })).await);
    }
    for id in ids {
        assert_eq!(second.output(id).await, json!(3));
        let mut ended: BTreeMap<String, usize> = BTreeMap::new();
        for (kind, step) in world.history(id).await {
            if kind == "step.completed" {
                *ended.entry(step).or_default() += 1;
            }
        }
        assert_eq!(ended.values().copied().collect::<Vec<_>>(), [1, 1, 1], "{ended:?}");
    }
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zombie_learns_that_it_was_taken_over() {
    let Some((world, _database)) = world().await else { return };
    let lease = |millis| move |options: &mut runtime::Options| options.lease = Span::from_millis(millis);
    // It renews every third of an hour, so as if it had been stopped; the other takes over by the database's clock.
    let zombie = world.build().worker(echo("work")).options(lease(3_600_000)).start().await;
    zombie.deploy("steps", STEPS).await;
    let id = zombie.node.id();
    world.store.renew(id, world.now(), 1).await.unwrap();
    let other = world.build().worker(echo("work")).options(lease(600)).start().await;
    tokio::time::timeout(secs(60), async {
        while world.store.renew(id, world.now(), 1).await.is_ok() {
            other.output(other.start("steps", json!({ "n": 1 })).await).await;
        }
    })
    .await
    .expect("a lease that is not renewed ends");
    let refused = zombie.handle.start(&zombie.tenant, start_of("steps", json!({}))).await;
    assert!(refused.is_err());
    tokio::time::timeout(secs(60), zombie.node.fenced()).await.expect("it stops");
    assert_eq!(other.output(other.start("steps", json!({ "n": 2 })).await).await, json!(3));
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_reach_workers_whichever_node_dies_and_none_takes_effect_twice() {
    let Some((world, _database)) = world().await else { return };
    let worker = || {
        let emits = |delivery: &worker::Delivery| {
            let emit = worker::Emit::new("done", delivery.data());
            worker::Handled::emit([emit])
        };
        worker::Declaration::on("mail", ["order"], worker::each(emits)).batch_max(7)
    };
    let build = || world.build().worker(worker()).options(|options| options.lease = Span::from_millis(1_500));
    let (first, second) = (build().start().await, build().start().await);
    let events = |from: i64, to: i64| -> Vec<machine::Data> {
        let event = |n: i64| json!({ "specversion": "1.0", "id": n.to_string(), "source": "t", "type": "order", "data": n });
        (from..to).map(|n| machine::Data::from_json(event(n))).collect()
    };
    for part in 0..10 {
        let node = if part % 2 == 0 { &first } else { &second };
        let answers = node.handle.publish_many(&node.tenant, events(part * 20, part * 20 + 20)).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    }
    first.crash().await;
    // Published once more, as by somebody who did not hear the answer.
    let answers = second.handle.publish_many(&second.tenant, events(0, 200)).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    until(|| async {
        let counts = world.counts().await;
        counts.deliveries == 0 && counts.outbox == 0
    })
    .await;
    let filter = store::views::EventFilter { event_type: Some("done".into()), ..Default::default() };
    let mut emitted = 0;
    let mut page = whole_page();
    loop {
        let rows = world.store.events(&world.tenant, &filter, &page).await.unwrap();
        emitted += rows.len();
        match rows.last() {
            Some(last) if rows.len() == page.limit => page.after = Some(last.id),
            _ => break,
        }
    }
    assert_eq!(emitted, 200);
    second.stop().await;
}
