//! The port of what comes in: what a bus promises to whoever takes messages from it.
//!
//! # Contract
//!
//! - **Acknowledged after it is taken.** A message is acknowledged to its server once [`Intake::take`] has answered
//!   [`Taken::Done`], which is after everything that follows from it is durable.
//! - **At least once.** A message whose acknowledgement was lost, or whose consumer died, comes again, also to another
//!   node; it has the same id, and [`Incoming::again`] says so where the server knows.
//! - **Not before its time.** [`Taken::Later`] leaves the message with its server, which gives it again after a while.
//! - **By tenant.** A message belongs to the tenant that its place is named after, whatever is in it.
//! - **Bounded.** At most [`UNDER_WAY_MAX`] messages of one place are being taken at once; the rest stays at the server.

use crate::Template;
use async_trait::async_trait;
use machine::TenantId;

/// Messages of one place that are being taken at once.
pub const UNDER_WAY_MAX: usize = 32;

/// What a place is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Commands to workflows.
    Commands,
    /// CloudEvents.
    Events,
}

/// A place that messages come in from, one for every tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inlet {
    pub channel: Channel,
    pub subject: Template,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    pub tenant: TenantId,
    pub channel: Channel,
    /// The same whenever it comes again: the place and where in it the message stands.
    pub id: String,
    /// It was given out before.
    pub again: bool,
    pub body: Vec<u8>,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    Done,
    /// Not now: why.
    Later(String),
}

/// Takes messages.
#[async_trait]
pub trait Intake: Send + Sync + 'static {
    async fn take(&self, incoming: Incoming) -> Taken;
}

/// A server that messages come in from.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// Hands over what is there for the tenant, until dropped. Answers only if it cannot go on: why.
    async fn hear(&self, tenant: &TenantId, inlet: &Inlet, intake: &dyn Intake) -> String;
}
