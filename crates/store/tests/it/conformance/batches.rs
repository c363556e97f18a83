//! Batches: their rows, their items, and what makes each of those happen once.

use super::Opened;
use crate::fixture::*;
use machine::Time;
use store::{rows::*, views::*, *};
use uuid::Uuid;

fn put(row: BatchRow, expected_version: i64) -> Write {
    Write::PutBatch { row: Box::new(row), expected_version }
}

fn settle(item: u128, from: ItemOutcome, to: ItemOutcome) -> Write {
    let detail = (to == ItemOutcome::Failed).then(|| "it does not fit".to_owned());
    Write::SettleItem(Settlement { batch: id(1), item: id(item), from, to, detail, at: Time(20) })
}

async fn items(opened: &Opened, outcome: Option<ItemOutcome>, after: Option<Uuid>) -> Vec<Uuid> {
    let ask = ItemAsk { batch: id(1), outcome, after, limit: 2 };
    let found = opened.store.batch_items(&acme(), &ask).await.unwrap();
    found.into_iter().map(|item| item.item).collect()
}

pub(crate) async fn a_batch_is_guarded_and_found_when_due(opened: &Opened) {
    opened.put(vec![put(batch(1), 0)]).await;
    assert_eq!(opened.store.batch(&acme(), id(1)).await.unwrap(), Some(batch(1)));
    assert_eq!(opened.store.batch(&tenant("other"), id(1)).await.unwrap(), None);
    let again = opened.commit(vec![commit(vec![put(batch(1), 0)])]).await;
    assert_eq!(again, [Outcome::Conflict(Conflict::Version)]);
    let later = BatchRow {
        status: "halted".into(),
        detail: Some("two failed".into()),
        rate: 7,
        cursor: Some(id(9)),
        selected_at: Some(Time(12)),
        matched: 3,
        forgiven: 1,
        due_at: Some(Time(200)),
        row_version: 2,
        updated_at: Time(13),
        ended_at: Some(Time(14)),
        ..batch(1)
    };
    opened.put(vec![put(later.clone(), 1)]).await;
    assert_eq!(opened.store.batch(&acme(), id(1)).await.unwrap(), Some(later.clone()));
    let lost = opened.commit(vec![commit(vec![put(later.clone(), 1)])]).await;
    assert_eq!(lost, [Outcome::Conflict(Conflict::Version)]);
    opened
        .put(vec![put(batch(2), 0), put(BatchRow { act: "replay".into(), due_at: None, ..batch(3) }, 0)])
        .await;
    assert_eq!(opened.store.next_batch_due().await.unwrap(), Some(Time(100)));
    let due = async |now: i64| -> Vec<Uuid> {
        let due = opened.store.due_batches(Time(now), 10).await.unwrap();
        assert!(due.iter().all(|one| one.tenant == acme()));
        due.into_iter().map(|one| one.row.id).collect()
    };
    assert_eq!((due(99).await, due(100).await, due(300).await), (vec![], vec![id(2)], vec![id(2), id(1)]));
    let list = async |status: Option<&str>, act: Option<&str>, after: Option<Uuid>| -> Vec<Uuid> {
        let filter = BatchFilter { status: status.map(str::to_owned), act: act.map(str::to_owned) };
        let page = Page { after, limit: 2 };
        let rows = opened.store.batches(&acme(), &filter, &page).await.unwrap();
        rows.into_iter().map(|row| row.id).collect()
    };
    assert_eq!(list(None, None, None).await, [id(3), id(2)]);
    assert_eq!(list(None, None, Some(id(2))).await, [id(1)]);
    assert_eq!(list(Some("running"), Some("cancel"), None).await, [id(2)]);
}

