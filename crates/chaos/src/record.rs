//! What a folder of a run holds, as types: the checker reads nothing else.

use crate::journal;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

pub(crate) const SETTINGS: &str = "settings.json";
pub(crate) const EXPECTED: &str = "expected.jsonl";
pub(crate) const OPS: &str = "history.jsonl";
pub(crate) const FEED: &str = "feed.jsonl";
pub(crate) const FAULTS: &str = "faults.jsonl";
pub(crate) const SINK: &str = "sink.jsonl";
pub(crate) const FINAL: &str = "final.jsonl";
pub(crate) const COUNTS: &str = "counts.json";
pub(crate) const PUBLISHED: &str = "published.jsonl";
pub(crate) const HANDLED: &str = "handled.jsonl";
pub(crate) const EMITTED: &str = "emitted.jsonl";

/// What was asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) seed: u64,
    pub(crate) seconds: u64,
    pub(crate) nodes: usize,
    /// How nodes wake each other.
    #[serde(default)]
    pub(crate) hints: Hints,
    /// The database loses what it acknowledged: a checker that does not see that is worth nothing.
    #[serde(default)]
    pub(crate) lying: bool,
}

/// What carries hints between nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Hints {
    #[default]
    Postgres,
    Off,
    Redis,
}

impl Hints {
    /// One after the other, by the seed.
    pub(crate) fn of(seed: u64) -> Hints {
        match seed % 3 {
            0 => Hints::Redis,
            1 => Hints::Postgres,
            _ => Hints::Off,
        }
    }
}

/// What a client knows of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Res {
    Ok,
    /// Certainly not sent, or refused.
    Fail,
    /// It may or may not have happened.
    #[default]
    Info,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Act {
    #[default]
    Start,
    Signal,
    Cancel,
    Read,
    History,
}

/// One request: written before it is sent, and again after its answer. Without the second it is `info`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Op {
    pub(crate) n: u64,
    pub(crate) op: Act,
    /// The key of the instance that it is about.
    pub(crate) key: String,
    pub(crate) tenant: String,
    pub(crate) node: usize,
    /// Who asks; one client asks one thing after the other.
    pub(crate) client: u64,
    pub(crate) t0: i64,
    pub(crate) t1: Option<i64>,
    pub(crate) res: Res,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    /// The instance, if the answer or the address named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    /// Of a signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<String>,
    /// The version that was read, or those that history had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) versions: Vec<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    /// Asked after everything was healed, to see whether the node serves.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) tail: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it so")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// Effect, wait, effect: the second effect must not reach the sink sooner after the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wait {
    pub(crate) before: String,
    pub(crate) after: String,
    pub(crate) ms: u64,
}

/// What an instance must come to, by the driver's own reckoning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Expected {
    pub(crate) key: String,
    pub(crate) tenant: String,
    pub(crate) program: String,
    pub(crate) status: String,
    pub(crate) n: i64,
    /// Names of the effects, each of which must reach the sink with one key.
    pub(crate) effects: BTreeSet<String>,
    pub(crate) waits: Vec<Wait>,
    /// Children by their key, and what each must come to.
    pub(crate) children: BTreeMap<String, i64>,
    /// Names of the signals that it waits for, and what each adds.
    pub(crate) signals: Vec<(String, i64)>,
    /// How often it emits an event and waits for it.
    #[serde(default)]
    pub(crate) meets: u32,
    /// Its client cancels it on the way: it may end anywhere.
    #[serde(default)]
    pub(crate) cancels: bool,
    /// Ids of the events that it emits, in lists whose order must be kept. Branches have lists of their own.
    #[serde(default)]
    pub(crate) told: Vec<Vec<String>>,
}

/// An event as a reader of the feed saw it; lines are in the order of reading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Told {
    /// Which reader: those that followed it all the while have a node, the one that read it at the end has none.
    pub(crate) node: Option<usize>,
    pub(crate) tenant: String,
    pub(crate) id: String,
}

/// A fault, and how long it lasted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub(crate) kind: String,
    pub(crate) node: Option<usize>,
    pub(crate) t0: i64,
    pub(crate) t1: i64,
    pub(crate) note: String,
    /// There was something to harm: a process that lived, a connection that was open, a COMMIT that came by.
    #[serde(default)]
    pub(crate) hit: bool,
}

/// A request that reached the sink.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Effect {
    pub(crate) t: i64,
    /// The idempotency key of the request.
    pub(crate) key: String,
    /// The effect's name, from the body.
    pub(crate) id: String,
    pub(crate) hash: String,
    /// 200 if the sink took it.
    pub(crate) status: u16,
}

/// An instance at the end, as the API shows it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Final {
    pub(crate) id: String,
    pub(crate) tenant: String,
    /// From its input.
    pub(crate) key: String,
    pub(crate) parent: Option<String>,
    pub(crate) status: String,
    pub(crate) version: i64,
    pub(crate) n: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<serde_json::Value>,
    /// Versions that history has, in its order, without repetition.
    pub(crate) versions: Vec<i64>,
    /// What became of signals: kind of the event and id of the signal.
    pub(crate) signals: Vec<(String, String)>,
    /// Events of its own that it heard.
    #[serde(default)]
    pub(crate) met: u32,
}

/// An event that was acknowledged, or that a worker emitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Published {
    pub(crate) tenant: String,
    pub(crate) id: String,
}

/// An event that a worker was given and answered as done, perhaps more than once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Handled {
    pub(crate) tenant: String,
    pub(crate) id: String,
    /// What the worker is to make effects happen once with.
    pub(crate) key: String,
}

/// What the database itself counts at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Instances by tenant and status.
    pub(crate) instances: BTreeMap<String, u64>,
    /// Rows of work that is left, by table.
    pub(crate) left: BTreeMap<String, u64>,
    /// How often a node ended by itself and was started again.
    pub(crate) exits: u64,
}

/// All that is known of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) settings: Settings,
    pub(crate) expected: Vec<Expected>,
    pub(crate) ops: Vec<Op>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) sink: Vec<Effect>,
    pub(crate) finals: Vec<Final>,
    pub(crate) feed: Vec<Told>,
    pub(crate) counts: Counts,
    pub(crate) published: Vec<Published>,
    pub(crate) handled: Vec<Handled>,
    pub(crate) emitted: Vec<Published>,
}

impl Record {
    pub(crate) fn load(folder: &Path) -> Result<Record> {
        let json = |name: &str| {
            let path = folder.join(name);
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        // The second line of an op replaces the first.
        let mut ops = BTreeMap::new();
        for op in journal::read::<Op>(&folder.join(OPS))? {
            ops.insert(op.n, op);
        }
        Ok(Record {
            settings: serde_json::from_slice(&json(SETTINGS)?)?,
            expected: journal::read(&folder.join(EXPECTED))?,
            ops: ops.into_values().collect(),
            faults: journal::read(&folder.join(FAULTS))?,
            sink: journal::read(&folder.join(SINK))?,
            finals: journal::read(&folder.join(FINAL))?,
            feed: journal::read(&folder.join(FEED))?,
            counts: serde_json::from_slice(&json(COUNTS)?)?,
            published: journal::read(&folder.join(PUBLISHED))?,
            handled: journal::read(&folder.join(HANDLED))?,
            emitted: journal::read(&folder.join(EMITTED))?,
        })
    }
}
