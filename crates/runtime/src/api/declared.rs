//! What a tenant says of a worker of its own, in the form in which it is stored.
//!
//! Members that are not known are passed over: a newer build may have said more, and the worker is served as far as this one
//! knows it. Whoever is asked to store something checks that all of it is known.

use machine::{retry::RetryPolicy, time::Span};
use serde::{Deserialize, Serialize};
use worker::{Debounce, FACTOR_MAX, Missed, Rate, Schedule, Terminal, Terms, When};

/// The most attempts, and the longest wait between two.
const ATTEMPTS_MAX: u32 = 100;
const WAIT_MS_MAX: u64 = 7 * 86_400_000;
const LEASE_SECONDS_MAX: u32 = 86_400;
const CONCURRENCY_MAX: u32 = 100_000;

/// What a tenant says of a worker of its own: which events it wants, and how it is treated. The worker itself is
/// somewhere else and asks for its deliveries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Declared {
    /// Types of events; one that ends with `*` is the beginning of a type.
    pub types: Vec<String>,
    /// Attempts in all, the first included.
    pub attempts_max: u32,
    /// The first wait after a failure, in milliseconds; each further one is `retry_factor` times as long, up to
    /// `retry_cap_ms`, and falls anywhere between nothing and that.
    pub retry_base_ms: u64,
    pub retry_factor: f64,
    pub retry_cap_ms: u64,
    /// Events handed over in one delivery.
    pub batch_max: u32,
    /// An attribute of the event, or a path into it such as `data.order.id`: events with the same value come one after
    /// the other.
    pub order_by: Option<String>,
    /// The same; of events with the same value one has an effect.
    pub key_by: Option<String>,
    /// How long a worker that asked has, in seconds, unless it says that it goes on.
    pub lease_seconds: u32,
    /// Deliveries that may be asked for and not answered at the same time; as many as there are unless given.
    pub concurrency_max: Option<u32>,
    pub debounce: Option<DebounceSaid>,
    pub rate: Option<RateSaid>,
    pub terminal: TerminalSaid,
    /// When it runs by itself.
    pub schedule: Option<ScheduleSaid>,
    /// Names of the watermarks that it reads and moves.
    pub watermarks: Vec<String>,
    /// What it emits itself is not delivered to it. Stored only where it says something, so that builds which do not know it
    /// read all others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignore_own: bool,
}

/// When a worker runs by itself: one of the first three.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScheduleSaid {
    /// Five fields.
    pub cron: Option<String>,
    pub every_seconds: Option<u32>,
    /// So long after the run before has ended.
    pub after_seconds: Option<u32>,
    /// An IANA name; UTC unless given.
    pub time_zone: Option<String>,
    /// `latest` unless given, `all`, `skip`, or `window` with `window_seconds`.
    pub missed: Option<String>,
    pub window_seconds: Option<u32>,
}

impl ScheduleSaid {
    fn read(&self) -> Result<Schedule, String> {
        let seconds = |seconds: u32| Span::from_secs(seconds.into());
        let when = match (&self.cron, self.every_seconds, self.after_seconds) {
            (Some(cron), None, None) => When::Cron(cron.clone()),
            (None, Some(every), None) => When::Every(seconds(every)),
            (None, None, Some(after)) => When::After(seconds(after)),
            _ => return Err("`schedule` has one of `cron`, `every_seconds` and `after_seconds`".to_owned()),
        };
        let missed = match (self.missed.as_deref(), self.window_seconds) {
            (None | Some("latest"), None) => Missed::Latest,
            (Some("all"), None) => Missed::All,
            (Some("skip"), None) => Missed::Skip,
            (Some("window"), Some(window)) => Missed::Window(seconds(window)),
            _ => return Err("`missed` is latest, all, skip, or window with `window_seconds`".to_owned()),
        };
        Ok(Schedule { when, time_zone: self.time_zone.clone(), missed })
    }
}

