//! Integration tests of the store: the conformance suite over every adapter, and what is SQLite's own.

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap is a failed test; the lint sees only the test functions themselves"
)]

mod backup;
mod conformance;
mod differential;
mod doctor;
mod fixture;
mod postgres;
mod postgres_feed;
mod postgres_fence;
mod postgres_partitions;
mod postgres_socket;
mod postgres_tls;
mod postgres_upgrade;
mod sqlite;
mod transfer;
