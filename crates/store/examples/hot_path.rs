//! Measures the writer: what a workflow of three steps costs in four commits, at several batch sizes, beside what
//! the disk and SQLite itself can do.
//!
//! `cargo run --release -p store --example hot_path [-- <folder> [<workflows> [<state bytes> [<batch>...]]]]`
//! The folder decides which disk is measured; it is used for a temporary database that is removed again.
//! `cpu` is what the writer thread itself used, so it holds on a busy machine; `wall` includes waiting for the disk.

#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use machine::{TenantId, Time};
use rusqlite::{Connection, params};
use std::{
    io::Write as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use store::{
    Commit, Outcome, Store, Write,
    rows::*,
    sqlite::{Core, Inline, Sqlite},
};
use uuid::Uuid;

const NODE: Uuid = Uuid::from_u128(1);
const NOW: Time = Time(1_700_000_000_000_000);
/// Instances in flight at once: later steps of an instance come this many instances later.
const WINDOW: usize = 2_048;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| ".".into());
    let workflows: usize = arguments.next().map_or(Ok(40_960), |text| text.parse())?;
    let state_bytes: usize = arguments.next().map_or(Ok(600), |text| text.parse())?;
    let mut batches: Vec<usize> = arguments.map(|text| text.parse()).collect::<Result<_, _>>()?;
    if batches.is_empty() {
        batches.extend([1, 64, 512, 2_048]);
    }
    let dir = tempfile::tempdir_in(folder)?;
    println!("sync of one 4 KiB append: p50 {:.0} µs", sync_p50(dir.path())?);
    println!("plain insert of one row of 300 bytes, 512 per transaction: {:.2} µs each", plain(dir.path())?);
    println!("\nworkflow of 3 steps: 4 commits, 16 row writes, snapshots of {state_bytes} bytes\n");
    println!(
        "{:<8} {:>6} {:>15} {:>15} {:>17} {:>12} {:>13}",
        "store",
        "batch",
        "cpu µs/commit",
        "cpu µs/workflow",
        "wall µs/workflow",
        "workflows/s",
        "KiB/workflow"
    );
    for batch in batches {
        let few = if batch == 1 { workflows / 40 } else { workflows };
        let mut load = Load { batch, workflows: few, state_bytes };
        let path = dir.path().join(format!("hot-{batch}.db"));
        report("file", &load, &run(&mut Core::open(&path)?, &load)?);
        load.workflows = workflows;
        report("memory", &load, &run(&mut Core::open_in_memory()?, &load)?);
    }
    for callers in [1, 64, 512, 2_048] {
        let count = workflows.min(callers * 40);
        let path = dir.path().join(format!("queue-{callers}.db"));
        let took = queued(&path, callers, count, state_bytes)?;
        let rate = count as f64 / took.as_secs_f64();
        println!(
            "through the writer thread, {callers:>5} callers, one commit at a time: {rate:>8.0} workflows/s"
        );
    }
    println!("a new inline store: {:.0} µs", inline()?);
    Ok(())
}

/// The time of `workflows` whole workflows, each caller waiting for every commit of its own.
fn queued(path: &Path, callers: usize, workflows: usize, state_bytes: usize) -> Result<Duration, Failure> {
    let store = Arc::new(Sqlite::open(path)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let tenant = TenantId::new("acme")?;
    runtime.block_on(async move {
        store.join(NODE, NOW, 60_000).await?;
        let start = now();
        let tasks: Vec<_> = (0..callers)
            .map(|caller| {
                let (store, tenant) = (store.clone(), tenant.clone());
                tokio::spawn(async move {
                    for number in (caller..workflows).step_by(callers) {
                        for version in 1..=4 {
                            let commit = stage(&tenant, number, version, state_bytes);
                            let outcomes = store.commit(NODE, vec![commit]).await?;
                            debug_assert_eq!(outcomes, [Outcome::Committed]);
                        }
                    }
                    Ok::<(), store::Error>(())
                })
            })
            .collect();
        for task in tasks {
            task.await??;
        }
        Ok(start.elapsed())
    })
}

/// Microseconds to make a store for the simulator.
fn inline() -> Result<f64, Failure> {
    const STORES: usize = 1_000;
    Inline::new()?;
    let start = now();
    for _ in 0..STORES {
        Inline::new()?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / STORES as f64)
}

/// What to put on the writer.
struct Load {
    batch: usize,
    workflows: usize,
    state_bytes: usize,
}

/// What a number of workflows took.
struct Cost {
    wall: Duration,
    cpu: Duration,
    bytes: u64,
}

fn report(store: &str, load: &Load, cost: &Cost) {
    let Load { batch, workflows, .. } = *load;
    let per = |time: Duration| time.as_secs_f64() * 1e6 / workflows as f64;
    println!(
        "{store:<8} {batch:>6} {:>15.2} {:>15.2} {:>17.2} {:>12.0} {:>13.1}",
        per(cost.cpu) / 4.0,
        per(cost.cpu),
        per(cost.wall),
        1e6 / per(cost.wall),
        cost.bytes as f64 / 1024.0 / workflows as f64
    );
}

#[allow(clippy::disallowed_methods, reason = "measuring real time is what this program is for")]
fn now() -> Instant {
    Instant::now()
}

/// The cost of `workflows` whole workflows, without the making of the commits.
fn run(core: &mut Core, load: &Load) -> Result<Cost, Failure> {
    core.join(NODE, NOW, 60_000)?;
    let making = cpu()?;
    each(load, |_| Ok(()))?;
    let (from, bytes) = (cpu()?, bytes_written()?);
    let making = from - making;
    let mut wall = Duration::ZERO;
    each(load, |commits| {
        let start = now();
        let outcomes = core.apply(NODE, commits)?;
        wall += start.elapsed();
        match outcomes.iter().find(|outcome| **outcome != Outcome::Committed) {
            Some(bad) => Err(format!("{bad:?}").into()),
            None => Ok(()),
        }
    })?;
    Ok(Cost { wall, cpu: (cpu()? - from).saturating_sub(making), bytes: bytes_written()? - bytes })
}

/// Hands on the commits of all workflows, batch by batch.
fn each(load: &Load, mut apply: impl FnMut(&[Commit]) -> Result<(), Failure>) -> Result<(), Failure> {
    let Load { batch, workflows, state_bytes } = *load;
    let tenant = TenantId::new("acme")?;
    for first in (0..workflows).step_by(WINDOW) {
        let last = workflows.min(first + WINDOW);
        for version in 1..=4 {
            for from in (first..last).step_by(batch) {
                let to = last.min(from + batch);
                let commits: Vec<Commit> =
                    (from..to).map(|n| stage(&tenant, n, version, state_bytes)).collect();
                apply(&commits)?;
            }
        }
    }
    Ok(())
}

/// What this thread has used so far.
fn cpu() -> Result<Duration, Failure> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(Duration::from_nanos(text.split(' ').next().unwrap_or_default().parse()?))
}

