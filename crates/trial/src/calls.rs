//! What every worker that steps call must do, whoever wrote it (R01): each check is one promise, over a workflow of one step
//! that calls it.

use crate::{
    corpus,
    tap::Act,
    time::pass,
    world::{Side, Up, World},
};
use async_trait::async_trait;
use machine::{Data, TenantId, language::Format};
use parking_lot::Mutex;
use runtime::api::{DefinitionRef, InstanceResult, Start};
use serde_json::json;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use uuid::Uuid;
use worker::{Class, Context, Declaration, Outcome, Worker};

/// Commits after which, and before which, the node is killed.
const CRASHES: usize = 8;
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Runs the whole suite over a worker that steps call, with inputs that it handles, in virtual time. Panics with what is not
/// as it must be.
pub async fn check_calls(worker: &Declaration, inputs: &[Data]) {
    assert_eq!(worker.problem(), None);
    assert!(worker.on.is_none(), "`{}` handles events: use `check`", worker.name);
    assert!(!inputs.is_empty(), "`{}` needs an input to try it with", worker.name);
    let expected = once(worker, inputs).await;
    often(worker, inputs, &expected).await;
    crashes(worker, inputs, &expected).await;
    wrong_tenant(worker, inputs, &expected).await;
    exhausted(worker, inputs).await;
    refused(worker, inputs).await;
    poison(worker, inputs, &expected).await;
    trace(worker, inputs).await;
}

type Calls = Arc<Mutex<Vec<Context>>>;

/// A worker that notes its calls, and answers by itself if it is told to.
struct Noted {
    inner: Arc<dyn Worker>,
    answer: Option<Outcome>,
    calls: Calls,
}

#[async_trait]
impl Worker for Noted {
    async fn handle(&self, context: &Context, input: Data) -> Outcome {
        self.calls.lock().push(context.clone());
        match &self.answer {
            Some(answer) => answer.clone(),
            None => self.inner.handle(context, input).await,
        }
    }
}

fn noted(worker: &Declaration, answer: Option<Outcome>) -> (Declaration, Calls) {
    let (mut worker, calls) = (worker.clone(), Calls::default());
    worker.worker = Arc::new(Noted { inner: worker.worker.clone(), answer, calls: calls.clone() });
    (worker, calls)
}

/// A workflow of one step that calls the worker with what the instance was started with.
async fn deploy(node: &Up, tenant: &TenantId, worker: &Declaration, inputs: &[Data]) {
    let entries = |input: &Data| input.entries().expect("an input of a call is an object");
    let names: BTreeSet<String> = inputs.iter().flat_map(entries).map(|(name, _)| name).collect();
    let with: Vec<String> =
        names.iter().map(|name| format!("{}: '${{ .[{}] }}'", json!(name), json!(name))).collect();
    put(node, tenant, worker, ("calls", &with.join(", "))).await;
}

async fn put(node: &Up, tenant: &TenantId, worker: &Declaration, (called, with): (&str, &str)) {
    let Declaration { name, version, .. } = worker;
    let source = format!(
        "document: {{ dsl: '1.0.3', namespace: trial, name: {called}, version: '1.0.0' }}\n\
         do: [ {{ act: {{ call: '{name}:{version}@default', with: {{ {with} }} }} }} ]\n"
    );
    node.handle.deploy(tenant, source.as_bytes(), Format::Yaml, false).await.unwrap();
}

/// A start that is one start, however often it is asked for.
fn start(input: &Data, key: String) -> Start {
    let version = Some("1.0.0".to_owned());
    Start {
        definition: DefinitionRef { namespace: "trial".to_owned(), name: "calls".to_owned(), version },
        input: input.clone(),
        business_key: None,
        business_parts: vec![],
        idempotency_key: Some(key),
        traceparent: Some(format!("00-{TRACE}-00f067aa0ba902b7-01")),
        tracestate: None,
        correlation_id: Some("trial-7".to_owned()),
        id: None,
    }
}

async fn ended(node: &Up, tenant: &TenantId, id: Uuid) -> InstanceResult {
    loop {
        match node.handle.result(tenant, id, Duration::from_secs(60)).await.unwrap() {
            InstanceResult::Pending(_) => {}
            end => return end,
        }
    }
}

/// Starts one instance for each input; answers what they come to.
async fn run(node: &Up, tenant: &TenantId, inputs: &[Data]) -> Vec<String> {
    let mut outputs = vec![];
    for (at, input) in inputs.iter().enumerate() {
        let id = node.handle.start(tenant, start(input, format!("trial-{at}"))).await.unwrap().id;
        outputs.push(shown(ended(node, tenant, id).await));
    }
    outputs
}

