//! Cron expressions of five fields, and the moments they name in a time zone.
//!
//! [`Cron::parse`] reads one, [`Cron::after`] finds the next moment. Nothing here reads a clock.
//!
//! **Summer time, one rule.** If the hour field names hours (`30 2 * * *`), the expression is about times of day, and
//! each of them happens once a day: a time that the clock skips happens when the gap ends, a time that the clock
//! repeats happens the first time. If the hour field begins with `*` (`*/15 * * * *`), the expression is about time
//! going by: every moment whose local time matches counts, so a skipped hour has none and a repeated one has twice
//! as many.

use jiff::{
    Timestamp, ToSpan,
    civil::{Date, DateTime},
    tz::{AmbiguousOffset, TimeZone},
};

/// How far ahead the next day is looked for: 29 February is eight years away around 2100.
const DAYS_AHEAD_MAX: usize = 366 * 9;
/// The longest expression that is read.
const TEXT_BYTES_MAX: usize = 256;

/// A cron expression, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// `L` as day of month.
    last_day: bool,
    /// `5#2`: (weekday, which one of the month).
    nth: Vec<(u8, u8)>,
    /// `5L`: the last such weekday of the month.
    last_weekdays: u64,
    any_day: bool,
    any_weekday: bool,
    /// The hour field begins with `*`.
    flowing: bool,
}

const FIELDS: [(&str, u8, u8, &str); 5] = [
    ("minute", 0, 59, ""),
    ("hour", 0, 23, ""),
    ("day of month", 1, 31, ""),
    ("month", 1, 12, "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"),
    ("day of week", 0, 7, "SUN MON TUE WED THU FRI SAT"),
];

