//! Work discovery: each backlog row to one node, in due order, never before it is visible.

use super::Opened;
use crate::fixture::*;
use machine::Time;
use store::{rows::*, *};
use uuid::Uuid;

async fn signals(opened: &Opened, now: i64, limit: usize) -> Vec<SignalRow> {
    rows(opened.store.claim_signals(node(1), Time(now), limit).await.unwrap())
}

async fn timers(opened: &Opened, now: i64, limit: usize) -> Vec<TimerRow> {
    rows(opened.store.claim_timers(node(1), Time(now), limit).await.unwrap())
}

async fn calls(opened: &Opened, now: i64, limit: usize) -> Vec<CallRow> {
    rows(opened.store.claim_calls(node(1), Time(now), limit, &[]).await.unwrap())
}

fn rows<T>(claimed: Vec<Claimed<T>>) -> Vec<T> {
    claimed
        .into_iter()
        .map(|one| {
            assert_eq!(one.tenant, acme());
            one.row
        })
        .collect()
}

pub(crate) async fn takes_backlog_once_in_due_order(opened: &Opened) {
    let me = Some(node(1));
    let due = [300, 100, 200, 900];
    for (n, at) in due.into_iter().enumerate() {
        let token = n as u64;
        opened
            .put(vec![
                Write::Signal(signal(n as u128 + 1, at, None)),
                Write::Timer(timer(token, at, None)),
                Write::Call(call(token, at, None)),
            ])
            .await;
    }
    assert_eq!(signals(opened, 300, 10).await, [signal(2, 100, me), signal(3, 200, me), signal(1, 300, me)]);
    assert_eq!(timers(opened, 300, 10).await, [timer(1, 100, me), timer(2, 200, me), timer(0, 300, me)]);
    assert_eq!(calls(opened, 300, 10).await, [call(1, 100, me), call(2, 200, me), call(0, 300, me)]);
    // Owned now, by anyone's count; what is not due stays.
    opened.store.join(node(2), Time(0), LEASE_MS).await.unwrap();
    assert_eq!(opened.store.claim_signals(node(2), Time(899), 10).await.unwrap(), []);
    assert_eq!(opened.store.claim_timers(node(2), Time(899), 10).await.unwrap(), []);
    assert_eq!(opened.store.claim_calls(node(2), Time(899), 10, &[]).await.unwrap(), []);
    assert_eq!(opened.store.claim_timers(node(2), Time(900), 10).await.unwrap().len(), 1);
    // A claim does not consume.
    assert_eq!(opened.store.counts(None).await.unwrap().timers, 4);
    opened.put(vec![Write::ConsumeTimer { instance: id(1), token: 1 }]).await;
}

pub(crate) async fn born_owned_rows_are_never_returned(opened: &Opened) {
    let me = Some(node(1));
    opened
        .put(vec![
            Write::Signal(signal(1, 0, me)),
            Write::Timer(timer(1, 0, me)),
            Write::Call(call(1, 0, me)),
        ])
        .await;
    assert_eq!(signals(opened, 1_000, 10).await, []);
    assert_eq!(timers(opened, 1_000, 10).await, []);
    assert_eq!(calls(opened, 1_000, 10).await, []);
    assert_eq!(opened.store.next_due().await.unwrap(), None);
    opened.put(vec![Write::ConsumeSignal { id: id(1) }]).await;
}

pub(crate) async fn calls_are_claimed_from_every_tenant_in_equal_shares(opened: &Opened) {
    for token in 0..20 {
        opened.put(vec![Write::Call(call(token, token as i64, None))]).await;
    }
    let others = ["beta", "zoo"].map(tenant);
    for other in &others {
        let writes = (100..104).map(|token| Write::Call(call(token, 50, None))).collect();
        opened.commit(vec![Commit { tenant: other.clone(), writes }]).await;
    }
    let claim = async |full: &[machine::TenantId]| {
        let claimed = opened.store.claim_calls(node(1), Time(60), 6, full).await.unwrap();
        claimed.into_iter().map(|one| format!("{}{}", one.tenant, one.row.token)).collect::<Vec<_>>()
    };
    assert_eq!(claim(&[]).await, ["acme0", "acme1", "beta100", "beta101", "zoo100", "zoo101"]);
    assert_eq!(claim(&[acme(), tenant("none")]).await, ["beta102", "beta103", "zoo102", "zoo103"]);
    assert_eq!(opened.store.next_due().await.unwrap(), Some(Time(2)));
    assert_eq!(claim(&[acme()]).await, [""; 0]);
    assert_eq!(claim(&[]).await.len(), 6);
}

