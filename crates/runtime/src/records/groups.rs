//! Groups: who belongs together, and which roles they have by it.

use super::{TRIES_MAX, invalid, write};
use crate::{api::Refusal, engine::Engine, refusal, remote};
use machine::{TenantId, acl};
use std::collections::BTreeSet;
use store::{Conflict, Outcome, RecordWrite, rows::GroupRow};

/// Groups that a tenant may have, members of one, and roles of one.
const GROUPS_MAX: usize = 10_000;
const MEMBERS_MAX: usize = 10_000;
const ROLES_MAX: usize = 100;

/// All that a user is: itself, the groups it is in, and the roles of those.
pub(crate) async fn names_of(
    engine: &Engine,
    tenant: &TenantId,
    user: &str,
) -> Result<BTreeSet<String>, Refusal> {
    let groups = engine.store.records().groups(tenant, Some(user)).await.map_err(refusal::of_store)?;
    let mut names = BTreeSet::from([format!("user:{user}")]);
    for group in groups {
        names.insert(format!("group:{}", group.name));
        names.extend(group.roles.iter().map(|role| format!("role:{role}")));
    }
    Ok(names)
}

/// Makes or replaces a group. `true` if it is new.
pub(crate) async fn put_group(
    engine: &Engine,
    tenant: &TenantId,
    name: &str,
    members: &BTreeSet<String>,
    roles: &BTreeSet<String>,
) -> Result<bool, Refusal> {
    let mut all = std::iter::once(name).chain(members.iter().chain(roles).map(String::as_str));
    if let Some(problem) = all.find_map(acl::name_problem) {
        return Err(invalid("invalid-value", problem));
    }
    if members.len() > MEMBERS_MAX || roles.len() > ROLES_MAX {
        let detail = format!("a group has at most {MEMBERS_MAX} members and {ROLES_MAX} roles");
        return Err(invalid("invalid-value", detail));
    }
    for _ in 0..TRIES_MAX {
        let before = engine.store.records().group(tenant, name).await.map_err(refusal::of_store)?;
        if before.is_none() {
            let all = engine.store.records().groups(tenant, None).await.map_err(refusal::of_store)?;
            if all.len() >= GROUPS_MAX {
                return Err(invalid("invalid-value", format!("a tenant may have {GROUPS_MAX} groups")));
            }
        }
        let (now, expected_version) = (engine.now(), before.as_ref().map_or(0, |row| row.row_version));
        let row = GroupRow {
            name: name.to_owned(),
            members: members.iter().cloned().collect(),
            roles: roles.iter().cloned().collect(),
            row_version: expected_version + 1,
            created_at: before.map_or(now, |row| row.created_at),
            updated_at: now,
        };
        let put = write(RecordWrite::PutGroup { row, expected_version });
        if remote::commit(engine, tenant, vec![put]).await? == Outcome::Committed {
            return Ok(expected_version == 0);
        }
    }
    Err(Refusal::Busy)
}

/// Nobody is in it any more.
pub(crate) async fn delete_group(engine: &Engine, tenant: &TenantId, name: &str) -> Result<(), Refusal> {
    let delete = write(RecordWrite::DeleteGroup { name: name.to_owned() });
    match remote::commit(engine, tenant, vec![delete]).await? {
        Outcome::Committed => Ok(()),
        Outcome::Conflict(Conflict::Gone) => Err(Refusal::NotFound("group".to_owned())),
        other => Err(Refusal::Unavailable(format!("{other:?}"))),
    }
}
