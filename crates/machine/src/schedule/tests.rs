//! Slots against an independent walk through 20 years of 10 time zones, and what becomes of missed ones.

use super::*;
use jiff::{ToSpan, civil::Date, tz::Offset};

/// Half-hour zones, changes at midnight and at 00:01, changes of half an hour, none at all, and no summer time any more.
const ZONES: [&str; 10] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "Africa/Casablanca",
    "Pacific/Apia",
    "Asia/Tehran",
];
const FROM: Date = Date::constant(2008, 1, 1);
const TO: Date = Date::constant(2028, 1, 1);

fn at(date: Date) -> Timestamp {
    Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)).unwrap()
}

fn cron(text: &str) -> Cron {
    Cron::parse(text).unwrap()
}

fn firings(text: &str, zone: &TimeZone, from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
    let cron = cron(text);
    let mut all = Vec::new();
    let mut last = from;
    while let Some(next) = cron.after(last, zone).filter(|next| *next < to) {
        assert!(next > last, "strictly later");
        all.push(next);
        last = next;
    }
    all
}

/// Every moment at which the zone's clock changes.
fn changes(zone: &TimeZone) -> Vec<Timestamp> {
    zone.following(at(FROM)).map(|change| change.timestamp()).take_while(|change| *change < at(TO)).collect()
}

fn minutes(from: Timestamp, to: Timestamp) -> impl Iterator<Item = Timestamp> {
    (from.as_second() / 60..to.as_second() / 60).map(|minute| Timestamp::from_second(minute * 60).unwrap())
}

#[test]
fn named_times_of_day_happen_once_a_day_in_every_zone_for_20_years() {
    for name in ZONES {
        let zone = zone(name).unwrap();
        for (text, times) in [
            ("30 2 * * *", vec![(2, 30)]),
            ("0 0 * * *", vec![(0, 0)]),
            ("15 0,1,2,3,23 * * *", vec![(0, 15), (1, 15), (2, 15), (3, 15), (23, 15)]),
        ] {
            let mut expected = Vec::new();
            for date in FROM.yesterday().unwrap().series(1.day()).take_while(|date| *date < TO) {
                expected.extend(times.iter().map(|(hour, minute)| walk_to(date, *hour, *minute, &zone)));
            }
            expected.retain(|moment| (at(FROM)..at(TO)).contains(moment) && *moment > at(FROM));
            expected.dedup();
            let found = firings(text, &zone, at(FROM), at(TO));
            let differs = found.iter().zip(&expected).find(|(a, b)| a != b);
            assert!(differs.is_none(), "{name} {text}: {differs:?}");
            assert!(
                found.len().abs_diff(expected.len()) <= times.len(),
                "{name} {text}: the last day at most"
            );
            assert!(found.len() > 7300);
        }
    }
}

/// When that local time first happens, or the first minute after it if it never does: by looking at every offset
/// that the zone has around that day, without asking the zone about local times.
fn walk_to(date: Date, hour: i8, minute: i8, zone: &TimeZone) -> Timestamp {
    let local = date.at(hour, minute, 0, 0);
    let middle = Offset::UTC.to_timestamp(date.at(12, 0, 0, 0)).unwrap();
    let offsets = [-36, -24, -12, 0, 12, 24, 36].map(|hours| zone.to_offset(middle + hours.hours()));
    let real = offsets.iter().map(|offset| (offset.to_timestamp(local).unwrap(), *offset));
    let first = real.filter(|(moment, offset)| zone.to_offset(*moment) == *offset).map(|(m, _)| m).min();
    let begin = middle - 40.hours();
    first.unwrap_or_else(|| {
        minutes(begin, middle + 40.hours()).find(|moment| zone.to_datetime(*moment) > local).unwrap()
    })
}

#[test]
fn schedules_of_time_going_by_follow_every_minute_around_every_change_of_20_years() {
    for name in ZONES {
        let zone = zone(name).unwrap();
        let mut windows: Vec<_> =
            changes(&zone).iter().map(|change| (*change - 30.hours(), *change + 30.hours())).collect();
        windows.push((at(Date::constant(2015, 2, 25)), at(Date::constant(2015, 3, 4))));
        for (from, to) in windows {
            let local = |moment: Timestamp| zone.to_datetime(moment);
            type Takes = fn(jiff::civil::DateTime) -> bool;
            let cases: [(&str, Takes); 4] = [
                ("*/15 * * * *", |local| local.minute() % 15 == 0),
                ("30 * * * *", |local| local.minute() == 30),
                ("0 */6 * * *", |local| local.minute() == 0 && local.hour() % 6 == 0),
                ("*/20 */23 * * SUN", |local| {
                    local.minute() % 20 == 0
                        && local.hour() % 23 == 0
                        && local.weekday() == jiff::civil::Weekday::Sunday
                }),
            ];
            for (text, takes) in cases {
                let expected: Vec<Timestamp> =
                    minutes(from, to).skip(1).filter(|moment| takes(local(*moment))).collect();
                let begin = minutes(from, to).next().unwrap();
                assert_eq!(firings(text, &zone, begin, to), expected, "{name} {text} from {from}");
            }
        }
    }
}

