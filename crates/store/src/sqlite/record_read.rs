//! What is asked about records. Who may not read a record does not find it: that is part of every query.

use super::{
    host::Host,
    read::{Read, id, tenant as tenant_at, time},
};
use crate::{port::Result, records::*, rows::*, views::PAGE_MAX};
use async_trait::async_trait;
use machine::{TenantId, Time};
use rusqlite::{Row, ToSql, params, types::Value};
use uuid::Uuid;

const VIEW: &str =
    "SELECT r.id, r.kind, r.parent, r.version, r.generation, r.effective, r.created_at, r.updated_at, r.acl,
    r.body, l.list";
const OF: &str = " CROSS JOIN acl_lists l ON l.tenant = r.tenant AND l.id = r.effective WHERE r.tenant = ?1";
/// The lists by which somebody who is all of ?2 may read.
const SEEN: &str = " AND r.effective IN (SELECT e.list FROM acl_entries e WHERE e.tenant = ?1
    AND e.principal IN (SELECT value FROM json_each(?2)) GROUP BY e.list
    HAVING max(e.allow & 1) = 1 AND max(e.deny & 1) = 0)";
const ANCESTORS: &str = "WITH RECURSIVE above(id, depth) AS (SELECT ?2, 1
    UNION ALL SELECT r.parent, a.depth + 1 FROM above a CROSS JOIN records r ON r.tenant = ?1 AND r.id = a.id
    WHERE r.parent IS NOT NULL AND a.depth < ?3)
    SELECT r.id, r.kind, r.parent, r.version, r.generation, r.effective, r.created_at, r.updated_at, r.acl, r.body, l.list
    FROM above a CROSS JOIN records r ON r.tenant = ?1 AND r.id = a.id
    CROSS JOIN acl_lists l ON l.tenant = r.tenant AND l.id = r.effective ORDER BY a.depth";
const HAS_CHILDREN: &str = "SELECT 1 FROM records WHERE tenant = ?1 AND parent = ?2 LIMIT 1";
const KINDS: &str = "SELECT name, schema, keys, row_version, created_at, updated_at FROM record_kinds
    WHERE tenant = ?1 AND (?2 IS NULL OR name = ?2) ORDER BY name";
const GROUPS: &str = "SELECT name, members, roles, row_version, created_at, updated_at FROM groups
    WHERE tenant = ?1 AND (?2 IS NULL OR name = ?2) ORDER BY name";
const GROUPS_OF: &str = "SELECT g.name, g.members, g.roles, g.row_version, g.created_at, g.updated_at
    FROM group_members m CROSS JOIN groups g ON g.tenant = m.tenant AND g.name = m.name
    WHERE m.tenant = ?1 AND m.member = ?2 ORDER BY g.name";
const NODES: &str = "SELECT id, parent, acl, effective, generation FROM records
    WHERE tenant = ?1 AND id IN (SELECT value FROM json_each(?2)) ORDER BY id";
const CHILDREN: &str = "SELECT id, parent, acl, effective, generation FROM records
    WHERE tenant = ?1 AND parent IN (SELECT value FROM json_each(?2)) AND (?3 IS NULL OR id > ?3)
    ORDER BY parent, id LIMIT ?4";
const LISTS: &str = "SELECT id, list FROM acl_lists WHERE tenant = ?1 AND id = ?2";
const WORK: &str = "SELECT record, root, rank, level, since, due_at, cursor, attempt, error, row_version, tenant FROM acl_work";
/// Every tenant has its share, along its own part of the index.
const BUSY: &str = "WITH RECURSIVE busy(tenant) AS (SELECT min(tenant) FROM acl_work
    UNION ALL SELECT (SELECT min(n.tenant) FROM acl_work n WHERE n.tenant > busy.tenant)
    FROM busy WHERE busy.tenant IS NOT NULL)
    SELECT tenant FROM busy WHERE tenant IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tenants p
    WHERE p.tenant = busy.tenant AND p.status IN ('suspended', 'deleted')) LIMIT 50";