pub(crate) async fn items_are_settled_once_and_counted(opened: &Opened) {
    use ItemOutcome::*;
    opened.put(vec![put(batch(1), 0)]).await;
    let selected = Write::BatchItems { batch: id(1), items: vec![id(3), id(1), id(2)] };
    opened.put(vec![selected.clone()]).await;
    // Selecting again changes nothing.
    opened.put(vec![selected, Write::BatchItems { batch: id(1), items: vec![id(4)] }]).await;
    assert_eq!(items(opened, None, None).await, [id(1), id(2)]);
    assert_eq!(items(opened, Some(Waiting), Some(id(2))).await, [id(3), id(4)]);
    let outcomes = opened
        .commit(vec![
            commit(vec![settle(1, Waiting, Done)]),
            commit(vec![settle(2, Waiting, Sent)]),
            commit(vec![settle(1, Waiting, Failed)]),
            commit(vec![settle(3, Waiting, Skipped)]),
            commit(vec![settle(4, Sent, Done)]),
            commit(vec![settle(9, Waiting, Done)]),
        ])
        .await;
    let gone = Outcome::Conflict(Conflict::Gone);
    let committed = Outcome::Committed;
    assert_eq!(outcomes, [committed.clone(), committed.clone(), gone.clone(), committed, gone.clone(), gone]);
    let counts = async || opened.store.batch(&acme(), id(1)).await.unwrap().unwrap().counts;
    assert_eq!(counts().await, BatchCounts { sent: 1, done: 1, failed: 0, skipped: 1 });
    // A change of the batch leaves the counts alone.
    opened.put(vec![put(BatchRow { row_version: 2, ..batch(1) }, 1), settle(2, Sent, Failed)]).await;
    assert_eq!(counts().await, BatchCounts { sent: 0, done: 1, failed: 1, skipped: 1 });
    let ask = ItemAsk { batch: id(1), outcome: Some(Failed), after: None, limit: 9 };
    let failed = opened.store.batch_items(&acme(), &ask).await.unwrap();
    let expected = BatchItemRow {
        item: id(2),
        outcome: Failed,
        detail: Some("it does not fit".into()),
        at: Some(Time(20)),
    };
    assert_eq!(failed, [expected]);
    assert_eq!(items(opened, Some(Waiting), None).await, [id(4)]);
}

pub(crate) async fn settling_goes_with_the_rest_of_its_commit(opened: &Opened) {
    use ItemOutcome::*;
    opened.put(vec![put(batch(1), 0), Write::BatchItems { batch: id(1), items: vec![id(1), id(2)] }]).await;
    opened.put(vec![create(1)]).await;
    opened.put(vec![settle(1, Waiting, Done), update(1, 2)]).await;
    // The item is settled already: the instance stays as it is.
    let twice = opened.commit(vec![commit(vec![settle(1, Waiting, Done), update(1, 3)])]).await;
    assert_eq!(twice, [Outcome::Conflict(Conflict::Gone)]);
    // The instance is at another version: the item stays as it is.
    let stale = opened.commit(vec![commit(vec![settle(2, Waiting, Done), update(1, 2)])]).await;
    assert_eq!(stale, [Outcome::Conflict(Conflict::Version)]);
    let view = opened.store.instance(&acme(), id(1)).await.unwrap().unwrap();
    assert_eq!(view.state_version, 2);
    let row = opened.store.batch(&acme(), id(1)).await.unwrap().unwrap();
    assert_eq!(row.counts, BatchCounts { done: 1, ..BatchCounts::default() });
    assert_eq!(items(opened, Some(Waiting), None).await, [id(2)]);
}

pub(crate) async fn a_parked_tenants_batches_wait(opened: &Opened) {
    opened.put(vec![Write::CreateTenant(tenant_row("acme")), put(batch(1), 0)]).await;
    for (from, to, found) in
        [("active", "degraded", 1), ("degraded", "suspended", 0), ("suspended", "active", 1)]
    {
        let standing = Write::SetStanding { from: from.into(), to: to.into(), purge_at: None };
        opened.put(vec![standing]).await;
        assert_eq!(opened.store.due_batches(Time(500), 9).await.unwrap().len(), found, "{to}");
        assert_eq!(opened.store.next_batch_due().await.unwrap().is_some(), found == 1, "{to}");
    }
}

pub(crate) async fn batches_that_ended_go_by_age(opened: &Opened) {
    let ended = |number, at| BatchRow { ended_at: Some(Time(at)), due_at: None, ..batch(number) };
    opened.put(vec![put(ended(1, 50), 0), put(ended(2, 500), 0), put(batch(3), 0)]).await;
    for number in [1, 2, 3] {
        let items = (0..5).map(|item| id(100 + item)).collect();
        opened.put(vec![Write::BatchItems { batch: id(number), items }]).await;
    }
    let purge = Purge {
        ended_before: Time(100),
        faulted_before: Time(0),
        keys_before: Time(0),
        keys_kept: machine::time::Span::ZERO,
        retry_longest: machine::time::Span::ZERO,
        after: None,
        limit: 3,
    };
    let mut rows = Vec::new();
    for _ in 0..4 {
        rows.push(opened.store.purge(&purge).await.unwrap().batches);
    }
    assert_eq!(rows, [3, 3, 0, 0], "five items and the batch, a few at a time");
    let left = opened.store.batches(&acme(), &BatchFilter::default(), &Page { after: None, limit: 9 }).await;
    assert_eq!(left.unwrap().into_iter().map(|row| row.id).collect::<Vec<_>>(), [id(3), id(2)]);
    let ask = |number| ItemAsk { batch: id(number), outcome: None, after: None, limit: 9 };
    assert_eq!(opened.store.batch_items(&acme(), &ask(1)).await.unwrap(), []);
    assert_eq!(opened.store.batch_items(&acme(), &ask(2)).await.unwrap().len(), 5);
}
