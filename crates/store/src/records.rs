//! The part of the port that is about records: what is written, what is asked. The contract is that of [`crate::Store`].

use crate::{port::Result, rows::*};
use async_trait::async_trait;
use machine::{TenantId, Time};
use uuid::Uuid;

/// One write about records.
#[derive(Clone, Debug)]
pub enum RecordWrite {
    // ---- guards ----
    /// Inserts records with their keys; `Conflict::Exists` if one is there, `Conflict::Version` if a parent is not there or
    /// has another generation.
    Create(Vec<NewRecord>),
    /// Replaces the record and its keys if it is at this version and generation, its parent is there with the generation
    /// that is given, if one is, and everybody on the path still has that parent; else `Conflict::Version`.
    Update {
        new: Box<NewRecord>,
        version: i64,
        generation: i64,
        /// Records from the parent upwards, and the parent of each: nobody may have moved since it was looked for a circle.
        path: Vec<(String, Option<String>)>,
    },
    /// Deletes the record, its keys and the work for it if it is at this version and nothing is below it; else
    /// `Conflict::Version`.
    Delete {
        id: String,
        version: i64,
    },
    /// Gives records another list if they have that parent and generation still; those that have not stay as they are. Ends
    /// in `Conflict::Version` if a parent's generation is another.
    HandDown {
        parents: Vec<(String, i64)>,
        children: Vec<Handed>,
    },
    /// Work that is done, or goes on behind a cursor; `Conflict::Gone` if any is at another version.
    SettleWork(Vec<WorkStep>),
    /// Inserts or replaces, by version, as with workers.
    PutKind {
        row: RecordKindRow,
        expected_version: i64,
    },
    /// Deletes the kind if no record is of it; else `Conflict::Gone`.
    DeleteKind {
        name: String,
    },
    PutGroup {
        row: GroupRow,
        expected_version: i64,
    },
    DeleteGroup {
        name: String,
    },
    // ---- plain writes ----
    /// Inserts lists; those that are there stay as they are.
    Lists(Vec<AclListRow>),
    /// Inserts work, or puts it in the place of what is there for the same record: from the beginning, with the earlier time
    /// of the two, and first if either takes something away. Nothing for a record that has nothing below it, no work yet
    /// and no error.
    PutWork(Vec<AclWorkRow>),
}

/// A record that is given its list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    pub id: String,
    pub parent: Option<String>,
    pub generation: i64,
    pub effective: Uuid,
}

/// What became of some work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkStep {
    pub record: String,
    pub row_version: i64,
    pub then: WorkThen,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkThen {
    Done,
    /// Children up to this one are done.
    GoOn(String),
    /// Later again, for a reason.
    Later {
        due_at: Time,
        attempt: u32,
        error: String,
    },
}

impl RecordWrite {
    /// Rows written or deleted, and the bytes of what is stored in them.
    pub(crate) fn cost(&self) -> (u64, usize) {
        let of = |new: &NewRecord| (1 + new.keys.len() as u64, new.row.body.len() + new.row.acl.len());
        match self {
            RecordWrite::Create(all) => {
                all.iter().map(of).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
            }
            RecordWrite::Update { new, .. } => of(new),
            RecordWrite::HandDown { children, .. } => (children.len() as u64, 0),
            RecordWrite::SettleWork(steps) => (steps.len() as u64, 0),
            RecordWrite::Lists(lists) => (lists.len() as u64, lists.iter().map(|one| one.list.len()).sum()),
            RecordWrite::PutWork(rows) => (rows.len() as u64, 0),
            _ => (1, 0),
        }
    }
}

/// A record and the list that holds for it.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordView {
    pub row: RecordRow,
    pub list: Vec<u8>,
}

/// A key that must lie within bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyCondition {
    pub name: String,
    /// From this one on; `true` if without it.
    pub from: Option<(Vec<u8>, bool)>,
    /// Up to this one; `true` if without it.
    pub to: Option<(Vec<u8>, bool)>,
}

/// Which records to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordAsk {
    pub kind: Option<String>,
    /// Those below this one.
    pub parent: Option<String>,
    /// Only those that somebody with all of these names may read; all if `None`.
    pub seen_by: Option<Vec<String>>,
    pub conditions: Vec<KeyCondition>,
    /// By this key of the kind, else by id.
    pub sort: Option<String>,
    pub descending: bool,
    /// The value and the id of the last that was listed.
    pub after: Option<(Vec<u8>, String)>,
    pub limit: usize,
}

/// A record of a list, and the value that it is sorted by.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    pub view: RecordView,
    pub value: Vec<u8>,
}

/// How far lists have been handed down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Records whose children are still to be given their lists.
    pub records: u64,
    pub revoking: u64,
    pub failed: u64,
    /// When the oldest change that is not through was made.
    pub since: Option<Time>,
}

/// What is asked about records.
#[async_trait]
pub trait Records: Send + Sync {
    /// The record, if somebody with all of these names may read it; whoever asks with `None` may.
    async fn record(
        &self,
        tenant: &TenantId,
        id: &str,
        seen_by: Option<&[String]>,
    ) -> Result<Option<RecordView>>;
    async fn records(&self, tenant: &TenantId, ask: &RecordAsk) -> Result<Vec<Listed>>;
    /// The record and those above it, nearest first, at most `limit`.
    async fn ancestors(&self, tenant: &TenantId, id: &str, limit: usize) -> Result<Vec<RecordView>>;
    async fn has_children(&self, tenant: &TenantId, id: &str) -> Result<bool>;
    async fn record_kind(&self, tenant: &TenantId, name: &str) -> Result<Option<RecordKindRow>>;
    /// By name.
    async fn record_kinds(&self, tenant: &TenantId) -> Result<Vec<RecordKindRow>>;
    async fn group(&self, tenant: &TenantId, name: &str) -> Result<Option<GroupRow>>;
    /// By name; those that the user is in, if one is given.
    async fn groups(&self, tenant: &TenantId, member: Option<&str>) -> Result<Vec<GroupRow>>;

    // ---- handing lists down ----
    async fn acl_nodes(&self, tenant: &TenantId, ids: &[String]) -> Result<Vec<AclNode>>;
    /// Children of these, by parent and id, those after `after`.
    async fn acl_children(
        &self,
        tenant: &TenantId,
        parents: &[String],
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<AclNode>>;
    async fn acl_lists(&self, tenant: &TenantId, ids: &[Uuid]) -> Result<Vec<(Uuid, Vec<u8>)>>;
    /// Work that is due, of every tenant that is not parked at most `limit`: what takes something away first, then level by
    /// level.
    async fn due_acl_work(&self, now: Time, limit: usize) -> Result<Vec<Claimed<AclWorkRow>>>;
    async fn next_acl_work(&self) -> Result<Option<Time>>;
    /// Of one tenant or of all.
    async fn acl_pending(&self, tenant: Option<&TenantId>) -> Result<Pending>;
    /// What a tenant has still to be done: that which failed first.
    async fn acl_work(&self, tenant: &TenantId, limit: usize) -> Result<Vec<AclWorkRow>>;
    /// True while a change that was made at this record is not through.
    async fn acl_propagates(&self, tenant: &TenantId, root: &str) -> Result<bool>;
}
