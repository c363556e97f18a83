//! Reads by key, over any connection. Lists are in `list`.

use super::{claim, error::error, semver};
use crate::{port::Result, rows::*, views::*};
use machine::{TenantId, Time};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params, types::Type};
use uuid::Uuid;

const LOAD: &str = "SELECT state_version, namespace, name, version, state_json
    FROM wf_runtime_states WHERE tenant = ?1 AND runtime_instance_id = ?2";
const INBOX: &str = "SELECT scope, key, request_hash, answer, created_at
    FROM inbox WHERE tenant = ?1 AND scope = ?2 AND key = ?3";
const DEFINITION: &str = "SELECT namespace, name, version, title, source, media_type, ir, created_at
    FROM definitions WHERE tenant = ?1 AND namespace = ?2 AND name = ?3 AND version = ?4";
const VERSIONS: &str = "SELECT version FROM definitions WHERE tenant = ?1 AND namespace = ?2 AND name = ?3";
pub(super) const TENANT: &str =
    "SELECT tenant, title, status, created_at, weight, purge_at, open_max, starts_per_second, concurrency_max,
    degraded_per_second FROM tenants";
const TENANT_OF: &str = " WHERE tenant = ?1";
const OPEN: &str = "SELECT count(*) FROM (SELECT 1 FROM wf_instances WHERE tenant = ?1
    AND status IN ('pending', 'running', 'waiting', 'paused', 'cancelling') LIMIT ?2)";
pub(super) const SECRET: &str = "SELECT name, version, key_id, sealed, hosts, created_at, updated_at
    FROM secrets WHERE tenant = ?1";
const KEY_BY_ID: &str = "SELECT id, name, hash, roles, created_at, expires_at, revoked_at, tenant, subject
    FROM api_keys WHERE id = ?1";
/// The earliest backlog of each queue, each the first entry of its partial index; for calls, of each tenant's part.
pub(super) const NEXT_DUE: &str = "SELECT
    (SELECT visible_at FROM wf_signal_q WHERE owner IS NULL ORDER BY visible_at LIMIT 1),
    (SELECT due_at FROM wf_schedule_q WHERE owner IS NULL ORDER BY due_at LIMIT 1),
    (WITH RECURSIVE backlog(tenant) AS (
        SELECT min(tenant) FROM calls WHERE owner IS NULL
        UNION ALL SELECT (SELECT min(tenant) FROM calls WHERE owner IS NULL AND tenant > backlog.tenant)
        FROM backlog WHERE backlog.tenant IS NOT NULL)
     SELECT min((SELECT min(visible_at) FROM calls WHERE owner IS NULL AND tenant = backlog.tenant)) FROM backlog)";

/// No index finds an owner's rows: it would cost every insert, and this is asked now and then.
const OWNED: &str = "SELECT 0, tenant, id, 0 FROM wf_signal_q WHERE owner = ?1
    UNION ALL SELECT 1, tenant, instance, token FROM wf_schedule_q WHERE owner = ?1
    UNION ALL SELECT 2, tenant, instance, token FROM calls WHERE owner = ?1
    UNION ALL SELECT 3, tenant, id, 0 FROM deliveries WHERE owner = ?1 LIMIT ?2";

pub(super) const TASK: &str = "SELECT id, instance, token, step, title, status, assignee, candidate_users,
    candidate_groups, payload, form, result, priority, due_at, version, created_at, updated_at, ended_at
    FROM wf_tasks WHERE tenant = ?1";
pub(super) const DEAD_LETTER: &str =
    "SELECT id, source, reason, detail, instance, envelope, origin, attempts,
    last_node, failed_at, error_group FROM wf_dlq WHERE tenant = ?1";
