//! Checks an export offline. Every line must be, byte for byte, what an export writes: what is read is written again and
//! compared, so that nothing can be changed in a way that is read as the same.

use super::{
    Entry, Hash, Signature, content_hash,
    export::{self, Checkpoint, Link},
    link, unhex,
};
use crate::{id::TenantId, time::Time};
use std::collections::BTreeSet;

/// Says whether the key's owner signed what was said.
pub type Signed<'a> = &'a dyn Fn(&Hash, &[u8], &Signature) -> bool;

/// What an export that is whole holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    pub tenant: TenantId,
    pub from: u64,
    pub to: u64,
    /// What the first entry follows.
    pub prev: Hash,
    /// The hash of the last entry.
    pub last: Hash,
    pub checkpoints: u64,
    /// Whoever signed anything in it: public keys.
    pub keys: BTreeSet<Hash>,
}

/// The first thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct Broken {
    /// From 1.
    pub line: usize,
    /// The entry that it is about, if it is about one.
    pub seq: Option<u64>,
    pub why: String,
}

/// Checks an export: order, hashes, checkpoints and the signature over all of it.
pub fn verify(export: &[u8], signed: Signed<'_>) -> Result<Verified, Broken> {
    let text = std::str::from_utf8(export).map_err(|_| broken(1, "this is no text"))?;
    if !text.ends_with('\n') {
        return Err(broken(text.lines().count().max(1), "the export is cut off"));
    }
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (Some(first), true) = (lines.first(), lines.len() >= 2) else {
        return Err(broken(1, "the export is cut off"));
    };
    let mut reading = Reading::begin(first, signed)?;
    for (at, line) in lines.iter().enumerate().take(lines.len() - 1).skip(1) {
        reading.line(at + 1, line)?;
    }
    reading.end(lines.len(), lines[lines.len() - 1], &export[..export.len() - lines[lines.len() - 1].len()])
}

fn broken(line: usize, why: impl Into<String>) -> Broken {
    Broken { line, seq: None, why: why.into() }
}

struct Reading<'a> {
    signed: Signed<'a>,
    /// What the first line promises.
    promised: Verified,
    /// How far it has come.
    seq: u64,
    hash: Hash,
    checkpoints: u64,
    keys: BTreeSet<Hash>,
}

impl<'a> Reading<'a> {
    fn begin(line: &str, signed: Signed<'a>) -> Result<Reading<'a>, Broken> {
        let promised = head(line).ok_or_else(|| broken(1, "this is not the first line of an export"))?;
        let Verified { from, to, prev, last, .. } = promised;
        if from == 0 || to.checked_add(1).is_none_or(|next| next < from) {
            return Err(broken(1, "the range makes no sense"));
        }
        if (from == 1) != (prev == super::BEGINNING) {
            return Err(broken(1, "the chain does not begin where it says"));
        }
        if to < from && prev != last {
            return Err(broken(1, "an empty range ends where it begins"));
        }
        let (seq, hash) = (from - 1, prev);
        Ok(Reading { signed, promised, seq, hash, checkpoints: 0, keys: BTreeSet::new() })
    }

    fn line(&mut self, at: usize, line: &str) -> Result<(), Broken> {
        match (entry(line), checkpoint(line)) {
            (Some(link), _) => self.entry(at, &link),
            (None, Some(checkpoint)) => self.checkpoint(at, &checkpoint),
            (None, None) => Err(broken(at, "this is no line of an export")),
        }
    }

    fn entry(&mut self, at: usize, read: &Link) -> Result<(), Broken> {
        let wrong = |why: &str| Err(Broken { line: at, seq: Some(read.seq), why: why.to_owned() });
        if read.seq != self.seq + 1 {
            let next = self.seq + 1;
            return wrong(&format!("entry {} stands where entry {next} should", read.seq));
        }
        if read.prev != self.hash {
            return wrong("it does not follow the entry before it");
        }
        if read.hash != link(&read.prev, read.seq, &content_hash(&read.body)) {
            return wrong("its content was changed");
        }
        if Entry::read(&read.body).is_none_or(|entry| entry.tenant != self.promised.tenant) {
            return wrong("it is no entry of this tenant");
        }
        (self.seq, self.hash) = (read.seq, read.hash);
        Ok(())
    }

    fn checkpoint(&mut self, at: usize, read: &Checkpoint) -> Result<(), Broken> {
        let wrong = |why: &str| Err(Broken { line: at, seq: Some(read.seq), why: why.to_owned() });
        if (read.seq, read.hash) != (self.seq, self.hash) {
            return wrong("the chain is another than the one that was signed here");
        }
        if !(self.signed)(&read.key, &read.said(&self.promised.tenant), &read.signature) {
            return wrong("the signature of the checkpoint is false");
        }
        self.checkpoints += 1;
        self.keys.insert(read.key);
        Ok(())
    }

    fn end(mut self, at: usize, line: &str, before: &[u8]) -> Result<Verified, Broken> {
        let (digest, key, signature) = end(line).ok_or_else(|| broken(at, "the export is cut off"))?;
        if (self.seq, self.hash) != (self.promised.to, self.promised.last) {
            let why = format!("the range ends at entry {} and not at {}", self.seq, self.promised.to);
            return Err(Broken { line: at, seq: Some(self.seq), why });
        }
        if digest != export::digest(before) {
            return Err(broken(at, "something before this line was changed"));
        }
        if !(self.signed)(&key, &export::said(&digest), &signature) {
            return Err(broken(at, "the signature of the export is false"));
        }
        self.keys.insert(key);
        Ok(Verified { checkpoints: self.checkpoints, keys: self.keys, ..self.promised })
    }
}

/// What stands before `end`, and what comes after it.
fn until<'t>(text: &'t str, end: &str) -> Option<(&'t str, &'t str)> {
    text.split_once(end)
}

