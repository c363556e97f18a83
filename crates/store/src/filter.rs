//! Conditions of the query grammar as SQL, for both adapters. Values are always bound, never part of the text.
//!
//! Adapters differ in how they number values and in a few expressions over JSON ([`Dialect`]); the rest is the same text.

mod traced;

use machine::query::{Condition, DefinitionPattern, Field, Pattern, Subject, Test};
use uuid::Uuid;

/// Stands for a value, in their order. No text here holds it otherwise.
pub(crate) const MARK: char = '?';

/// Stands for the tenant, which is the first value of every list.
pub(crate) const WHOSE: char = '@';

/// A value to be bound.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Bind {
    Text(String),
    Id(Uuid),
    Int(i64),
}

/// A condition on a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Clause {
    pub(crate) sql: String,
    pub(crate) binds: Vec<Bind>,
}

/// Where the adapters' SQL differs.
pub(crate) struct Dialect {
    /// The text of a column of bytes.
    pub(crate) text_of: fn(&str) -> String,
    /// One member of a column of JSON, by a bound path.
    pub(crate) member: fn(&str) -> String,
    /// What the bound path of a member looks like.
    pub(crate) path: fn(&str) -> String,
    /// The position of a text in another, both in small letters, or 0.
    pub(crate) position: fn(&str) -> String,
    /// The worker or endpoint of a dead letter.
    pub(crate) letter_worker: &'static str,
    /// Whether the stored ids of events hold one.
    pub(crate) holds: fn(&str, &str) -> String,
}

/// Every condition as a clause.
pub(crate) fn clauses(subject: Subject, conditions: &[Condition], dialect: &Dialect) -> Vec<Clause> {
    conditions.iter().map(|condition| clause(subject, condition, dialect)).collect()
}

fn clause(subject: Subject, condition: &Condition, dialect: &Dialect) -> Clause {
    let mut clause = Clause::default();
    let test = match (&condition.field, &condition.test) {
        (Field::Definition, Test::Definitions(patterns)) => clause.definitions(patterns),
        (Field::Part(name), test) => {
            let member = Expression {
                sql: (dialect.member)("i.business_parts"),
                bind: Some(Bind::Text((dialect.path)(name))),
            };
            clause.test(&member, test, dialect)
        }
        (Field::Worker, test) if subject == Subject::Instances => {
            let target = clause.test(&Expression::of("c.target".to_owned()), test, dialect);
            format!(
                "EXISTS (SELECT 1 FROM calls c WHERE c.tenant = i.tenant AND c.instance = i.id AND {target})"
            )
        }
        (Field::Trace | Field::Correlation, test) => clause.traced(subject, &condition.field, test, dialect),
        (Field::Waiting, Test::Texts(words)) => {
            let stored = |word: &Pattern| match word {
                Pattern::Equal(word) | Pattern::Prefix(word) => Pattern::Equal(stored_word(word)),
            };
            let words = words.iter().map(stored).collect();
            clause.test(&Expression::of("s.waiting_kind".to_owned()), &Test::Texts(words), dialect)
        }
        (field, test) => clause.test(&column(subject, field, dialect), test, dialect),
    };
    // What has no value meets no condition, and so it does meet its opposite.
    clause.sql = format!("({test}){}", if condition.not { " IS NOT TRUE" } else { "" });
    clause
}

/// Where a field stands.
fn column(subject: Subject, field: &Field, dialect: &Dialect) -> Expression {
    let name = match (subject, field) {
        (Subject::Instances, Field::Id) => "i.id",
        (Subject::Instances, Field::Status) => "i.status",
        (Subject::Instances, Field::Namespace) => "i.namespace",
        (Subject::Instances, Field::Name) => "i.name",
        (Subject::Instances, Field::Version) => "i.version",
        (Subject::Instances, Field::Key) => "i.business_key",
        (Subject::Instances, Field::Parent) => "i.parent",
        (Subject::Instances, Field::Created) => "i.created_at",
        (Subject::Instances, Field::Ended) => "i.ended_at",
        (Subject::Instances, Field::Changed) => "i.updated_at",
        (Subject::Instances, Field::Error) => return Expression::of((dialect.text_of)("i.error")),
        (Subject::DeadLetters, Field::Worker) => dialect.letter_worker,
        (Subject::DeadLetters, Field::Created) => "failed_at",
        (Subject::DeadLetters, Field::Group) => "error_group",
        (Subject::DeadLetters, Field::Attempts) => "attempts",
        (Subject::DeadLetters, Field::Error) => "detail",
        (Subject::Deliveries, Field::Error) => return Expression::of((dialect.text_of)("last_error")),
        (Subject::Events, Field::Created) => "received_at",
        (_, Field::Type) => "event_type",
        (_, Field::Event) => "event_id",
        (Subject::Audit, Field::Key) => "key_id",
        (Subject::Audit, Field::Who) => "subject",
        (Subject::Audit, Field::Act) => "act",
        (Subject::Audit, Field::Kind) => "object_kind",
        (Subject::Audit, Field::Object) => "object_id",
        (Subject::Audit, Field::Created) => "at",
        (_, Field::Id) => "id",
        (_, Field::Source) => "source",
        (_, Field::Reason) => "reason",
        (_, Field::Instance) => "instance",
        (_, Field::Worker) => "worker",
        (_, Field::Key) => "order_key",
        (_, Field::Attempts) => "attempt",
        (_, Field::Created) => "created_at",
        (_, Field::Due) => "visible_at",
        // No such field of this subject is ever parsed: nothing meets it.
        _ => "NULL",
    };
    Expression::of(name.to_owned())
}

