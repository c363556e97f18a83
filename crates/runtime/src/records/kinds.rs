//! Kinds of records: the JSON Schema that bodies have to fit, and the keys that lists are filtered and sorted by.

use super::{TRIES_MAX, commit, invalid, write};
use crate::{api::Refusal, engine::Engine, refusal, remote};
use machine::{
    Data, TenantId,
    language::Problem,
    record::{KEYS_MAX, KeyDeclaration},
    schema::{Schema, Violation},
};
use store::{
    Conflict, Outcome, RecordWrite,
    records::RecordAsk,
    rows::{RecordKey, RecordKindRow},
};

/// The largest schema.
const SCHEMA_BYTES_MAX: usize = 64 * 1024;
/// Kinds that a tenant may have.
const KINDS_MAX: usize = 1_000;
/// What checking one body may cost: a few tens of milliseconds at worst.
const COST_MAX: u64 = 1_000_000;
/// Checks that cost more are made one at a time, off the threads that everything else runs on.
const LONG: u64 = 20_000;

/// The keys of a record of this kind with this body; refuses a body that does not fit.
pub(super) async fn check(
    engine: &Engine,
    tenant: &TenantId,
    kind: &str,
    body: &Data,
) -> Result<Vec<RecordKey>, Refusal> {
    let row = engine.store.records().record_kind(tenant, kind).await.map_err(refusal::of_store)?;
    let unknown = || invalid("record-kind-unknown", format!("there is no kind `{kind}`; declare it first"));
    let row = row.ok_or_else(unknown)?;
    if let Some(schema) = row.schema.as_deref().and_then(|bytes| Data::parse(bytes).ok()) {
        let schema = Schema::new(&schema).map_err(|error| invalid("schema-invalid", error.to_string()))?;
        let weighed = schema.weigh(body);
        let found = match weighed.cost > LONG {
            true => engine.heavy.alone(tenant, || schema.check_weighed(&weighed, COST_MAX)).await,
            false => schema.check_weighed(&weighed, COST_MAX),
        };
        found.map_err(|violations| unfit(kind, violations))?;
    }
    let key = |key: &KeyDeclaration| {
        let value = key.of(body).map_err(|problem| invalid("record-invalid", problem))?;
        Ok(RecordKey { name: key.name.clone(), value })
    };
    declared_keys(&row).iter().map(key).collect()
}

fn unfit(kind: &str, mut violations: Vec<Violation>) -> Refusal {
    violations.iter_mut().for_each(|violation| violation.path.insert_str(0, "/body"));
    let places: Vec<String> = violations.iter().map(Violation::to_string).collect();
    let detail = format!("the body does not fit the schema of `{kind}`: {}", places.join("; "));
    let problem = |Violation { path, message }: Violation| Problem::of_data(path, message);
    Refusal::Invalid {
        code: "record-invalid",
        detail,
        problems: violations.into_iter().map(problem).collect(),
    }
}

/// The keys that a kind declares.
pub(crate) fn declared_keys(row: &RecordKindRow) -> Vec<KeyDeclaration> {
    serde_json::from_slice(&row.keys).unwrap_or_default()
}

/// Makes or changes a kind. Keys stay as they are while there are records. `true` if it is new.
pub(crate) async fn put_kind(
    engine: &Engine,
    tenant: &TenantId,
    name: &str,
    schema: Option<&Data>,
    keys: &[KeyDeclaration],
) -> Result<bool, Refusal> {
    is_usable(name, schema, keys)?;
    let declared = serde_json::to_vec(keys).expect("names and paths are JSON");
    for _ in 0..TRIES_MAX {
        let all = engine.store.records().record_kinds(tenant).await.map_err(refusal::of_store)?;
        let before = all.iter().find(|row| row.name == name);
        if before.is_none() && all.len() >= KINDS_MAX {
            return Err(invalid("invalid-value", format!("a tenant may have {KINDS_MAX} kinds of records")));
        }
        if before.is_some_and(|row| row.keys != declared) && in_use(engine, tenant, name).await? {
            let detail = format!("there are records of kind `{name}`: its keys stay as they are");
            return Err(Refusal::Conflict { code: "record-kind-in-use", detail, existing: None });
        }
        let (now, expected_version) = (engine.now(), before.map_or(0, |row| row.row_version));
        let row = RecordKindRow {
            name: name.to_owned(),
            schema: schema.map(Data::to_bytes),
            keys: declared.clone(),
            row_version: expected_version + 1,
            created_at: before.map_or(now, |row| row.created_at),
            updated_at: now,
        };
        let put = write(RecordWrite::PutKind { row, expected_version });
        if remote::commit(engine, tenant, vec![put]).await? == Outcome::Committed {
            return Ok(expected_version == 0);
        }
    }
    Err(Refusal::Busy)
}

async fn in_use(engine: &Engine, tenant: &TenantId, name: &str) -> Result<bool, Refusal> {
    let ask = RecordAsk { kind: Some(name.to_owned()), limit: 1, ..RecordAsk::default() };
    Ok(!engine.store.records().records(tenant, &ask).await.map_err(refusal::of_store)?.is_empty())
}

fn is_usable(name: &str, schema: Option<&Data>, keys: &[KeyDeclaration]) -> Result<(), Refusal> {
    if let Some(problem) = remote::name_problem(name) {
        return Err(invalid("invalid-value", problem));
    }
    let twice = keys.iter().enumerate().find(|(at, key)| keys[..*at].iter().any(|one| one.name == key.name));
    if let Some(problem) = keys.iter().find_map(KeyDeclaration::problem) {
        return Err(invalid("invalid-value", problem));
    }
    if let Some((_, key)) = twice {
        return Err(invalid("invalid-value", format!("the key `{}` is declared twice", key.name)));
    }
    if keys.len() > KEYS_MAX {
        return Err(invalid("invalid-value", format!("a kind has at most {KEYS_MAX} keys")));
    }
    let Some(schema) = schema else { return Ok(()) };
    if schema.to_bytes().len() > SCHEMA_BYTES_MAX {
        return Err(invalid("invalid-value", "a schema has 64 KiB at most"));
    }
    Schema::new(schema).map(drop).map_err(|error| Refusal::Invalid {
        code: "schema-invalid",
        detail: format!("this is no JSON Schema that can be used: {error}"),
        problems: vec![Problem::of_data(format!("/schema{}", error.pointer), error.message)],
    })
}

/// Forgets a kind that no record is of.
pub(crate) async fn delete_kind(engine: &Engine, tenant: &TenantId, name: &str) -> Result<(), Refusal> {
    let there = engine.store.records().record_kind(tenant, name).await.map_err(refusal::of_store)?;
    there.ok_or_else(|| Refusal::NotFound("record kind".to_owned()))?;
    match commit(engine, tenant, vec![write(RecordWrite::DeleteKind { name: name.to_owned() })]).await? {
        Outcome::Conflict(Conflict::Gone) => {
            let detail = format!("there are records of kind `{name}`");
            Err(Refusal::Conflict { code: "record-kind-in-use", detail, existing: None })
        }
        _ => Ok(()),
    }
}
