//! The store without threads: every call is answered on the caller's thread before it returns.
//!
//! For the simulator and for tests: deterministic, in memory, and made in well under a millisecond.

use super::{apply::Batch, core::Core, host::Host, read::Read};
use crate::{commit::Outcome, port::Result};
use parking_lot::Mutex;

/// A [`Core`] behind a lock.
pub struct Inline {
    core: Mutex<Core>,
}

impl Inline {
    /// An empty store in memory.
    pub fn new() -> Result<Inline> {
        Ok(Inline { core: Mutex::new(Core::from_template()?) })
    }

    /// Empties every table, so that the next seed finds a fresh store whose statements are prepared already.
    pub fn clear(&self) -> Result<()> {
        self.core.lock().clear()
    }
}

impl Host for Inline {
    async fn apply(&self, batch: Batch) -> Result<Vec<Outcome>> {
        self.core.lock().apply(batch.node, &batch.commits)
    }

    async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Core) -> Result<T> + Send + 'static,
    {
        work(&mut self.core.lock())
    }

    async fn read<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(Read<'_>) -> Result<T> + Send + 'static,
    {
        work(self.core.lock().read())
    }
}
