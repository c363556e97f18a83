//! `windlass bench`: measures what a node does on this machine, beside what the machine itself can do.
//!
//! Every figure stands next to the raw limit measured in the same go (the disk's sync, the database's plain inserts), so
//! that ratios mean something on a noisy machine. Nothing here is a test: no figure is asserted.

mod expr;
mod report;
mod setup;
mod w1;
mod w2;
mod w3;
mod w4;
mod w5;
mod w6;
mod w7;
mod w8;

use crate::out::Out;
use anyhow::Result;
use clap::{Parser, ValueEnum};
use std::path::PathBuf;

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Workflows of 3 durable no-op steps, as many as go: workflows per second.
    W1,
    /// Events through one worker, in batches and one by one: events per second, and time from publishing to the handler.
    W2,
    /// The same workflow alone: time from start to end.
    W3,
    /// Fan-out over 1,000, 10,000 and 100,000 items: microseconds per item, which must not grow.
    W4,
    /// The storm: fan-outs in which every item fails. How long it takes, how many statements record it, and what another
    /// tenant notices.
    W5,
    /// Timers that come due in the same moment: how many fire per second, and what one costs.
    W6,
    /// Who may do what, handed down a tree of records: microseconds per record, which must not grow.
    W7,
    /// Fairness: a tenant with few workflows beside a large backlog, and Jain's index over equal and weighted tenants.
    W8,
    /// A condition with its data in memory: microseconds. Needs no store.
    Expr,
    /// W1 and W3, one after the other.
    All,
}

/// Measures throughput and latency on the embedded store or on PostgreSQL.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  windlass bench w1 --seconds 10\n  windlass bench w1 --http 64 -o json\n  windlass bench w1 --stored 1000000\n  windlass bench w1 --retention\n  windlass bench w1 --store postgres://me@localhost/bench\n  windlass bench w1 --store postgres://me@localhost/bench --nodes 2\n  windlass bench w2 --store postgres://me@localhost/bench\n  windlass bench w3\n  windlass bench w4 -o json\n  windlass bench w4 --items 1000,10000 --child call\n  windlass bench w5 -o json\n  windlass bench w6 --backlog 100000\n  windlass bench w7 --records 1000000\n  windlass bench w8 --backlog 100000\n  windlass bench expr --seconds 2"
)]
pub(crate) struct Args {
    #[arg(value_enum)]
    pub(crate) workload: Workload,
    /// `sqlite` (a new file in --data), or the URL of a PostgreSQL database of its own, as a role that may make tables.
    #[arg(long, default_value = "sqlite")]
    pub(crate) store: String,
    /// How long each measurement takes.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: u64,
    /// Workflows in flight at once.
    #[arg(long, default_value_t = 2048)]
    pub(crate) concurrency: usize,
    /// Batches of commits in flight at once; as many as a node would have by default.
    #[arg(long, value_name = "BATCHES")]
    pub(crate) batches: Option<usize>,
    /// Commits that wait before another batch is sent beside those in flight; as many as a node would have by default.
    #[arg(long, value_name = "COMMITS")]
    pub(crate) batch_min: Option<usize>,
    /// While a tenant with little is about, busy ones pause after a batch for so many times its length; as a node would by
    /// default.
    #[arg(long, value_name = "TIMES")]
    pub(crate) courtesy: Option<f64>,
    /// w1: nodes on the one database, the load spread over them.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=16), value_name = "NODES")]
    pub(crate) nodes: u64,
    /// w1: measure twice as long, and in the second half let retention delete what ended so long ago as a half lasts.
    #[arg(long)]
    pub(crate) retention: bool,
    /// Another connection to the database holds a snapshot for the whole run, as a long report would.
    #[arg(long)]
    pub(crate) held_snapshot: bool,
    /// Go through HTTP with this many connections instead of calling the node in process.
    #[arg(long, value_name = "CONNECTIONS")]
    pub(crate) http: Option<usize>,
    /// Fill the store with this many instances that wait on a timer first.
    #[arg(long, default_value_t = 0, value_name = "INSTANCES")]
    pub(crate) stored: u64,
    /// w4: how many items, one fan-out after the other.
    #[arg(long, value_delimiter = ',', default_value = "1000,10000,100000", value_name = "COUNTS")]
    pub(crate) items: Vec<u64>,
    /// w4: what each child does: one step in process, one durable call, or one step that faults.
    #[arg(long, value_enum, default_value = "pure")]
    pub(crate) child: w4::Child,
    /// w5: items that fail.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..), value_name = "ITEMS")]
    pub(crate) failures: u64,
    /// w5: tenants that they belong to.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1000), value_name = "TENANTS")]
    pub(crate) tenants: u64,
    /// w6: timers, w8: instances of the busy tenant, that become due at once.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(8..), value_name = "INSTANCES")]
    pub(crate) backlog: u64,
    /// w7: records of the largest tree.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1000..=10_000_000), value_name = "RECORDS")]
    pub(crate) records: u64,
    /// w2: events that the worker finds in the backlog.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..), value_name = "EVENTS")]
    pub(crate) events: u64,
    /// Folder for the database; decides which disk is measured. A temporary one by default.
    #[arg(long)]
    pub(crate) data: Option<PathBuf>,
}

/// Measures and prints.
pub(crate) async fn run(args: Args, out: &Out) -> Result<()> {
    if args.workload == Workload::Expr {
        return expr::measure(args.seconds, out);
    }
    let mut bench = setup::Bench::new(&args).await?;
    if args.workload == Workload::W2 {
        let report = w2::measure(&mut bench, &args).await;
        bench.stop().await;
        return w2::print(&report?, out);
    }
    if args.workload == Workload::W4 {
        let report = w4::measure(&bench, &args).await;
        bench.stop().await;
        return w4::print(&report?, out);
    }
    if args.workload == Workload::W5 {
        let report = w5::measure(&bench, &args).await;
        bench.stop().await;
        return w5::print(&report?, out);
    }
    if args.workload == Workload::W6 {
        let report = w6::measure(&bench, &args).await;
        bench.stop().await;
        return w6::print(&report?, out);
    }
    if args.workload == Workload::W7 {
        let report = w7::measure(&bench, &args).await;
        bench.stop().await;
        return w7::print(&report?, out);
    }
    if args.workload == Workload::W8 {
        let report = w8::measure(&bench, &args).await;
        bench.stop().await;
        return w8::print(&report?, out);
    }
    let mut reports = Vec::new();
    if args.workload != Workload::W3 {
        reports.push(w1::measure(&bench, &args).await?);
    }
    if args.workload != Workload::W1 {
        reports.push(w3::measure(&bench, &args).await?);
    }
    bench.stop().await;
    report::print(&reports, out)
}