/// Of events that follow each other closely the last is delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DebounceSaid {
    #[serde(default)]
    pub by: Option<String>,
    pub quiet_ms: u64,
    /// Ten times `quiet_ms` unless given.
    #[serde(default)]
    pub wait_max_ms: Option<u64>,
}

/// So many events in so many seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateSaid {
    pub max: u32,
    /// 1 unless given.
    #[serde(default = "one")]
    pub seconds: u32,
}

fn one() -> u32 {
    1
}

/// What is done besides the dead letter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TerminalSaid {
    pub alert: bool,
    pub mark_failed: Option<String>,
    pub compensate: Option<String>,
}

impl Default for Declared {
    fn default() -> Declared {
        let RetryPolicy { attempts_max, base, factor, cap } = RetryPolicy::default();
        Declared {
            types: vec![],
            attempts_max,
            retry_base_ms: base.as_millis().unsigned_abs(),
            retry_factor: factor,
            retry_cap_ms: cap.as_millis().unsigned_abs(),
            batch_max: 1,
            order_by: None,
            key_by: None,
            lease_seconds: 60,
            concurrency_max: None,
            debounce: None,
            rate: None,
            terminal: TerminalSaid::default(),
            schedule: None,
            watermarks: vec![],
            ignore_own: false,
        }
    }
}

impl Declared {
    pub(crate) fn retry(&self) -> RetryPolicy {
        RetryPolicy {
            attempts_max: self.attempts_max,
            base: millis(self.retry_base_ms),
            factor: self.retry_factor,
            cap: millis(self.retry_cap_ms),
        }
    }

    pub(crate) fn terms(&self) -> Terms {
        let debounce = self.debounce.as_ref().map(|said| Debounce {
            by: said.by.clone(),
            quiet: millis(said.quiet_ms),
            wait_max: millis(said.wait_max_ms.unwrap_or(said.quiet_ms.saturating_mul(10))),
        });
        let rate = self.rate.map(|said| Rate { max: said.max, per: Span::from_secs(said.seconds.into()) });
        let TerminalSaid { alert, mark_failed, compensate } = self.terminal.clone();
        Terms {
            batch_max: self.batch_max as usize,
            order_by: self.order_by.clone(),
            key_by: self.key_by.clone(),
            debounce,
            rate,
            terminal: Terminal { alert, mark_failed, compensate },
            schedule: self.schedule.as_ref().and_then(|said| said.read().ok()),
            watermarks: self.watermarks.clone(),
            ignore_own: self.ignore_own,
            ..Terms::new(self.types.iter().cloned())
        }
    }

    /// What is wrong with it, if anything.
    pub(crate) fn problem(&self) -> Option<String> {
        let waits = [self.retry_base_ms, self.retry_cap_ms];
        match () {
            () if !(1..=ATTEMPTS_MAX).contains(&self.attempts_max) => {
                Some(format!("`attempts_max` is 1 to {ATTEMPTS_MAX}"))
            }
            () if waits.into_iter().any(|wait| wait > WAIT_MS_MAX) => {
                Some(format!("`retry_base_ms` and `retry_cap_ms` are {WAIT_MS_MAX} at most"))
            }
            () if !(1.0..=FACTOR_MAX).contains(&self.retry_factor) => {
                Some(format!("`retry_factor` is 1 to {FACTOR_MAX}"))
            }
            () if !(1..=LEASE_SECONDS_MAX).contains(&self.lease_seconds) => {
                Some(format!("`lease_seconds` is 1 to {LEASE_SECONDS_MAX}"))
            }
            () if self.concurrency_max.is_some_and(|max| !(1..=CONCURRENCY_MAX).contains(&max)) => {
                Some(format!("`concurrency_max` is 1 to {CONCURRENCY_MAX}"))
            }
            () => match self.schedule.as_ref().map(ScheduleSaid::read) {
                Some(Err(problem)) => Some(problem),
                _ => self.terms().problem(),
            },
        }
    }
}

fn millis(millis: u64) -> Span {
    Span::from_millis(i64::try_from(millis).unwrap_or(i64::MAX / 1000))
}
