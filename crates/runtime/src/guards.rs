//! What stands between the backlog and a target that fails: the breaker of an endpoint, the kill switch of a worker, the
//! budget of retries. One for each tenant and target, on each node: a dead endpoint holds up neither others nor other tenants.
//!
//! Whatever is held up is parked: its row comes back later, and no attempt is counted. Nothing is kept of a target that
//! never failed.

use crate::{
    breaker::{Breaker, BreakerRule, BreakerState},
    budget::Budget,
    options::Options,
};
use machine::{Fault, TenantId, Time, command::Call, time::Span};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};
use store::rows::CallRow;
use worker::{Class, Handled};

/// Targets kept in mind; beyond it those that are well are forgotten.
const TARGETS_MAX: usize = 10_000;

/// What a breaker is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TargetKind {
    /// `host:port` of outward calls.
    Endpoint,
    Worker,
}

impl TargetKind {
    pub fn word(self) -> &'static str {
        match self {
            TargetKind::Endpoint => "endpoint",
            TargetKind::Worker => "worker",
        }
    }
}

/// An endpoint or a worker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) kind: TargetKind,
    pub(crate) name: String,
}

impl Target {
    pub(crate) fn worker(name: &str) -> Target {
        Target { kind: TargetKind::Worker, name: name.to_owned() }
    }

    /// What a call goes to; nothing for what stays inside the engine, and for an address that cannot be read.
    pub(crate) fn of_call(row: &CallRow, call: &Call) -> Option<Target> {
        let member = match row.target.as_str() {
            "http" => "url",
            "openapi" => "document",
            target if crate::calls::is_built_in(target) || crate::children::is_own(target) => return None,
            worker => return Some(Target::worker(worker)),
        };
        let address = call.input.get(member)?;
        let url = url::Url::parse(address.as_str()?).ok()?;
        let (host, port) = (url.host_str()?, url.port_or_known_default()?);
        Some(Target { kind: TargetKind::Endpoint, name: format!("{host}:{port}") })
    }
}

/// Why something has to wait, and until when.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Blocked {
    pub(crate) until: Time,
    pub(crate) why: String,
}

/// A breaker as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownBreaker {
    pub kind: TargetKind,
    pub target: String,
    pub state: BreakerState,
}

struct Guard {
    breaker: Breaker,
    budget: Budget,
}

/// Everything that is guarded on this node.
pub(crate) struct Guards {
    endpoint: Option<BreakerRule>,
    worker: Option<BreakerRule>,
    retry_budget: bool,
    /// False until anything has failed, which spares a look-up.
    any: AtomicBool,
    all: Mutex<BTreeMap<(TenantId, Target), Guard>>,
}

impl Guards {
    pub(crate) fn new(options: &Options) -> Guards {
        Guards {
            endpoint: options.endpoint_breaker,
            worker: options.kill_switch,
            retry_budget: options.retry_budget,
            any: AtomicBool::new(false),
            all: Mutex::default(),
        }
    }

    fn rule(&self, kind: TargetKind) -> Option<BreakerRule> {
        match kind {
            TargetKind::Endpoint => self.endpoint,
            TargetKind::Worker => self.worker,
        }
    }

    /// Lets an attempt through, or says until when it has to wait. `chance` spreads those who wait.
    pub(crate) fn admit(
        &self,
        tenant: &TenantId,
        target: &Target,
        is_retry: bool,
        now: Time,
        chance: impl FnOnce() -> f64,
    ) -> Result<(), Blocked> {
        if !self.any.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut all = self.all.lock();
        let Some(guard) = all.get_mut(&(tenant.clone(), target.clone())) else { return Ok(()) };
        let (name, kind) = (&target.name, target.kind.word());
        if self.rule(target.kind).is_some()
            && let Err(until) = guard.breaker.admit(now)
        {
            // Not all at once when it closes: within as long again.
            let spread = Span((until.since(now).0.max(0) as f64 * chance()) as i64);
            let why = format!("the breaker of {kind} `{name}` is open");
            return Err(Blocked { until: until.after(spread), why });
        }
        if !self.retry_budget {
            return Ok(());
        }
        guard.budget.spend(is_retry, now, chance()).map_err(|wait| Blocked {
            until: now.after(wait),
            why: format!("retries to {kind} `{name}` have used up their budget"),
        })
    }

    /// Takes note of attempts that ended.
    pub(crate) fn record(&self, tenant: &TenantId, target: &Target, went_well: &[bool], now: Time) {
        let Some(rule) = self.rule(target.kind) else { return };
        let all_well = went_well.iter().all(|well| *well);
        if all_well && !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut all = self.all.lock();
        let key = (tenant.clone(), target.clone());
        if all_well && !all.contains_key(&key) {
            return;
        }
        if all.len() >= TARGETS_MAX {
            all.retain(|_, guard| !guard.breaker.is_idle(now));
        }
        let fresh = || Guard { breaker: Breaker::new(rule, now), budget: Budget::new(now) };
        let guard = all.entry(key).or_insert_with(fresh);
        let was_closed = guard.breaker.is_closed();
        went_well.iter().for_each(|well| guard.breaker.record(*well, now));
        self.any.store(true, Ordering::Release);
        if was_closed != guard.breaker.is_closed() {
            let (kind, target) = (target.kind.word(), &target.name);
            tracing::warn!(%tenant, kind, target, state = guard.breaker.show().word, "breaker");
        }
    }

    pub(crate) fn state(&self, tenant: &TenantId, target: &Target) -> Option<BreakerState> {
        let all = self.all.lock();
        all.get(&(tenant.clone(), target.clone())).map(|guard| guard.breaker.show())
    }