/// Something that is compared, with the value that is bound in it, if one is.
struct Expression {
    sql: String,
    bind: Option<Bind>,
}

impl Expression {
    fn of(sql: String) -> Expression {
        Expression { sql, bind: None }
    }
}

impl Clause {
    /// Notes that the expression and then these values stand in the text from here on.
    fn bound(&mut self, of: &Expression, values: impl IntoIterator<Item = Bind>) {
        for value in values {
            self.binds.extend(of.bind.clone());
            self.binds.push(value);
        }
    }

    fn test(&mut self, of: &Expression, test: &Test, dialect: &Dialect) -> String {
        let sql = &of.sql;
        match test {
            Test::Texts(patterns) => any(patterns.iter().map(|pattern| self.pattern(of, pattern)).collect()),
            Test::Definitions(patterns) => self.definitions(patterns),
            Test::Ids(ranges) => any(ranges.iter().map(|range| self.ids(of, *range)).collect()),
            Test::Contains(text) => {
                self.bound(of, [Bind::Text(text.to_ascii_lowercase())]);
                format!("{} > 0", (dialect.position)(sql))
            }
            Test::Times(from, to) => self.span(of, from.map(|time| time.0), to.map(|time| time.0)),
            Test::Numbers(from, to) => self.span(of, *from, *to),
        }
    }

    fn span(&mut self, of: &Expression, from: Option<i64>, to: Option<i64>) -> String {
        let mut parts = vec![format!("{} IS NOT NULL", of.sql)];
        if let Some(from) = from {
            self.bound(of, [Bind::Int(from)]);
            parts.push(format!("{} >= {MARK}", of.sql));
        }
        if let Some(to) = to {
            self.bound(of, [Bind::Int(to)]);
            parts.push(format!("{} < {MARK}", of.sql));
        }
        parts.join(" AND ")
    }

    fn ids(&mut self, of: &Expression, (low, high): (Uuid, Uuid)) -> String {
        let sql = &of.sql;
        if low == high {
            self.bound(of, [Bind::Id(low)]);
            return format!("{sql} = {MARK}");
        }
        self.bound(of, [Bind::Id(low), Bind::Id(high)]);
        format!("({sql} >= {MARK} AND {sql} <= {MARK})")
    }

    fn pattern(&mut self, of: &Expression, pattern: &Pattern) -> String {
        let sql = &of.sql;
        match pattern {
            Pattern::Equal(text) => {
                self.bound(of, [Bind::Text(text.clone())]);
                format!("{sql} = {MARK}")
            }
            // All texts are compared by their bytes, so that those that begin alike lie between two.
            Pattern::Prefix(text) => match successor(text) {
                Some(next) => {
                    self.bound(of, [Bind::Text(text.clone()), Bind::Text(next)]);
                    format!("({sql} >= {MARK} AND {sql} < {MARK})")
                }
                None => {
                    self.bound(of, [Bind::Text(text.clone())]);
                    format!("{sql} >= {MARK}")
                }
            },
        }
    }

    fn definitions(&mut self, patterns: &[DefinitionPattern]) -> String {
        let mut each = Vec::with_capacity(patterns.len());
        for one in patterns {
            let named = [("i.namespace", &one.namespace), ("i.version", &one.version)];
            let mut parts = vec![self.pattern(&Expression::of("i.name".to_owned()), &one.name)];
            for (column, pattern) in named {
                if let Some(pattern) = pattern {
                    parts.push(self.pattern(&Expression::of(column.to_owned()), pattern));
                }
            }
            each.push(format!("({})", parts.join(" AND ")));
        }
        any(each)
    }
}

fn any(parts: Vec<String>) -> String {
    parts.join(" OR ")
}

/// The engine writes `TaskCompletion`, people `task-completion`.
fn stored_word(word: &str) -> String {
    let capital = |part: &str| {
        let mut letters = part.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    word.split('-').map(capital).collect()
}

/// The first text after all those that begin with `text`, if there is one.
fn successor(text: &str) -> Option<String> {
    let mut next = text.to_owned();
    while let Some(last) = next.pop() {
        let after = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            other => char::from_u32(other as u32 + 1),
        };
        if let Some(after) = after {
            next.push(after);
            return Some(next);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_alike_lies_before_the_successor() {
        assert_eq!(successor("ab").as_deref(), Some("ac"));
        assert_eq!(successor("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(successor("\u{d7ff}").as_deref(), Some("\u{e000}"));
        assert_eq!((successor(""), successor("\u{10ffff}")), (None, None));
    }

    #[test]
    fn words_are_stored_in_capitals() {
        assert_eq!(
            (stored_word("timer"), stored_word("task-completion")),
            ("Timer".into(), "TaskCompletion".into())
        );
    }
}