const DUE: &str = " WHERE tenant = ?1 AND due_at <= ?2 ORDER BY rank, level, record LIMIT ?3";
const OF_TENANT: &str = " WHERE tenant = ?1 ORDER BY error IS NULL, rank, level, record LIMIT ?2";
const NEXT: &str = "SELECT min(due_at) FROM acl_work WHERE NOT EXISTS (SELECT 1 FROM tenants p
    WHERE p.tenant = acl_work.tenant AND p.status IN ('suspended', 'deleted'))";
const PENDING: &str = "SELECT count(*), total(rank = 0), count(error), min(since) FROM acl_work
    WHERE ?1 IS NULL OR tenant = ?1";
const PROPAGATES: &str = "SELECT 1 FROM acl_work WHERE tenant = ?1 AND root = ?2 LIMIT 1";

fn json(names: &[String]) -> String {
    serde_json::to_string(names).unwrap_or_default()
}

impl Read<'_> {
    fn record(&self, tenant: &TenantId, id: &str, seen_by: Option<&[String]>) -> Result<Option<RecordView>> {
        let seen = if seen_by.is_some() { SEEN } else { "" };
        let names = seen_by.map(json).unwrap_or_default();
        let sql = format!("{VIEW} FROM records r{OF} AND r.id = ?3 AND ?2 IS NOT NULL{seen}");
        self.one(&sql, params![tenant.as_str(), names, id], view)
    }

    fn records(&self, tenant: &TenantId, ask: &RecordAsk) -> Result<Vec<Listed>> {
        let names = ask.seen_by.as_deref().map(json).unwrap_or_default();
        let mut values = vec![Value::Text(tenant.as_str().to_owned()), Value::Text(names)];
        let mut bind = |value: Value| {
            values.push(value);
            format!("?{}", values.len())
        };
        let mut sql = match &ask.sort {
            Some(_) => format!(
                "{VIEW}, k.value FROM record_keys k CROSS JOIN records r ON r.tenant = k.tenant AND r.id = k.record{OF} AND ?2 IS NOT NULL"
            ),
            None => format!("{VIEW}, x'' FROM records r{OF} AND ?2 IS NOT NULL"),
        };
        if ask.seen_by.is_some() {
            sql += SEEN;
        }
        if let (Some(sort), Some(kind)) = (&ask.sort, &ask.kind) {
            let (kind, name) = (bind(Value::Text(kind.clone())), bind(Value::Text(sort.clone())));
            sql += &format!(" AND k.tenant = ?1 AND k.kind = {kind} AND k.name = {name}");
        }
        for (column, wanted) in [("r.kind", &ask.kind), ("r.parent", &ask.parent)] {
            if let Some(text) = wanted {
                sql += &format!(" AND {column} = {}", bind(Value::Text(text.clone())));
            }
        }
        for condition in &ask.conditions {
            let kind = bind(Value::Text(ask.kind.clone().unwrap_or_default()));
            let name = bind(Value::Text(condition.name.clone()));
            sql += &format!(
                " AND r.id IN (SELECT f.record FROM record_keys f WHERE f.tenant = ?1 AND f.kind = {kind} AND f.name = {name}"
            );
            for (bound, sign) in [(&condition.from, ">"), (&condition.to, "<")] {
                if let Some((value, without)) = bound {
                    let equal = if *without { "" } else { "=" };
                    sql += &format!(" AND f.value {sign}{equal} {}", bind(Value::Blob(value.clone())));
                }
            }
            sql += ")";
        }
        let (sign, order) = if ask.descending { ("<", " DESC") } else { (">", "") };
        if let Some((value, id)) = &ask.after {
            sql += &match ask.sort {
                Some(_) => format!(
                    " AND (k.value, k.record) {sign} ({}, {})",
                    bind(Value::Blob(value.clone())),
                    bind(Value::Text(id.clone()))
                ),
                None => format!(" AND r.id {sign} {}", bind(Value::Text(id.clone()))),
            };
        }
        let by = if ask.sort.is_some() {
            format!("k.value{order}, k.record{order}")
        } else {
            format!("r.id{order}")
        };
        sql += &format!(" ORDER BY {by} LIMIT {}", ask.limit.clamp(1, PAGE_MAX));
        let values: Vec<&dyn ToSql> = values.iter().map(|value| value as &dyn ToSql).collect();
        self.many(&sql, &values, |row| Ok(Listed { view: view(row)?, value: row.get(11)? }))
    }

    fn acl_lists(&self, tenant: &TenantId, ids: &[Uuid]) -> Result<Vec<(Uuid, Vec<u8>)>> {
        let mut lists = Vec::with_capacity(ids.len());
        for one in ids {
            let map = |row: &Row<'_>| Ok((id(row, 0)?, row.get(1)?));
            lists.extend(self.one(LISTS, params![tenant.as_str(), one.as_bytes()], map)?);
        }
        Ok(lists)
    }
}

