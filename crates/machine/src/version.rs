//! Versions of one definition: how they differ, and how an instance of one goes on in another.
//!
//! [`diff()`] says what changed between two versions. A [`Plan`] pairs the steps of two versions once; with it
//! [`Plan::fit`] says whether an instance can go on in the newer one, and [`Plan::migrate`] moves it there. All of
//! it is pure: who asks, loads and commits is the runtime.

mod diff;
mod order;
mod pairs;
mod place;
#[cfg(test)]
mod tests;

pub use diff::{Change, Diff, StepChange, diff};
pub use place::{Fit, Need, Plan};

/// Old step reference → new step reference. A pair also moves the steps inside the step, and says that somebody has
/// looked at it: a changed data flow of that very step is then accepted.
pub type Mapping = std::collections::BTreeMap<String, String>;

/// The most pairs one mapping may have.
pub const MAPPING_MAX: usize = 1000;
