//! Events and who wants them: told in the same commit, whichever came first, and each instance once.

use super::{Opened, feed::read_on};
use crate::fixture::*;
use machine::Time;
use store::{feed::FeedCursor, rows::*, views::*, *};

pub(super) fn publish(row: &EventRow) -> Write {
    Write::Publish(Box::new(row.clone()))
}

fn wants(kind: Option<&str>, key: Option<(&str, &str)>) -> SubscriptionRow {
    SubscriptionRow {
        event_type: kind.map(str::to_owned),
        key: key.map(|(path, value)| (path.to_owned(), value.to_owned())),
    }
}

fn listen(instance: u128, token: u64, want: SubscriptionRow) -> Write {
    let subscriber = Subscriber::Listen { instance: id(instance), token };
    Write::Subscribe { subscriber, wants: vec![want], now: Time(20), visible_at: Time(20) }
}

/// (instance, token) of every signal that is due.
async fn told(opened: &Opened) -> Vec<(u128, String)> {
    let claimed = opened.store.claim_signals(node(1), Time(1_000), 100).await.unwrap();
    let mut told: Vec<(u128, String)> = claimed
        .into_iter()
        .map(|one| {
            let envelope: serde_json::Value = serde_json::from_slice(&one.row.envelope).unwrap();
            let number = one.row.instance.as_u128() - id(0).as_u128();
            (
                number,
                format!("{}:{}", envelope["waitingToken"].as_str().unwrap(), envelope["payload"]["direct"]),
            )
        })
        .collect();
    told.sort();
    told
}

pub(crate) async fn an_event_is_told_to_every_wait_that_wants_it(opened: &Opened) {
    opened
        .put(vec![
            listen(1, 7, wants(Some("paid"), None)),
            listen(2, 7, wants(Some("paid"), Some((".data.order", "\"a\"")))),
            listen(3, 7, wants(Some("paid"), Some((".data.order", "\"b\"")))),
            listen(4, 7, wants(None, None)),
            listen(5, 7, wants(Some("sent"), None)),
            listen(6, 7, wants(Some("paid"), Some((".data.n", "2")))),
            listen(1, 8, wants(Some("paid"), None)),
        ])
        .await;
    let row = event(1, "paid", "{\"order\":\"a\",\"n\":2.0}");
    opened.put(vec![publish(&row)]).await;
    let (seven, eight) = ("7:true".to_owned(), "8:true".to_owned());
    let expected = [(1, seven.clone()), (1, eight), (2, seven.clone()), (4, seven.clone()), (6, seven)];
    assert_eq!(told(opened).await, expected);
    assert_eq!(opened.store.event(&acme(), id(1)).await.unwrap().unwrap().told, 5);
    // Published again it is a duplicate, and nobody is told.
    let again = EventRow { id: id(2), event_id: "e1".into(), ..row };
    assert_eq!(
        opened.commit(vec![commit(vec![publish(&again)])]).await,
        [Outcome::Conflict(Conflict::Duplicate)]
    );
    assert_eq!(told(opened).await, []);
    let there = opened.store.event_of(&acme(), "s", "e1").await.unwrap().unwrap();
    assert_eq!((there.id, there.kept_until), (id(1), Some(Time(1_000))));
    opened.put(vec![Write::EventTaken { id: id(1) }]).await;
    let there = opened.store.event(&acme(), id(1)).await.unwrap().unwrap();
    assert_eq!((there.taken, there.kept_until), (1, None));
    opened
        .put(vec![Write::Unsubscribe { subscriber: Subscriber::Listen { instance: id(1), token: 7 } }])
        .await;
    opened.put(vec![publish(&event(3, "paid", "{}"))]).await;
    assert_eq!(told(opened).await, [(1, "8:true".to_owned()), (4, "7:true".to_owned())]);
}

pub(crate) async fn a_kept_event_is_told_to_whoever_begins_to_wait(opened: &Opened) {
    assert!(!opened.store.keeps_events().await.unwrap());
    opened.put(vec![publish(&event(1, "paid", "{\"order\":\"a\"}")), publish(&event(2, "sent", "1"))]).await;
    let gone = EventRow { kept_until: Some(Time(15)), ..event(3, "paid", "{}") };
    opened.put(vec![publish(&gone)]).await;
    assert!(opened.store.keeps_events().await.unwrap());
    let late = "7:false".to_owned();
    opened.put(vec![listen(1, 7, wants(Some("paid"), Some((".data.order", "\"a\""))))]).await;
    opened.put(vec![listen(2, 7, wants(Some("paid"), Some((".data.order", "\"b\""))))]).await;
    opened.put(vec![listen(3, 7, wants(Some("paid"), None))]).await;
    opened.put(vec![listen(4, 7, wants(None, None))]).await;
    let all = [(1, late.clone()), (3, late.clone()), (4, late.clone()), (4, late)];
    assert_eq!(told(opened).await, all);
    // Each instance once, whatever it waits for next.
    opened.put(vec![listen(3, 9, wants(Some("paid"), None))]).await;
    assert_eq!(told(opened).await, []);
    let other = Commit { tenant: tenant("other"), writes: vec![listen(8, 7, wants(Some("paid"), None))] };
    opened.commit(vec![other]).await;
    assert_eq!(told(opened).await, []);
}

