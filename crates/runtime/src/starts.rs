//! Starts: the commits that create instances, each with its idempotency record.

use crate::{
    acting,
    api::{Refusal, Start, Started},
    engine::Engine,
    hub::End,
    metrics::Metrics,
    patience::Patience,
    refusal, rows,
    slots::Cached,
    tenants, turn,
};
use futures_util::future::join_all;
use machine::{
    Command, Data, Program, Subject, TenantId, Time, command::Trace, id, state::BusinessReference,
};
use sha2::{Digest, Sha256};
use std::{collections::HashMap, sync::Arc};
use store::{Commit, Conflict, Outcome, Write, rows::*, views::InstanceView};
use uuid::Uuid;

/// What the idempotency records of starts are filed under.
pub(crate) const START_SCOPE: &str = "start";

pub(crate) async fn start(engine: &Arc<Engine>, tenant: &TenantId, start: Start) -> Result<Started, Refusal> {
    let now = engine.now_of(tenant);
    let id = start.id.unwrap_or_else(|| engine.entropy.id(now));
    let (owned, tenant) = (engine.clone(), tenant.clone());
    to_the_end(engine, async move { start_as(&owned, &tenant, start, id, now).await }).await
}

/// Starts many; each is answered by itself, in order. Those that want the same business key come one after the other,
/// so that the first of them gets it.
pub(crate) async fn start_many(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    starts: Vec<Start>,
) -> Vec<Result<Started, Refusal>> {
    let mut lines: Vec<Vec<(usize, Start)>> = Vec::with_capacity(starts.len());
    let mut by_key = HashMap::<String, usize>::new();
    for (index, start) in starts.into_iter().enumerate() {
        let line = match &start.business_key {
            Some(key) => *by_key.entry(key.clone()).or_insert(lines.len()),
            None => lines.len(),
        };
        match lines.get_mut(line) {
            Some(line) => line.push((index, start)),
            None => lines.push(vec![(index, start)]),
        }
    }
    let lines = lines.into_iter().map(|line| async move {
        let mut answers = Vec::with_capacity(line.len());
        for (index, one) in line {
            answers.push((index, start(engine, tenant, one).await));
        }
        answers
    });
    let mut answers: Vec<_> = join_all(lines).await.into_iter().flatten().collect();
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Notes a request for many starts under its key, before any of them: each start has a record of its own, this one
/// is there to know the request again. `true` if the same request came before; another under the same key is refused.
pub(crate) async fn note_request(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    key: &str,
    hash: Vec<u8>,
) -> Result<bool, Refusal> {
    if !engine.is_accepting() {
        return Err(Refusal::Unavailable("the node is stopping".to_owned()));
    }
    let record = InboxRow {
        scope: START_SCOPE.to_owned(),
        key: key.to_owned(),
        request_hash: hash.clone(),
        answer: Vec::new(),
        created_at: engine.now_of(tenant),
    };
    let commit = Commit { tenant: tenant.clone(), writes: vec![Write::ClaimKey(record)] };
    match engine.committer.commit(commit).await {
        Ok(Outcome::Committed) => return Ok(false),
        Ok(Outcome::Conflict(_)) | Err(store::Error::Unknown(_)) => {}
        Ok(Outcome::Rejected(detail)) => {
            return Err(Refusal::Invalid { code: "refused-by-store", detail, problems: vec![] });
        }
        Err(error) => return Err(refusal::of_store(error)),
    }
    match engine.store.inbox(tenant, START_SCOPE, key).await.map_err(refusal::of_store)? {
        Some(record) if record.request_hash == hash => Ok(true),
        Some(_) => Err(Refusal::KeyReused),
        None => Err(Refusal::Unavailable("the request could not be noted; retry".to_owned())),
    }
}

/// Starts, listening for the end from before the beginning. `None` if an earlier request started it.
pub(crate) async fn start_and_watch(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    start: Start,
) -> Result<(Started, Option<End>), Refusal> {
    let now = engine.now_of(tenant);
    let id = start.id.unwrap_or_else(|| engine.entropy.id(now));
    let end = engine.hub.end_of(tenant, id);
    let (owned, of) = (engine.clone(), tenant.clone());
    let started = to_the_end(engine, async move { start_as(&owned, &of, start, id, now).await }).await;
    started.map(|started| {
        let same = started.id == id && !started.replayed;
        (started, same.then_some(end))
    })
}

async fn start_as(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    start: Start,
    id: Uuid,
    now: Time,
) -> Result<Started, Refusal> {
    if !engine.is_accepting() {
        return Err(Refusal::Unavailable("the node is stopping".to_owned()));
    }
    if engine.committer.is_full(tenant) {
        return Err(Refusal::Busy);
    }
    let hash = request_hash(&start);
    if let Some(key) = &start.idempotency_key
        && let Some(answer) = answered_before(engine, tenant, key, &hash).await?
    {
        return Ok(answer);
    }
    tenants::admit_start(engine, tenant).await?;
    let program = engine.definitions.resolve(tenant, &start.definition).await?;
    let subject = engine.subject(tenant, id);
    let command = Command::Start {
        input: start.input,
        business: start.business_key.map(|key| BusinessReference { key, parts: parts(start.business_parts) }),
        trace: Trace {
            traceparent: start.traceparent,
            tracestate: start.tracestate,
            correlation_id: start.correlation_id,
            hops: None,
        },
        parent: None,
    };
    let decision = turn::decide_on(engine, &program, &subject, None, &command, now).await;
    let decision = decision?.expect("a start of a fresh instance always decides");
    let key = start.idempotency_key.as_deref();
    let begun = Begun { engine, subject: &subject, program, decision, key, hash: &hash, guards: vec![], now };
    begun.commit().await
}

fn parts(parts: Vec<(String, String)>) -> Data {
    Data::map(parts.into_iter().map(|(name, value)| (name, Data::text(value))))
}

/// A start that the engine itself makes: nobody gave it a key, its id derives from its cause.
pub(crate) struct Beginning {
    pub(crate) program: Arc<Program>,
    pub(crate) id: Uuid,
    pub(crate) input: Data,
    /// What the start consumes, and what it is recorded in.
    pub(crate) guards: Vec<Write>,
    pub(crate) now: Time,
}

pub(crate) async fn begin(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    beginning: Beginning,
) -> Result<Started, Refusal> {
    let Beginning { program, id, input, guards, now } = beginning;
    if !engine.is_accepting() {
        return Err(Refusal::Unavailable("the node is stopping".to_owned()));
    }
    if engine.committer.is_full(tenant) {
        return Err(Refusal::Busy);
    }
    let (owned, tenant) = (engine.clone(), tenant.clone());
    let work = async move {
        let engine = &owned;
        let subject = Subject { tenant, instance: id, origin: None };
        let command = Command::Start { input, business: None, trace: Trace::default(), parent: None };
        let decision = turn::decide_on(engine, &program, &subject, None, &command, now).await;
        let decision = decision?.expect("a start of a fresh instance always decides");
        let begun = Begun { engine, subject: &subject, program, decision, key: None, hash: &[], guards, now };
        begun.commit().await
    };
    to_the_end(engine, work).await
}

/// Does `work` to its end even if the caller goes away: what a commit leaves behind must reach its pump.
pub(crate) async fn to_the_end<T: Send + 'static>(
    engine: &Engine,
    work: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<T, Refusal> {
    let (reply, answer) = tokio::sync::oneshot::channel();
    let work = acting::carried(work);
    engine.tasks.spawn(async move {
        let _ = reply.send(work.await);
    });
    answer.await.unwrap_or_else(|_| Err(Refusal::Unavailable("the node stopped".to_owned())))
}

/// A decided start on its way into the store.
struct Begun<'a> {
    engine: &'a Arc<Engine>,
    subject: &'a Subject,
    program: Arc<Program>,
    decision: machine::Decision,
    key: Option<&'a str>,
    hash: &'a [u8],
    guards: Vec<Write>,
    now: Time,
}

