//! An export: a contiguous range of a tenant's chain as NDJSON. The first line names the range and both end hashes, each
//! entry and each checkpoint has a line, and the last line signs all that stands before it.

use super::{Hash, Signature, checkpoint, hex};
use crate::{id::TenantId, time::Time};
use sha2::{Digest, Sha256};

/// An entry in its place in the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub seq: u64,
    pub prev: Hash,
    pub hash: Hash,
    /// The entry's bytes as stored.
    pub body: Vec<u8>,
}

/// A place in the chain that was signed when it was the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub seq: u64,
    pub hash: Hash,
    pub at: Time,
    /// Who signed: a public key.
    pub key: Hash,
    pub signature: Signature,
}

impl Checkpoint {
    /// What was signed.
    pub fn said(&self, tenant: &TenantId) -> Vec<u8> {
        checkpoint(tenant, self.seq, &self.hash, self.at)
    }
}

/// A range of a chain. `prev` is the hash that the first entry follows.
#[derive(Clone, Debug)]
pub struct Range {
    pub tenant: TenantId,
    pub from: u64,
    pub prev: Hash,
    pub links: Vec<Link>,
    /// By place; those in the range.
    pub checkpoints: Vec<Checkpoint>,
}

/// Writes the range; `sign` is handed what the last line signs.
pub fn write(range: &Range, key: &Hash, sign: impl FnOnce(&[u8]) -> Signature) -> Vec<u8> {
    let mut text = head(range);
    let mut checkpoints = range.checkpoints.iter().peekable();
    for link in &range.links {
        text += &entry_line(link);
        while let Some(one) = checkpoints.next_if(|one| one.seq == link.seq) {
            text += &checkpoint_line(one);
        }
    }
    let digest = digest(text.as_bytes());
    let signature = sign(&said(&digest));
    text += &end_line(&digest, key, &signature);
    text.into_bytes()
}

/// What the last line signs.
pub(super) fn said(digest: &Hash) -> Vec<u8> {
    let mut said = b"windlass audit export\0".to_vec();
    said.extend(digest);
    said
}

pub(super) fn digest(lines: &[u8]) -> Hash {
    Sha256::digest(lines).into()
}

fn head(range: &Range) -> String {
    let last = range.links.last();
    let to = last.map_or(range.from.saturating_sub(1), |link| link.seq);
    let hash = last.map_or(range.prev, |link| link.hash);
    head_line(range.tenant.as_str(), (range.from, to), (&range.prev, &hash))
}

pub(super) fn head_line(tenant: &str, (from, to): (u64, u64), (prev, last): (&Hash, &Hash)) -> String {
    let (prev, last) = (hex(prev), hex(last));
    format!(
        "{{\"export\":\"windlass-audit/1\",\"tenant\":\"{tenant}\",\"from\":{from},\"to\":{to},\"prev\":\"{prev}\",\"last\":\"{last}\"}}\n"
    )
}

pub(super) fn entry_line(link: &Link) -> String {
    let body = String::from_utf8_lossy(&link.body);
    let (seq, prev, hash) = (link.seq, hex(&link.prev), hex(&link.hash));
    format!("{{\"seq\":{seq},\"prev\":\"{prev}\",\"hash\":\"{hash}\",\"entry\":{body}}}\n")
}

pub(super) fn checkpoint_line(one: &Checkpoint) -> String {
    let (hash, key, signature) = (hex(&one.hash), hex(&one.key), hex(&one.signature));
    let (seq, at) = (one.seq, one.at.0);
    format!(
        "{{\"checkpoint\":{seq},\"hash\":\"{hash}\",\"at\":{at},\"key\":\"{key}\",\"signature\":\"{signature}\"}}\n"
    )
}

pub(super) fn end_line(digest: &Hash, key: &Hash, signature: &Signature) -> String {
    let (digest, key, signature) = (hex(digest), hex(key), hex(signature));
    format!("{{\"end\":\"{digest}\",\"key\":\"{key}\",\"signature\":\"{signature}\"}}\n")
}
