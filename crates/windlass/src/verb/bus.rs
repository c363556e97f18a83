//! `windlass bus`: the buses that events go out over. Needs a platform key.

use super::{Context, ListArgs, change, list};
use crate::{
    client::{Ask, segment},
    failure::Failure,
    view::{self, Column, plain, state, time},
};
use clap::Subcommand;
use serde_json::json;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// List the buses with their state and what waits for them
    #[command(after_long_help = "Examples:\n  windlass bus list")]
    List,
    /// Show one bus
    #[command(after_long_help = "Examples:\n  windlass bus show main")]
    Show { name: String },
    /// Carry again what was emitted since a time, for a bus that has lost it
    ///
    /// Events keep their ids, so whoever heeds them has no second effect. Events are kept for seven days.
    #[command(after_long_help = "Examples:\n  \
        windlass bus resend main --since 2026-01-31T12:00:00Z\n  \
        windlass bus resend main --since 2026-01-31T12:00:00Z --until 2026-01-31T13:00:00Z --of acme")]
    Resend {
        name: String,
        /// From when on, such as 2026-01-31T12:00:00Z
        #[arg(long, value_name = "TIME")]
        since: String,
        /// Until when; now unless given
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
        /// Of this tenant only
        #[arg(long = "of", value_name = "TENANT")]
        tenant: Option<String>,
    },
}

const COLUMNS: &[Column] = &[
    plain("name", "name"),
    plain("place", "place"),
    plain("types", "types"),
    state("status", "status"),
    plain("waiting", "waiting"),
    time("oldest", "oldest_at"),
    plain("carried", "carried"),
    plain("refused", "refused"),
    plain("heard", "subscriptions"),
];
const ONE: &[Column] = &[
    plain("name", "name"),
    plain("place", "place"),
    plain("types", "types"),
    state("status", "status"),
    time("away since", "away_since"),
    plain("error", "error"),
    plain("waiting", "waiting"),
    time("oldest", "oldest_at"),
    plain("carried", "carried"),
    plain("refused", "refused"),
    plain("heard", "subscriptions"),
];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::List => {
            let page = ListArgs { limit: None, cursor: None, all: false };
            list(context, &page, COLUMNS, || Ask::get("/buses")).await
        }
        Verb::Show { name } => {
            let answer = context.client.ask(Ask::get(format!("/buses/{}", segment(&name)))).await?;
            view::object(&context.out, &answer.body, ONE)
        }
        Verb::Resend { name, since, until, tenant } => {
            let ask = Ask::post(format!("/buses/{}/resend", segment(&name)));
            let ask = ask.json(&json!({ "since": since, "until": until, "tenant": tenant }));
            let next = format!("windlass bus show {name}");
            change(context, ask, &[plain("events", "events")], &next).await.map(drop)
        }
    }
}
