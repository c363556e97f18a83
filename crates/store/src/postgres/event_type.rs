//! What tenants say of types of events.

use super::{
    base::Postgres,
    read::{tenant, time as time_at},
    session::{Scope, Session},
    solo::{Ended, guard},
    value::{bytes, get, int, text, time},
};
use crate::{
    commit::Conflict,
    port::Result,
    rows::{Claimed, EventTypeRow},
};
use tokio_postgres::Row;

const ALL: &str = "SELECT tenant, name, schema, row_version, created_at, updated_at FROM event_types
    ORDER BY tenant, name";
const CREATE: &str = "INSERT INTO event_types (tenant, name, row_version, created_at, updated_at, schema)
    VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING RETURNING 1";
const UPDATE: &str = "UPDATE event_types SET row_version = $3, updated_at = $4, schema = $5
    WHERE tenant = $1 AND name = $2 AND row_version = $6 RETURNING 1";
pub(super) const DELETE: &str = "DELETE FROM event_types WHERE tenant = $1 AND name = $2 RETURNING 1";

impl Postgres {
    /// Those of all tenants.
    pub(super) async fn all_event_types(&self) -> Result<Vec<Claimed<EventTypeRow>>> {
        let event_type = |row: &Row| {
            Ok(Claimed {
                tenant: tenant(row, 0)?,
                row: EventTypeRow {
                    name: get(row, 1)?,
                    schema: get(row, 2)?,
                    row_version: get(row, 3)?,
                    created_at: time_at(row, 4)?,
                    updated_at: time_at(row, 5)?,
                },
            })
        };
        self.many(Scope::All, ALL, &[], event_type).await
    }
}

pub(super) async fn put(to: &Session, of: &str, row: &EventTypeRow, expected_version: i64) -> Ended {
    let (version, updated) = (int(row.row_version), time(row.updated_at));
    match expected_version {
        0 => {
            let values =
                [text(of), text(&row.name), version, time(row.created_at), updated, bytes(&row.schema)];
            guard(to, CREATE, &values, Conflict::Version).await
        }
        expected => {
            let values = [text(of), text(&row.name), version, updated, bytes(&row.schema), int(expected)];
            guard(to, UPDATE, &values, Conflict::Version).await
        }
    }
}
