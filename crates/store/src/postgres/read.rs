//! Statements that read by key, and what their rows hold. Lists are in `list`.

use super::{delivery::waiting, value::get};
use crate::{port::Outlook, rows::*, views::*};
use machine::{TenantId, Time};
use tokio_postgres::{Error as PgError, Row, types::FromSql};

pub(super) const LOAD: &str = "SELECT state_version, namespace, name, version, state_json
    FROM wf_runtime_states WHERE tenant = $1 AND runtime_instance_id = $2";
pub(super) const INBOX: &str = "SELECT scope, key, request_hash, answer, created_at
    FROM inbox WHERE tenant = $1 AND scope = $2 AND key = $3";
pub(super) const DEFINITION: &str =
    "SELECT namespace, name, version, title, source, media_type, ir, created_at
    FROM definitions WHERE tenant = $1 AND namespace = $2 AND name = $3 AND version = $4";
pub(super) const VERSIONS: &str =
    "SELECT version FROM definitions WHERE tenant = $1 AND namespace = $2 AND name = $3";
pub(super) const TENANT: &str =
    "SELECT tenant, title, status, created_at, weight, purge_at, open_max, starts_per_second, concurrency_max,
    degraded_per_second FROM tenants WHERE tenant = $1";
pub(super) const OPEN: &str = "SELECT count(*) FROM (SELECT 1 FROM wf_instances WHERE tenant = $1
    AND status IN ('pending', 'running', 'waiting', 'paused', 'cancelling') LIMIT $2) AS counted";
pub(super) const SECRET: &str = "SELECT name, version, key_id, sealed, hosts, created_at, updated_at
    FROM secrets WHERE tenant = $1";
pub(super) const KEY_BY_ID: &str =
    "SELECT id, name, hash, roles, created_at, expires_at, revoked_at, tenant, subject
    FROM api_keys WHERE id = $1";
/// The earliest backlog of each queue, each the first entry of its partial index; for calls, of each tenant's part.
macro_rules! next_due {
    () => {
        "
    (SELECT visible_at FROM wf_signal_q WHERE owner IS NULL ORDER BY visible_at LIMIT 1),
    (SELECT due_at FROM wf_schedule_q WHERE owner IS NULL ORDER BY due_at LIMIT 1),
    (WITH RECURSIVE backlog(tenant) AS (
        SELECT min(tenant) FROM calls WHERE owner IS NULL
        UNION ALL SELECT (SELECT min(c.tenant) FROM calls c WHERE c.owner IS NULL AND c.tenant > backlog.tenant)
        FROM backlog WHERE backlog.tenant IS NOT NULL)
     SELECT min((SELECT min(c.visible_at) FROM calls c WHERE c.owner IS NULL AND c.tenant = backlog.tenant))
     FROM backlog)"
    };
}
macro_rules! any_parked {
    () => {
        ", EXISTS (SELECT 1 FROM tenants WHERE status <> 'active' AND status IN ('suspended', 'deleted'))"
    };
}
pub(super) const NEXT_DUE: &str = concat!("SELECT", next_due!(), any_parked!());
/// All that the pumps of a node with nothing to do would ask, in one statement.
pub(super) const OUTLOOK: &str = concat!(
    "SELECT",
    next_due!(),
    ", (SELECT min(due_at) FROM schedules WHERE due_at IS NOT NULL),
    (SELECT min(w.oldest) FROM (",
    waiting!("$3"),
    ") AS w(worker, tenant, oldest, weight)),
    (SELECT min(due_at) FROM batches WHERE due_at IS NOT NULL),
    (SELECT seq FROM outbox ORDER BY tenant, seq LIMIT 1) IS NOT NULL,
    (SELECT expires_at FROM events WHERE expires_at <= $1 ORDER BY expires_at LIMIT 1) IS NOT NULL,
    EXISTS (SELECT 1 FROM wf_signal_q WHERE owner = $2) OR EXISTS (SELECT 1 FROM wf_schedule_q WHERE owner = $2)
    OR EXISTS (SELECT 1 FROM calls WHERE owner = $2) OR EXISTS (SELECT 1 FROM deliveries WHERE owner = $2)",
    any_parked!(),
    ", (SELECT min(due_at) FROM acl_work)",
);
/// No index finds an owner's rows: it would cost every insert, and this is asked now and then.
pub(super) const OWNED: &str = "SELECT 0::bigint, tenant, id, 0::bigint FROM wf_signal_q WHERE owner = $1
    UNION ALL SELECT 1, tenant, instance, token FROM wf_schedule_q WHERE owner = $1
    UNION ALL SELECT 2, tenant, instance, token FROM calls WHERE owner = $1
    UNION ALL SELECT 3, tenant, id, 0 FROM deliveries WHERE owner = $1 LIMIT $2";
pub(super) const TASK: &str = "SELECT id, instance, token, step, title, status, assignee, candidate_users,
    candidate_groups, payload, form, result, priority, due_at, version, created_at, updated_at, ended_at
    FROM wf_tasks WHERE tenant = $1";
pub(super) const DEAD_LETTER: &str =
    "SELECT id, source, reason, detail, instance, envelope, origin, attempts, last_node, failed_at,
    error_group FROM wf_dlq WHERE tenant = $1";
pub(super) const INSTANCE: &str =
    "SELECT i.id, i.namespace, i.name, i.version, i.business_key, i.business_parts, i.status, i.input, i.output,
    i.error, i.context, i.traceparent, i.correlation_id, i.created_at, i.updated_at, i.ended_at, s.state_version,
    s.runtime_status, s.waiting_kind, s.waiting_until_utc, s.active_task_id, s.resume_pointer_json,
    s.last_executed_by, s.snapshot_schema_version, s.waiting_token, s.last_signal_id, s.last_error_code,
    s.last_error_json, s.last_executed_on_utc, i.parent, i.parent_token, i.parent_item
    FROM wf_instances i JOIN wf_runtime_states s ON s.tenant = i.tenant AND s.runtime_instance_id = i.id
    WHERE i.tenant = $1";

type Read<T> = Result<T, PgError>;

pub(super) fn time(row: &Row, at: usize) -> Read<Time> {
    get(row, at).map(Time)
}

pub(super) fn optional_time(row: &Row, at: usize) -> Read<Option<Time>> {
    get::<Option<i64>>(row, at).map(|time| time.map(Time))
}

pub(super) fn token(row: &Row, at: usize) -> Read<u64> {
    get::<i64>(row, at).map(i64::cast_unsigned)
}

/// A tenant id as it is stored.
struct Named(TenantId);

impl<'a> FromSql<'a> for Named {
    fn from_sql(
        kind: &tokio_postgres::types::Type,
        raw: &'a [u8],
    ) -> Result<Named, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Named(TenantId::new(<&str>::from_sql(kind, raw)?)?))
    }

    fn accepts(kind: &tokio_postgres::types::Type) -> bool {
        <&str as FromSql>::accepts(kind)
    }
}

