//! Taking dead letters: put back where they came from, or thrown away, once.

use super::{DELIVERY, Origin, Reason, outside};
use crate::{
    api::Refusal,
    engine::Engine,
    event_types, events, refusal,
    turn::{self, Work},
};
use machine::{Command, Data, TenantId, Time, id};
use std::sync::Arc;
use store::{Commit, Conflict, Outcome, Write, rows::*};
use uuid::Uuid;

/// Who takes a dead letter, and what goes with it.
#[derive(Clone, Default)]
pub(crate) struct Taking<'a> {
    pub(crate) actor: &'a str,
    pub(crate) why: Option<String>,
    /// What a worker is given instead.
    pub(crate) data: Option<Data>,
    /// Guards that stand or fall with it.
    pub(crate) with: Vec<Write>,
    /// The id of the delivery that it becomes, if it becomes one.
    pub(crate) delivery: Option<Uuid>,
}

/// An event as it is delivered instead of the one that failed.
struct Changed<'a> {
    data: Data,
    actor: &'a str,
}

impl Changed<'_> {
    /// The same event with other data, under an id of its own, with what it comes from and who changed it.
    fn event(&self, event: &Data, original: Uuid, letter: Uuid) -> Data {
        let mut entries = event.entries().unwrap_or_default();
        let own = ["id", "data", "data_base64", "causationid", "changedby"];
        entries.retain(|(name, _)| !own.contains(&name.as_str()));
        let id = event.get("id").map(|id| id.to_text()).unwrap_or_default();
        entries.extend([
            ("id".to_owned(), Data::text(format!("{id}~{}", letter.simple()))),
            ("causationid".to_owned(), Data::text(id::show(id::Kind::Event, original))),
            ("changedby".to_owned(), Data::text(self.actor)),
            ("data".to_owned(), self.data.clone()),
        ]);
        Data::map(entries)
    }
}

/// Delivers the event of a dead letter again. An event that is gone by now comes back with it; one with other data is an
/// event of its own, which says where it comes from.
async fn redeliver(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    letter: DeadLetterRow,
    mut origin: Origin,
    taking: Taking<'_>,
) -> Result<(), Refusal> {
    let now = engine.now();
    let mut writes = vec![Write::ConsumeDeadLetter { id: letter.id }];
    writes.extend(taking.with);
    let mut event = Data::parse(&letter.envelope).unwrap_or_default();
    if let Some(data) = taking.data {
        event = Changed { data, actor: taking.actor }.event(&event, origin.id, letter.id);
        let event_type = event.get("type").map(|kind| kind.to_text()).unwrap_or_default();
        event_types::check(engine, tenant, &event_type, &event).await?;
        origin.id = engine.entropy.id(now);
    }
    let there = engine.store.event(tenant, origin.id).await.map_err(refusal::of_store)?;
    let emitted_by = there.as_ref().and_then(|there| there.emitted_by.as_deref());
    let order_key = engine.subscribers.order_key(tenant, &origin.name, &event, emitted_by);
    // As old as its event, which stays as long as something of its age is waited for.
    let created_at = there.as_ref().map_or(now, |there| there.received_at.min(now));
    if there.is_none() {
        let (mut row, _) = events::read(engine, tenant, event, now)?;
        (row.id, row.kept_until, row.delivered) = (origin.id, None, 1);
        writes.push(Write::Publish(Box::new(row)));
    }
    writes.push(Write::Delivery(Box::new(DeliveryRow {
        id: taking.delivery.unwrap_or_else(|| engine.entropy.id(now)),
        worker: origin.name,
        events: [origin.id].into_iter().collect(),
        order_key,
        created_at,
        visible_at: now,
        attempt: 0,
        last_error: None,
        owner: None,
        taken_over: 0,
        traced: Traced::default().by_event(),
    })));
    consume(engine, tenant, writes).await?;
    engine.wake.deliveries.at(engine.now());
    engine.buses.wake(engine.now());
    engine.webhooks.alarm.at(engine.now());
    engine.backlog();
    Ok(())
}

