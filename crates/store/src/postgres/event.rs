//! Events addressed to nobody, and who wants them: what must be locked before the two look for each other. How they meet
//! is in `tell`.
//!
//! A published event is told to every wait that is there, a wait that begins is told about every event that is kept.
//! Two transactions at the same time would not see each other, so both sides lock what they have in common, the type of
//! the event, before they look: publishers together, a wait that begins alone. Whichever comes second sees the other.

use crate::{commit::*, rows::*};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use uuid::Uuid;

/// An event stays while a delivery that may be of it is there: one made before it, or within a minute of it.
pub(super) const PURGE: &str = "WITH gone AS MATERIALIZED (SELECT tenant, id FROM events e
        WHERE expires_at <= $1 AND (delivered = 0 OR NOT EXISTS (SELECT 1 FROM deliveries d
            WHERE d.tenant = e.tenant AND d.created_at <= e.received_at + 60000000))
        ORDER BY expires_at LIMIT $2)
    DELETE FROM events e USING gone g WHERE e.tenant = g.tenant AND e.id = g.id RETURNING 1";

/// How a lock of the deployment is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lock {
    Shared,
    Exclusive,
}

/// Adds what the commit must lock before it looks for waits or for kept events.
pub(super) fn locks(commit: &Commit, locks: &mut BTreeMap<i64, Lock>) {
    let tenant = commit.tenant.as_str();
    let mut add = |event_type: &str, lock: Lock| {
        let held = locks.entry(key(tenant, event_type)).or_insert(lock);
        *held = lock.max(*held);
    };
    for write in &commit.writes {
        match write {
            Write::Publish(row) => {
                add(&row.event_type, Lock::Shared);
                add("", Lock::Shared);
            }
            Write::Subscribe { subscriber: Subscriber::Listen { .. }, wants, .. } => {
                for want in wants {
                    add(want.event_type.as_deref().unwrap_or(""), Lock::Exclusive);
                }
            }
            _ => {}
        }
    }
}

/// The key of the lock for events of one type; an empty type is any.
fn key(tenant: &str, event_type: &str) -> i64 {
    let digest = Sha256::new()
        .chain_update(b"event\0")
        .chain_update(tenant)
        .chain_update(b"\0")
        .chain_update(event_type)
        .finalize();
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest[..8]);
    i64::from_be_bytes(bytes)
}

/// Kind, owner and token of a subscriber.
pub(super) fn subscriber_key(subscriber: &Subscriber) -> (&'static str, Uuid, u64) {
    match *subscriber {
        Subscriber::Listen { instance, token } => ("listen", instance, token),
        Subscriber::Schedule { id } => ("schedule", id, 0),
    }
}
