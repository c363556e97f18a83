//! Retention: what ended long ago goes with all its rows, whatever is needed stays, and one call is never long.

use super::Opened;
use crate::fixture::*;
use machine::Time;
use store::{datasets::*, rows::*, views::*, *};

/// An instance that ended at `at`.
fn ended(number: u128, status: &str, at: i64) -> InstanceRow {
    InstanceRow { status: status.into(), ended_at: Some(Time(at)), ..instance(number) }
}

fn child(number: u128, parent: u128, status: &str) -> InstanceRow {
    let parent = Some(ParentRow { instance: id(parent), token: 1, item: None });
    let at = (status != "running").then_some(Time(10));
    InstanceRow { parent, ended_at: at, ..ended(number, status, 10) }
}

/// Everything that ended before 100; faulted before 50; keys before 30.
fn everything() -> Purge {
    Purge {
        ended_before: Time(100),
        faulted_before: Time(50),
        keys_before: Time(30),
        keys_kept: machine::time::Span::ZERO,
        retry_longest: machine::time::Span::ZERO,
        after: None,
        limit: PURGE_MAX,
    }
}

async fn left(opened: &Opened) -> Vec<u128> {
    let page = Page { after: None, limit: PAGE_MAX };
    let all = opened.store.instances(&acme(), &InstanceFilter::default(), &page).await.unwrap();
    let mut left: Vec<u128> = all.iter().map(|view| view.row.id.as_u128() - id(0).as_u128()).collect();
    left.sort_unstable();
    left
}

pub(crate) async fn an_instance_goes_with_all_its_rows(opened: &Opened) {
    let store = &opened.store;
    let record = |scope: &str, key: &str| InboxRow { scope: scope.into(), ..inbox(key) };
    let signal_scope = format!("signal:{}", id(1).simple());
    let set = DatasetRow { id: id(50), count: 2, owner: Some(id(1)), created_at: Time(1) };
    let uploaded = DatasetRow { id: id(51), owner: None, ..set.clone() };
    let items = |dataset| ItemsRow { dataset, first: 0, round: 0, count: 2, items: b"[1,2]".to_vec() };
    opened
        .put(vec![
            create_row(ended(1, "completed", 10)),
            history(1, 1),
            history(1, 2),
            Write::CreateTask(Box::new(TaskRow { status: "completed".into(), ..task(20) })),
            task_event(20, 1, "created"),
            Write::ClaimKey(record(&signal_scope, "s1")),
            Write::ClaimKey(InboxRow { created_at: Time(30), ..inbox("young") }),
            Write::Items(items(id(50))),
            Write::Items(items(id(51))),
            Write::Dataset(set),
            Write::Dataset(uploaded),
        ])
        .await;
    let purged = store.purge(&everything()).await.unwrap();
    assert_eq!(purged, Purged { instances: 1, ..Purged::default() });
    assert!(store.instance(&acme(), id(1)).await.unwrap().is_none());
    assert!(store.load(&acme(), id(1)).await.unwrap().is_none());
    assert!(store.history(&acme(), id(1), 0, 10).await.unwrap().is_empty());
    assert!(store.task(&acme(), id(20)).await.unwrap().is_none());
    assert!(store.task_events(&acme(), id(20)).await.unwrap().is_empty());
    assert!(store.inbox(&acme(), &signal_scope, "s1").await.unwrap().is_none());
    assert!(store.inbox(&acme(), "start", "young").await.unwrap().is_some());
    assert!(store.dataset(&acme(), id(50)).await.unwrap().is_none());
    assert!(store.dataset_items(&acme(), id(50), 0, 10).await.unwrap().is_empty());
    assert!(store.dataset(&acme(), id(51)).await.unwrap().is_some(), "it belongs to no instance");
    assert_eq!(store.dataset_items(&acme(), id(51), 0, 10).await.unwrap().len(), 1);
    // What was there before may be there again.
    opened.put(vec![create(1)]).await;
}

