//! Deliveries: claimed by worker and tenant, lent to who asks, in order where there is a key; and workers of tenants.

use super::Opened;
use crate::fixture::*;
use machine::{TenantId, Time, time::Span};
use store::{rows::*, views::DeliveryFilter, *};
use uuid::Uuid;

fn keyed(number: u128, key: &str) -> DeliveryRow {
    DeliveryRow { order_key: Some(key.into()), ..delivery(number, "mail", 10) }
}

fn write(row: DeliveryRow) -> Write {
    Write::Delivery(Box::new(row))
}

async fn claim(opened: &Opened, workers: &[&str], now: i64, limit: usize) -> Vec<Claimed<DeliveryRow>> {
    let workers = workers.iter().map(|name| (*name).to_owned()).collect();
    let ask = DeliveryAsk {
        node: node(1),
        now: Time(now),
        limit,
        workers,
        full: vec![],
        full_of: vec![],
        pace: None,
    };
    opened.store.claim_deliveries(&ask).await.unwrap()
}

async fn ids(opened: &Opened, workers: &[&str], now: i64, limit: usize) -> Vec<Uuid> {
    claim(opened, workers, now, limit).await.into_iter().map(|one| one.row.id).collect()
}

fn loan(now: i64, until: i64) -> Loan {
    Loan { worker: "mail".into(), now: Time(now), until: Time(until), limit: 10, pace: None, lent_max: None }
}

