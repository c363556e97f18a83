//! What a commit says of the object of an act: its id, and hashes of what was there and what is there now.
//!
//! What was there is read before the commit. Where the commit is guarded by the object's version that is what it replaced;
//! of secrets only the sealed bytes are hashed, which say nothing of the value.

use machine::{
    TenantId,
    audit::Hash,
    id::{Kind, show},
};
use serde_json::json;
use sha2::{Digest, Sha256};
use store::{Error, RecordWrite, Store, Write, rows::*};
use uuid::Uuid;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) id: Option<String>,
    pub(crate) before: Option<Hash>,
    pub(crate) after: Option<Hash>,
}

/// Where what was there is found.
enum Before {
    Nothing,
    State(Uuid, i64),
    Task(Uuid),
    Schedule(Uuid),
    Batch(Uuid),
    Letter(Uuid),
    Worker(String),
    EventType(String),
    Secret(String),
    Key(String),
    Tenant,
    Record(String),
    RecordKind(String),
    Group(String),
}

/// Looks at the commit of an act. One on many things at once has no object of its own.
pub(crate) async fn seen(
    store: &dyn Store,
    tenant: &TenantId,
    act: &str,
    writes: &[Write],
) -> Result<Seen, Error> {
    let kind = act.split_once('.').map_or(act, |(kind, _)| kind);
    if act.ends_with("-many") {
        return Ok(Seen::default());
    }
    let found = writes.iter().find_map(|write| of_instance(kind, write).or_else(|| declared(kind, write)));
    let found = found.or_else(|| writes.iter().find_map(|write| of_deployment(kind, write, tenant)));
    let found = found.or_else(|| writes.iter().find_map(|write| of_record(kind, write)));
    let Some((id, before, after)) = found else { return Ok(Seen::default()) };
    let before = read(store, tenant, before).await?;
    Ok(Seen { id: Some(id), before: before.as_deref().map(hash), after: after.as_deref().map(hash) })
}

type Found = Option<(String, Before, Option<Vec<u8>>)>;

/// Instances and what belongs to them.
fn of_instance(kind: &str, write: &Write) -> Found {
    Some(match (kind, write) {
        ("instance", Write::CreateInstance { instance, .. }) => {
            (show(Kind::Instance, instance.id), Before::Nothing, Some(instance.input.clone()))
        }
        ("instance", Write::UpdateState(row)) => {
            let before = Before::State(row.instance, row.expected_version);
            (show(Kind::Instance, row.instance), before, Some(row.state_json.clone()))
        }
        ("instance", Write::Signal(row)) => {
            (show(Kind::Instance, row.instance), Before::Nothing, Some(row.envelope.clone()))
        }
        ("dataset", Write::Dataset(row)) => (show(Kind::Dataset, row.id), Before::Nothing, None),
        ("dataset", Write::Items(row)) => (show(Kind::Dataset, row.dataset), Before::Nothing, None),
        ("task", Write::UpdateTask { task: row, .. }) => {
            (show(Kind::Task, row.id), Before::Task(row.id), Some(task(row)))
        }
        ("dead-letter", Write::ConsumeDeadLetter { id }) => {
            (show(Kind::DeadLetter, *id), Before::Letter(*id), None)
        }
        ("delivery", Write::ConsumeDelivery { id, .. }) => (show(Kind::Delivery, *id), Before::Nothing, None),
        ("event", Write::Publish(row)) => {
            (show(Kind::Event, row.id), Before::Nothing, Some(row.event.clone()))
        }
        ("batch", Write::PutBatch { row, expected_version }) => {
            let before = if *expected_version == 0 { Before::Nothing } else { Before::Batch(row.id) };
            (show(Kind::Batch, row.id), before, Some(batch(row)))
        }
        ("schedule", Write::PutSchedule { schedule: row, .. }) => {
            (show(Kind::Schedule, row.id), Before::Schedule(row.id), Some(schedule(row)))
        }
        _ => return None,
    })
}

/// What tenants declare.
fn declared(kind: &str, write: &Write) -> Found {
    Some(match (kind, write) {
        ("definition", Write::CreateDefinition(row)) => {
            let id = format!("{}/{}@{}", row.namespace, row.name, row.version);
            (id, Before::Nothing, Some(row.source.clone()))
        }
        ("worker" | "webhook", Write::PutWorker { row, .. }) => {
            (row.name.clone(), Before::Worker(row.name.clone()), Some(row.declaration.clone()))
        }
        ("worker" | "webhook", Write::DeleteWorker { name }) => {
            (name.clone(), Before::Worker(name.clone()), None)
        }
        ("event-type", Write::PutEventType { row, .. }) => {
            (row.name.clone(), Before::EventType(row.name.clone()), Some(row.schema.clone()))
        }
        ("event-type", Write::DeleteEventType { name }) => {
            (name.clone(), Before::EventType(name.clone()), None)
        }
        ("secret", Write::PutSecret { row, .. }) => {
            (row.name.clone(), Before::Secret(row.name.clone()), Some(row.sealed.clone()))
        }
        ("secret", Write::DeleteSecret { name }) => (name.clone(), Before::Secret(name.clone()), None),
        _ => return None,
    })
}

