//! What an operator may set. Every limit has a name and a default that is safe.

use crate::session::Links;
use runtime::clock::{Clock, SystemClock};
use std::{sync::Arc, time::Duration};

/// How the server behaves.
#[derive(Clone)]
pub struct Options {
    /// The most bytes a request body may hold.
    pub body_bytes_max: usize,
    /// The same for `POST /api/v1/instances/bulk`.
    pub bulk_bytes_max: usize,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// How long a request that changes something waits for the store; then the client is told that the outcome is not
    /// known. What was asked for goes on.
    pub write_timeout: Duration,
    /// The most headers of one request.
    pub headers_max: usize,
    /// The most bytes of all header names and values of one request.
    pub header_bytes_max: usize,
    /// The most bytes of the request's address.
    pub uri_bytes_max: usize,
    /// The most connections at once; further ones wait to be accepted.
    pub connections_max: usize,
    /// How long requests in flight may go on after the server was told to stop.
    pub drain_timeout: Duration,
    /// How long a verified key is trusted before the store is asked again: the bound on how late a revocation acts.
    pub key_cache: Duration,
    /// Serve `/metrics` without a key. The values are of the whole node and name tenants, so this is for networks
    /// that only the monitoring system can reach.
    pub metrics_public: bool,
    /// Links that log in to the console once.
    pub links: Arc<Links>,
    /// Decides which keys have expired.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            body_bytes_max: 1024 * 1024,
            bulk_bytes_max: 8 * 1024 * 1024,
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            headers_max: 100,
            header_bytes_max: 32 * 1024,
            uri_bytes_max: 8 * 1024,
            connections_max: 8192,
            drain_timeout: Duration::from_secs(15),
            key_cache: Duration::from_secs(3),
            metrics_public: false,
            links: Arc::default(),
            clock: Arc::new(SystemClock),
        }
    }
}