pub(crate) async fn kept_events_are_bounded_and_purged(opened: &Opened) {
    opened.put((1..=1_005).map(|number| publish(&event(number, "paid", "1"))).collect()).await;
    opened.put(vec![listen(1, 7, wants(Some("paid"), None))]).await;
    assert_eq!(opened.store.counts(None).await.unwrap().signals, 1_000);
    assert_eq!(opened.store.event(&acme(), id(5)).await.unwrap().unwrap().kept_until, None);
    let page = Page { after: None, limit: 2 };
    let filter = EventFilter { event_type: Some("paid".into()), ..EventFilter::default() };
    let ids: Vec<_> =
        opened.store.events(&acme(), &filter, &page).await.unwrap().into_iter().map(|row| row.id).collect();
    assert_eq!(ids, [id(1_005), id(1_004)]);
    assert_eq!(opened.store.purge_events(Time(4_999), 10_000).await.unwrap(), 0);
    assert_eq!(opened.store.purge_events(Time(5_000), 5).await.unwrap(), 5);
    assert_eq!(opened.store.purge_events(Time(5_000), 10_000).await.unwrap(), 1_000);
}

pub(crate) async fn schedules_want_events_by_type(opened: &Opened) {
    let subscribe = |number, want| Write::Subscribe {
        subscriber: Subscriber::Schedule { id: id(number) },
        wants: vec![want],
        now: Time(0),
        visible_at: Time(0),
    };
    opened.put(vec![subscribe(1, wants(Some("paid"), None)), subscribe(2, wants(None, None))]).await;
    let on = async |kind: &str| opened.store.schedules_on(&acme(), kind, 10).await.unwrap();
    let mut both = on("paid").await;
    both.sort();
    assert_eq!(both, [id(1), id(2)]);
    assert_eq!(on("sent").await, [id(2)]);
    opened.put(vec![publish(&event(1, "paid", "1"))]).await;
    assert_eq!(told(opened).await, [], "schedules are not told by signals");
}

pub(crate) async fn events_and_waits_of_one_batch_meet_in_its_order(opened: &Opened) {
    let batch = [
        listen(1, 7, wants(Some("a"), None)),
        publish(&event(1, "a", "{\"order\":\"x\"}")),
        listen(2, 7, wants(Some("a"), None)),
        publish(&event(2, "b", "1")),
        listen(3, 7, wants(Some("b"), None)),
        listen(4, 7, wants(None, None)),
        publish(&event(3, "c", "1")),
        listen(5, 7, wants(Some("a"), Some((".data.order", "\"x\"")))),
        listen(6, 7, wants(Some("a"), Some((".data.order", "\"y\"")))),
    ];
    let outcomes = opened.commit(batch.into_iter().map(|write| commit(vec![write])).collect()).await;
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Committed), "{outcomes:?}");
    let (direct, late) = ("7:true".to_owned(), "7:false".to_owned());
    let expected = [
        (1, direct.clone()),
        (2, late.clone()),
        (3, late.clone()),
        (4, late.clone()),
        (4, late.clone()),
        (4, direct),
        (5, late.clone()),
    ];
    assert_eq!(told(opened).await, expected);
    // One instance that waits twice for the same is told once of what came before.
    opened.put(vec![listen(8, 1, wants(Some("b"), None)), listen(8, 2, wants(Some("b"), None))]).await;
    assert_eq!(told(opened).await, [(8, "1:false".to_owned())]);
    // Taken by several of one batch.
    let taken = (0..3).map(|_| commit(vec![Write::EventTaken { id: id(2) }])).collect();
    opened.commit(taken).await;
    assert_eq!(opened.store.event(&acme(), id(2)).await.unwrap().unwrap().taken, 3);
    // A batch with one that is known already: the others are told of.
    let batch = [event(1, "a", "{}"), event(9, "a", "{}")].map(|row| commit(vec![publish(&row)]));
    let outcomes = opened.commit(batch.into()).await;
    assert_eq!(outcomes, [Outcome::Conflict(Conflict::Duplicate), Outcome::Committed]);
    assert_eq!(told(opened).await.len(), 3);
}

pub(crate) async fn who_emitted_an_event_is_kept(opened: &Opened) {
    let emitted = EventRow { emitted_by: Some("ins_1".into()), ..event(1, "a", "1") };
    opened.put(vec![publish(&emitted), publish(&event(2, "a", "2"))]).await;
    let by = |row: EventRow| row.emitted_by;
    let one = opened.store.event(&acme(), id(1)).await.unwrap().unwrap();
    assert_eq!(by(one).as_deref(), Some("ins_1"));
    let feed = read_on(opened, &acme(), FeedCursor::default(), 10, 2).await;
    let feed: Vec<_> = feed.into_iter().map(|item| by(item.row)).collect();
    assert_eq!(feed, [Some("ins_1".to_owned()), None]);
    let both = opened.store.events_of(&acme(), &[id(2), id(1)]).await.unwrap();
    assert_eq!(both.into_iter().map(by).collect::<Vec<_>>(), [None, Some("ins_1".to_owned())]);
}
