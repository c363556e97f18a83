//! `windlass admin move`: tenants go from one store to another.

use super::admin::failed;
use crate::{
    failure::{Exit, Failure},
    host,
    out::{Format, Out},
    profile::DEFAULT_DATA,
};
use indicatif::{ProgressBar, ProgressStyle};
use machine::TenantId;
use serde_json::json;
use std::path::{Path, PathBuf};
use store::{
    postgres, sqlite,
    transfer::{self, Moved, Side},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where they are: a data folder, or the URL of a database as the role that owns its tables
    #[arg(long, default_value = DEFAULT_DATA, value_name = "DIR|URL")]
    from: String,
    /// Where they go, the same; a folder is made if there is none, a database must have been migrated
    #[arg(long, value_name = "DIR|URL")]
    to: String,
    /// Only this tenant (repeatable); all unless given
    #[arg(long, value_name = "ID")]
    tenant: Vec<String>,
    /// Leave them where they are too: for a rehearsal. Never let two engines work on the same tenant
    #[arg(long)]
    keep: bool,
}

pub(crate) async fn run(args: Args, out: &Out) -> Result<(), Failure> {
    if args.from == args.to {
        return Err(Failure::usage("--from and --to are the same store"));
    }
    let from = side(&args.from, true).await?;
    let to = side(&args.to, false).await?;
    let tenants = wanted(&args.tenant, from.as_ref(), to.as_ref()).await?;
    let failure = |error| failed("the move stopped; call it again to go on", error);
    let others = transfer::hand_over_keys(from.as_ref(), to.as_ref()).await.map_err(failure)?;
    for tenant in &tenants {
        let bar = counting(tenant);
        let told = |rows: u64| bar.inc(rows);
        let moved = transfer::move_tenant(from.as_ref(), to.as_ref(), tenant, args.keep, &told).await;
        bar.finish_and_clear();
        tell(out, tenant, &moved.map_err(failure)?, args.keep)?;
    }
    for name in others {
        out.note(&format!(
            "the other store has a key of its own for {name}: tokens that were given out before are refused there"
        ));
    }
    Ok(())
}

/// Shows on a terminal how many rows are through: each is copied, and then read on both sides.
fn counting(tenant: &TenantId) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg}: {pos} rows copied and compared")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    ProgressBar::new_spinner().with_style(style).with_message(tenant.to_string())
}

/// One end of the move.
async fn side(place: &str, is_source: bool) -> Result<Box<dyn Side>, Failure> {
    if place.starts_with("postgres://") || place.starts_with("postgresql://") {
        let side = postgres::AtRest::open(place).await;
        return Ok(Box::new(side.map_err(|error| failed("cannot use the database", error))?));
    }
    let folder = PathBuf::from(place);
    let file = folder.join(host::STORE_FILE);
    if is_source && !file.exists() {
        let text = format!("there is no database in {}", folder.display());
        return Err(Failure::new(Exit::NotFound, text).hint("name the engine's data folder with --from"));
    }
    let file = if is_source { file } else { host::store_file(Path::new(place))? };
    let side = sqlite::AtRest::open(&file);
    Ok(Box::new(side.map_err(|error| failed(&format!("cannot use {}", file.display()), error))?))
}

/// The tenants that are named, or all. One that is only at the other end was moved before.
async fn wanted(named: &[String], from: &dyn Side, to: &dyn Side) -> Result<Vec<TenantId>, Failure> {
    let unread = |error| failed("the tenants cannot be read", error);
    let here = from.tenants().await.map_err(unread)?;
    if named.is_empty() {
        return Ok(here);
    }
    let there = to.tenants().await.map_err(unread)?;
    let mut wanted = vec![];
    for name in named {
        let missing = || Failure::new(Exit::NotFound, format!("there is no tenant {name}"));
        let tenant = TenantId::new(name).map_err(|_| missing())?;
        match (here.contains(&tenant), there.contains(&tenant)) {
            (true, _) => wanted.push(tenant),
            (false, true) => {}
            (false, false) => return Err(missing()),
        }
    }
    Ok(wanted)
}

fn tell(out: &Out, tenant: &TenantId, moved: &Moved, kept: bool) -> Result<(), Failure> {
    let hash: String = moved.hash.iter().map(|byte| format!("{byte:02x}")).collect();
    if matches!(out.format, Format::Json | Format::Jsonl) {
        return out.line(
            &json!({
                "tenant": tenant.as_str(),
                "instances": moved.instances,
                "rows": moved.rows,
                "hash": hash,
                "was_there": moved.was_there,
                "kept": kept,
            })
            .to_string(),
        );
    }
    let word = if kept { "copied" } else { "moved" };
    out.line(&format!(
        "{word}  {tenant}: {} instances, {} rows, the same on both sides ({})",
        moved.instances,
        moved.rows,
        &hash[..12]
    ))?;
    if moved.secrets > 0 {
        out.note(&format!(
            "{tenant} has {} secrets: give the other engine the same secrets key",
            moved.secrets
        ));
    }
    Ok(())
}
