//! `[workers.NAME]`: what an operator says of a worker that is part of this program. Workers somewhere else say it
//! themselves.

use runtime::WorkerOptions;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const BOUND_MAX: u32 = 1_000_000;

/// By name.
pub(crate) type Workers = BTreeMap<String, Worker>;

/// What is not given is as the worker declares it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Worker {
    /// Calls of it at once, on one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) concurrency_max: Option<u32>,
    /// Events for it that one node keeps in memory; beyond it they stay in the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prefetch: Option<u32>,
}

/// What is out of range, each with its name.
pub(super) fn flaws(workers: &Workers) -> Vec<String> {
    let mut flaws = Vec::new();
    for (name, worker) in workers {
        for (key, value) in [("concurrency_max", worker.concurrency_max), ("prefetch", worker.prefetch)] {
            let wrong = value.filter(|value| !(1..=BOUND_MAX).contains(value));
            flaws.extend(
                wrong.map(|value| format!("workers.{name}.{key} is {value}; it must be 1 to {BOUND_MAX}")),
            );
        }
    }
    flaws
}

/// What a node is told.
pub(super) fn options(workers: &Workers) -> BTreeMap<String, WorkerOptions> {
    let count = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
    let option = |(name, worker): (&String, &Worker)| {
        let Worker { concurrency_max, prefetch } = worker;
        let said =
            WorkerOptions { concurrency_max: concurrency_max.map(count), prefetch_max: prefetch.map(count) };
        (name.clone(), said)
    };
    workers.iter().map(option).collect()
}

/// The worker and the key that a variable is about: `WINDLASS_WORKERS_SEND_MAIL_PREFETCH` is `prefetch` of `send-mail`.
pub(super) fn setting_of(variable: &str) -> Option<(String, &'static str)> {
    let rest = variable.strip_prefix("WINDLASS_WORKERS_")?;
    ["concurrency_max", "prefetch"].into_iter().find_map(|key| {
        let name = rest.strip_suffix(&key.to_uppercase())?.strip_suffix('_')?;
        (!name.is_empty()).then(|| (name.to_lowercase().replace('_', "-"), key))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_names_a_worker_and_a_key() {
        let of = |name: &str| setting_of(name);
        assert_eq!(of("WINDLASS_WORKERS_MAIL_PREFETCH"), Some(("mail".to_owned(), "prefetch")));
        let both = Some(("send-mail".to_owned(), "concurrency_max"));
        assert_eq!(of("WINDLASS_WORKERS_SEND_MAIL_CONCURRENCY_MAX"), both);
        for other in ["WINDLASS_WORKERS_PREFETCH", "WINDLASS_WORKERS_MAIL_RATE", "WINDLASS_WORKER_A_PREFETCH"]
        {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn bounds_are_one_at_least() {
        let workers =
            Workers::from([("mail".to_owned(), Worker { concurrency_max: Some(0), prefetch: Some(1) })]);
        assert_eq!(flaws(&workers), ["workers.mail.concurrency_max is 0; it must be 1 to 1000000"]);
        assert_eq!(options(&workers)["mail"].prefetch_max, Some(1));
    }
}
