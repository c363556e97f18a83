//! Answers the calls of `map` steps: starts the children of a batch, cancels those still open, gathers results.

use crate::{
    children::{Answer, Conception, Stop, program_of, read},
    datasets,
    dead_letters::commit_patiently,
    engine::Engine,
    rows,
};
use machine::{
    Command, Data, Fault, TenantId,
    child::{
        CloseItemsCall, INLINE_BYTES_MAX, Item, Outcome, Parent, ResultsCall, StartItemsCall, Tally, to_data,
    },
    command::Call,
    fault::Kind,
    id,
    state::OPEN_WORDS,
};
use std::{collections::BTreeSet, sync::Arc};
use store::{
    Write,
    datasets::ItemsRow,
    rows::CallRow,
    views::{InstanceFilter, InstanceView, PAGE_MAX, Page},
};
use uuid::Uuid;

/// Children decided before others get a turn.
const STRETCH: usize = 16;

/// One result as a dataset holds it.
pub(crate) fn result(index: u64, outcome: &Outcome) -> Data {
    let mut entries = vec![("index".to_owned(), Data::int(index.cast_signed()))];
    entries.extend(to_data(outcome).entries().unwrap_or_default());
    Data::map(entries)
}

/// Starts the children of one batch, all in one commit of the parent.
pub(crate) async fn start(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    row: &CallRow,
    call: &Call,
) -> Result<Answer, Stop> {
    let batch: StartItemsCall = read(call)?;
    let dataset = engine.store.dataset(tenant, batch.items).await?;
    let Some(dataset) = dataset else {
        let detail = format!("there is no dataset {}", id::show(id::Kind::Dataset, batch.items));
        return Err(Stop::Fault(Fault::new(Kind::Validation, detail)));
    };
    let program = program_of(engine, tenant, &batch.workflow).await?;
    let (from, to) = (batch.first, (batch.first + batch.count).min(dataset.count));
    let done = done_before(engine, tenant, row.instance, &batch, from, to).await?;
    let (Some(token), round) = (batch.rounds.last(), batch.rounds.len() as u32 - 1) else {
        return Err(Stop::Fault(Fault::new(Kind::Runtime, "a batch of no map step")));
    };
    let mut tally = Tally { succeeded: done.len() as u64, total: Some(dataset.count), ..Tally::default() };
    let (mut also, mut offspring, mut results) = (Vec::new(), Vec::new(), Vec::new());
    let items = datasets::items(engine.store.as_ref(), tenant, batch.items, from, to).await?;
    for (position, (index, input)) in items.into_iter().enumerate() {
        if done.contains(&index) {
            continue;
        }
        let item = Item { index: index as u32, results: batch.results, round };
        let parent = Parent {
            instance: row.instance,
            token: *token,
            depth: batch.depth,
            tell: true,
            item: Some(item),
        };
        let conception = Conception {
            tenant,
            id: id::derive_item(row.instance, *token, item.index),
            program: &program,
            input,
            key: None,
            trace: &call.trace,
            parent,
        };
        let (child, outcome) = conception.write(engine, &mut also).await?;
        offspring.push(child);
        if let Some(outcome) = outcome {
            tally.count(&outcome);
            results.push((index, result(index, &outcome)));
        }
        if position % STRETCH == STRETCH - 1 {
            tokio::task::yield_now().await;
        }
    }
    also.extend(result_rows(&batch, round, from, to, results));
    let command = Box::new(Command::Items { token: row.token, tally });
    Ok(Answer::Tell { command, also, offspring })
}

/// One row for a batch that ended whole, else one for each.
fn result_rows(
    batch: &StartItemsCall,
    round: u32,
    from: u64,
    to: u64,
    results: Vec<(u64, Data)>,
) -> Vec<Write> {
    let row = |first: u64, items: Vec<&Data>| {
        let count = items.len() as u64;
        Write::Items(ItemsRow { dataset: batch.results, first, round, count, items: rows::to_json(&items) })
    };
    match results.len() as u64 == to.saturating_sub(from) && !results.is_empty() {
        true => vec![row(from, results.iter().map(|(_, result)| result).collect())],
        false => results.iter().map(|(index, result)| row(*index, vec![result])).collect(),
    }
}

