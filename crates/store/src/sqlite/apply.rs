//! Makes commits durable: one transaction for all that is queued, one answer per commit.
//!
//! The fast way has no savepoints. Guards come first in a commit, so a commit that loses its first guard has
//! written nothing and needs no undoing. When a commit fails after it has written (its second guard lost, a
//! constraint, a value too big), the transaction is rolled back and done again with a savepoint around every
//! commit, so that only the bad one is refused (P12).

use super::{
    core::Core,
    error,
    queue::Changes,
    statement::{Prepared, Statement},
    write,
};
use crate::{
    commit::{Commit, Outcome},
    port::{Error, Result},
};
use rusqlite::Connection;
use uuid::Uuid;

/// Commits of one call, with the node that makes them.
#[derive(Clone, Debug)]
pub struct Batch {
    pub node: Uuid,
    pub commits: Vec<Commit>,
}

/// What a pass over the batches came to.
enum Pass {
    /// Every commit has its outcome; a batch of a fenced node has `None`. And what became of the queues.
    Whole(Vec<Option<Vec<Outcome>>>, Changes),
    /// A commit failed after it had written: undo everything and go the careful way.
    Spoilt,
}

/// How a commit that did not fail the store ended.
enum Ended {
    Clean(Outcome),
    Spoilt(Outcome),
}

impl Core {
    /// Makes one batch durable and answers each commit, in order.
    pub fn apply(&mut self, node: Uuid, commits: &[Commit]) -> Result<Vec<Outcome>> {
        let mut answers = self.transact(&[(node, commits)])?;
        answers.pop().expect("one batch has one answer").ok_or(Error::Fenced)
    }

    /// Makes many batches durable in one transaction and answers each.
    pub fn apply_all(&mut self, batches: &[Batch]) -> Vec<Result<Vec<Outcome>>> {
        let views: Vec<(Uuid, &[Commit])> = batches.iter().map(|b| (b.node, b.commits.as_slice())).collect();
        match self.transact(&views) {
            Ok(answers) => answers.into_iter().map(|answer| answer.ok_or(Error::Fenced)).collect(),
            Err(err) => views.iter().map(|_| Err(err.clone())).collect(),
        }
    }

    fn transact(&mut self, batches: &[(Uuid, &[Commit])]) -> Result<Vec<Option<Vec<Outcome>>>> {
        for careful in [false, true] {
            self.begin()?;
            let counts = self.tally.is_kept();
            match pass(self.connection(), batches, (careful, counts)) {
                Ok(Pass::Whole(answers, changes)) => {
                    self.commit()?;
                    self.tally.add(changes);
                    return Ok(answers);
                }
                Ok(Pass::Spoilt) => self.rollback()?,
                Err(err) => return Err(self.fail(err)),
            }
        }
        Err(self.fail(rusqlite::Error::InvalidQuery))
    }
}

fn pass(
    connection: &Connection,
    batches: &[(Uuid, &[Commit])],
    (careful, counts): (bool, bool),
) -> rusqlite::Result<Pass> {
    let mut prepared = Prepared::new(connection);
    prepared.changes = counts.then(Vec::new);
    let mut answers = Vec::with_capacity(batches.len());
    for (node, commits) in batches {
        if fenced(&mut prepared, *node)? {
            answers.push(None);
            continue;
        }
        let mut outcomes = Vec::with_capacity(commits.len());
        for commit in *commits {
            let ended = if careful {
                one_careful(connection, &mut prepared, commit)?
            } else {
                one(connection, &mut prepared, commit)?
            };
            match ended {
                Ended::Clean(outcome) => outcomes.push(outcome),
                Ended::Spoilt(_) => return Ok(Pass::Spoilt),
            }
        }
        answers.push(Some(outcomes));
    }
    let changes = prepared.changes.take().unwrap_or_default();
    Ok(Pass::Whole(answers, changes))
}

/// A node that never joined, has left, or was taken over may not write.
fn fenced(prepared: &mut Prepared<'_>, node: Uuid) -> rusqlite::Result<bool> {
    let mut rows = prepared.get(Statement::Fence)?.query([node.as_bytes()])?;
    match rows.next()? {
        Some(row) => row.get(0),
        None => Ok(true),
    }
}

fn one(connection: &Connection, prepared: &mut Prepared<'_>, commit: &Commit) -> rusqlite::Result<Ended> {
    let before = connection.total_changes();
    let tenant = commit.tenant.as_str();
    for row in &commit.writes {
        let outcome = match write::write(prepared, tenant, row) {
            Ok(None) => continue,
            Ok(Some(conflict)) => Outcome::Conflict(conflict),
            Err(err) => Outcome::Rejected(error::rejection(&err).ok_or(err)?),
        };
        let clean = connection.total_changes() == before;
        return Ok(if clean { Ended::Clean(outcome) } else { Ended::Spoilt(outcome) });
    }
    Ok(Ended::Clean(Outcome::Committed))
}

fn one_careful(
    connection: &Connection,
    prepared: &mut Prepared<'_>,
    commit: &Commit,
) -> rusqlite::Result<Ended> {
    connection.prepare_cached("SAVEPOINT one")?.execute([])?;
    let before = prepared.changes.as_ref().map_or(0, Vec::len);
    let ended = one(connection, prepared, commit)?;
    if let Ended::Spoilt(_) = ended {
        prepared.changes.iter_mut().for_each(|changes| changes.truncate(before));
        connection.prepare_cached("ROLLBACK TO one")?.execute([])?;
    }
    connection.prepare_cached("RELEASE one")?.execute([])?;
    let (Ended::Clean(outcome) | Ended::Spoilt(outcome)) = ended;
    Ok(Ended::Clean(outcome))
}
