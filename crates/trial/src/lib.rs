//! Tries out. [`check`] is the conformance suite of workers that handle events, [`check_remote`] the same of those that are
//! somewhere else, [`check_calls`] that of workers that steps call: whoever declares one runs it over the declaration.
//! [`tap::Tap`] and [`time::VirtualClock`] are what it, and other tests of nodes, are made with; [`lent`] and [`gossip`] let
//! whoever runs such tests choose the store below them and what becomes of hints.
//!
//! Tests only: nothing that is built into the product depends on it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what fails here is a failed test"
)]

mod calls;
pub mod corpus;
pub mod gossip;
pub mod lent;
mod outside;
mod suite;
pub mod tap;
pub mod time;
mod world;

pub use calls::check_calls;
pub use suite::{check, check_remote};
