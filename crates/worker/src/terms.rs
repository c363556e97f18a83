//! How events are handed to a worker, wherever it is.

use machine::{
    correlation,
    ir::{Schedule, When},
    schedule::{Cron, INTERVAL_MIN, zone},
    time::Span,
};

/// Types that one worker may want, and the longest of them.
const TYPES_MAX: usize = 100;
const TYPE_BYTES_MAX: usize = 1024;
/// Events handed over at once.
const BATCH_MAX: usize = 1000;
/// The longest time that an event is held back.
const HELD_BACK_MAX: Span = Span::from_secs(7 * 86_400);
/// Events that a rate may allow, and in which time.
const RATE_MAX: u32 = 1_000_000;
const RATE_SPAN_MAX: Span = Span::from_secs(86_400);
/// Watermarks of one worker.
const WATERMARKS_MAX: usize = 16;
/// How much of a rate may be handed out at once after a pause.
const BURST: Span = Span::from_millis(100);

/// What is the same for a worker of the program and for one that is somewhere else.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// Types of events; one that ends with `*` is the beginning of a type.
    pub types: Vec<String>,
    /// Events handed over in one call.
    pub batch_max: usize,
    /// Where the order key is found: an attribute, or a path into the data such as `data.order.id`. Events with the same
    /// key come one after the other; without one, or where it is not found, in any order.
    pub order_by: Option<String>,
    /// Where the domain key is found, in the same way. Of events with the same key one has an effect: whatever the others
    /// would have emitted is left out, and they are not handed over once the first is done.
    pub key_by: Option<String>,
    pub debounce: Option<Debounce>,
    pub rate: Option<Rate>,
    pub terminal: Terminal,
    /// When it is given an event of the type [`DUE`] by itself, for each tenant: one run at a time, and one that nobody has
    /// begun is replaced by the next.
    pub schedule: Option<Schedule>,
    /// Names of the watermarks that it reads and moves. Events come one at a time then.
    pub watermarks: Vec<String>,
    /// What it emits itself is not delivered to it, whatever the type.
    pub ignore_own: bool,
}

/// The type of the events that schedules of workers make.
pub const DUE: &str = "windlass.schedule.due";

/// Of events that follow each other closely the last is delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Debounce {
    /// Where the key is found, as for an order key; events without one are delivered as ever. Without it all events for the
    /// worker and tenant are one key.
    pub by: Option<String>,
    /// It is delivered when so long no further one came,
    pub quiet: Span,
    /// and at the latest so long after the first.
    pub wait_max: Span,
}

/// How many events of one tenant are handed out in a time, over all nodes. Those beyond it wait, and no attempt is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub max: u32,
    pub per: Span,
}

impl Rate {
    /// The time between two events.
    pub fn every(&self) -> Span {
        Span((self.per.0 / i64::from(self.max.max(1))).max(1))
    }

    /// How many may come at once after a pause: what the rate allows in a tenth of a second, but one at least.
    pub fn burst(&self) -> u32 {
        (BURST.0 / self.every().0).clamp(1, i64::from(self.max.max(1))) as u32
    }
}

/// What is done besides the dead letter when an event is given up, in the same commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terminal {
    /// Emits `windlass.worker.failed`.
    pub alert: bool,
    /// Emits an event of this type, for whoever marks the object as failed.
    pub mark_failed: Option<String>,
    /// Emits an event of this type, for whoever undoes what was done before.
    pub compensate: Option<String>,
}

/// The type of the event that `alert` emits.
pub const ALERT: &str = "windlass.worker.failed";

impl Terminal {
    /// The types of the events to emit.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        let alert = self.alert.then_some(ALERT);
        alert.into_iter().chain(self.mark_failed.as_deref()).chain(self.compensate.as_deref())
    }
}

impl Terms {
    /// One event at a time, in any order, without a bound.
    pub fn new<T: Into<String>>(types: impl IntoIterator<Item = T>) -> Terms {
        Terms {
            types: types.into_iter().map(Into::into).collect(),
            batch_max: 1,
            order_by: None,
            key_by: None,
            debounce: None,
            rate: None,
            terminal: Terminal::default(),
            schedule: None,
            watermarks: vec![],
            ignore_own: false,
        }
    }

    /// What is wrong with them, if anything.
    pub fn problem(&self) -> Option<String> {
        let is_type = |kind: &String| {
            (1..=TYPE_BYTES_MAX).contains(&kind.len())
                && !kind.trim_end_matches('*').contains('*')
                && !kind.ends_with("**")
        };
        let is_emitted = |kind: &str| (1..=TYPE_BYTES_MAX).contains(&kind.len()) && !kind.contains('*');
        match () {
            () if self.types.len() > TYPES_MAX || (self.types.is_empty() && self.schedule.is_none()) => {
                Some(format!("`types` names 1 to {TYPES_MAX} types of events; none only with a `schedule`"))
            }
            () if !self.types.iter().all(is_type) => {
                Some(format!("a type has 1 to {TYPE_BYTES_MAX} bytes, and a `*` only at its end"))
            }
            () if !(1..=BATCH_MAX).contains(&self.batch_max) => {
                Some(format!("`batch_max` is 1 to {BATCH_MAX}"))
            }
            () if !self.terminal.types().all(is_emitted) => Some(format!(
                "`mark_failed` and `compensate` of `terminal` are types of events: 1 to {TYPE_BYTES_MAX} bytes without `*`"
            )),
            () if self.watermarks.len() > WATERMARKS_MAX
                || self.watermarks.iter().any(|name| !is_name(name)) =>
            {
                Some(format!("`watermarks` are up to {WATERMARKS_MAX} names of 1 to 100 bytes"))
            }
            () if !self.watermarks.is_empty() && self.batch_max > 1 => {
                Some("a worker with `watermarks` is given one event at a time: `batch_max` is 1".to_owned())
            }
            () => self
                .problem_of_paths()
                .or_else(|| self.problem_of_times())
                .or_else(|| self.schedule.as_ref().and_then(problem_of_schedule)),
        }
    }

