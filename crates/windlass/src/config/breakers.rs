//! `[breakers]`: when work is kept from endpoints and workers that fail.

use machine::time::Span;
use runtime::breaker::BreakerRule;
use serde::{Deserialize, Serialize};

/// The longest window or pause.
const SECONDS_MAX: i64 = 86_400;

/// Breakers of endpoints and of workers, and how many retries are made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Breakers {
    /// Whether endpoints (`host:port`) have breakers.
    pub(crate) endpoint: bool,
    /// They open after so many attempts within the window at least,
    pub(crate) endpoint_attempts_min: i64,
    /// of which so many of a hundred failed,
    pub(crate) endpoint_failed_percent: i64,
    pub(crate) endpoint_window_seconds: i64,
    /// for so long; each further pause without a success in between is twice as long.
    pub(crate) endpoint_pause_seconds: i64,
    pub(crate) endpoint_pause_max_seconds: i64,
    /// Whether workers have: the kill switch.
    pub(crate) worker: bool,
    pub(crate) worker_attempts_min: i64,
    pub(crate) worker_failed_percent: i64,
    pub(crate) worker_window_seconds: i64,
    pub(crate) worker_pause_seconds: i64,
    pub(crate) worker_pause_max_seconds: i64,
    /// Whether retries to a worker or an endpoint are held to a fifth of its attempts.
    pub(crate) retry_budget: bool,
}

/// One breaker's numbers, as the file has them.
struct Said<'a> {
    of: &'a str,
    attempts_min: i64,
    failed_percent: i64,
    window_seconds: i64,
    pause_seconds: i64,
    pause_max_seconds: i64,
}

impl Default for Breakers {
    fn default() -> Breakers {
        let options = runtime::Options::default();
        let endpoint = Said::of("endpoint", options.endpoint_breaker.unwrap_or(BreakerRule::ENDPOINT));
        let worker = Said::of("worker", options.kill_switch.unwrap_or(BreakerRule::WORKER));
        Breakers {
            endpoint: options.endpoint_breaker.is_some(),
            endpoint_attempts_min: endpoint.attempts_min,
            endpoint_failed_percent: endpoint.failed_percent,
            endpoint_window_seconds: endpoint.window_seconds,
            endpoint_pause_seconds: endpoint.pause_seconds,
            endpoint_pause_max_seconds: endpoint.pause_max_seconds,
            worker: options.kill_switch.is_some(),
            worker_attempts_min: worker.attempts_min,
            worker_failed_percent: worker.failed_percent,
            worker_window_seconds: worker.window_seconds,
            worker_pause_seconds: worker.pause_seconds,
            worker_pause_max_seconds: worker.pause_max_seconds,
            retry_budget: options.retry_budget,
        }
    }
}

impl Said<'_> {
    fn of(of: &str, rule: BreakerRule) -> Said<'_> {
        let seconds = |span: Span| span.0 / 1_000_000;
        Said {
            of,
            attempts_min: rule.attempts_min.into(),
            failed_percent: (rule.ratio * 100.0).round() as i64,
            window_seconds: seconds(rule.window),
            pause_seconds: seconds(rule.pause),
            pause_max_seconds: seconds(rule.pause_max),
        }
    }

    fn rule(&self) -> BreakerRule {
        BreakerRule {
            attempts_min: u32::try_from(self.attempts_min).unwrap_or(u32::MAX),
            ratio: self.failed_percent as f64 / 100.0,
            window: Span::from_secs(self.window_seconds),
            pause: Span::from_secs(self.pause_seconds),
            pause_max: Span::from_secs(self.pause_max_seconds),
        }
    }

    fn flaws(&self) -> Vec<String> {
        let of = self.of;
        let checks = [
            ("attempts_min", self.attempts_min, 1, 1_000_000),
            ("failed_percent", self.failed_percent, 1, 100),
            ("window_seconds", self.window_seconds, 1, SECONDS_MAX),
            ("pause_seconds", self.pause_seconds, 1, SECONDS_MAX),
            ("pause_max_seconds", self.pause_max_seconds, self.pause_seconds.max(1), SECONDS_MAX),
        ];
        let flaw = |(name, value, least, most): (&str, i64, i64, i64)| {
            let is_wrong = !(least..=most).contains(&value);
            is_wrong.then(|| format!("breakers.{of}_{name} is {value}; it must be {least} to {most}"))
        };
        checks.into_iter().filter_map(flaw).collect()
    }
}

impl Breakers {
    fn of_endpoints(&self) -> Said<'_> {
        Said {
            of: "endpoint",
            attempts_min: self.endpoint_attempts_min,
            failed_percent: self.endpoint_failed_percent,
            window_seconds: self.endpoint_window_seconds,
            pause_seconds: self.endpoint_pause_seconds,
            pause_max_seconds: self.endpoint_pause_max_seconds,
        }
    }

    fn of_workers(&self) -> Said<'_> {
        Said {
            of: "worker",
            attempts_min: self.worker_attempts_min,
            failed_percent: self.worker_failed_percent,
            window_seconds: self.worker_window_seconds,
            pause_seconds: self.worker_pause_seconds,
            pause_max_seconds: self.worker_pause_max_seconds,
        }
    }

    /// What is out of range, each with its name.
    pub(super) fn flaws(&self) -> Vec<String> {
        [self.of_endpoints().flaws(), self.of_workers().flaws()].concat()
    }

    /// Puts them into what a node is told.
    pub(super) fn put_into(&self, options: &mut runtime::Options) {
        options.endpoint_breaker = self.endpoint.then(|| self.of_endpoints().rule());
        options.kill_switch = self.worker.then(|| self.of_workers().rule());
        options.retry_budget = self.retry_budget;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_what_a_node_is_told() {
        let said = Breakers {
            endpoint: false,
            worker_attempts_min: 7,
            worker_failed_percent: 25,
            worker_pause_seconds: 3,
            retry_budget: false,
            ..Breakers::default()
        };
        let mut options = runtime::Options::default();
        said.put_into(&mut options);
        assert_eq!((options.endpoint_breaker, options.retry_budget), (None, false));
        let expected =
            BreakerRule { attempts_min: 7, ratio: 0.25, pause: Span::from_secs(3), ..BreakerRule::WORKER };
        assert_eq!(options.kill_switch, Some(expected));
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        let said =
            Breakers { endpoint_failed_percent: 101, worker_pause_max_seconds: 9, ..Breakers::default() };
        let expected = [
            "breakers.endpoint_failed_percent is 101; it must be 1 to 100",
            "breakers.worker_pause_max_seconds is 9; it must be 10 to 86400",
        ];
        assert_eq!(said.flaws(), expected);
    }
}
