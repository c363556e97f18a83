//! Records: a tenant's own entities, each with a version, a kind, a parent and a list of who may do what.
//!
//! A change is one commit: the record, its keys, the event that tells of it and, if its parent or its grants change, one
//! `RecalculateAcl` and the work of handing the new list down (see `acl`). The record itself has its new list at once, from its
//! parent's; those below it keep theirs until the work reaches them.

mod explain;
mod groups;
mod kinds;
mod write;

pub(crate) use explain::explain;
pub(crate) use groups::{delete_group, names_of, put_group};
pub(crate) use kinds::{declared_keys, delete_kind, put_kind};
pub(crate) use write::{change, create, delete};

use crate::{
    api::{Asker, Refusal},
    engine::Engine,
    refusal, remote,
};
use machine::{
    Data, TenantId, Time,
    acl::{Effective, Right, Verdict},
    id,
};
use store::{
    Hint, Outcome, RecordWrite, Write,
    records::RecordView,
    rows::{AclListRow, OutboxRow},
};

/// Tries to change what somebody else changes at the same time.
const TRIES_MAX: usize = 16;

/// The record, if whoever asks may read it.
pub(crate) async fn read(
    engine: &Engine,
    tenant: &TenantId,
    asker: &Asker,
    id: &str,
) -> Result<RecordView, Refusal> {
    let found = engine.store.records().record(tenant, id, asker.list().as_deref()).await;
    found.map_err(refusal::of_store)?.ok_or_else(|| Refusal::NotFound("record".to_owned()))
}

/// Refuses if whoever asks may not do this.
fn is_allowed(asker: &Asker, view: &RecordView, right: Right) -> Result<(), Refusal> {
    let Some(names) = &asker.names else { return Ok(()) };
    match list_of(view)?.verdict(names, right) {
        Verdict::Allowed(_) => Ok(()),
        _ => Err(Refusal::Forbidden {
            code: "record-forbidden",
            detail: format!("nothing grants the right to {} record `{}`", right.word(), view.row.id),
        }),
    }
}

fn list_of(view: &RecordView) -> Result<Effective, Refusal> {
    Effective::parse(&view.list).map_err(|error| {
        tracing::error!(record = view.row.id, error, "a list of who may do what cannot be read");
        Refusal::Unavailable("the record's list of who may do what cannot be read".to_owned())
    })
}

/// The list as a row.
pub(crate) fn list_row(list: &Effective) -> AclListRow {
    let entries = list.0.iter().map(|(name, entry)| (name.clone(), entry.allow, entry.deny)).collect();
    AclListRow { id: list.id(), list: list.to_bytes(), entries }
}

fn invalid(code: &'static str, detail: impl Into<String>) -> Refusal {
    Refusal::Invalid { code, detail: detail.into(), problems: vec![] }
}

/// An event about a record, as a row of the outbox.
fn event(
    engine: &Engine,
    tenant: &TenantId,
    event_type: &str,
    (record, data): (&str, Data),
    now: Time,
) -> Write {
    let event_id = engine.entropy.id(now);
    let entries = [
        ("specversion", Data::text("1.0")),
        ("id", Data::text(id::show(id::Kind::Event, event_id))),
        ("source", Data::text("windlass/records")),
        ("type", Data::text(event_type)),
        ("subject", Data::text(record)),
        ("time", Data::text(now.rfc3339())),
        ("tenantid", Data::text(tenant.as_str())),
        ("datacontenttype", Data::text("application/json")),
        ("data", data),
    ];
    Write::Outbox(OutboxRow {
        id: event_id,
        key: format!("record/{record}"),
        event_type: event_type.to_owned(),
        event: Data::map(entries.map(|(name, value)| (name.to_owned(), value))).to_bytes(),
        created_at: now,
    })
}

fn write(write: RecordWrite) -> Write {
    Write::Record(Box::new(write))
}

/// Commits, and tells those who publish and those who hand lists down.
async fn commit(engine: &Engine, tenant: &TenantId, writes: Vec<Write>) -> Result<Outcome, Refusal> {
    let outcome = remote::commit(engine, tenant, writes).await?;
    match &outcome {
        Outcome::Committed => {
            engine.wake.outbox();
            engine.wake.acl.at(engine.now());
            engine.hints.tell(Hint { outbox: true, ..Hint::queues() });
        }
        Outcome::Rejected(why) => return Err(invalid("refused-by-store", why.clone())),
        Outcome::Conflict(_) => {}
    }
    Ok(outcome)
}