    fn problem_of_paths(&self) -> Option<String> {
        let by = self.debounce.as_ref().and_then(|debounce| debounce.by.as_ref());
        let paths =
            [("order_by", self.order_by.as_ref()), ("key_by", self.key_by.as_ref()), ("debounce.by", by)];
        let is_bad = |given: &str| correlation::path(&path(given)).is_none();
        let (name, _) = paths.into_iter().find(|(_, given)| given.is_some_and(|given| is_bad(given)))?;
        Some(format!("`{name}` is an attribute such as `subject` or a path such as `data.order.id`"))
    }

    fn problem_of_times(&self) -> Option<String> {
        if let Some(Debounce { quiet, wait_max, .. }) = &self.debounce
            && !(Span(1) <= *quiet && quiet <= wait_max && *wait_max <= HELD_BACK_MAX)
        {
            return Some(
                "`debounce` has a quiet time of at least a millisecond, and waits no shorter than that and 7 days at most"
                    .to_owned(),
            );
        }
        if let Some(Rate { max, per }) = &self.rate
            && !((1..=RATE_MAX).contains(max) && Span(1) <= *per && *per <= RATE_SPAN_MAX)
        {
            return Some(format!("`rate` allows 1 to {RATE_MAX} events in a day at most"));
        }
        None
    }
}

fn is_name(name: &str) -> bool {
    (1..=100).contains(&name.len())
}

fn problem_of_schedule(schedule: &Schedule) -> Option<String> {
    let zone_name = schedule.time_zone.as_deref().unwrap_or("UTC");
    if zone(zone_name).is_none() {
        return Some(format!(
            "`schedule`: `{zone_name}` is no time zone; an IANA name such as `Europe/Berlin` is"
        ));
    }
    match &schedule.when {
        When::Cron(text) => Cron::parse(text).err().map(|error| format!("`schedule`: {error}")),
        When::Every(span) | When::After(span) if *span < INTERVAL_MIN => {
            Some("`schedule`: an interval is a second at least".to_owned())
        }
        When::On(_) => Some("`schedule`: name the `types` of events instead".to_owned()),
        When::Every(_) | When::After(_) => None,
    }
}

/// Where an index would look for it: a path begins with a dot.
pub fn path(given: &str) -> String {
    format!(".{}", given.trim_start_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_a_tenth_of_a_second_and_one_at_least() {
        let burst = |max, seconds| Rate { max, per: Span::from_secs(seconds) }.burst();
        assert_eq!((burst(5, 1), burst(10, 1), burst(1000, 1), burst(60, 60)), (1, 1, 100, 1));
    }

    #[test]
    fn terms_that_cannot_be_kept_are_refused_with_their_name() {
        let fine = || Terms::new(["order.*"]);
        assert_eq!(fine().problem(), None);
        let named = |terms: Terms| terms.problem().unwrap_or_default();
        assert!(named(Terms { types: vec![], ..fine() }).contains("`types`"));
        assert!(named(Terms { types: vec!["a*b".into()], ..fine() }).contains("`*`"));
        assert!(named(Terms { batch_max: 1001, ..fine() }).contains("`batch_max`"));
        assert!(named(Terms { key_by: Some("data[0]".into()), ..fine() }).contains("`key_by`"));
        let span = Span::from_secs;
        let debounce = Some(Debounce { by: None, quiet: span(5), wait_max: span(1) });
        assert!(named(Terms { debounce, ..fine() }).contains("`debounce`"));
        assert!(named(Terms { rate: Some(Rate { max: 0, per: span(1) }), ..fine() }).contains("`rate`"));
        let terminal = Terminal { mark_failed: Some(String::new()), ..Terminal::default() };
        assert!(named(Terms { terminal, ..fine() }).contains("`mark_failed`"));
        let schedule = |when, zone: &str| {
            let time_zone = Some(zone.to_owned());
            Some(Schedule { when, time_zone, missed: Default::default() })
        };
        let nightly = schedule(When::Cron("0 3 * * *".into()), "Europe/Berlin");
        assert_eq!(Terms { schedule: nightly, ..Terms::new([""; 0]) }.problem(), None);
        for (when, zone) in [
            (When::Cron("never".into()), "UTC"),
            (When::Every(Span(1)), "UTC"),
            (When::Every(span(5)), "Moon/Base"),
        ] {
            assert!(named(Terms { schedule: schedule(when, zone), ..fine() }).contains("`schedule`"));
        }
        assert!(
            named(Terms { watermarks: vec!["at".into()], batch_max: 2, ..fine() }).contains("`batch_max`")
        );
    }
}
