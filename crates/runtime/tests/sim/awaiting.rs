//! What the simulator could do but does not yet, because it shows a bug that is known and not fixed.

use std::sync::atomic::{AtomicBool, Ordering};

/// Names of definitions and faults that are left out, each with the bug that it shows.
pub(crate) const AWAITING_FIX: &[(&str, &str)] = &[(
    "paused_approval",
    "Paused, an instance keeps a timeout and then an acknowledged task completion; resumed, it times out first.",
)];

static EVERYTHING: AtomicBool = AtomicBool::new(false);

/// Leaves nothing out: to see whether a fix helped.
pub(crate) fn leave_nothing_out() {
    EVERYTHING.store(true, Ordering::Relaxed);
}

pub(crate) fn is_left_out(name: &str) -> bool {
    !EVERYTHING.load(Ordering::Relaxed) && AWAITING_FIX.iter().any(|(listed, _)| *listed == name)
}
