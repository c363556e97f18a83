//! Integration tests of the bus: one suite for each of its ports, over every adapter, with real servers.

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap is a failed test; the lint sees only the test functions themselves"
)]

mod carrying;
mod conformance;
mod gate;
mod places;
mod taking;
mod topics;
