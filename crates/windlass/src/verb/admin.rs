//! `windlass admin`: what an operator does to the data of an engine, from the outside.

use super::moving;
use crate::{
    failure::{Exit, Failure},
    host,
    out::{Format, Out},
};
use clap::Subcommand;
use serde_json::json;
use std::path::{Path, PathBuf};
use store::sqlite;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Copy the database of a data folder to a new file, while the engine runs or not
    ///
    /// The copy is the database as it is at one moment, checked and durable before this ends. The keys beside it
    /// (secrets-key, demo-key) are not in it: keep them elsewhere, secrets cannot be read without theirs.
    #[command(after_help = "Examples:\n  windlass admin backup --to /backup/windlass-2026-11-16.db\n  \
        windlass admin backup --data /var/lib/windlass --to nightly.db -o json")]
    Backup {
        /// The engine's data folder
        #[arg(long, default_value = "windlass-data", value_name = "DIR")]
        data: PathBuf,
        /// The new file
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
    },
    /// Make the database of a data folder from a copy; refused if there is one
    ///
    /// What was acknowledged after the copy was made is not in it. Calls that were under way when it was made are
    /// made again with their idempotency keys.
    #[command(after_help = "Examples:\n  windlass admin restore --from nightly.db --data /var/lib/windlass")]
    Restore {
        /// The copy
        #[arg(long, value_name = "FILE")]
        from: PathBuf,
        /// The data folder
        #[arg(long, default_value = "windlass-data", value_name = "DIR")]
        data: PathBuf,
    },
    /// Move tenants from one store to another: SQLite to PostgreSQL, and back
    ///
    /// Tenant by tenant: copies every row, compares the hash of every instance on both sides, and only then removes the
    /// tenant where it came from. One that was cut off is gone on with when it is called again. No engine may be at work on
    /// either store.
    #[command(after_help = "Examples:\n  \
        windlass admin move --to postgres://windlass_owner@db/windlass\n  \
        windlass admin move --from /var/lib/windlass --to postgres://windlass_owner@db/windlass --tenant acme --keep\n  \
        windlass admin move --from postgres://windlass_owner@db/windlass --to windlass-data")]
    Move(moving::Args),
}

pub(crate) async fn run(verb: Verb, out: &Out) -> Result<(), Failure> {
    match verb {
        Verb::Move(args) => moving::run(args, out).await,
        Verb::Backup { data, to } => {
            let from = data.join(host::STORE_FILE);
            if !from.exists() {
                let text = format!("there is no database in {}", data.display());
                return Err(
                    Failure::new(Exit::NotFound, text).hint("name the engine's data folder with --data")
                );
            }
            let copied = sqlite::backup(&from, &to).map_err(|error| failed("the backup failed", error))?;
            tell(out, "backed up", &to, copied)
        }
        Verb::Restore { from, data } => {
            if !from.exists() {
                return Err(Failure::new(Exit::NotFound, format!("there is no file {}", from.display())));
            }
            let to = host::store_file(&data)?;
            let copied =
                sqlite::restore(&from, &to).map_err(|error| failed("nothing was restored", error))?;
            tell(out, "restored", &to, copied)
        }
    }
}

pub(super) fn failed(what: &str, error: store::Error) -> Failure {
    let exit = if matches!(error, store::Error::InUse(_)) { Exit::Conflict } else { Exit::Failed };
    Failure::new(exit, what).detail(error.to_string())
}

fn tell(out: &Out, what: &str, file: &Path, bytes: u64) -> Result<(), Failure> {
    match out.format {
        Format::Json | Format::Jsonl => out.line(&json!({ "file": file, "bytes": bytes }).to_string()),
        _ => out.line(&format!("{what}  {} ({:.1} MiB)", file.display(), bytes as f64 / 1_048_576.0)),
    }
}
