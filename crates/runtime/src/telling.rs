//! Delivers signals: reads what an envelope says and tells the instance.

use crate::{
    children,
    dead_letters::{self, Reason},
    engine::Engine,
    newer,
    patience::Patience,
    slots,
    turn::{Source, Work},
};
use machine::{
    Command, Data, TenantId,
    child::Outcome,
    command::{SignalEnvelope, SignalType},
    id,
    newer::says_unknown,
    time::Span,
};
use std::sync::Arc;
use store::{
    Write,
    rows::{Claimed, SignalRow},
};
use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;

/// How long a signal waits when the store cannot say what it is about.
const STORE_WAIT: Span = Span::from_millis(500);

/// Tells the instance what the signal's envelope says; an envelope nobody can read becomes a dead letter.
pub(crate) async fn deliver_signal(
    engine: &Arc<Engine>,
    claimed: Claimed<SignalRow>,
    permit: Option<OwnedSemaphorePermit>,
) {
    let Claimed { tenant, row } = claimed;
    let hold = Some(engine.held.hold(&tenant, row.key()));
    let mut also = vec![];
    let mut reason = Reason::Deserialization;
    let read = match dead_letters::fatal(engine, row.taken_over) {
        Some(detail) => {
            reason = Reason::Poison;
            Err(Wrong { detail, is_newer: false })
        }
        None => read_envelope(&row.envelope),
    };
    let command = match read {
        Ok(Said::Command(command)) => Ok(command),
        Ok(Said::Event { id, token, direct }) => match engine.store.event(&tenant, id).await {
            Ok(Some(event)) => {
                also.extend(direct.then_some(Write::EventTaken { id }));
                Ok(Command::Event { id, event: Data::parse(&event.event).unwrap_or_default(), token })
            }
            // Its time was over long ago; a wait that does not exist wants nothing.
            Ok(None) => Ok(Command::Event { id, event: Data::NULL, token: u64::MAX }),
            Err(error) => {
                engine.tasks.heed(&error);
                let visible_at = engine.now().after(STORE_WAIT);
                let (id, owner, attempt) = (row.id, row.owner, row.attempt);
                let write = Write::RetrySignal { id, owner, visible_at, attempt };
                dead_letters::commit_patiently(engine, &tenant, vec![write]).await;
                engine.wake.at(visible_at);
                return;
            }
        },
        Ok(Said::Ended { token, child }) => match outcome_of(engine, &tenant, child).await {
            Some(Ok(outcome)) => Ok(Command::ChildDone { token, outcome }),
            Some(Err(error)) => Err(error.into()),
            // The node stops; the row stays for another.
            None => return,
        },
        Err(wrong) => Err(wrong),
    };
    let work = Work {
        guards: vec![Write::ConsumeSignal { id: row.id }],
        also,
        permit,
        hold,
        ..Work::new(tenant, row.instance, command.as_ref().cloned().unwrap_or(Command::Pause))
    };
    let mut work = Work { source: Source::Signal(Box::new(row)), ..work };
    match command {
        Ok(_) => slots::submit(engine, work),
        Err(Wrong { detail, is_newer: true }) => newer::leave(engine, &mut work, reason, &detail).await,
        Err(Wrong { detail, .. }) => dead_letters::bury(engine, &mut work, reason, &detail),
    }
}

/// Reads how a child ended, as long as it takes. `None` if the node stops first.
async fn outcome_of(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    child: Uuid,
) -> Option<Result<Outcome, serde_json::Error>> {
    let mut patience = Patience::new();
    loop {
        match children::outcome_of(engine, tenant, child).await {
            Ok(outcome) => return Some(outcome),
            Err(error) => {
                engine.tasks.heed(&error);
                if !patience.wait(engine).await {
                    return None;
                }
            }
        }
    }
}

/// What an envelope says.
enum Said {
    Command(Command),
    /// An event may be wanted by the wait of that token.
    Event {
        id: Uuid,
        token: u64,
        /// The wait was there when the event came.
        direct: bool,
    },
    /// A child ended; how is too much for a signal, its own row tells.
    Ended {
        token: u64,
        child: Uuid,
    },
}

/// Why an envelope cannot be read.
struct Wrong {
    detail: String,
    /// A newer build wrote it.
    is_newer: bool,
}

impl From<String> for Wrong {
    fn from(detail: String) -> Wrong {
        Wrong { detail, is_newer: false }
    }
}

impl From<serde_json::Error> for Wrong {
    fn from(error: serde_json::Error) -> Wrong {
        Wrong { detail: error.to_string(), is_newer: says_unknown(&error) }
    }
}

fn read_envelope(bytes: &[u8]) -> Result<Said, Wrong> {
    let envelope: SignalEnvelope = serde_json::from_slice(bytes)?;
    let token = || -> Result<u64, String> {
        let text = envelope.waiting_token.as_deref().unwrap_or_default();
        text.parse().map_err(|_| format!("waitingToken {text:?} is not a token"))
    };
    let command = match envelope.signal_type {
        SignalType::InternalContinue => Command::Continue { token: token()? },
        SignalType::TimerDue | SignalType::RetryDue => Command::Timer { token: token()? },
        SignalType::TaskCompleted => {
            Command::TaskDone { token: token()?, result: envelope.payload.get("result").unwrap_or_default() }
        }
        SignalType::ExternalSignal if envelope.payload.get("eventId").is_some() => {
            return Ok(event_for(token()?, &envelope.payload)?);
        }
        SignalType::ExternalSignal => {
            let event = envelope.payload.get("event").ok_or_else(|| "payload has no event".to_owned())?;
            Command::Signal { id: envelope.signal_id, event }
        }
        SignalType::ParentClosed => Command::ParentClosed,
        SignalType::SubWorkflowCompleted => return sub_workflow(token()?, &envelope.payload),
    };
    Ok(Said::Command(command))
}

fn event_for(token: u64, payload: &Data) -> Result<Said, String> {
    let id = payload.get("eventId").unwrap_or_default().to_text();
    let direct = payload.get("direct").is_some_and(|direct| direct.is_true());
    Ok(Said::Event { id: id.parse().map_err(|_| "eventId is not an id".to_owned())?, token, direct })
}

fn sub_workflow(token: u64, payload: &Data) -> Result<Said, Wrong> {
    if let Some(tally) = payload.get("tally") {
        let tally = serde_json::from_value(tally.to_json())?;
        return Ok(Said::Command(Command::Items { token, tally }));
    }
    if let Some(outcome) = payload.get("outcome") {
        let outcome = serde_json::from_value(outcome.to_json())?;
        return Ok(Said::Command(Command::ChildDone { token, outcome }));
    }
    let child = payload.get("child").ok_or_else(|| "payload has no child".to_owned())?;
    let child = id::parse(id::Kind::Instance, child.as_str().unwrap_or_default());
    Ok(Said::Ended { token, child: child.map_err(|error| error.to_string())? })
}
