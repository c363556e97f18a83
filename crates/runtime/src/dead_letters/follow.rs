//! What becomes of a dead letter that was put back: whether it is still under way, went well, or failed again.

use super::{DELIVERY, Origin, outside};
use crate::engine::Engine;
use machine::{
    TenantId, Time,
    query::{Condition, Field, Pattern, Test},
    time::Span,
};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use store::{
    rows::{CallRow, DeadLetterRow, QueueKey},
    views::{DeadLetterFilter, PAGE_MAX, Page},
};
use uuid::Uuid;

/// Open calls of an instance that are looked at.
const CALLS_MAX: usize = 100;
/// Dead letters of one worker that are looked through for those that failed again.
const LETTERS_MAX: usize = 5_000;
/// Clocks of nodes differ by no more than this.
const SKEW: Span = Span::from_secs(5);

/// What a dead letter became when it was put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Follow {
    Delivery {
        delivery: Uuid,
        event: Uuid,
        worker: String,
    },
    /// The instance does its failed step again; `name` is the step, or what it calls.
    Step {
        instance: Uuid,
        name: String,
    },
    Timer {
        instance: Uuid,
        token: u64,
    },
    Call {
        instance: Uuid,
        token: u64,
    },
    Signal {
        instance: Uuid,
        id: Uuid,
    },
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Not known yet.
    Open,
    Well,
    /// It failed again, with this dead letter if there is one.
    Again(Option<Uuid>, String),
}

impl Follow {
    /// What the letter becomes when it is put back, a delivery under this id. `None` if that is known as soon as it is done.
    pub(crate) fn of(letter: &DeadLetterRow, delivery: Uuid) -> Option<Follow> {
        let origin: Origin = serde_json::from_slice(&letter.origin).unwrap_or_default();
        let Origin { token, name, id, faulted } = origin;
        if letter.source == DELIVERY {
            return Some(Follow::Delivery { delivery, event: id, worker: name });
        }
        let instance = letter.instance?;
        match letter.source.as_str() {
            outside::INCOMING | outside::EMITTED => None,
            _ if faulted => Some(Follow::Step { instance, name }),
            "timer" => Some(Follow::Timer { instance, token }),
            "call" => Some(Follow::Call { instance, token }),
            _ => Some(Follow::Signal { instance, id }),
        }
    }

    /// Looks at what became of it since it was put back at `since`.
    pub(crate) async fn settled(
        &self,
        engine: &Engine,
        tenant: &TenantId,
        since: Time,
        letters: &mut Letters,
    ) -> Result<Settled, store::Error> {
        let place = async |row: QueueKey| engine.store.place(tenant, row).await.map(|place| place.is_some());
        let (instance, open) = match self {
            Follow::Delivery { delivery, event, worker } => {
                return match engine.store.delivery(tenant, *delivery).await? {
                    Some(_) => Ok(Settled::Open),
                    None => letters.of_delivery(engine, (tenant, since), worker, *event).await,
                };
            }
            Follow::Step { instance, name } => {
                let calls = engine.store.calls(tenant, *instance, CALLS_MAX).await?;
                (*instance, calls.iter().any(|call| is_of(call, name)))
            }
            Follow::Timer { instance, token } => {
                (*instance, place(QueueKey::Timer { instance: *instance, token: *token }).await?)
            }
            Follow::Call { instance, token } => {
                (*instance, place(QueueKey::Call { instance: *instance, token: *token }).await?)
            }
            Follow::Signal { instance, id } => (*instance, place(QueueKey::Signal { id: *id }).await?),
        };
        match open {
            true => Ok(Settled::Open),
            false => of_instance(engine, tenant, instance, since).await,
        }
    }
}

fn is_of(call: &CallRow, name: &str) -> bool {
    let step = || serde_json::from_slice::<machine::command::Call>(&call.envelope).map(|call| call.step);
    call.target == name || step().is_ok_and(|step| step == name)
}

fn since_then(since: Time) -> Condition {
    let from = Time(since.0.saturating_sub(SKEW.0));
    Condition { field: Field::Created, not: false, test: Test::Times(Some(from), None) }
}

/// An instance has failed again if it has a new dead letter, or has faulted.
async fn of_instance(
    engine: &Engine,
    tenant: &TenantId,
    instance: Uuid,
    since: Time,
) -> Result<Settled, store::Error> {
    let filter = DeadLetterFilter {
        instance: Some(instance),
        conditions: vec![since_then(since)],
        ..DeadLetterFilter::default()
    };
    let found = engine.store.dead_letters(tenant, &filter, &Page { after: None, limit: 1 }).await?;
    if let Some(letter) = found.into_iter().next() {
        return Ok(Settled::Again(Some(letter.id), letter.detail));
    }
    let view = engine.store.instance(tenant, instance).await?;
    Ok(match view {
        Some(view) if view.row.status == "faulted" => {
            Settled::Again(None, "the instance has faulted".to_owned())
        }
        _ => Settled::Well,
    })
}

/// Dead letters of deliveries that came since some time, by worker; read once for all that are looked at together.
#[derive(Default)]
pub(crate) struct Letters(HashMap<String, HashMap<Uuid, (Uuid, String)>>);

impl Letters {
    async fn of_delivery(
        &mut self,
        engine: &Engine,
        (tenant, since): (&TenantId, Time),
        worker: &str,
        event: Uuid,
    ) -> Result<Settled, store::Error> {
        if !self.0.contains_key(worker) {
            let found = read(engine, tenant, worker, since).await?;
            self.0.insert(worker.to_owned(), found);
        }
        Ok(match self.0.get(worker).and_then(|letters| letters.get(&event)) {
            Some((letter, detail)) => Settled::Again(Some(*letter), detail.clone()),
            None => Settled::Well,
        })
    }
}

/// The event, letter and detail of every dead letter of the worker since then. A letter is written in the commit that ends
/// its delivery, so that whoever finds the delivery gone finds the letter.
async fn read(
    engine: &Engine,
    tenant: &TenantId,
    worker: &str,
    since: Time,
) -> Result<HashMap<Uuid, (Uuid, String)>, store::Error> {
    let source = Test::Texts(vec![Pattern::Equal(DELIVERY.to_owned())]);
    let filter = DeadLetterFilter {
        worker: Some(worker.to_owned()),
        conditions: vec![since_then(since), Condition { field: Field::Source, not: false, test: source }],
        ..DeadLetterFilter::default()
    };
    let (mut found, mut after) = (HashMap::new(), None);
    while found.len() < LETTERS_MAX {
        let page = engine.store.dead_letters(tenant, &filter, &Page { after, limit: PAGE_MAX }).await?;
        after = page.last().map(|letter| letter.id);
        let is_last = page.len() < PAGE_MAX;
        for letter in page {
            let origin: Origin = serde_json::from_slice(&letter.origin).unwrap_or_default();
            found.insert(origin.id, (letter.id, letter.detail));
        }
        if is_last {
            break;
        }
    }
    Ok(found)
}
