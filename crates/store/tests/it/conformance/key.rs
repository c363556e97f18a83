//! API keys: found by their public part, revoked once.

use super::Opened;
use crate::fixture::*;
use machine::Time;
use store::{rows::*, *};

pub(crate) async fn keys_live_and_are_revoked(opened: &Opened) {
    let first = key("wk_1");
    let second = KeyRow { created_at: Time(2), expires_at: Some(Time(99)), ..key("wk_2") };
    opened.put(vec![Write::CreateKey(second.clone()), Write::CreateKey(first.clone())]).await;
    assert_eq!(opened.store.keys(&acme()).await.unwrap(), [first.clone(), second]);
    assert_eq!(opened.store.key_by_id("wk_1").await.unwrap(), Some((acme(), first.clone())));
    assert_eq!(opened.store.key_by_id("wk_9").await.unwrap(), None);
    opened.put(vec![Write::RevokeKey { id: "wk_1".into(), at: Time(7) }]).await;
    // The first revocation is the one that counts.
    opened.put(vec![Write::RevokeKey { id: "wk_1".into(), at: Time(8) }]).await;
    let revoked = KeyRow { revoked_at: Some(Time(7)), ..first };
    assert_eq!(opened.store.key_by_id("wk_1").await.unwrap(), Some((acme(), revoked)));
}

pub(crate) async fn key_ids_are_unique_over_tenants(opened: &Opened) {
    opened.put(vec![Write::CreateKey(key("wk_1"))]).await;
    let other = Commit { tenant: tenant("other"), writes: vec![Write::CreateKey(key("wk_1"))] };
    let outcomes = opened.commit(vec![other]).await;
    assert!(matches!(outcomes[..], [Outcome::Rejected(_)]), "{outcomes:?}");
    assert_eq!(opened.store.keys(&tenant("other")).await.unwrap(), []);
}
