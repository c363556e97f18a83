//! Groups of failures that are alike, and the dead letters that belong to them.

use super::{
    list::Query,
    read::{Read, id, optional_id, time},
    statement::{Prepared, Statement as S},
    write::plain,
};
use crate::{commit::Conflict, port::Result, rows::*, views::*};
use machine::{TenantId, Time};
use rusqlite::{Row, params, types::Value};
use serde_json::json;
use uuid::Uuid;

const GROUP: &str =
    "SELECT id, source, target, class, step, message, count, first_at, last_at, first_sample, samples
    FROM error_groups WHERE tenant = ?1";
/// Along the index; no letter itself is read.
const LETTERS: &str = "SELECT error_group, count(*), min(failed_at), max(failed_at), max(id) FROM wf_dlq
    WHERE tenant = ?1 GROUP BY error_group
    HAVING ?2 IS NULL OR (max(failed_at), coalesce(error_group, x'')) < (?2, ?3)
    ORDER BY max(failed_at) DESC, coalesce(error_group, x'') DESC LIMIT ?4";

/// Adds to the groups, all in one statement.
pub(super) fn add(
    to: &mut Prepared<'_>,
    tenant: &str,
    rows: &[ErrorGroupRow],
) -> rusqlite::Result<Option<Conflict>> {
    let text = String::from_utf8_lossy;
    let rows: Vec<serde_json::Value> = rows
        .iter()
        .map(|row| {
            let (first_sample, samples) = (text(&row.first_sample), text(&row.samples));
            let ErrorGroupRow { source, target, class, step, message, count, first_at, last_at, .. } = row;
            let id = row.id.simple().to_string();
            json!([
                id,
                source,
                target,
                class,
                step,
                message,
                count,
                first_at.0,
                last_at.0,
                first_sample,
                samples
            ])
        })
        .collect();
    plain(to, S::Errors, params![tenant, serde_json::Value::from(rows).to_string()])
}

impl Read<'_> {
    pub fn error_group(&self, tenant: &TenantId, id: Uuid) -> Result<Option<ErrorGroupRow>> {
        self.one(&format!("{GROUP} AND id = ?2"), params![tenant.as_str(), id.as_bytes()], group)
    }

    /// Those seen last first.
    pub fn error_groups(&self, tenant: &TenantId, filter: &ErrorFilter) -> Result<Vec<ErrorGroupRow>> {
        let mut query = Query::new(GROUP, tenant);
        query.equals("target", filter.target.as_deref());
        query.equals("class", filter.class.as_deref());
        let limit = filter.limit.clamp(1, PAGE_MAX);
        query.before(["last_at", "id"], filter.after.map(|(at, id)| (Value::Integer(at.0), id)), limit);
        self.many(&query.sql, &query.values(), group)
    }

    /// Dead letters by group, the group with the newest first.
    pub fn dead_letter_groups(
        &self,
        tenant: &TenantId,
        after: Option<(Time, Option<Uuid>)>,
        limit: usize,
    ) -> Result<Vec<LetterGroup>> {
        let (at, group) = (after.map(|(at, _)| at.0), after.and_then(|(_, group)| group));
        let group = group.map_or(vec![], |group| group.as_bytes().to_vec());
        let limit = limit.clamp(1, PAGE_MAX) as i64;
        self.many(LETTERS, params![tenant.as_str(), at, group, limit], |row| {
            Ok(LetterGroup {
                group: optional_id(row, 0)?,
                count: row.get::<_, i64>(1)? as u64,
                first_at: time(row, 2)?,
                last_at: time(row, 3)?,
                newest: id(row, 4)?,
            })
        })
    }
}

fn group(row: &Row<'_>) -> rusqlite::Result<ErrorGroupRow> {
    Ok(ErrorGroupRow {
        id: id(row, 0)?,
        source: row.get(1)?,
        target: row.get(2)?,
        class: row.get(3)?,
        step: row.get(4)?,
        message: row.get(5)?,
        count: row.get::<_, i64>(6)? as u64,
        first_at: time(row, 7)?,
        last_at: time(row, 8)?,
        first_sample: row.get(9)?,
        samples: row.get(10)?,
    })
}
