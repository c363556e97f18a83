//! `schedule`, and what `document.metadata.windlass` says about it: `timeZone` and `missed`.

use super::{Lowering, expression::Site};
use crate::{
    ir::{Consume, Delay, Missed, Schedule, Strategy, Until, When},
    language::{shape::span_of, source::At},
    schedule::{self, INTERVAL_MIN},
    time::Span,
};

/// The longest name of a time zone.
const ZONE_BYTES_MAX: usize = 64;

impl<'t> Lowering<'t, '_> {
    /// The document's schedule, if it has one that this engine follows.
    pub(super) fn schedule(&mut self) -> Option<Schedule> {
        let own = self.root.get("document").and_then(|document| document.get("metadata")?.get("windlass"));
        let time_zone = own.and_then(|own| own.get("timeZone")).and_then(|at| self.time_zone(at));
        let missed = own.and_then(|own| own.get("missed")).and_then(|at| self.missed(at));
        let schedule = self.root.get("schedule")?;
        let when = if let Some(cron) = schedule.get("cron") {
            When::Cron(cron.text()?.split_whitespace().collect::<Vec<_>>().join(" "))
        } else if let Some(every) = schedule.get("every") {
            When::Every(self.interval(every)?)
        } else if let Some(after) = schedule.get("after") {
            When::After(self.interval(after)?)
        } else {
            When::On(self.events(schedule.get("on")?)?)
        };
        Some(Schedule { when, time_zone, missed: missed.unwrap_or_default() })
    }

    fn events(&mut self, on: At<'_>) -> Option<Strategy> {
        let strategy = self.strategy(on, Site::Schedule);
        if strategy.consume == Consume::All && strategy.filters.is_empty() {
            let message = "`all` of no events is there at any time".to_owned();
            let hint = "name the events, or write `any: []` to start with every event".to_owned();
            let place = on.get("all").map_or(on.place(), At::place);
            self.error(place, "bad-schedule", message, Some(hint));
            return None;
        }
        if strategy.until != Some(Until::Never) {
            return Some(strategy);
        }
        let message = "`until` never holds, so nothing would ever start".to_owned();
        let hint = "leave `until` out to start an instance for every event";
        let place = on.get("until").map_or(on.place(), At::place);
        self.error(place, "bad-schedule", message, Some(hint.to_owned()));
        None
    }

    /// A length known at deployment and long enough that a schedule cannot flood its tenant.
    fn interval(&mut self, at: At<'_>) -> Option<Span> {
        match self.delay(at, Site::WorkflowInput)? {
            Delay::Fixed(span) if span >= INTERVAL_MIN => Some(span),
            Delay::Fixed(_) => {
                let message = format!("{} must be at least one second", at.label());
                self.error(at.place(), "bad-schedule", message, Some("write for example `PT1M`".to_owned()));
                None
            }
            Delay::Expr(_) => {
                let message =
                    format!("{} cannot be an expression: nothing is there to evaluate it", at.label());
                self.error(at.place(), "bad-schedule", message, Some("write for example `PT1M`".to_owned()));
                None
            }
        }
    }

    fn time_zone(&mut self, at: At<'_>) -> Option<String> {
        let name = at.text().filter(|name| name.len() <= ZONE_BYTES_MAX);
        if let Some(name) = name.filter(|name| schedule::zone(name).is_some()) {
            return Some(name.to_owned());
        }
        let message = match name {
            Some(name) => format!("`{name}` is not a time zone"),
            None => "`timeZone` must be the name of a time zone".to_owned(),
        };
        let hint = "use an IANA name such as `Europe/Berlin`";
        self.error(at.place(), "bad-time-zone", message, Some(hint.to_owned()));
        None
    }

    fn missed(&mut self, at: At<'_>) -> Option<Missed> {
        let missed = match at.text() {
            Some("all") => Some(Missed::All),
            Some("latest") => Some(Missed::Latest),
            Some("skip") => Some(Missed::Skip),
            Some(_) => None,
            None => at.get("window").and_then(|window| span_of(window).ok()).map(Missed::Window),
        };
        if missed.is_none() {
            let message = "`missed` says what becomes of slots that nobody could fire".to_owned();
            let hint = "write `all`, `latest`, `skip` or `window: PT1H`";
            self.error(at.place(), "bad-schedule", message, Some(hint.to_owned()));
        }
        missed
    }
}
