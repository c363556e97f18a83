//! A port of its own: how a node tells others that there may be something for them. A hint is never truth: it may be
//! lost, doubled or late, and whoever hears it looks into the store (P10).
//!
//! [`Relay`] is the port over any server that passes words on; an adapter is a [`Line`] to one. What all adapters share is
//! written once: hints are gathered and told at most twenty times a second, a lost connection is made again, and whoever
//! listens again looks for everything.

mod relay;
mod text;

pub use relay::{Line, Listener, Relay, Speaker};

use async_trait::async_trait;
use std::collections::BTreeSet;
use uuid::Uuid;

/// Ids one hint names; beyond that it says "many".
pub const NAMED_MAX: usize = 220;

/// What may be worth a look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// Rows that no node owns are due.
    pub queues: bool,
    /// Clocks of tenants were moved, or their weights changed.
    pub clocks: bool,
    /// Somebody else has put events into the outbox.
    pub outbox: bool,
    pub ended: Ended,
}

/// Instances that have ended, for those who wait for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    These(BTreeSet<Uuid>),
    /// More than are named, or nobody knows which.
    Many,
}

impl Default for Ended {
    fn default() -> Ended {
        Ended::These(BTreeSet::new())
    }
}

impl Ended {
    pub fn is_none(&self) -> bool {
        matches!(self, Ended::These(ids) if ids.is_empty())
    }

    /// True if the instance may be one of them.
    pub fn may_be(&self, instance: Uuid) -> bool {
        match self {
            Ended::These(ids) => ids.contains(&instance),
            Ended::Many => true,
        }
    }
}

impl Hint {
    pub fn queues() -> Hint {
        Hint { queues: true, ..Hint::default() }
    }

    pub fn ended(instance: Uuid) -> Hint {
        Hint { ended: Ended::These([instance].into()), ..Hint::default() }
    }

    /// For whoever may have missed some.
    pub fn everything() -> Hint {
        Hint { queues: true, clocks: true, outbox: true, ended: Ended::Many }
    }

    pub fn is_none(&self) -> bool {
        !self.queues && !self.clocks && !self.outbox && self.ended.is_none()
    }

    /// Both in one.
    pub fn merge(&mut self, other: Hint) {
        self.queues |= other.queues;
        self.clocks |= other.clocks;
        self.outbox |= other.outbox;
        self.ended = match (std::mem::take(&mut self.ended), other.ended) {
            (Ended::These(mut ids), Ended::These(more)) if ids.len() + more.len() <= NAMED_MAX => {
                ids.extend(more);
                Ended::These(ids)
            }
            _ => Ended::Many,
        };
    }
}

#[async_trait]
pub trait Hints: Send + Sync + 'static {
    /// Passes the hint on soon, together with others. Never waits; whatever it tells of is committed.
    fn tell(&self, hint: Hint);
    /// The next hint of another node, or of several.
    async fn heard(&self) -> Hint;
}

/// Tells nobody and hears nothing: for a node that has the store to itself, or where only the re-scan is wanted.
pub struct NoHints;

#[async_trait]
impl Hints for NoHints {
    fn tell(&self, _: Hint) {}

    async fn heard(&self) -> Hint {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_add_up_and_too_many_names_become_many() {
        let mut hint = Hint::default();
        assert!(hint.is_none());
        hint.merge(Hint::queues());
        for number in 1..=NAMED_MAX as u128 {
            hint.merge(Hint::ended(Uuid::from_u128(number)));
        }
        assert!(hint.queues && !hint.clocks);
        assert!(hint.ended.may_be(Uuid::from_u128(7)) && !hint.ended.may_be(Uuid::from_u128(0)));
        hint.merge(Hint::ended(Uuid::from_u128(1_000)));
        assert_eq!(hint.ended, Ended::Many);
    }
}
