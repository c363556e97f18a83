//! Integration tests: what is drawn, seen from outside.

// Skipping must be seen.
#![allow(clippy::print_stderr)]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod corpus;
mod geometry;
mod pictures;
mod random;
mod versions;
