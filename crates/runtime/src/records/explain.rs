//! Why somebody may do something with a record, or may not.

use super::list_of;
use crate::{
    api::{AclExplanation, AclStep, Refusal},
    engine::Engine,
    refusal,
};
use machine::{
    TenantId,
    acl::{Acl, Effective, Right, Verdict},
    record::DEPTH_MAX,
};
use std::collections::BTreeSet;

/// What holds now, which grant decides it, and what will hold when all lists have been handed down.
pub(crate) async fn explain(
    engine: &Engine,
    tenant: &TenantId,
    id: &str,
    names: &BTreeSet<String>,
    right: Right,
) -> Result<AclExplanation, Refusal> {
    let above = engine.store.records().ancestors(tenant, id, DEPTH_MAX).await.map_err(refusal::of_store)?;
    let first = above.first().ok_or_else(|| Refusal::NotFound("record".to_owned()))?;
    let verdict = list_of(first)?.verdict(names, right);
    let mut path = Vec::with_capacity(above.len());
    for view in &above {
        let acl = Acl::parse(&view.row.acl).unwrap_or(Acl { inherits: false, grants: vec![] });
        let inherits = acl.inherits;
        path.push((view.row.id.clone(), acl));
        if !inherits {
            break;
        }
    }
    let fresh =
        path.iter().rev().fold(Effective::default(), |list, (_, acl)| Effective::of(Some(&list), acl));
    let (word, decided_by, denies) = match &verdict {
        Verdict::Allowed(name) => ("allowed", Some(name.clone()), false),
        Verdict::Denied(name) => ("denied", Some(name.clone()), true),
        Verdict::Silent => ("nothing-said", None, false),
    };
    let says = |acl: &Acl| {
        acl.grants.iter().any(|grant| {
            Some(&grant.to) == decided_by.as_ref() && grant.deny == denies && grant.rights.contains(&right)
        })
    };
    let decided_at = path.iter().find(|(_, acl)| says(acl)).map(|(record, _)| record.clone());
    let later = fresh.verdict(names, right).is_allowed();
    Ok(AclExplanation {
        record: id.to_owned(),
        right,
        names: names.iter().cloned().collect(),
        allowed: verdict.is_allowed(),
        verdict: word,
        decided_by,
        decided_at,
        path: path
            .into_iter()
            .map(|(record, acl)| AclStep {
                record,
                inherits: acl.inherits,
                grants: acl.grants.into_iter().filter(|grant| names.contains(&grant.to)).collect(),
            })
            .collect(),
        becomes: (later != verdict.is_allowed()).then_some(later),
    })
}
