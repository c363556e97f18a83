//! Leases and fencing: a node that was taken over changes nothing.

use super::Opened;
use crate::fixture::*;
use machine::Time;
use store::{rows::*, *};

/// Just after a lease given at 0 ends.
const LATE: Time = Time(LEASE_MS * 1_000 + 1);

fn work(owner: Option<uuid::Uuid>) -> Vec<Write> {
    vec![Write::Signal(signal(1, 0, owner)), Write::Timer(timer(1, 0, owner)), Write::Call(call(1, 0, owner))]
}

async fn claim_all(opened: &Opened, as_node: uuid::Uuid) -> Result<usize> {
    let signals: Vec<Claimed<SignalRow>> = opened.store.claim_signals(as_node, LATE, 10).await?;
    let timers = opened.store.claim_timers(as_node, LATE, 10).await?;
    let calls = opened.store.claim_calls(as_node, LATE, 10, &[]).await?;
    Ok(signals.len() + timers.len() + calls.len())
}

pub(crate) async fn strangers_are_fenced(opened: &Opened) {
    let stranger = node(9);
    let batch = vec![commit(vec![create(1)])];
    assert_eq!(opened.store.commit(stranger, batch).await, Err(Error::Fenced));
    assert_eq!(opened.store.renew(stranger, Time(0), LEASE_MS).await, Err(Error::Fenced));
    assert_eq!(opened.store.take_over(stranger, LATE).await, Err(Error::Fenced));
    assert_eq!(claim_all(opened, stranger).await, Err(Error::Fenced));
    assert!(opened.store.load(&acme(), id(1)).await.unwrap().is_none());
}

pub(crate) async fn taken_over_node_lands_nothing(opened: &Opened) {
    opened.store.join(node(2), LATE, LEASE_MS).await.unwrap();
    opened.put(work(Some(node(1)))).await;
    assert_eq!(opened.store.take_over(node(2), LATE).await, Ok(3));
    let batch = vec![commit(vec![create(1)]), commit(vec![create(2)])];
    assert_eq!(opened.store.commit(node(1), batch).await, Err(Error::Fenced));
    assert_eq!(opened.store.commit(node(1), vec![]).await, Err(Error::Fenced));
    assert_eq!(opened.store.renew(node(1), LATE, LEASE_MS).await, Err(Error::Fenced));
    assert_eq!(opened.store.join(node(1), LATE, LEASE_MS).await, Err(Error::Fenced));
    assert_eq!(claim_all(opened, node(1)).await, Err(Error::Fenced));
    assert_eq!(opened.store.leave(node(1)).await, Ok(()));
    assert_eq!(opened.store.join(node(1), LATE, LEASE_MS).await, Err(Error::Fenced));
    assert_eq!(opened.store.counts(None).await.unwrap().instances, []);
    // Reads are not fenced, and the node that took over works on.
    assert_eq!(claim_all(opened, node(2)).await, Ok(3));
    let batch = vec![commit(vec![Write::ConsumeCall { instance: id(1), token: 1 }, create(1)])];
    assert_eq!(opened.store.commit(node(2), batch).await, Ok(vec![Outcome::Committed]));
}

pub(crate) async fn take_over_frees_rows(opened: &Opened) {
    opened.store.join(node(2), LATE, LEASE_MS).await.unwrap();
    opened.put(work(Some(node(1)))).await;
    // A live lease is left alone.
    assert_eq!(opened.store.take_over(node(2), Time(LATE.0 - 1)).await, Ok(0));
    assert_eq!(claim_all(opened, node(2)).await, Ok(0));
    assert_eq!(opened.store.take_over(node(2), LATE).await, Ok(3));
    assert_eq!(opened.store.take_over(node(2), LATE).await, Ok(0));
    assert_eq!(opened.store.next_due().await.unwrap(), Some(Time(0)));
    assert_eq!(claim_all(opened, node(2)).await, Ok(3));
    // One's own lease is never one's prey, however late.
    assert_eq!(opened.store.take_over(node(2), Time(LATE.0 * 10)).await, Ok(0));
    assert_eq!(
        opened.store.renew(node(2), LATE, LEASE_MS).await.map(|renewed| renewed.another_ended),
        Ok(false)
    );
}

pub(crate) async fn a_deployment_key_is_made_once(opened: &Opened) {
    assert_eq!(opened.store.deployment_key("a", [1; 32]).await, Ok([1; 32]));
    assert_eq!(opened.store.deployment_key("a", [2; 32]).await, Ok([1; 32]));
    assert_eq!(opened.store.deployment_key("b", [2; 32]).await, Ok([2; 32]));
}

pub(crate) async fn leaving_frees_rows(opened: &Opened) {
    opened.store.join(node(2), Time(0), LEASE_MS).await.unwrap();
    opened.put(work(Some(node(1)))).await;
    assert_eq!(opened.store.leave(node(1)).await, Ok(()));
    assert_eq!(claim_all(opened, node(2)).await, Ok(3));
    assert_eq!(opened.store.commit(node(1), vec![commit(vec![create(1)])]).await, Err(Error::Fenced));
    assert_eq!(opened.store.leave(node(1)).await, Ok(()));
}

