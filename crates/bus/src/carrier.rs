//! The port of events that go out: what a bus promises to whoever gives it events.
//!
//! # Contract
//!
//! - **Confirmed is confirmed.** [`Carried::Confirmed`] comes only after the server has said that it has the event.
//! - **At least once.** [`Carried::Failed`] and [`Carried::Away`] mean that the event may or may not have arrived: it is
//!   given again, with the same id, which travels with it so that servers and consumers can tell.
//! - **Whose fault it is.** [`Carried::Failed`] is about the place of that event: others may go on. [`Carried::Away`] is
//!   about the server.
//! - **Refused for good.** [`Carried::Refused`] is about that event alone: the server would never take it.
//! - **In order.** What is confirmed by one call comes before whatever is given to a later one. Whoever wants two events in
//!   order gives the second once the first is confirmed.
//! - **Bounded.** A call ends within [`CARRY_MAX`], whatever the server does, and an outage keeps nothing in memory:
//!   a call that failed has forgotten its parcels.
//! - **By tenant.** The place that an event goes to is made of its tenant, its type and what the operator set, and of
//!   nothing else that a tenant chooses.

use async_trait::async_trait;
use machine::TenantId;
use std::time::Duration;

/// The longest that a call may take.
pub const CARRY_MAX: Duration = Duration::from_secs(30);

/// An event on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    pub tenant: TenantId,
    /// The same whenever it is carried again.
    pub id: String,
    /// Events of one key are carried in order.
    pub key: Option<String>,
    pub event_type: String,
    /// A CloudEvent as JSON.
    pub event: Vec<u8>,
}

/// What became of one parcel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    Confirmed,
    /// It will never be taken: why.
    Refused(String),
    /// The server answered, and not well: it is to be carried again, why.
    Failed(String),
    /// The server could not be reached, did not answer, or takes nothing from anybody: it is to be carried again, why.
    Away(String),
}

impl Carried {
    /// It has to be carried again.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Carried::Failed(_) | Carried::Away(_))
    }
}

/// Carries events to one server.
#[async_trait]
pub trait Carrier: Send + Sync + 'static {
    /// The server, without user and password.
    fn place(&self) -> String;
    /// Answers for every parcel, in their order.
    async fn carry(&self, parcels: &[Parcel]) -> Vec<Carried>;
}

/// The same answer for all.
pub(crate) fn all(parcels: &[Parcel], answer: &Carried) -> Vec<Carried> {
    vec![answer.clone(); parcels.len()]
}
