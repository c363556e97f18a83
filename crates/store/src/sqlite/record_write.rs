//! What is written about records, row by row within one transaction.

use super::{statement::Prepared, write::blob};
use crate::{commit::Conflict, records::*, rows::*};
use rusqlite::{Result, ToSql, params};

const INSERT: &str =
    "INSERT INTO records (tenant, id, kind, parent, version, generation, effective, created_at, updated_at,
    acl, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT DO NOTHING";
const UPDATE: &str = "UPDATE records SET parent = ?4, version = ?5, generation = ?6, effective = ?7, updated_at = ?8, acl = ?9,
    body = ?10 WHERE tenant = ?1 AND id = ?2 AND version = ?11 AND generation = ?3";
const DELETE: &str = "DELETE FROM records WHERE tenant = ?1 AND id = ?2 AND version = ?3
    AND NOT EXISTS (SELECT 1 FROM records c WHERE c.tenant = ?1 AND c.parent = ?2)";
const AT_GENERATION: &str = "SELECT 1 FROM records WHERE tenant = ?1 AND id = ?2 AND generation = ?3";
const AT_PARENT: &str = "SELECT 1 FROM records WHERE tenant = ?1 AND id = ?2 AND parent IS ?3";
const KEY: &str = "INSERT INTO record_keys (tenant, record, name, kind, value) VALUES (?1, ?2, ?3, ?4, ?5)";
const DROP_KEYS: &str = "DELETE FROM record_keys WHERE tenant = ?1 AND record = ?2";
const DROP_WORK: &str = "DELETE FROM acl_work WHERE tenant = ?1 AND record = ?2";
const HAND: &str = "UPDATE records SET effective = ?5, generation = generation + 1
    WHERE tenant = ?1 AND id = ?2 AND parent IS ?3 AND generation = ?4";
const DONE: &str = "DELETE FROM acl_work WHERE tenant = ?1 AND record = ?2 AND row_version = ?3";
const GO_ON: &str = "UPDATE acl_work SET cursor = ?4, row_version = row_version + 1
    WHERE tenant = ?1 AND record = ?2 AND row_version = ?3";
const LATER: &str =
    "UPDATE acl_work SET due_at = ?4, attempt = ?5, error = ?6, cursor = NULL, row_version = row_version + 1
    WHERE tenant = ?1 AND record = ?2 AND row_version = ?3";
const WORK: &str = "INSERT INTO acl_work AS w (tenant, record, root, rank, level, since, due_at, cursor, attempt, error, row_version)
    SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 1
    WHERE ?10 IS NOT NULL OR EXISTS (SELECT 1 FROM acl_work x WHERE x.tenant = ?1 AND x.record = ?2)
    OR EXISTS (SELECT 1 FROM records c WHERE c.tenant = ?1 AND c.parent = ?2)
    ON CONFLICT (tenant, record) DO UPDATE SET root = excluded.root, rank = min(w.rank, excluded.rank),
    level = excluded.level, since = min(w.since, excluded.since), due_at = excluded.due_at, cursor = NULL,
    attempt = excluded.attempt, error = excluded.error, row_version = w.row_version + 1";
const LIST: &str = "INSERT INTO acl_lists (tenant, id, list) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
const ENTRY: &str =
    "INSERT INTO acl_entries (tenant, principal, list, allow, deny) VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT DO NOTHING";
const CREATE_KIND: &str =
    "INSERT INTO record_kinds (tenant, name, row_version, created_at, updated_at, schema, keys)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING";
const UPDATE_KIND: &str = "UPDATE record_kinds SET row_version = ?3, updated_at = ?5, schema = ?6, keys = ?7
    WHERE tenant = ?1 AND name = ?2 AND row_version = ?4";
const DELETE_KIND: &str = "DELETE FROM record_kinds WHERE tenant = ?1 AND name = ?2
    AND NOT EXISTS (SELECT 1 FROM records WHERE tenant = ?1 AND kind = ?2)";
const CREATE_GROUP: &str =
    "INSERT INTO groups (tenant, name, row_version, created_at, updated_at, members, roles)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING";
const UPDATE_GROUP: &str = "UPDATE groups SET row_version = ?3, updated_at = ?5, members = ?6, roles = ?7
    WHERE tenant = ?1 AND name = ?2 AND row_version = ?4";
