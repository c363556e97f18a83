//! What a check of a store found, and what to do about it. Each adapter makes its own checks; this is what they say.

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// As it should be.
    Good,
    /// It works; something promised or expected may not hold one day.
    Warning,
    /// It does not work, or a promise does not hold now.
    Bad,
}

impl State {
    pub fn word(self) -> &'static str {
        match self {
            State::Good => "ok",
            State::Warning => "warning",
            State::Bad => "bad",
        }
    }
}

/// One line of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub check: &'static str,
    pub state: State,
    pub found: String,
    /// What to do; empty where all is well.
    pub remedy: String,
}

impl Finding {
    pub(crate) fn good(check: &'static str, found: impl Into<String>) -> Finding {
        Finding { check, state: State::Good, found: found.into(), remedy: String::new() }
    }

    pub(crate) fn warning(
        check: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding { check, state: State::Warning, found: found.into(), remedy: remedy.into() }
    }

    pub(crate) fn bad(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { check, state: State::Bad, found: found.into(), remedy: remedy.into() }
    }
}

/// Work that has been due for longer than this, and nobody does it, is worth a word.
pub(crate) const OVERDUE_SECS: i64 = 60;
/// An instance that has not moved for this long although nothing is queued for it is stuck.
pub(crate) const STUCK_SECS: i64 = 600;
/// Stuck instances that are named.
pub(crate) const STUCK_NAMED_MAX: i64 = 5;

/// What is said of the backlog: (queue, rows that are due, seconds since the oldest was due).
pub(crate) fn backlog(queues: &[(String, i64, i64)]) -> Finding {
    let late: Vec<String> = queues
        .iter()
        .filter(|(_, rows, age)| *rows > 0 && *age > OVERDUE_SECS)
        .map(|(queue, rows, age)| format!("{queue}: {rows} due, the oldest for {age} s"))
        .collect();
    let due: i64 = queues.iter().map(|(_, rows, _)| rows).sum();
    match late.is_empty() {
        true => Finding::good("backlog", format!("{due} rows are due and wait for a node")),
        false => Finding::warning(
            "backlog",
            late.join("; "),
            "start nodes, or more of them; see /metrics for what the ones there do",
        ),
    }
}

/// What is said of instances that wait for something that is not queued.
pub(crate) fn stuck(named: &[String], more: bool) -> Finding {
    match named.is_empty() {
        true => Finding::good("stuck instances", "none"),
        false => Finding::bad(
            "stuck instances",
            format!("{}{}", named.join(", "), if more { " and more" } else { "" }),
            "look at `windlass instance show ID`; `windlass instance retry ID` or `cancel ID` moves one on; report it",
        ),
    }
}

/// What is said of dead letters.
pub(crate) fn dead_letters(count: i64) -> Finding {
    match count {
        0 => Finding::good("dead letters", "none"),
        count => Finding::warning(
            "dead letters",
            format!("{count} wait for somebody"),
            "look at `windlass dlq list`; replay or discard them",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backlog_is_worth_a_word_once_it_is_late() {
        let queue = |rows, age| [("calls".to_owned(), rows, age)];
        assert_eq!(backlog(&queue(0, 0)).state, State::Good);
        assert_eq!(backlog(&queue(9, OVERDUE_SECS)).state, State::Good);
        let late = backlog(&queue(9, OVERDUE_SECS + 1));
        assert_eq!((late.state, late.found.as_str()), (State::Warning, "calls: 9 due, the oldest for 61 s"));
        assert!(!late.remedy.is_empty());
    }
}
