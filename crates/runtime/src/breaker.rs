//! A circuit breaker: closed while things go well, open for a pause when nearly everything fails, then half open for one
//! probe that decides. Plain decisions; time is handed in.

use machine::{Time, time::Span};

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerRule {
    /// It opens only after so many attempts within the window.
    pub attempts_min: u32,
    /// Of which at least this part failed, 0 to 1.
    pub ratio: f64,
    pub window: Span,
    /// The first pause; each further one without a success in between is twice as long.
    pub pause: Span,
    pub pause_max: Span,
}

impl BreakerRule {
    /// For an endpoint: half of at least 20 attempts within 30 s.
    pub const ENDPOINT: BreakerRule = BreakerRule {
        attempts_min: 20,
        ratio: 0.5,
        window: Span::from_secs(30),
        pause: Span::from_secs(5),
        pause_max: Span::from_secs(60),
    };
    /// For a worker: nine of ten of at least 50 attempts within a minute.
    pub const WORKER: BreakerRule = BreakerRule {
        attempts_min: 50,
        ratio: 0.9,
        window: Span::from_secs(60),
        pause: Span::from_secs(10),
        pause_max: Span::from_secs(300),
    };
}

/// How long a probe may take before another is let through.
const PROBE_MAX: Span = Span::from_secs(90);
/// How long others stay away while it is under way: it may be answered at any moment.
const PROBE_WAIT: Span = Span::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Closed,
    Open {
        until: Time,
    },
    /// A probe is under way; until then nobody else is let through.
    HalfOpen {
        until: Time,
    },
}

/// Attempts and failures since then.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Count {
    since: Time,
    attempts: u32,
    failures: u32,
}

impl Count {
    fn new(since: Time) -> Count {
        Count { since, attempts: 0, failures: 0 }
    }
}

/// One endpoint's or worker's breaker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Breaker {
    rule: BreakerRule,
    state: State,
    pause: Span,
    /// This half of the window and the one before.
    now: Count,
    before: Count,
}

/// What a breaker shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerState {
    /// `closed`, `open` or `half-open`.
    pub word: &'static str,
    /// When an open one lets a probe through.
    pub until: Option<Time>,
    /// Within the window, about.
    pub attempts: u32,
    pub failures: u32,
}

impl Breaker {
    pub(crate) fn new(rule: BreakerRule, now: Time) -> Breaker {
        Breaker {
            rule,
            state: State::Closed,
            pause: rule.pause,
            now: Count::new(now),
            before: Count::new(now),
        }
    }

    /// Lets an attempt through, or says from when on it is worth asking again.
    pub(crate) fn admit(&mut self, now: Time) -> Result<(), Time> {
        match self.state {
            State::Closed => Ok(()),
            State::Open { until } if now < until => Err(until),
            State::HalfOpen { until } if now < until => Err(until.min(now.after(PROBE_WAIT))),
            State::Open { .. } | State::HalfOpen { .. } => {
                self.state = State::HalfOpen { until: now.after(PROBE_MAX) };
                Ok(())
            }
        }
    }

    /// Takes note of how an attempt ended.
    pub(crate) fn record(&mut self, ok: bool, now: Time) {
        match (self.state, ok) {
            (State::Closed, _) => self.count(ok, now),
            (State::HalfOpen { .. }, true) => *self = Breaker::new(self.rule, now),
            (State::HalfOpen { .. }, false) => {
                self.pause = Span((self.pause.0 * 2).min(self.rule.pause_max.0));
                self.state = State::Open { until: now.after(self.pause) };
            }
            // It began before the breaker opened.
            (State::Open { .. }, _) => {}
        }
    }

    fn count(&mut self, ok: bool, now: Time) {
        let half = Span(self.rule.window.0 / 2);
        if now.since(self.now.since) >= half {
            let is_old = now.since(self.now.since) >= self.rule.window;
            self.before = if is_old { Count::new(now) } else { self.now };
            self.now = Count::new(now);
        }
        self.now.attempts += 1;
        self.now.failures += u32::from(!ok);
        let (attempts, failures) = self.counted();
        let share = f64::from(failures) / f64::from(attempts.max(1));
        if !ok && attempts >= self.rule.attempts_min && share >= self.rule.ratio {
            self.state = State::Open { until: now.after(self.pause) };
        }
    }

