//! R09, R15, P12: what is emitted is published in the order of its key, and nobody waits for another tenant's, or another
//! key's.

use crate::support::*;
use machine::{Data, TenantId};
use parking_lot::Mutex;
use serde_json::json;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use store::{Commit, Outcome, Write, rows::OutboxRow};
use trial::tap::Act;
use uuid::Uuid;

/// An event that somebody has emitted.
fn emitted(number: u128, key: &str, tenant: &TenantId) -> Write {
    let event = json!({ "specversion": "1.0", "id": number.to_string(), "source": "s", "type": "said",
        "tenantid": tenant.as_str(), "data": { "key": key, "n": number as i64 } });
    Write::Outbox(OutboxRow {
        id: Uuid::from_u128(number),
        key: key.to_owned(),
        event_type: "said".to_owned(),
        event: event.to_string().into_bytes(),
        created_at: machine::Time(number as i64),
    })
}

async fn emit(world: &World, tenant: &TenantId, writes: Vec<Write>) {
    let outsider = Uuid::from_u128(77);
    world.store.join(outsider, world.now(), 1_000_000_000).await.unwrap();
    let commit = Commit { tenant: tenant.clone(), writes };
    assert_eq!(world.store.commit(outsider, vec![commit]).await.unwrap(), [Outcome::Committed]);
}

fn number(event: &[u8]) -> i64 {
    let data = Data::parse(event).unwrap().get("data").unwrap_or_default();
    data.get("n").and_then(|n| n.as_i64()).unwrap()
}

/// What a node publishes, and what it cannot.
#[derive(Clone, Default)]
struct Door {
    is_open: Arc<AtomicBool>,
    /// In the order of commits.
    passed: Arc<Mutex<Vec<i64>>>,
}

impl Door {
    /// Refuses what `is_stuck` names by tenant and key, until the door is open.
    fn on(node: &Up, is_stuck: impl Fn(&str, &str) -> bool + Send + 'static) -> Door {
        let door = Door::default();
        let Door { is_open, passed } = door.clone();
        node.tap.on_commit(move |batch| {
            let mut numbers = vec![];
            for commit in batch.iter() {
                for write in &commit.writes {
                    let Write::Publish(row) = write else { continue };
                    let key = row.emitted_by.as_deref().unwrap_or_default();
                    if !is_open.load(Ordering::SeqCst) && is_stuck(commit.tenant.as_str(), key) {
                        return Act::Full;
                    }
                    numbers.push(number(&row.event));
                }
            }
            passed.lock().extend(numbers);
            Act::Pass
        });
        door
    }

    fn passed(&self) -> Vec<i64> {
        self.passed.lock().clone()
    }
}

/// Each commit is a batch of its own, so that what is refused is refused alone.
async fn node(world: &World) -> Up {
    world.build().options(|options| options.batch_max = 1).start().await
}

#[tokio::test(start_paused = true)]
async fn a_tenant_whose_events_cannot_be_published_holds_up_no_other() {
    let world = World::new();
    let zoo = TenantId::new("zoo").unwrap();
    let node = node(&world).await;
    let door = Door::on(&node, |tenant, _| tenant == "acme");
    // More than fit on a page, of more keys than wait by themselves, and older than what the other emits.
    let many = (1..=1_000).map(|number| emitted(number, &format!("k{}", number % 300), &world.tenant));
    emit(&world, &world.tenant, many.collect()).await;
    pass(secs(40)).await;
    assert!(door.passed().is_empty());
    let began = world.now();
    emit(&world, &zoo, (2_001..=2_003).map(|number| emitted(number, "z", &zoo)).collect()).await;
    until(async || door.passed() == [2_001, 2_002, 2_003]).await;
    assert!(world.now().since(began).0 <= 31_000_000, "the next look finds them");
    door.is_open.store(true, Ordering::SeqCst);
    until(async || world.counts().await.outbox == 0).await;
    let mut all = door.passed();
    all.sort_unstable();
    assert_eq!(all, (1..=1_000).chain(2_001..=2_003).collect::<Vec<_>>(), "each once");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_cannot_be_published_holds_up_its_own_events_only() {
    let world = World::new();
    let node = node(&world).await;
    let door = Door::on(&node, |_, key| key == "bad");
    let key = |number| if number <= 590 { "bad" } else { "good" };
    let rows = (1..=600).map(|number| emitted(number, key(number), &world.tenant));
    emit(&world, &world.tenant, rows.collect()).await;
    until(async || door.passed() == (591..=600).collect::<Vec<_>>()).await;
    assert_eq!(world.counts().await.outbox, 590);
    door.is_open.store(true, Ordering::SeqCst);
    until(async || world.counts().await.outbox == 0).await;
    assert_eq!(door.passed()[10..], (1..=590).collect::<Vec<_>>(), "in the order of their key");
}

#[tokio::test(start_paused = true)]
async fn events_of_different_keys_are_published_together() {
    let world = World::new();
    let rows = (1..=200).map(|number| emitted(number, &number.to_string(), &world.tenant));
    emit(&world, &world.tenant, rows.collect()).await;
    let node = node(&world).await;
    until(async || world.counts().await.outbox == 0).await;
    let filter = store::views::EventFilter::default();
    let published = world.store.events(&world.tenant, &filter, &whole_page()).await.unwrap();
    let mut numbers: Vec<i64> = published.iter().map(|row| number(&row.event)).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=200).collect::<Vec<_>>());
    let commits = node.metric("windlass_commits_total");
    assert!(commits < 10.0, "{commits} commits for 200 events");
}
