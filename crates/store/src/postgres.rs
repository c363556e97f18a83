//! The PostgreSQL adapter: one database, any number of nodes.
//!
//! The way in: [`Postgres`] is the store a node runs on; [`migrate`] makes its tables, as their owner. `apply` makes a
//! batch of commits one transaction of a handful of statements; `plan` says which commits may share a statement;
//! `bind` turns a write into a row of a statement's arrays; `tell` lets events and waits of a batch meet; `solo` does the
//! rare writes one by one.
//! No state is kept in a connection beyond a transaction, so that a transaction pooler may stand in between.

mod apply;
mod audit;
mod base;
mod batches;
mod bind;
mod channel;
mod claim;
mod dataset;
mod delivery;
mod departure;
mod doctor;
mod error;
mod error_group;
mod event;
mod event_type;
mod feed;
mod list;
mod migrate;
mod node;
mod outbox;
mod place;
mod plan;
mod pool;
pub mod probe;
mod publish;
mod purge;
mod queue;
mod read;
mod record_read;
mod record_write;
mod schedule;
mod session;
mod solo;
mod statement;
mod store;
mod tell;
mod tls;
mod transfer;
mod turns;
mod value;

pub use base::{Postgres, Written};
pub use doctor::{doctor, settings};
pub use migrate::{migrate, schema};
pub use pool::{BATCHES_MAX, CONNECTIONS_MAX, CONNECTIONS_MIN, Options};
pub use publish::{publish_in, wake};
pub use transfer::AtRest;
