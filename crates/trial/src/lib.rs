//! Tries out. [`check`] is the conformance suite of workers that handle events: whoever declares one runs it over the
//! declaration. [`tap::Tap`] and [`time::VirtualClock`] are what it, and other tests of nodes, are made with.
//!
//! Tests only: nothing that is built into the product depends on it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what fails here is a failed test"
)]

pub mod corpus;
mod suite;
pub mod tap;
pub mod time;
mod world;

pub use suite::check;
