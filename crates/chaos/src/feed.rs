//! Readers of the feed of events: one on each node for each tenant, with a cursor that only an answer moves.

use crate::{
    client::{Ask, Client, Said},
    clock::sleep_ms,
    collect,
    driver::Tenant,
    journal::Journal,
    program::SOURCE,
    record::Told,
};
use anyhow::{Result, ensure};
use serde_json::Value;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinSet;

/// How often a reader looks.
const LOOK_MS: u64 = 150;
/// How long after everything has ended a reader may take to reach the end of the feed.
const CATCH_UP_MAX: Duration = Duration::from_secs(60);

/// Readers that follow the feed.
pub(crate) struct Readers {
    reading: JoinSet<Result<()>>,
    is_last: Arc<AtomicBool>,
}

impl Readers {
    /// Nothing more is emitted: each reads to the end.
    pub(crate) async fn finish(mut self) -> Result<()> {
        self.is_last.store(true, Ordering::Relaxed);
        let all = async {
            while let Some(read) = self.reading.join_next().await {
                read??;
            }
            Ok(())
        };
        let caught_up = tokio::time::timeout(CATCH_UP_MAX, all).await;
        ensure!(caught_up.is_ok(), "a reader of the feed does not reach its end");
        caught_up?
    }
}

pub(crate) fn follow(client: &Client, tenants: &[Tenant], journal: &Journal) -> Readers {
    let is_last = Arc::new(AtomicBool::new(false));
    let mut reading = JoinSet::new();
    for tenant in tenants {
        for node in 0..client.nodes() {
            let reader = Reader { client: client.clone(), tenant: tenant.clone(), journal: journal.clone() };
            let is_last = is_last.clone();
            reading.spawn(async move { reader.follow(node, &is_last).await });
        }
    }
    Readers { reading, is_last }
}

struct Reader {
    client: Client,
    tenant: Tenant,
    journal: Journal,
}

impl Reader {
    async fn follow(&self, node: usize, is_last: &AtomicBool) -> Result<()> {
        let mut after = String::new();
        loop {
            // Asked before the page is: what was emitted until then is on it, or on one before.
            let ends = is_last.load(Ordering::Relaxed);
            if let Said::Answer(200, page) =
                self.client.ask(node, &self.tenant.secret, Ask::get(path(&after))).await
            {
                let count = self.note(Some(node), &page).await?;
                after = next(&page);
                if count > 0 {
                    continue;
                }
                if ends {
                    return Ok(());
                }
            }
            sleep_ms(LOOK_MS).await;
        }
    }

    /// Writes the page down; answers how many events it has.
    async fn note(&self, node: Option<usize>, page: &Value) -> Result<usize> {
        let items = page["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        for item in items.iter().filter(|item| item["source"] == SOURCE) {
            let id = item["event_id"].as_str().unwrap_or_default().to_owned();
            self.journal.append(&Told { node, tenant: self.tenant.name.clone(), id }).await?;
        }
        Ok(items.len())
    }
}

/// Reads the whole feed once, from any node.
pub(crate) async fn read_all(client: &Client, tenants: &[Tenant], journal: &Journal) -> Result<()> {
    for tenant in tenants {
        let reader = Reader { client: client.clone(), tenant: tenant.clone(), journal: journal.clone() };
        let mut after = String::new();
        loop {
            let page = collect::get(client, tenant, &path(&after)).await?;
            after = next(&page);
            if reader.note(None, &page).await? == 0 {
                break;
            }
        }
    }
    Ok(())
}

fn path(after: &str) -> String {
    match after {
        "" => "/api/v1/feed?limit=200".to_owned(),
        after => format!("/api/v1/feed?limit=200&after={after}"),
    }
}

fn next(page: &Value) -> String {
    page["next"].as_str().unwrap_or_default().to_owned()
}