/// Items of the batch that succeeded in an earlier round. Waits while a child of one is still open.
async fn done_before(
    engine: &Engine,
    tenant: &TenantId,
    parent: Uuid,
    batch: &StartItemsCall,
    from: u64,
    to: u64,
) -> Result<BTreeSet<u64>, Stop> {
    let Some((_, earlier)) = batch.rounds.split_last().filter(|(_, earlier)| !earlier.is_empty()) else {
        return Ok(BTreeSet::new());
    };
    let mut after = None;
    loop {
        let open = open_children(engine, tenant, parent, after).await?;
        after = open.last().map(|view| view.row.id);
        let of_batch = |view: &InstanceView| {
            view.row.parent.is_some_and(|of| {
                let item = of.item.map_or(u64::MAX, u64::from);
                earlier.contains(&of.token) && (from..to).contains(&item)
            })
        };
        if open.iter().any(of_batch) {
            return Err(Stop::Again("children of an earlier round are still open".to_owned()));
        }
        if open.len() < PAGE_MAX {
            break;
        }
    }
    let results = datasets::items(engine.store.as_ref(), tenant, batch.results, from, to).await?;
    let succeeded =
        |result: &Data| result.get("status").is_some_and(|word| word.as_str() == Some("completed"));
    Ok(results.into_iter().filter(|(_, result)| succeeded(result)).map(|(index, _)| index).collect())
}

async fn open_children(
    engine: &Engine,
    tenant: &TenantId,
    parent: Uuid,
    after: Option<Uuid>,
) -> Result<Vec<InstanceView>, store::Error> {
    let filter = InstanceFilter {
        statuses: OPEN_WORDS.map(str::to_owned).to_vec(),
        parent: Some(parent),
        ..InstanceFilter::default()
    };
    engine.store.instances(tenant, &filter, &Page { after, limit: PAGE_MAX }).await
}

/// Tells every open child that its parent no longer waits for it, a page at a time. Begun again after a crash, it
/// tells some of them twice, which changes nothing.
pub(crate) async fn close(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    row: &CallRow,
    call: &Call,
) -> Result<Answer, Stop> {
    let CloseItemsCall { token } = read(call)?;
    let mut after = None;
    loop {
        let open = open_children(engine, tenant, row.instance, after).await?;
        after = open.last().map(|view| view.row.id);
        let now = engine.now();
        let of_wait = |view: &&InstanceView| view.row.parent.is_some_and(|parent| parent.token == token);
        let signals: Vec<Write> = open
            .iter()
            .filter(of_wait)
            .map(|view| Write::Signal(rows::parent_closed(tenant, view.row.id, now)))
            .collect();
        if !signals.is_empty() {
            if !commit_patiently(engine, tenant, signals).await {
                return Err(Stop::Again("the store did not take the signals".to_owned()));
            }
            engine.backlog();
        }
        if open.len() < PAGE_MAX {
            return Ok(Answer::Done);
        }
    }
}

/// Adds the results to the step's output, if they are small enough.
pub(crate) async fn results(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    row: &CallRow,
    call: &Call,
) -> Result<Answer, Stop> {
    let ResultsCall { results, total, output } = read(call)?;
    let found = datasets::items(engine.store.as_ref(), tenant, results, 0, total).await?;
    let found = Data::array(found.into_iter().map(|(_, result)| result));
    let mut entries = output.entries().unwrap_or_default();
    if found.to_bytes().len() <= INLINE_BYTES_MAX {
        entries.push(("results".to_owned(), found));
    }
    let command = Box::new(Command::CallDone { token: row.token, result: Data::map(entries) });
    Ok(Answer::Tell { command, also: vec![], offspring: vec![] })
}
