//! Points in time and lengths of time, in UTC microseconds.
//!
//! [`Time`] is always handed in by the caller: nothing here reads a clock.

use serde::{Deserialize, Serialize};

/// A point in time: microseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub i64);

/// A length of time in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(pub i64);

impl Time {
    /// The point `span` after this one, saturating at the end of time.
    pub fn after(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }

    /// The length from `earlier` to this point; negative if `earlier` is later.
    pub fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// RFC 3339 in UTC with microseconds as needed.
    pub fn rfc3339(self) -> String {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(stamp) => stamp.to_string(),
            Err(_) => format!("{}us", self.0),
        }
    }

    /// Reads an RFC 3339 timestamp.
    pub fn parse_rfc3339(text: &str) -> Option<Time> {
        text.parse::<jiff::Timestamp>().ok().map(|stamp| Time(stamp.as_microsecond()))
    }

    /// Reads the form of dates that HTTP prefers: `Sun, 06 Nov 1994 08:49:37 GMT`.
    pub fn parse_http(text: &str) -> Option<Time> {
        let stamp = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
        Some(Time(stamp.as_microsecond()))
    }
}

impl Span {
    pub const ZERO: Span = Span(0);
    /// The longest length a definition may ask for: 100 years.
    pub const MAX: Span = Span(100 * 366 * 86_400 * 1_000_000);

    pub const fn from_millis(ms: i64) -> Span {
        Span(ms * 1000)
    }

    pub const fn from_secs(seconds: i64) -> Span {
        Span(seconds * 1_000_000)
    }

    pub fn as_millis(self) -> i64 {
        self.0 / 1000
    }

    /// Reads an ISO 8601 duration such as `PT15M` or `P3DT4H`. Days are 24 hours; months and years are refused
    /// because their length depends on the calendar.
    pub fn parse_iso8601(text: &str) -> Option<Span> {
        let span: jiff::Span = text.trim().parse().ok()?;
        if span.get_years() != 0 || span.get_months() != 0 || !text.trim().starts_with(['P', 'p']) {
            return None;
        }
        let days = i64::from(span.get_weeks()) * 7 + i64::from(span.get_days());
        let micros = (i64::from(span.get_hours()) * 3600)
            .checked_add(span.get_minutes() * 60)?
            .checked_add(span.get_seconds())?
            .checked_add(days.checked_mul(86_400)?)?
            .checked_mul(1_000_000)?
            .checked_add(span.get_milliseconds() * 1000)?
            .checked_add(span.get_microseconds())?;
        (0..=Span::MAX.0).contains(&micros).then_some(Span(micros))
    }
}
