//! Rows of the audit trail.

use machine::audit::export::Checkpoint;
use machine::{Time, audit::Hash};
use uuid::Uuid;

/// `audit_entries`: what somebody did. One with the same id already there is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    pub id: Uuid,
    pub at: Time,
    /// What was done: `instance.cancel`.
    pub act: String,
    pub key_id: Option<String>,
    pub subject: Option<String>,
    pub object_kind: String,
    pub object_id: String,
    /// The entry as it is hashed.
    pub body: Vec<u8>,
    pub content_hash: Hash,
}

/// Where an entry stands in its chain, once it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealRow {
    pub id: Uuid,
    pub seq: u64,
    pub prev: Hash,
    pub hash: Hash,
}

/// Entries that take their places, in order, after the one that is the last now; and a signature, perhaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seal {
    pub rows: Vec<SealRow>,
    pub checkpoint: Option<Checkpoint>,
}

/// Where a tenant's chain ends now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// 0 if nothing was sealed yet.
    pub seq: u64,
    pub hash: Hash,
    /// The newest.
    pub checkpoint: Option<Checkpoint>,
}

/// An entry as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditView {
    pub id: Uuid,
    pub body: Vec<u8>,
    /// Nothing until it is sealed.
    pub seal: Option<SealRow>,
}
