//! What people do with batches: make one, pause, resume, cancel, change its rate.

use super::{CANCELLED, DONE, HALTED, PAUSED, RUNNING, put};
use crate::{
    api::{BatchOrder, NewBatch, Refusal},
    engine::Engine,
    refusal, rows,
    starts::START_SCOPE,
};
use machine::{TenantId, id, query};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use store::{
    Commit, Conflict, Hint, Outcome, Write,
    rows::{BatchCounts, BatchRow, InboxRow},
};
use uuid::Uuid;

/// Times a change is tried again when somebody else changed the batch meanwhile.
const TRIES_MAX: usize = 8;

/// Makes a batch. The same idempotency key and request answer the same batch, and `true`.
pub(crate) async fn create(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    wanted: NewBatch,
    actor: &str,
) -> Result<(Uuid, bool), Refusal> {
    let now = engine.now_of(tenant);
    let NewBatch { act, query, rate, why, idempotency_key } = wanted;
    let conditions = query::parse(act.subject(), &query, now).map_err(|error| Refusal::Invalid {
        code: "invalid-query",
        detail: error.to_string(),
        problems: vec![],
    })?;
    if conditions.is_empty() {
        return Err(Refusal::Invalid {
            code: "empty-query",
            detail: "a batch on everything is refused: say what it acts on".to_owned(),
            problems: vec![],
        });
    }
    let hash = Sha256::new()
        .chain_update(rows::to_json(&act))
        .chain_update([0])
        .chain_update(query.trim())
        .chain_update(rate.to_be_bytes())
        .finalize()
        .to_vec();
    let row = fresh(engine, tenant, NewBatch { act, query, rate, why, idempotency_key: None }, actor);
    let batch = row.id;
    tracing::info!(%tenant, %batch, actor, act = row.act, query = row.query, rate, why = row.why, "batch");
    let mut writes = Vec::new();
    let key = idempotency_key.map(|key| hashed(&key));
    if let Some(key) = &key {
        writes.push(Write::ClaimKey(InboxRow {
            scope: START_SCOPE.to_owned(),
            key: key.clone(),
            request_hash: hash.clone(),
            answer: batch.as_bytes().to_vec(),
            created_at: now,
        }));
    }
    writes.push(Write::PutBatch { row: Box::new(row), expected_version: 0 });
    let landed = engine.committer.commit(Commit { tenant: tenant.clone(), writes }).await;
    let answer = match (landed, key) {
        (Ok(Outcome::Committed), _) => Ok((batch, false)),
        (Ok(Outcome::Conflict(Conflict::Duplicate)) | Err(store::Error::Unknown(_)), Some(key)) => {
            earlier(engine, tenant, &key, &hash, batch).await
        }
        (Ok(other), _) => Err(crate::handle::unexpected(&other)),
        (Err(error), _) => Err(refusal::of_store(error)),
    };
    wake(engine);
    answer
}

/// A batch that begins at once.
fn fresh(engine: &Engine, tenant: &TenantId, wanted: NewBatch, actor: &str) -> BatchRow {
    let now = engine.now_of(tenant);
    BatchRow {
        id: engine.entropy.id(now),
        act: wanted.act.word().to_owned(),
        query: wanted.query.trim().to_owned(),
        arguments: rows::to_json(&wanted.act),
        actor: actor.to_owned(),
        why: wanted.why,
        status: RUNNING.to_owned(),
        detail: None,
        rate: wanted.rate,
        cursor: None,
        selected_at: None,
        matched: 0,
        counts: BatchCounts::default(),
        forgiven: 0,
        due_at: Some(engine.now()),
        row_version: 1,
        created_at: now,
        updated_at: now,
        ended_at: None,
    }
}

/// Among the keys of starts, under a name that none of those has.
fn hashed(key: &str) -> String {
    let digest = Sha256::digest(key.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("batch:{hex}")
}

/// The batch that the key was used for, if the request is the same.
async fn earlier(
    engine: &Engine,
    tenant: &TenantId,
    key: &str,
    hash: &[u8],
    fresh: Uuid,
) -> Result<(Uuid, bool), Refusal> {
    let record = engine.store.inbox(tenant, START_SCOPE, key).await.map_err(refusal::of_store)?;
    match record {
        Some(record) if record.request_hash == hash => {
            let batch = Uuid::from_slice(&record.answer).unwrap_or_default();
            Ok((batch, batch != fresh))
        }
        Some(_) => Err(Refusal::KeyReused),
        None => Err(Refusal::Unavailable("the batch could not be made; retry".to_owned())),
    }
}

/// Pauses, resumes or cancels a batch, or changes its rate; answers it as it is then. What has that status already stays.
pub(crate) async fn order(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    batch: Uuid,
    order: BatchOrder,
    actor: &str,
) -> Result<BatchRow, Refusal> {
    for _ in 0..TRIES_MAX {
        let row = engine.store.batch(tenant, batch).await.map_err(refusal::of_store)?;
        let row = row.ok_or_else(|| Refusal::NotFound("batch".to_owned()))?;
        let Some(after) = ordered(engine, tenant, &row, order, actor)? else { return Ok(row) };
        if let Some(landed) = put(engine, tenant, &row, after, vec![]).await.map_err(refusal::of_store)? {
            tracing::info!(%tenant, %batch, actor, ?order, "order");
            wake(engine);
            return Ok(landed);
        }
    }
    Err(Refusal::Busy)
}

/// The batch as it is to be; `None` if it is so already.
fn ordered(
    engine: &Engine,
    tenant: &TenantId,
    row: &BatchRow,
    order: BatchOrder,
    actor: &str,
) -> Result<Option<BatchRow>, Refusal> {
    let due_at = Some(engine.now());
    let status = row.status.as_str();
    let by = |word: &str| Some(format!("{word} by {actor}"));
    Ok(Some(match (order, status) {
        (BatchOrder::Pause, PAUSED) | (BatchOrder::Resume, RUNNING) | (BatchOrder::Cancel, CANCELLED) => {
            return Ok(None);
        }
        (_, DONE | CANCELLED) => {
            let detail = format!("the batch {} is {status}", id::show(id::Kind::Batch, row.id));
            return Err(Refusal::Conflict { code: "batch-ended", detail, existing: None });
        }
        (BatchOrder::Pause, _) => {
            BatchRow { status: PAUSED.to_owned(), detail: by("paused"), due_at: None, ..row.clone() }
        }
        // Whoever goes on from failures has seen them.
        (BatchOrder::Resume, _) => BatchRow {
            status: RUNNING.to_owned(),
            detail: None,
            forgiven: row.counts.failed,
            due_at,
            ..row.clone()
        },
        (BatchOrder::Cancel, _) => BatchRow {
            status: CANCELLED.to_owned(),
            detail: by("cancelled"),
            due_at: None,
            ended_at: Some(engine.now_of(tenant)),
            ..row.clone()
        },
        (BatchOrder::Rate(rate), HALTED | PAUSED) => BatchRow { rate, ..row.clone() },
        (BatchOrder::Rate(rate), _) => BatchRow { rate, due_at, ..row.clone() },
    }))
}

/// A batch has something to do: this node looks, and the others are told.
fn wake(engine: &Engine) {
    engine.wake.batches.at(engine.now());
    engine.hints.tell(Hint::queues());
}