fn shown(end: InstanceResult) -> String {
    match end {
        InstanceResult::Completed(data) => data.to_json().to_string(),
        other => format!("{other:?}"),
    }
}

async fn once(worker: &Declaration, inputs: &[Data]) -> Vec<String> {
    let world = World::new(Side::Inside);
    let (on_trial, calls) = noted(worker, None);
    let node = world.node(vec![on_trial], true).await;
    deploy(&node, &world.tenant, worker, inputs).await;
    let mut outputs = vec![];
    for (at, input) in inputs.iter().enumerate() {
        let id = node.handle.start(&world.tenant, start(input, format!("trial-{at}"))).await.unwrap().id;
        match ended(&node, &world.tenant, id).await {
            InstanceResult::Completed(data) => outputs.push(data.to_json().to_string()),
            other => panic!("an input of `{}` comes to {other:?}", worker.name),
        }
    }
    assert_eq!(calls.lock().len(), inputs.len(), "one call each");
    node.stop().await;
    outputs
}

/// Asked for twice and ten times, of two nodes at the same time: one call each, with one key (R03).
async fn often(worker: &Declaration, inputs: &[Data], expected: &[String]) {
    for times in [2, 10] {
        let world = World::new(Side::Inside);
        let (on_trial, calls) = noted(worker, None);
        let nodes =
            [world.node(vec![on_trial.clone()], false).await, world.node(vec![on_trial], false).await];
        deploy(&nodes[0], &world.tenant, worker, inputs).await;
        let all = (0..times).map(|at| run(&nodes[at % 2], &world.tenant, inputs));
        for outputs in futures_util::future::join_all(all).await {
            assert_eq!(outputs, expected, "`{}`, asked for {times} times", worker.name);
        }
        let keys: BTreeSet<String> = calls.lock().iter().map(|context| context.key.clone()).collect();
        assert_eq!((keys.len(), calls.lock().len()), (inputs.len(), inputs.len()), "`{}`", worker.name);
        for node in nodes {
            node.stop().await;
        }
    }
}

/// Killed before and after every commit: the same output, and every further attempt has the same key.
async fn crashes(worker: &Declaration, inputs: &[Data], expected: &[String]) {
    for crash_at in 1..=CRASHES {
        for act in [Act::CrashBefore, Act::CrashAfter] {
            let world = World::new(Side::Inside);
            let (on_trial, calls) = noted(worker, None);
            let node = world.node(vec![on_trial.clone()], true).await;
            deploy(&node, &world.tenant, worker, inputs).await;
            let mut commits = 0;
            node.tap.on_commit(move |_| {
                commits += 1;
                if commits == crash_at { act } else { Act::Pass }
            });
            let (handle, tenant, asked) = (node.handle.clone(), world.tenant.clone(), inputs.to_vec());
            let starting = tokio::spawn(async move {
                for (at, input) in asked.iter().enumerate() {
                    let _ = handle.start(&tenant, start(input, format!("trial-{at}"))).await;
                }
            });
            pass(Duration::from_secs(1)).await;
            starting.abort();
            node.crash().await;
            let node = world.node(vec![on_trial], true).await;
            let outputs = run(&node, &world.tenant, inputs).await;
            assert_eq!(outputs, expected, "`{}`, {act:?} at commit {crash_at}", worker.name);
            let keys: BTreeSet<String> = calls.lock().iter().map(|context| context.key.clone()).collect();
            assert_eq!(keys.len(), inputs.len(), "`{}`, {act:?} at commit {crash_at}", worker.name);
            node.stop().await;
        }
    }
}

/// Every call is made for the tenant whose instance makes it, with a key of that tenant's own; another one finds nothing.
async fn wrong_tenant(worker: &Declaration, inputs: &[Data], expected: &[String]) {
    let world = World::new(Side::Inside);
    let (on_trial, calls) = noted(worker, None);
    let node = world.node(vec![on_trial], true).await;
    let other = TenantId::new("another").unwrap();
    deploy(&node, &world.tenant, worker, inputs).await;
    let started = node.handle.start(&other, start(&inputs[0], "trial-0".to_owned())).await;
    assert!(started.is_err(), "a definition of another tenant");
    assert!(calls.lock().is_empty());
    deploy(&node, &other, worker, inputs).await;
    for tenant in [&world.tenant, &other] {
        assert_eq!(run(&node, tenant, inputs).await, expected, "`{}` for {tenant}", worker.name);
    }
    let calls = calls.lock().clone();
    let of = |tenant: &TenantId| -> BTreeSet<String> {
        calls.iter().filter(|one| one.tenant == *tenant).map(|one| one.key.clone()).collect()
    };
    assert_eq!((of(&world.tenant).len(), of(&other).len()), (inputs.len(), inputs.len()));
    assert!(of(&world.tenant).is_disjoint(&of(&other)), "`{}`: keys of two tenants", worker.name);
    node.stop().await;
}

