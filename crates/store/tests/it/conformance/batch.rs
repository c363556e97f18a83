//! Whole or not at all; one bad commit never spoils its batch.

use super::Opened;
use crate::fixture::*;
use machine::Time;
use store::{rows::*, views::*, *};

fn start(number: u128) -> Vec<Write> {
    let mut call = call(1, 0, Some(node(1)));
    call.instance = id(number);
    let mut timer = timer(2, 50, None);
    timer.instance = id(number);
    let mut task = task(1_000 + number);
    task.instance = id(number);
    let mut key = inbox("k");
    key.key = format!("start-{number}");
    vec![
        Write::ClaimKey(key),
        create(number),
        history(number, 1),
        Write::Call(call),
        Write::Timer(timer),
        Write::Signal(signal(2_000 + number, 0, None)),
        Write::CreateTask(Box::new(task)),
        task_event(1_000 + number, 1, "created"),
        Write::Outbox(outbox(3_000 + number)),
    ]
}

async fn is_there(store: &dyn Store, number: u128) -> Vec<bool> {
    let (t, n) = (acme(), id(number));
    let task = id(1_000 + number);
    let key = format!("start-{number}");
    vec![
        store.inbox(&t, "start", &key).await.unwrap().is_some(),
        store.load(&t, n).await.unwrap().is_some(),
        store.instance(&t, n).await.unwrap().is_some(),
        !store.history(&t, n, 0, 10).await.unwrap().is_empty(),
        store.task(&t, task).await.unwrap().is_some(),
        !store.task_events(&t, task).await.unwrap().is_empty(),
        store.outbox(&OutboxAsk::of(1_000)).await.unwrap().iter().any(|row| row.row.id == id(3_000 + number)),
    ]
}

pub(crate) async fn start_lands_whole(opened: &Opened) {
    opened.put(start(1)).await;
    assert_eq!(is_there(&*opened.store, 1).await, [true; 7]);
    let counts = opened.store.counts(Some(&acme())).await.unwrap();
    assert_eq!((counts.calls, counts.timers, counts.signals, counts.tasks_open), (1, 1, 1, 1));
}

pub(crate) async fn a_failure_at_any_write_undoes_all(opened: &Opened) {
    // An event whose id is taken is refused wherever it stands.
    opened.put(vec![Write::Outbox(outbox(1))]).await;
    let writes = start(5).len();
    for at in 0..=writes {
        let mut writes = start(5);
        writes.insert(at, Write::Outbox(outbox(1)));
        let outcomes = opened.commit(vec![commit(writes)]).await;
        assert!(matches!(outcomes[..], [Outcome::Rejected(_)]), "at {at}: {outcomes:?}");
        assert_eq!(is_there(&*opened.store, 5).await, [false; 7], "at {at}");
        let expected = Counts { outbox: 1, ..Counts::default() };
        assert_eq!(opened.store.counts(None).await.unwrap(), expected, "at {at}");
    }
    opened.put(start(5)).await;
    assert_eq!(is_there(&*opened.store, 5).await, [true; 7]);
}

pub(crate) async fn lost_guard_leaves_the_rest_of_the_batch(opened: &Opened) {
    opened.put(vec![create(1)]).await;
    let batch = vec![
        commit(vec![create(2), history(2, 1)]),
        commit(vec![Write::ConsumeSignal { id: id(77) }, update(1, 2), history(1, 2)]),
        commit(vec![create(1), history(1, 3)]),
        commit(vec![create(3), history(3, 1)]),
    ];
    let expected = [
        Outcome::Committed,
        Outcome::Conflict(Conflict::Gone),
        Outcome::Conflict(Conflict::Exists),
        Outcome::Committed,
    ];
    assert_eq!(opened.commit(batch).await, expected);
    let t = acme();
    for number in [2, 3] {
        assert_eq!(opened.store.history(&t, id(number), 0, 10).await.unwrap().len(), 1);
    }
    assert_eq!(opened.store.history(&t, id(1), 0, 10).await.unwrap(), []);
    assert_eq!(opened.store.load(&t, id(1)).await.unwrap().unwrap().state_version, 1);
}