#[test]
fn the_rule_of_summer_time_by_example() {
    let berlin = zone("Europe/Berlin").unwrap();
    let show = |text: &str, from: &str, to: &str| {
        let found = firings(text, &berlin, from.parse().unwrap(), to.parse().unwrap());
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    // 29 March 2026: 02:00 becomes 03:00. 25 October 2026: 03:00 becomes 02:00.
    let (spring, autumn) =
        (["2026-03-29T00:10:00Z", "2026-03-29T02:10:00Z"], ["2026-10-24T23:50:00Z", "2026-10-25T01:50:00Z"]);
    assert_eq!(show("30 2 * * *", spring[0], spring[1]), ["2026-03-29T01:00:00Z"]);
    assert_eq!(show("30 * * * *", spring[0], spring[1]), ["2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"]);
    assert_eq!(show("30 2 * * *", autumn[0], autumn[1]), ["2026-10-25T00:30:00Z"]);
    assert_eq!(show("30 * * * *", autumn[0], autumn[1]), ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]);
}

#[test]
fn days() {
    let days = |text: &str, count: usize| {
        let mut last = at(Date::constant(2026, 1, 1));
        let cron = cron(text);
        (0..count)
            .map(|_| {
                last = cron.after(last, &TimeZone::UTC).unwrap();
                TimeZone::UTC.to_datetime(last).strftime("%m-%d").to_string()
            })
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(days("0 8 L * *", 3), "01-31 02-28 03-31");
    assert_eq!(days("0 8 * * 1#1", 3), "01-05 02-02 03-02");
    assert_eq!(days("0 8 * * FRIL", 3), "01-30 02-27 03-27");
    assert_eq!(days("0 8 13 * 5", 4), "01-02 01-09 01-13 01-16", "either will do");
    assert_eq!(days("0 8 */15 2 *", 3), "02-01 02-16 02-01");
    assert_eq!(days("0 8 ? * 7", 2), "01-04 01-11");
    assert_eq!(days("0 0 29 2 *", 1), "02-29");
}

#[test]
fn what_is_no_cron_expression() {
    for (text, why) in [
        ("0 0 30 2 *", "names a day that never comes"),
        ("0 0 31 4,6 *", "names a day that never comes"),
        ("* * * *", "has 4 fields instead of 5"),
        ("0 0 * * 1#6", "has `1#6` as its day of week, which takes 0 to 7"),
        ("0 0 * * #1", "has `#1` as its day of week, which takes 0 to 7"),
        ("0 L * * *", "has `L` as its hour, which takes 0 to 23"),
        ("60/2 0 * * *", "has `60/2` as its minute, which takes 0 to 59"),
    ] {
        assert_eq!(Cron::parse(text), Err(why.to_owned()), "{text}");
    }
    assert!(Cron::parse(&"1,".repeat(500)).is_err());
    assert!(zone("Europe/Atlantis").is_none());
}

fn every(seconds: i64, missed: Missed) -> Schedule {
    Schedule { when: When::Every(Span::from_secs(seconds)), time_zone: None, missed }
}

fn secs(seconds: i64) -> Time {
    Time(seconds * 1_000_000)
}

#[test]
fn intervals_count_from_the_anchor() {
    let schedule = every(10, Missed::Latest);
    let anchor = secs(3);
    assert_eq!(first(&schedule, anchor), Some(secs(13)));
    assert_eq!(after(&schedule, anchor, secs(13)), Some(secs(23)));
    assert_eq!(after(&schedule, anchor, secs(22)), Some(secs(23)));
    assert_eq!(after(&schedule, anchor, secs(0)), Some(secs(13)));
}

#[test]
fn nothing_is_planned_before_its_time() {
    for missed in [Missed::All, Missed::Latest, Missed::Skip, Missed::Window(Span::from_secs(5))] {
        let plan = plan(&every(10, missed), secs(0), secs(10), Time(secs(10).0 - 1));
        assert_eq!(plan, Plan { next: Some(secs(10)), ..Plan::default() });
    }
}

#[test]
fn every_policy_deals_with_every_slot_once() {
    let window = Missed::Window(Span::from_secs(300));
    for (missed, fired, passed) in
        [(Missed::All, 100, 0), (Missed::Latest, 1, 99), (Missed::Skip, 7, 93), (window, 31, 69)]
    {
        let (mut next, now) = (secs(10), secs(1000));
        let (mut fires, mut passes) = (vec![], 0);
        while next <= now {
            let plan = plan(&every(10, missed), secs(0), next, now);
            fires.extend(plan.fire);
            passes += plan.passed.iter().map(|passed| passed.count).sum::<u64>();
            assert!(plan.next.unwrap() > next);
            next = plan.next.unwrap();
        }
        assert_eq!((fires.len(), passes), (fired, passed), "{missed:?}");
        assert_eq!(fires.last(), Some(&secs(1000)), "the one on time fires");
        assert_eq!(next, secs(1010));
    }
}

#[test]
fn a_long_absence_is_told_in_few_rows_and_bounded_plans() {
    let (mut next, now) = (secs(1), secs(25_000));
    let (mut fires, mut passes, mut plans) = (0, 0, 0);
    while next <= now {
        let plan = plan(&every(1, Missed::Latest), secs(0), next, now);
        assert!(plan.passed.len() <= PASSED_MAX + 1);
        fires += usize::from(plan.fire.is_some());
        passes += plan.passed.iter().map(|passed| passed.count).sum::<u64>();
        next = plan.next.unwrap();
        plans += 1;
    }
    assert_eq!((fires, passes, plans), (1, 24_999, 3));
}

#[test]
fn what_follows_an_end_has_one_slot_however_late() {
    let schedule = Schedule { when: When::After(Span::from_secs(5)), time_zone: None, missed: Missed::Skip };
    assert_eq!(first(&schedule, secs(1)), Some(secs(6)));
    let late = plan(&schedule, secs(1), secs(6), secs(9999));
    assert_eq!(late, Plan { fire: Some(secs(6)), ..Plan::default() });
}
