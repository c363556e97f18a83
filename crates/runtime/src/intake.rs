//! What comes in over a bus: commands to workflows and CloudEvents. Each is answered once everything that follows from it
//! is durable; what can never be taken becomes a dead letter, so that it holds up nothing.

use crate::{
    Handle,
    api::{DefinitionRef, Order, Refusal, Signal, Start},
    dead_letters::{self, Reason},
    engine::Engine,
};
use bus::{Channel, Incoming, Intake, Taken};
use machine::{Data, id};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use store::{Commit, Outcome};
use uuid::Uuid;

/// The longest message.
const BYTES_MAX: usize = 1024 * 1024;

/// Takes what comes in over the bus of that name.
pub(crate) struct Desk {
    pub(crate) engine: Arc<Engine>,
    pub(crate) bus: String,
}

/// Why a message is not taken.
pub(crate) enum Not {
    Now(String),
    Ever(Reason, String),
}

impl From<Refusal> for Not {
    fn from(refusal: Refusal) -> Not {
        let detail = refusal.to_string();
        match refusal {
            Refusal::Parked { .. } | Refusal::Limited { .. } => Not::Now(detail),
            Refusal::Busy | Refusal::Full | Refusal::Unavailable(_) => Not::Now(detail),
            _ => Not::Ever(Reason::Refused, detail),
        }
    }
}

#[async_trait::async_trait]
impl Intake for Desk {
    async fn take(&self, incoming: Incoming) -> Taken {
        let taken = route(&self.engine, &incoming).await;
        let outcome = if taken.is_ok() { "processed" } else { "dead-lettered" };
        let answer = match taken {
            Ok(()) => Taken::Done,
            Err(Not::Now(why)) => Taken::Later(why),
            Err(Not::Ever(reason, why)) => self.bury(&incoming, reason, why).await,
        };
        if answer == Taken::Done {
            let target = crate::buses::worker_of(&self.bus);
            self.engine.metrics.message(incoming.tenant.as_str(), &target, outcome, 0);
        }
        answer
    }
}

impl Desk {
    /// One dead letter for a message, however often it comes.
    async fn bury(&self, incoming: &Incoming, reason: Reason, detail: String) -> Taken {
        let engine = &self.engine;
        let letter = derived(&[&self.bus, &incoming.id]);
        tracing::warn!(tenant = %incoming.tenant, bus = self.bus, message = incoming.id, detail, "dead letter");
        let write = dead_letters::of_incoming(engine, letter, incoming, reason, detail);
        let commit = Commit { tenant: incoming.tenant.clone(), writes: vec![write] };
        match engine.committer.commit(commit).await {
            Ok(Outcome::Committed) => {
                engine.hub.changed(&incoming.tenant, "dead-letter", letter, reason.word(), 1, engine.now());
                Taken::Done
            }
            // It is there already, unless the store says otherwise.
            Ok(other) => match engine.store.dead_letter(&incoming.tenant, letter).await {
                Ok(Some(_)) => Taken::Done,
                _ => Taken::Later(format!("{other:?}")),
            },
            Err(error) => Taken::Later(error.to_string()),
        }
    }
}

/// Does what the message asks for.
pub(crate) async fn route(engine: &Arc<Engine>, incoming: &Incoming) -> Result<(), Not> {
    let unreadable = |detail: String| Not::Ever(Reason::Deserialization, detail);
    if incoming.body.len() > BYTES_MAX {
        return Err(unreadable(format!("the message has more than {BYTES_MAX} bytes")));
    }
    let body = Data::parse(&incoming.body).map_err(|error| unreadable(format!("it is no JSON: {error}")))?;
    if body.entries().is_none() {
        return Err(unreadable("a message is an object".to_owned()));
    }
    match incoming.channel {
        Channel::Events => {
            let handle = Handle::new(engine.clone());
            handle.publish(&incoming.tenant, body).await.map(drop).map_err(Not::from)
        }
        Channel::Commands => command(engine, incoming, &body).await,
    }
}

async fn command(engine: &Arc<Engine>, incoming: &Incoming, body: &Data) -> Result<(), Not> {
    let text = |name: &str| body.get(name).as_ref().and_then(Data::as_str).map(str::to_owned);
    // The sender's own id if there is one: it is the same in whichever way the command came.
    let key = text("id").unwrap_or_else(|| incoming.id.clone());
    let (tenant, handle) = (&incoming.tenant, Handle::new(engine.clone()));
    match text("kind").as_deref() {
        Some("start") => {
            let start = start_of(body, key)?;
            handle.start(tenant, start).await?;
        }
        Some("signal") => {
            let instance = instance_of(body)?;
            let name = text("name").ok_or_else(|| missing("name"))?;
            let data = body.get("data").unwrap_or_default();
            let id = Some(derived(&[tenant.as_str(), &instance.simple().to_string(), &key]));
            handle.signal_early(tenant, instance, Signal { name, data, id }).await?;
        }
        Some("resume") => order(&handle, incoming, instance_of(body)?, Order::Resume).await?,
        Some("retry") => order(&handle, incoming, instance_of(body)?, Order::Retry).await?,
        Some(other) => {
            let detail = format!("the kind {other:?} is none of start, signal, resume and retry");
            return Err(Not::Ever(Reason::Deserialization, detail));
        }
        None => return Err(missing("kind")),
    }
    Ok(())
}

/// An order that comes again finds that it was carried out.
async fn order(handle: &Handle, incoming: &Incoming, instance: Uuid, order: Order) -> Result<(), Not> {
    match handle.order(&incoming.tenant, instance, order, "bus").await {
        Err(Refusal::Conflict { .. }) if incoming.again => Ok(()),
        answer => Ok(answer.map(drop)?),
    }
}

fn missing(name: &str) -> Not {
    Not::Ever(Reason::Deserialization, format!("the command needs `{name}`"))
}

fn instance_of(body: &Data) -> Result<Uuid, Not> {
    let given = body.get("instance").ok_or_else(|| missing("instance"))?;
    let id = id::parse(id::Kind::Instance, given.as_str().unwrap_or_default());
    id.map_err(|error| Not::Ever(Reason::Deserialization, error.to_string()))
}

fn start_of(body: &Data, key: String) -> Result<Start, Not> {
    let definition = body.get("definition").ok_or_else(|| missing("definition"))?;
    let of = |data: &Data, name: &str| data.get(name).as_ref().and_then(Data::as_str).map(str::to_owned);
    Ok(Start {
        definition: DefinitionRef {
            namespace: of(&definition, "namespace").ok_or_else(|| missing("definition.namespace"))?,
            name: of(&definition, "name").ok_or_else(|| missing("definition.name"))?,
            version: of(&definition, "version"),
        },
        input: body.get("input").unwrap_or_default(),
        business_key: of(body, "business_key"),
        business_parts: vec![],
        idempotency_key: Some(format!("bus:{key}")),
        traceparent: of(body, "traceparent"),
        tracestate: None,
        correlation_id: of(body, "correlation_id"),
        id: None,
    })
}

/// An id that is the same whenever it is made of the same.
fn derived(parts: &[&str]) -> Uuid {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let bytes: [u8; 32] = digest.finalize().into();
    uuid::Builder::from_custom_bytes(bytes[..16].try_into().expect("half of 32 bytes")).into_uuid()
}