pub(crate) async fn renewing_holds_off_take_over(opened: &Opened) {
    opened.store.join(node(2), LATE, LEASE_MS).await.unwrap();
    opened.put(work(Some(node(1)))).await;
    assert_eq!(
        opened.store.renew(node(2), Time(LATE.0 - 1), LEASE_MS).await.map(|renewed| renewed.another_ended),
        Ok(false)
    );
    assert_eq!(
        opened.store.renew(node(2), LATE, LEASE_MS).await.map(|renewed| renewed.another_ended),
        Ok(true),
        "node 1 might be taken over"
    );
    assert_eq!(
        opened.store.renew(node(1), Time(1_000), LEASE_MS).await.map(|renewed| renewed.another_ended),
        Ok(false)
    );
    assert_eq!(
        opened.store.renew(node(2), LATE, LEASE_MS).await.map(|renewed| renewed.another_ended),
        Ok(false)
    );
    assert_eq!(opened.store.take_over(node(2), LATE).await, Ok(0));
    opened.put(vec![create(1)]).await;
    assert_eq!(opened.store.take_over(node(2), Time(LATE.0 + 1_000)).await, Ok(3));
}

pub(crate) async fn one_node_at_a_time_holds_a_lock(opened: &Opened) {
    let store = &opened.store;
    let hold = async |number: u128, now: i64, lease_ms: i64| {
        store.hold(HostLock::Retention, node(number), Time(now), lease_ms).await.unwrap()
    };
    for number in 2..=4 {
        store.join(node(number), Time(0), LEASE_MS).await.unwrap();
    }
    assert!(hold(1, 0, 5).await);
    assert!(!hold(2, 1_000, 5).await, "node 1 holds it");
    assert!(hold(1, 4_000, 5).await, "and keeps it");
    assert!(!hold(2, 8_000, 5).await);
    // Its time is over.
    assert!(hold(2, 9_001, 5).await);
    assert!(!hold(1, 9_002, 5).await);
    // Whoever leaves gives it back at once.
    store.leave(node(2)).await.unwrap();
    assert!(hold(3, 9_003, 1_000_000).await);
    assert!(!hold(1, 9_004, 5).await);
    // So does whoever is taken over, however long the lock would have lasted.
    let late = LEASE_MS * 1_000 + 1;
    store.renew(node(1), Time(late), LEASE_MS).await.unwrap();
    assert!(!hold(1, late, 5).await);
    store.take_over(node(1), Time(late)).await.unwrap();
    assert!(hold(1, late, 5).await);
    // Neither a stranger nor one that was taken over gets it.
    assert!(!hold(3, late + 10_000, 5).await);
    assert!(!hold(9, late + 10_000, 5).await);
}

pub(crate) async fn leases_fenced_long_ago_are_forgotten(opened: &Opened) {
    let (store, day) = (&opened.store, 86_400_000_000);
    store.join(node(2), Time(0), LEASE_MS).await.unwrap();
    store.renew(node(1), Time(0), 10 * 86_400_000).await.unwrap();
    for now in [LEASE_MS * 1_000 + 1, 3 * day, 6 * day] {
        store.take_over(node(1), Time(now)).await.unwrap();
        // With a mark or without a lease: it is fenced.
        assert_eq!(store.renew(node(2), Time(now), LEASE_MS).await, Err(Error::Fenced));
        assert_eq!(store.commit(node(2), vec![commit(vec![create(1)])]).await, Err(Error::Fenced));
        assert_eq!(store.take_over(node(2), Time(now)).await, Err(Error::Fenced));
        assert!(!store.hold(HostLock::Retention, node(2), Time(now), 5).await.unwrap());
    }
}

pub(crate) async fn a_take_over_is_counted_and_leaving_is_not(opened: &Opened) {
    let owned = Some(node(1));
    let delivery = DeliveryRow {
        id: id(5),
        worker: "mail".into(),
        events: [id(8)].into_iter().collect(),
        order_key: None,
        created_at: Time(0),
        visible_at: Time(0),
        attempt: 0,
        last_error: None,
        owner: owned,
        taken_over: 0,
        traced: store::rows::Traced::default(),
    };
    let writes = vec![
        Write::Signal(signal(1, 0, owned)),
        Write::Timer(timer(1, 0, owned)),
        Write::Call(call(1, 0, owned)),
        Write::Delivery(Box::new(delivery)),
    ];
    opened.put(writes).await;
    opened.store.join(node(2), Time(0), 2 * LEASE_MS).await.unwrap();
    assert_eq!(opened.store.take_over(node(2), LATE).await.unwrap(), 4);
    assert_eq!(counts(opened, node(2)).await, [1; 4]);
    opened.store.join(node(3), Time(0), 4 * LEASE_MS).await.unwrap();
    assert_eq!(opened.store.take_over(node(3), Time(3 * LEASE_MS * 1_000)).await.unwrap(), 4);
    assert_eq!(counts(opened, node(3)).await, [2; 4]);
    opened.store.leave(node(3)).await.unwrap();
    opened.store.join(node(4), Time(0), LEASE_MS).await.unwrap();
    assert_eq!(counts(opened, node(4)).await, [2; 4], "who leaves gives back");
}

/// Claims one row of each kind and says how often it was taken over.
async fn counts(opened: &Opened, node: uuid::Uuid) -> [u32; 4] {
    let (store, now) = (&opened.store, Time(1));
    let ask = DeliveryAsk {
        node,
        now,
        limit: 9,
        workers: vec!["mail".into()],
        full: vec![],
        full_of: vec![],
        pace: None,
    };
    [
        store.claim_signals(node, now, 9).await.unwrap()[0].row.taken_over,
        store.claim_timers(node, now, 9).await.unwrap()[0].row.taken_over,
        store.claim_calls(node, now, 9, &[]).await.unwrap()[0].row.taken_over,
        store.claim_deliveries(&ask).await.unwrap()[0].row.taken_over,
    ]
}
