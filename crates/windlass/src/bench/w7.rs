//! W7: who may do what, handed down a tree of records. The figure is what one record costs, for more and more records: it must
//! not grow. Afterwards every list is compared with one that is made from scratch.
//!
//! The tree has six levels. Records are put into the store many at a time; then the grants of the record at the top change.

use super::{
    Args,
    setup::{Bench, now_ms},
};
use crate::out::{Format, Out};
use anyhow::{Result, anyhow, ensure};
use machine::{
    TenantId, Time,
    acl::{Acl, Effective, Grant, Right},
};
use runtime::api::{Asker, RecordChange};
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use store::{
    Commit, Outcome, RecordWrite, Write,
    records::RecordAsk,
    rows::{AclListRow, NewRecord, RecordRow},
    views::PAGE_MAX,
};

const LEVELS: u32 = 6;
/// Records that are put into the store with one commit.
const CHUNK: u64 = 1_000;
/// One record of so many says something of its own.
const OWN_EVERY: u64 = 100;
/// How often it is looked how far it is.
const LOOK: Duration = Duration::from_millis(20);

/// One size.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    workload: &'static str,
    store: String,
    records: u64,
    /// How long the request took.
    request_ms: f64,
    seconds: f64,
    micros_per_record: f64,
    /// Every list equals one made from scratch.
    verified: bool,
}

pub(super) async fn measure(bench: &Bench, args: &Args) -> Result<Vec<Report>> {
    let mut reports = Vec::new();
    for (number, records) in [args.records / 100, args.records / 10, args.records].into_iter().enumerate() {
        let tenant = bench.tenant_of(&format!("tree-{number}")).await?;
        reports.push(of_size(bench, args, &tenant, records.max(10)).await?);
    }
    Ok(reports)
}

#[allow(clippy::disallowed_methods, reason = "looks now and then in real time")]
async fn of_size(bench: &Bench, args: &Args, tenant: &TenantId, records: u64) -> Result<Report> {
    bench.handle.put_record_kind(tenant, "node", None, &[]).await?;
    let tree = Tree::of(records);
    tree.fill(bench, tenant).await?;
    let began = now_ms(&bench.clock);
    let change = RecordChange { acl: Some(reads("group:b")), ..RecordChange::default() };
    bench.handle.change_record(tenant, &Asker::of_all(), &name(0), &change).await?;
    let answered = now_ms(&bench.clock);
    while bench.handle.store().records().acl_pending(Some(tenant)).await?.records > 0 {
        tokio::time::sleep(LOOK).await;
    }
    let seconds = (now_ms(&bench.clock) - began) / 1000.0;
    tree.verify(bench, tenant).await?;
    Ok(Report {
        workload: "w7",
        store: args.store.split(':').next().unwrap_or_default().to_owned(),
        records,
        request_ms: answered - began,
        seconds,
        micros_per_record: seconds * 1e6 / records as f64,
        verified: true,
    })
}

fn name(number: u64) -> String {
    format!("r{number:08}")
}

fn reads(to: &str) -> Acl {
    let grant = Grant { to: to.to_owned(), rights: vec![Right::Read], deny: false };
    Acl { inherits: true, grants: vec![grant] }
}

/// Record `n` is below record `(n - 1) / fan`.
struct Tree {
    records: u64,
    fan: u64,
}

impl Tree {
    fn of(records: u64) -> Tree {
        let fits = |fan: &u64| (0..LEVELS).map(|level| fan.saturating_pow(level)).sum::<u64>() >= records;
        Tree { records, fan: (2..).find(fits).unwrap_or(2) }
    }

    fn parent(&self, number: u64) -> Option<u64> {
        number.checked_sub(1).map(|before| before / self.fan)
    }

    fn own(number: u64, top: &str) -> Acl {
        match number {
            0 => reads(top),
            number if number.is_multiple_of(OWN_EVERY) => reads(&format!("user:u{}", number % 7)),
            _ => Acl::default(),
        }
    }

