//! Who may do what with a record: its own grants, what it inherits, and what follows from both.
//!
//! [`Effective::of`] is the one place where an effective list is made: from the parent's effective list and the record's own
//! grants, nothing else. The nearest word about a principal counts; of all that is said about a subject's principals, a deny
//! beats every allow; what nobody allows is denied.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// The most grants of one record.
pub const GRANTS_MAX: usize = 100;
/// The longest name of a user, group or role.
pub const NAME_BYTES_MAX: usize = 200;
/// What a principal may be.
const KINDS: [&str; 3] = ["user:", "group:", "role:"];

/// What may be done with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Right {
    /// See it.
    Read,
    /// Change its body, delete it, put others below it.
    Write,
    /// Change its grants and its parent.
    Share,
}

impl Right {
    pub const ALL: [Right; 3] = [Right::Read, Right::Write, Right::Share];

    /// The right as one bit of what a list's entry holds.
    pub fn bit(self) -> i64 {
        match self {
            Right::Read => 1,
            Right::Write => 2,
            Right::Share => 4,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Right::Read => "read",
            Right::Write => "write",
            Right::Share => "share",
        }
    }

    pub fn by_word(word: &str) -> Option<Right> {
        Right::ALL.into_iter().find(|right| right.word() == word)
    }
}

/// One line of a record's own list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// `user:…`, `group:…` or `role:…`.
    pub to: String,
    pub rights: Vec<Right>,
    /// It takes the rights away instead of giving them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub deny: bool,
}

/// What is said of one record itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acl {
    /// What holds for the parent holds here too, unless a grant says otherwise.
    #[serde(default = "yes")]
    pub inherits: bool,
    #[serde(default)]
    pub grants: Vec<Grant>,
}

impl Default for Acl {
    fn default() -> Acl {
        Acl { inherits: true, grants: Vec::new() }
    }
}

fn yes() -> bool {
    true
}

fn is_false(value: &bool) -> bool {
    !value
}

/// What is wrong with the name of a principal, if anything.
pub fn principal_problem(principal: &str) -> Option<String> {
    let name = KINDS.iter().find_map(|kind| principal.strip_prefix(kind));
    match name {
        None => Some(format!("`{principal}` is none of user:…, group:…, role:…")),
        Some(name) => name_problem(name),
    }
}

/// What is wrong with the name of a user, group or role, if anything.
pub fn name_problem(name: &str) -> Option<String> {
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
    (!is_name).then(|| format!("a name has 1 to {NAME_BYTES_MAX} bytes and no control characters"))
}

impl Acl {
    /// Reads a stored list.
    pub fn parse(bytes: &[u8]) -> Result<Acl, String> {
        let acl: Acl = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match acl.problem() {
            None => Ok(acl),
            Some(problem) => Err(problem),
        }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("names and words are JSON")
    }

    /// What is wrong with it, if anything.
    pub fn problem(&self) -> Option<String> {
        if self.grants.len() > GRANTS_MAX {
            return Some(format!("a record has at most {GRANTS_MAX} grants"));
        }
        self.grants.iter().find_map(|grant| match grant.rights.is_empty() {
            true => Some(format!("the grant to `{}` names no right", grant.to)),
            false => principal_problem(&grant.to),
        })
    }
}

/// What holds for one principal, as bits of [`Right`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub allow: i64,
    pub deny: i64,
}

/// What holds for a record: its own grants and all that it inherits, by principal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Effective(pub BTreeMap<String, Entry>);

/// Whether a subject may, and which principal decides it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed(String),
    Denied(String),
    /// Nobody says anything.
    Silent,
}

impl Verdict {
    pub fn is_allowed(&self) -> bool {
        matches!(self, Verdict::Allowed(_))
    }
}

impl Effective {
    /// What follows from the parent's list and a record's own grants.
    pub fn of(parent: Option<&Effective>, own: &Acl) -> Effective {
        let mut entries = match parent {
            Some(parent) if own.inherits => parent.0.clone(),
            _ => BTreeMap::new(),
        };
        let mut said = BTreeMap::<&str, Entry>::new();
        for grant in &own.grants {
            let entry = said.entry(&grant.to).or_default();
            let bits = grant.rights.iter().fold(0, |bits, right| bits | right.bit());
            if grant.deny { entry.deny |= bits } else { entry.allow |= bits }
        }
        for (principal, Entry { allow, deny }) in said {
            let allow = allow & !deny;
            let entry = entries.entry(principal.to_owned()).or_default();
            *entry = Entry { allow: (entry.allow & !deny) | allow, deny: (entry.deny & !allow) | deny };
        }
        Effective(entries)
    }

    /// Reads a stored list.
    pub fn parse(bytes: &[u8]) -> Result<Effective, String> {
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }

    /// The list in its one form: equal lists have equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("names and numbers are JSON")
    }

    /// What the list is known by: equal lists have the same, others another.
    pub fn id(&self) -> Uuid {
        let digest = Sha256::digest(self.to_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        uuid::Builder::from_custom_bytes(bytes).into_uuid()
    }

    /// Whether somebody who is all of these may.
    pub fn verdict(&self, principals: &BTreeSet<String>, right: Right) -> Verdict {
        let bit = right.bit();
        let said = |wanted: fn(&Entry) -> i64| {
            principals.iter().find(|one| self.0.get(*one).is_some_and(|entry| wanted(entry) & bit != 0))
        };
        match (said(|entry| entry.deny), said(|entry| entry.allow)) {
            (Some(denied), _) => Verdict::Denied(denied.clone()),
            (None, Some(allowed)) => Verdict::Allowed(allowed.clone()),
            (None, None) => Verdict::Silent,
        }
    }

    /// True if `after` takes something from anybody: such a change is handed down first.
    pub fn loses_in(&self, after: &Effective) -> bool {
        let at = |list: &Effective, principal: &str| list.0.get(principal).copied().unwrap_or_default();
        let principals = self.0.keys().chain(after.0.keys());
        principals.into_iter().any(|principal| {
            let (was, is) = (at(self, principal), at(after, principal));
            was.allow & !is.allow != 0 || is.deny & !was.deny != 0
        })
    }
}
