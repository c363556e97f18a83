//! One item of a batch: does the act and settles the item, in one commit wherever the act is one.

use super::{Plan, select};
use crate::{
    api::{Act, Refusal, Signal},
    dead_letters::{self, Follow, Taking},
    engine::Engine,
    handle::Handle,
    refusal,
    turn::{self, Work},
};
use machine::{Command, TenantId, id};
use std::sync::Arc;
use store::{
    Commit, Write,
    rows::{BatchRow, ItemOutcome, Settlement},
};
use uuid::Uuid;

/// Acts on the item. A refusal says that its turn has not come: the item stays as it is.
pub(super) async fn on(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    row: &BatchRow,
    plan: &Plan,
    item: Uuid,
) -> Result<(), Refusal> {
    let one = One { engine, tenant, row, item };
    if !select::still_meets(engine, tenant, plan, item).await.map_err(refusal::of_store)? {
        return one
            .settle(ItemOutcome::Skipped, Some("it does not meet the query any more".to_owned()))
            .await;
    }
    match &plan.act {
        Act::Cancel => one.order(Command::Cancel).await,
        Act::Pause => one.order(Command::Pause).await,
        Act::Resume => one.order(Command::Resume).await,
        Act::Retry => one.order(Command::Retry).await,
        Act::Migrate { version, mapping } => {
            one.order(Command::Migrate { version: version.clone(), mapping: mapping.clone() }).await
        }
        Act::Signal { name, data } => {
            // The same for every try: an instance gets it once.
            let id = Some(id::derive(row.id, u64::MAX));
            let signal = Signal { name: name.clone(), data: data.clone(), id };
            let sent = Handle::new(engine.clone()).signal(tenant, item, signal).await;
            one.settle_as(sent.map(drop)).await
        }
        Act::Replay { ramp } => one.replay(*ramp).await,
        Act::Discard => {
            let discarded = dead_letters::discard(engine, tenant, item, one.taking(ItemOutcome::Done, None));
            one.settled_by(discarded.await).await
        }
    }
}

struct One<'a> {
    engine: &'a Arc<Engine>,
    tenant: &'a TenantId,
    row: &'a BatchRow,
    item: Uuid,
}

impl One<'_> {
    fn settlement(&self, to: ItemOutcome, detail: Option<String>) -> Write {
        let (batch, item, at) = (self.row.id, self.item, self.engine.now());
        Write::SettleItem(Settlement { batch, item, from: ItemOutcome::Waiting, to, detail, at })
    }

    /// What history says of why it was done.
    fn why(&self) -> String {
        let batch = id::show(id::Kind::Batch, self.row.id);
        match &self.row.why {
            Some(why) => format!("{why} ({batch})"),
            None => batch,
        }
    }

    fn taking(&self, to: ItemOutcome, detail: Option<String>) -> Taking<'_> {
        Taking {
            actor: &self.row.actor,
            why: Some(self.why()),
            with: vec![self.settlement(to, detail)],
            ..Taking::default()
        }
    }

    async fn order(&self, command: Command) -> Result<(), Refusal> {
        let work = Work {
            guards: vec![self.settlement(ItemOutcome::Done, None)],
            actor: Some(self.row.actor.clone()),
            why: Some(self.why()),
            ..Work::new(self.tenant.clone(), self.item, command)
        };
        match turn::ask(self.engine, work).await {
            Ok(turned) if !turned.changed => {
                self.settle(ItemOutcome::Skipped, Some(format!("it is {}", turned.status))).await
            }
            answer => self.settled_by(answer.map(drop)).await,
        }
    }

    async fn replay(&self, follow: bool) -> Result<(), Refusal> {
        let delivery = self.engine.entropy.id(self.engine.now());
        let letter =
            self.engine.store.dead_letter(self.tenant, self.item).await.map_err(refusal::of_store)?;
        let follow = letter.filter(|_| follow).and_then(|letter| Follow::of(&letter, delivery));
        let (to, detail) = match follow {
            Some(follow) => (ItemOutcome::Sent, serde_json::to_string(&follow).ok()),
            None => (ItemOutcome::Done, None),
        };
        let taking = Taking { delivery: Some(delivery), ..self.taking(to, detail) };
        let replayed = dead_letters::replay(self.engine, self.tenant, self.item, taking).await;
        self.settled_by(replayed).await
    }

    /// For an act that settles the item itself if it lands.
    async fn settled_by(&self, answer: Result<(), Refusal>) -> Result<(), Refusal> {
        match answer {
            Ok(()) => Ok(()),
            refused => self.settle_as(refused).await,
        }
    }

    /// For an act that does not.
    async fn settle_as(&self, answer: Result<(), Refusal>) -> Result<(), Refusal> {
        let (to, detail) = match answer {
            Ok(()) => (ItemOutcome::Done, None),
            // Not the item: the version it was to be moved to.
            Err(Refusal::NotFound(what)) if what.starts_with("definition ") => {
                (ItemOutcome::Failed, Some(format!("there is no {what}")))
            }
            // Either it is gone, or an earlier try of this batch has landed; the item's own guard tells.
            Err(Refusal::NotFound(_)) => (ItemOutcome::Skipped, Some("it is gone".to_owned())),
            Err(Refusal::Conflict { code: "instance-ended", detail, .. }) => {
                (ItemOutcome::Skipped, Some(detail))
            }
            Err(Refusal::Conflict { detail, .. } | Refusal::Invalid { detail, .. }) => {
                (ItemOutcome::Failed, Some(detail))
            }
            Err(refusal) => return Err(refusal),
        };
        self.settle(to, detail).await
    }

    /// Settles the item alone. One that is settled already stays as it is.
    async fn settle(&self, to: ItemOutcome, detail: Option<String>) -> Result<(), Refusal> {
        let writes = vec![self.settlement(to, detail)];
        let commit = Commit { tenant: self.tenant.clone(), writes };
        self.engine.committer.commit(commit).await.map(drop).map_err(refusal::of_store)
    }
}