pub(crate) async fn a_crowded_queue_is_shared_out_by_weight(opened: &Opened) {
    let (hot, cold) = (acme(), tenant("cold"));
    for (tenant, weight) in [(&hot, 1), (&cold, 3)] {
        let row = TenantRow { id: tenant.clone(), weight, ..tenant_row("any") };
        opened.commit(vec![Commit { tenant: tenant.clone(), writes: vec![Write::CreateTenant(row)] }]).await;
    }
    let backlog = |from: u64, to: u64, due: i64| -> Vec<Write> {
        let of = |token: u64| {
            let signal = signal(u128::from(token) + 1, due + token as i64, None);
            [
                Write::Signal(signal),
                Write::Timer(timer(token, due + token as i64, None)),
                Write::Call(call(token, due + token as i64, None)),
            ]
        };
        (from..to).flat_map(of).collect()
    };
    opened.commit(vec![Commit { tenant: hot.clone(), writes: backlog(0, 30, 0) }]).await;
    opened.commit(vec![Commit { tenant: cold.clone(), writes: backlog(100, 110, 0) }]).await;
    let now = Time(1_000);
    let of_cold = |tenants: Vec<machine::TenantId>| {
        (tenants.len(), tenants.iter().filter(|tenant| **tenant == cold).count())
    };
    let signals = async || {
        let claimed = opened.store.claim_signals(node(1), now, 8).await.unwrap();
        of_cold(claimed.into_iter().map(|one| one.tenant).collect())
    };
    let timers = async || {
        let claimed = opened.store.claim_timers(node(1), now, 8).await.unwrap();
        of_cold(claimed.into_iter().map(|one| one.tenant).collect())
    };
    let calls = async || {
        let claimed = opened.store.claim_calls(node(1), now, 8, &[]).await.unwrap();
        of_cold(claimed.into_iter().map(|one| one.tenant).collect())
    };
    // The first claim of signals and timers is by age alone; what it left behind is shared out, three parts to one.
    assert_eq!((signals().await, timers().await), ((8, 0), (8, 0)));
    assert_eq!((signals().await, timers().await, calls().await), ((8, 6), (8, 6), (8, 6)));
    // A weight that changes counts at once, for what is queued already.
    let change = Write::ChangeTenant(TenantChange { weight: Some(1), ..TenantChange::default() });
    opened.commit(vec![Commit { tenant: cold.clone(), writes: vec![change] }]).await;
    assert_eq!((signals().await, timers().await, calls().await), ((8, 4), (8, 4), (8, 4)));
    // Alone again, the other has all of it.
    assert_eq!((signals().await, timers().await, calls().await), ((8, 0), (8, 0), (8, 0)));
}

pub(crate) async fn tenants_change_where_something_is_given(opened: &Opened) {
    let change = |title: Option<&str>, weight| Commit {
        tenant: acme(),
        writes: vec![Write::ChangeTenant(TenantChange {
            title: title.map(str::to_owned),
            weight,
            ..TenantChange::default()
        })],
    };
    assert_eq!(opened.commit(vec![change(None, Some(2))]).await, [Outcome::Conflict(Conflict::Gone)]);
    opened.put(vec![Write::CreateTenant(tenant_row("acme"))]).await;
    assert_eq!(opened.commit(vec![change(None, Some(7))]).await, [Outcome::Committed]);
    assert_eq!(opened.commit(vec![change(Some("Acme Ltd"), None)]).await, [Outcome::Committed]);
    let expected = TenantRow { title: "Acme Ltd".into(), weight: 7, ..tenant_row("acme") };
    assert_eq!(opened.store.tenant(&acme()).await.unwrap(), Some(expected.clone()));
    assert_eq!(opened.store.tenants().await.unwrap(), [expected]);
    assert!(matches!(opened.commit(vec![change(None, Some(0))]).await[..], [Outcome::Rejected(_)]));
}

