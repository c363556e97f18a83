//! Signals from outside: made durable first, then delivered; the same one sent again has no second effect.

use crate::{
    api::{Refusal, Signal},
    engine::Engine,
    patience::Patience,
    refusal, rows,
    starts::to_the_end,
    telling,
};
use machine::{
    Data, TenantId,
    command::{ENVELOPE_MAX, RUNTIME_PROVIDER, SignalEnvelope, SignalType},
    id,
};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use store::{Commit, Outcome, Write, rows::*};
use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;

/// Makes the signal durable, then delivers it from memory.
pub(crate) async fn signal(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    instance: Uuid,
    signal: Signal,
) -> Result<Uuid, Refusal> {
    let now = engine.now_of(tenant);
    let signal_id = signal.id.unwrap_or_else(|| engine.entropy.id(now));
    let hash = signal_hash(&signal);
    let event = Data::map([
        ("specversion".to_owned(), Data::text("1.0")),
        ("id".to_owned(), Data::text(id::show(id::Kind::Signal, signal_id))),
        ("source".to_owned(), Data::text("windlass/signals")),
        ("type".to_owned(), Data::text(signal.name)),
        ("time".to_owned(), Data::text(now.rfc3339())),
        ("data".to_owned(), signal.data),
    ]);
    let envelope = SignalEnvelope {
        signal_id,
        workflow_instance_id: instance,
        runtime_provider: RUNTIME_PROVIDER.to_owned(),
        signal_type: SignalType::ExternalSignal,
        expected_version: 0,
        waiting_token: None,
        occurred_at_utc: now.rfc3339(),
        due_at_utc: None,
        payload: Data::map([("event".to_owned(), event)]),
        tenant_id: Some(tenant.to_string()),
        trace_id: None,
        correlation_id: None,
    };
    let envelope = rows::to_json(&envelope);
    if envelope.len() > ENVELOPE_MAX {
        return Err(Refusal::Invalid {
            code: "signal-too-large",
            detail: format!("the signal has {} bytes, more than the {ENVELOPE_MAX} allowed", envelope.len()),
            problems: vec![],
        });
    }
    if engine.committer.is_full(tenant) {
        return Err(Refusal::Busy);
    }
    // Without room in memory the signal is backlog from the start.
    let permit = engine.turns.clone().try_acquire_owned().ok();
    let row = SignalRow {
        id: row_id(instance, signal_id),
        instance,
        signal_type: "ExternalSignal".to_owned(),
        envelope,
        created_at: now,
        visible_at: engine.real(tenant, now),
        attempt: 0,
        owner: permit.is_some().then_some(engine.node),
        taken_over: 0,
    };
    let (owned, tenant) = (engine.clone(), tenant.clone());
    to_the_end(engine, async move { commit_signal(&owned, &tenant, (signal_id, hash), row, permit).await })
        .await?;
    Ok(signal_id)
}

/// The sender chooses the signal's id and may send it to many instances: each has a row of its own.
fn row_id(instance: Uuid, signal: Uuid) -> Uuid {
    let digest = Sha256::new().chain_update(instance.as_bytes()).chain_update(signal.as_bytes()).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// Where the record of an accepted signal is kept.
fn signal_record(instance: Uuid, signal: Uuid) -> (String, String) {
    (format!("signal:{}", instance.simple()), signal.simple().to_string())
}

fn signal_hash(signal: &Signal) -> Vec<u8> {
    let name = Sha256::digest(signal.name.as_bytes());
    Sha256::new().chain_update(name).chain_update(signal.data.to_bytes()).finalize().to_vec()
}

/// Records of earlier builds have no hash.
fn is_same_signal(record: &InboxRow, hash: &[u8]) -> bool {
    record.request_hash.is_empty() || record.request_hash == hash
}

fn reused_signal_id() -> Refusal {
    Refusal::Invalid {
        code: "idempotency-key-reused",
        detail: "another signal was sent to this instance with the same id or idempotency key".to_owned(),
        problems: vec![],
    }
}

/// True if this very signal was accepted before; another one under its id is refused.
pub(crate) async fn is_sent(
    engine: &Engine,
    tenant: &TenantId,
    instance: Uuid,
    signal: &Signal,
) -> Result<bool, Refusal> {
    let Some(id) = signal.id else { return Ok(false) };
    let (scope, key) = signal_record(instance, id);
    match engine.store.inbox(tenant, &scope, &key).await.map_err(refusal::of_store)? {
        None => Ok(false),
        Some(record) if is_same_signal(&record, &signal_hash(signal)) => Ok(true),
        Some(_) => Err(reused_signal_id()),
    }
}

async fn commit_signal(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    (signal, request_hash): (Uuid, Vec<u8>),
    row: SignalRow,
    permit: Option<OwnedSemaphorePermit>,
) -> Result<(), Refusal> {
    let (scope, key) = signal_record(row.instance, signal);
    let record = InboxRow {
        scope: scope.clone(),
        key: key.clone(),
        request_hash: request_hash.clone(),
        answer: Vec::new(),
        created_at: row.created_at,
    };
    let writes = vec![Write::ClaimKey(record), Write::Signal(row.clone())];
    let mut patience = Patience::new();
    let mut unsure = false;
    loop {
        let commit = Commit { tenant: tenant.clone(), writes: writes.clone() };
        match engine.committer.commit(commit).await {
            Ok(Outcome::Committed) => break,
            // The record in the way may be this node's own, from a try whose answer got lost: deliver it then.
            Ok(Outcome::Conflict(_)) if unsure => break,
            Ok(Outcome::Conflict(_)) => {
                let record = engine.store.inbox(tenant, &scope, &key).await.map_err(refusal::of_store)?;
                return match record.is_none_or(|record| is_same_signal(&record, &request_hash)) {
                    true => Ok(()),
                    false => Err(reused_signal_id()),
                };
            }
            Ok(Outcome::Rejected(detail)) => {
                return Err(Refusal::Invalid { code: "refused-by-store", detail, problems: vec![] });
            }
            Err(store::Error::Unknown(_)) => {
                unsure = true;
                match engine.store.inbox(tenant, &scope, &key).await {
                    Ok(Some(_)) => break,
                    Ok(None) => {}
                    Err(error) => {
                        if !patience.wait(engine).await {
                            return Err(refusal::of_store(error));
                        }
                    }
                }
            }
            Err(error) => return Err(refusal::of_store(error)),
        }
    }
    match permit {
        Some(permit) => {
            telling::deliver_signal(engine, Claimed { tenant: tenant.clone(), row }, Some(permit)).await;
        }
        None => engine.backlog(),
    }
    Ok(())
}
