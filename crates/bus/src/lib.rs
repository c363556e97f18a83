//! Carries. Hints between nodes over servers that are there for passing words on: Redis and NATS.
//!
//! The way in: [`Address`] is where hints go, read from a URL; [`Address::open`] is the port `store::Hints` over it.
//! Nothing here is needed for correctness: without the server everything still happens, found by the re-scan.

mod address;
mod nats;
mod redis;

pub use address::Address;
