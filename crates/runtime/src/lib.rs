//! Drives. Commit pipeline, turn, pumps, retry, dead letters, recovery.
//!
//! The way in: [`Node`] is one process start; [`Handle`] is what everybody else calls; [`api`] is what is asked and
//! answered. Inside, every hop is pump → turn → decide → commit: `finder` and `calls` are the pumps, `turn` is
//! load → decide → commit, `children` and `fanout` start instances for instances, `committer` folds commits into batches, `rows` turns a decision into rows.
//! This crate must never serve HTTP and never decide what a workflow does next: that is `machine`'s.

mod acl;
mod addressing;
pub mod api;
mod asked;
mod batches;
pub mod breaker;
mod bucket;
mod budget;
pub mod buses;
mod callees;
mod calls;
mod children;
pub mod clock;
mod clocks;
mod collections;
mod committer;
pub mod datasets;
mod dead_letters;
mod definitions;
mod deliveries;
pub mod egress;
pub mod engine;
mod errors;
mod event_types;
mod events;
pub mod explain;
mod fair;
mod fanout;
mod finder;
mod flush;
pub mod guards;
pub mod handle;
mod heavy;
mod held;
mod hints;
mod hub;
mod intake;
mod lanes;
mod lease;
mod library;
mod lost;
mod metrics;
mod newer;
pub mod node;
pub mod options;
mod outage;
mod outbox;
mod patience;
mod polls;
mod publishing;
mod records;
mod refusal;
mod remote;
pub mod retention;
mod rows;
mod runs;
pub mod sandbox;
mod schedules;
mod scripts;
pub mod secrets;
mod signals;
mod slots;
pub mod spans;
mod starts;
mod subscribers;
mod tasks;
mod tasks_for_people;
mod telling;
pub mod tenants;
mod trace;
mod turn;
mod versions;
pub mod webhooks;

pub use definitions::Programs;
pub use handle::Handle;
pub use node::{Node, Parts};
pub use options::{Options, WorkerOptions};
pub use schedules::ScheduleOrder;
pub use tasks::Halt;
pub use tenants::{TenantOrder, WEIGHT_MAX};