pub(crate) async fn what_is_needed_stays(opened: &Opened) {
    let young = ended(2, "completed", 100);
    let of = |number| CallRow { instance: id(number), ..call(1, 5, None) };
    opened
        .put(vec![
            create(1),
            create_row(young),
            create_row(ended(3, "faulted", 50)),
            create_row(ended(4, "faulted", 49)),
            create_row(ended(5, "cancelled", 99)),
            // Something of it is not done with.
            create_row(ended(6, "completed", 10)),
            Write::Call(of(6)),
            create_row(ended(7, "completed", 10)),
            Write::Timer(TimerRow { instance: id(7), ..timer(1, 5, None) }),
            create_row(ended(8, "faulted", 10)),
            Write::DeadLetter(Box::new(DeadLetterRow { instance: Some(id(8)), ..dead_letter(60) })),
            // A parent that goes on or may be run again, and one whose child goes on.
            create_row(child(9, 1, "completed")),
            create_row(ended(10, "faulted", 60)),
            create_row(child(11, 10, "completed")),
            create_row(ended(12, "completed", 10)),
            create_row(child(13, 12, "running")),
            // A parent that has ended, and one that is gone.
            create_row(child(14, 2, "completed")),
            create_row(child(15, 99, "completed")),
        ])
        .await;
    let purged = opened.store.purge(&everything()).await.unwrap();
    assert_eq!((purged.instances, purged.next), (4, None));
    assert_eq!(left(opened).await, [1, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13]);
    // Once nobody needs them they go as well.
    opened.put(vec![Write::ConsumeDeadLetter { id: id(60) }]).await;
    assert_eq!(opened.store.purge(&everything()).await.unwrap().instances, 1);
}

pub(crate) async fn keys_of_starts_go_by_age(opened: &Opened) {
    let at = |key: &str, at| Write::ClaimKey(InboxRow { created_at: Time(at), ..inbox(key) });
    let other = InboxRow { scope: "signal:x".into(), ..inbox("old") };
    opened.put(vec![at("a", 1), at("b", 29), at("c", 30), Write::ClaimKey(other)]).await;
    let one = Purge { limit: 1, ..everything() };
    assert_eq!(opened.store.purge(&one).await.unwrap().keys, 1);
    assert_eq!(opened.store.purge(&everything()).await.unwrap().keys, 1);
    assert_eq!(opened.store.purge(&everything()).await.unwrap().keys, 0);
    assert!(opened.store.inbox(&acme(), "start", "c").await.unwrap().is_some());
    assert!(opened.store.inbox(&acme(), "signal:x", "old").await.unwrap().is_some());
}

pub(crate) async fn records_of_due_times_go_by_age(opened: &Opened) {
    let slot = |at: i64, outcome: &str| {
        Write::Slot(SlotRow {
            schedule: id(1),
            slot: Time(at),
            outcome: outcome.into(),
            count: 1,
            instance: None,
            late: machine::time::Span(0),
            at: Time(at),
            detail: None,
        })
    };
    let purge = Purge { ended_before: Time(50), faulted_before: Time(20), ..everything() };
    opened.put(vec![slot(10, "failed"), slot(30, "failed"), slot(40, "fired"), slot(60, "skipped")]).await;
    assert_eq!(opened.store.purge(&Purge { limit: 1, ..purge }).await.unwrap().slots, 1);
    assert_eq!(opened.store.purge(&purge).await.unwrap().slots, 1);
    assert_eq!(opened.store.purge(&purge).await.unwrap().slots, 0);
    let left = opened.store.slots(&acme(), id(1), None, 10).await.unwrap();
    assert_eq!(left.iter().map(|row| row.slot.0).collect::<Vec<_>>(), [60, 30]);
}