/// Puts a dead letter back where it came from, a delivery's with other data if so wanted. The letter is consumed in the
/// same commit, so that pressing twice has one effect.
pub(crate) async fn replay(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    id: Uuid,
    taking: Taking<'_>,
) -> Result<(), Refusal> {
    let missing = || Refusal::NotFound("dead letter".to_owned());
    let row = engine.store.dead_letter(tenant, id).await.map_err(refusal::of_store)?.ok_or_else(missing)?;
    let origin: Origin = serde_json::from_slice(&row.origin).unwrap_or_default();
    if row.source == DELIVERY {
        return redeliver(engine, tenant, row, origin, taking).await;
    }
    if taking.data.is_some() {
        let detail =
            format!("only what a worker was given can be changed; this is a dead letter of a {}", row.source);
        return Err(Refusal::Invalid { code: "invalid-value", detail, problems: vec![] });
    }
    if [outside::INCOMING, outside::EMITTED].contains(&row.source.as_str()) {
        return outside::replay(engine, tenant, row, origin, taking.with).await;
    }
    let guards = [vec![Write::ConsumeDeadLetter { id }], taking.with.clone()].concat();
    let instance = row.instance.unwrap_or_default();
    let now = engine.now();
    // A signal finds out itself whether its instance still wants it; a call has an effect before anybody asks.
    let (command, back) = match row.source.as_str() {
        _ if origin.faulted => (Command::Retry, vec![]),
        "timer" => {
            (Command::PutBack { token: origin.token }, vec![Write::Timer(timer_of(row, &origin, now))])
        }
        "call" => (Command::PutBack { token: origin.token }, vec![Write::Call(call_of(row, origin, now))]),
        _ => {
            let signal = Write::Signal(signal_of(row, origin, now));
            take(engine, tenant, (id, instance), vec![signal], taking).await?;
            engine.backlog();
            return Ok(());
        }
    };
    let work = Work {
        guards,
        also: back,
        actor: Some(taking.actor.to_owned()),
        letter: Some(id),
        why: taking.why,
        ..Work::new(tenant.clone(), instance, command)
    };
    match turn::ask(engine, work).await {
        Ok(turned) if turned.changed => {
            engine.backlog();
            Ok(())
        }
        Ok(turned) => match engine.store.dead_letter(tenant, id).await.map_err(refusal::of_store)? {
            None => Err(missing()),
            Some(_) => Err(Refusal::Conflict {
                code: "not-allowed-now",
                detail: format!(
                    "the instance is {} and does not wait for this any more; discard the dead letter",
                    turned.status
                ),
                existing: None,
            }),
        },
        Err(Refusal::NotFound(_)) => Err(missing()),
        Err(refusal) => Err(refusal),
    }
}

fn timer_of(row: DeadLetterRow, origin: &Origin, now: Time) -> TimerRow {
    let instance = row.instance.unwrap_or_default();
    TimerRow {
        instance,
        token: origin.token,
        due_at: now,
        envelope: row.envelope,
        attempt: 0,
        owner: None,
        taken_over: 0,
    }
}

fn call_of(row: DeadLetterRow, origin: Origin, now: Time) -> CallRow {
    CallRow {
        instance: row.instance.unwrap_or_default(),
        token: origin.token,
        target: origin.name,
        envelope: row.envelope,
        created_at: now,
        visible_at: now,
        attempt: 1,
        last_error: None,
        owner: None,
        taken_over: 0,
    }
}

fn signal_of(row: DeadLetterRow, origin: Origin, now: Time) -> SignalRow {
    SignalRow {
        id: origin.id,
        instance: row.instance.unwrap_or_default(),
        signal_type: origin.name,
        envelope: row.envelope,
        created_at: now,
        visible_at: now,
        attempt: 0,
        owner: None,
        taken_over: 0,
    }
}

/// Throws a dead letter away.
pub(crate) async fn discard(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    id: Uuid,
    taking: Taking<'_>,
) -> Result<(), Refusal> {
    let row = engine.store.dead_letter(tenant, id).await.map_err(refusal::of_store)?;
    let row = row.ok_or_else(|| Refusal::NotFound("dead letter".to_owned()))?;
    take(engine, tenant, (id, row.instance.unwrap_or_default()), vec![], taking).await
}

/// Consumes a letter; what is put `back` instead, and what the instance's history says of it, are in the same commit.
/// Without an instance that can be read there is no history to write in, and only the log tells.
async fn take(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    (id, instance): (Uuid, Uuid),
    back: Vec<Write>,
    taking: Taking<'_>,
) -> Result<(), Refusal> {
    let guards = [vec![Write::ConsumeDeadLetter { id }], taking.with].concat();
    let command = Command::LetterTaken { replayed: !back.is_empty() };
    let work = Work {
        guards: guards.clone(),
        also: back.clone(),
        actor: Some(taking.actor.to_owned()),
        letter: Some(id),
        why: taking.why,
        ..Work::new(tenant.clone(), instance, command)
    };
    let unreadable = [Reason::DefinitionMissing.word(), Reason::SnapshotInconsistent.word()];
    match turn::ask(engine, work).await {
        Ok(_) => Ok(()),
        // Either the letter or the instance is gone; the letter's own guard tells which.
        Err(Refusal::NotFound(_)) => consume(engine, tenant, [guards, back].concat()).await,
        Err(Refusal::Conflict { code, .. }) if unreadable.contains(&code) => {
            consume(engine, tenant, [guards, back].concat()).await
        }
        Err(refusal) => Err(refusal),
    }
}

pub(super) async fn consume(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    writes: Vec<Write>,
) -> Result<(), Refusal> {
    let commit = Commit { tenant: tenant.clone(), writes };
    match engine.committer.commit(commit).await {
        Ok(Outcome::Committed) => Ok(()),
        Ok(Outcome::Conflict(Conflict::Gone)) => Err(Refusal::NotFound("dead letter".to_owned())),
        Ok(other) => {
            Err(Refusal::Conflict { code: "conflict", detail: format!("{other:?}"), existing: None })
        }
        Err(error) => Err(refusal::of_store(error)),
    }
}
