//! Who acts. What a request is about goes with its work through the runtime, so that the very commit which the work leads to
//! also writes the entry of the audit trail ([0045](../../../docs/decisions/0045-audit.md)).
//!
//! The server makes an [`Acting`] for every request that changes something and does the work [`within`] it. Whoever hands
//! work to another task hands the acting on. Work of the engine itself is done by nobody and leaves no entry.

use crate::{audit::object, engine::Engine};
use machine::{
    TenantId, Time,
    audit::{Entry, Object, Who, content_hash, hex},
    time::Span,
};
use parking_lot::Mutex;
use std::{collections::BTreeSet, future::Future, sync::Arc};
use store::{Commit, Error, Outcome, Write, rows::AuditRow};
use uuid::Uuid;

/// Entries that land within so long are sealed together.
const SEALED_AFTER: Span = Span::from_millis(200);

tokio::task_local! {
    static ACTING: Arc<Acting>;
}

/// What somebody asks for.
#[derive(Clone, Debug)]
pub struct Act {
    /// `instance.cancel`: the kind of the object, and the verb.
    pub name: &'static str,
    /// The object, where the request names it; else the commit tells.
    pub object: Option<String>,
    /// `key` or `token`.
    pub kind: &'static str,
    pub key: Option<String>,
    /// The name under which they act.
    pub subject: Option<String>,
    /// The tenant of the key.
    pub home: Option<TenantId>,
    pub request: Option<String>,
    pub trace: Option<String>,
}

impl Act {
    /// What kind of thing is acted on.
    fn object_kind(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(kind, _)| kind)
    }
}

/// An act under way. It has one entry in each tenant that it changes, in the first commit that lands there.
pub struct Acting {
    engine: Arc<Engine>,
    act: Act,
    id: Uuid,
    at: Time,
    landed: Mutex<BTreeSet<TenantId>>,
}

impl Acting {
    pub(crate) fn new(engine: &Arc<Engine>, act: Act) -> Acting {
        let at = engine.now();
        let id = engine.entropy.id(at);
        Acting { engine: engine.clone(), act, id, at, landed: Mutex::default() }
    }

    async fn row(&self, tenant: &TenantId, writes: &[Write]) -> Result<AuditRow, Error> {
        let act = &self.act;
        let kind = act.object_kind();
        let seen = object::seen(self.engine.store.as_ref(), tenant, act.name, writes).await?;
        let object_id = act.object.clone().or(seen.id).unwrap_or_default();
        let entry = Entry {
            id: self.id,
            tenant: tenant.clone(),
            at: self.at.0,
            act: act.name.to_owned(),
            who: Who {
                kind: act.kind.to_owned(),
                key: act.key.clone(),
                subject: act.subject.clone(),
                home: act.home.as_ref().filter(|home| *home != tenant).map(TenantId::to_string),
                node: self.engine.node,
            },
            object: Object { kind: kind.to_owned(), id: object_id.clone() },
            before: seen.before.map(|hash| hex(&hash)),
            after: seen.after.map(|hash| hex(&hash)),
            request: act.request.clone(),
            trace: act.trace.clone(),
        };
        let body = entry.bytes();
        Ok(AuditRow {
            id: self.id,
            at: self.at,
            act: entry.act,
            key_id: act.key.clone(),
            subject: act.subject.clone(),
            object_kind: kind.to_owned(),
            object_id,
            content_hash: content_hash(&body),
            body,
        })
    }
}

/// Does the work as part of the act, if there is one.
pub async fn within<F: Future>(acting: Option<Arc<Acting>>, work: F) -> F::Output {
    match acting {
        Some(acting) => ACTING.scope(acting, work).await,
        None => work.await,
    }
}

/// What this task acts for.
pub fn current() -> Option<Arc<Acting>> {
    ACTING.try_with(Arc::clone).ok()
}

/// The work as part of what this task acts for, wherever it is done.
pub fn carried<F: Future>(work: F) -> impl Future<Output = F::Output> {
    within(current(), work)
}

/// What is told once a commit with an entry has landed.
pub(crate) struct Landing {
    acting: Arc<Acting>,
    tenant: TenantId,
}

/// The commit with the entry of whoever acts, if somebody does and has none in that tenant yet.
pub(crate) async fn signed(mut commit: Commit) -> Result<(Commit, Option<Landing>), Error> {
    let Some(acting) = current() else { return Ok((commit, None)) };
    let tenant = commit.tenant.clone();
    if acting.landed.lock().contains(&tenant) {
        return Ok((commit, None));
    }
    let row = Box::pin(acting.row(&tenant, &commit.writes)).await?;
    commit.writes.push(Write::Audit(Box::new(row)));
    Ok((commit, Some(Landing { acting, tenant })))
}

/// Takes note of what became of it.
pub(crate) fn landed(landing: Option<Landing>, outcome: &Result<Outcome, Error>) {
    if let (Some(Landing { acting, tenant }), Ok(Outcome::Committed)) = (landing, outcome) {
        acting.landed.lock().insert(tenant);
        let engine = &acting.engine;
        engine.wake.audit.at(engine.now().after(SEALED_AFTER));
    }
}