    fn counted(&self) -> (u32, u32) {
        (self.now.attempts + self.before.attempts, self.now.failures + self.before.failures)
    }

    /// Lets the next attempt through as a probe, whatever is left of the pause.
    pub(crate) fn force(&mut self, now: Time) {
        if self.state != State::Closed {
            self.state = State::Open { until: now };
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// True if nothing has happened for so long that nothing would be lost with it.
    pub(crate) fn is_idle(&self, now: Time) -> bool {
        self.is_closed() && now.since(self.now.since) > Span(self.rule.window.0 * 2)
    }

    pub(crate) fn show(&self) -> BreakerState {
        let (word, until) = match self.state {
            State::Closed => ("closed", None),
            State::Open { until } => ("open", Some(until)),
            State::HalfOpen { .. } => ("half-open", None),
        };
        let (attempts, failures) = self.counted();
        BreakerState { word, until, attempts, failures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: BreakerRule = BreakerRule {
        attempts_min: 4,
        ratio: 0.5,
        window: Span::from_secs(10),
        pause: Span::from_secs(5),
        pause_max: Span::from_secs(15),
    };

    /// Plays a script: at which second what happens (`+` ok, `-` fails, `?` may it, `!` forced) and what the breaker is then.
    fn check(script: &[(i64, &str, &str)]) {
        let mut breaker = Breaker::new(RULE, Time(0));
        for (second, acts, expected) in script {
            let now = Time(second * 1_000_000);
            let mut admitted = String::new();
            for act in acts.chars() {
                match act {
                    '+' => breaker.record(true, now),
                    '-' => breaker.record(false, now),
                    '!' => breaker.force(now),
                    _ => admitted.push(if breaker.admit(now).is_ok() { 'y' } else { 'n' }),
                }
            }
            let found = format!("{} {admitted}", breaker.show().word);
            assert_eq!(found.trim(), *expected, "second {second}: {acts}");
        }
    }

    #[test]
    fn it_opens_when_enough_failed_and_not_before() {
        check(&[(0, "---", "closed"), (0, "-", "open")]);
        check(&[(0, "+++++---", "closed"), (0, "--", "open")]);
        check(&[(0, "++++++++--", "closed")]);
        // What is long ago does not count.
        check(&[(0, "---", "closed"), (20, "-", "closed"), (20, "---", "open")]);
        check(&[(0, "---", "closed"), (6, "-", "open")]);
    }

    #[test]
    fn one_probe_decides() {
        check(&[
            (0, "----", "open"),
            (1, "??", "open nn"),
            (5, "???", "half-open ynn"),
            (6, "+", "closed"),
            (6, "?", "closed y"),
        ]);
        check(&[
            (0, "----", "open"),
            (5, "?", "half-open y"),
            (6, "-", "open"),
            (15, "?", "open n"),
            (16, "?", "half-open y"),
        ]);
        // Each pause is twice as long, up to a bound.
        check(&[
            (0, "----", "open"),
            (5, "?-", "open y"),
            (15, "?-", "open y"),
            (29, "?", "open n"),
            (30, "?", "half-open y"),
        ]);
    }

    #[test]
    fn a_probe_that_never_answers_is_followed_by_another() {
        check(&[
            (0, "----", "open"),
            (5, "?", "half-open y"),
            (94, "?", "half-open n"),
            (95, "?", "half-open y"),
        ]);
    }

    #[test]
    fn late_answers_change_nothing_and_it_can_be_forced() {
        check(&[(0, "----", "open"), (1, "+++++", "open"), (2, "!", "open"), (2, "??", "half-open yn")]);
        check(&[(0, "!", "closed"), (0, "?", "closed y")]);
    }
}