const DELETE_GROUP: &str = "DELETE FROM groups WHERE tenant = ?1 AND name = ?2";
const DROP_MEMBERS: &str = "DELETE FROM group_members WHERE tenant = ?1 AND name = ?2";
const MEMBER: &str =
    "INSERT INTO group_members (tenant, member, name) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";

/// Does one write. Answers which guard did not hold, if any.
pub(super) fn write(to: &mut Prepared<'_>, tenant: &str, write: &RecordWrite) -> Result<Option<Conflict>> {
    match write {
        RecordWrite::Create(all) => create(to, tenant, all),
        RecordWrite::Update { new, version, generation, path } => {
            for (id, parent) in path {
                if !is_there(to, AT_PARENT, params![tenant, id, parent])? {
                    return Ok(Some(Conflict::Version));
                }
            }
            update(to, tenant, new, (*version, *generation))
        }
        RecordWrite::Delete { id, version } => {
            if execute(to, DELETE, params![tenant, id, version])? == 0 {
                return Ok(Some(Conflict::Version));
            }
            execute(to, DROP_KEYS, params![tenant, id])?;
            execute(to, DROP_WORK, params![tenant, id])?;
            Ok(None)
        }
        RecordWrite::HandDown { parents, children } => hand_down(to, tenant, parents, children),
        RecordWrite::SettleWork(steps) => settle(to, tenant, steps),
        RecordWrite::PutKind { row, expected_version } => put_kind(to, tenant, row, *expected_version),
        RecordWrite::DeleteKind { name } => guard(to, DELETE_KIND, params![tenant, name], Conflict::Gone),
        RecordWrite::PutGroup { row, expected_version } => put_group(to, tenant, row, *expected_version),
        RecordWrite::DeleteGroup { name } => {
            if execute(to, DELETE_GROUP, params![tenant, name])? == 0 {
                return Ok(Some(Conflict::Gone));
            }
            execute(to, DROP_MEMBERS, params![tenant, name]).map(|_| None)
        }
        RecordWrite::Lists(lists) => put_lists(to, tenant, lists),
        RecordWrite::PutWork(rows) => put_work(to, tenant, rows),
    }
}

fn execute(to: &Prepared<'_>, sql: &str, values: &[&dyn ToSql]) -> Result<usize> {
    to.text(sql)?.execute(values)
}

fn is_there(to: &Prepared<'_>, sql: &str, values: &[&dyn ToSql]) -> Result<bool> {
    to.text(sql)?.exists(values)
}

fn guard(to: &Prepared<'_>, sql: &str, values: &[&dyn ToSql], lost: Conflict) -> Result<Option<Conflict>> {
    Ok((execute(to, sql, values)? == 0).then_some(lost))
}

fn has_parent(to: &Prepared<'_>, tenant: &str, new: &NewRecord) -> Result<bool> {
    match (&new.row.parent, new.parent_generation) {
        (Some(parent), Some(generation)) => is_there(to, AT_GENERATION, params![tenant, parent, generation]),
        (parent, _) => Ok(parent.is_none()),
    }
}

fn create(to: &Prepared<'_>, tenant: &str, all: &[NewRecord]) -> Result<Option<Conflict>> {
    for new in all {
        if !has_parent(to, tenant, new)? {
            return Ok(Some(Conflict::Version));
        }
        let RecordRow { id, kind, parent, version, generation, body, acl, .. } = &new.row;
        let (effective, created, updated) =
            (new.row.effective.as_bytes(), new.row.created_at.0, new.row.updated_at.0);
        let values =
            params![tenant, id, kind, parent, version, generation, effective, created, updated, acl, body];
        if execute(to, INSERT, values)? == 0 {
            return Ok(Some(Conflict::Exists));
        }
        put_keys(to, tenant, new)?;
    }
    Ok(None)
}

fn put_keys(to: &Prepared<'_>, tenant: &str, new: &NewRecord) -> Result<()> {
    for RecordKey { name, value } in &new.keys {
        execute(to, KEY, params![tenant, new.row.id, name, new.row.kind, value])?;
    }
    Ok(())
}