pub(crate) async fn late_guard_undoes_the_commit_alone(opened: &Opened) {
    opened.put(vec![create(1), Write::Signal(signal(10, 0, None))]).await;
    let batch = vec![
        commit(vec![create(2)]),
        // The signal goes, then the version is another: the signal must be there again.
        commit(vec![Write::ConsumeSignal { id: id(10) }, update(1, 5), history(1, 5)]),
        commit(vec![Write::ClaimKey(inbox("late")), create(1)]),
        commit(vec![create(3)]),
    ];
    let expected = [
        Outcome::Committed,
        Outcome::Conflict(Conflict::Version),
        Outcome::Conflict(Conflict::Exists),
        Outcome::Committed,
    ];
    assert_eq!(opened.commit(batch).await, expected);
    let t = acme();
    assert!(opened.store.inbox(&t, "start", "late").await.unwrap().is_none());
    assert!(opened.store.load(&t, id(2)).await.unwrap().is_some());
    assert!(opened.store.load(&t, id(3)).await.unwrap().is_some());
    opened.put(vec![Write::ConsumeSignal { id: id(10) }, update(1, 2), history(1, 2)]).await;
}

pub(crate) async fn bad_row_in_a_batch_of_500(opened: &Opened) {
    let mut batch: Vec<Commit> = (1..=500).map(|n| commit(vec![create(n), history(n, 1)])).collect();
    // Bad after a good write, and bad as the first write.
    batch[250].writes.push(history(251, 1));
    let mut empty = instance(402);
    empty.name = String::new();
    batch[401] = commit(vec![create_row(empty), history(402, 1)]);
    let outcomes = opened.commit(batch).await;
    for (at, outcome) in outcomes.iter().enumerate() {
        let bad = at == 250 || at == 401;
        assert_eq!(matches!(outcome, Outcome::Rejected(_)), bad, "at {at}: {outcome:?}");
        assert_eq!(*outcome == Outcome::Committed, !bad, "at {at}: {outcome:?}");
    }
    let counts = opened.store.counts(Some(&acme())).await.unwrap();
    assert_eq!(counts.instances, [("running".to_owned(), 498)]);
    assert!(opened.store.load(&acme(), id(251)).await.unwrap().is_none());
    assert_eq!(opened.store.history(&acme(), id(251), 0, 9).await.unwrap(), []);
}

pub(crate) async fn commits_take_effect_in_order(opened: &Opened) {
    let mut batch = vec![commit(vec![create(1), history(1, 1)])];
    batch.extend((2..=20).map(|version| commit(vec![update(1, version), history(1, version)])));
    // The same cause again, now too late.
    batch.push(commit(vec![update(1, 20), history(1, 20)]));
    let outcomes = opened.commit(batch).await;
    assert_eq!(outcomes[..20], vec![Outcome::Committed; 20]);
    assert_eq!(outcomes[20], Outcome::Conflict(Conflict::Version));
    let loaded = opened.store.load(&acme(), id(1)).await.unwrap().unwrap();
    assert_eq!((loaded.state_version, loaded.state_json), (20, b"{\"v\":20}".to_vec()));
}

pub(crate) async fn empty_batches_and_commits(opened: &Opened) {
    assert_eq!(opened.commit(vec![]).await, []);
    assert_eq!(opened.commit(vec![commit(vec![])]).await, [Outcome::Committed]);
}

pub(crate) async fn concurrent_calls_all_land(opened: &Opened) {
    let store = &*opened.store;
    let calls = (0..64u128).map(|call| async move {
        let batch = (1..=4).map(|n| commit(vec![create(call * 4 + n), history(call * 4 + n, 1)])).collect();
        store.commit(node(1), batch).await.unwrap()
    });
    for outcomes in all(calls).await {
        assert_eq!(outcomes, vec![Outcome::Committed; 4]);
    }
    let page = Page { after: None, limit: 200 };
    let rows = store.instances(&acme(), &InstanceFilter::default(), &page).await.unwrap();
    assert_eq!(rows.len(), 200);
    assert_eq!(store.counts(None).await.unwrap().instances, [("running".to_owned(), 256)]);
    let latest: Vec<HistoryRow> = store.history(&acme(), id(256), 0, 10).await.unwrap();
    assert_eq!(latest[0].at, Time(1));
}

/// Polls all the futures together on this task, so that their requests wait together.
async fn all<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut waiting: Vec<_> = futures.map(Box::pin).collect();
    let mut done = Vec::new();
    std::future::poll_fn(move |context| {
        waiting.retain_mut(|future| match future.as_mut().poll(context) {
            std::task::Poll::Ready(value) => {
                done.push(value);
                false
            }
            std::task::Poll::Pending => true,
        });
        if waiting.is_empty() {
            std::task::Poll::Ready(std::mem::take(&mut done))
        } else {
            std::task::Poll::Pending
        }
    })
    .await
}
