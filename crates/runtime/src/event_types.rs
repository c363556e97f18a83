//! What tenants say of types of events: the JSON Schema that their data has to fit.
//!
//! The store knows what is said; a node keeps it in mind and reads it again when it is told of a change, and now and then.
//! A schema is compiled when the first event of its type comes.

use crate::{
    api::{EventType, Refusal},
    engine::Engine,
    refusal, remote,
};
use machine::{
    Data, TenantId,
    language::Problem,
    schema::{Schema, Violation},
};
use parking_lot::RwLock;
use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};
use store::{Conflict, Hint, Outcome, Write, rows::EventTypeRow};

/// The largest schema.
const SCHEMA_BYTES_MAX: usize = 64 * 1024;
/// Types that a tenant may say something of.
const TYPES_MAX: usize = 1_000;
/// The longest name of a type.
const NAME_BYTES_MAX: usize = 1024;
/// What checking one event may cost: a few tens of milliseconds at worst.
const COST_MAX: u64 = 1_000_000;
/// Checks that cost more are made one at a time, off the threads that everything else runs on.
const LONG: u64 = 20_000;
/// Tries to change what somebody else changes at the same time.
const TRIES_MAX: usize = 8;
/// The engine's own events.
const OWN: &str = "windlass.";

/// What a node has in mind.
#[derive(Default)]
pub(crate) struct EventTypes(RwLock<HashMap<TenantId, HashMap<String, Arc<Known>>>>);

struct Known {
    schema: Vec<u8>,
    /// Nothing if it cannot be used: then it binds nobody.
    compiled: OnceLock<Option<Schema>>,
}

impl Known {
    fn schema(&self) -> Option<&Schema> {
        let compile = || Schema::new(&Data::parse(&self.schema).ok()?).ok();
        self.compiled.get_or_init(compile).as_ref()
    }
}

impl EventTypes {
    fn find(&self, tenant: &TenantId, event_type: &str) -> Option<Arc<Known>> {
        self.0.read().get(tenant)?.get(event_type).cloned()
    }
}

/// Refuses an event whose data does not fit the schema of its type.
pub(crate) async fn check(
    engine: &Engine,
    tenant: &TenantId,
    event_type: &str,
    event: &Data,
) -> Result<(), Refusal> {
    let Some(known) = engine.event_types.find(tenant, event_type) else { return Ok(()) };
    let Some(schema) = known.schema() else { return Ok(()) };
    let found = match (event.get("data"), event.get("data_base64")) {
        (None, Some(_)) => {
            let message = "is binary, and the schema is for JSON".to_owned();
            Err(vec![Violation { path: String::new(), message }])
        }
        (data, _) => {
            let weighed = schema.weigh(&data.unwrap_or_default());
            match weighed.cost > LONG {
                true => engine.heavy.alone(tenant, || schema.check_weighed(&weighed, COST_MAX)).await,
                false => schema.check_weighed(&weighed, COST_MAX),
            }
        }
    };
    found.map_err(|violations| refused(event_type, violations))
}

fn refused(event_type: &str, mut violations: Vec<Violation>) -> Refusal {
    violations.iter_mut().for_each(|violation| violation.path.insert_str(0, "/data"));
    let places: Vec<String> = violations.iter().map(Violation::to_string).collect();
    let detail = format!("the data does not fit the schema of `{event_type}`: {}", places.join("; "));
    let problem = |Violation { path, message }: Violation| Problem::of_data(path, message);
    let problems = violations.into_iter().map(problem).collect();
    Refusal::Invalid { code: "event-data-invalid", detail, problems }
}