impl Cron {
    /// Reads an expression; the error says what is wrong with it and continues "the cron expression …".
    pub fn parse(text: &str) -> Result<Cron, String> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("is longer than {TEXT_BYTES_MAX} bytes"));
        }
        let parts: Vec<&str> = text.split_whitespace().collect();
        if parts.len() != FIELDS.len() {
            return Err(format!("has {} fields instead of 5", parts.len()));
        }
        let mut cron = Cron::default();
        for (position, part) in parts.iter().enumerate() {
            let (name, low, high, _) = FIELDS[position];
            let fits = part.split(',').all(|item| cron.take(position, item).is_some());
            if !fits {
                return Err(format!("has `{part}` as its {name}, which takes {low} to {high}"));
            }
        }
        cron.flowing = parts[1].starts_with('*');
        cron.any_day = parts[2].starts_with(['*', '?']);
        cron.any_weekday = parts[4].starts_with(['*', '?']);
        // Sunday is both 0 and 7.
        cron.weekdays |= cron.weekdays >> 7;
        let comes = cron.days_from(Date::constant(2001, 1, 1)).next().is_some();
        comes.then_some(cron).ok_or_else(|| "names a day that never comes".to_owned())
    }

    /// Takes one item of the list in the field at `position`; `None` if it does not fit.
    fn take(&mut self, position: usize, item: &str) -> Option<()> {
        let (_, low, high, words) = FIELDS[position];
        let number = |text: &str| number(text, low, high, words);
        match position {
            2 if item.eq_ignore_ascii_case("l") => {
                self.last_day = true;
                return Some(());
            }
            4 if item.len() > 1 && item.ends_with(['l', 'L']) => {
                self.last_weekdays |= 1 << (number(&item[..item.len() - 1])? % 7);
                return Some(());
            }
            4 if item.contains('#') => {
                let (day, nth) = item.split_once('#')?;
                let nth = nth.parse().ok().filter(|nth| (1..=5).contains(nth))?;
                self.nth.push((number(day)? % 7, nth));
                return Some(());
            }
            _ => {}
        }
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, step.parse::<u8>().ok().filter(|step| (1..=high).contains(step))?),
            None => (item, 1),
        };
        let (from, to) = match range.split_once('-') {
            Some((from, to)) => (number(from)?, number(to)?),
            None if range == "*" => (low, high),
            None if range == "?" && (position == 2 || position == 4) => (low, high),
            // `5/10` is from 5 on.
            None => (number(range)?, if item.contains('/') { high } else { number(range)? }),
        };
        let bits = [&mut self.minutes, &mut self.hours, &mut self.days, &mut self.months, &mut self.weekdays];
        for value in (from..=to).step_by(usize::from(step)) {
            *bits[position] |= 1 << value;
        }
        (from <= to).then_some(())
    }

    /// The first moment later than `after`, if one comes within nine years.
    pub fn after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        if self.flowing { self.flowing_after(after, zone) } else { self.named_after(after, zone) }
    }

    /// Times of day: each once.
    fn named_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        // A gap or a repeated hour may put moments of the day before after this one.
        let first = zone.to_datetime(after).date().yesterday().ok()?;
        for date in self.days_from(first) {
            for (hour, minute) in self.times() {
                let moment = moment(date.at(hour, minute, 0, 0), zone)?;
                if moment > after {
                    return Some(moment);
                }
            }
        }
        None
    }

    /// Time going by: every minute is looked at, in days that match.
    fn flowing_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let minute = 1.minutes();
        let into = after.as_microsecond().rem_euclid(60_000_000);
        let mut moment = Timestamp::from_microsecond(after.as_microsecond() - into).ok()?;
        let limit = after.checked_add((24 * DAYS_AHEAD_MAX as i64).hours()).ok()?;
        while moment < limit {
            moment = moment.checked_add(minute).ok()?;
            let local = zone.to_datetime(moment);
            if !self.has_day(local.date()) {
                let day = self.days_from(local.date().tomorrow().ok()?).next()?;
                let begins = self::moment(day.at(0, 0, 0, 0), zone)?;
                // A clock that goes back over midnight begins the same day twice.
                if begins > moment {
                    moment = begins.checked_sub(minute).ok()?;
                }
                continue;
            }
            if has(self.hours, local.hour()) && has(self.minutes, local.minute()) && local.second() == 0 {
                return Some(moment);
            }
        }
        None
    }

    fn times(&self) -> impl Iterator<Item = (i8, i8)> + '_ {
        let minutes = move || (0..60i8).filter(|minute| has(self.minutes, *minute));
        (0..24i8)
            .filter(|hour| has(self.hours, *hour))
            .flat_map(move |hour| minutes().map(move |minute| (hour, minute)))
    }

    fn days_from(&self, first: Date) -> impl Iterator<Item = Date> + '_ {
        first.series(1.day()).take(DAYS_AHEAD_MAX).filter(|date| self.has_day(*date))
    }

    /// Day of month and day of week, if both are restricted, are alternatives.
    fn has_day(&self, date: Date) -> bool {
        if !has(self.months, date.month()) {
            return false;
        }
        let by_day = has(self.days, date.day()) || (self.last_day && date.day() == date.days_in_month());
        let by_weekday = self.has_weekday(date);
        match (self.any_day, self.any_weekday) {
            (true, true) => by_day && by_weekday,
            (false, true) => by_day,
            (true, false) => by_weekday,
            (false, false) => by_day || by_weekday,
        }
    }

    fn has_weekday(&self, date: Date) -> bool {
        let weekday = date.weekday().to_sunday_zero_offset();
        let nth = (date.day() - 1) / 7 + 1;
        let last = date.day() + 7 > date.days_in_month();
        has(self.weekdays, weekday)
            || (last && has(self.last_weekdays, weekday))
            || self.nth.iter().any(|(day, which)| (*day as i8, *which as i8) == (weekday, nth))
    }
}

/// When the local time happens: the first time if twice, the end of the gap if never.
fn moment(local: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(local);
    match ambiguous.offset() {
        AmbiguousOffset::Gap { before, .. } => {
            // Read with the offset from before, the time lies behind the change that skipped it.
            let beyond = before.to_timestamp(local).ok()?;
            let after = beyond.checked_add(jiff::SignedDuration::from_micros(1)).ok()?;
            zone.preceding(after).next().map(|change| change.timestamp())
        }
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => ambiguous.earlier().ok(),
    }
}

fn number(text: &str, low: u8, high: u8, words: &str) -> Option<u8> {
    match text.parse::<u8>() {
        Ok(number) => (low..=high).contains(&number).then_some(number),
        Err(_) => {
            let mut words = words.split(' ').filter(|word| !word.is_empty());
            words.position(|word| word.eq_ignore_ascii_case(text)).map(|position| position as u8 + low)
        }
    }
}

fn has(bits: u64, value: i8) -> bool {
    bits >> value & 1 == 1
}