pub(crate) async fn a_node_claims_for_the_workers_that_it_has(opened: &Opened) {
    let several = [id(7), id(8), id(9)];
    let packed = DeliveryRow { events: several.into_iter().collect(), ..delivery(2, "mail", 20) };
    opened
        .put(vec![write(delivery(1, "ship", 10)), write(packed.clone()), write(delivery(3, "mail", 90))])
        .await;
    opened.put(vec![write(DeliveryRow { owner: Some(node(1)), ..delivery(4, "mail", 5) })]).await;
    let next = async |worker: &str| opened.store.next_delivery(&[worker.to_owned()]).await.unwrap();
    assert_eq!(
        (next("mail").await, next("ship").await, next("none").await),
        (Some(Time(20)), Some(Time(10)), None)
    );
    let claimed = claim(opened, &["mail", "none"], 50, 10).await;
    let expected = DeliveryRow { owner: Some(node(1)), ..packed };
    assert_eq!(claimed, [Claimed { tenant: acme(), row: expected.clone() }]);
    assert_eq!(claimed[0].row.events.iter().collect::<Vec<_>>(), several);
    assert_eq!(claim(opened, &["mail"], 50, 10).await, [], "owned now");
    assert_eq!(next("mail").await, Some(Time(90)));
    // What was claimed or born owned is known, and goes back by name.
    let owned = opened.store.owned(node(1), 10).await.unwrap();
    let mut owned: Vec<QueueKey> = owned.into_iter().map(|one| one.row).collect();
    owned.sort();
    assert_eq!(owned, [QueueKey::Delivery { id: id(2) }, QueueKey::Delivery { id: id(4) }]);
    opened.put(vec![Write::Release { row: expected.key(), owner: node(1) }]).await;
    assert_eq!(ids(opened, &["ship", "mail"], 50, 10).await, [id(1), id(2)]);
    assert_eq!(opened.store.counts(Some(&acme())).await.unwrap().deliveries, 4);
    let listed = async |worker: Option<&str>, after| {
        let filter = DeliveryFilter { worker: worker.map(str::to_owned), ..DeliveryFilter::default() };
        let rows = opened.store.deliveries(&acme(), &filter, after, 10).await.unwrap();
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(listed(None, None).await, [1, 2, 3, 4].map(id));
    assert_eq!(listed(Some("mail"), Some(id(2))).await, [3, 4].map(id));
}

pub(crate) async fn every_tenant_gets_its_share(opened: &Opened) {
    let other = tenant("zoo");
    opened.put((1..=20).map(|n| write(delivery(n, "mail", n as i64))).collect()).await;
    let writes = (30..34).map(|n| write(delivery(n, "mail", 25))).collect();
    opened.commit(vec![Commit { tenant: other.clone(), writes }]).await;
    let claimed = claim(opened, &["mail"], 100, 6).await;
    let of_other = claimed.iter().filter(|one| one.tenant == other).count();
    assert_eq!((claimed.len(), of_other), (6, 3));
    let ask = DeliveryAsk {
        node: node(1),
        now: Time(100),
        limit: 6,
        workers: vec!["mail".into()],
        full: vec![acme()],
        full_of: vec![],
        pace: None,
    };
    // A worker may have enough of one tenant's, and go on with another's.
    let full_of = vec![(other.clone(), "mail".to_owned()), (acme(), "ship".to_owned())];
    let but = DeliveryAsk { limit: 1, full: vec![], full_of, ..ask.clone() };
    assert_eq!(opened.store.claim_deliveries(&but).await.unwrap()[0].tenant, acme());
    let claimed = opened.store.claim_deliveries(&ask).await.unwrap();
    assert!(claimed.len() == 1 && claimed.iter().all(|one| one.tenant == other), "{claimed:?}");
}

pub(crate) async fn what_is_lent_is_counted_until_it_is_answered(opened: &Opened) {
    opened.put((1..=3).map(|n| write(delivery(n, "mail", 1))).collect()).await;
    let loans = async |now| opened.store.loans(&acme(), "mail", Time(now)).await.unwrap();
    assert_eq!(loans(10).await, Loans::default());
    let loan = |limit, pace| Loan {
        worker: "mail".into(),
        now: Time(10),
        until: Time(50),
        limit,
        pace,
        lent_max: None,
    };
    assert_eq!(opened.store.lend(&acme(), &loan(2, None)).await.unwrap().len(), 2);
    assert_eq!((loans(20).await.lent, loans(60).await.lent), (2, 0), "those whose time is over are nobody's");
    let other = opened.store.loans(&tenant("zoo"), "mail", Time(20)).await.unwrap();
    assert_eq!(other, Loans::default());
    let pace = Pace { every: Span(1_000), burst: 1 };
    assert_eq!(opened.store.lend(&acme(), &loan(2, Some(pace))).await.unwrap().len(), 1);
    assert_eq!(loans(20).await, Loans { lent: 3, next_turn: Some(Time(1_010)) });
}

pub(crate) async fn of_one_key_one_comes_after_the_other(opened: &Opened) {
    opened
        .put(vec![
            write(keyed(1, "a")),
            write(keyed(2, "a")),
            write(keyed(3, "b")),
            write(delivery(4, "mail", 10)),
        ])
        .await;
    assert_eq!(ids(opened, &["mail"], 50, 10).await, [id(1), id(3), id(4)]);
    assert!(ids(opened, &["mail"], 50, 10).await.is_empty(), "the one before is under way");
    let owner = Some(node(1));
    let retry = Write::RetryDelivery { id: id(1), owner, visible_at: Time(80), attempt: 1, last_error: None };
    opened.put(vec![retry]).await;
    assert!(ids(opened, &["mail"], 50, 10).await.is_empty(), "the one before comes again");
    assert_eq!(ids(opened, &["mail"], 80, 10).await, [id(1)]);
    opened.put(vec![Write::ConsumeDelivery { id: id(1), attempt: 1 }]).await;
    assert_eq!(ids(opened, &["mail"], 80, 10).await, [id(2)]);
}

/// Ids that are made in the same moment say nothing about the order.
pub(crate) async fn they_come_in_the_order_in_which_they_were_written(opened: &Opened) {
    let of = |numbers: [u128; 3], key: &str| commit(numbers.map(|n| write(keyed(n, key))).to_vec());
    let free = [33, 32, 31].map(|n| write(delivery(n, "ship", 10)));
    opened.commit(vec![of([9, 7, 8], "a"), of([3, 1, 2], "b"), commit(free.to_vec())]).await;
    for (a, b) in [(9, 3), (7, 1), (8, 2)] {
        assert_eq!(ids(opened, &["mail"], 50, 10).await, [id(a), id(b)]);
        let done = [a, b].map(|n| Write::ConsumeDelivery { id: id(n), attempt: 0 });
        opened.put(done.to_vec()).await;
    }
    assert_eq!(ids(opened, &["ship"], 50, 10).await, [33, 32, 31].map(id));
}

pub(crate) async fn a_delivery_says_what_comes_before_it(opened: &Opened) {
    opened.put(vec![write(keyed(1, "a")), write(keyed(2, "a")), write(keyed(3, "b"))]).await;
    opened.put(vec![write(delivery(4, "mail", 90)), write(delivery(5, "ship", 95))]).await;
    let place =
        async |number| opened.store.place(&acme(), QueueKey::Delivery { id: id(number) }).await.unwrap();
    let of = |owner, ahead, behind| Some(views::Place { owner, ahead, behind, lent: false });
    assert_eq!(place(1).await, of(None, 0, None));
    assert_eq!(place(2).await, of(None, 0, Some(id(1))));
    assert_eq!(place(3).await, of(None, 0, None));
    assert_eq!(place(4).await, of(None, 3, None));
    assert_eq!(place(5).await, of(None, 0, None));
    assert_eq!(ids(opened, &["ship"], 99, 9).await, [id(5)]);
    assert_eq!(place(5).await, of(Some(node(1)), 0, None));
}

pub(crate) async fn what_is_lent_comes_back_unless_it_is_answered(opened: &Opened) {
    opened.put(vec![write(delivery(1, "mail", 10)), write(delivery(2, "ship", 10))]).await;
    let lend = async |now, until| opened.store.lend(&acme(), &loan(now, until)).await.unwrap();
    let lent = lend(20, 60).await;
    assert_eq!(lent, [DeliveryRow { visible_at: Time(60), attempt: 1, ..delivery(1, "mail", 10) }]);
    assert_eq!(lend(59, 99).await, []);
    assert_eq!(opened.store.lend(&tenant("zoo"), &loan(99, 100)).await.unwrap(), []);
    // Whoever says that it goes on has longer.
    opened.put(vec![Write::ExtendDelivery { id: id(1), attempt: 1, visible_at: Time(70) }]).await;
    assert_eq!(lend(69, 99).await, []);
    assert_eq!(lend(70, 99).await[0].attempt, 2);
    // Whoever had it first is too late, whatever it says.
    let late = [
        Write::ConsumeDelivery { id: id(1), attempt: 1 },
        Write::ExtendDelivery { id: id(1), attempt: 1, visible_at: Time(500) },
    ];
    for write in late {
        assert_eq!(opened.commit(vec![commit(vec![write])]).await, [Outcome::Conflict(Conflict::Gone)]);
    }
    let failed = Write::RetryDelivery {
        id: id(1),
        owner: None,
        visible_at: Time(200),
        attempt: 2,
        last_error: Some(b"no".to_vec()),
    };
    opened.put(vec![failed]).await;
    let stored = opened.store.delivery(&acme(), id(1)).await.unwrap().unwrap();
    assert_eq!((stored.visible_at, stored.attempt, stored.last_error), (Time(200), 2, Some(b"no".to_vec())));
    opened.put(vec![Write::ConsumeDelivery { id: id(1), attempt: 2 }]).await;
    assert_eq!(opened.store.delivery(&acme(), id(1)).await.unwrap(), None);
}

pub(crate) async fn a_node_that_is_taken_over_loses_its_deliveries(opened: &Opened) {
    opened.put(vec![write(DeliveryRow { owner: Some(node(1)), ..delivery(1, "mail", 10) })]).await;
    opened.store.join(node(2), Time(0), LEASE_MS).await.unwrap();
    let later = Time(LEASE_MS * 2_000);
    opened.store.take_over(node(2), later).await.unwrap();
    let ask = DeliveryAsk {
        node: node(2),
        now: later,
        limit: 10,
        workers: vec!["mail".into()],
        full: vec![],
        full_of: vec![],
        pace: None,
    };
    let of_the_dead = DeliveryAsk { node: node(1), ..ask.clone() };
    assert_eq!(opened.store.claim_deliveries(&of_the_dead).await, Err(Error::Fenced));
    assert_eq!(opened.store.claim_deliveries(&ask).await.unwrap().len(), 1);
}

pub(crate) async fn an_event_stays_while_it_may_be_waited_for(opened: &Opened) {
    let event = |number: u128, delivered, at: i64| {
        Write::Publish(Box::new(EventRow {
            id: id(number),
            source: "s".into(),
            event_id: number.to_string(),
            event_type: "order".into(),
            received_at: Time(at),
            visible_at: Time(at),
            kept_until: None,
            expires_at: Time(at + 500_000_000),
            told: 0,
            taken: 0,
            started: 0,
            collected: 0,
            delivered,
            emitted_by: None,
            traced: Traced::default(),
            event: b"{}".to_vec(),
        }))
    };
    let (early, late) = (1_000_000, 100_000_000);
    opened.put(vec![event(1, 1, early), event(2, 0, early), event(3, 1, late), event(4, 1, early)]).await;
    let waiting = DeliveryRow { events: [id(3)].into_iter().collect(), ..delivery(9, "mail", late + 5) };
    opened.put(vec![write(waiting)]).await;
    let purge = async || opened.store.purge_events(Time(i64::MAX), 10).await.unwrap();
    assert_eq!(purge().await, 3, "all that is older than what is waited for, and what nobody was given");
    assert_eq!(opened.store.events_of(&acme(), &[id(3), id(1)]).await.unwrap().len(), 1);
    opened.put(vec![Write::ConsumeDelivery { id: id(9), attempt: 0 }]).await;
    assert_eq!(purge().await, 1);
}

pub(crate) async fn workers_are_put_changed_and_deleted(opened: &Opened) {
    let row = |version, text: &str| WorkerRow {
        name: "mail".into(),
        declaration: text.as_bytes().to_vec(),
        row_version: version,
        created_at: Time(1),
        updated_at: Time(version),
    };
    let put = async |row: WorkerRow, expected_version| {
        opened.commit(vec![commit(vec![Write::PutWorker { row, expected_version }])]).await.remove(0)
    };
    assert_eq!(put(row(1, "{}"), 0).await, Outcome::Committed);
    assert_eq!(put(row(1, "{}"), 0).await, Outcome::Conflict(Conflict::Version));
    assert_eq!(put(row(3, "{}"), 2).await, Outcome::Conflict(Conflict::Version));
    assert_eq!(put(row(2, "[]"), 1).await, Outcome::Committed);
    assert_eq!(opened.store.workers().await.unwrap(), [Claimed { tenant: acme(), row: row(2, "[]") }]);
    let delete = || vec![commit(vec![Write::DeleteWorker { name: "mail".into() }])];
    assert_eq!(opened.commit(delete()).await, [Outcome::Committed]);
    assert_eq!(opened.commit(delete()).await, [Outcome::Conflict(Conflict::Gone)]);
    assert_eq!(opened.store.workers().await.unwrap(), []);
}

pub(crate) async fn types_of_events_are_put_changed_and_deleted(opened: &Opened) {
    let put = async |row: EventTypeRow, expected_version| {
        opened.commit(vec![commit(vec![Write::PutEventType { row, expected_version }])]).await.remove(0)
    };
    let changed = EventTypeRow { schema: b"true".to_vec(), updated_at: Time(9), ..event_type("paid", 2) };
    assert_eq!(put(event_type("paid", 1), 0).await, Outcome::Committed);
    assert_eq!(put(event_type("paid", 1), 0).await, Outcome::Conflict(Conflict::Version));
    assert_eq!(put(event_type("paid", 3), 2).await, Outcome::Conflict(Conflict::Version));
    assert_eq!(put(changed.clone(), 1).await, Outcome::Committed);
    assert_eq!(opened.store.event_types().await.unwrap(), [Claimed { tenant: acme(), row: changed }]);
    let delete = || vec![commit(vec![Write::DeleteEventType { name: "paid".into() }])];
    assert_eq!(opened.commit(delete()).await, [Outcome::Committed]);
    assert_eq!(opened.commit(delete()).await, [Outcome::Conflict(Conflict::Gone)]);
    assert_eq!(opened.store.event_types().await.unwrap(), []);
}

pub(crate) async fn queues_say_how_much_they_hold(opened: &Opened) {
    let store = &opened.store;
    let beta = tenant("beta");
    let kept = async |of: Option<&TenantId>| -> Vec<(&'static str, String, u64)> {
        let rows = store.queues(of).await.unwrap();
        rows.into_iter().map(|row| (row.kind.word(), row.name, row.depth)).collect()
    };
    let is = |kind: &'static str, name: &str, depth: u64| (kind, name.to_owned(), depth);
    opened.put(vec![write(delivery(1, "mail", 10)), write(delivery(2, "mail", 90))]).await;
    assert_eq!(kept(None).await, [is("delivery", "mail", 2)], "what was there before anybody asked");
    let owned = DeliveryRow { owner: Some(node(1)), ..delivery(3, "mail", 10) };
    opened.put(vec![write(owned), write(delivery(4, "index", 20)), Write::Call(call(1, 5, None))]).await;
    let other = Commit { tenant: beta.clone(), writes: vec![write(delivery(1, "mail", 5))] };
    assert_eq!(opened.commit(vec![other]).await, [Outcome::Committed]);
    let target = call(1, 5, None).target;
    assert_eq!(
        kept(Some(&acme())).await,
        [is("call", &target, 1), is("delivery", "index", 1), is("delivery", "mail", 3)]
    );
    assert_eq!(kept(None).await[2], is("delivery", "mail", 4));
    let unclaimed = store.unclaimed(&acme(), "mail", Time(50)).await.unwrap();
    assert_eq!(unclaimed, Unclaimed { ready: 1, later: 1, oldest: Some(Time(10)) });
    let workers = ["mail", "index", "none"].map(str::to_owned);
    let mut oldest = store.oldest(&workers).await.unwrap();
    oldest.sort();
    assert_eq!(oldest, [("index".to_owned(), Time(20)), ("mail".to_owned(), Time(5))]);
    // A commit that loses, and one that spoils a batch, count nothing.
    let twice = vec![Write::ConsumeDelivery { id: id(4), attempt: 0 }, write(delivery(1, "mail", 1))];
    let gone = vec![write(delivery(9, "mail", 1)), Write::ConsumeDelivery { id: id(8), attempt: 0 }];
    let fine = vec![Write::ConsumeDelivery { id: id(3), attempt: 0 }];
    let ended = opened.commit([twice, gone, fine].into_iter().map(commit).collect()).await;
    assert!(matches!(ended[0], Outcome::Rejected(_)) && ended[2] == Outcome::Committed, "{ended:?}");
    assert_eq!(kept(Some(&acme())).await[1..], [is("delivery", "index", 1), is("delivery", "mail", 2)]);
    // Held back, retried, dropped.
    let held_back = |number: u128| Write::Debounce {
        row: Box::new(delivery(number, "late", 40)),
        key: "k".into(),
        until: Time(99),
    };
    opened.put(vec![held_back(20)]).await;
    opened.put(vec![held_back(21)]).await;
    let (instance, token) = (call(1, 5, None).instance, 1);
    opened.put(vec![Write::DropCall { instance, token }]).await;
    opened.put(vec![Write::DropCall { instance, token }]).await;
    assert_eq!(
        kept(Some(&acme())).await,
        [is("delivery", "index", 1), is("delivery", "late", 1), is("delivery", "mail", 2)]
    );
    // What connections have counted is put together, and says the same.
    while store.retire(Time(0)).await.unwrap() {}
    assert_eq!(kept(Some(&beta)).await, [is("delivery", "mail", 1)]);
    assert_eq!(kept(None).await[2], is("delivery", "mail", 3));
}

pub(crate) async fn what_waits_is_counted_by_worker(opened: &Opened) {
    let rows = [delivery(1, "bus:a", 30), delivery(2, "bus:a", 10), delivery(3, "mail", 5)];
    opened.put(rows.into_iter().map(write).collect()).await;
    opened.put(vec![write(DeliveryRow { owner: Some(node(1)), ..delivery(4, "bus:a", 40) })]).await;
    let depths = async |workers: &[&str]| {
        let workers: Vec<String> = workers.iter().map(|name| (*name).to_owned()).collect();
        opened.store.depths(&workers).await.unwrap()
    };
    let expected = Depth { worker: "bus:a".into(), rows: 3, oldest: Time(10) };
    assert_eq!(depths(&["bus:a", "bus:b"]).await, [expected]);
    assert_eq!(depths(&["bus:a", "mail"]).await.len(), 2);
    assert_eq!(depths(&[]).await, []);
}

pub(crate) async fn of_events_that_are_held_back_the_last_is_delivered_once(opened: &Opened) {
    let debounce = |number: u128, worker: &str, key: &str, at: i64| Write::Debounce {
        row: Box::new(DeliveryRow { visible_at: Time(at + 10), ..delivery(number, worker, at) }),
        key: key.into(),
        until: Time(at + 25),
    };
    for at in 0..4 {
        opened.put(vec![debounce(10 + at as u128, "mail", "a", 100 + at * 5)]).await;
    }
    // Another key, another worker, and another tenant's are others.
    opened.put(vec![debounce(20, "mail", "b", 100), debounce(21, "ship", "a", 100)]).await;
    let other = Commit { tenant: tenant("zoo"), writes: vec![debounce(22, "mail", "a", 100)] };
    opened.commit(vec![other]).await;
    assert_eq!(ids(opened, &["mail"], 110, 10).await.len(), 2, "`b`, and that of the other tenant");
    assert!(ids(opened, &["mail"], 124, 10).await.is_empty(), "put off, but not for ever");
    let claimed = claim(opened, &["mail"], 125, 10).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].row.events.iter().collect::<Vec<_>>(), [id(1_013)]);
    // What is under way is left alone, also if it goes back.
    opened.put(vec![debounce(14, "mail", "a", 130)]).await;
    opened.put(vec![Write::Release { row: claimed[0].row.key(), owner: node(1) }]).await;
    assert_eq!(ids(opened, &["mail"], 140, 10).await, [id(10), id(14)]);
    // Two of one batch, and two of one commit.
    let batch = vec![
        commit(vec![debounce(30, "mail", "c", 200)]),
        commit(vec![debounce(31, "mail", "c", 201), debounce(32, "mail", "c", 202)]),
    ];
    assert_eq!(opened.commit(batch).await, [Outcome::Committed, Outcome::Committed]);
    let lent = opened.store.lend(&acme(), &loan(300, 400)).await.unwrap();
    assert_eq!(lent.len(), 1);
    assert_eq!(lent[0].events.iter().collect::<Vec<_>>(), [id(1_032)]);
    opened.put(vec![debounce(33, "mail", "c", 300)]).await;
    assert_eq!(opened.store.lend(&acme(), &loan(310, 400)).await.unwrap()[0].id, id(33));
}

