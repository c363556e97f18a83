//! Each guard answers its own conflict and writes nothing.

use super::Opened;
use crate::fixture::*;
use machine::Time;
use store::{rows::*, *};

async fn conflict(opened: &Opened, writes: Vec<Write>) -> Conflict {
    match opened.commit(vec![commit(writes)]).await.remove(0) {
        Outcome::Conflict(conflict) => conflict,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn consume_answers_gone(opened: &Opened) {
    opened
        .put(vec![
            Write::Signal(signal(10, 0, None)),
            Write::Timer(timer(1, 0, None)),
            Write::Call(call(2, 0, Some(node(1)))),
            Write::DeadLetter(Box::new(dead_letter(20))),
        ])
        .await;
    let consumers = || {
        [
            Write::ConsumeSignal { id: id(10) },
            Write::ConsumeTimer { instance: id(1), token: 1 },
            Write::ConsumeCall { instance: id(1), token: 2 },
            Write::ConsumeDeadLetter { id: id(20) },
        ]
    };
    for consumer in consumers() {
        opened.put(vec![consumer]).await;
    }
    for (n, consumer) in consumers().into_iter().enumerate() {
        assert_eq!(conflict(opened, vec![consumer, create(100 + n as u128)]).await, Conflict::Gone);
    }
    let counts = opened.store.counts(None).await.unwrap();
    assert_eq!(counts, views::Counts::default());
}

pub(crate) async fn claimed_key_answers_duplicate(opened: &Opened) {
    opened.put(vec![Write::ClaimKey(inbox("k1")), create(1)]).await;
    let mut again = inbox("k1");
    again.answer = b"other".to_vec();
    assert_eq!(conflict(opened, vec![Write::ClaimKey(again), create(2)]).await, Conflict::Duplicate);
    let kept = opened.store.inbox(&acme(), "start", "k1").await.unwrap();
    assert_eq!(kept, Some(inbox("k1")));
    assert!(opened.store.load(&acme(), id(2)).await.unwrap().is_none());
    // Another scope is another key.
    let mut scoped = inbox("k1");
    scoped.scope = "signal:1".into();
    opened.put(vec![Write::ClaimKey(scoped)]).await;
    assert_eq!(opened.store.inbox(&acme(), "start", "k2").await.unwrap(), None);
}

pub(crate) async fn existing_instance_answers_exists(opened: &Opened) {
    opened.put(vec![create(1)]).await;
    assert_eq!(conflict(opened, vec![create(1), history(1, 1)]).await, Conflict::Exists);
}

fn keyed(number: u128, key: &str) -> Write {
    let mut row = instance(number);
    row.business_key = Some(key.into());
    create_row(row)
}

pub(crate) async fn open_business_key_is_unique(opened: &Opened) {
    opened.put(vec![keyed(1, "order-7")]).await;
    assert_eq!(conflict(opened, vec![keyed(2, "order-7")]).await, Conflict::Exists);
    opened.put(vec![keyed(3, "order-8")]).await;
    // Ending the first frees the key.
    let mut ended = change(1, "completed");
    ended.ended_at = Some(Some(Time(50)));
    opened.put(vec![Write::UpdateInstance(Box::new(ended))]).await;
    opened.put(vec![keyed(4, "order-7")]).await;
    assert_eq!(conflict(opened, vec![keyed(5, "order-7")]).await, Conflict::Exists);
    // Reopening the first while another holds the key is refused.
    let mut reopened = change(1, "running");
    reopened.ended_at = Some(None);
    let outcomes = opened.commit(vec![commit(vec![Write::UpdateInstance(Box::new(reopened))])]).await;
    assert!(matches!(outcomes[..], [Outcome::Rejected(_)]), "{outcomes:?}");
}

pub(crate) async fn other_version_answers_version(opened: &Opened) {
    opened.put(vec![create(1)]).await;
    opened.put(vec![update(1, 2)]).await;
    assert_eq!(conflict(opened, vec![update(1, 2), history(1, 2)]).await, Conflict::Version);
    assert_eq!(conflict(opened, vec![update(1, 4), history(1, 4)]).await, Conflict::Version);
    assert_eq!(conflict(opened, vec![update(9, 2)]).await, Conflict::Version);
    assert_eq!(opened.store.load(&acme(), id(1)).await.unwrap().unwrap().state_version, 2);
}

pub(crate) async fn created_twice_answers_exists(opened: &Opened) {
    let definition = || Write::CreateDefinition(Box::new(definition("order", "1.0.0")));
    let tenant = || Write::CreateTenant(tenant_row("acme"));
    opened.put(vec![tenant(), definition()]).await;
    assert_eq!(conflict(opened, vec![definition()]).await, Conflict::Exists);
    assert_eq!(conflict(opened, vec![tenant()]).await, Conflict::Exists);
}

pub(crate) async fn drops_and_retries_of_missing_rows_do_nothing(opened: &Opened) {
    let (instance, token) = (id(1), 9);
    opened
        .put(vec![
            Write::DropCall { instance, token },
            Write::DropTimer { instance, token },
            Write::RetryCall {
                instance,
                token,
                owner: None,
                visible_at: Time(1),
                attempt: 2,
                last_error: None,
            },
            Write::RetryTimer { instance, token, owner: None, visible_at: Time(1), attempt: 2 },
            Write::RetrySignal { id: id(3), owner: None, visible_at: Time(1), attempt: 2 },
            Write::OutboxSent { ids: vec![id(4)] },
            Write::RevokeKey { id: "none".into(), at: Time(1) },
            Write::UpdateInstance(Box::new(change(1, "running"))),
        ])
        .await;
    assert_eq!(opened.store.counts(None).await.unwrap(), views::Counts::default());
    opened.put(vec![Write::Call(call(9, 0, None)), Write::Timer(timer(9, 0, None))]).await;
    opened.put(vec![Write::DropCall { instance, token }, Write::DropTimer { instance, token }]).await;
    assert_eq!(opened.store.counts(None).await.unwrap(), views::Counts::default());
}

pub(crate) async fn signal_with_the_same_id_is_kept(opened: &Opened) {
    opened.put(vec![Write::Signal(signal(1, 0, None))]).await;
    let mut other = signal(1, 0, None);
    other.envelope = b"other".to_vec();
    opened.put(vec![Write::Signal(other), create(1)]).await;
    let claimed = opened.store.claim_signals(node(1), Time(1), 10).await.unwrap();
    let rows: Vec<SignalRow> = claimed.into_iter().map(|one| one.row).collect();
    assert_eq!(rows, [signal(1, 0, Some(node(1)))]);
}
