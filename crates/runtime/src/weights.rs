//! The weights of tenants: how much each is given where several wait for the same thing. The store knows them; a node
//! keeps those that differ from 1 in mind and reads them again when it is told that one changed, and now and then.

use crate::{api::Refusal, engine::Engine, refusal};
use machine::TenantId;
use std::collections::BTreeMap;
use store::{Commit, Conflict, Hint, Outcome, Write};

/// The largest weight.
pub const WEIGHT_MAX: u32 = 1_000;

/// Reads the weights, for who was told that one changed.
pub(crate) async fn reload(engine: &Engine) -> Result<(), store::Error> {
    let tenants = engine.store.tenants().await?;
    let heavy = tenants.into_iter().filter(|tenant| tenant.weight != 1);
    let weights: BTreeMap<TenantId, u32> = heavy.map(|tenant| (tenant.id, tenant.weight)).collect();
    engine.committer.weigh(weights.clone());
    engine.calls.weigh(weights.clone());
    engine.deliveries.weigh(weights);
    Ok(())
}

/// Changes what is given. A weight counts at once, for what is queued already too.
pub(crate) async fn change_tenant(
    engine: &Engine,
    tenant: &TenantId,
    title: Option<String>,
    weight: Option<u32>,
) -> Result<(), Refusal> {
    if weight.is_some_and(|weight| !(1..=WEIGHT_MAX).contains(&weight)) {
        let detail = format!("a weight is 1 to {WEIGHT_MAX}");
        return Err(Refusal::Invalid { code: "invalid-value", detail, problems: vec![] });
    }
    let write = Write::ChangeTenant { title, weight };
    let commit = Commit { tenant: tenant.clone(), writes: vec![write] };
    match engine.committer.commit(commit).await.map_err(refusal::of_store)? {
        Outcome::Committed => {}
        Outcome::Conflict(Conflict::Gone) => {
            return Err(Refusal::NotFound("tenant".to_owned()));
        }
        other => return Err(Refusal::Unavailable(format!("{other:?}"))),
    }
    if weight.is_some() {
        reload(engine).await.map_err(refusal::of_store)?;
        engine.hints.tell(Hint { clocks: true, ..Hint::default() });
    }
    Ok(())
}