pub(crate) async fn a_pace_is_kept_by_claims_and_loans(opened: &Opened) {
    opened.put((1..=20).map(|n| write(delivery(n, "mail", 10))).collect()).await;
    let pace = Some(Pace { every: machine::time::Span(100), burst: 2 });
    let ask = |now| DeliveryAsk {
        node: node(1),
        now: Time(now),
        limit: 10,
        workers: vec!["mail".into()],
        full: vec![],
        full_of: vec![],
        pace,
    };
    let claim = async |now| opened.store.claim_deliveries(&ask(now)).await.unwrap().len();
    let next = async || opened.store.next_delivery(&["mail".to_owned()]).await.unwrap();
    assert_eq!((claim(1_000).await, claim(1_000).await), (2, 0));
    assert_eq!(next().await, Some(Time(1_100)));
    assert_eq!((claim(1_099).await, claim(1_100).await, claim(1_199).await), (0, 1, 0));
    let paced = |now| Loan { pace, ..loan(now, now + 5_000) };
    let lend = async |now| opened.store.lend(&acme(), &paced(now)).await.unwrap().len();
    assert_eq!((lend(1_200).await, claim(1_299).await, lend(9_000).await), (1, 0, 2));
    assert_eq!(
        opened.store.delivery(&acme(), id(20)).await.unwrap().unwrap().attempt,
        0,
        "no attempt is used up"
    );
}

