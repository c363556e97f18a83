//! Copies of a database in use, and databases made from copies.

use crate::{fixture::*, sqlite::Place};
use machine::Time;
use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use store::{
    sqlite::{Sqlite, backup, restore},
    views::{InstanceFilter, Page},
    *,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_made_while_work_goes_on_has_all_that_was_acknowledged_before() {
    let place = Place::new();
    let store = Arc::new(Sqlite::open(place.path()).unwrap());
    store.join(node(1), Time(0), LEASE_MS).await.unwrap();
    let batch = (1..=200).map(|n| commit(vec![create(n), history(n, 1)])).collect();
    store.commit(node(1), batch).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (writing, told) = (store.clone(), stop.clone());
    let going_on = tokio::spawn(async move {
        let mut number = 1000;
        while !told.load(Ordering::Relaxed) {
            // Instance and history commit together: a copy has both or neither.
            let both = commit(vec![create(number), history(number, 1)]);
            writing.commit(node(1), vec![both]).await.unwrap();
            number += 1;
        }
    });
    let elsewhere = Place::new();
    for round in 0..5 {
        let (from, to) = (place.path(), elsewhere.dir.path().join(format!("{round}.db")));
        tokio::task::spawn_blocking(move || backup(&from, &to)).await.unwrap().unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    going_on.await.unwrap();
    for round in 0..5 {
        let target = Place::new();
        restore(&elsewhere.dir.path().join(format!("{round}.db")), &target.path()).unwrap();
        let restored = Sqlite::open(target.path()).unwrap();
        let there = restored.counts(None).await.unwrap().instances[0].1;
        assert!(there >= 200, "round {round}: {there} instances");
        let filter = InstanceFilter::default();
        let mut page = Page { after: None, limit: 200 };
        let mut seen = 0;
        loop {
            let rows = restored.instances(&acme(), &filter, &page).await.unwrap();
            let Some(last) = rows.last() else { break };
            page.after = Some(last.row.id);
            for view in &rows {
                let history = restored.history(&acme(), view.row.id, 0, 10).await.unwrap();
                assert_eq!(history.len(), 1, "round {round}: an instance without its history");
            }
            seen += rows.len() as u64;
        }
        assert_eq!(seen, there);
    }
}

#[tokio::test]
async fn nothing_is_written_over() {
    let (place, other) = (Place::used().await, Place::used().await);
    let copy = other.dir.path().join("copy.db");
    backup(&place.path(), &copy).unwrap();
    assert!(matches!(backup(&place.path(), &copy), Err(Error::InUse(_))), "the copy is there");
    assert!(matches!(restore(&copy, &other.path()), Err(Error::InUse(_))), "the database is there");
    let running = Sqlite::open(other.path()).unwrap();
    assert!(matches!(restore(&copy, &other.path()), Err(Error::InUse(_))), "and in use");
    drop(running);
    Sqlite::open(other.path()).unwrap();
}

#[tokio::test]
async fn a_lost_database_comes_back_and_a_damaged_copy_does_not() {
    let place = Place::used().await;
    let copy = place.dir.path().join("copy.db");
    backup(&place.path(), &copy).unwrap();
    fs::remove_file(place.path()).unwrap();
    let whole = fs::read(&copy).unwrap();
    for wrong in [&b""[..], b"no database at all", &whole[..whole.len() / 2]] {
        let damaged = place.dir.path().join("damaged.db");
        fs::write(&damaged, wrong).unwrap();
        let refused = restore(&damaged, &place.path()).unwrap_err();
        assert!(
            matches!(refused, Error::Corrupt(_) | Error::Misconfigured(_) | Error::Unavailable(_)),
            "{refused:?}"
        );
        assert!(!place.path().exists(), "nothing is left of it");
    }
    restore(&copy, &place.path()).unwrap();
    let store = Sqlite::open(place.path()).unwrap();
    assert_eq!(store.counts(None).await.unwrap().instances, [("running".to_owned(), 300)]);
    assert_eq!(store.claim_calls(node(2), Time(0), 9, &[]).await.unwrap_or_default().len(), 0);
    store.join(node(2), Time(0), LEASE_MS).await.unwrap();
    assert_eq!(store.claim_calls(node(2), Time(0), 9, &[]).await.unwrap().len(), 1, "work goes on");
}
