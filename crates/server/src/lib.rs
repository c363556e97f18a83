//! Answers. REST with OpenAPI, server-sent events, authentication and authorisation.
//!
//! The way in: [`serve`] (or [`router`] without a listener), [`routes::ROUTES`] (every address and what it demands),
//! [`access`] (roles and permissions), [`code`] (every problem code). One file per resource holds its handlers and
//! the types that go over the wire.
//!
//! Invariant: nothing here writes except through `runtime::Handle`, and every read names the caller's tenant, which
//! comes from the key. A handler is reachable only through the guard of [`auth`].

pub mod access;
mod acl;
pub mod code;
pub mod problem;
pub mod routes;

mod acts;
mod app;
mod audit;
mod auth;
mod backlog;
mod batches;
mod body;
mod breakers;
mod bulk;
mod buses;
mod clock;
mod cloudevents;
mod compensation;
mod console;
mod datasets;
mod dead_letters;
mod definitions;
mod deliveries;
mod docs;
mod error_groups;
mod etag;
mod event_lines;
mod event_types;
mod events;
mod explain;
mod feed;
mod filter;
mod frame;
mod graphs;
mod health;
mod history;
mod instances;
mod keys;
mod me;
mod metrics;
mod options;
mod orders;
mod page;
mod query;
mod queues;
mod record_kinds;
mod records;
mod refusal;
mod result;
mod router;
mod schedules;
mod secrets;
mod serve;
mod session;
mod starts;
mod stream;
mod tasks;
mod tenants;
#[cfg(test)]
mod tests;
mod versions;
mod webhooks;
mod wire;
mod workers;

pub use options::Options;
pub use router::{Error, description, router};
pub use serve::serve;
pub use session::{CSRF_HEADER, Links};
