//! `schedule`, and the two hints about it in `document.metadata.windlass`.

use super::{Format, compile_text, refused, yaml};
use crate::{
    ir::{Missed, Schedule, When},
    time::Span,
};

fn document(windlass: &str, schedule: &str) -> String {
    format!(
        "document: {{ dsl: 1.0.3, namespace: n, name: w, version: 1.0.0, metadata: {{ windlass: {{ {windlass} }} }} }}\nschedule: {{ {schedule} }}\ndo: [ {{ a: {{ set: {{ x: 1 }} }} }} ]"
    )
}

fn schedule(windlass: &str, schedule: &str) -> Schedule {
    yaml(&document(windlass, schedule)).workflow.schedule.expect("it has one")
}

#[test]
fn four_forms() {
    assert_eq!(schedule("", "cron: '0  8 * * 1-5'").when, When::Cron("0 8 * * 1-5".to_owned()));
    assert_eq!(schedule("", "every: PT15M").when, When::Every(Span::from_secs(900)));
    assert_eq!(schedule("", "after: { hours: 2 }").when, When::After(Span::from_secs(7200)));
    let on =
        schedule("", "on: { any: [ { with: { type: a } }, { with: { type: b, data: '${ .x > 1 }' } } ] }");
    assert!(matches!(on.when, When::On(strategy) if strategy.filters.len() == 2));
    assert_eq!(schedule("", "every: PT1S").kind(), "every");
}

#[test]
fn hints() {
    let plain = schedule("", "cron: '0 8 * * *'");
    assert_eq!((plain.time_zone, plain.missed), (None, Missed::Latest));
    let zoned = schedule("timeZone: America/St_Johns, missed: all", "cron: '0 8 * * *'");
    assert_eq!((zoned.time_zone.as_deref(), zoned.missed), (Some("America/St_Johns"), Missed::All));
    let window = schedule("missed: { window: PT1H }", "every: P1D");
    assert_eq!(window.missed, Missed::Window(Span::from_secs(3600)));
    assert_eq!(schedule("missed: skip, owner: ann", "every: P1D").missed, Missed::Skip);
}

#[test]
fn what_makes_no_sense_is_refused() {
    refused(
        &document("", "every: PT0S"),
        "2:20 /schedule/every bad-schedule: `every` must be at least one second => write for example `PT1M`",
    );
    refused(
        &document("", "after: '${ .x }'"),
        "2:20 /schedule/after bad-schedule: `after` cannot be an expression: nothing is there to evaluate it => write for example `PT1M`",
    );
    refused(
        &document("", "on: { any: [ { with: { type: a } } ], until: '${ false }' }"),
        "2:58 /schedule/on/until bad-schedule: `until` never holds, so nothing would ever start => leave `until` out to start an instance for every event",
    );
    refused(
        &document("", "on: { all: [] }"),
        "2:24 /schedule/on/all bad-schedule: `all` of no events is there at any time => name the events, or write `any: []` to start with every event",
    );
    for argument in ["$workflow.id", "$runtime.name", "$context.x", "$input", "$task.name"] {
        let on = format!("on: {{ any: [ {{ with: {{ type: a }} }} ], until: '{argument} != null' }}");
        let problems = compile_text(document("", &on).as_bytes(), Format::Yaml).expect_err(argument);
        assert_eq!(problems[0].code, "argument-unavailable", "{argument}");
    }
    refused(
        &document("", "cron: '0 0 30 2 *'"),
        "2:19 /schedule/cron bad-cron: the cron expression `0 0 30 2 *` names a day that never comes => write minute, hour, day of month, month and day of week, such as `0 8 * * 1-5`",
    );
    refused(
        &document("timeZone: Europe/Atlantis, missed: never", "every: PT1M"),
        "
        1:98 /document/metadata/windlass/timeZone bad-time-zone: `Europe/Atlantis` is not a time zone => use an IANA name such as `Europe/Berlin`
        1:123 /document/metadata/windlass/missed bad-schedule: `missed` says what becomes of slots that nobody could fire => write `all`, `latest`, `skip` or `window: PT1H`
        ",
    );
}