/// Sets the schema of a type. `true` if there was none.
pub(crate) async fn put(
    engine: &Engine,
    tenant: &TenantId,
    name: &str,
    schema: &Data,
) -> Result<bool, Refusal> {
    let bytes = schema.to_bytes();
    is_usable(name, schema, bytes.len())?;
    for _ in 0..TRIES_MAX {
        let all = of_tenant(engine, tenant).await?;
        let before = all.iter().find(|row| row.name == name);
        if before.is_none() && all.len() >= TYPES_MAX {
            let detail = format!("a tenant may have schemas for {TYPES_MAX} types of events");
            return Err(invalid("invalid-value", detail));
        }
        let (now, expected_version) = (engine.now(), before.map_or(0, |row| row.row_version));
        let row = EventTypeRow {
            name: name.to_owned(),
            schema: bytes.clone(),
            row_version: expected_version + 1,
            created_at: before.map_or(now, |row| row.created_at),
            updated_at: now,
        };
        match remote::commit(engine, tenant, vec![Write::PutEventType { row, expected_version }]).await? {
            Outcome::Conflict(Conflict::Version) => {}
            Outcome::Committed => return changed(engine).await.map(|()| expected_version == 0),
            other => return Err(Refusal::Unavailable(format!("{other:?}"))),
        }
    }
    Err(Refusal::Busy)
}

fn invalid(code: &'static str, detail: String) -> Refusal {
    Refusal::Invalid { code, detail, problems: vec![] }
}

fn is_usable(name: &str, schema: &Data, bytes: usize) -> Result<(), Refusal> {
    let wrong = |detail: &str| Err(invalid("invalid-value", detail.to_owned()));
    match () {
        () if !(1..=NAME_BYTES_MAX).contains(&name.len()) => return wrong("a type has 1 to 1024 bytes"),
        () if name.ends_with('*') => return wrong("a schema is for one type, not for all that begin so"),
        () if name.starts_with(OWN) => {
            return wrong("types that begin with `windlass.` are the engine's own");
        }
        () if bytes > SCHEMA_BYTES_MAX => return wrong("a schema has 64 KiB at most"),
        () => {}
    }
    Schema::new(schema).map(drop).map_err(|error| Refusal::Invalid {
        code: "schema-invalid",
        detail: format!("this is no JSON Schema that can be used: {error}"),
        problems: vec![Problem::of_data(format!("/schema{}", error.pointer), error.message)],
    })
}

/// The schema of a type binds nobody from now on.
pub(crate) async fn forget(engine: &Engine, tenant: &TenantId, name: &str) -> Result<(), Refusal> {
    match remote::commit(engine, tenant, vec![Write::DeleteEventType { name: name.to_owned() }]).await? {
        Outcome::Committed => changed(engine).await,
        Outcome::Conflict(Conflict::Gone) => Err(Refusal::NotFound("event type".to_owned())),
        other => Err(Refusal::Unavailable(format!("{other:?}"))),
    }
}

async fn of_tenant(engine: &Engine, tenant: &TenantId) -> Result<Vec<EventTypeRow>, Refusal> {
    let all = engine.store.event_types().await.map_err(refusal::of_store)?;
    Ok(all.into_iter().filter(|one| one.tenant == *tenant).map(|one| one.row).collect())
}

/// What a tenant says of its types, by name.
pub(crate) async fn list(engine: &Engine, tenant: &TenantId) -> Result<Vec<EventType>, Refusal> {
    let shown = |row: EventTypeRow| EventType {
        name: row.name,
        schema: Data::parse(&row.schema).unwrap_or_default(),
        version: row.row_version,
        created_at: row.created_at,
        updated_at: row.updated_at,
    };
    Ok(of_tenant(engine, tenant).await?.into_iter().map(shown).collect())
}

async fn changed(engine: &Engine) -> Result<(), Refusal> {
    reload(engine).await.map_err(refusal::of_store)?;
    engine.hints.tell(Hint { clocks: true, ..Hint::default() });
    Ok(())
}

/// Reads what all tenants say; what has not changed stays compiled.
pub(crate) async fn reload(engine: &Engine) -> Result<(), store::Error> {
    let mut fresh = HashMap::<TenantId, HashMap<String, Arc<Known>>>::new();
    for one in engine.store.event_types().await? {
        let before = engine.event_types.find(&one.tenant, &one.row.name);
        let known = before
            .filter(|before| before.schema == one.row.schema)
            .unwrap_or_else(|| Arc::new(Known { schema: one.row.schema, compiled: OnceLock::new() }));
        fresh.entry(one.tenant).or_default().insert(one.row.name, known);
    }
    *engine.event_types.0.write() = fresh;
    Ok(())
}