/// What this process has written so far.
fn bytes_written() -> Result<u64, Failure> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap_or("0");
    Ok(line.parse()?)
}

/// Start, two steps, end: what the engine writes for each.
fn stage(tenant: &TenantId, number: usize, version: i64, state_bytes: usize) -> Commit {
    let id = Uuid::from_u128((1_700_000_000_000_u128 << 80) + ((number as u128) << 64) + 0x8000_u128);
    let token = version as u64;
    let history = Write::History(HistoryRow { instance: id, version, at: NOW, events: vec![b'h'; 300] });
    let state = Box::new(state(id, version, state_bytes));
    let writes = match version {
        1 => vec![
            Write::CreateInstance { instance: Box::new(instance(id)), state },
            history,
            Write::Call(call(id, token)),
        ],
        4 => vec![
            Write::ConsumeCall { instance: id, token: token - 1 },
            Write::UpdateState(state),
            Write::UpdateInstance(Box::new(InstanceChange {
                id,
                status: "completed".into(),
                output: Some(vec![b'o'; 200]),
                error: None,
                context: None,
                updated_at: NOW,
                ended_at: Some(Some(NOW)),
            })),
            history,
        ],
        _ => vec![
            Write::ConsumeCall { instance: id, token: token - 1 },
            Write::UpdateState(state),
            history,
            Write::Call(call(id, token)),
        ],
    };
    Commit { tenant: tenant.clone(), writes }
}

fn instance(id: Uuid) -> InstanceRow {
    InstanceRow {
        id,
        namespace: "shop".into(),
        name: "order".into(),
        version: "1.0.0".into(),
        business_key: None,
        business_parts: None,
        status: "running".into(),
        input: vec![b'i'; 200],
        output: None,
        error: None,
        context: None,
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
        correlation_id: None,
        parent: None,
        created_at: NOW,
        updated_at: NOW,
        ended_at: None,
    }
}

fn state(id: Uuid, version: i64, bytes: usize) -> StateRow {
    StateRow {
        instance: id,
        expected_version: version - 1,
        state_version: version,
        snapshot_schema_version: 1,
        runtime_status: "Open".into(),
        waiting_kind: Some("Call".into()),
        waiting_token: Some(version.to_string()),
        waiting_until: None,
        active_task_id: None,
        resume_pointer_json: Some(b"{\"step\":\"/do/0/one\"}".to_vec()),
        last_signal_id: None,
        last_error_code: None,
        last_error_json: None,
        last_executed_by: NODE,
        last_executed_on: NOW,
        state_json: vec![b's'; bytes],
    }
}

fn call(instance: Uuid, token: u64) -> CallRow {
    CallRow {
        instance,
        token,
        target: "noop".into(),
        envelope: vec![b'c'; 250],
        created_at: NOW,
        visible_at: NOW,
        attempt: 0,
        last_error: None,
        owner: Some(NODE),
        taken_over: 0,
    }
}

/// Microseconds per row of a bare table with the same settings.
fn plain(dir: &Path) -> Result<f64, Failure> {
    const ROWS: usize = 200 * 512;
    let connection = Connection::open(dir.join("plain.db"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 8_192)?;
    connection.execute_batch("CREATE TABLE plain (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")?;
    let body = vec![b'x'; 300];
    let start = now();
    for _ in 0..ROWS / 512 {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut insert = connection.prepare_cached("INSERT INTO plain (body) VALUES (?1)")?;
        for _ in 0..512 {
            insert.execute(params![body])?;
        }
        connection.execute_batch("COMMIT")?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / ROWS as f64)
}

fn sync_p50(dir: &Path) -> Result<f64, Failure> {
    let mut file = std::fs::File::create(dir.join("sync"))?;
    let mut times = Vec::new();
    for _ in 0..400 {
        file.write_all(&[0; 4_096])?;
        let start = now();
        file.sync_data()?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times[times.len() / 2].as_secs_f64() * 1e6)
}
