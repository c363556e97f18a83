//! How the store goes wrong: crashes, stalls, lost answers, refusals.

use super::{faulty::Faulty, time};
use machine::Time;
use std::time::Duration;
use store::{Commit, Conflict, Error, Outcome, Result, Write, rows::*};
use tokio::time::Instant;
use uuid::Uuid;

/// A text that this store refuses, as others refuse a NUL.
pub(crate) const REFUSED: &str = "refused by the store";

impl Faulty {
    pub(super) async fn crash(&self, when: &str) -> ! {
        self.chaos.note(format_args!("node {} crashes {when}", self.name));
        self.crash.cancel();
        std::future::pending().await
    }

    /// A dead node gets no answers; a zombie gets them late; others after a little while.
    pub(super) async fn reach(&self) {
        if self.crash.is_cancelled() {
            std::future::pending::<()>().await;
        }
        if self.chaos.strikes(self.chaos.levels.zombie) {
            let stall = Duration::from_micros(self.chaos.below(self.stall_max.as_micros() as u64));
            self.chaos.note(format_args!("node {} stalls for {stall:?}", self.name));
            *self.stalled_until.lock() = Instant::now() + stall;
        }
        let until = *self.stalled_until.lock();
        if until > Instant::now() {
            tokio::time::sleep_until(until).await;
        } else if self.chaos.strikes(self.chaos.levels.slow) {
            tokio::time::sleep(Duration::from_micros(self.chaos.below(40_000))).await;
        } else {
            tokio::task::yield_now().await;
        }
        if self.crash.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }

    pub(super) async fn read(&self) -> Result<()> {
        self.reach().await;
        match self.chaos.strikes(self.chaos.levels.unavailable) {
            true => Err(Error::Unavailable("simulated".into())),
            false => Ok(()),
        }
    }

    /// The rows are claimed, but the node may never hear of it.
    pub(super) fn claimed<T>(&self, rows: Vec<T>) -> Result<Vec<T>> {
        if !rows.is_empty() && self.chaos.strikes(self.chaos.levels.claim_lost) {
            self.chaos.note(format_args!("node {} loses the answer to a claim of {}", self.name, rows.len()));
            return Err(Error::Unknown("simulated, claimed".into()));
        }
        Ok(rows)
    }

    /// Goes wrong before anything is written.
    pub(super) async fn before(&self) -> Result<()> {
        let levels = &self.chaos.levels;
        if self.chaos.strikes(levels.crash_before) {
            self.crash("before a commit").await;
        }
        if self.chaos.strikes(levels.unavailable) {
            return Err(Error::Unavailable("simulated".into()));
        }
        if self.chaos.strikes(levels.full) {
            return Err(Error::Full("simulated".into()));
        }
        if self.chaos.strikes(levels.unknown_lost) {
            return Err(Error::Unknown("simulated, lost".into()));
        }
        Ok(())
    }

    /// Answers one commit of a batch without doing it; the others of the batch land.
    pub(super) fn refuses(&self, commit: &Commit) -> Option<Outcome> {
        let compares = commit
            .writes
            .iter()
            .any(|write| matches!(write, Write::UpdateState(_) | Write::UpdateTask { .. }));
        if compares && self.chaos.strikes(self.chaos.levels.conflict) {
            return Some(Outcome::Conflict(Conflict::Version));
        }
        let spoilt = self.chaos.levels.worker_refused > 0
            && commit.writes.iter().any(|write| match write {
                Write::UpdateState(row) => String::from_utf8_lossy(&row.state_json).contains(REFUSED),
                _ => false,
            });
        spoilt.then(|| Outcome::Rejected("simulated".to_owned()))
    }

    /// Commits to the real store and remembers when.
    pub(super) async fn land(&self, node: Uuid, batch: Vec<Commit>) -> Result<Vec<Outcome>> {
        let made: Vec<Vec<(Uuid, i64)>> = batch.iter().map(versions).collect();
        let outcomes = self.watched_commit(node, batch).await?;
        let now = time::now();
        let mut seen = self.seen.lock();
        for (outcome, made) in outcomes.iter().zip(made) {
            if *outcome == Outcome::Committed {
                seen.landed.extend(made.into_iter().map(|version| (version, now)));
            }
        }
        Ok(outcomes)
    }

    pub(super) fn take_late(&self, now: Time) -> Vec<Claimed<TimerRow>> {
        let mut late = self.late.lock();
        let (due, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *late).into_iter().partition(|(at, _)| *at <= now);
        *late = rest;
        due.into_iter().map(|(_, timer)| timer).collect()
    }
}

/// The instance versions a commit makes.
fn versions(commit: &Commit) -> Vec<(Uuid, i64)> {
    let version = |write: &Write| match write {
        Write::History(row) => Some((row.instance, row.version)),
        _ => None,
    };
    commit.writes.iter().filter_map(version).collect()
}