pub(super) fn tenant(row: &Row, at: usize) -> Read<TenantId> {
    row.try_get::<_, Named>(at).map(|named| named.0)
}

pub(super) fn queue_key(row: &Row) -> Read<Claimed<QueueKey>> {
    let (name, token) = (get(row, 2)?, token(row, 3)?);
    let key = match get::<i64>(row, 0)? {
        0 => QueueKey::Signal { id: name },
        1 => QueueKey::Timer { instance: name, token },
        2 => QueueKey::Call { instance: name, token },
        _ => QueueKey::Delivery { id: name },
    };
    Ok(Claimed { tenant: tenant(row, 1)?, row: key })
}

/// An outlook, and whether any tenant is parked: then `queues` is of those too.
pub(super) fn outlook(row: &Row) -> Read<(Outlook, bool)> {
    let queues = [optional_time(row, 0)?, optional_time(row, 1)?, optional_time(row, 2)?];
    let outlook = Outlook {
        queues: queues.into_iter().flatten().min(),
        slots: optional_time(row, 3)?,
        deliveries: optional_time(row, 4)?,
        batches: optional_time(row, 5)?,
        acl: optional_time(row, 10)?,
        outbox: get(row, 6)?,
        events_expired: get(row, 7)?,
        owns: get(row, 8)?,
    };
    Ok((outlook, get(row, 9)?))
}

pub(super) fn loaded(row: &Row) -> Read<LoadedState> {
    Ok(LoadedState {
        state_version: get(row, 0)?,
        namespace: get(row, 1)?,
        name: get(row, 2)?,
        version: get(row, 3)?,
        state_json: get(row, 4)?,
    })
}

pub(super) const TAKEN: &str = "SELECT i.key FROM unnest($3) AS r(key)
    JOIN inbox i ON i.tenant = $1 AND i.scope = $2 AND i.key = r.key";

pub(super) fn inbox(row: &Row) -> Read<InboxRow> {
    Ok(InboxRow {
        scope: get(row, 0)?,
        key: get(row, 1)?,
        request_hash: get(row, 2)?,
        answer: get(row, 3)?,
        created_at: time(row, 4)?,
    })
}

