//! The SQLite adapter: one file, one writer, durable before answered.
//!
//! The way in: [`Sqlite`] is the store a node runs on (one writer thread that folds queued commits into one
//! transaction, reader threads beside it). [`Inline`] is the same [`Core`] answering on the caller's thread, for the
//! simulator and for tests. [`Core`] itself is synchronous and holds the one connection that writes; [`Read`] is
//! every read, over any connection.

mod apply;
mod audit;
mod backup;
mod batches;
mod checkpoint;
mod claim;
mod core;
mod dataset;
mod delivery;
mod departure;
mod doctor;
mod error;
mod error_group;
mod event;
mod event_type;
mod host;
mod inline;
mod list;
mod lock;
mod migrate;
mod node;
mod open;
mod outbox;
mod place;
mod pool;
pub mod probe;
mod purge;
mod queue;
mod read;
mod record_read;
mod record_write;
mod schedule;
mod semver;
mod statement;
mod threaded;
mod transfer;
mod write;

pub use apply::Batch;
pub use backup::{backup, restore};
pub use core::Core;
pub use doctor::doctor;
pub use inline::Inline;
pub use read::Read;
pub use semver::by_preference;
pub(crate) use semver::compare as compare_versions;
pub use threaded::Sqlite;
pub use transfer::AtRest;

#[cfg(test)]
mod tests;