impl Begun<'_> {
    async fn commit(mut self) -> Result<Started, Refusal> {
        let engine = self.engine;
        let mut writes = std::mem::take(&mut self.guards);
        if let Some(key) = self.key {
            writes.push(Write::ClaimKey(InboxRow {
                scope: START_SCOPE.to_owned(),
                key: key.to_owned(),
                request_hash: self.hash.to_vec(),
                answer: self.subject.instance.as_bytes().to_vec(),
                created_at: self.now,
            }));
        }
        let change = rows::Change {
            engine,
            subject: self.subject,
            program: &self.program,
            moved: false,
            before: None,
            decision: &self.decision,
            signal: None,
            failed_call: None,
            now: self.now,
        };
        let born = change.write(&mut writes).await.map_err(refusal::of_store)?;
        let commit = Commit { tenant: self.subject.tenant.clone(), writes };
        engine.metrics.cost(&commit);
        let outcome = self.settle(commit).await;
        match outcome {
            Ok(Outcome::Committed) => {}
            other => return self.not_started(other).await,
        }
        Metrics::add(&engine.metrics.commits);
        Metrics::add(&engine.metrics.instances_started);
        let Subject { tenant, instance, .. } = self.subject;
        turn::after(engine, self.subject, None, &self.decision.state, 1, self.now);
        if born.brings_back() {
            let state = Arc::new(self.decision.state);
            engine
                .slots
                .keep((tenant.clone(), *instance), Cached { version: 1, state, program: self.program });
        }
        born.dispatch(engine, self.subject);
        Ok(Started { id: *instance, replayed: false })
    }

    /// Commits; an unknown outcome is read back by the instance's id before it is tried again with the same ids.
    async fn settle(&self, commit: Commit) -> Result<Outcome, store::Error> {
        let engine = self.engine;
        let mut patience = Patience::new();
        let mut unsure = false;
        loop {
            let unknown = match engine.committer.commit(commit.clone()).await {
                Err(store::Error::Unknown(detail)) => detail,
                // What is in the way may be this very start, from a try whose answer got lost.
                Ok(Outcome::Conflict(conflict)) if unsure => {
                    let there = engine.store.instance(&self.subject.tenant, self.subject.instance).await?;
                    return Ok(match there.is_some_and(|view| self.is_this(&view)) {
                        true => Outcome::Committed,
                        false => Outcome::Conflict(conflict),
                    });
                }
                other => return other,
            };
            unsure = true;
            loop {
                match engine.store.instance(&self.subject.tenant, self.subject.instance).await {
                    Ok(Some(view)) if self.is_this(&view) => return Ok(Outcome::Committed),
                    Ok(_) => break,
                    Err(_) => {
                        if !patience.wait(engine).await {
                            return Err(store::Error::Unavailable(unknown));
                        }
                    }
                }
            }
        }
    }

    /// True if the stored instance came from this start: the id may be the caller's choice, and taken.
    fn is_this(&self, view: &InstanceView) -> bool {
        let ir = &self.program.ir;
        let row = &view.row;
        row.created_at == self.now
            && (&row.namespace, &row.name, &row.version) == (&ir.namespace, &ir.name, &ir.version)
            && row.input == self.decision.state.input.to_bytes()
    }

    /// What is in the way of this start: an instance of its id, or one that holds its business key.
    async fn taken(&self) -> Result<Refusal, Refusal> {
        let Subject { tenant, instance, .. } = self.subject;
        let store = &self.engine.store;
        if store.instance(tenant, *instance).await.map_err(refusal::of_store)?.is_some() {
            return Ok(Refusal::Conflict {
                code: "instance-exists",
                detail: format!("an instance has the id {}", id::show(id::Kind::Instance, *instance)),
                existing: Some(*instance),
            });
        }
        let key = self.decision.state.business.as_ref().map_or("", |business| &business.key);
        let there = store.instance_by_key(tenant, key).await.map_err(refusal::of_store)?;
        Ok(Refusal::Conflict {
            code: "business-key-taken",
            detail: format!("an open instance holds the key {key:?}"),
            existing: there.map(|view| view.row.id),
        })
    }

    async fn not_started(&self, outcome: Result<Outcome, store::Error>) -> Result<Started, Refusal> {
        let tenant = &self.subject.tenant;
        match outcome {
            Ok(Outcome::Conflict(Conflict::Duplicate)) => {
                let key = self.key.unwrap_or_default();
                let answer = answered_before(self.engine, tenant, key, self.hash).await?;
                answer.ok_or_else(|| Refusal::Unavailable("the idempotency record moved; retry".to_owned()))
            }
            Ok(Outcome::Conflict(Conflict::Exists)) => Err(self.taken().await?),
            Ok(Outcome::Rejected(detail)) => {
                Err(Refusal::Invalid { code: "refused-by-store", detail, problems: vec![] })
            }
            Ok(other) => {
                Err(Refusal::Conflict { code: "conflict", detail: format!("{other:?}"), existing: None })
            }
            Err(error) => Err(refusal::of_store(error)),
        }
    }
}

/// What an earlier request with this key was answered; another request under the same key is refused.
async fn answered_before(
    engine: &Engine,
    tenant: &TenantId,
    key: &str,
    hash: &[u8],
) -> Result<Option<Started>, Refusal> {
    let record = engine.store.inbox(tenant, START_SCOPE, key).await.map_err(refusal::of_store)?;
    let Some(record) = record else { return Ok(None) };
    if record.request_hash != hash {
        return Err(Refusal::KeyReused);
    }
    let id = Uuid::from_slice(&record.answer)
        .map_err(|_| Refusal::Unavailable("the idempotency record is damaged".to_owned()))?;
    Ok(Some(Started { id, replayed: true }))
}

fn request_hash(start: &Start) -> Vec<u8> {
    let mut hash = Sha256::new();
    let definition = &start.definition;
    let version = definition.version.as_deref().unwrap_or("");
    let business_key = start.business_key.as_deref().unwrap_or("");
    let parts = start.business_parts.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
    for part in [&definition.namespace, &definition.name, version, business_key].into_iter().chain(parts) {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    if start.idempotency_key.is_some() {
        hash.update(start.input.to_bytes());
    }
    hash.finalize().to_vec()
}
