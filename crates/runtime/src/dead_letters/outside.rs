//! Dead letters of what was to go out or has come in: events that can be published to nobody, messages of a bus that make
//! no sense.

use super::{Origin, Reason, taking::consume};
use crate::{api::Refusal, engine::Engine, events, intake, rows};
use bus::{Channel, Incoming};
use machine::{Data, TenantId};
use std::sync::Arc;
use store::{
    Write,
    rows::{DeadLetterRow, OutboxRow},
};
use uuid::Uuid;

/// What dead letters of emitted events say they come from.
pub(super) const EMITTED: &str = "event";

/// What dead letters of messages that came in over a bus say they come from.
pub(super) const INCOMING: &str = "bus";

/// The dead letter of an event that was emitted and can be published to nobody. Putting it back tries again.
pub(crate) fn of_emitted(engine: &Engine, row: &OutboxRow, reason: Reason, detail: String) -> Write {
    let origin = Origin { name: row.key.clone(), id: row.id, ..Origin::default() };
    Write::DeadLetter(Box::new(DeadLetterRow {
        // The same on every node that finds the row: the second is refused, and with it what it would do again.
        id: row.id,
        source: EMITTED.to_owned(),
        reason: reason.word().to_owned(),
        detail,
        instance: None,
        envelope: row.event.clone(),
        origin: rows::to_json(&origin),
        attempts: 1,
        last_node: engine.node,
        group: None,
        failed_at: engine.now(),
    }))
}

/// The dead letter of a message that came in over a bus. Putting it back does what it asks for.
pub(crate) fn of_incoming(
    engine: &Engine,
    letter: Uuid,
    incoming: &Incoming,
    reason: Reason,
    detail: String,
) -> Write {
    let events = incoming.channel == Channel::Events;
    let origin = Origin { token: u64::from(events), name: incoming.id.clone(), ..Origin::default() };
    Write::DeadLetter(Box::new(DeadLetterRow {
        id: letter,
        source: INCOMING.to_owned(),
        reason: reason.word().to_owned(),
        detail,
        instance: None,
        envelope: incoming.body.clone(),
        origin: rows::to_json(&origin),
        attempts: 1,
        last_node: engine.node,
        group: None,
        failed_at: engine.now(),
    }))
}

/// Does again what the letter is about, and consumes it.
pub(super) async fn replay(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    row: DeadLetterRow,
    origin: Origin,
    with: Vec<Write>,
) -> Result<(), Refusal> {
    if row.source == INCOMING {
        return take_again(engine, tenant, row, origin, with).await;
    }
    // Somebody has looked at it: it may go on, and is counted anew.
    let event = Data::parse(&row.envelope).unwrap_or_default();
    let entries = event.entries().unwrap_or_default().into_iter();
    let event = Data::map(entries.filter(|(name, _)| name != machine::event::HOPS).collect::<Vec<_>>());
    events::publish_of(engine, tenant, event, Some(&origin.name)).await?;
    consume(engine, tenant, [vec![Write::ConsumeDeadLetter { id: row.id }], with].concat()).await
}

/// Does what a message that came in over a bus asks for, and consumes its letter.
async fn take_again(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    row: DeadLetterRow,
    origin: Origin,
    with: Vec<Write>,
) -> Result<(), Refusal> {
    let channel = if origin.token == 1 { Channel::Events } else { Channel::Commands };
    let incoming =
        Incoming { tenant: tenant.clone(), channel, id: origin.name, again: true, body: row.envelope };
    match intake::route(engine, &incoming).await {
        Ok(()) => {
            consume(engine, tenant, [vec![Write::ConsumeDeadLetter { id: row.id }], with].concat()).await
        }
        Err(intake::Not::Now(detail)) => Err(Refusal::Unavailable(detail)),
        Err(intake::Not::Ever(_, detail)) => {
            Err(Refusal::Conflict { code: "not-allowed-now", detail, existing: None })
        }
    }
}