pub(crate) async fn no_more_are_lent_at_once_than_allowed(opened: &Opened) {
    opened.put((1..=5).map(|n| write(delivery(n, "mail", 10))).collect()).await;
    let lend = async |now, until| {
        let bounded = Loan { lent_max: Some(2), ..loan(now, until) };
        let mut lent: Vec<Uuid> =
            opened.store.lend(&acme(), &bounded).await.unwrap().iter().map(|row| row.id).collect();
        lent.sort();
        lent
    };
    assert_eq!(lend(20, 60).await, [id(1), id(2)]);
    assert!(lend(30, 60).await.is_empty());
    opened.put(vec![Write::ConsumeDelivery { id: id(1), attempt: 1 }]).await;
    assert_eq!(lend(31, 60).await, [id(3)]);
    // One that failed and comes again later is nobody's meanwhile.
    let (visible_at, last_error) = (Time(500), None);
    let retry = Write::RetryDelivery { id: id(2), owner: None, visible_at, attempt: 1, last_error };
    opened.put(vec![retry]).await;
    assert_eq!(lend(32, 60).await, [id(4)]);
    assert_eq!(lend(60, 90).await, [id(3), id(5)], "those that were not answered in time are free");
}

pub(crate) async fn a_watermark_is_moved_by_who_knows_it(opened: &Opened) {
    let mark = |version: i64, value: &str| WatermarkRow {
        name: "position".into(),
        value: value.as_bytes().to_vec(),
        version,
        updated_at: Time(version),
    };
    let put = async |row: WatermarkRow, expected_version| {
        let write = Write::MoveWatermark { worker: "mail".into(), row, expected_version };
        opened.commit(vec![commit(vec![write])]).await.remove(0)
    };
    let lost = Outcome::Conflict(Conflict::Version);
    assert_eq!((put(mark(2, "1"), 1).await, put(mark(1, "1"), 0).await), (lost.clone(), Outcome::Committed));
    assert_eq!((put(mark(1, "9"), 0).await, put(mark(2, "2"), 1).await), (lost.clone(), Outcome::Committed));
    assert_eq!(put(mark(2, "3"), 1).await, lost);
    assert_eq!(opened.store.watermarks(&acme(), "mail").await.unwrap(), [mark(2, "2")]);
    assert_eq!(opened.store.watermarks(&tenant("zoo"), "mail").await.unwrap(), []);
    assert_eq!(opened.store.watermarks(&acme(), "ship").await.unwrap(), []);
    let taken = [inbox("k"), inbox("l")].map(Write::ClaimKey);
    opened.put(taken.to_vec()).await;
    let scope = inbox("k").scope;
    let asked = ["l".to_owned(), "m".to_owned()];
    assert_eq!(opened.store.taken(&acme(), &scope, &asked).await.unwrap(), ["l"]);
    assert!(opened.store.taken(&tenant("zoo"), &scope, &asked).await.unwrap().is_empty());
}