fn view(row: &Row<'_>) -> rusqlite::Result<RecordView> {
    Ok(RecordView {
        row: RecordRow {
            id: row.get(0)?,
            kind: row.get(1)?,
            parent: row.get(2)?,
            version: row.get(3)?,
            generation: row.get(4)?,
            effective: id(row, 5)?,
            created_at: time(row, 6)?,
            updated_at: time(row, 7)?,
            acl: row.get(8)?,
            body: row.get(9)?,
        },
        list: row.get(10)?,
    })
}

fn kind(row: &Row<'_>) -> rusqlite::Result<RecordKindRow> {
    Ok(RecordKindRow {
        name: row.get(0)?,
        schema: row.get(1)?,
        keys: row.get(2)?,
        row_version: row.get(3)?,
        created_at: time(row, 4)?,
        updated_at: time(row, 5)?,
    })
}

fn group(row: &Row<'_>) -> rusqlite::Result<GroupRow> {
    let names = |at: usize| -> rusqlite::Result<Vec<String>> {
        Ok(serde_json::from_slice(&row.get::<_, Vec<u8>>(at)?).unwrap_or_default())
    };
    Ok(GroupRow {
        name: row.get(0)?,
        members: names(1)?,
        roles: names(2)?,
        row_version: row.get(3)?,
        created_at: time(row, 4)?,
        updated_at: time(row, 5)?,
    })
}

fn node(row: &Row<'_>) -> rusqlite::Result<AclNode> {
    Ok(AclNode {
        id: row.get(0)?,
        parent: row.get(1)?,
        acl: row.get(2)?,
        effective: id(row, 3)?,
        generation: row.get(4)?,
    })
}

fn work(row: &Row<'_>) -> rusqlite::Result<AclWorkRow> {
    Ok(AclWorkRow {
        record: row.get(0)?,
        root: row.get(1)?,
        revokes: row.get::<_, i64>(2)? == 0,
        level: row.get(3)?,
        since: time(row, 4)?,
        due_at: time(row, 5)?,
        cursor: row.get(6)?,
        attempt: row.get(7)?,
        error: row.get(8)?,
        row_version: row.get(9)?,
    })
}

#[async_trait]
impl<H: Host> Records for H {
    async fn record(
        &self,
        of: &TenantId,
        id: &str,
        seen_by: Option<&[String]>,
    ) -> Result<Option<RecordView>> {
        let (of, id, seen_by) = (of.clone(), id.to_owned(), seen_by.map(<[String]>::to_vec));
        self.read(move |read| read.record(&of, &id, seen_by.as_deref())).await
    }

    async fn records(&self, of: &TenantId, ask: &RecordAsk) -> Result<Vec<Listed>> {
        let (of, ask) = (of.clone(), ask.clone());
        self.read(move |read| read.records(&of, &ask)).await
    }

    async fn ancestors(&self, of: &TenantId, id: &str, limit: usize) -> Result<Vec<RecordView>> {
        let (of, id) = (of.clone(), id.to_owned());
        self.read(move |read| read.many(ANCESTORS, params![of.as_str(), id, limit as i64], view)).await
    }

    async fn has_children(&self, of: &TenantId, id: &str) -> Result<bool> {
        let (of, id) = (of.clone(), id.to_owned());
        self.read(move |read| Ok(read.one(HAS_CHILDREN, params![of.as_str(), id], |_| Ok(()))?.is_some()))
            .await
    }

