//! Schedules, their slots, and clocks of tenants.

use super::Opened;
use crate::fixture::*;
use machine::{Time, time::Span};
use store::{rows::*, views::*, *};

fn put(row: &ScheduleRow, expected_version: i64) -> Write {
    Write::PutSchedule { schedule: Box::new(row.clone()), expected_version }
}

pub(crate) async fn schedules_are_guarded_by_version_and_found_when_due(opened: &Opened) {
    let store = &opened.store;
    assert_eq!(store.next_slot_due().await.unwrap(), None);
    let (one, two, none) = (schedule(1, Some(50)), schedule(2, Some(30)), schedule(3, None));
    opened.put(vec![put(&one, 0), put(&two, 0), put(&none, 0)]).await;
    assert_eq!(store.next_slot_due().await.unwrap(), Some(Time(30)));
    let due: Vec<ScheduleRow> =
        store.due_schedules(Time(50), 10).await.unwrap().into_iter().map(|one| one.row).collect();
    assert_eq!(due, [two.clone(), one.clone()]);
    assert_eq!(store.due_schedules(Time(50), 1).await.unwrap().len(), 1);
    assert_eq!(store.due_schedules(Time(29), 10).await.unwrap(), []);
    // Twice the same insert, or another version, lands nothing.
    let again = opened.commit(vec![commit(vec![put(&one, 0)]), commit(vec![put(&one, 7)])]).await;
    assert_eq!(again, [Outcome::Conflict(Conflict::Version), Outcome::Conflict(Conflict::Version)]);
    let moved = ScheduleRow { next_slot: None, due_at: None, row_version: 2, instance: Some(id(9)), ..one };
    opened.put(vec![put(&moved, 1)]).await;
    assert_eq!(store.schedule(&acme(), id(1)).await.unwrap(), Some(moved.clone()));
    assert_eq!(store.schedule(&tenant("other"), id(1)).await.unwrap(), None);
    // Only the instance that is waited for sets the next slot.
    let follow =
        |instance| Write::ScheduleFollows { id: id(1), instance, next_slot: Time(70), due_at: Time(60) };
    opened.put(vec![follow(id(8))]).await;
    assert_eq!(store.schedule(&acme(), id(1)).await.unwrap(), Some(moved.clone()));
    opened.put(vec![follow(id(9))]).await;
    let followed = store.schedule(&acme(), id(1)).await.unwrap().unwrap();
    let wanted = (Some(Time(70)), Some(Time(60)), None, 3);
    assert_eq!((followed.next_slot, followed.due_at, followed.instance, followed.row_version), wanted);
    let filter = ScheduleFilter { limit: 2, ..ScheduleFilter::default() };
    let names = |rows: Vec<ScheduleRow>| rows.into_iter().map(|row| row.name).collect::<Vec<_>>();
    assert_eq!(names(store.schedules(&acme(), &filter).await.unwrap()), ["s1", "s2"]);
    let after = Some(("shop".to_owned(), "s2".to_owned()));
    let rest = ScheduleFilter { after, limit: 2, ..ScheduleFilter::default() };
    assert_eq!(names(store.schedules(&acme(), &rest).await.unwrap()), ["s3"]);
}

pub(crate) async fn a_slot_lands_once(opened: &Opened) {
    opened.put(vec![Write::Slot(slot(1, 10)), Write::Slot(slot(1, 20)), Write::Slot(slot(2, 10))]).await;
    let again = opened.commit(vec![commit(vec![Write::Slot(slot(1, 10)), create(5)])]).await;
    assert_eq!(again, [Outcome::Conflict(Conflict::Exists)]);
    assert!(opened.store.instance(&acme(), id(5)).await.unwrap().is_none());
    let slots = opened.store.slots(&acme(), id(1), None, 10).await.unwrap();
    assert_eq!(slots, [slot(1, 20), slot(1, 10)]);
    assert_eq!(opened.store.slots(&acme(), id(1), Some(Time(20)), 10).await.unwrap(), [slot(1, 10)]);
    assert_eq!(opened.store.slots(&tenant("other"), id(1), None, 10).await.unwrap(), []);
}

pub(crate) async fn a_clock_moves_what_its_tenant_has_queued(opened: &Opened) {
    let store = &opened.store;
    assert_eq!(store.clocks().await.unwrap(), []);
    let queued = || {
        vec![
            Write::Timer(timer(1, 100, None)),
            Write::Call(call(1, 100, None)),
            Write::Signal(signal(1, 100, None)),
            put(&schedule(1, Some(100)), 0),
        ]
    };
    opened.put(queued()).await;
    opened.commit(vec![Commit { tenant: tenant("other"), writes: queued() }]).await;
    opened.put(vec![Write::AdvanceClock { by: Span(30) }]).await;
    opened.put(vec![Write::AdvanceClock { by: Span(40) }]).await;
    assert_eq!(store.clocks().await.unwrap(), [(acme(), Span(70))]);
    for claimed in [
        store.claim_timers(node(1), Time(30), 10).await.unwrap().len(),
        store.claim_signals(node(1), Time(30), 10).await.unwrap().len(),
        store.claim_calls(node(1), Time(30), 10, &[]).await.unwrap().len(),
        store.due_schedules(Time(30), 10).await.unwrap().len(),
    ] {
        assert_eq!(claimed, 1, "of one tenant only");
    }
    let row = store.schedule(&acme(), id(1)).await.unwrap().unwrap();
    assert_eq!((row.next_slot, row.due_at), (Some(Time(100)), Some(Time(30))));
}

pub(crate) async fn a_collection_is_guarded_by_its_version(opened: &Opened) {
    let put = |open: &str, expected_version| Write::PutCollection {
        schedule: id(1),
        open: open.as_bytes().to_vec(),
        expected_version,
    };
    let there = async || opened.store.collection(&acme(), id(1)).await.unwrap();
    assert_eq!(there().await, CollectionRow::default());
    opened.put(vec![put("[1]", 0)]).await;
    opened.put(vec![put("[1,2]", 1)]).await;
    for stale in [0, 1, 3] {
        let lost = opened.commit(vec![commit(vec![put("[]", stale)])]).await;
        assert_eq!(lost, [Outcome::Conflict(Conflict::Version)], "{stale}");
    }
    assert_eq!(there().await, CollectionRow { version: 2, open: b"[1,2]".to_vec() });
    assert_eq!(
        opened.store.collection(&tenant("other"), id(1)).await.unwrap(),
        CollectionRow::default(),
        "of its tenant only"
    );
    // Whoever read it before, or read that there is none, cannot write what it decided by that.
    for schedule in [id(1), id(2)] {
        opened.put(vec![Write::ResetCollection { schedule }]).await;
    }
    assert_eq!(there().await, CollectionRow { version: 3, open: vec![] });
    let first = Write::PutCollection { schedule: id(2), open: vec![], expected_version: 0 };
    assert_eq!(
        opened.commit(vec![commit(vec![put("[]", 2)]), commit(vec![first])]).await,
        [Outcome::Conflict(Conflict::Version), Outcome::Conflict(Conflict::Version)]
    );
}
