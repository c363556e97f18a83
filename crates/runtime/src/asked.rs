//! Asks the store once for many who want to know the same at the same time.
//!
//! Whoever asks while a question is under way waits for the next one: every answer was read after it was asked for, so
//! it is as good as one's own.

use crate::engine::Engine;
use machine::TenantId;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::oneshot;
use uuid::Uuid;

type Answer = Result<Vec<Uuid>, store::Error>;
/// Tenant and type of events.
type Key = (TenantId, String);

/// Which schedules want events of a type.
#[derive(Default)]
pub(crate) struct Asked {
    /// Who waits for the next question; a key is there while one is under way.
    waiting: Mutex<HashMap<Key, Vec<oneshot::Sender<Answer>>>>,
}

pub(crate) async fn schedules_on(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    event_type: &str,
    max: usize,
) -> Answer {
    let (reply, answer) = oneshot::channel();
    let key = (tenant.clone(), event_type.to_owned());
    let is_first = {
        let mut waiting = engine.asked.waiting.lock();
        let is_first = !waiting.contains_key(&key);
        waiting.entry(key.clone()).or_default().push(reply);
        is_first
    };
    if is_first {
        // A task of its own: whoever asked first may go away.
        let asking = engine.clone();
        engine.tasks.spawn(async move { ask(&asking, key, max).await });
    }
    answer.await.unwrap_or_else(|_| Err(store::Error::Unavailable("the node stopped".to_owned())))
}

/// Asks for all who wait, until nobody does.
async fn ask(engine: &Arc<Engine>, key: Key, max: usize) {
    loop {
        let waiting = match engine.asked.waiting.lock().get_mut(&key) {
            Some(waiting) if !waiting.is_empty() => std::mem::take(waiting),
            _ => Vec::new(),
        };
        if waiting.is_empty() {
            // Looked at again under the lock: somebody may have come in between.
            let mut all = engine.asked.waiting.lock();
            if all.get(&key).is_none_or(Vec::is_empty) {
                all.remove(&key);
                return;
            }
            continue;
        }
        let answer = engine.store.schedules_on(&key.0, &key.1, max).await;
        for reply in waiting {
            // A caller that went away does not care for the answer.
            let _ = reply.send(answer.clone());
        }
    }
}
