//! Makes a batch durable: one transaction, a handful of statements sent without waiting for each other, one answer per
//! commit.
//!
//! The fast way trusts that every guard holds: all statements of all waves go out together. The answers say which
//! guards did not hold; then the transaction is undone and done again without those commits. A row that the database
//! refuses does not say whose it is: then the batch is done once more with savepoints, halved until the bad commit is
//! alone (P12).

use super::{
    bind,
    error::{error, is_rivalry, rejection},
    event::{self, Lock},
    node,
    plan::{self, Rows, Source},
    session::{Answer, Session, in_order},
    solo, tell,
    value::{Column, get, id},
};
use crate::{
    commit::{Commit, Conflict, Outcome},
    port::{Error, Result},
};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use tokio_postgres::{Error as PgError, Row};
use uuid::Uuid;

/// How often a batch is done again without the commits that lost, before it is done carefully.
const FAST_PASSES_MAX: usize = 3;
/// How often a batch that another transaction stood in the way of is tried.
const RIVALRIES_MAX: usize = 5;
/// A commit takes this long at most; the server ends it otherwise.
const STATEMENT_MS_MAX: u64 = 30_000;
/// A node that was stopped in the middle of a transaction holds its locks this long at most.
const IDLE_MS_MAX: u64 = 5_000;

/// Settings of a transaction that writes. Plans that scan are never right here, whatever the statistics of a young table
/// say; a plan made once serves every batch.
pub(super) const SETTINGS: &str = "set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), \
     set_config('enable_mergejoin', 'off', true), set_config('enable_memoize', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)";

/// What a pass over the batch came to.
enum Pass {
    /// Every commit that is left has been written.
    Whole,
    /// These lost; the others must be done again without them.
    Lost(Vec<(usize, Conflict)>),
    /// Some row is refused for good.
    Refused,
}

/// What one commit alone came to.
enum Alone {
    Written,
    Ended(Outcome),
}

/// What became of a batch.
pub(super) struct Applied {
    pub(super) outcomes: Vec<Outcome>,
    /// A transaction is open, and lands them when it does.
    pub(super) open: bool,
}

/// Writes the batch over a connection on which no transaction is open. None is after it either if this answers `Fenced`.
pub(super) async fn apply(session: &Session, by: Uuid, commits: &[Commit]) -> Result<Applied> {
    let begin = begin(by, commits);
    let mut outcomes: Vec<Option<Outcome>> = vec![None; commits.len()];
    let (mut passes, mut rivalries, mut careful) = (0, 0, false);
    loop {
        let left: Vec<usize> = (0..commits.len()).filter(|at| outcomes[*at].is_none()).collect();
        if left.is_empty() && !commits.is_empty() {
            break;
        }
        careful |= passes >= FAST_PASSES_MAX;
        passes += 1;
        let before = outcomes.clone();
        let work = Work { session, commits, by };
        let pass = match careful {
            false => work.fast(&begin, &left, &mut outcomes).await,
            true => work.careful(&begin, &left, &mut outcomes).await,
        };
        match pass {
            Ok(Pass::Whole) => {
                let outcomes = outcomes.into_iter().map(|one| one.unwrap_or(Outcome::Committed)).collect();
                return Ok(Applied { outcomes, open: true });
            }
            Ok(Pass::Lost(lost)) => {
                outcomes = before;
                for (at, conflict) in lost {
                    outcomes[at] = Some(Outcome::Conflict(conflict));
                }
            }
            Ok(Pass::Refused) => {
                outcomes = before;
                careful = true;
            }
            Err(Trouble::Pg(err)) if is_rivalry(&err) && rivalries < RIVALRIES_MAX => {
                outcomes = before;
                rivalries += 1;
                passes -= 1;
            }
            Err(Trouble::Pg(err)) => return Err(error(err)),
            Err(Trouble::Port(err)) => {
                session.command("ROLLBACK").await.map_err(error)?;
                return Err(err);
            }
        }
        session.command("ROLLBACK").await.map_err(error)?;
    }
    Ok(Applied { outcomes: outcomes.into_iter().flatten().collect(), open: false })
}