pub(crate) async fn a_call_is_bounded_and_goes_on_from_its_mark(opened: &Opened) {
    // Every second one stays, with the same end.
    let rows = (1..=9).map(|number| match number % 2 {
        0 => create_row(ended(number, "faulted", 60)),
        _ => create_row(ended(number, "completed", 60)),
    });
    opened.put(rows.collect()).await;
    let mut purge = Purge { limit: 2, ..everything() };
    let (mut calls, mut instances) = (0, 0);
    loop {
        let purged = opened.store.purge(&purge).await.unwrap();
        (calls, instances) = (calls + 1, instances + purged.instances);
        assert!(purged.instances <= 2);
        purge.after = purged.next;
        if purged.next.is_none() {
            break;
        }
    }
    assert_eq!((calls, instances), (5, 5));
    assert_eq!(left(opened).await, [2, 4, 6, 8]);
}

/// An instance with more rows than one call deletes is there until the last of them has gone.
pub(crate) async fn a_large_instance_takes_several_calls(opened: &Opened) {
    let mut writes = vec![create_row(ended(1, "completed", 10)), create_row(ended(2, "completed", 20))];
    writes.extend((1..=12_000).map(|version| history(1, version)));
    opened.put(writes).await;
    let (mut purge, mut calls) = (everything(), 0);
    loop {
        let purged = opened.store.purge(&purge).await.unwrap();
        calls += 1;
        let there = opened.store.instance(&acme(), id(1)).await.unwrap().is_some();
        assert_eq!(there, purged.next.is_some());
        purge.after = purged.next;
        if purged.next.is_none() {
            break;
        }
    }
    assert!((2..20).contains(&calls), "{calls}");
    assert!(left(opened).await.is_empty());
}

pub(crate) async fn keys_of_workers_outlive_what_they_may_be_for(opened: &Opened) {
    let span = machine::time::Span;
    let purge = Purge { keys_kept: span(10), retry_longest: span(5), ..everything() };
    let key = |tenant_name: &str, at| {
        let row = InboxRow { scope: "worker".into(), created_at: Time(at), ..inbox(&format!("k{at}")) };
        Commit { tenant: tenant(tenant_name), writes: vec![Write::ClaimKey(row)] }
    };
    let there = async |tenant_name: &str, at: i64| {
        let found = opened.store.inbox(&tenant(tenant_name), "worker", &format!("k{at}")).await.unwrap();
        found.is_some()
    };
    let letter =
        DeadLetterRow { source: "delivery".into(), instance: None, failed_at: Time(24), ..dead_letter(1) };
    for at in [1, 8, 9, 29, 30] {
        assert_eq!(
            opened.commit(vec![key("acme", at), key("zoo", at)]).await,
            [Outcome::Committed, Outcome::Committed]
        );
    }
    // Of an event that came when a key was ten old it may be, of one that came later not.
    opened.put(vec![Write::Delivery(Box::new(delivery(1, "mail", 18)))]).await;
    opened.store.purge(&purge).await.unwrap();
    for (at, stays) in [(1, false), (8, false), (9, true), (29, true), (30, true)] {
        assert_eq!(there("acme", at).await, stays, "{at}");
        assert_eq!(there("zoo", at).await, at == 30, "another tenant's is not kept for it: {at}");
    }
    // Given up, it is as old as it may have been.
    opened
        .put(vec![Write::ConsumeDelivery { id: id(1), attempt: 0 }, Write::DeadLetter(Box::new(letter))])
        .await;
    assert_eq!(opened.commit(vec![key("acme", 10)]).await, [Outcome::Committed]);
    opened.store.purge(&purge).await.unwrap();
    assert_eq!(
        (there("acme", 9).await, there("acme", 10).await, there("acme", 29).await),
        (false, true, true)
    );
    opened.put(vec![Write::ConsumeDeadLetter { id: id(1) }]).await;
    opened.store.purge(&purge).await.unwrap();
    assert_eq!((there("acme", 10).await, there("acme", 30).await), (false, true));
}
