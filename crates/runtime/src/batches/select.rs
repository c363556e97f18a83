//! What a batch acts on: found by its query, written down page by page before anything is done.

use super::{Plan, halted, put};
use crate::{
    api::{Preview, Refusal},
    engine::Engine,
    refusal,
};
use machine::{
    TenantId, Time,
    query::{Condition, Field, Subject, Test},
};
use store::{
    Write,
    rows::BatchRow,
    views::{DeadLetterFilter, InstanceFilter, PAGE_MAX, Page},
};
use uuid::Uuid;

/// The most items of one batch.
pub(crate) const ITEMS_MAX: u64 = 1_000_000;
/// How far a preview counts.
const COUNTED_MAX: usize = 10_000;
/// Examples that a preview shows.
const SAMPLES_MAX: usize = 5;

/// Ids of what meets the conditions, newest first.
async fn find(
    engine: &Engine,
    tenant: &TenantId,
    (subject, conditions): (Subject, Vec<Condition>),
    page: &Page,
) -> Result<Vec<Uuid>, store::Error> {
    match subject {
        Subject::Instances => {
            let filter = InstanceFilter { conditions, ..InstanceFilter::default() };
            let found = engine.store.instances(tenant, &filter, page).await?;
            Ok(found.into_iter().map(|view| view.row.id).collect())
        }
        Subject::DeadLetters => {
            let filter = DeadLetterFilter { conditions, ..DeadLetterFilter::default() };
            let found = engine.store.dead_letters(tenant, &filter, page).await?;
            Ok(found.into_iter().map(|letter| letter.id).collect())
        }
        // No act is about these.
        Subject::Deliveries | Subject::Events | Subject::Audit => Ok(vec![]),
    }
}

/// True if the item still meets the query of the batch.
pub(super) async fn still_meets(
    engine: &Engine,
    tenant: &TenantId,
    plan: &Plan,
    item: Uuid,
) -> Result<bool, store::Error> {
    let mut conditions = plan.conditions.clone();
    conditions.push(Condition { field: Field::Id, not: false, test: Test::Ids(vec![(item, item)]) });
    let page = Page { after: None, limit: 1 };
    Ok(!find(engine, tenant, (plan.act.subject(), conditions), &page).await?.is_empty())
}

/// Counts what a query finds now, up to a bound, with a few examples.
pub(crate) async fn preview(
    engine: &Engine,
    tenant: &TenantId,
    subject: Subject,
    conditions: &[Condition],
) -> Result<Preview, Refusal> {
    let mut preview = Preview::default();
    let mut after = None;
    loop {
        let page = Page { after, limit: PAGE_MAX };
        let found =
            find(engine, tenant, (subject, conditions.to_vec()), &page).await.map_err(refusal::of_store)?;
        preview.matched += found.len() as u64;
        let room = SAMPLES_MAX.saturating_sub(preview.samples.len());
        preview.samples.extend(found.iter().take(room));
        after = found.last().copied();
        if found.len() < PAGE_MAX {
            return Ok(preview);
        }
        if preview.matched >= COUNTED_MAX as u64 {
            preview.more = true;
            return Ok(preview);
        }
    }
}

/// Writes down the next page of what the batch acts on. What came into being after the batch is left out, however its id
/// sorts. Answers when to go on.
pub(super) async fn page(
    engine: &Engine,
    tenant: &TenantId,
    row: &mut BatchRow,
    plan: &Plan,
) -> Result<Option<Time>, store::Error> {
    let mut conditions = plan.conditions.clone();
    let before = Test::Times(None, Some(Time(row.created_at.0.saturating_add(1))));
    conditions.push(Condition { field: Field::Created, not: false, test: before });
    let page = Page { after: row.cursor, limit: PAGE_MAX };
    let items = find(engine, tenant, (plan.act.subject(), conditions), &page).await?;
    let is_last = items.len() < PAGE_MAX;
    let mut after = BatchRow {
        cursor: items.last().copied().or(row.cursor),
        matched: row.matched + items.len() as u64,
        selected_at: is_last.then(|| engine.now_of(tenant)),
        ..row.clone()
    };
    if after.matched >= ITEMS_MAX && !is_last {
        after.selected_at = Some(engine.now_of(tenant));
        after = halted(
            &after,
            format!("the query finds more than {ITEMS_MAX} items; resume to act on the first"),
        );
    }
    let goes_on = after.due_at.is_some();
    match put(engine, tenant, row, after, vec![Write::BatchItems { batch: row.id, items }]).await? {
        Some(landed) if goes_on => {
            *row = landed;
            Ok(Some(engine.now()))
        }
        _ => Ok(None),
    }
}
