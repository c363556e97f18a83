//! A server as operators name it: a URL, checked before anything is connected to and shown without its password.

use std::fmt;
use url::Url;

/// A server that passes things on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    kind: Kind,
    pub(crate) url: Url,
}

/// What the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Redis,
    Nats,
}

impl Server {
    /// `redis://`, `rediss://` (with TLS), `nats://` or `tls://` (NATS with TLS). The error says what to write.
    pub fn parse(url: &str) -> Result<Server, String> {
        // What is wrong is never shown: it may hold a password.
        let url = Url::parse(url).map_err(|error| format!("it is no URL: {error}"))?;
        let kind = match url.scheme() {
            "redis" | "rediss" => Kind::Redis,
            "nats" | "tls" => Kind::Nats,
            other => return Err(format!("{other:?} is none of redis, rediss, nats and tls")),
        };
        if url.host_str().is_none_or(str::is_empty) {
            return Err(format!("it names no host; write {}://host:port", url.scheme()));
        }
        if kind == Kind::Redis {
            crate::redis::client(&url)?;
        }
        Ok(Server { kind, url })
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }
}

impl fmt::Display for Server {
    /// Without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, host) = (self.url.scheme(), self.url.host_str().unwrap_or_default());
        match self.url.port() {
            Some(port) => write!(f, "{scheme}://{host}:{port}"),
            None => write!(f, "{scheme}://{host}"),
        }
    }
}
