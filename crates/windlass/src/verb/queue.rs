//! `windlass queue`: how much workers have to do.

use super::{Context, ListArgs, list};
use crate::{
    client::{Ask, segment},
    failure::Failure,
    view::{self, Column, plain},
};
use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// List what each worker has to do
    #[command(after_long_help = "Examples:\n  windlass queue list")]
    List,
    /// Show one queue: what is due, what comes later, and for how long something has been due
    #[command(after_long_help = "Examples:\n  windlass queue show mail")]
    Show { name: String },
}

const COLUMNS: &[Column] = &[
    plain("name", "name"),
    plain("backlog", "backlog"),
    plain("deliveries", "deliveries"),
    plain("calls", "calls"),
];

const FIELDS: &[Column] = &[
    plain("name", "name"),
    plain("backlog", "backlog"),
    plain("deliveries", "deliveries"),
    plain("calls", "calls"),
    plain("ready", "ready"),
    plain("later", "later"),
    plain("oldest s", "oldest_seconds"),
];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::List => {
            let page = ListArgs { limit: None, cursor: None, all: false };
            list(context, &page, COLUMNS, || Ask::get("/queues")).await
        }
        Verb::Show { name } => {
            let answer = context.client.ask(Ask::get(format!("/queues/{}", segment(&name)))).await?;
            view::object(&context.out, &answer.body, FIELDS)
        }
    }
}
