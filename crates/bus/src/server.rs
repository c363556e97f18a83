//! A server as operators name it: a URL, checked before anything is connected to and shown without its password.

use std::fmt;
use url::Url;

/// A server that passes things on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    kind: Kind,
    pub(crate) url: Url,
    /// Kafka: further servers that may be asked first, as `host:port`.
    pub(crate) more: Vec<String>,
}

/// What the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Redis,
    Nats,
    Kafka,
}

impl Server {
    /// `redis://`, `rediss://` (with TLS), `nats://`, `tls://` (NATS with TLS), `kafka://` or `kafkas://` (with TLS), the last
    /// two with several servers if need be: `kafka://a:9092,b:9092`. The error says what to write.
    pub fn parse(url: &str) -> Result<Server, String> {
        // What is wrong is never shown: it may hold a password.
        let (url, more) = apart(url)?;
        let url = Url::parse(&url).map_err(|error| format!("it is no URL: {error}"))?;
        let kind = match url.scheme() {
            "redis" | "rediss" => Kind::Redis,
            "nats" | "tls" => Kind::Nats,
            "kafka" | "kafkas" => Kind::Kafka,
            other => return Err(format!("{other:?} is none of redis, rediss, nats, tls, kafka and kafkas")),
        };
        if url.host_str().is_none_or(str::is_empty) {
            return Err(format!("it names no host; write {}://host:port", url.scheme()));
        }
        if kind == Kind::Redis {
            crate::redis::client(&url)?;
        }
        let server = Server { kind, url, more };
        if kind == Kind::Kafka {
            crate::kafka::security(&server)?;
        }
        Ok(server)
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }
}

/// The URL with its first server, and the others of a Kafka cluster.
fn apart(url: &str) -> Result<(String, Vec<String>), String> {
    let Some((scheme, rest)) = url.split_once("://").filter(|(scheme, _)| scheme.starts_with("kafka")) else {
        return Ok((url.to_owned(), vec![]));
    };
    let (authority, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let hosts = authority.rfind('@').map_or(0, |at| at + 1);
    let (user, hosts) = authority.split_at(hosts);
    let mut hosts = hosts.split(',').map(str::trim);
    let first = hosts.next().unwrap_or_default();
    let is_server = |host: &str| {
        let url = Url::parse(&format!("kafka://{host}"));
        url.is_ok_and(|url| url.port().is_some() && url.path().is_empty() && url.query().is_none())
    };
    let more: Vec<String> = hosts.map(str::to_owned).collect();
    match more.iter().all(|host| is_server(host)) {
        true => Ok((format!("{scheme}://{user}{first}{tail}"), more)),
        false => Err(format!("further servers are written as host:port; {} of them", more.len())),
    }
}

impl fmt::Display for Server {
    /// Without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, host) = (self.url.scheme(), self.url.host_str().unwrap_or_default());
        match self.url.port() {
            Some(port) => write!(f, "{scheme}://{host}:{port}")?,
            None => write!(f, "{scheme}://{host}")?,
        }
        self.more.iter().try_for_each(|server| write!(f, ",{server}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_has_several_servers() {
        let server = Server::parse("kafkas://u:s%40c@a:9092,b:9093?sasl=scram-sha-512").unwrap();
        assert_eq!((server.to_string().as_str(), server.kind()), ("kafkas://a:9092,b:9093", Kind::Kafka));
        assert_eq!(Server::parse("kafka://[::1]:9092,b:1").unwrap().more, ["b:1"]);
        for (url, said) in [
            ("kafka://u:secret@a:9092,b", "host:port"),
            ("kafka://u:secret@a:9092?sasl=magic", "it is plain, scram-sha-256 or scram-sha-512"),
            ("kafka://a:9092?sasl=plain", "needs a user"),
            ("kafka://", "no host"),
        ] {
            let error = Server::parse(url).unwrap_err();
            assert!(error.contains(said) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
