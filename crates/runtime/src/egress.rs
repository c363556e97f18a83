//! Everything that goes out. One client for every outward call: one set of rules, one set of bounds.
//!
//! The way in: [`Egress`] makes the calls of `call: http` steps and whatever these need. `connect` opens
//! connections and is where addresses are checked; `exchange` is one request and its answer; `rules` and `settings`
//! are what the operator says. Nothing else in the engine may open a connection to a place a tenant named.

mod auth;
mod connect;
mod exchange;
mod http;
mod openapi;
mod reveal;
mod rules;
mod settings;
mod webhook;

use crate::{
    clock::Clock,
    lease::Lease,
    options::Options,
    secrets::Keyring,
    unbegun::{Stop, Unbegun},
};
use bytes::Bytes;
use connect::Connector;
use http_body_util::Full;
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioTimer},
};
use machine::{Fault, fault::Kind};
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};
use store::Store;

pub(crate) use reveal::Revealed;
pub use rules::Range;
pub use settings::{Proxy, Resolve, Settings, private_ranges, roots};
pub(crate) use webhook::{Answered, Message};

/// Idle connections kept per host, and for how long.
const IDLE_PER_HOST_MAX: usize = 32;
const IDLE_TIME: Duration = Duration::from_secs(30);

type HttpClient = Client<Connector, Full<Bytes>>;

tokio::task_local! {
    /// Set while a call is made, when secrets are in memory.
    static DISCREET: ();
}

/// Makes a call during which a panic's message is not shown, because it may hold a secret.
pub(crate) async fn discreetly<T>(call: impl Future<Output = T>) -> T {
    DISCREET.scope((), call).await
}

/// True where a panic's message may hold a secret; for the panic hook of the process.
pub fn is_discreet() -> bool {
    DISCREET.try_with(|()| ()).is_ok()
}

/// Makes outward calls.
pub(crate) struct Egress {
    settings: Arc<Settings>,
    /// Made on first use: loading the trusted roots takes milliseconds that many nodes never need.
    client: OnceLock<Result<HttpClient, String>>,
    limit: Duration,
    answer_bytes_max: usize,
    keys: Keyring,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    lease: Arc<Lease>,
    tokens: auth::Tokens,
    documents: openapi::Documents,
}

impl Egress {
    pub(crate) fn new(
        options: &Options,
        (store, clock): (Arc<dyn Store>, Arc<dyn Clock>),
        lease: Arc<Lease>,
        keys: Keyring,
    ) -> Egress {
        Egress {
            settings: Arc::new(options.egress.clone()),
            client: OnceLock::new(),
            limit: Duration::from_micros(options.http_timeout.0.max(0) as u64),
            answer_bytes_max: options.answer_bytes_max,
            keys,
            store,
            clock,
            lease,
            tokens: auth::Tokens::default(),
            documents: openapi::Documents::default(),
        }
    }

    /// Refuses to send anything if what had to be read first took so long that another node may be at it.
    fn begin(&self) -> Result<(), Stop> {
        if self.lease.may_begin() { Ok(()) } else { Err(Unbegun::Late.into()) }
    }

    fn client(&self) -> Result<&HttpClient, Fault> {
        let build = || {
            let connector = Connector::new(self.settings.clone())?;
            let client = Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(IDLE_TIME)
                .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
                .build(connector);
            Ok(client)
        };
        let client = self.client.get_or_init(build);
        client
            .as_ref()
            .map_err(|error| Fault::new(Kind::Configuration, format!("this node calls nobody: {error}")))
    }
}
