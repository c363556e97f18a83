//! Weeks later, in some seeds: what ended is deleted, what lives is not, and no key is forgotten too soon.
//!
//! All nodes are gone by then. Time jumps; a node comes up, something new is started, and the node sweeps, while the
//! store fails as it did before.

use super::{clients::PATIENCE, time, world::World};
use machine::{Data, time::Span};
use runtime::{
    Node, Parts,
    api::{DefinitionRef, Start},
    retention::Retention,
};
use std::time::Duration;
use store::{Store, rows::InboxRow, views::*};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const DAY: u64 = 86_400;
/// How long the nodes of this simulation keep what has ended.
pub(crate) const RETENTION: Retention = Retention {
    ended: Some(Span::from_secs(14 * DAY as i64)),
    faulted: Some(Span::from_secs(60 * DAY as i64)),
    keys: Some(Span::from_secs(7 * DAY as i64)),
    every: Span::from_secs(60),
};

impl World {
    /// Goes on after everything has come to rest and was checked.
    pub(crate) async fn weeks(&self, seed: u64) -> Vec<String> {
        let before = self.all().await;
        let (lives, parent) = (self.begin("old", "ages", seed).await, self.begin("kin", "kept", seed).await);
        // Some days: nothing is old enough.
        self.sweep(seed, 3).await;
        let mut failures = vec![];
        if self.all().await.len() < before.len() + 2 || !self.has_key("old").await {
            failures.push("P22: something was deleted after three days".to_owned());
        }
        let young = self.begin("young", "ages", seed).await;
        self.sweep(seed, 6).await;
        let after = self.all().await;
        if after.len() < before.len() + 3 {
            failures.push("P22: an instance was deleted after nine days".to_owned());
        }
        if self.has_key("old").await || !self.has_key("young").await {
            failures.push("P22: keys live seven days, this one more or less".to_owned());
        }
        self.sweep(seed, 10).await;
        for view in self.all().await {
            let kept = view.row.ended_at.is_none() || view.row.status == "faulted";
            let of_kept = view.row.parent.is_some_and(|of| of.instance == parent);
            if !kept && !of_kept {
                failures.push(format!("P22: {} {} is still there", view.row.id, view.row.status));
            }
        }
        let kin = self.store.children(&self.tenant, parent).await.expect("answers");
        for id in [lives, young, parent] {
            if self.status(id).await != "waiting" {
                failures.push(format!("P22: {id} is {:?} though it waits", self.status(id).await));
            }
        }
        if kin != [("completed".to_owned(), 1)] {
            failures.push(format!("P22: a waiting parent's child is {kin:?}"));
        }
        failures
    }

    async fn all(&self) -> Vec<InstanceView> {
        let page = Page { after: None, limit: PAGE_MAX };
        self.store.instances(&self.tenant, &InstanceFilter::default(), &page).await.expect("answers")
    }

    async fn has_key(&self, key: &str) -> bool {
        let found: Option<InboxRow> = self.store.inbox(&self.tenant, "start", key).await.expect("answers");
        found.is_some()
    }

    /// A node that looks around seldom: most of the time nothing happens.
    fn idler(&self, seed: u64, crash: &CancellationToken) -> Parts {
        let mut parts = self.parts(9, seed, 0, crash.clone());
        parts.options.lease = Span::from_secs(60);
        parts.options.rescan = Some(Span::from_secs(60));
        parts
    }

    /// Lets so many days pass, then a node be up until it has swept.
    async fn sweep(&self, seed: u64, days: u64) {
        tokio::time::advance(Duration::from_secs(days * DAY)).await;
        self.chaos.rekindle();
        let until = time::now().0 + 60_000_000;
        for life in 0.. {
            // The last life is long enough for a sweep, and nothing goes wrong in it.
            let last = time::now().0 > until;
            if last {
                self.chaos.heal();
            }
            let crash = CancellationToken::new();
            let up = async {
                let Ok(node) = Node::start(self.idler(seed ^ life ^ days << 40, &crash)).await else {
                    return;
                };
                // The node before may have died with the lock of retention: its lease ends, and the next sweep has it.
                let waits = if last { 200 } else { 0 };
                let length = Duration::from_secs(80 + self.chaos.below(30) + waits);
                tokio::select! {
                    biased;
                    () = node.fenced() => {}
                    () = sleep(length) => {}
                }
            };
            tokio::select! {
                biased;
                () = crash.cancelled() => {}
                () = up => {}
            }
            crash.cancel();
            if last {
                return;
            }
        }
    }

    /// Starts an instance with a node of its own, and lets it come to where it waits.
    async fn begin(&self, key: &str, name: &str, seed: u64) -> Uuid {
        let crash = CancellationToken::new();
        let node = Node::start(self.idler(seed ^ u64::from(key.as_bytes()[0]) << 16, &crash)).await;
        let node = node.expect("nothing goes wrong now");
        let start = Start {
            definition: DefinitionRef {
                namespace: "sim".to_owned(),
                name: name.to_owned(),
                version: Some("1.0.0".to_owned()),
            },
            input: Data::map([("client".to_owned(), Data::int(0))]),
            business_key: None,
            business_parts: vec![],
            idempotency_key: Some(key.to_owned()),
            traceparent: None,
            tracestate: None,
            correlation_id: None,
            id: None,
        };
        let handle = node.handle();
        let started = timeout(PATIENCE, handle.start(&self.tenant, start)).await;
        let id = started.expect("in time").expect("nothing goes wrong now").id;
        let children = u64::from(name == "kept");
        while self.status(id).await != "waiting" || self.children_done(id).await < children {
            sleep(Duration::from_millis(50)).await;
        }
        crash.cancel();
        id
    }

    async fn children_done(&self, parent: Uuid) -> u64 {
        let children = self.store.children(&self.tenant, parent).await.expect("answers");
        children.iter().filter(|(status, _)| status == "completed").map(|(_, count)| count).sum()
    }
}
