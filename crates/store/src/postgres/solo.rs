//! The rare writes, one statement each and waited for: definitions, tenants, keys, secrets, new schedules, clocks.

use super::{
    batches, delivery, event_type, record_write, schedule,
    session::Session,
    value::{Value, bytes, id, int, maybe_text, maybe_time, text, time},
};
use crate::{commit::*, rows::*};
use machine::time::Span;
use tokio_postgres::Error as PgError;

/// What ends a commit that is done alone.
pub(super) enum Trouble {
    Pg(PgError),
    /// The rows are refused for good.
    Refused(String),
}

impl From<PgError> for Trouble {
    fn from(err: PgError) -> Trouble {
        Trouble::Pg(err)
    }
}

pub(super) type Ended = std::result::Result<Option<Conflict>, Trouble>;

const CREATE_DEFINITION: &str =
    "INSERT INTO definitions (tenant, namespace, name, version, title, source, media_type,
    ir, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING RETURNING 1";
const CREATE_TENANT: &str =
    "INSERT INTO tenants (tenant, title, status, created_at, weight, purge_at, open_max, starts_per_second,
    concurrency_max, degraded_per_second)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING RETURNING 1";
const CHANGE_TENANT: &str = "UPDATE tenants SET title = coalesce($2, title), weight = coalesce($3, weight),
    open_max = coalesce($4, open_max), starts_per_second = coalesce($5, starts_per_second),
    concurrency_max = coalesce($6, concurrency_max), degraded_per_second = coalesce($7, degraded_per_second)
    WHERE tenant = $1 RETURNING 1";
const SET_STANDING: &str =
    "UPDATE tenants SET status = $3, purge_at = $4 WHERE tenant = $1 AND status = $2 RETURNING 1";
const CREATE_KEY: &str =
    "INSERT INTO api_keys (tenant, id, name, hash, roles, created_at, expires_at, revoked_at, subject)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
const REVOKE_KEY: &str =
    "UPDATE api_keys SET revoked_at = coalesce(revoked_at, $3) WHERE tenant = $1 AND id = $2";
const PUT_SECRET: &str =
    "INSERT INTO secrets AS s (tenant, name, version, key_id, sealed, hosts, created_at, updated_at)
    VALUES ($1, $2, 1, $3, $4, $5, $6, $7)
    ON CONFLICT (tenant, name) DO UPDATE SET version = s.version + 1, key_id = excluded.key_id,
    sealed = excluded.sealed, hosts = excluded.hosts, updated_at = excluded.updated_at RETURNING 1";
const REPLACE_SECRET: &str = "UPDATE secrets SET version = version + 1, key_id = $3, sealed = $4, hosts = $5,
    updated_at = $6 WHERE tenant = $1 AND name = $2 AND version = $7 RETURNING 1";
const DELETE_SECRET: &str = "DELETE FROM secrets WHERE tenant = $1 AND name = $2 RETURNING 1";
const MOVE_INSTANCE: &str = "UPDATE wf_instances SET version = $3 WHERE tenant = $1 AND id = $2";
const MOVE_STATE: &str =
    "UPDATE wf_runtime_states SET version = $3 WHERE tenant = $1 AND runtime_instance_id = $2";
const CREATE_SCHEDULE: &str =
    "INSERT INTO schedules (tenant, id, namespace, name, version, kind, spec, time_zone,
    missed, status, anchor, last_slot, next_slot, due_at, instance, row_version, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
    ON CONFLICT DO NOTHING RETURNING 1";
const SCHEDULE_FOLLOWS: &str = "UPDATE schedules SET next_slot = $4,
    due_at = CASE WHEN status = 'active' THEN $5 END, instance = NULL, row_version = row_version + 1
    WHERE tenant = $1 AND id = $2 AND instance = $3";
const CREATE_COLLECTION: &str = "INSERT INTO schedule_collections (tenant, schedule, version, open)
    VALUES ($1, $2, 1, $3) ON CONFLICT DO NOTHING RETURNING 1";
