//! What a run came to, as a table for people.

use crate::{
    check::{Verdict, outside::Taken},
    record::{Record, Res},
};
use std::{collections::BTreeMap, fmt::Write as _};

/// Everything that was counted, and every check.
pub(crate) fn table(record: &Record, verdicts: &[Verdict]) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<28} {value}");
    };
    let of = |res: Res| record.ops.iter().filter(|op| op.res == res).count();
    row("requests", &format!("{} ok, {} fail, {} info", of(Res::Ok), of(Res::Fail), of(Res::Info)));
    row("faults", &record.faults.len().to_string());
    for (kind, count) in counted(record.faults.iter().map(|fault| fault.kind.clone())) {
        row(&format!("  {kind}"), &count.to_string());
    }
    row("nodes that ended themselves", &record.counts.exits.to_string());
    row("instances", &record.finals.len().to_string());
    for (status, count) in counted(record.finals.iter().map(|one| one.status.clone())) {
        row(&format!("  {status}"), &count.to_string());
    }
    let Taken { different, repeats } = Taken::of(&record.sink);
    row("effects", &format!("{different}, repeated {repeats}"));
    for verdict in verdicts {
        let word = if verdict.wrong.is_empty() { "ok" } else { "FAILED" };
        row(
            &format!("{} {word}", verdict.name),
            &format!("{} ({} looked at)", verdict.promise, verdict.looked_at),
        );
        for wrong in verdict.told() {
            row("", &wrong);
        }
    }
    text
}

fn counted(words: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for word in words {
        *counts.entry(word).or_default() += 1;
    }
    counts
}
