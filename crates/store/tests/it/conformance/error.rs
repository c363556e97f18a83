//! Error groups: what is alike is one row, however often and in whatever batches it is added to.

use super::Opened;
use crate::fixture::*;
use machine::Time;
use store::{rows::*, views::*, *};
use uuid::Uuid;

fn group(number: u128, count: u64, at: i64) -> ErrorGroupRow {
    ErrorGroupRow {
        id: id(number),
        source: "call".into(),
        target: format!("worker-{number}"),
        class: if number.is_multiple_of(2) { "validation" } else { "transient" }.into(),
        step: (number == 1).then(|| "shop/order/do/0/charge".into()),
        message: format!("it's \"at\" {at} ✓"),
        count,
        first_at: Time(at),
        last_at: Time(at + 1),
        first_sample: format!("{{\"first\":{at}}}").into_bytes(),
        samples: format!("[\"a\\nb\",{at}]").into_bytes(),
    }
}

pub(crate) async fn what_is_added_to_a_group_is_summed(opened: &Opened) {
    // Two of one batch, one of them with another group, and one of another tenant.
    let other = Commit { tenant: tenant("other"), writes: vec![Write::Errors(vec![group(1, 100, 1)])] };
    let both = Write::Errors(vec![group(1, 2, 20), group(2, 5, 20)]);
    let outcomes = opened
        .commit(vec![commit(vec![Write::Errors(vec![group(1, 1, 10)])]), other, commit(vec![both])])
        .await;
    assert_eq!(outcomes, vec![Outcome::Committed; 3]);
    // One from before: what came last stays last.
    opened.put(vec![Write::Errors(vec![ErrorGroupRow { last_at: Time(6), ..group(1, 4, 5) }])]).await;
    let found = opened.store.error_group(&acme(), id(1)).await.unwrap().unwrap();
    let expected = ErrorGroupRow {
        count: 7,
        first_at: Time(5),
        last_at: Time(21),
        first_sample: group(1, 1, 10).first_sample,
        ..group(1, 4, 5)
    };
    assert_eq!(found, expected);
    assert_eq!(opened.store.error_group(&acme(), id(2)).await.unwrap(), Some(group(2, 5, 20)));
    assert_eq!(opened.store.error_group(&tenant("other"), id(1)).await.unwrap().unwrap().count, 100);
    assert_eq!(opened.store.error_group(&acme(), id(3)).await.unwrap(), None);
    opened.put(vec![Write::Errors(vec![])]).await;
}

pub(crate) async fn a_commit_that_loses_records_nothing(opened: &Opened) {
    let gone = Write::ConsumeCall { instance: id(1), token: 1 };
    let batch = vec![
        commit(vec![Write::Errors(vec![group(1, 1, 10)])]),
        commit(vec![gone, Write::Errors(vec![group(1, 50, 10)])]),
        commit(vec![Write::Errors(vec![group(1, 1, 10)])]),
    ];
    let expected = [Outcome::Committed, Outcome::Conflict(Conflict::Gone), Outcome::Committed];
    assert_eq!(opened.commit(batch).await, expected);
    assert_eq!(opened.store.error_group(&acme(), id(1)).await.unwrap().unwrap().count, 2);
}

pub(crate) async fn groups_come_by_the_time_they_were_seen_last(opened: &Opened) {
    let times = [(1, 30), (2, 10), (3, 20), (4, 20)];
    opened.put(vec![Write::Errors(times.map(|(number, at)| group(number, 1, at)).to_vec())]).await;
    let any = || ErrorFilter { limit: 10, ..ErrorFilter::default() };
    let found = async |filter: ErrorFilter| -> Vec<Uuid> {
        let rows = opened.store.error_groups(&acme(), &filter).await.unwrap();
        rows.into_iter().map(|row| row.id).collect()
    };
    assert_eq!(found(any()).await, [1, 4, 3, 2].map(id));
    assert_eq!(found(ErrorFilter { class: Some("validation".into()), ..any() }).await, [4, 2].map(id));
    assert_eq!(found(ErrorFilter { target: Some("worker-3".into()), ..any() }).await, [id(3)]);
    let page = ErrorFilter { after: Some((Time(21), id(4))), limit: 1, ..any() };
    assert_eq!(found(page).await, [id(3)]);
    assert_eq!(opened.store.error_groups(&tenant("other"), &any()).await.unwrap(), []);
    // Seen last before then: gone, a page at a time.
    let purge = |limit| Purge {
        ended_before: Time(0),
        faulted_before: Time(25),
        keys_before: Time(0),
        keys_kept: machine::time::Span::ZERO,
        retry_longest: machine::time::Span::ZERO,
        after: None,
        limit,
    };
    opened.store.purge(&purge(1)).await.unwrap();
    assert_eq!(found(any()).await.len(), 3);
    opened.store.purge(&purge(10)).await.unwrap();
    assert_eq!(found(any()).await, [id(1)]);
}

pub(crate) async fn letters_are_counted_by_group(opened: &Opened) {
    let letter = |number: u128, group: Option<u128>, at: i64| {
        let row = DeadLetterRow { group: group.map(id), failed_at: Time(at), ..dead_letter(number) };
        Write::DeadLetter(Box::new(row))
    };
    opened
        .put(vec![
            letter(1, Some(50), 10),
            letter(2, Some(60), 20),
            letter(3, Some(50), 30),
            letter(4, None, 5),
            letter(5, None, 20),
        ])
        .await;
    let group = |group: Option<u128>, count, first, last, newest| LetterGroup {
        group: group.map(id),
        count,
        first_at: Time(first),
        last_at: Time(last),
        newest: id(newest),
    };
    let all = [group(Some(50), 2, 10, 30, 3), group(Some(60), 1, 20, 20, 2), group(None, 2, 5, 20, 5)];
    assert_eq!(opened.store.dead_letter_groups(&acme(), None, 10).await.unwrap(), all);
    for (at, one) in all.iter().enumerate() {
        let after = at.checked_sub(1).map(|before| (all[before].last_at, all[before].group));
        let page = opened.store.dead_letter_groups(&acme(), after, 1).await.unwrap();
        assert_eq!(page, std::slice::from_ref(one));
    }
    let filter = DeadLetterFilter { group: Some(id(50)), ..DeadLetterFilter::default() };
    let page = Page { after: None, limit: 10 };
    let letters = opened.store.dead_letters(&acme(), &filter, &page).await.unwrap();
    assert_eq!(letters.iter().map(|row| row.id).collect::<Vec<_>>(), [3, 1].map(id));
    assert_eq!(letters[0].group, Some(id(50)));
    assert_eq!(opened.store.dead_letter_groups(&tenant("other"), None, 10).await.unwrap(), []);
}