/// As many attempts as the policy says, all with one key, then a fault and a dead letter (R05).
async fn exhausted(worker: &Declaration, inputs: &[Data]) {
    let world = World::new(Side::Inside);
    let (on_trial, calls) = noted(worker, Some(Outcome::retry("on purpose")));
    let node = world.node(vec![on_trial], true).await;
    deploy(&node, &world.tenant, worker, inputs).await;
    let id = node.handle.start(&world.tenant, start(&inputs[0], "one".to_owned())).await.unwrap().id;
    let end = ended(&node, &world.tenant, id).await;
    assert!(matches!(&end, InstanceResult::Faulted(_)), "`{}`: {end:?}", worker.name);
    let attempts: Vec<u32> = calls.lock().iter().map(|context| context.attempt).collect();
    assert_eq!(
        attempts,
        (1..=worker.retry.attempts_max).collect::<Vec<_>>(),
        "attempts of `{}`",
        worker.name
    );
    let keys: BTreeSet<String> = calls.lock().iter().map(|context| context.key.clone()).collect();
    assert_eq!(keys.len(), 1);
    assert_eq!(world.letters().await.len(), 1, "`{}`", worker.name);
    node.stop().await;
}

/// What it says can never be done is not tried again.
async fn refused(worker: &Declaration, inputs: &[Data]) {
    let world = World::new(Side::Inside);
    let (on_trial, calls) = noted(worker, Some(Outcome::fail(Class::Validation, "on purpose")));
    let node = world.node(vec![on_trial], true).await;
    deploy(&node, &world.tenant, worker, inputs).await;
    let id = node.handle.start(&world.tenant, start(&inputs[0], "one".to_owned())).await.unwrap().id;
    let end = ended(&node, &world.tenant, id).await;
    assert!(matches!(&end, InstanceResult::Faulted(fault) if fault.detail.as_deref() == Some("on purpose")));
    assert_eq!(calls.lock().len(), 1, "`{}`", worker.name);
    node.stop().await;
}

/// Inputs of the corpus end their own instance, in whatever way; those beside them come to the same as ever (P12).
async fn poison(worker: &Declaration, inputs: &[Data], expected: &[String]) {
    let world = World::new(Side::Inside);
    let node = world.node(vec![worker.clone()], true).await;
    deploy(&node, &world.tenant, worker, inputs).await;
    put(&node, &world.tenant, worker, ("poisoned", "n: '${ . }', text: '${ . }', id: '${ . }'")).await;
    let mut started = vec![];
    for (at, (_, data)) in corpus::poison().into_iter().enumerate() {
        // What cannot be read, or is refused, never becomes an instance.
        let Ok(data) = Data::parse(&data) else { continue };
        let mut poisoned = start(&data, format!("poison-{at}"));
        poisoned.definition.name = "poisoned".to_owned();
        if let Ok(one) = node.handle.start(&world.tenant, poisoned).await {
            started.push(one.id);
        }
    }
    assert!(started.len() >= 6, "{} of the corpus", started.len());
    assert_eq!(run(&node, &world.tenant, inputs).await, expected, "`{}` beside poison", worker.name);
    for id in started {
        ended(&node, &world.tenant, id).await;
    }
    node.stop().await;
}

/// The trace and the correlation of whoever started the instance reach the worker (R07).
async fn trace(worker: &Declaration, inputs: &[Data]) {
    let world = World::new(Side::Inside);
    let (on_trial, calls) = noted(worker, None);
    let node = world.node(vec![on_trial], true).await;
    deploy(&node, &world.tenant, worker, inputs).await;
    run(&node, &world.tenant, inputs).await;
    for context in calls.lock().iter() {
        let traceparent = context.traceparent.clone().unwrap_or_default();
        assert!(traceparent.contains(TRACE), "`{}`: {traceparent}", worker.name);
        assert_eq!(context.correlation_id.as_deref(), Some("trial-7"));
    }
    node.stop().await;
}
