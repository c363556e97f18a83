//! Decides. Ids, time, data, the definition language, expressions and the instance state machine.
//!
//! The way in: [`language`] turns a document into the IR ([`ir::Workflow`]); [`program::Program`] is that IR with
//! its expressions compiled; [`decide()`] takes a program, a state and a command and answers what follows.
//!
//! This crate must never touch a clock, randomness, tokio, files, SQL or HTTP (`cargo xtask tidy` checks it).

pub mod acl;
pub mod audit;
pub mod child;
pub mod collect;
pub mod command;
pub mod compensation;
pub mod correlation;
pub mod data;
pub mod decide;
pub mod envelope;
pub mod event;
pub mod expr;
pub mod fault;
pub mod id;
pub mod ir;
pub mod language;
pub mod newer;
pub mod program;
pub mod query;
pub mod record;
pub mod retry;
pub mod saga;
pub mod schedule;
pub mod schema;
pub mod snapshot;
pub mod state;
pub mod time;
pub mod token;
pub mod version;

pub use command::{Answer, Command, Decision, Effect, Event, Subject};
pub use data::Data;
pub use decide::decide;
pub use fault::Fault;
pub use id::TenantId;
pub use program::Program;
pub use state::State;
pub use time::Time;
