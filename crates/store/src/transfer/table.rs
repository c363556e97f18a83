//! Which rows a tenant has: every table, its columns, and the order in which its rows are read.

use super::Cell;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Bytes,
    /// A UUID; sixteen bytes in a [`Cell`].
    Id,
    Int,
}

/// A table of which every row is a tenant's. The tenant's own column is not listed.
#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    /// The key first.
    pub columns: &'static [(&'static str, Kind)],
    /// How many columns are the key, beside the tenant.
    pub key: usize,
    /// Rows with the same first column are one instance's.
    pub by_instance: bool,
    /// Rows are read in the order in which they were inserted, which matters, and not by key.
    pub in_order: bool,
}

impl Table {
    /// The part of a row that says which rows are compared together.
    pub(super) fn group<'r>(&self, row: &'r [Cell]) -> &'r [Cell] {
        let columns = if self.by_instance { 1 } else { self.key };
        row.get(..columns).unwrap_or(row)
    }

    /// The kinds of the key's columns.
    pub(crate) fn key_columns(&self) -> &'static [(&'static str, Kind)] {
        &self.columns[..self.key]
    }
}

use Kind::{Bytes, Id, Int, Text};

const fn keyed(name: &'static str, key: usize, columns: &'static [(&'static str, Kind)]) -> Table {
    Table { name, columns, key, by_instance: false, in_order: false }
}

const fn by_instance(name: &'static str, key: usize, columns: &'static [(&'static str, Kind)]) -> Table {
    Table { name, columns, key, by_instance: true, in_order: false }
}

const fn in_order(name: &'static str, columns: &'static [(&'static str, Kind)]) -> Table {
    Table { name, columns, key: 1, by_instance: false, in_order: true }
}

/// Every table of a tenant, its own row last: until that is there, no node does anything for it. The owner of a queue row is
/// left out: on the other side it is backlog.
pub const TABLES: &[Table] = &[
    keyed(
        "api_keys",
        1,
        &[
            ("id", Text),
            ("name", Text),
            ("hash", Bytes),
            ("roles", Bytes),
            ("created_at", Int),
            ("expires_at", Int),
            ("revoked_at", Int),
            ("subject", Text),
        ],
    ),
    keyed(
        "record_kinds",
        1,
        &[
            ("name", Text),
            ("row_version", Int),
            ("created_at", Int),
            ("updated_at", Int),
            ("schema", Bytes),
            ("keys", Bytes),
        ],
    ),
    keyed(
        "groups",
        1,
        &[
            ("name", Text),
            ("row_version", Int),
            ("created_at", Int),
            ("updated_at", Int),
            ("members", Bytes),
            ("roles", Bytes),
        ],
    ),
    keyed("group_members", 2, &[("member", Text), ("name", Text)]),
    keyed("acl_lists", 1, &[("id", Id), ("list", Bytes)]),
    keyed("acl_entries", 2, &[("principal", Text), ("list", Id), ("allow", Int), ("deny", Int)]),
    keyed("record_keys", 2, &[("record", Text), ("name", Text), ("kind", Text), ("value", Bytes)]),
    keyed(
        "records",
        1,
        &[
            ("id", Text),
            ("kind", Text),
            ("parent", Text),
            ("version", Int),
            ("generation", Int),
            ("effective", Id),
            ("created_at", Int),
            ("updated_at", Int),
            ("acl", Bytes),
            ("body", Bytes),
        ],
    ),
    keyed(
        "acl_work",
        1,
        &[
            ("record", Text),
            ("root", Text),
            ("rank", Int),
            ("level", Int),
            ("since", Int),
            ("due_at", Int),
            ("cursor", Text),
            ("attempt", Int),
            ("error", Text),
            ("row_version", Int),
        ],
    ),
    keyed(
        "definitions",
        3,
        &[
            ("namespace", Text),
            ("name", Text),
            ("version", Text),
            ("title", Text),
            ("source", Bytes),
            ("media_type", Text),
            ("ir", Bytes),
            ("created_at", Int),
        ],
    ),
    by_instance(
        "wf_instances",
        1,
        &[
            ("id", Id),
            ("namespace", Text),
            ("name", Text),
            ("version", Text),
            ("business_key", Text),
            ("business_parts", Bytes),
            ("status", Text),
            ("traceparent", Text),
            ("correlation_id", Text),
            ("created_at", Int),
            ("updated_at", Int),
            ("ended_at", Int),
            ("input", Bytes),
            ("output", Bytes),
            ("error", Bytes),
            ("context", Bytes),
            ("parent", Id),
            ("parent_token", Int),
            ("parent_item", Int),
        ],
    ),
    by_instance(
        "wf_runtime_states",
        1,
        &[
            ("runtime_instance_id", Id),
            ("state_version", Int),
            ("snapshot_schema_version", Int),
            ("runtime_provider", Text),
            ("runtime_status", Text),
            ("namespace", Text),
            ("name", Text),
            ("version", Text),
            ("business_key", Text),
            ("business_parts", Bytes),
            ("waiting_kind", Text),
            ("waiting_token", Text),
            ("waiting_until_utc", Int),
            ("active_task_id", Id),
            ("resume_pointer_json", Bytes),
            ("last_signal_id", Id),
            ("last_error_code", Text),
            ("last_error_json", Bytes),
            ("last_executed_by", Id),
            ("last_executed_on_utc", Int),
            ("created_on_utc", Int),
            ("completed_on_utc", Int),
            ("state_json", Bytes),
        ],
    ),
    by_instance("wf_history", 2, &[("instance", Id), ("version", Int), ("at", Int), ("events", Bytes)]),
    keyed(
        "wf_tasks",
        1,
        &[
            ("id", Id),
            ("instance", Id),
            ("token", Int),
            ("step", Text),
            ("title", Text),
            ("status", Text),
            ("assignee", Text),
            ("candidate_users", Bytes),
            ("candidate_groups", Bytes),
            ("priority", Int),
            ("due_at", Int),
            ("version", Int),
            ("created_at", Int),
            ("updated_at", Int),
            ("ended_at", Int),
            ("payload", Bytes),
            ("form", Bytes),
            ("result", Bytes),
        ],
    ),
    keyed(
        "wf_task_events",
        2,
        &[("task", Id), ("sequence", Int), ("kind", Text), ("actor", Text), ("at", Int), ("detail", Bytes)],
    ),
    keyed(
        "wf_dlq",
        1,
        &[
            ("id", Id),
            ("source", Text),
            ("reason", Text),
            ("detail", Text),
            ("instance", Id),
            ("origin", Bytes),
            ("attempts", Int),
            ("last_node", Id),
            ("failed_at", Int),
            ("envelope", Bytes),
            ("error_group", Id),
        ],
    ),
    keyed(
        "error_groups",
        1,
        &[
            ("id", Id),
            ("source", Text),
            ("target", Text),
            ("class", Text),
            ("step", Text),
            ("message", Text),
            ("count", Int),
            ("first_at", Int),
            ("last_at", Int),
            ("first_sample", Bytes),
            ("samples", Bytes),
        ],
    ),
    keyed(
        "inbox",
        2,
        &[("scope", Text), ("key", Text), ("created_at", Int), ("request_hash", Bytes), ("answer", Bytes)],
    ),
    keyed(
        "secrets",
        1,
        &[
            ("name", Text),
            ("version", Int),
            ("key_id", Text),
            ("sealed", Bytes),
            ("hosts", Bytes),
            ("created_at", Int),
            ("updated_at", Int),
        ],
    ),
    keyed("datasets", 1, &[("id", Id), ("count", Int), ("created_at", Int), ("owner", Id)]),
    keyed(
        "dataset_items",
        3,
        &[("dataset", Id), ("first", Int), ("round", Int), ("count", Int), ("items", Bytes)],
    ),
    keyed(
        "schedules",
        1,
        &[
            ("id", Id),
            ("namespace", Text),
            ("name", Text),
            ("version", Text),
            ("kind", Text),
            ("spec", Text),
            ("time_zone", Text),
            ("missed", Text),
            ("status", Text),
            ("anchor", Int),
            ("last_slot", Int),
            ("next_slot", Int),
            ("due_at", Int),
            ("instance", Id),
            ("row_version", Int),
            ("created_at", Int),
            ("updated_at", Int),
        ],
    ),
    keyed(
        "schedule_slots",
        2,
        &[
            ("schedule", Id),
            ("slot", Int),
            ("outcome", Text),
            ("count", Int),
            ("instance", Id),
            ("late_us", Int),
            ("at", Int),
            ("detail", Text),
        ],
    ),
    keyed(
        "batches",
        1,
        &[
            ("id", Id),
            ("act", Text),
            ("query", Text),
            ("arguments", Bytes),
            ("actor", Text),
            ("why", Text),
            ("status", Text),
            ("detail", Text),
            ("rate", Int),
            ("cursor", Id),
            ("selected_at", Int),
            ("matched", Int),
            ("sent", Int),
            ("done", Int),
            ("failed", Int),
            ("skipped", Int),
            ("forgiven", Int),
            ("due_at", Int),
            ("row_version", Int),
            ("created_at", Int),
            ("updated_at", Int),
            ("ended_at", Int),
        ],
    ),
    keyed("batch_items", 2, &[("batch", Id), ("item", Id), ("outcome", Text), ("detail", Text), ("at", Int)]),
    keyed("schedule_collections", 1, &[("schedule", Id), ("version", Int), ("open", Bytes)]),
    in_order(
        "events",
        &[
            ("id", Id),
            ("source", Text),
            ("event_id", Text),
            ("event_type", Text),
            ("received_at", Int),
            ("kept_until", Int),
            ("expires_at", Int),
            ("told", Int),
            ("taken", Int),
            ("started", Int),
            ("collected", Int),
            ("event", Bytes),
            ("delivered", Int),
            ("emitted_by", Text),
            ("trace_id", Text),
            ("correlation_id", Text),
        ],
    ),
    keyed(
        "subscriptions",
        4,
        &[
            ("kind", Text),
            ("owner", Id),
            ("token", Int),
            ("position", Int),
            ("event_type", Text),
            ("path", Text),
            ("value", Text),
        ],
    ),
    in_order(
        "outbox",
        &[("id", Id), ("key", Text), ("event_type", Text), ("created_at", Int), ("event", Bytes)],
    ),
    keyed(
        "wf_signal_q",
        1,
        &[
            ("id", Id),
            ("instance", Id),
            ("signal_type", Text),
            ("created_at", Int),
            ("visible_at", Int),
            ("attempt", Int),
            ("envelope", Bytes),
        ],
    ),
    by_instance(
        "wf_schedule_q",
        2,
        &[("instance", Id), ("token", Int), ("due_at", Int), ("attempt", Int), ("envelope", Bytes)],
    ),
    by_instance(
        "calls",
        2,
        &[
            ("instance", Id),
            ("token", Int),
            ("target", Text),
            ("created_at", Int),
            ("visible_at", Int),
            ("attempt", Int),
            ("envelope", Bytes),
            ("last_error", Bytes),
        ],
    ),
    keyed(
        "workers",
        1,
        &[
            ("name", Text),
            ("row_version", Int),
            ("created_at", Int),
            ("updated_at", Int),
            ("declaration", Bytes),
        ],
    ),
    keyed(
        "event_types",
        1,
        &[("name", Text), ("row_version", Int), ("created_at", Int), ("updated_at", Int), ("schema", Bytes)],
    ),
    in_order(
        "deliveries",
        &[
            ("id", Id),
            ("worker", Text),
            ("order_key", Text),
            ("created_at", Int),
            ("visible_at", Int),
            ("attempt", Int),
            ("events", Bytes),
            ("last_error", Bytes),
            ("debounce_key", Text),
            ("debounce_until", Int),
            ("trace_id", Text),
            ("correlation_id", Text),
        ],
    ),
    keyed(
        "watermarks",
        2,
        &[("worker", Text), ("name", Text), ("version", Int), ("updated_at", Int), ("value", Bytes)],
    ),
    keyed("worker_turns", 1, &[("worker", Text), ("next_at", Int)]),
    keyed(
        "audit_entries",
        1,
        &[
            ("id", Id),
            ("at", Int),
            ("act", Text),
            ("key_id", Text),
            ("subject", Text),
            ("object_kind", Text),
            ("object_id", Text),
            ("body", Bytes),
            ("content_hash", Bytes),
            ("chain_seq", Int),
            ("prev", Bytes),
            ("hash", Bytes),
        ],
    ),
    keyed(
        "audit_checkpoints",
        1,
        &[("chain_seq", Int), ("hash", Bytes), ("at", Int), ("key", Bytes), ("signature", Bytes)],
    ),
    keyed("audit_anchors", 0, &[("chain_seq", Int), ("hash", Bytes)]),
    keyed("tenant_clocks", 0, &[("ahead_us", Int)]),
    keyed(
        "tenants",
        0,
        &[
            ("title", Text),
            ("status", Text),
            ("created_at", Int),
            ("weight", Int),
            ("purge_at", Int),
            ("open_max", Int),
            ("starts_per_second", Int),
            ("concurrency_max", Int),
            ("degraded_per_second", Int),
        ],
    ),
];
