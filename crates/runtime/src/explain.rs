//! Says why an instance or a delivery does not go on: what it waits for, who holds it, which limit or missing worker is in
//! its way, and when it should go on. Reads only.
//!
//! What it says of lanes, workers and polls is what this node knows; what it says of rows is the store's.

mod call;
mod delivery;
mod instance;

pub(crate) use delivery::delivery;
pub(crate) use instance::instance;

use crate::{engine::Engine, guards::Target, tenants::Standing};
use machine::{TenantId, Time, id};
use uuid::Uuid;

/// Reasons that the sentence names; all of them are listed beside it.
const NAMED_MAX: usize = 3;

/// Why something does not go on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation {
    /// One sentence.
    pub summary: String,
    /// What holds all of it comes first.
    pub reasons: Vec<Reason>,
}

/// One reason. What is not given does not apply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reason {
    /// A stable word, such as `timer` or `no-worker`.
    pub kind: &'static str,
    pub text: String,
    pub step: Option<String>,
    /// When it should go on by itself, or will be given up.
    pub until: Option<Time>,
    /// The node that has it.
    pub node: Option<Uuid>,
    pub task: Option<Uuid>,
    /// Another instance that is waited for.
    pub instance: Option<Uuid>,
    /// Another delivery that comes first.
    pub delivery: Option<Uuid>,
    pub dead_letter: Option<Uuid>,
    /// The worker or endpoint.
    pub target: Option<String>,
    /// The attempt that is under way or comes next, and how many there are in all.
    pub attempt: Option<u32>,
    pub attempts_max: Option<u32>,
    /// How many of the same queue come before it.
    pub ahead: Option<u64>,
    pub event_types: Vec<String>,
}

impl Reason {
    fn new(kind: &'static str, text: impl Into<String>) -> Reason {
        Reason { kind, text: text.into(), ..Reason::default() }
    }
}

impl Explanation {
    fn of(reasons: Vec<Reason>) -> Explanation {
        let named: Vec<&str> = reasons.iter().take(NAMED_MAX).map(|reason| reason.text.as_str()).collect();
        let rest = match reasons.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        Explanation { summary: format!("{}{rest}", named.join("; ")), reasons }
    }
}

/// What the tenant's status has to do with it.
fn of_tenant(engine: &Engine, tenant: &TenantId) -> Option<Reason> {
    let standing = engine.tenants.standing(tenant);
    standing.is_parked().then(|| {
        let word = standing.word();
        let goes = if standing == Standing::Deleted { "restored" } else { "resumed" };
        Reason::new("tenant", format!("tenant {tenant} is {word}: nothing of it is done until it is {goes}"))
    })
}

/// The breaker in its way, if one is open.
fn breaker(engine: &Engine, tenant: &TenantId, target: &Target) -> Option<Reason> {
    let state = engine.guards.state(tenant, target).filter(|state| state.word != "closed")?;
    let (kind, name, word) = (target.kind.word(), &target.name, state.word);
    let (failures, attempts) = (state.failures, state.attempts);
    let probe = state.until.map(|until| format!("; a probe is let through at {}", until.rfc3339()));
    let text = format!(
        "the breaker of {kind} `{name}` is {word} on this node: {failures} of {attempts} attempts failed{}",
        probe.unwrap_or_default()
    );
    Some(Reason { until: state.until, ..Reason::new("breaker", text) })
}

/// Who has it in memory.
fn held(engine: &Engine, owner: Uuid) -> Reason {
    let shown = id::show(id::Kind::Node, owner);
    let text = match owner == engine.node {
        true => format!("this node ({shown}) has it: it is under way, or next in line"),
        false => {
            format!("node {shown} has it; if that node is gone, another takes over when its lease has ended")
        }
    };
    Reason { node: Some(owner), ..Reason::new("held", text) }
}

/// `3 of 5`, as far as it is known.
fn tries(attempt: u32, max: Option<u32>) -> String {
    max.map_or_else(|| attempt.to_string(), |max| format!("{attempt} of {max}"))
}

/// What the last attempt failed with, as the end of a sentence.
fn last_error(error: &Option<Vec<u8>>) -> String {
    match error {
        Some(bytes) => format!("; the last failed: {}", String::from_utf8_lossy(bytes)),
        None => String::new(),
    }
}

fn in_line(ahead: u64, max: u64, what: &str) -> String {
    match ahead {
        0 => format!("it is the next of the tenant's {what}"),
        ahead if ahead >= max => format!("{max} or more of the tenant's {what} come before it"),
        1 => format!("one of the tenant's {what} comes before it"),
        ahead => format!("{ahead} of the tenant's {what} come before it"),
    }
}
