//! `[hints]`: how nodes on one database wake each other.

use bus::Address;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Hints {
    /// `postgres`, `off`, or a server such as `redis://host:6379` or `nats://host:4222`. Without a word the database
    /// itself. May hold a password: prefer the environment, WINDLASS_HINTS_URL.
    pub(crate) url: String,
    /// Deployments that share a Redis or NATS server have different names.
    pub(crate) deployment: String,
}

impl Default for Hints {
    fn default() -> Hints {
        Hints { url: String::new(), deployment: "windlass".to_owned() }
    }
}

/// What carries hints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Nothing,
    Database,
    Server(Address),
}

impl Hints {
    /// For nodes on the database at this URL, or on a file if it is empty; the error names what is wrong.
    pub(crate) fn way(&self, store: &str) -> Result<Way, String> {
        let way = match self.url.as_str() {
            "" if store.is_empty() => Way::Nothing,
            "" | "postgres" => Way::Database,
            "off" => Way::Nothing,
            _ => Way::Server(self.address()?),
        };
        if way != Way::Nothing && store.is_empty() {
            let why = "a file is one node's; hints are for nodes that share a database (store.url)";
            return Err(format!("hints.url: {why}"));
        }
        Ok(way)
    }

    /// What is wrong whatever the store is.
    pub(super) fn flaw(&self) -> Option<String> {
        match self.url.as_str() {
            "" | "postgres" | "off" => None,
            _ => self.address().err(),
        }
    }

    fn address(&self) -> Result<Address, String> {
        Address::parse(&self.url, &self.deployment).map_err(|why| {
            format!("hints.url: {why}; it may be postgres, off, redis://host:port or nats://host:port")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_fits_its_store() {
        let way = |url: &str, store: &str| Hints { url: url.to_owned(), ..Hints::default() }.way(store);
        let database = "postgres://db/w";
        assert_eq!(way("", ""), Ok(Way::Nothing));
        assert_eq!(way("off", ""), Ok(Way::Nothing));
        assert_eq!(way("", database), Ok(Way::Database));
        assert_eq!(way("postgres", database), Ok(Way::Database));
        assert_eq!(way("off", database), Ok(Way::Nothing));
        for url in ["redis://r:6379", "rediss://r", "nats://n", "tls://n:4222"] {
            assert!(matches!(way(url, database), Ok(Way::Server(_))), "{url}");
        }
        for url in ["postgres", "redis://r:6379"] {
            assert!(way(url, "").unwrap_err().contains("a file is one node's"), "{url}");
        }
        assert!(way("redis", database).unwrap_err().contains("hints.url: it is no URL"));
    }
}