pub(super) fn definition(row: &Row) -> Read<DefinitionRow> {
    Ok(DefinitionRow {
        namespace: get(row, 0)?,
        name: get(row, 1)?,
        version: get(row, 2)?,
        title: get(row, 3)?,
        source: get(row, 4)?,
        media_type: get(row, 5)?,
        ir: get(row, 6)?,
        created_at: time(row, 7)?,
    })
}

pub(super) fn tenant_row(row: &Row) -> Read<TenantRow> {
    Ok(TenantRow {
        id: tenant(row, 0)?,
        title: get(row, 1)?,
        status: get(row, 2)?,
        created_at: time(row, 3)?,
        weight: get::<i64>(row, 4)? as u32,
        purge_at: optional_time(row, 5)?,
        limits: LimitsRow {
            open_max: get::<i64>(row, 6)? as u32,
            starts_per_second: get::<i64>(row, 7)? as u32,
            concurrency_max: get::<i64>(row, 8)? as u32,
            degraded_per_second: get::<i64>(row, 9)? as u32,
        },
    })
}

pub(super) fn secret(row: &Row) -> Read<SecretRow> {
    Ok(SecretRow {
        name: get(row, 0)?,
        version: get(row, 1)?,
        key_id: get(row, 2)?,
        sealed: get(row, 3)?,
        hosts: get(row, 4)?,
        created_at: time(row, 5)?,
        updated_at: time(row, 6)?,
    })
}

pub(super) fn key(row: &Row) -> Read<KeyRow> {
    Ok(KeyRow {
        id: get(row, 0)?,
        name: get(row, 1)?,
        hash: get(row, 2)?,
        roles: get(row, 3)?,
        created_at: time(row, 4)?,
        expires_at: optional_time(row, 5)?,
        revoked_at: optional_time(row, 6)?,
        subject: get(row, 8)?,
    })
}

pub(super) fn instance(row: &Row) -> Read<InstanceView> {
    Ok(InstanceView {
        row: InstanceRow {
            id: get(row, 0)?,
            namespace: get(row, 1)?,
            name: get(row, 2)?,
            version: get(row, 3)?,
            business_key: get(row, 4)?,
            business_parts: get(row, 5)?,
            status: get(row, 6)?,
            input: get(row, 7)?,
            output: get(row, 8)?,
            error: get(row, 9)?,
            context: get(row, 10)?,
            traceparent: get(row, 11)?,
            correlation_id: get(row, 12)?,
            parent: match get(row, 29)? {
                Some(instance) => {
                    let item: Option<i64> = get(row, 31)?;
                    Some(ParentRow { instance, token: token(row, 30)?, item: item.map(|item| item as u32) })
                }
                None => None,
            },
            created_at: time(row, 13)?,
            updated_at: time(row, 14)?,
            ended_at: optional_time(row, 15)?,
        },
        state_version: get(row, 16)?,
        runtime_status: get(row, 17)?,
        waiting_kind: get(row, 18)?,
        waiting_until: optional_time(row, 19)?,
        active_task_id: get(row, 20)?,
        resume_pointer_json: get(row, 21)?,
        last_executed_by: get(row, 22)?,
        snapshot_schema_version: get(row, 23)?,
        waiting_token: get(row, 24)?,
        last_signal_id: get(row, 25)?,
        last_error_code: get(row, 26)?,
        last_error_json: get(row, 27)?,
        last_executed_on: time(row, 28)?,
    })
}

pub(super) fn task(row: &Row) -> Read<TaskRow> {
    Ok(TaskRow {
        id: get(row, 0)?,
        instance: get(row, 1)?,
        token: token(row, 2)?,
        step: get(row, 3)?,
        title: get(row, 4)?,
        status: get(row, 5)?,
        assignee: get(row, 6)?,
        candidate_users: get(row, 7)?,
        candidate_groups: get(row, 8)?,
        payload: get(row, 9)?,
        form: get(row, 10)?,
        result: get(row, 11)?,
        priority: get(row, 12)?,
        due_at: optional_time(row, 13)?,
        version: get(row, 14)?,
        created_at: time(row, 15)?,
        updated_at: time(row, 16)?,
        ended_at: optional_time(row, 17)?,
    })
}

pub(super) fn dead_letter(row: &Row) -> Read<DeadLetterRow> {
    Ok(DeadLetterRow {
        id: get(row, 0)?,
        source: get(row, 1)?,
        reason: get(row, 2)?,
        detail: get(row, 3)?,
        instance: get(row, 4)?,
        envelope: get(row, 5)?,
        origin: get(row, 6)?,
        attempts: get::<i64>(row, 7)? as u32,
        last_node: get(row, 8)?,
        failed_at: time(row, 9)?,
        group: get(row, 10)?,
    })
}
