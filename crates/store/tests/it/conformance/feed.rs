//! The feed: events in the order of their commits, page by page, with a cursor that skips nothing.

use super::{Opened, event::publish};
use crate::fixture::*;
use machine::{TenantId, Time};
use store::{feed::*, rows::EventRow, *};

/// Reads pages of `limit` until `count` events have come. What others write on the same server may hold the feed back for
/// a moment.
pub(super) async fn read_on(
    opened: &Opened,
    tenant: &TenantId,
    after: FeedCursor,
    limit: usize,
    count: usize,
) -> Vec<FeedItem> {
    let mut items: Vec<FeedItem> = Vec::new();
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    while items.len() < count && tokio::time::Instant::now() < deadline {
        let after = items.last().map_or(after, |item| item.cursor);
        let page = opened.store.feed(tenant, after, limit).await.unwrap().expect("the cursor is known");
        assert!(page.len() <= limit, "{}", page.len());
        items.extend(page);
    }
    assert!(items.windows(2).all(|pair| pair[0].cursor < pair[1].cursor), "cursors rise");
    items
}

fn numbers(items: &[FeedItem]) -> Vec<u128> {
    items.iter().map(|item| item.row.id.as_u128() - id(0).as_u128()).collect()
}

pub(crate) async fn events_come_in_the_order_of_their_commits(opened: &Opened) {
    let start = FeedCursor::default();
    assert_eq!(opened.store.feed(&acme(), start, 10).await.unwrap(), Some(vec![]));
    opened.put(vec![publish(&event(9, "a", "1"))]).await;
    opened.put(vec![publish(&event(3, "b", "1"))]).await;
    let batch = [7, 5, 6].map(|number| commit(vec![publish(&event(number, "a", "1"))]));
    assert_eq!(opened.commit(batch.to_vec()).await, vec![Outcome::Committed; 3]);
    opened.put(vec![publish(&event(12, "a", "1")), publish(&event(11, "a", "1"))]).await;
    let order = [9, 3, 7, 5, 6, 12, 11];
    for limit in [1, 2, 3, 200] {
        assert_eq!(numbers(&read_on(opened, &acme(), start, limit, 7).await), order, "pages of {limit}");
    }
    let items = read_on(opened, &acme(), start, 200, 7).await;
    assert_eq!(items[1].row, EventRow { visible_at: Time(0), ..event(3, "b", "1") });
    // What becomes of an event does not move it.
    opened.put(vec![Write::EventTaken { id: id(9) }]).await;
    assert_eq!(numbers(&read_on(opened, &acme(), items[1].cursor, 200, 5).await), order[2..]);
    assert_eq!(opened.store.feed(&acme(), items[6].cursor, 200).await.unwrap(), Some(vec![]));
    // A cursor may be kept as bytes.
    let kept = FeedCursor::from_bytes(&items[4].cursor.to_bytes()).unwrap();
    assert_eq!(numbers(&read_on(opened, &acme(), kept, 200, 2).await), order[5..]);
}

pub(crate) async fn events_of_one_instance_come_in_the_order_of_its_versions(opened: &Opened) {
    opened.put(vec![create(1)]).await;
    opened.put(vec![create(2)]).await;
    for version in 2..12 {
        // Ids fall while versions rise.
        let number = |instance: u128| 1_000 * instance - version as u128;
        let turn = |instance| {
            commit(vec![update(instance, version), publish(&event(number(instance), "step", "1"))])
        };
        assert_eq!(opened.commit(vec![turn(2), turn(1)]).await, vec![Outcome::Committed; 2]);
    }
    let items = numbers(&read_on(opened, &acme(), FeedCursor::default(), 3, 20).await);
    for instance in 1..=2 {
        let mine: Vec<u128> = items.iter().map(|n| 1_000 * instance - n.min(&(1_000 * instance))).collect();
        let mine: Vec<u128> = mine.into_iter().filter(|version| (2..12).contains(version)).collect();
        assert_eq!(mine, (2..12).collect::<Vec<_>>(), "instance {instance}");
    }
}

pub(crate) async fn a_cursor_outlives_what_it_stood_after(opened: &Opened) {
    for number in 1..=3 {
        opened.put(vec![publish(&event(number, "a", "1"))]).await;
    }
    let items = read_on(opened, &acme(), FeedCursor::default(), 10, 3).await;
    assert_eq!(opened.store.purge_events(Time(5_000), 100).await.unwrap(), 3);
    let last = items[2].cursor;
    assert_eq!(opened.store.feed(&acme(), last, 10).await.unwrap(), Some(vec![]));
    // The next one is new, whatever has gone.
    opened.put(vec![publish(&event(4, "a", "1"))]).await;
    assert_eq!(numbers(&read_on(opened, &acme(), last, 10, 1).await), [4]);
    assert_eq!(numbers(&read_on(opened, &acme(), FeedCursor::default(), 10, 1).await), [4]);
}

pub(crate) async fn a_cursor_of_another_time_is_refused(opened: &Opened) {
    opened.put(vec![publish(&event(1, "a", "1"))]).await;
    let item = read_on(opened, &acme(), FeedCursor::default(), 10, 1).await.remove(0);
    for ahead in [item.cursor.commit + (1 << 40), u64::MAX] {
        let cursor = FeedCursor { commit: ahead, ..item.cursor };
        assert_eq!(opened.store.feed(&acme(), cursor, 10).await.unwrap(), None);
    }
}

pub(crate) async fn only_the_tenants_own_events_come(opened: &Opened) {
    let other = tenant("other");
    opened.put(vec![publish(&event(1, "a", "1"))]).await;
    let theirs = Commit { tenant: other.clone(), writes: vec![publish(&event(2, "a", "1"))] };
    opened.commit(vec![theirs]).await;
    opened.put(vec![publish(&event(3, "a", "1"))]).await;
    let mine = read_on(opened, &acme(), FeedCursor::default(), 10, 2).await;
    assert_eq!(numbers(&mine), [1, 3]);
    assert_eq!(numbers(&read_on(opened, &other, FeedCursor::default(), 10, 1).await), [2]);
    assert_eq!(numbers(&read_on(opened, &other, mine[0].cursor, 10, 1).await), [2]);
    assert_eq!(opened.store.feed(&tenant("nobody"), FeedCursor::default(), 10).await.unwrap(), Some(vec![]));
    assert_eq!(opened.store.feed(&tenant("nobody"), mine[0].cursor, 10).await.unwrap(), Some(vec![]));
}
