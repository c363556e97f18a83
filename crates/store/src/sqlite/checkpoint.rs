//! When the log is moved into the file: a little at a time while nobody waits for the writer, and in the middle of a commit
//! only when nobody has left it the time.
//!
//! Left to SQLite alone, a checkpoint of 8,192 frames comes with a commit, and whoever waits for that one waits 20 ms longer.
//! On a thread and a connection of its own it was worse, 35 to 60 ms: the two files are synced by the same disk.

use rusqlite::{Connection, hooks::Wal};
use std::{
    ffi::c_int,
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
};

/// Frames of the log with which a commit moves them. A hot page is copied back once per checkpoint however often it changed:
/// a workflow of three steps writes 18.7 KiB at SQLite's 1,000, 13.3 KiB at this, 12.8 KiB at four times this.
pub(super) const FRAMES_MAX: c_int = 8_192;
/// Frames worth moving while nobody waits: about as long as a commit takes.
const FRAMES_IDLE: c_int = 1_024;

/// What is known of the log of one writing connection.
#[derive(Default)]
pub(super) struct Log {
    /// Frames in it after the last commit.
    frames: Arc<AtomicI32>,
    /// Frames in it after the last move: it begins anew only once no reader needs them.
    moved: c_int,
}

impl Log {
    /// Follows the log of a connection, in place of SQLite's own rule.
    pub(super) fn of(connection: &mut Connection) -> rusqlite::Result<Log> {
        let log = Log::default();
        let frames = log.frames.clone();
        let hook = move |wal: &mut Wal, now: c_int| {
            frames.store(now, Ordering::Relaxed);
            if now >= FRAMES_MAX {
                warn(wal.checkpoint());
            }
            Ok(())
        };
        connection.wal_hook(Some(hook))?;
        Ok(log)
    }

    /// Nobody waits for the writer at the moment.
    pub(super) fn idle(&mut self, connection: &Connection) {
        let frames = self.frames.load(Ordering::Relaxed);
        if frames < self.moved {
            self.moved = 0;
        }
        if frames - self.moved >= FRAMES_IDLE {
            self.moved = frames;
            warn(connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())));
        }
    }
}

/// What could not be moved is moved later; it is durable where it is.
fn warn(moved: rusqlite::Result<()>) {
    if let Err(error) = moved {
        tracing::warn!(%error, "moving the log into the database file failed");
    }
}
