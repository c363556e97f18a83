//! Where hints go: a URL and the name of the deployment, checked before anything is connected to.

use crate::{Kind, Server, nats::Nats, redis::Redis};
use std::fmt;
use store::hint::Relay;

/// The longest name of a deployment.
const DEPLOYMENT_MAX: usize = 64;

/// A server that carries hints, and the words of one deployment on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    server: Server,
    /// Deployments that share a server do not hear each other.
    channel: String,
}

impl Address {
    /// A URL as [`Server::parse`] wants it. The error says what to write.
    pub fn parse(url: &str, deployment: &str) -> Result<Address, String> {
        let server = Server::parse(url)?;
        if server.kind() == Kind::Kafka {
            return Err("Kafka carries no hints; redis, rediss, nats and tls do".to_owned());
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if deployment.is_empty() || deployment.len() > DEPLOYMENT_MAX || !deployment.chars().all(is_plain) {
            return Err(format!(
                "the deployment {deployment:?} must be 1 to {DEPLOYMENT_MAX} letters, digits, - or _"
            ));
        }
        Ok(Address { server, channel: format!("windlass.hints.{deployment}") })
    }

    /// Tells and hears there from now on, connecting in the background as often as it takes.
    pub fn open(&self) -> Result<Relay, String> {
        let (url, name) = (&self.server.url, self.to_string());
        match self.server.kind() {
            Kind::Redis => Ok(Relay::open(Redis::new(url, &self.channel, name)?)),
            Kind::Nats => Ok(Relay::open(Nats::new(url, &self.channel, name))),
            Kind::Kafka => Err("Kafka carries no hints".to_owned()),
        }
    }
}

impl fmt::Display for Address {
    /// Without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.server.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        let cases = [
            ("", "a", "no URL"),
            ("redis:6379", "a", "names no host"),
            ("redis://:secret@", "a", "no URL"),
            ("kafka://u:secret@k:9092", "a", "Kafka carries no hints"),
            ("redis://u:secret@r:99999", "a", "no URL"),
            ("redis://u:secret@r/database", "a", "Redis cannot be reached by it"),
            ("nats://u:secret@n:4222", "", "the deployment \"\" must be 1 to 64"),
            ("nats://u:secret@n:4222", "a b", "the deployment \"a b\" must be"),
            ("nats://u:secret@n:4222", "a.>", "the deployment \"a.>\" must be"),
        ];
        for (url, deployment, expected) in cases {
            let said = Address::parse(url, deployment).unwrap_err();
            assert!(said.contains(expected) && !said.contains("secret"), "{url}: {said}");
        }
    }

    #[test]
    fn an_address_is_shown_without_its_password() {
        for (url, shown) in [
            ("redis://u:secret@r:6379/2", "redis://r:6379"),
            ("rediss://:secret@r", "rediss://r"),
            ("nats://token@n:4222", "nats://n:4222"),
            ("tls://[::1]:4222", "tls://[::1]:4222"),
        ] {
            assert_eq!(Address::parse(url, "prod").unwrap().to_string(), shown);
        }
    }
}
