//! `windlass doctor`: looks at a store and at how its server is set up, and says what to do where something is wrong.

use crate::{
    config::Config,
    failure::{Exit, Failure},
    host::{self, Place},
    out::{Format, Out},
};
use runtime::clock::{Clock, SystemClock};
use serde_json::json;
use std::{path::PathBuf, time::Duration};
use store::{
    doctor::{Finding, State},
    postgres, sqlite,
};

#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    windlass doctor --config windlass.toml\n  \
    windlass doctor --store postgres://windlass_app@db/windlass\n  \
    windlass doctor --data /var/lib/windlass -o json\n\n\
    Changes nothing; may run beside the nodes. Ends with 1 if something is bad, with 0 if all is well or only\n\
    worth a warning.")]
pub(crate) struct Args {
    /// Configuration file of `serve`; without one every value has its default
    #[arg(long, value_name = "FILE", env = "WINDLASS_CONFIG")]
    config: Option<PathBuf>,
    /// PostgreSQL database to look at, as the role that nodes connect as
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    store: Option<String>,
    /// Data folder of an embedded engine to look at
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

pub(crate) async fn run(args: Args, out: Out) -> Result<(), Failure> {
    let mut config = Config::load(args.config.as_deref())?;
    if let Some(url) = args.store {
        config.store.url = url;
    }
    if let Some(data) = args.data {
        config.store.url.clear();
        config.store.data = data;
    }
    // Nothing is made here, not even a folder that is missing.
    let place = match config.store.url.as_str() {
        "" => Place::File(config.store.data.join(host::STORE_FILE)),
        url => Place::of(url, &config.store.data)?,
    };
    let findings = look(&place, &config).await;
    tell(&findings, &place.to_string(), &out)?;
    match worst(&findings) {
        State::Bad => Err(Failure::new(Exit::Failed, "something is bad; see above what to do")),
        _ => Ok(()),
    }
}

async fn look(place: &Place, config: &Config) -> Vec<Finding> {
    let now = SystemClock.now().0;
    match place {
        Place::Database(url) => {
            let elapsed = || Duration::from_micros(SystemClock.steady_micros());
            postgres::doctor(url, listen_url(config), &elapsed, now).await
        }
        Place::File(file) => sqlite::doctor(file, now),
    }
}

fn listen_url(config: &Config) -> Option<&str> {
    Some(config.store.listen_url.as_str()).filter(|url| !url.is_empty())
}

/// Logs what is wrong with the database that an engine starts on: it works, but what was promised may not hold.
pub(crate) async fn warn(config: Config) {
    let Ok(Place::Database(url)) = Place::of(&config.store.url, &config.store.data) else { return };
    for finding in postgres::settings(&url, listen_url(&config)).await {
        let Finding { check, found, remedy, state } = finding;
        match state {
            State::Bad => tracing::error!(check, found, "{remedy}"),
            State::Warning => tracing::warn!(check, found, "{remedy}"),
            State::Good => {}
        }
    }
}

fn worst(findings: &[Finding]) -> State {
    findings.iter().map(|finding| finding.state).max().unwrap_or(State::Good)
}

fn tell(findings: &[Finding], place: &str, out: &Out) -> Result<(), Failure> {
    if matches!(out.format, Format::Json | Format::Jsonl) {
        let lines = findings.iter().map(|finding| {
            json!({
                "check": finding.check,
                "state": finding.state.word(),
                "found": finding.found,
                "remedy": finding.remedy,
            })
        });
        let lines: Vec<_> = lines.collect();
        let report = json!({ "store": place, "state": worst(findings).word(), "findings": lines });
        return out.line(&report.to_string());
    }
    let width = findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
    for finding in findings {
        let state = finding.state.word();
        out.line(&format!("{state:<8} {:<width$}  {}", finding.check, finding.found))?;
        if !finding.remedy.is_empty() {
            out.line(&format!("{:<8} {:<width$}  → {}", "", "", finding.remedy))?;
        }
    }
    Ok(())
}
