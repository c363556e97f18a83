//! Names of things: tenants and the ids of instances and of what they own.
//!
//! Ids made outside an instance are UUIDv7 and come from the caller. Ids inside an instance derive from
//! (instance, sequence), so that deciding twice names the same things the same way.

use crate::time::Time;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{fmt, str::FromStr, sync::Arc};
use uuid::Uuid;

/// A tenant's id: 1 to 63 characters of `a-z 0-9 -`, starting and ending with a letter or digit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TenantId(Arc<str>);

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidId(pub String);

impl TenantId {
    pub fn new(text: &str) -> Result<TenantId, InvalidId> {
        if is_dns_label(text) {
            Ok(TenantId(text.into()))
        } else {
            Err(InvalidId(format!(
                "tenant id {text:?} must be 1 to 63 of a-z, 0-9 and '-', not at either end"
            )))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// True for a DNS label: what the language demands of namespaces and names.
pub fn is_dns_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    !bytes.is_empty()
        && bytes.len() <= 63
        && bytes.iter().all(inner)
        && bytes[0] != b'-'
        && bytes[bytes.len() - 1] != b'-'
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for TenantId {
    type Error = InvalidId;
    fn try_from(text: String) -> Result<Self, InvalidId> {
        TenantId::new(&text)
    }
}

impl From<TenantId> for String {
    fn from(id: TenantId) -> String {
        id.0.as_ref().to_owned()
    }
}

/// What an id names; decides its prefix in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Instance,
    Task,
    Signal,
    DeadLetter,
    Event,
    Schedule,
    Dataset,
    Delivery,
    ErrorGroup,
    Batch,
    Audit,
    Node,
}

impl Kind {
    pub fn prefix(self) -> &'static str {
        match self {
            Kind::Instance => "ins",
            Kind::Task => "tsk",
            Kind::Signal => "sig",
            Kind::DeadLetter => "dl",
            Kind::Event => "evt",
            Kind::Schedule => "sch",
            Kind::Dataset => "ds",
            Kind::Delivery => "dlv",
            Kind::ErrorGroup => "err",
            Kind::Batch => "bat",
            Kind::Audit => "aud",
            Kind::Node => "node",
        }
    }
}

/// Writes an id as the API shows it: `ins_0192…`.
pub fn show(kind: Kind, id: Uuid) -> String {
    format!("{}_{}", kind.prefix(), id.simple())
}

/// Reads an id as the API shows it; the bare UUID is accepted too.
pub fn parse(kind: Kind, text: &str) -> Result<Uuid, InvalidId> {
    let bare = text.strip_prefix(kind.prefix()).and_then(|rest| rest.strip_prefix('_')).unwrap_or(text);
    Uuid::from_str(bare).map_err(|_| {
        InvalidId(format!("{text:?} is not an id of the form {}_<32 hexadecimal digits>", kind.prefix()))
    })
}

/// The id of the `sequence`-th thing an instance made. Keeps the instance's time prefix so that rows of one
/// instance lie together in the store.
pub fn derive(instance: Uuid, sequence: u64) -> Uuid {
    let mut hash = Sha256::new();
    hash.update(instance.as_bytes());
    hash.update(sequence.to_be_bytes());
    let digest = hash.finalize();
    let mut bytes = [0u8; 16];
    bytes[..6].copy_from_slice(&instance.as_bytes()[..6]);
    bytes[6..].copy_from_slice(&digest[..10]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// The id of the schedule of a definition, whatever its version.
pub fn schedule(tenant: &TenantId, namespace: &str, name: &str) -> Uuid {
    let mut hash = Sha256::new();
    for part in ["schedule", tenant.as_str(), namespace, name] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut bytes = [0u8; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// The id of the instance that `cause` starts at `at`: the same on every node and after every restart. It sorts by
/// that time, as ids made from the clock do.
pub fn started_by(cause: Uuid, at: Time) -> Uuid {
    let digest = Sha256::new().chain_update(cause.as_bytes()).chain_update(at.0.to_be_bytes()).finalize();
    let mut random = [0u8; 10];
    random.copy_from_slice(&digest[..10]);
    uuid::Builder::from_unix_timestamp_millis((at.0 / 1000).max(0) as u64, &random).into_uuid()
}

/// The id of the child for one item of a `map` step. Ids of one step follow each other, so that starting many
/// children writes the store's pages in order.
pub fn derive_item(instance: Uuid, token: u64, index: u32) -> Uuid {
    let mut bytes = *derive(instance, token).as_bytes();
    bytes[12..].copy_from_slice(&index.to_be_bytes());
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}