    async fn record_kind(&self, of: &TenantId, name: &str) -> Result<Option<RecordKindRow>> {
        let (of, name) = (of.clone(), name.to_owned());
        self.read(move |read| read.one(KINDS, params![of.as_str(), name], kind)).await
    }

    async fn record_kinds(&self, of: &TenantId) -> Result<Vec<RecordKindRow>> {
        let of = of.clone();
        self.read(move |read| read.many(KINDS, params![of.as_str(), None::<String>], kind)).await
    }

    async fn group(&self, of: &TenantId, name: &str) -> Result<Option<GroupRow>> {
        let (of, name) = (of.clone(), name.to_owned());
        self.read(move |read| read.one(GROUPS, params![of.as_str(), name], group)).await
    }

    async fn groups(&self, of: &TenantId, member: Option<&str>) -> Result<Vec<GroupRow>> {
        let (of, member) = (of.clone(), member.map(str::to_owned));
        let sql = if member.is_some() { GROUPS_OF } else { GROUPS };
        self.read(move |read| read.many(sql, params![of.as_str(), member], group)).await
    }

    async fn acl_nodes(&self, of: &TenantId, ids: &[String]) -> Result<Vec<AclNode>> {
        let (of, ids) = (of.clone(), json(ids));
        self.read(move |read| read.many(NODES, params![of.as_str(), ids], node)).await
    }

    async fn acl_children(
        &self,
        of: &TenantId,
        parents: &[String],
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<AclNode>> {
        let (of, parents, after) = (of.clone(), json(parents), after.map(str::to_owned));
        self.read(move |read| read.many(CHILDREN, params![of.as_str(), parents, after, limit as i64], node))
            .await
    }

    async fn acl_lists(&self, of: &TenantId, ids: &[Uuid]) -> Result<Vec<(Uuid, Vec<u8>)>> {
        let (of, ids) = (of.clone(), ids.to_vec());
        self.read(move |read| read.acl_lists(&of, &ids)).await
    }

    async fn due_acl_work(&self, now: Time, limit: usize) -> Result<Vec<Claimed<AclWorkRow>>> {
        self.read(move |read| {
            let mut due = Vec::new();
            for tenant in read.many(BUSY, &[], |row| tenant_at(row, 0))? {
                let values = params![tenant.as_str(), now.0, limit as i64];
                let rows = read.many(&format!("{WORK}{DUE}"), values, work)?;
                due.extend(rows.into_iter().map(|row| Claimed { tenant: tenant.clone(), row }));
            }
            Ok(due)
        })
        .await
    }

    async fn next_acl_work(&self) -> Result<Option<Time>> {
        self.read(|read| Ok(read.one(NEXT, &[], |row| row.get::<_, Option<i64>>(0))?.flatten().map(Time)))
            .await
    }

    async fn acl_pending(&self, of: Option<&TenantId>) -> Result<Pending> {
        let of = of.map(|of| of.as_str().to_owned());
        let map = |row: &Row<'_>| {
            Ok(Pending {
                records: row.get::<_, i64>(0)?.unsigned_abs(),
                revoking: row.get::<_, f64>(1)? as u64,
                failed: row.get::<_, i64>(2)?.unsigned_abs(),
                since: row.get::<_, Option<i64>>(3)?.map(Time),
            })
        };
        self.read(move |read| Ok(read.one(PENDING, params![of], map)?.unwrap_or_default())).await
    }

    async fn acl_work(&self, of: &TenantId, limit: usize) -> Result<Vec<AclWorkRow>> {
        let (of, limit) = (of.clone(), limit.clamp(1, PAGE_MAX) as i64);
        self.read(move |read| read.many(&format!("{WORK}{OF_TENANT}"), params![of.as_str(), limit], work))
            .await
    }

    async fn acl_propagates(&self, of: &TenantId, root: &str) -> Result<bool> {
        let (of, root) = (of.clone(), root.to_owned());
        self.read(move |read| Ok(read.one(PROPAGATES, params![of.as_str(), root], |_| Ok(()))?.is_some()))
            .await
    }
}
