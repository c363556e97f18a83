//! What the mutants do to the store's calls. Each takes one guard away and leaves the others in place.

use super::{chaos::Mutant, faulty::Faulty, time};
use std::time::Duration;
use store::{Commit, Outcome, Result, Store, Write, rows::*, views::Purge};
use uuid::Uuid;

impl Faulty {
    /// AckFirst: says "committed" and commits a moment later, if the node lives that long.
    pub(super) fn acknowledge_first(&self, node: Uuid, batch: Vec<Commit>) -> Vec<Outcome> {
        let outcomes = vec![Outcome::Committed; batch.len()];
        let (inner, crash) = (self.inner.clone(), self.crash.clone());
        let delay = Duration::from_micros(self.chaos.below(20_000));
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = crash.cancelled() => {}
                () = tokio::time::sleep(delay) => { let _ = inner.commit(node, batch).await; }
            }
        });
        outcomes
    }

    /// Changes a commit as the mutant would have it. What goes to `afterwards` is committed later, by itself; an
    /// answer means that the commit ends here.
    pub(super) async fn mutate(
        &self,
        node: Uuid,
        commit: &mut Commit,
        afterwards: &mut Vec<Commit>,
    ) -> Result<Option<Outcome>> {
        match self.chaos.mutant {
            Some(Mutant::NoSigDedup) => drop(split(commit, is_signal_key)),
            Some(Mutant::NoDomainKey) => drop(split(commit, is_worker_key)),
            Some(Mutant::SplitDelivery)
                if commit.writes.iter().any(|write| matches!(write, Write::Outbox(_))) =>
            {
                return self
                    .first_alone(node, commit, |write| matches!(write, Write::ConsumeDelivery { .. }))
                    .await;
            }
            Some(Mutant::SplitIdem) => return self.first_alone(node, commit, is_start_key).await,
            Some(Mutant::SplitSlot) => return self.first_alone(node, commit, is_slot).await,
            Some(Mutant::DropLateSignal) if is_late_signal(commit) => {
                commit.writes.retain(|write| matches!(write, Write::ConsumeSignal { .. }));
            }
            Some(Mutant::NoMailbox) => {
                for write in &mut commit.writes {
                    if let Write::Publish(row) = write {
                        row.kept_until = None;
                    }
                }
            }
            Some(Mutant::PostCommitPublish) => {
                afterwards.extend(split(commit, |write| matches!(write, Write::Outbox(_))));
            }
            Some(Mutant::TellLater) => afterwards.extend(split(commit, is_told)),
            Some(Mutant::StartFirst) => {
                if let Some(children) = split(commit, is_child) {
                    self.inner.commit(node, vec![children]).await?;
                    if self.chaos.strikes(self.chaos.levels.crash_before) {
                        self.crash("between child and parent").await;
                    }
                }
            }
            Some(Mutant::NoCas) => self.overwrite(commit).await?,
            Some(Mutant::BlindRetry) => self.put_back_blindly(commit).await?,
            Some(Mutant::ForgetCutOff) => forget_cut_off(commit),
            _ => {}
        }
        Ok(None)
    }

    /// SplitIdem, SplitSlot, SplitDelivery: the record is made in a commit of its own, and the start follows in another.
    async fn first_alone(
        &self,
        node: Uuid,
        commit: &mut Commit,
        which: fn(&Write) -> bool,
    ) -> Result<Option<Outcome>> {
        let Some(keys) = split(commit, which) else { return Ok(None) };
        let outcome = self.inner.commit(node, vec![keys]).await?.remove(0);
        if outcome != Outcome::Committed {
            return Ok(Some(outcome));
        }
        if self.chaos.strikes(self.chaos.levels.crash_before) {
            self.crash("between key and start").await;
        }
        Ok(None)
    }

    /// NoCas: the snapshot is replaced whatever version is stored. The store's own comparison cannot be switched
    /// off from here, so it is asked for the version that it has, in the same instant; history is numbered alike.
    async fn overwrite(&self, commit: &mut Commit) -> Result<()> {
        let mut moved = None;
        for write in &mut commit.writes {
            match write {
                Write::UpdateState(row) => {
                    if let Some(stored) = self.inner.load(&commit.tenant, row.instance).await? {
                        row.expected_version = stored.state_version;
                        row.state_version = stored.state_version + 1;
                        moved = Some(row.state_version);
                    }
                }
                Write::History(row) => row.version = moved.unwrap_or(row.version),
                _ => {}
            }
        }
        Ok(())
    }

    /// BlindRetry: what failed is put back whoever has it now. The store's own comparison cannot be switched off from here,
    /// so it is asked who that is, in the same instant.
    async fn put_back_blindly(&self, commit: &mut Commit) -> Result<()> {
        for write in &mut commit.writes {
            let (row, owner) = match write {
                Write::RetrySignal { id, owner, .. } => (QueueKey::Signal { id: *id }, owner),
                Write::RetryDelivery { id, owner, .. } => (QueueKey::Delivery { id: *id }, owner),
                Write::RetryTimer { instance, token, owner, .. } => {
                    (QueueKey::Timer { instance: *instance, token: *token }, owner)
                }
                Write::RetryCall { instance, token, owner, .. } => {
                    (QueueKey::Call { instance: *instance, token: *token }, owner)
                }
                _ => continue,
            };
            *owner = self.inner.place(&commit.tenant, row).await?.and_then(|place| place.owner);
        }
        Ok(())
    }

    /// PurgeYoung, PurgeKeys: more may go than is old enough.
    pub(super) fn more(&self, purge: &Purge) -> Purge {
        match self.chaos.mutant {
            Some(Mutant::PurgeYoung) => Purge { ended_before: time::now(), ..*purge },
            Some(Mutant::PurgeKeys) => Purge { keys_before: time::now(), ..*purge },
            _ => *purge,
        }
    }

    /// KeyPerAttempt: a call that is tried again goes out under another key. Keys are made in the machine; the first
    /// place after it where an attempt is known is the claim of the retried row.
    pub(super) fn rename(&self, calls: &mut [Claimed<CallRow>]) {
        if !self.chaos.is(Mutant::KeyPerAttempt) {
            return;
        }
        for call in calls {
            let mut envelope: machine::command::Call =
                serde_json::from_slice(&call.row.envelope).expect("our own envelope");
            envelope.key = format!("{}-{}", envelope.key, call.row.attempt);
            call.row.envelope = serde_json::to_vec(&envelope).expect("plain JSON");
        }
    }

    /// NoToken: a late timer ends whatever timer is waited for now. Tokens are compared in the machine; from here the
    /// timer can only be given the token of the present wait, so that it is that wait's row which is consumed.
    pub(super) async fn forget_tokens(&self, late: &mut [Claimed<TimerRow>]) -> Result<()> {
        if !self.chaos.is(Mutant::NoToken) {
            return Ok(());
        }
        for timer in late {
            let Some(stored) = self.inner.load(&timer.tenant, timer.row.instance).await? else { continue };
            let json: serde_json::Value = serde_json::from_slice(&stored.state_json).unwrap_or_default();
            let waits = json["workflowState"]["waits"].as_array().cloned().unwrap_or_default();
            let current = waits.iter().find(|wait| wait["kind"] == "Timer");
            timer.row.token = current.and_then(|wait| wait["token"].as_u64()).unwrap_or(timer.row.token);
        }
        Ok(())
    }
}