pub(crate) async fn owned_rows_are_known_and_released_by_name(opened: &Opened) {
    let me = Some(node(1));
    let (instance, token) = (id(1), u64::MAX);
    opened
        .put(vec![
            Write::Signal(signal(1, 5, me)),
            Write::Timer(timer(token, 5, me)),
            Write::Call(call(token, 5, me)),
            Write::Call(call(2, 5, None)),
        ])
        .await;
    let keys = [
        QueueKey::Signal { id: id(1) },
        QueueKey::Timer { instance, token },
        QueueKey::Call { instance, token },
    ];
    assert_eq!(rows(opened.store.owned(node(1), 10).await.unwrap()), keys);
    assert_eq!(opened.store.owned(node(1), 2).await.unwrap().len(), 2);
    assert_eq!(opened.store.owned(node(2), 10).await.unwrap(), []);
    // Another's rows stay; one's own are backlog as they were.
    opened.put(keys.iter().map(|row| Write::Release { row: *row, owner: node(2) }).collect()).await;
    assert_eq!(opened.store.owned(node(1), 10).await.unwrap().len(), 3);
    opened.put(keys.iter().map(|row| Write::Release { row: *row, owner: node(1) }).collect()).await;
    assert_eq!(opened.store.owned(node(1), 10).await.unwrap(), []);
    assert_eq!(signals(opened, 5, 10).await, [signal(1, 5, me)]);
    assert_eq!(timers(opened, 5, 10).await, [timer(token, 5, me)]);
    assert_eq!(calls(opened, 5, 10).await, [call(token, 5, me), call(2, 5, me)]);
}

/// What failed, as whoever `owner` is puts it back.
fn retries(owner: Option<Uuid>) -> Vec<Write> {
    let (instance, token, visible_at, attempt) = (id(1), 1, Time(500), 3);
    let last_error = Some(b"boom".to_vec());
    vec![
        Write::RetrySignal { id: id(1), owner, visible_at, attempt },
        Write::RetryTimer { instance, token, owner, visible_at, attempt },
        Write::RetryCall { instance, token, owner, visible_at, attempt, last_error: last_error.clone() },
        Write::RetryDelivery { id: id(1), owner, visible_at, attempt, last_error },
    ]
}

/// One row in each queue.
fn queued(owner: Option<Uuid>) -> Vec<Write> {
    vec![
        Write::Signal(signal(1, 0, owner)),
        Write::Timer(timer(1, 0, owner)),
        Write::Call(call(1, 0, owner)),
        Write::Delivery(Box::new(DeliveryRow { owner, ..delivery(1, "mail", 0) })),
    ]
}

pub(crate) async fn retry_makes_backlog_again(opened: &Opened) {
    let me = Some(node(1));
    let attempt = 3;
    opened.put(queued(me)).await;
    opened.put(retries(me)).await;
    assert_eq!(opened.store.next_due().await.unwrap(), Some(Time(500)));
    assert_eq!(signals(opened, 499, 10).await, []);
    assert_eq!(signals(opened, 500, 10).await, [SignalRow { attempt, ..signal(1, 500, me) }]);
    assert_eq!(timers(opened, 500, 10).await, [TimerRow { attempt, ..timer(1, 500, me) }]);
    let last_error = Some(b"boom".to_vec());
    assert_eq!(calls(opened, 500, 10).await, [CallRow { attempt, last_error, ..call(1, 500, me) }]);
}

/// The answer to the first retry was lost, another node has the rows by now, and the retry is sent again.
pub(crate) async fn a_retry_that_comes_late_takes_nothing_from_its_new_owner(opened: &Opened) {
    let (first, second) = (Some(node(1)), Some(node(2)));
    opened.put(queued(second)).await;
    opened.put(retries(first)).await;
    opened.put(retries(None)).await;
    assert_eq!(opened.store.owned(node(2), 10).await.unwrap().len(), 4);
    let stored = opened.store.delivery(&acme(), id(1)).await.unwrap().unwrap();
    assert_eq!(stored, delivery(1, "mail", 0), "its count and time stay as they were");
    opened.put(retries(second)).await;
    assert_eq!(opened.store.owned(node(2), 10).await.unwrap(), []);
}