    /// The tenant's, by kind and name.
    pub(crate) fn of_tenant(&self, tenant: &TenantId) -> Vec<ShownBreaker> {
        let all = self.all.lock();
        let own = all.iter().filter(|((of, _), _)| of == tenant);
        own.map(|((_, target), guard)| ShownBreaker {
            kind: target.kind,
            target: target.name.clone(),
            state: guard.breaker.show(),
        })
        .collect()
    }

    /// Those that are not closed, of all tenants.
    pub(crate) fn open(&self) -> Vec<(TenantId, TargetKind, String)> {
        let all = self.all.lock();
        let open = all.iter().filter(|(_, guard)| !guard.breaker.is_closed());
        open.map(|((tenant, target), _)| (tenant.clone(), target.kind, target.name.clone())).collect()
    }

    /// Lets the next attempt through as a probe. `None` if there is no such breaker.
    pub(crate) fn force(&self, tenant: &TenantId, name: &str, now: Time) -> Option<ShownBreaker> {
        let mut all = self.all.lock();
        let mut own = all.iter_mut().filter(|((of, target), _)| of == tenant && target.name == name);
        let ((_, target), guard) = own.next()?;
        guard.breaker.force(now);
        Some(ShownBreaker { kind: target.kind, target: target.name.clone(), state: guard.breaker.show() })
    }

    /// The tenant is gone.
    pub(crate) fn forget(&self, tenant: &TenantId) {
        self.all.lock().retain(|(of, _), _| of != tenant);
    }
}

/// Whether an endpoint that raised this is to blame: it could not be reached, did not answer in time, or said that it is
/// not well.
pub(crate) fn is_endpoints(fault: &Fault) -> bool {
    let of =
        |kind: machine::fault::Kind| fault.is_type(&format!("{}{}", machine::fault::TYPE_BASE, kind.word()));
    let unwell = fault.status >= 500 || fault.status == 408 || fault.status == 429;
    of(machine::fault::Kind::Timeout) || (of(machine::fault::Kind::Communication) && unwell)
}

/// Whether a worker did what it is there for: one that says what is wrong with an event does.
pub(crate) fn is_well(handled: &Handled) -> bool {
    match handled {
        Handled::Done(_) => true,
        Handled::Retry { .. } => false,
        Handled::Fail(failure) => failure.class == Class::Validation,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::fault::Kind;

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).expect("valid")
    }

    #[test]
    fn a_dead_endpoint_is_held_up_alone() {
        let guards = Guards::new(&Options::default());
        let dead = Target { kind: TargetKind::Endpoint, name: "dead:443".to_owned() };
        let other = Target { kind: TargetKind::Endpoint, name: "well:443".to_owned() };
        let now = Time(0);
        let admit = |of: &str, target: &Target| guards.admit(&tenant(of), target, false, now, || 0.0).is_ok();
        guards.record(&tenant("acme"), &dead, &[false; 100], now);
        assert!(!admit("acme", &dead));
        assert!(admit("acme", &other) && admit("zoo", &dead));
        assert_eq!(guards.open(), [(tenant("acme"), TargetKind::Endpoint, "dead:443".to_owned())]);
        assert!(guards.force(&tenant("zoo"), "dead:443", now).is_none());
        assert!(guards.force(&tenant("acme"), "dead:443", now).is_some());
        assert!(admit("acme", &dead), "the probe");
        guards.record(&tenant("acme"), &dead, &[true], now);
        assert!(guards.open().is_empty() && admit("acme", &dead));
        guards.forget(&tenant("acme"));
        assert!(guards.of_tenant(&tenant("acme")).is_empty());
    }

    #[test]
    fn retries_beyond_their_budget_wait_and_first_attempts_never() {
        let guards = Guards::new(&Options { kill_switch: None, ..Options::default() });
        let mail = Target::worker("mail");
        let admit = |is_retry| guards.admit(&tenant("acme"), &mail, is_retry, Time(0), || 0.0);
        assert!((0..500).all(|_| admit(true).is_ok()), "nothing is known of it");
        // Without a rule nothing is kept in mind.
        guards.record(&tenant("acme"), &mail, &[false], Time(0));
        assert!(admit(true).is_ok());
        let never = BreakerRule { attempts_min: u32::MAX, ..BreakerRule::WORKER };
        let guards = Guards::new(&Options { kill_switch: Some(never), ..Options::default() });
        let admit = |is_retry| guards.admit(&tenant("acme"), &mail, is_retry, Time(0), || 0.0);
        guards.record(&tenant("acme"), &mail, &[false], Time(0));
        assert_eq!((0..500).filter(|_| admit(true).is_ok()).count(), 100);
        assert!((0..500).all(|_| admit(false).is_ok()));
        assert_eq!((0..500).filter(|_| admit(true).is_ok()).count(), 100, "a fifth");
    }

    #[test]
    fn who_is_to_blame() {
        let with = |status: u16| Fault { status, ..Fault::new(Kind::Communication, "x") };
        for (fault, expected) in [
            (with(500), true),
            (with(503), true),
            (with(429), true),
            (with(404), false),
            (with(302), false),
            (Fault::new(Kind::Timeout, "x"), true),
            (Fault::new(Kind::Runtime, "x"), false),
            (Fault::new(Kind::Authorization, "x"), false),
        ] {
            assert_eq!(is_endpoints(&fault), expected, "{fault:?}");
        }
        assert!(is_well(&Handled::done()) && is_well(&Handled::fail(Class::Validation, "x")));
        assert!(!is_well(&Handled::retry("x")) && !is_well(&Handled::fail(Class::Poison, "x")));
    }
}
