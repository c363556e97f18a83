//! How far a batch may go now. Plain arithmetic over its counts, so that it goes on the same way after a crash.

use store::rows::BatchRow;

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// So many items may be acted on.
    Send(u64),
    /// Until what was sent has come to something.
    Wait,
    /// Somebody has to look.
    Halt(String),
    Finish,
}

/// `stages` is how many items each step of a ramp has; what is left comes after the last. Without any there is no ramp.
pub(super) fn next(stages: &[u64], row: &BatchRow) -> Step {
    let counts = row.counts;
    let failed = counts.failed.saturating_sub(row.forgiven);
    if failed > 0 && !stages.is_empty() {
        let tried = counts.done + counts.failed + counts.sent;
        return Step::Halt(format!("{failed} of {tried} that were tried failed again"));
    }
    let settled = counts.sent + counts.done + counts.failed + counts.skipped;
    let waiting = row.matched.saturating_sub(settled);
    if waiting == 0 {
        return if counts.sent == 0 { Step::Finish } else { Step::Wait };
    }
    let acted = counts.sent + counts.done + counts.failed;
    let mut bound = 0;
    for stage in stages {
        bound += stage;
        if acted < bound {
            return Step::Send(waiting.min(bound - acted));
        }
        if acted == bound && counts.sent > 0 {
            return Step::Wait;
        }
    }
    Step::Send(waiting)
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Time;
    use store::rows::BatchCounts;

    fn row(matched: u64, [sent, done, failed, skipped]: [u64; 4], forgiven: u64) -> BatchRow {
        BatchRow {
            id: uuid::Uuid::from_u128(1),
            act: String::new(),
            query: String::new(),
            arguments: vec![],
            actor: String::new(),
            why: None,
            status: String::new(),
            detail: None,
            rate: 1,
            cursor: None,
            selected_at: None,
            matched,
            counts: BatchCounts { sent, done, failed, skipped },
            forgiven,
            due_at: None,
            row_version: 1,
            created_at: Time(0),
            updated_at: Time(0),
            ended_at: None,
        }
    }

    #[test]
    fn a_ramp_goes_up_as_long_as_nothing_fails() {
        const RAMP: &[u64] = &[1, 10, 100];
        let cases = [
            // Nothing was found.
            (0, [0, 0, 0, 0], 0, Step::Finish),
            (500, [0, 0, 0, 0], 0, Step::Send(1)),
            (500, [1, 0, 0, 0], 0, Step::Wait),
            (500, [0, 1, 0, 0], 0, Step::Send(10)),
            (500, [4, 1, 0, 0], 0, Step::Send(6)),
            (500, [1, 10, 0, 0], 0, Step::Wait),
            (500, [0, 11, 0, 0], 0, Step::Send(100)),
            (500, [3, 108, 0, 0], 0, Step::Wait),
            (500, [0, 111, 0, 0], 0, Step::Send(389)),
            // The rest does not wait for each other.
            (500, [50, 200, 0, 0], 0, Step::Send(250)),
            (500, [20, 480, 0, 0], 0, Step::Wait),
            (500, [0, 500, 0, 0], 0, Step::Finish),
            // What there was nothing to do for tries nothing out.
            (500, [0, 0, 0, 7], 0, Step::Send(1)),
            (7, [0, 0, 0, 7], 0, Step::Finish),
            (3, [0, 1, 0, 0], 0, Step::Send(2)),
        ];
        for (matched, counts, forgiven, expected) in cases {
            assert_eq!(next(RAMP, &row(matched, counts, forgiven)), expected, "{matched} {counts:?}");
        }
    }

    #[test]
    fn a_ramp_halts_at_a_failure_and_goes_on_from_one_that_is_forgiven() {
        const RAMP: &[u64] = &[1, 10];
        assert_eq!(
            next(RAMP, &row(50, [2, 3, 1, 0], 0)),
            Step::Halt("1 of 6 that were tried failed again".to_owned())
        );
        assert_eq!(next(RAMP, &row(50, [2, 3, 1, 0], 1)), Step::Send(5));
        assert!(matches!(next(RAMP, &row(50, [0, 0, 50, 0], 49)), Step::Halt(_)));
    }

    #[test]
    fn without_a_ramp_all_go_and_failures_are_counted() {
        assert_eq!(next(&[], &row(50, [0, 3, 4, 1], 0)), Step::Send(42));
        assert_eq!(next(&[], &row(50, [0, 3, 46, 1], 0)), Step::Finish);
    }
}