fn head(line: &str) -> Option<Verified> {
    let rest = line.strip_prefix("{\"export\":\"windlass-audit/1\",\"tenant\":\"")?;
    let (tenant, rest) = until(rest, "\",\"from\":")?;
    let (from, rest) = until(rest, ",\"to\":")?;
    let (to, rest) = until(rest, ",\"prev\":\"")?;
    let (prev, rest) = until(rest, "\",\"last\":\"")?;
    let (last, _) = until(rest, "\"}")?;
    let (from, to): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
    let (prev, last) = (unhex(prev)?, unhex(last)?);
    let same = export::head_line(tenant, (from, to), (&prev, &last)) == line;
    let tenant = TenantId::new(tenant).ok()?;
    same.then_some(Verified { tenant, from, to, prev, last, checkpoints: 0, keys: BTreeSet::new() })
}

fn entry(line: &str) -> Option<Link> {
    let rest = line.strip_prefix("{\"seq\":")?;
    let (seq, rest) = until(rest, ",\"prev\":\"")?;
    let (prev, rest) = until(rest, "\",\"hash\":\"")?;
    let (hash, rest) = until(rest, "\",\"entry\":")?;
    let body = rest.strip_suffix("}\n")?.as_bytes().to_vec();
    let link = Link { seq: seq.parse().ok()?, prev: unhex(prev)?, hash: unhex(hash)?, body };
    (export::entry_line(&link) == line).then_some(link)
}

fn checkpoint(line: &str) -> Option<Checkpoint> {
    let rest = line.strip_prefix("{\"checkpoint\":")?;
    let (seq, rest) = until(rest, ",\"hash\":\"")?;
    let (hash, rest) = until(rest, "\",\"at\":")?;
    let (at, rest) = until(rest, ",\"key\":\"")?;
    let (key, rest) = until(rest, "\",\"signature\":\"")?;
    let (signature, _) = until(rest, "\"}")?;
    let (seq, at) = (seq.parse().ok()?, Time(at.parse().ok()?));
    let one = Checkpoint { seq, at, hash: unhex(hash)?, key: unhex(key)?, signature: unhex(signature)? };
    (export::checkpoint_line(&one) == line).then_some(one)
}

fn end(line: &str) -> Option<(Hash, Hash, Signature)> {
    let rest = line.strip_prefix("{\"end\":\"")?;
    let (digest, rest) = until(rest, "\",\"key\":\"")?;
    let (key, rest) = until(rest, "\",\"signature\":\"")?;
    let (signature, _) = until(rest, "\"}")?;
    let (digest, key, signature) = (unhex(digest)?, unhex(key)?, unhex(signature)?);
    (export::end_line(&digest, &key, &signature) == line).then_some((digest, key, signature))
}