    /// The list of every record, made from the top.
    fn lists(&self, top: &str) -> Vec<Arc<Effective>> {
        let mut lists: Vec<Arc<Effective>> = Vec::with_capacity(self.records as usize);
        for number in 0..self.records {
            let above = self.parent(number).map(|parent| lists[parent as usize].clone());
            let own = Tree::own(number, top);
            let list = match above {
                Some(above) if own == Acl::default() => above,
                above => Arc::new(Effective::of(above.as_deref(), &own)),
            };
            lists.push(list);
        }
        lists
    }

    async fn fill(&self, bench: &Bench, tenant: &TenantId) -> Result<()> {
        let lists = self.lists("group:a");
        let mut first = 0;
        while first < self.records {
            // Parents are there before their children.
            let end = (first + CHUNK).min(first * self.fan + 1).min(self.records);
            let mut rows = BTreeMap::new();
            let mut records = Vec::new();
            for number in first..end {
                let list = &lists[number as usize];
                let id = list.id();
                rows.entry(id).or_insert_with(|| list_row(list));
                records.push(self.record(number, id));
            }
            let writes = [RecordWrite::Lists(rows.into_values().collect()), RecordWrite::Create(records)];
            let writes = writes.into_iter().map(|write| Write::Record(Box::new(write))).collect();
            let commit = Commit { tenant: tenant.clone(), writes };
            let outcomes = bench.handle.store().commit(bench.number(), vec![commit]).await?;
            ensure!(outcomes == [Outcome::Committed], "records were not taken: {outcomes:?}");
            first = end;
        }
        Ok(())
    }

    fn record(&self, number: u64, effective: uuid::Uuid) -> NewRecord {
        let parent = self.parent(number).map(name);
        NewRecord {
            parent_generation: parent.as_ref().map(|_| 1),
            row: RecordRow {
                id: name(number),
                kind: "node".to_owned(),
                parent,
                version: 1,
                body: b"{}".to_vec(),
                acl: Tree::own(number, "group:a").to_bytes(),
                effective,
                generation: 1,
                created_at: Time(1),
                updated_at: Time(1),
            },
            keys: vec![],
        }
    }

    async fn verify(&self, bench: &Bench, tenant: &TenantId) -> Result<()> {
        let lists = self.lists("group:b");
        let (mut number, mut after) = (0_u64, None);
        loop {
            let ask = RecordAsk { after: after.take(), limit: PAGE_MAX, ..RecordAsk::default() };
            let page = bench.handle.store().records().records(tenant, &ask).await?;
            let Some(last) = page.last() else { break };
            after = Some((vec![], last.view.row.id.clone()));
            for one in &page {
                let fresh = lists.get(number as usize).map(|list| list.id());
                let stored = one.view.row.effective;
                ensure!(Some(stored) == fresh, "{} has another list than one made anew", one.view.row.id);
                number += 1;
            }
        }
        ensure!(number == self.records, "{number} records of {}", self.records);
        Ok(())
    }
}

fn list_row(list: &Effective) -> AclListRow {
    let entries = list.0.iter().map(|(name, entry)| (name.clone(), entry.allow, entry.deny)).collect();
    AclListRow { id: list.id(), list: list.to_bytes(), entries }
}

pub(super) fn print(reports: &[Report], out: &Out) -> Result<()> {
    let say = |line: &str| out.line(line).map_err(|_| anyhow!("stdout is closed"));
    if matches!(out.format, Format::Json) {
        return say(&serde_json::to_string(reports)?);
    }
    for report in reports {
        if out.format == Format::Jsonl {
            say(&serde_json::to_string(report)?)?;
            continue;
        }
        say(&format!(
            "{} records: request {:.1} ms, all below within {:.2} s, {:.1} µs per record, every list as made from scratch",
            report.records, report.request_ms, report.seconds, report.micros_per_record
        ))?;
    }
    Ok(())
}
