//! Rows of records: a tenant's own entities, their kinds, the groups of people, and the lists of who may do what.

use machine::Time;
use uuid::Uuid;

/// `records`: one entity.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordRow {
    pub id: String,
    pub kind: String,
    pub parent: Option<String>,
    /// Raised by every change that somebody asked for; starts at 1.
    pub version: i64,
    /// JSON as it was given.
    pub body: Vec<u8>,
    /// JSON: the record's own grants.
    pub acl: Vec<u8>,
    /// The list that holds for it, in `acl_lists`.
    pub effective: Uuid,
    /// Raised by whatever changes the list that holds, the grants or the parent; starts at 1.
    pub generation: i64,
    pub created_at: Time,
    pub updated_at: Time,
}

/// `record_keys`: a value that lists are filtered and sorted by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordKey {
    pub name: String,
    /// Bytes in the order of the values.
    pub value: Vec<u8>,
}

/// A record, its keys, and the parent that it was made for.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRecord {
    pub row: RecordRow,
    pub keys: Vec<RecordKey>,
    /// The parent's generation when its list was read.
    pub parent_generation: Option<i64>,
}

/// `record_kinds`: what the bodies of a kind look like and what lists of it go by.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordKindRow {
    pub name: String,
    /// JSON Schema.
    pub schema: Option<Vec<u8>>,
    /// JSON: the keys declared.
    pub keys: Vec<u8>,
    pub row_version: i64,
    pub created_at: Time,
    pub updated_at: Time,
}

/// `groups` and `group_members`: people, and the roles they have by being in it.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupRow {
    pub name: String,
    /// Users, by name.
    pub members: Vec<String>,
    pub roles: Vec<String>,
    pub row_version: i64,
    pub created_at: Time,
    pub updated_at: Time,
}

/// `acl_lists` and `acl_entries`: a list that holds for records. It is known by what it holds and never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclListRow {
    pub id: Uuid,
    /// The list in its one form.
    pub list: Vec<u8>,
    /// Principal, rights allowed, rights denied.
    pub entries: Vec<(String, i64, i64)>,
}

/// `acl_work`: the list of this record has changed, and those below it are to be given theirs.
#[derive(Clone, Debug, PartialEq)]
pub struct AclWorkRow {
    pub record: String,
    /// The record where the change was made.
    pub root: String,
    /// Something is taken away: it goes before everything else.
    pub revokes: bool,
    /// How far below the change.
    pub level: i64,
    /// When the change was made.
    pub since: Time,
    pub due_at: Time,
    /// The last child that was given its list.
    pub cursor: Option<String>,
    pub attempt: u32,
    /// Why this record's own list cannot be made.
    pub error: Option<String>,
    /// Raised by every write.
    pub row_version: i64,
}

/// What the propagation reads of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct AclNode {
    pub id: String,
    pub parent: Option<String>,
    pub acl: Vec<u8>,
    pub effective: Uuid,
    pub generation: i64,
}