pub(crate) async fn next_due_is_the_earliest_unowned(opened: &Opened) {
    assert_eq!(opened.store.next_due().await.unwrap(), None);
    opened.put(vec![Write::Call(call(1, 700, None))]).await;
    assert_eq!(opened.store.next_due().await.unwrap(), Some(Time(700)));
    opened.put(vec![Write::Timer(timer(1, 600, None)), Write::Timer(timer(2, 100, Some(node(1))))]).await;
    assert_eq!(opened.store.next_due().await.unwrap(), Some(Time(600)));
    opened.put(vec![Write::Signal(signal(1, 500, None))]).await;
    assert_eq!(opened.store.next_due().await.unwrap(), Some(Time(500)));
    assert_eq!(signals(opened, 500, 10).await.len(), 1);
    assert_eq!(opened.store.next_due().await.unwrap(), Some(Time(600)));
}

pub(crate) async fn a_row_says_where_it_stands(opened: &Opened) {
    let me = Some(node(1));
    let writes = vec![
        Write::Signal(signal(1, 5, me)),
        Write::Timer(timer(1, 5, None)),
        Write::Call(call(1, 5, None)),
        Write::Call(call(2, 7, None)),
        Write::Call(call(3, 9, me)),
        Write::Call(call(4, 6, me)),
    ];
    opened.put(writes.clone()).await;
    opened.commit(vec![Commit { tenant: tenant("zoo"), writes }]).await;
    let place = async |row: QueueKey| opened.store.place(&acme(), row).await.unwrap();
    let of = |owner, ahead| Some(views::Place { owner, ahead, ..views::Place::default() });
    let instance = id(1);
    assert_eq!(place(QueueKey::Signal { id: id(1) }).await, of(me, 0));
    assert_eq!(place(QueueKey::Timer { instance, token: 1 }).await, of(None, 0));
    assert_eq!(place(QueueKey::Timer { instance, token: 9 }).await, None);
    assert_eq!(place(QueueKey::Call { instance, token: 1 }).await, of(None, 0));
    assert_eq!(place(QueueKey::Call { instance, token: 2 }).await, of(None, 1));
    assert_eq!(place(QueueKey::Call { instance, token: 3 }).await, of(me, 2));
    assert_eq!(place(QueueKey::Call { instance, token: 9 }).await, None);
    assert_eq!(place(QueueKey::Delivery { id: id(9) }).await, None);
}

pub(crate) async fn limit_holds(opened: &Opened) {
    opened.put((0..20).map(|n| Write::Timer(timer(n, 20 - n as i64, None))).collect()).await;
    let tokens = |rows: Vec<TimerRow>| rows.into_iter().map(|row| row.token).collect::<Vec<_>>();
    assert_eq!(tokens(timers(opened, 100, 3).await), [19, 18, 17]);
    assert_eq!(tokens(timers(opened, 100, 2).await), [16, 15]);
    assert!(timers(opened, 100, 0).await.is_empty());
    // Tokens use all of their 64 bits.
    opened.put(vec![Write::Call(call(u64::MAX, 0, None))]).await;
    assert_eq!(calls(opened, 0, 1).await[0].token, u64::MAX);
    opened.put(vec![Write::ConsumeCall { instance: id(1), token: u64::MAX }]).await;
}

pub(crate) async fn an_outlook_says_what_every_pump_would_ask(opened: &Opened) {
    let (store, workers) = (&opened.store, ["mail".to_owned()]);
    let outlook = async |workers: &[String]| store.outlook(node(1), Time(50), workers).await.unwrap();
    let nothing = outlook(&workers).await;
    assert_eq!(
        (nothing.queues, nothing.slots, nothing.deliveries, nothing.outbox),
        (None, None, None, false)
    );
    opened.put(vec![Write::Timer(timer(1, 600, None)), Write::Call(call(1, 100, Some(node(1))))]).await;
    let delivery = DeliveryRow {
        id: id(9),
        worker: "mail".into(),
        events: [id(8)].into_iter().collect(),
        order_key: None,
        created_at: Time(30),
        visible_at: Time(40),
        attempt: 0,
        last_error: None,
        owner: None,
        taken_over: 0,
        traced: store::rows::Traced::default(),
    };
    let event = OutboxRow {
        id: id(7),
        key: "k".into(),
        event_type: "t".into(),
        event: b"{}".to_vec(),
        created_at: Time(1),
    };
    opened.put(vec![Write::Delivery(Box::new(delivery)), Write::Outbox(event)]).await;
    let full = outlook(&workers).await;
    assert_eq!((full.queues, full.deliveries), (Some(Time(600)), Some(Time(40))));
    assert!(full.outbox && full.owns, "{full:?}");
    assert_eq!(outlook(&[]).await.deliveries, None, "of workers that are not this node's");
}