/// What ends a pass without an outcome.
enum Trouble {
    Pg(PgError),
    Port(Error),
}

impl From<PgError> for Trouble {
    fn from(err: PgError) -> Trouble {
        Trouble::Pg(err)
    }
}

/// Opens the transaction: who is seen, the settings, and every lock that is not a row's, in one order.
fn begin(by: Uuid, commits: &[Commit]) -> String {
    let tenants: BTreeSet<&str> = commits.iter().map(|commit| commit.tenant.as_str()).collect();
    let tenants = Vec::from_iter(tenants).join(",");
    let mut locks: BTreeMap<i64, Lock> = BTreeMap::new();
    for commit in commits {
        event::locks(commit, &mut locks);
    }
    let fence = node::fence_key(by);
    let mut text = format!(
        "BEGIN; SELECT set_config('windlass.tenants', '{tenants}', true), \
         set_config('statement_timeout', '{STATEMENT_MS_MAX}', true), \
         set_config('idle_in_transaction_session_timeout', '{IDLE_MS_MAX}', true), {SETTINGS}, \
         pg_advisory_xact_lock_shared({fence})"
    );
    if !locks.is_empty() {
        let keys = Vec::from_iter(locks.keys().map(i64::to_string)).join(",");
        let alone = locks.values().map(|lock| if *lock == Lock::Exclusive { "t" } else { "f" });
        let alone = Vec::from_iter(alone).join(",");
        text += &format!(
            "; SELECT CASE WHEN l.alone THEN pg_advisory_xact_lock(l.key) ELSE pg_advisory_xact_lock_shared(l.key) END \
             FROM unnest('{{{keys}}}'::bigint[], '{{{alone}}}'::boolean[]) AS l(key, alone)"
        );
    }
    text
}

struct Work<'a> {
    session: &'a Session,
    commits: &'a [Commit],
    by: Uuid,
}

