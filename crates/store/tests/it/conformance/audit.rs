//! The audit trail: entries land with their act, take their places once, and go only from the front.

use super::Opened;
use crate::fixture::*;
use machine::{
    Time,
    audit::{BEGINNING, content_hash, link},
    query::{self, Subject},
};
use store::{rows::*, views::Page, *};

fn entry(number: u128) -> AuditRow {
    audit_entry(&acme(), number)
}

fn write(number: u128) -> Write {
    Write::Audit(Box::new(entry(number)))
}

/// Entries `1..=count`, sealed.
async fn sealed(opened: &Opened, count: u128) -> Vec<SealRow> {
    opened.put((1..=count).map(write).collect()).await;
    let trail = opened.store.audit();
    let rows = trail.unsealed(&acme(), 100).await.unwrap();
    let seal = sealed_after((0, BEGINNING), &rows);
    assert!(trail.seal(&acme(), &seal).await.unwrap());
    seal.rows
}

async fn places(opened: &Opened) -> Vec<u64> {
    let rows = opened.store.audit().sealed(&acme(), 1, 100).await.unwrap();
    rows.iter().map(|row| row.seal.unwrap().seq).collect()
}

pub(crate) async fn an_entry_lands_with_its_act_or_not_at_all(opened: &Opened) {
    let claim = || Write::ClaimKey(inbox("a"));
    opened.put(vec![claim(), write(1)]).await;
    let lost = opened.commit(vec![commit(vec![claim(), write(2)])]).await;
    assert_eq!(lost, [Outcome::Conflict(Conflict::Duplicate)]);
    // Several commits of one act bring the same entry, in one batch and later.
    opened.commit(vec![commit(vec![write(3)]), commit(vec![write(3)])]).await;
    opened.put(vec![write(3)]).await;
    let trail = opened.store.audit();
    assert_eq!(trail.unsealed(&acme(), 10).await.unwrap(), [entry(1), entry(3)]);
    assert_eq!(trail.unsealed_tenants(10).await.unwrap(), [acme()]);
    assert_eq!(trail.unsealed(&tenant("other"), 10).await.unwrap(), []);
}

pub(crate) async fn entries_are_sealed_once_and_nothing_follows_the_same_twice(opened: &Opened) {
    let trail = opened.store.audit();
    assert_eq!(trail.tail(&acme()).await.unwrap(), Tail { seq: 0, hash: BEGINNING, checkpoint: None });
    let rows = sealed(opened, 3).await;
    let tail = trail.tail(&acme()).await.unwrap();
    assert_eq!((tail.seq, tail.hash, tail.checkpoint.map(|one| one.seq)), (3, rows[2].hash, Some(3)));
    assert_eq!(trail.unsealed_tenants(10).await.unwrap(), []);
    // Again, as somebody would who did not know; and a fork.
    assert!(!trail.seal(&acme(), &Seal { rows: rows.clone(), checkpoint: None }).await.unwrap());
    opened.put(vec![write(4), write(5)]).await;
    let fork = sealed_after((1, rows[0].hash), &[entry(4)]);
    assert!(!trail.seal(&acme(), &fork).await.unwrap());
    let gap = Seal { rows: sealed_after((3, rows[2].hash), &[entry(4), entry(9)]).rows, checkpoint: None };
    assert!(!trail.seal(&acme(), &gap).await.unwrap(), "an entry that is not there has no place");
    assert_eq!(places(opened).await, [1, 2, 3], "what lost has written nothing");
    let next = sealed_after((3, rows[2].hash), &[entry(4), entry(5)]);
    assert!(trail.seal(&acme(), &next).await.unwrap());
    assert_eq!(places(opened).await, [1, 2, 3, 4, 5]);
    let checkpoints = trail.checkpoints(&acme(), 2, 5).await.unwrap();
    assert_eq!(checkpoints.iter().map(|one| one.seq).collect::<Vec<_>>(), [3, 5]);
    assert_eq!(checkpoints[1], next.checkpoint.unwrap());
}

