//! `windlass migrate`: makes or changes the tables of a PostgreSQL database, as the role that owns them.

use crate::{failure::Failure, host::Place, out::Out};
use serde_json::json;
use std::path::Path;

#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    windlass migrate --store postgres://windlass_owner@db/windlass --app-role windlass_app\n\n\
    The role in the URL owns the tables; nodes connect as the other one, which row security binds.\n\
    Only one of several that are started together migrates; the others wait and find nothing to do.")]
pub(crate) struct Args {
    /// The database, as the role that owns its tables
    #[arg(long, value_name = "URL", env = "WINDLASS_STORE_URL")]
    store: String,
    /// The role that nodes connect as; it is let in to the tables
    #[arg(long, value_name = "ROLE")]
    app_role: Option<String>,
}

pub(crate) async fn run(args: Args, out: Out) -> Result<(), Failure> {
    let place = Place::of(&args.store, Path::new(""))?;
    let made = place.migrate(args.app_role.as_deref()).await?;
    match out.format {
        crate::out::Format::Table if made.is_empty() => {
            out.line("nothing to do: the tables are as they should be")
        }
        crate::out::Format::Table => out.line(&format!("migrated: {}", made.join(", "))),
        _ => out.line(&json!({ "migrated": made }).to_string()),
    }
}