impl Work<'_> {
    /// All at once.
    async fn fast(
        &self,
        begin: &str,
        left: &[usize],
        outcomes: &mut [Option<Outcome>],
    ) -> std::result::Result<Pass, Trouble> {
        let waves = plan::waves(self.commits, left);
        let planned: Vec<Vec<Rows<'_>>> =
            waves.iter().map(|wave| plan::statements(self.commits, &wave.together)).collect();
        for rows in planned.iter().flatten() {
            self.session.prepare(rows.statement.sql(), &params(rows)).await?;
        }
        let fence = [id(self.by)];
        let fence_params: Vec<_> = fence.iter().map(|value| value.param()).collect();
        self.session.prepare(node::FENCED, &fence_params).await?;
        let mut asked: Vec<Answer<'_>> =
            vec![self.session.command(begin), self.session.ask(node::FENCED, fence_params)];
        let mut fenced_at = Some(1);
        let mut sent: Vec<(usize, &Rows<'_>)> = Vec::new();
        for (number, (wave, statements)) in waves.iter().zip(&planned).enumerate() {
            for rows in statements {
                asked.push(self.session.ask(rows.statement.sql(), params(rows)));
                sent.push((number, rows));
            }
            // Whatever is told or done alone waits for answers; so does the end.
            if wave.alone.is_empty() && !wave.tells && number + 1 < waves.len() {
                continue;
            }
            let pass = self.answered(std::mem::take(&mut asked), fenced_at.take(), &sent).await?;
            if !matches!(pass, Pass::Whole) {
                return Ok(pass);
            }
            sent.clear();
            if wave.tells && !self.told(wave).await? {
                return Ok(Pass::Refused);
            }
            for at in &wave.alone {
                if let Alone::Ended(outcome) = self.alone(*at).await? {
                    outcomes[*at] = Some(outcome);
                }
            }
        }
        if fenced_at.is_some() {
            return self.answered(asked, fenced_at, &[]).await;
        }
        Ok(Pass::Whole)
    }

    /// Waits for what was asked and says what became of it. `fenced_at` is where the answer about the node stands; one
    /// answer per `sent` comes last.
    async fn answered(
        &self,
        asked: Vec<Answer<'_>>,
        fenced_at: Option<usize>,
        sent: &[(usize, &Rows<'_>)],
    ) -> std::result::Result<Pass, Trouble> {
        let mut answers = in_order(asked).await;
        let tail = answers.split_off(answers.len() - sent.len());
        let head = answers.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
        if let Some(at) = fenced_at {
            node::not_fenced(&head[at]).map_err(Trouble::Port)?;
        }
        // Commits of one wave share nothing, so what the first wave with losers says is so. Later waves may have lost
        // only because of them.
        let mut lost: BTreeMap<usize, (usize, Conflict)> = BTreeMap::new();
        let mut losing_wave = None;
        for ((wave, rows), answer) in sent.iter().zip(tail) {
            let answer = match answer {
                Ok(answer) => answer,
                Err(err) if rejection(&err).is_some() => return Ok(Pass::Refused),
                Err(err) => return Err(err.into()),
            };
            if losing_wave.is_some_and(|losing| losing != *wave) {
                continue;
            }
            for Source { commit, write, guard } in missed(rows, &answer) {
                let Some(conflict) = guard else { continue };
                losing_wave = Some(*wave);
                let entry = lost.entry(commit).or_insert((write, conflict));
                if write < entry.0 {
                    *entry = (write, conflict);
                }
            }
        }
        if lost.is_empty() {
            return Ok(Pass::Whole);
        }
        Ok(Pass::Lost(lost.into_iter().map(|(at, (_, conflict))| (at, conflict)).collect()))
    }

    /// Lets the wave's events and waits meet. `false` if one commit or more of it must be looked at alone.
    async fn told(&self, wave: &plan::Wave) -> std::result::Result<bool, Trouble> {
        let mut writes = Vec::new();
        for commit in wave.together.iter().map(|at| &self.commits[*at]) {
            writes.extend(commit.writes.iter().map(|write| (&commit.tenant, write)));
        }
        match tell::tell(self.session, &writes).await {
            Err(err) if rejection(&err).is_some() => Ok(false),
            told => Ok(told?),
        }
    }

    /// In parts, each in a savepoint, halved until it goes or one commit is left.
    async fn careful(
        &self,
        begin: &str,
        left: &[usize],
        outcomes: &mut [Option<Outcome>],
    ) -> std::result::Result<Pass, Trouble> {
        self.session.command(begin).await?;
        let rows = self.session.query(node::FENCED, &[id(self.by)]).await?;
        node::not_fenced(&rows).map_err(Trouble::Port)?;
        let mut parts = vec![left.to_vec()];
        while let Some(part) = parts.pop() {
            if let [at] = part[..] {
                if let Alone::Ended(outcome) = self.alone(at).await? {
                    outcomes[at] = Some(outcome);
                }
                continue;
            }
            if !self.part(&part).await? {
                let (first, second) = part.split_at(part.len() / 2);
                parts.push(second.to_vec());
                parts.push(first.to_vec());
            }
        }
        Ok(Pass::Whole)
    }

    /// Several commits in a savepoint; `false` if any lost or was refused, and nothing of them is left.
    async fn part(&self, part: &[usize]) -> std::result::Result<bool, Trouble> {
        let waves = plan::waves(self.commits, part);
        if part.is_empty() || waves.iter().any(|wave| !wave.alone.is_empty()) {
            return Ok(part.is_empty());
        }
        self.session.command("SAVEPOINT part").await?;
        for wave in &waves {
            let planned = plan::statements(self.commits, &wave.together);
            for rows in &planned {
                self.session.prepare(rows.statement.sql(), &params(rows)).await?;
            }
            let asked = planned.iter().map(|rows| self.session.ask(rows.statement.sql(), params(rows)));
            let sent: Vec<(usize, &Rows<'_>)> = planned.iter().map(|rows| (0, rows)).collect();
            let landed = match self.answered(asked.collect(), None, &sent).await? {
                Pass::Whole => !wave.tells || self.told(wave).await?,
                Pass::Lost(_) | Pass::Refused => false,
            };
            if !landed {
                self.session.command("ROLLBACK TO part; RELEASE part").await?;
                return Ok(false);
            }
        }
        self.session.command("RELEASE part").await?;
        Ok(true)
    }

    /// One commit in a savepoint, write by write.
    async fn alone(&self, at: usize) -> std::result::Result<Alone, Trouble> {
        self.session.command("SAVEPOINT one").await?;
        let ended = match self.writes(at).await {
            Ok(None) => {
                self.session.command("RELEASE one").await?;
                return Ok(Alone::Written);
            }
            Ok(Some(conflict)) => Outcome::Conflict(conflict),
            Err(solo::Trouble::Refused(why)) => Outcome::Rejected(why),
            Err(solo::Trouble::Pg(err)) => match rejection(&err) {
                Some(why) => Outcome::Rejected(why),
                None => return Err(err.into()),
            },
        };
        self.session.command("ROLLBACK TO one; RELEASE one").await?;
        Ok(Alone::Ended(ended))
    }

    async fn writes(&self, at: usize) -> std::result::Result<Option<Conflict>, solo::Trouble> {
        let commit = &self.commits[at];
        let tenant = commit.tenant.as_str();
        for (place, write) in commit.writes.iter().enumerate() {
            let Some(bound) = bind::bind(tenant, write, bind::place(at, place)) else {
                if let Some(conflict) = solo::write(self.session, tenant, write).await? {
                    return Ok(Some(conflict));
                }
                continue;
            };
            for row in bound {
                let columns: Vec<Column<'_>> = row
                    .values
                    .into_iter()
                    .map(|value| {
                        let mut column = Column::like(&value);
                        column.push(value);
                        column
                    })
                    .collect();
                let params = columns.iter().map(Column::param).collect();
                let sql = row.statement.sql();
                self.session.prepare(sql, &params).await?;
                let met = self.session.ask(sql, params).await?;
                if let (Some(conflict), true) = (row.guard, met.is_empty()) {
                    return Ok(Some(conflict));
                }
            }
            if tell::looks(write) && !tell::tell(self.session, &[(&commit.tenant, write)]).await? {
                return Err(solo::Trouble::Refused(tell::TOO_MANY.to_owned()));
            }
        }
        Ok(None)
    }
}

fn params<'a>(rows: &'a Rows<'_>) -> super::session::Params<'a> {
    rows.columns.iter().map(Column::param).collect()
}

/// The rows that the statement did not meet.
fn missed(rows: &Rows<'_>, answer: &[Row]) -> Vec<Source> {
    if answer.len() == rows.of.len() || rows.of.iter().all(|source| source.guard.is_none()) {
        return Vec::new();
    }
    let keys = rows.statement.keys();
    if keys == 0 {
        let met: HashSet<i64> = answer.iter().filter_map(|row| row.try_get(0).ok()).collect();
        let missing = |place: &usize| !met.contains(&(*place as i64 + 1));
        return (0..rows.of.len()).filter(missing).map(|place| rows.of[place]).collect();
    }
    let met: HashSet<Vec<String>> =
        answer.iter().map(|row| (0..keys).filter_map(|at| get(row, at).ok()).collect()).collect();
    let name = |place: usize| -> Vec<String> {
        let columns = rows.columns.iter().take(keys);
        columns
            .filter_map(|column| match column {
                Column::Text(values) => values[place].map(|text| text.0.to_owned()),
                Column::Id(values) => values[place].map(|id| id.to_string()),
                Column::Int(values) => values[place].map(|number| number.to_string()),
                _ => None,
            })
            .collect()
    };
    (0..rows.of.len()).filter(|place| !met.contains(&name(*place))).map(|place| rows.of[place]).collect()
}
