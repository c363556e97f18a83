//! What is asked about records.

use machine::{
    Data,
    acl::{Acl, Grant, Right},
};
use std::collections::BTreeSet;

/// Who asks about records.
#[derive(Clone, Debug, Default)]
pub struct Asker {
    /// All that somebody is: `user:…`, `group:…`, `role:…`. `None` is whoever may see and change every record.
    pub names: Option<BTreeSet<String>>,
}

impl Asker {
    /// Whoever may see and change every record.
    pub fn of_all() -> Asker {
        Asker { names: None }
    }

    pub fn of(names: impl IntoIterator<Item = String>) -> Asker {
        Asker { names: Some(names.into_iter().collect()) }
    }

    /// The names as a store is asked with them.
    pub fn list(&self) -> Option<Vec<String>> {
        self.names.as_ref().map(|names| names.iter().cloned().collect())
    }

    /// The user among the names.
    pub(crate) fn user(&self) -> Option<&str> {
        self.names.iter().flatten().map(String::as_str).find(|name| name.starts_with("user:"))
    }
}

/// A record to make.
#[derive(Clone, Debug)]
pub struct RecordDraft {
    /// A fresh one unless given.
    pub id: Option<String>,
    pub kind: String,
    pub parent: Option<String>,
    pub body: Data,
    pub acl: Option<Acl>,
}

/// What to change of a record; what is not given stays.
#[derive(Clone, Debug, Default)]
pub struct RecordChange {
    pub body: Option<Data>,
    /// `Some(None)` puts it at the top.
    pub parent: Option<Option<String>>,
    pub acl: Option<Acl>,
    /// Only if the record is at this version.
    pub version: Option<i64>,
}

/// Why somebody may or may not.
#[derive(Clone, Debug)]
pub struct AclExplanation {
    pub record: String,
    pub right: Right,
    pub names: Vec<String>,
    pub allowed: bool,
    /// `allowed`, `denied` or `nothing-said`.
    pub verdict: &'static str,
    /// Of all names, the one that decides.
    pub decided_by: Option<String>,
    /// The record whose grant that is.
    pub decided_at: Option<String>,
    /// The record and those above it, nearest first, up to the first that does not inherit.
    pub path: Vec<AclStep>,
    /// What will hold once all lists have been handed down, if that is something else.
    pub becomes: Option<bool>,
}

/// What one record of the path says about the names.
#[derive(Clone, Debug)]
pub struct AclStep {
    pub record: String,
    pub inherits: bool,
    pub grants: Vec<Grant>,
}