pub(crate) async fn many_writers_and_two_sequencers_make_one_chain(opened: &Opened) {
    const ENTRIES: u128 = 120;
    let store = &opened.store;
    let writer = |of: u128| async move {
        for number in 0..ENTRIES / 4 {
            opened.put(vec![write(1 + of * (ENTRIES / 4) + number)]).await;
        }
    };
    let sequencer = || async {
        let mut idle = 0;
        // Both go on until they have seen everything sealed.
        while idle < 3 {
            let trail = store.audit();
            let tail = trail.tail(&acme()).await.unwrap();
            let rows = trail.unsealed(&acme(), 7).await.unwrap();
            let mut seal = sealed_after((tail.seq, tail.hash), &rows);
            seal.checkpoint = None;
            let whole = trail.tail(&acme()).await.unwrap().seq == ENTRIES as u64;
            idle += usize::from(whole);
            if !rows.is_empty() {
                trail.seal(&acme(), &seal).await.unwrap();
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(writer(0), writer(1), sequencer(), writer(2), writer(3), sequencer());
    let rows = store.audit().sealed(&acme(), 1, 1_000).await.unwrap();
    let mut prev = BEGINNING;
    for (at, row) in rows.iter().enumerate() {
        let seal = row.seal.unwrap();
        assert_eq!((seal.seq, seal.prev), (at as u64 + 1, prev), "no gap and no fork");
        assert_eq!(seal.hash, link(&prev, seal.seq, &content_hash(&row.body)));
        prev = seal.hash;
    }
    assert_eq!(rows.len() as u128, ENTRIES);
}

pub(crate) async fn only_the_front_is_cut_and_its_hash_is_kept(opened: &Opened) {
    opened
        .put(vec![Write::CreateTenant(TenantRow {
            id: acme(),
            title: "Acme".into(),
            status: "active".into(),
            weight: 1,
            limits: LimitsRow::default(),
            purge_at: None,
            created_at: Time(1),
        })])
        .await;
    let rows = sealed(opened, 5).await;
    opened.put(vec![write(6)]).await;
    let trail = opened.store.audit();
    assert_eq!(trail.cut(Time(1_001), 10).await.unwrap(), 0, "nothing is older");
    assert_eq!(trail.cut(Time(1_004), 2).await.unwrap(), 2);
    assert_eq!(trail.cut(Time(1_004), 2).await.unwrap(), 1);
    assert_eq!(trail.cut(Time(1_004), 2).await.unwrap(), 0);
    assert_eq!(places(opened).await, [4, 5]);
    let first = trail.sealed(&acme(), 1, 1).await.unwrap().remove(0);
    assert_eq!(first.seal.unwrap().prev, rows[2].hash);
    assert_eq!(trail.cut(Time(9_999), 10).await.unwrap(), 2);
    assert_eq!(trail.cut(Time(9_999), 10).await.unwrap(), 0, "what is not sealed stays");
    let tail = trail.tail(&acme()).await.unwrap();
    assert_eq!((tail.seq, tail.hash), (5, rows[4].hash), "the chain goes on from the anchor");
    assert!(trail.seal(&acme(), &sealed_after((tail.seq, tail.hash), &[entry(6)])).await.unwrap());
    assert_eq!(places(opened).await, [6]);
}

pub(crate) async fn entries_are_found_by_every_field(opened: &Opened) {
    opened.put((1..=6).map(write).collect()).await;
    let other = Commit {
        tenant: tenant("other"),
        writes: vec![Write::Audit(Box::new(audit_entry(&tenant("other"), 1)))],
    };
    opened.commit(vec![other]).await;
    let found = async |text: &str| {
        let conditions = query::parse(Subject::Audit, text, Time(1_004)).expect(text);
        let page = Page { after: None, limit: 100 };
        let rows = opened.store.audit().entries(&acme(), &conditions, &page).await.unwrap();
        rows.iter().map(|row| row.id).collect::<Vec<_>>()
    };
    let numbers = |numbers: &[u128]| numbers.iter().map(|number| id(*number)).collect::<Vec<_>>();
    assert_eq!(found("").await, numbers(&[6, 5, 4, 3, 2, 1]));
    assert_eq!(found("act:instance.*").await, numbers(&[6, 4, 2]));
    assert_eq!(found("-act:instance.cancel who:ann key:k1").await, numbers(&[5, 3, 1]));
    assert_eq!(found("o3").await, numbers(&[3]));
    assert_eq!(found("object:o3,o4 kind:instance").await, numbers(&[4, 3]));
    assert_eq!(found("at:<now").await, numbers(&[3, 2, 1]));
    assert_eq!(found("who:bob").await, numbers(&[]));
    let page = Page { after: Some(id(4)), limit: 2 };
    let rows = opened.store.audit().entries(&acme(), &[], &page).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), numbers(&[3, 2]));
    assert_eq!(rows[0].body, entry(3).body);
}