/// A commit that says nothing else than that a signal found its instance ended.
fn is_late_signal(commit: &Commit) -> bool {
    commit.writes.iter().any(|write| match write {
        Write::History(row) => {
            let events: Vec<serde_json::Value> =
                serde_json::from_slice(&row.events).expect("our own history");
            events.iter().all(|event| event["kind"] == "signal.unmatched")
        }
        _ => false,
    })
}

fn is_told(write: &Write) -> bool {
    matches!(write, Write::Signal(row) if row.signal_type == "SubWorkflowCompleted")
}

fn is_child(write: &Write) -> bool {
    matches!(write, Write::CreateInstance { instance, .. } if instance.parent.is_some())
}

/// ForgetCutOff: what a saga has begun is decided in the machine; from here only the stored state can be made to
/// forget it, which counts once a node without the state in memory goes on from there.
fn forget_cut_off(commit: &mut Commit) {
    for write in &mut commit.writes {
        let Write::UpdateState(row) = write else { continue };
        let mut json: serde_json::Value = serde_json::from_slice(&row.state_json).unwrap_or_default();
        let mut forgot = false;
        let branches = json["workflowState"]["branches"].as_array_mut();
        for frame in
            branches.into_iter().flatten().filter_map(|branch| branch["frames"].as_array_mut()).flatten()
        {
            let saga = frame.get_mut("body").and_then(|body| body.get_mut("saga"));
            let begun = saga.and_then(|saga| saga.as_object_mut()?.shift_remove("begun"));
            forgot |= begun.is_some();
        }
        if forgot {
            row.state_json = serde_json::to_vec(&json).expect("plain JSON");
        }
    }
}

fn is_signal_key(write: &Write) -> bool {
    matches!(write, Write::ClaimKey(row) if row.scope.starts_with("signal:"))
}

fn is_start_key(write: &Write) -> bool {
    matches!(write, Write::ClaimKey(row) if row.scope == "start")
}

fn is_worker_key(write: &Write) -> bool {
    matches!(write, Write::ClaimKey(row) if row.scope == "worker")
}

fn is_slot(write: &Write) -> bool {
    matches!(write, Write::PutSchedule { .. } | Write::Slot(_))
}

/// Takes the writes `which` picks out of the commit, as a commit of their own.
fn split(commit: &mut Commit, which: fn(&Write) -> bool) -> Option<Commit> {
    let (taken, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut commit.writes).into_iter().partition(which);
    commit.writes = kept;
    (!taken.is_empty()).then(|| Commit { tenant: commit.tenant.clone(), writes: taken })
}