fn update(
    to: &Prepared<'_>,
    tenant: &str,
    new: &NewRecord,
    (version, generation): (i64, i64),
) -> Result<Option<Conflict>> {
    if new.parent_generation.is_some() && !has_parent(to, tenant, new)? {
        return Ok(Some(Conflict::Version));
    }
    let row = &new.row;
    let values = params![
        tenant,
        row.id,
        generation,
        row.parent,
        row.version,
        row.generation,
        row.effective.as_bytes(),
        row.updated_at.0,
        row.acl,
        row.body,
        version,
    ];
    if execute(to, UPDATE, values)? == 0 {
        return Ok(Some(Conflict::Version));
    }
    execute(to, DROP_KEYS, params![tenant, row.id])?;
    put_keys(to, tenant, new)?;
    Ok(None)
}

fn hand_down(
    to: &Prepared<'_>,
    tenant: &str,
    parents: &[(String, i64)],
    children: &[Handed],
) -> Result<Option<Conflict>> {
    for (parent, generation) in parents {
        if !is_there(to, AT_GENERATION, params![tenant, parent, generation])? {
            return Ok(Some(Conflict::Version));
        }
    }
    for Handed { id, parent, generation, effective } in children {
        execute(to, HAND, params![tenant, id, parent, generation, effective.as_bytes()])?;
    }
    Ok(None)
}

fn settle(to: &Prepared<'_>, tenant: &str, steps: &[WorkStep]) -> Result<Option<Conflict>> {
    for WorkStep { record, row_version, then } in steps {
        let rows = match then {
            WorkThen::Done => execute(to, DONE, params![tenant, record, row_version])?,
            WorkThen::GoOn(cursor) => execute(to, GO_ON, params![tenant, record, row_version, cursor])?,
            WorkThen::Later { due_at, attempt, error } => {
                execute(to, LATER, params![tenant, record, row_version, due_at.0, attempt, error])?
            }
        };
        if rows == 0 {
            return Ok(Some(Conflict::Gone));
        }
    }
    Ok(None)
}

fn put_lists(to: &Prepared<'_>, tenant: &str, lists: &[AclListRow]) -> Result<Option<Conflict>> {
    for AclListRow { id, list, entries } in lists {
        if execute(to, LIST, params![tenant, id.as_bytes(), list])? == 0 {
            continue;
        }
        for (principal, allow, deny) in entries {
            execute(to, ENTRY, params![tenant, principal, blob(&Some(*id)), allow, deny])?;
        }
    }
    Ok(None)
}

fn put_work(to: &Prepared<'_>, tenant: &str, rows: &[AclWorkRow]) -> Result<Option<Conflict>> {
    for row in rows {
        let values = params![
            tenant,
            row.record,
            row.root,
            i64::from(!row.revokes),
            row.level,
            row.since.0,
            row.due_at.0,
            row.cursor,
            row.attempt,
            row.error,
        ];
        execute(to, WORK, values)?;
    }
    Ok(None)
}

fn put_kind(to: &Prepared<'_>, tenant: &str, row: &RecordKindRow, expected: i64) -> Result<Option<Conflict>> {
    let RecordKindRow { name, schema, keys, row_version, created_at, updated_at } = row;
    let (sql, third) = match expected {
        0 => (CREATE_KIND, created_at.0),
        expected => (UPDATE_KIND, expected),
    };
    guard(to, sql, params![tenant, name, row_version, third, updated_at.0, schema, keys], Conflict::Version)
}

fn put_group(to: &Prepared<'_>, tenant: &str, row: &GroupRow, expected: i64) -> Result<Option<Conflict>> {
    let json = |names: &[String]| serde_json::to_vec(names).unwrap_or_default();
    let (sql, third) = match expected {
        0 => (CREATE_GROUP, row.created_at.0),
        expected => (UPDATE_GROUP, expected),
    };
    let (members, roles) = (json(&row.members), json(&row.roles));
    let values = params![tenant, row.name, row.row_version, third, row.updated_at.0, members, roles];
    if execute(to, sql, values)? == 0 {
        return Ok(Some(Conflict::Version));
    }
    execute(to, DROP_MEMBERS, params![tenant, row.name])?;
    for member in &row.members {
        execute(to, MEMBER, params![tenant, member, row.name])?;
    }
    Ok(None)
}
