//! Databases that are copies of another: tables are copied in less time than they are made.

use crate::server::{Database, LOOK, LOOKS_MAX, Server};
use anyhow::Result;
use std::fs::File;

impl Server {
    /// A fresh database that is a copy of `template`, which `make` fills with what it is to hold if there is none yet. One
    /// process at a time makes it, and whoever finds it finds it whole.
    pub fn copy_of(&self, template: &str, make: impl FnOnce(&Database)) -> Result<Database> {
        if let Ok(database) = self.create(Some(template)) {
            return Ok(database);
        }
        let lock = std::env::temp_dir().join(format!("windlass-template-{}.lock", self.port()));
        let lock = File::create(lock)?;
        lock.lock()?;
        if !self.has(template)? {
            let making = self.create(None)?;
            make(&making);
            // Connections that have been closed live on for a moment.
            patiently(|| self.rename(making.name(), template))?;
        }
        drop(lock);
        patiently(|| self.create(Some(template)))
    }
}

#[allow(clippy::disallowed_methods, reason = "other processes need real time to end")]
fn patiently<T>(mut act: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..LOOKS_MAX {
        if let Ok(done) = act() {
            return Ok(done);
        }
        std::thread::sleep(LOOK);
    }
    act()
}
