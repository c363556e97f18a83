//! `windlass breaker`: breakers of endpoints and workers, as the node that is asked knows them.

use super::{Context, ListArgs, change, list};
use crate::{
    client::{Ask, segment},
    failure::Failure,
    view::{Column, plain, state, time},
};
use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// List the breakers of endpoints and workers that have failed
    #[command(after_long_help = "Examples:\n  windlass breaker list")]
    List,
    /// Let the next attempt through as a probe, whatever is left of the pause
    #[command(after_long_help = "Examples:\n  windlass breaker probe api.example.com:443")]
    Probe {
        /// host:port of an endpoint, or the name of a worker
        #[arg(value_name = "TARGET")]
        target: String,
    },
}

const COLUMNS: &[Column] = &[
    plain("target", "target"),
    plain("kind", "kind"),
    state("state", "state"),
    time("probe", "until"),
    plain("attempts", "attempts"),
    plain("failures", "failures"),
];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::List => list(context, &ListArgs::whole(), COLUMNS, || Ask::get("/breakers")).await,
        Verb::Probe { target } => {
            let ask = Ask::post(format!("/breakers/{}/probe", segment(&target)));
            change(context, ask, COLUMNS, "windlass breaker list").await.map(drop)
        }
    }
}
