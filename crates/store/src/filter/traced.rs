//! What belongs to a trace or carries a correlation id. Every part runs along an index of its own, so it is a list of ids
//! that the row must be among; one condition with `OR` would be read row by row.
//!
//! What began a trace without being given one is named by it: its id is the trace's.

use super::{Bind, Clause, Dialect, Expression, MARK, WHOSE};
use machine::query::{Field, Pattern, Subject, Test};
use uuid::Uuid;

/// A delivery of an event that began its trace has an id from about the time of the event's.
const BEFORE_MS: u64 = 1_000;
const AFTER_MS: u64 = 60_000;

impl Clause {
    pub(super) fn traced(
        &mut self,
        subject: Subject,
        field: &Field,
        test: &Test,
        dialect: &Dialect,
    ) -> String {
        let column = if *field == Field::Trace { "trace_id" } else { "correlation_id" };
        let begun = if *field == Field::Trace { ids(test) } else { vec![] };
        let (own, parts) = match subject {
            Subject::Instances => ("i.id", self.instances(field, test, &begun, dialect)),
            Subject::Events => ("id", self.events(column, test, &begun, dialect)),
            Subject::Deliveries => ("id", self.deliveries(column, test, &begun, dialect)),
            // No such field of these subjects is ever parsed: nothing meets it.
            Subject::DeadLetters | Subject::Audit => return "NULL".to_owned(),
        };
        format!("{own} IN ({})", parts.join(" UNION ALL "))
    }

    fn instances(&mut self, field: &Field, test: &Test, begun: &[Uuid], dialect: &Dialect) -> Vec<String> {
        let of = format!("SELECT t.id FROM wf_instances t WHERE t.tenant = {WHOSE}");
        let (is_there, column) = match field {
            Field::Trace => ("t.traceparent IS NOT NULL", "substr(t.traceparent, 4, 32)"),
            _ => {
                ("t.correlation_id IS NOT NULL AND octet_length(t.correlation_id) <= 255", "t.correlation_id")
            }
        };
        let meets = self.test(&Expression::of(column.to_owned()), test, dialect);
        let mut parts = vec![format!("{of} AND {is_there} AND ({meets})")];
        parts.extend(begun.iter().map(|id| self.named(&of, *id)));
        parts
    }

    fn events(&mut self, column: &str, test: &Test, begun: &[Uuid], dialect: &Dialect) -> Vec<String> {
        let of = format!("SELECT t.id FROM events t WHERE t.tenant = {WHOSE}");
        let meets = self.test(&Expression::of(format!("t.{column}")), test, dialect);
        let mut parts = vec![format!("{of} AND t.{column} IS NOT NULL AND ({meets})")];
        parts.extend(begun.iter().map(|id| self.named(&of, *id)));
        parts
    }

    fn named(&mut self, of: &str, id: Uuid) -> String {
        self.binds.push(Bind::Id(id));
        format!("{of} AND t.id = {MARK}")
    }

    /// Those whose events have one in common, those whose events have to be looked at, and those of what began the trace.
    fn deliveries(&mut self, column: &str, test: &Test, begun: &[Uuid], dialect: &Dialect) -> Vec<String> {
        let of = format!("SELECT t.id FROM deliveries t WHERE t.tenant = {WHOSE}");
        let meets = self.test(&Expression::of(format!("t.{column}")), test, dialect);
        let mut parts = vec![format!("{of} AND t.{column} IS NOT NULL AND ({meets})")];
        let events = self.events(column, test, begun, dialect).join(" UNION ALL ");
        let holds = (dialect.holds)("t.events", "e.id");
        parts.push(format!(
            "{of} AND t.{column} IS NOT NULL AND t.{column} = '' AND EXISTS (SELECT 1 FROM ({events}) e WHERE {holds})"
        ));
        for id in begun {
            let Some(range) = around(*id) else { continue };
            self.binds.extend([Bind::Id(range.0), Bind::Id(range.1), Bind::Id(*id)]);
            let holds = (dialect.holds)("t.events", &MARK.to_string());
            parts.push(format!(
                "{of} AND t.{column} IS NULL AND t.id >= {MARK} AND t.id <= {MARK} AND {holds}"
            ));
        }
        parts
    }
}

/// What began the traces that are looked for.
fn ids(test: &Test) -> Vec<Uuid> {
    let Test::Texts(patterns) = test else { return vec![] };
    let id = |pattern: &Pattern| match pattern {
        Pattern::Equal(text) => Uuid::try_parse(text).ok(),
        Pattern::Prefix(_) => None,
    };
    patterns.iter().filter_map(id).collect()
}

/// The first and the last id from about the time of this one, if it says when it was made.
fn around(id: Uuid) -> Option<(Uuid, Uuid)> {
    if id.get_version_num() != 7 {
        return None;
    }
    let millis = u64::try_from(id.as_u128() >> 80).ok()?;
    let from = u128::from(millis.saturating_sub(BEFORE_MS)) << 80;
    let to = (u128::from(millis + AFTER_MS) << 80) | ((1 << 80) - 1);
    Some((Uuid::from_u128(from), Uuid::from_u128(to)))
}