/// Tenants and keys. Of a change of a tenant what was given is hashed, which need not be all of it.
fn of_deployment(kind: &str, write: &Write, tenant: &TenantId) -> Found {
    let of = tenant.to_string();
    Some(match (kind, write) {
        ("tenant", Write::CreateTenant(row)) => (row.id.to_string(), Before::Nothing, Some(standing(row))),
        ("tenant", Write::ChangeTenant(change)) => {
            let limits = [change.weight, change.open_max, change.starts_per_second, change.concurrency_max];
            let given = json!([change.title, limits, change.degraded_per_second]);
            (of, Before::Tenant, Some(given.to_string().into_bytes()))
        }
        ("tenant", Write::SetStanding { to, .. }) => (of, Before::Tenant, Some(to.clone().into_bytes())),
        ("key", Write::CreateKey(row)) => (row.id.clone(), Before::Nothing, Some(key(row))),
        ("key", Write::RevokeKey { id, .. }) => (id.clone(), Before::Key(id.clone()), None),
        _ => return None,
    })
}

/// Records, their kinds, and groups of users.
fn of_record(kind: &str, write: &Write) -> Found {
    let Write::Record(write) = write else { return None };
    Some(match (kind, write.as_ref()) {
        ("record", RecordWrite::Create(all)) => {
            let row = &all.first()?.row;
            (row.id.clone(), Before::Nothing, Some(record(row)))
        }
        ("record", RecordWrite::Update { new, .. }) => {
            (new.row.id.clone(), Before::Record(new.row.id.clone()), Some(record(&new.row)))
        }
        ("record", RecordWrite::Delete { id, .. }) => (id.clone(), Before::Record(id.clone()), None),
        ("record-kind", RecordWrite::PutKind { row, .. }) => {
            (row.name.clone(), Before::RecordKind(row.name.clone()), Some(record_kind(row)))
        }
        ("record-kind", RecordWrite::DeleteKind { name }) => {
            (name.clone(), Before::RecordKind(name.clone()), None)
        }
        ("group", RecordWrite::PutGroup { row, .. }) => {
            (row.name.clone(), Before::Group(row.name.clone()), Some(group(row)))
        }
        ("group", RecordWrite::DeleteGroup { name }) => (name.clone(), Before::Group(name.clone()), None),
        _ => return None,
    })
}

async fn read(store: &dyn Store, tenant: &TenantId, before: Before) -> Result<Option<Vec<u8>>, Error> {
    Ok(match before {
        Before::Nothing => None,
        Before::State(instance, version) => {
            let there = store.load(tenant, instance).await?;
            there.filter(|there| there.state_version == version).map(|there| there.state_json)
        }
        Before::Task(id) => store.task(tenant, id).await?.as_ref().map(task),
        Before::Schedule(id) => store.schedule(tenant, id).await?.as_ref().map(schedule),
        Before::Batch(id) => store.batch(tenant, id).await?.as_ref().map(batch),
        Before::Letter(id) => store.dead_letter(tenant, id).await?.map(|letter| letter.envelope),
        Before::Worker(name) => {
            let all = store.workers().await?.into_iter();
            let mut own = all.filter(|one| one.tenant == *tenant && one.row.name == name);
            own.next().map(|one| one.row.declaration)
        }
        Before::EventType(name) => {
            let all = store.event_types().await?.into_iter();
            let mut own = all.filter(|one| one.tenant == *tenant && one.row.name == name);
            own.next().map(|one| one.row.schema)
        }
        Before::Secret(name) => store.secret(tenant, &name).await?.map(|row| row.sealed),
        Before::Key(id) => store.key_by_id(&id).await?.map(|(_, row)| key(&row)),
        Before::Tenant => store.tenant(tenant).await?.as_ref().map(standing),
        Before::Record(id) => {
            store.records().record(tenant, &id, None).await?.as_ref().map(|there| record(&there.row))
        }
        Before::RecordKind(name) => {
            store.records().record_kind(tenant, &name).await?.as_ref().map(record_kind)
        }
        Before::Group(name) => store.records().group(tenant, &name).await?.as_ref().map(group),
    })
}

fn task(row: &TaskRow) -> Vec<u8> {
    let result = row.result.as_deref().map(String::from_utf8_lossy);
    json!([row.status, row.assignee, row.version, result]).to_string().into_bytes()
}

fn schedule(row: &ScheduleRow) -> Vec<u8> {
    json!([row.version, row.kind, row.spec, row.time_zone, row.status]).to_string().into_bytes()
}

fn batch(row: &BatchRow) -> Vec<u8> {
    json!([row.act, row.query, row.status, row.rate]).to_string().into_bytes()
}

fn key(row: &KeyRow) -> Vec<u8> {
    let (expires, revoked) = (row.expires_at.map(|at| at.0), row.revoked_at.map(|at| at.0));
    let roles = String::from_utf8_lossy(&row.roles);
    json!([row.name, roles, expires, revoked, row.subject]).to_string().into_bytes()
}

fn standing(row: &TenantRow) -> Vec<u8> {
    let LimitsRow { open_max, starts_per_second, concurrency_max, degraded_per_second } = row.limits;
    let limits = [row.weight, open_max, starts_per_second, concurrency_max, degraded_per_second];
    json!([row.title, row.status, limits]).to_string().into_bytes()
}

/// What somebody can change of a record; not the list that holds, which others hand down to it.
fn record(row: &RecordRow) -> Vec<u8> {
    let (body, acl) = (String::from_utf8_lossy(&row.body), String::from_utf8_lossy(&row.acl));
    json!([row.kind, row.parent, row.version, body, acl]).to_string().into_bytes()
}

fn record_kind(row: &RecordKindRow) -> Vec<u8> {
    let schema = row.schema.as_deref().map(String::from_utf8_lossy);
    json!([schema, String::from_utf8_lossy(&row.keys)]).to_string().into_bytes()
}

fn group(row: &GroupRow) -> Vec<u8> {
    json!([row.members, row.roles]).to_string().into_bytes()
}

fn hash(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}
