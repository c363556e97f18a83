//! Drives. Commit pipeline, turn, pumps, retry, dead letters, recovery.
//!
//! The way in: [`Handle`] is what everybody else calls; [`api`] is what is asked and answered.

pub mod api;
pub mod handle;

pub use handle::Handle;