/// CROSS JOIN keeps the order of the loops: along the instances, one snapshot look-up each.
pub(super) const INSTANCE: &str = "SELECT i.id, i.namespace, i.name, i.version, i.business_key, i.business_parts,
    i.status, i.input, i.output, i.error, i.context, i.traceparent, i.correlation_id, i.created_at, i.updated_at,
    i.ended_at, s.state_version, s.runtime_status, s.waiting_kind, s.waiting_until_utc, s.active_task_id,
    s.resume_pointer_json, s.last_executed_by, s.snapshot_schema_version, s.waiting_token, s.last_signal_id,
    s.last_error_code, s.last_error_json, s.last_executed_on_utc, i.parent, i.parent_token, i.parent_item
    FROM wf_instances i CROSS JOIN wf_runtime_states s
      ON s.tenant = i.tenant AND s.runtime_instance_id = i.id
    WHERE i.tenant = ?1";

/// Every read of the port, synchronous.
#[derive(Clone, Copy)]
pub struct Read<'c> {
    connection: &'c Connection,
}

impl<'c> Read<'c> {
    pub(super) fn new(connection: &'c Connection) -> Read<'c> {
        Read { connection }
    }

    pub(super) fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// The earliest time at which unowned work of any kind becomes due, if there is any.
    pub fn next_due(&self) -> Result<Option<Time>> {
        if let Some(next) = claim::next_due_of_others(self.connection).map_err(error)? {
            return Ok(next);
        }
        let times: Option<[Option<i64>; 3]> =
            self.one(NEXT_DUE, &[], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?;
        Ok(times.into_iter().flatten().flatten().min().map(Time))
    }

    pub fn open_instances(&self, tenant: &TenantId, max: u64) -> Result<u64> {
        let max = i64::try_from(max).unwrap_or(i64::MAX);
        let count: Option<i64> = self.one(OPEN, params![tenant.as_str(), max], |row| row.get(0))?;
        Ok(count.unwrap_or(0).unsigned_abs())
    }

    /// Every queue row the node owns, at most `limit`.
    pub fn owned(&self, node: Uuid, limit: usize) -> Result<Vec<Claimed<QueueKey>>> {
        self.many(OWNED, params![node.as_bytes(), limit as i64], |row| {
            let (name, token) = (id(row, 2)?, token(row, 3)?);
            let key = match row.get(0)? {
                0 => QueueKey::Signal { id: name },
                1 => QueueKey::Timer { instance: name, token },
                2 => QueueKey::Call { instance: name, token },
                _ => QueueKey::Delivery { id: name },
            };
            Ok(Claimed { tenant: tenant(row, 1)?, row: key })
        })
    }

    pub fn load(&self, tenant: &TenantId, instance: Uuid) -> Result<Option<LoadedState>> {
        self.one(LOAD, params![tenant.as_str(), instance.as_bytes()], |row| {
            Ok(LoadedState {
                state_version: row.get(0)?,
                namespace: row.get(1)?,
                name: row.get(2)?,
                version: row.get(3)?,
                state_json: row.get(4)?,
            })
        })
    }

    pub fn inbox(&self, tenant: &TenantId, scope: &str, key: &str) -> Result<Option<InboxRow>> {
        self.one(INBOX, params![tenant.as_str(), scope, key], |row| {
            Ok(InboxRow {
                scope: row.get(0)?,
                key: row.get(1)?,
                request_hash: row.get(2)?,
                answer: row.get(3)?,
                created_at: time(row, 4)?,
            })
        })
    }

    /// Those of the keys that are taken.
    pub fn taken(&self, tenant: &TenantId, scope: &str, keys: Vec<String>) -> Result<Vec<String>> {
        let mut taken = Vec::new();
        for key in keys {
            if self.inbox(tenant, scope, &key)?.is_some() {
                taken.push(key);
            }
        }
        Ok(taken)
    }

    /// The version that stands for the name.
    pub(super) fn newest(&self, tenant: &TenantId, namespace: &str, name: &str) -> Result<Option<String>> {
        let versions: Vec<String> =
            self.many(VERSIONS, params![tenant.as_str(), namespace, name], |row| row.get(0))?;
        Ok(versions.into_iter().max_by(|a, b| semver::by_preference(a, b)))
    }

    /// The definition; the newest version when `version` is `None`.
    pub fn definition(
        &self,
        tenant: &TenantId,
        namespace: &str,
        name: &str,
        version: Option<&str>,
    ) -> Result<Option<DefinitionRow>> {
        let newest;
        let version = match version {
            Some(version) => version,
            None => match self.newest(tenant, namespace, name)? {
                Some(version) => {
                    newest = version;
                    &newest
                }
                None => return Ok(None),
            },
        };
        self.one(DEFINITION, params![tenant.as_str(), namespace, name, version], definition)
    }

    pub fn instance(&self, tenant: &TenantId, id: Uuid) -> Result<Option<InstanceView>> {
        let sql = format!("{INSTANCE} AND i.id = ?2");
        self.one(&sql, params![tenant.as_str(), id.as_bytes()], instance)
    }

    pub fn task(&self, tenant: &TenantId, id: Uuid) -> Result<Option<TaskRow>> {
        self.one(&format!("{TASK} AND id = ?2"), params![tenant.as_str(), id.as_bytes()], task)
    }

    pub fn dead_letter(&self, tenant: &TenantId, id: Uuid) -> Result<Option<DeadLetterRow>> {
        self.one(&format!("{DEAD_LETTER} AND id = ?2"), params![tenant.as_str(), id.as_bytes()], dead_letter)
    }

    pub fn tenant(&self, id: &TenantId) -> Result<Option<TenantRow>> {
        self.one(&format!("{TENANT}{TENANT_OF}"), params![id.as_str()], tenant_row)
    }

    pub fn secret(&self, tenant: &TenantId, name: &str) -> Result<Option<SecretRow>> {
        self.one(&format!("{SECRET} AND name = ?2"), params![tenant.as_str(), name], secret)
    }

    /// Finds out whose key it is.
    pub fn key_by_id(&self, key_id: &str) -> Result<Option<(TenantId, KeyRow)>> {
        self.one(KEY_BY_ID, params![key_id], |row| Ok((tenant(row, 7)?, key(row)?)))
    }

    pub(super) fn one<T>(
        &self,
        sql: &str,
        values: &[&dyn ToSql],
        map: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        let mut statement = self.connection.prepare_cached(sql).map_err(error)?;
        statement.query_row(values, map).optional().map_err(error)
    }

    pub(super) fn many<T>(
        &self,
        sql: &str,
        values: &[&dyn ToSql],
        map: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let mut statement = self.connection.prepare_cached(sql).map_err(error)?;
        let rows = statement.query_map(values, map).map_err(error)?;
        rows.collect::<rusqlite::Result<Vec<T>>>().map_err(error)
    }
}

pub(super) fn id(row: &Row<'_>, at: usize) -> rusqlite::Result<Uuid> {
    row.get(at).map(Uuid::from_bytes)
}

pub(super) fn optional_id(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Uuid>> {
    row.get::<_, Option<[u8; 16]>>(at).map(|id| id.map(Uuid::from_bytes))
}

pub(super) fn time(row: &Row<'_>, at: usize) -> rusqlite::Result<Time> {
    row.get(at).map(Time)
}

pub(super) fn optional_time(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Time>> {
    row.get::<_, Option<i64>>(at).map(|time| time.map(Time))
}

pub(super) fn token(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    row.get(at).map(i64::cast_unsigned)
}

pub(super) fn tenant(row: &Row<'_>, at: usize) -> rusqlite::Result<TenantId> {
    TenantId::new(row.get_ref(at)?.as_str()?)
        .map_err(|err| rusqlite::Error::FromSqlConversionFailure(at, Type::Text, Box::new(err)))
}

pub(super) fn definition(row: &Row<'_>) -> rusqlite::Result<DefinitionRow> {
    Ok(DefinitionRow {
        namespace: row.get(0)?,
        name: row.get(1)?,
        version: row.get(2)?,
        title: row.get(3)?,
        source: row.get(4)?,
        media_type: row.get(5)?,
        ir: row.get(6)?,
        created_at: time(row, 7)?,
    })
}

pub(super) fn tenant_row(row: &Row<'_>) -> rusqlite::Result<TenantRow> {
    Ok(TenantRow {
        id: tenant(row, 0)?,
        title: row.get(1)?,
        status: row.get(2)?,
        created_at: time(row, 3)?,
        weight: row.get(4)?,
        purge_at: optional_time(row, 5)?,
        limits: LimitsRow {
            open_max: row.get(6)?,
            starts_per_second: row.get(7)?,
            concurrency_max: row.get(8)?,
            degraded_per_second: row.get(9)?,
        },
    })
}

pub(super) fn secret(row: &Row<'_>) -> rusqlite::Result<SecretRow> {
    Ok(SecretRow {
        name: row.get(0)?,
        version: row.get(1)?,
        key_id: row.get(2)?,
        sealed: row.get(3)?,
        hosts: row.get(4)?,
        created_at: time(row, 5)?,
        updated_at: time(row, 6)?,
    })
}

pub(super) fn key(row: &Row<'_>) -> rusqlite::Result<KeyRow> {
    Ok(KeyRow {
        id: row.get(0)?,
        name: row.get(1)?,
        hash: row.get(2)?,
        roles: row.get(3)?,
        created_at: time(row, 4)?,
        expires_at: optional_time(row, 5)?,
        revoked_at: optional_time(row, 6)?,
        subject: row.get(8)?,
    })
}

pub(super) fn instance(row: &Row<'_>) -> rusqlite::Result<InstanceView> {
    Ok(InstanceView {
        row: InstanceRow {
            id: id(row, 0)?,
            namespace: row.get(1)?,
            name: row.get(2)?,
            version: row.get(3)?,
            business_key: row.get(4)?,
            business_parts: row.get(5)?,
            status: row.get(6)?,
            input: row.get(7)?,
            output: row.get(8)?,
            error: row.get(9)?,
            context: row.get(10)?,
            traceparent: row.get(11)?,
            correlation_id: row.get(12)?,
            parent: match optional_id(row, 29)? {
                Some(instance) => Some(ParentRow { instance, token: token(row, 30)?, item: row.get(31)? }),
                None => None,
            },
            created_at: time(row, 13)?,
            updated_at: time(row, 14)?,
            ended_at: optional_time(row, 15)?,
        },
        state_version: row.get(16)?,
        runtime_status: row.get(17)?,
        waiting_kind: row.get(18)?,
        waiting_until: optional_time(row, 19)?,
        active_task_id: optional_id(row, 20)?,
        resume_pointer_json: row.get(21)?,
        last_executed_by: id(row, 22)?,
        snapshot_schema_version: row.get(23)?,
        waiting_token: row.get(24)?,
        last_signal_id: optional_id(row, 25)?,
        last_error_code: row.get(26)?,
        last_error_json: row.get(27)?,
        last_executed_on: time(row, 28)?,
    })
}

pub(super) fn task(row: &Row<'_>) -> rusqlite::Result<TaskRow> {
    Ok(TaskRow {
        id: id(row, 0)?,
        instance: id(row, 1)?,
        token: token(row, 2)?,
        step: row.get(3)?,
        title: row.get(4)?,
        status: row.get(5)?,
        assignee: row.get(6)?,
        candidate_users: row.get(7)?,
        candidate_groups: row.get(8)?,
        payload: row.get(9)?,
        form: row.get(10)?,
        result: row.get(11)?,
        priority: row.get(12)?,
        due_at: optional_time(row, 13)?,
        version: row.get(14)?,
        created_at: time(row, 15)?,
        updated_at: time(row, 16)?,
        ended_at: optional_time(row, 17)?,
    })
}

pub(super) fn dead_letter(row: &Row<'_>) -> rusqlite::Result<DeadLetterRow> {
    Ok(DeadLetterRow {
        id: id(row, 0)?,
        source: row.get(1)?,
        reason: row.get(2)?,
        detail: row.get(3)?,
        instance: optional_id(row, 4)?,
        envelope: row.get(5)?,
        origin: row.get(6)?,
        attempts: row.get(7)?,
        last_node: id(row, 8)?,
        failed_at: time(row, 9)?,
        group: optional_id(row, 10)?,
    })
}
