//! `windlass dev`: things for trying definitions out. Refused by engines that serve in earnest.

use super::{Context, change};
use crate::{
    client::Ask,
    failure::Failure,
    view::{self, Column, length, plain},
};
use clap::Subcommand;
use serde_json::json;
use std::time::Duration;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// The tenant's clock: show, advance, set
    #[command(subcommand)]
    Clock(Clock),
}

#[derive(Subcommand)]
pub(crate) enum Clock {
    /// Show the tenant's clock
    #[command(after_long_help = "Examples:\n  windlass dev clock show")]
    Show,
    /// Move it forward: timers, retries, limits and schedules become due
    #[command(
        after_long_help = "Examples:\n  windlass dev clock advance 3d\n  windlass dev clock advance 90m"
    )]
    Advance {
        /// A length such as 30s, 5m, 2h or 3d
        #[arg(value_name = "LENGTH", value_parser = super::duration)]
        by: Duration,
    },
    /// Move it forward to a time
    #[command(after_long_help = "Examples:\n  windlass dev clock set 2027-01-31T12:00:00Z")]
    Set {
        #[arg(value_name = "TIME")]
        to: String,
    },
}

const FIELDS: &[Column] =
    &[plain("now", "now"), length("ahead", "ahead_ms"), plain("can be moved", "enabled")];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    let Verb::Clock(verb) = verb;
    let body = match verb {
        Clock::Show => {
            let answer = context.client.ask(Ask::get("/dev/clock")).await?;
            return view::object(&context.out, &answer.body, FIELDS);
        }
        Clock::Advance { by } => {
            json!({ "by": format!("PT{}.{:03}S", by.as_secs(), by.subsec_millis()) })
        }
        Clock::Set { to } => json!({ "to": to }),
    };
    change(context, Ask::post("/dev/clock").json(&body), FIELDS, "").await.map(drop)
}
