//! Secrets: one row per tenant and name, replaced whole, guarded by version where asked.

use super::Opened;
use crate::fixture::*;
use machine::Time;
use store::{rows::*, *};

fn put(row: SecretRow, expected_version: Option<i64>) -> Write {
    Write::PutSecret { row: Box::new(row), expected_version }
}

pub(crate) async fn a_secret_is_replaced_whole_and_counts_its_versions(opened: &Opened) {
    opened.put(vec![put(secret("b", b"one"), None), put(secret("a", b"other"), None)]).await;
    let later =
        SecretRow { updated_at: Time(5), created_at: Time(5), key_id: "k2".into(), ..secret("b", b"two") };
    opened.put(vec![put(later.clone(), None)]).await;
    let expected = SecretRow { version: 2, created_at: Time(1), ..later };
    assert_eq!(opened.store.secret(&acme(), "b").await.unwrap(), Some(expected.clone()));
    assert_eq!(opened.store.secrets(&acme()).await.unwrap(), [secret("a", b"other"), expected]);
    assert_eq!(opened.store.secret(&acme(), "c").await.unwrap(), None);
}

pub(crate) async fn a_guarded_replacement_loses_to_a_newer_version(opened: &Opened) {
    opened.put(vec![put(secret("a", b"one"), None)]).await;
    opened.put(vec![put(secret("a", b"two"), Some(1))]).await;
    let late = opened.commit(vec![commit(vec![put(secret("a", b"late"), Some(1))])]).await;
    assert_eq!(late, [Outcome::Conflict(Conflict::Version)]);
    let missing = opened.commit(vec![commit(vec![put(secret("x", b"late"), Some(1))])]).await;
    assert_eq!(missing, [Outcome::Conflict(Conflict::Version)]);
    assert_eq!(opened.store.secret(&acme(), "a").await.unwrap().unwrap().sealed, b"two");
}

pub(crate) async fn a_secret_is_deleted_once_and_only_by_its_tenant(opened: &Opened) {
    opened.put(vec![put(secret("a", b"one"), None)]).await;
    let delete = || Write::DeleteSecret { name: "a".into() };
    let other = Commit { tenant: tenant("other"), writes: vec![delete()] };
    assert_eq!(opened.commit(vec![other]).await, [Outcome::Conflict(Conflict::Gone)]);
    assert_eq!(opened.store.secret(&tenant("other"), "a").await.unwrap(), None);
    assert_eq!(opened.store.secrets(&tenant("other")).await.unwrap(), []);
    opened.put(vec![delete()]).await;
    assert_eq!(opened.commit(vec![commit(vec![delete()])]).await, [Outcome::Conflict(Conflict::Gone)]);
}
