//! The workers of this node that calls may name, every version of them.

use std::collections::BTreeMap;
use worker::Declaration;

pub(crate) struct Callees {
    by_name: BTreeMap<String, Vec<Declaration>>,
}

impl Callees {
    pub(crate) fn new(workers: Vec<Declaration>) -> Callees {
        let mut by_name = BTreeMap::<String, Vec<Declaration>>::new();
        for worker in workers {
            let versions = by_name.entry(worker.name.clone()).or_default();
            // Of two declarations of one version the later counts.
            versions.retain(|other| other.version != worker.version);
            versions.push(worker);
        }
        Callees { by_name }
    }

    pub(crate) fn is_known(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// How many calls to any version of a worker may be handled at once.
    pub(crate) fn caps(&self) -> BTreeMap<String, usize> {
        let most = |versions: &Vec<Declaration>| versions.iter().map(|worker| worker.concurrency_max).max();
        let caps = self.by_name.iter().filter_map(|(name, versions)| Some((name.clone(), most(versions)?)));
        caps.collect()
    }

    /// The worker of exactly that version; of the one registered last if a call names none. The error says what is
    /// missing.
    pub(crate) fn worker(&self, name: &str, version: Option<&str>) -> Result<&Declaration, String> {
        let versions = self.by_name.get(name).map(Vec::as_slice).unwrap_or_default();
        let found = versions.iter().rfind(|worker| version.is_none_or(|version| version == worker.version));
        found.ok_or_else(|| match (versions, version) {
            ([], _) | (_, None) => format!("no worker named `{name}` is registered on this node"),
            (others, Some(version)) => {
                let others: Vec<&str> = others.iter().map(|worker| worker.version.as_str()).collect();
                let others = others.join(", ");
                format!("worker `{name}` is registered on this node in version {others}, not {version}")
            }
        })
    }
}
