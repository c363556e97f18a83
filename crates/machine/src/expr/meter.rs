//! The meter: counts the work of the evaluation that runs on this thread and stops it at its limit.
//!
//! The interpreter has no hook for cancelling, so every operation of [`super::value::Value`] pays here. Once the
//! meter has stopped, all operations that can fail do fail, and the evaluation collapses within microseconds.
//! One unit is about one interpreter step, one array element or 16 bytes of text.

use super::value::Value;
use jaq_core::Error;
use std::cell::Cell;

/// Free stack below which recursion is stopped.
const STACK_LEFT_MIN: usize = 512 * 1024;

/// A call that may recurse costs about 100 ns.
const CALL_PRICE: usize = 4;

/// Why an evaluation was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Work,
    Depth,
    Recursion,
}

impl Stop {
    pub(super) fn message(self) -> &'static str {
        match self {
            Stop::Work => "the expression was stopped: it does too much work or builds too much data",
            Stop::Depth => "the expression was stopped: it builds data that is nested too deeply",
            Stop::Recursion => "the expression was stopped: its functions call each other too deeply",
        }
    }
}

thread_local! {
    static FUEL: Cell<u64> = const { Cell::new(u64::MAX) };
    static STOP: Cell<Option<Stop>> = const { Cell::new(None) };
    /// What the last evaluation left over.
    static LEFT: Cell<u64> = const { Cell::new(0) };
    /// What all evaluations have spent since somebody asked.
    static TOTAL: Cell<u64> = const { Cell::new(0) };
}

/// Runs `work` with `units` to spend; answers what it returned and whether it was stopped.
pub(super) fn with_fuel<T>(units: u64, work: impl FnOnce() -> T) -> (T, Option<Stop>) {
    FUEL.set(units);
    STOP.set(None);
    let result = work();
    LEFT.set(FUEL.replace(u64::MAX));
    TOTAL.set(TOTAL.get().saturating_add(spent(units)));
    (result, STOP.take())
}

/// What the evaluations on this thread have spent since the last time this was asked.
pub(super) fn take_total() -> u64 {
    TOTAL.take()
}

/// What the last evaluation on this thread spent of the `units` it had.
pub(super) fn spent(units: u64) -> u64 {
    units.saturating_sub(LEFT.get())
}

/// Pays for work that cannot fail by itself.
pub(super) fn charge(units: usize) {
    let left = FUEL.get();
    match left.checked_sub(units as u64) {
        Some(left) => FUEL.set(left),
        None => stop(Stop::Work),
    }
}

/// Pays for work about to be done; an error means that it must not be done.
pub(super) fn spend(units: usize) -> Result<(), Error<Value>> {
    charge(units);
    match STOP.get() {
        None => Ok(()),
        Some(reason) => Err(Error::str(reason.message())),
    }
}

/// Stops the evaluation; the first reason counts.
pub(super) fn stop(reason: Stop) {
    FUEL.set(0);
    if STOP.get().is_none() {
        STOP.set(Some(reason));
    }
}

pub(super) fn is_stopped() -> bool {
    STOP.get().is_some()
}

/// Pays for one call of a function that may recurse; false means that the evaluation has been stopped.
pub(super) fn enter_call() -> bool {
    charge(CALL_PRICE);
    if stacker::remaining_stack().is_some_and(|left| left < STACK_LEFT_MIN) {
        stop(Stop::Recursion);
    }
    !is_stopped()
}

/// The price of handling `bytes` of text.
pub(super) fn text_price(bytes: usize) -> usize {
    1 + bytes / 16
}
