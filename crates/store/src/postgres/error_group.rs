//! Groups of failures that are alike, and the dead letters that belong to them.

use super::{
    base::{Postgres, of},
    list::Query,
    read::time as time_at,
    value::{Value, bytes, get, id, int, maybe_text, text, time},
};
use crate::{port::Result, rows::*, views::*};
use machine::{TenantId, Time};
use tokio_postgres::{Error as PgError, Row};
use uuid::Uuid;

const GROUP: &str =
    "SELECT id, source, target, class, step, message, count, first_at, last_at, first_sample, samples
    FROM error_groups WHERE tenant = $1";
/// Along the index; no letter itself is read.
const LETTERS: &str =
    "SELECT error_group, count(*), min(failed_at), max(failed_at), max(id::text)::uuid FROM wf_dlq
    WHERE tenant = $1 GROUP BY error_group
    HAVING $2 IS NULL OR (max(failed_at), coalesce(error_group::text, '')) < ($2, $3)
    ORDER BY max(failed_at) DESC, coalesce(error_group::text, '') DESC LIMIT $4";

pub(super) fn values<'a>(tenant: &'a str, row: &'a ErrorGroupRow) -> Vec<Value<'a>> {
    vec![
        text(tenant),
        id(row.id),
        text(&row.source),
        text(&row.target),
        text(&row.class),
        maybe_text(row.step.as_deref()),
        text(&row.message),
        int(row.count.cast_signed()),
        time(row.first_at),
        time(row.last_at),
        bytes(&row.first_sample),
        bytes(&row.samples),
    ]
}

impl Postgres {
    pub(super) async fn one_error_group(
        &self,
        tenant: &TenantId,
        of_id: Uuid,
    ) -> Result<Option<ErrorGroupRow>> {
        let sql = format!("{GROUP} AND id = $2");
        self.one(of(tenant), &sql, &[text(tenant.as_str()), id(of_id)], group).await
    }

    pub(super) async fn list_error_groups(
        &self,
        tenant: &TenantId,
        filter: &ErrorFilter,
    ) -> Result<Vec<ErrorGroupRow>> {
        let mut query = Query::new(tenant);
        query.begin(GROUP);
        query.equals("target", filter.target.as_deref());
        query.equals("class", filter.class.as_deref());
        query.before(["last_at", "id"], filter.after, filter.limit.clamp(1, PAGE_MAX));
        self.many(of(tenant), &query.sql, &query.values, group).await
    }

    pub(super) async fn list_letter_groups(
        &self,
        tenant: &TenantId,
        after: Option<(Time, Option<Uuid>)>,
        limit: usize,
    ) -> Result<Vec<LetterGroup>> {
        let group = after.and_then(|(_, group)| group).map_or(String::new(), |group| group.to_string());
        let values = [
            text(tenant.as_str()),
            Value::Int(after.map(|(at, _)| at.0)),
            text(&group),
            int(limit.clamp(1, PAGE_MAX) as i64),
        ];
        let map = |row: &Row| {
            Ok(LetterGroup {
                group: get(row, 0)?,
                count: get::<i64>(row, 1)? as u64,
                first_at: time_at(row, 2)?,
                last_at: time_at(row, 3)?,
                newest: get(row, 4)?,
            })
        };
        self.many(of(tenant), LETTERS, &values, map).await
    }
}

fn group(row: &Row) -> std::result::Result<ErrorGroupRow, PgError> {
    Ok(ErrorGroupRow {
        id: get(row, 0)?,
        source: get(row, 1)?,
        target: get(row, 2)?,
        class: get(row, 3)?,
        step: get(row, 4)?,
        message: get(row, 5)?,
        count: get::<i64>(row, 6)? as u64,
        first_at: time_at(row, 7)?,
        last_at: time_at(row, 8)?,
        first_sample: get(row, 9)?,
        samples: get(row, 10)?,
    })
}