const UPDATE_COLLECTION: &str = "UPDATE schedule_collections SET version = version + 1, open = $3
    WHERE tenant = $1 AND schedule = $2 AND version = $4 RETURNING 1";
const RESET_COLLECTION: &str = "INSERT INTO schedule_collections AS c (tenant, schedule, version, open)
    VALUES ($1, $2, 1, '') ON CONFLICT (tenant, schedule) DO UPDATE SET version = c.version + 1, open = ''";
const DELETE_WORKER: &str = "DELETE FROM workers WHERE tenant = $1 AND name = $2 RETURNING 1";
const ADVANCE: [&str; 6] = [
    "INSERT INTO tenant_clocks AS c (tenant, ahead_us) VALUES ($1, $2)
     ON CONFLICT (tenant) DO UPDATE SET ahead_us = c.ahead_us + excluded.ahead_us",
    "UPDATE wf_schedule_q SET due_at = due_at - $2 WHERE tenant = $1",
    "UPDATE calls SET visible_at = visible_at - $2 WHERE tenant = $1",
    "UPDATE deliveries SET visible_at = visible_at - $2 WHERE tenant = $1",
    "UPDATE wf_signal_q SET visible_at = visible_at - $2 WHERE tenant = $1",
    "UPDATE schedules SET due_at = due_at - $2 WHERE tenant = $1 AND due_at IS NOT NULL",
];

/// Does one rare write. Answers which guard did not hold, if any.
pub(super) async fn write(to: &Session, tenant: &str, write: &Write) -> Ended {
    match write {
        Write::CreateDefinition(row) => {
            guard(to, CREATE_DEFINITION, &definition(tenant, row), Conflict::Exists).await
        }
        Write::CreateTenant(row) => guard(to, CREATE_TENANT, &new_tenant(row), Conflict::Exists).await,
        Write::ChangeTenant(change) => {
            guard(to, CHANGE_TENANT, &changed_tenant(tenant, change), Conflict::Gone).await
        }
        Write::SetStanding { from, to: status, purge_at } => {
            let values = [text(tenant), text(from), text(status), maybe_time(*purge_at)];
            guard(to, SET_STANDING, &values, Conflict::Version).await
        }
        Write::CreateKey(row) => plain(to, CREATE_KEY, &key(tenant, row)).await,
        Write::RevokeKey { id, at } => plain(to, REVOKE_KEY, &[text(tenant), text(id), time(*at)]).await,
        Write::PutSecret { row, expected_version } => put_secret(to, tenant, row, *expected_version).await,
        Write::DeleteSecret { name } => {
            guard(to, DELETE_SECRET, &[text(tenant), text(name)], Conflict::Gone).await
        }
        Write::PutWorker { row, expected_version } => {
            delivery::put_worker(to, tenant, row, *expected_version).await
        }
        Write::DeleteWorker { name } => {
            guard(to, DELETE_WORKER, &[text(tenant), text(name)], Conflict::Gone).await
        }
        Write::PutEventType { row, expected_version } => {
            event_type::put(to, tenant, row, *expected_version).await
        }
        Write::DeleteEventType { name } => {
            guard(to, event_type::DELETE, &[text(tenant), text(name)], Conflict::Gone).await
        }
        Write::MoveInstance { instance, definition_version } => {
            let values = [text(tenant), id(*instance), text(definition_version)];
            plain(to, MOVE_INSTANCE, &values).await?;
            plain(to, MOVE_STATE, &values).await
        }
        Write::PutSchedule { schedule: row, .. } => {
            guard(to, CREATE_SCHEDULE, &schedule::values(tenant, row), Conflict::Version).await
        }
        Write::ScheduleFollows { id: schedule, instance, next_slot, due_at } => {
            let values = [text(tenant), id(*schedule), id(*instance), time(*next_slot), time(*due_at)];
            plain(to, SCHEDULE_FOLLOWS, &values).await
        }
        Write::PutCollection { schedule, open, expected_version: 0 } => {
            let values = [text(tenant), id(*schedule), bytes(open)];
            guard(to, CREATE_COLLECTION, &values, Conflict::Version).await
        }
        Write::PutCollection { schedule, open, expected_version } => {
            let values = [text(tenant), id(*schedule), bytes(open), int(*expected_version)];
            guard(to, UPDATE_COLLECTION, &values, Conflict::Version).await
        }
        Write::ResetCollection { schedule } => {
            plain(to, RESET_COLLECTION, &[text(tenant), id(*schedule)]).await
        }
        Write::PutBatch { row, expected_version } => batches::put(to, tenant, row, *expected_version).await,
        Write::BatchItems { batch, items } => batches::select(to, tenant, *batch, items).await,
        Write::Record(write) => record_write::write(to, tenant, write).await,
        Write::AdvanceClock { by } => advance(to, tenant, *by).await,
        _ => unreachable!("`bind` takes every other write"),
    }
}

