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

/// Targets kept in mind; beyond it those that are well are forgotten, and then those of the tenant that has most.
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
        Target::of_address(address.as_str()?)
    }

    /// Where a URL leads; nothing if it cannot be read.
    pub(crate) fn of_address(url: &str) -> Option<Target> {
        let url = url::Url::parse(url).ok()?;
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
    /// None where breakers are off.
    breaker: Option<Breaker>,
    budget: Budget,
}

impl Guard {
    fn is_closed(&self) -> bool {
        self.breaker.as_ref().is_none_or(Breaker::is_closed)
    }

    /// True if nothing would be lost with it.
    fn is_idle(&self, now: Time) -> bool {
        match &self.breaker {
            Some(breaker) => breaker.is_idle(now),
            None => self.budget.is_idle(now),
        }
    }
}

/// By tenant and target.
type All = BTreeMap<(TenantId, Target), Guard>;

/// Forgets some if there is no room for another one. A tenant with ever new targets forgets its own.
fn make_room(all: &mut All, now: Time) {
    if all.len() < TARGETS_MAX {
        return;
    }
    all.retain(|_, guard| !guard.is_idle(now));
    if all.len() < TARGETS_MAX {
        return;
    }
    let mut counts = BTreeMap::<TenantId, usize>::new();
    all.keys().for_each(|(tenant, _)| *counts.entry(tenant.clone()).or_default() += 1);
    let Some(most) = counts.into_iter().max_by_key(|(_, count)| *count).map(|(tenant, _)| tenant) else {
        return;
    };
    let before = all.len();
    all.retain(|(tenant, _), guard| *tenant != most || !guard.is_closed());
    if all.len() == before {
        // All of them are open: every second one, so that this is not done for each that comes.
        let mut at = 0;
        all.retain(|(tenant, _), _| {
            at += usize::from(*tenant == most);
            *tenant != most || at % 2 == 0
        });
    }
}

/// Everything that is guarded on this node.
pub(crate) struct Guards {
    endpoint: Option<BreakerRule>,
    worker: Option<BreakerRule>,
    retry_budget: bool,
    /// False until anything has failed, which spares a look-up.
    any: AtomicBool,
    all: Mutex<All>,
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
        if let Some(breaker) = &mut guard.breaker
            && let Err(until) = breaker.admit(now)
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
        let rule = self.rule(target.kind);
        if rule.is_none() && !self.retry_budget {
            return;
        }
        let all_well = went_well.iter().all(|well| *well);
        if all_well && !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut all = self.all.lock();
        let key = (tenant.clone(), target.clone());
        if all_well && !all.contains_key(&key) {
            return;
        }
        if !all.contains_key(&key) {
            make_room(&mut all, now);
        }
        let fresh = || Guard { breaker: rule.map(|rule| Breaker::new(rule, now)), budget: Budget::new(now) };
        let guard = all.entry(key).or_insert_with(fresh);
        self.any.store(true, Ordering::Release);
        let Some(breaker) = &mut guard.breaker else { return };
        let was_closed = breaker.is_closed();
        went_well.iter().for_each(|well| breaker.record(*well, now));
        if was_closed != breaker.is_closed() {
            let (kind, target) = (target.kind.word(), &target.name);
            tracing::warn!(%tenant, kind, target, state = breaker.show().word, "breaker");
        }
    }

    pub(crate) fn state(&self, tenant: &TenantId, target: &Target) -> Option<BreakerState> {
        let all = self.all.lock();
        all.get(&(tenant.clone(), target.clone()))?.breaker.as_ref().map(Breaker::show)
    }

    /// The tenant's, by kind and name.
    pub(crate) fn of_tenant(&self, tenant: &TenantId) -> Vec<ShownBreaker> {
        let all = self.all.lock();
        let own = all.iter().filter(|((of, _), _)| of == tenant);
        let shown = |((_, target), guard): (&(TenantId, Target), &Guard)| {
            let state = guard.breaker.as_ref()?.show();
            Some(ShownBreaker { kind: target.kind, target: target.name.clone(), state })
        };
        own.filter_map(shown).collect()
    }

    /// Those that are not closed, of all tenants.
    pub(crate) fn open(&self) -> Vec<(TenantId, TargetKind, String)> {
        let all = self.all.lock();
        let open = all.iter().filter(|(_, guard)| !guard.is_closed());
        open.map(|((tenant, target), _)| (tenant.clone(), target.kind, target.name.clone())).collect()
    }

    /// Lets the next attempt through as a probe. `None` if there is no such breaker.
    pub(crate) fn force(&self, tenant: &TenantId, name: &str, now: Time) -> Option<ShownBreaker> {
        let mut all = self.all.lock();
        let mut own = all.iter_mut().filter(|((of, target), _)| of == tenant && target.name == name);
        let ((_, target), guard) = own.next()?;
        let breaker = guard.breaker.as_mut()?;
        breaker.force(now);
        Some(ShownBreaker { kind: target.kind, target: target.name.clone(), state: breaker.show() })
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
    of(machine::fault::Kind::Timeout) || (of(machine::fault::Kind::Communication) && is_unwell(fault.status))
}

/// Whether an endpoint that answers so is not well.
pub(crate) fn is_unwell(status: u16) -> bool {
    status >= 500 || status == 408 || status == 429
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
        // Without a kill switch there is no breaker, and the budget holds.
        guards.record(&tenant("acme"), &mail, &[false], Time(0));
        assert_eq!((0..500).filter(|_| admit(true).is_ok()).count(), 100);
        assert!((0..500).all(|_| admit(false).is_ok()));
        assert_eq!((0..500).filter(|_| admit(true).is_ok()).count(), 100, "a fifth");
        assert!(guards.of_tenant(&tenant("acme")).is_empty() && guards.open().is_empty());
        let neither = Options { kill_switch: None, retry_budget: false, ..Options::default() };
        let guards = Guards::new(&neither);
        guards.record(&tenant("acme"), &mail, &[false], Time(0));
        assert!(!guards.any.load(Ordering::Acquire), "nothing is kept in mind");
    }

    #[test]
    fn a_tenant_with_ever_new_targets_forgets_its_own() {
        let guards = Guards::new(&Options::default());
        let target = |at: usize| Target { kind: TargetKind::Endpoint, name: format!("{at}:443") };
        guards.record(&tenant("zoo"), &target(0), &[false; 100], Time(0));
        for at in 0..TARGETS_MAX * 2 {
            // Some are open, so that none of these is idle.
            guards.record(
                &tenant("acme"),
                &target(at),
                if at % 2 == 0 { &[false; 100] } else { &[false; 1] },
                Time(0),
            );
            assert!(guards.all.lock().len() <= TARGETS_MAX);
        }
        assert_eq!(guards.of_tenant(&tenant("zoo")).len(), 1);
        assert!(guards.of_tenant(&tenant("acme")).len() > TARGETS_MAX / 4);
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
