//! What became of events, by their type.

use machine::Data;

/// How many events of a type ended how; a commit has few of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcomes(Vec<(String, &'static str, u64)>);

impl Outcomes {
    pub(super) fn add(&mut self, event: &Data, outcome: &'static str) {
        let found = event.get("type");
        let kind = found.as_ref().and_then(Data::as_str).unwrap_or_default();
        match self.0.iter_mut().find(|(of, how, _)| *how == outcome && of == kind) {
            Some((_, _, count)) => *count += 1,
            None => self.0.push((kind.to_owned(), outcome, 1)),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &'static str, u64)> {
        self.0.iter().map(|(kind, outcome, count)| (kind.as_str(), *outcome, *count))
    }
}