pub(super) async fn plain(to: &Session, sql: &str, values: &[Value<'_>]) -> Ended {
    to.query(sql, values).await?;
    Ok(None)
}

pub(super) async fn guard(to: &Session, sql: &str, values: &[Value<'_>], lost: Conflict) -> Ended {
    Ok(to.query(sql, values).await?.is_empty().then_some(lost))
}

fn definition<'a>(tenant: &'a str, row: &'a DefinitionRow) -> [Value<'a>; 9] {
    [
        text(tenant),
        text(&row.namespace),
        text(&row.name),
        text(&row.version),
        maybe_text(row.title.as_deref()),
        bytes(&row.source),
        text(&row.media_type),
        bytes(&row.ir),
        time(row.created_at),
    ]
}

fn new_tenant(row: &TenantRow) -> [Value<'_>; 10] {
    let LimitsRow { open_max, starts_per_second, concurrency_max, degraded_per_second } = row.limits;
    [
        text(row.id.as_str()),
        text(&row.title),
        text(&row.status),
        time(row.created_at),
        int(row.weight.into()),
        maybe_time(row.purge_at),
        int(open_max.into()),
        int(starts_per_second.into()),
        int(concurrency_max.into()),
        int(degraded_per_second.into()),
    ]
}

fn changed_tenant<'a>(tenant: &'a str, change: &'a TenantChange) -> [Value<'a>; 7] {
    let number = |number: Option<u32>| Value::Int(number.map(i64::from));
    [
        text(tenant),
        maybe_text(change.title.as_deref()),
        number(change.weight),
        number(change.open_max),
        number(change.starts_per_second),
        number(change.concurrency_max),
        number(change.degraded_per_second),
    ]
}

fn key<'a>(tenant: &'a str, row: &'a KeyRow) -> [Value<'a>; 9] {
    [
        text(tenant),
        text(&row.id),
        text(&row.name),
        bytes(&row.hash),
        bytes(&row.roles),
        time(row.created_at),
        maybe_time(row.expires_at),
        maybe_time(row.revoked_at),
        maybe_text(row.subject.as_deref()),
    ]
}

async fn put_secret(to: &Session, tenant: &str, row: &SecretRow, expected: Option<i64>) -> Ended {
    let SecretRow { name, key_id, sealed, hosts, created_at, updated_at, version: _ } = row;
    let (sealed, hosts) = (bytes(sealed), bytes(hosts));
    match expected {
        None => {
            let values =
                [text(tenant), text(name), text(key_id), sealed, hosts, time(*created_at), time(*updated_at)];
            plain(to, PUT_SECRET, &values).await
        }
        Some(expected) => {
            let values =
                [text(tenant), text(name), text(key_id), sealed, hosts, time(*updated_at), int(expected)];
            guard(to, REPLACE_SECRET, &values, Conflict::Version).await
        }
    }
}

/// Whatever the tenant has queued becomes due `by` earlier.
async fn advance(to: &Session, tenant: &str, by: Span) -> Ended {
    for sql in ADVANCE {
        plain(to, sql, &[text(tenant), int(by.0)]).await?;
    }
    Ok(None)
}
