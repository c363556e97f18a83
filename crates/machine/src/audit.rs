//! The audit trail as bytes: what an entry says, how entries are chained, and how an export of them is checked.
//!
//! The way in: [`Entry`] is what somebody did; [`Entry::bytes`] is what is stored and hashed, once and for all; [`link`] ties
//! an entry to the one before it; [`export`] writes a range of the chain and [`verify`] finds whatever was changed in it.
//! Signatures are made and checked by whoever is handed in: nothing here knows a key.

pub mod export;
#[cfg(test)]
mod tests;
mod verify;

use crate::{id::TenantId, time::Time};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;
pub use verify::{Broken, Signed, Verified, verify};

pub type Hash = [u8; 32];
pub type Signature = [u8; 64];

/// What the first entry of a chain follows.
pub const BEGINNING: Hash = [0; 32];

/// Who acted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    /// `key`, or `token` for somebody who was given a link.
    pub kind: String,
    /// The id of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The name under which they act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The tenant of the key, if it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// The node that did it for them.
    pub node: Uuid,
}

/// What was acted on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    pub kind: String,
    pub id: String,
}

/// One act. The order of the members is the order of the bytes: a new one goes to the end, and may be absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub id: Uuid,
    pub tenant: TenantId,
    /// Microseconds since 1970: a text would have to be rounded.
    pub at: i64,
    /// What was done: `instance.cancel`.
    pub act: String,
    pub who: Who,
    pub object: Object,
    /// SHA-256 of what was there before, in hex, where something was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The same of what is there now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

impl Entry {
    /// What is stored. Whoever checks it later checks these bytes and never writes them anew.
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("an entry is plain JSON")
    }

    pub fn read(bytes: &[u8]) -> Option<Entry> {
        serde_json::from_slice(bytes).ok()
    }
}

/// The hash of an entry's bytes, taken when it is written.
pub fn content_hash(bytes: &[u8]) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(b"windlass audit entry\0");
    hasher.update(bytes);
    hasher.finalize().into()
}

/// The hash of an entry's place in its chain: it follows `prev`, is the `seq`th, and has this content.
pub fn link(prev: &Hash, seq: u64, content: &Hash) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(b"windlass audit link\0");
    hasher.update(prev);
    hasher.update(seq.to_be_bytes());
    hasher.update(content);
    hasher.finalize().into()
}

/// What a checkpoint signs: up to `seq`, the chain of the tenant is the one that ends in `hash`.
pub fn checkpoint(tenant: &TenantId, seq: u64, hash: &Hash, at: Time) -> Vec<u8> {
    let mut said = b"windlass audit checkpoint\0".to_vec();
    said.extend(tenant.as_str().as_bytes());
    said.push(0);
    said.extend(seq.to_be_bytes());
    said.extend(hash);
    said.extend(at.0.to_be_bytes());
    said
}

/// Bytes as hex, in small letters.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The way back; nothing for what [`hex`] would not have written.
pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}
