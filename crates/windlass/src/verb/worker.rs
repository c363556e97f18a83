//! `windlass worker`: workers that are somewhere else and ask for the events they want.

use super::{Context, ListArgs, change, list};
use crate::{
    client::{Ask, segment},
    failure::Failure,
    view::{Column, plain, time},
};
use clap::Subcommand;
use serde_json::json;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Declare a worker, or change what is said of it
    #[command(after_long_help = "Examples:\n  \
        windlass worker declare mail --on order.paid --on 'user.*'\n  \
        windlass worker declare index --on 'order.*' --batch 100\n  \
        windlass worker declare ship --on order.paid --order-by data.order.id --attempts 10\n\n\
        Then ask for deliveries: docs/workers.md shows it with curl, Python and TypeScript.")]
    Declare {
        name: String,
        /// Type of events it wants, or the beginning of one with a * at its end; may be given several times
        #[arg(long = "on", value_name = "TYPE", required = true)]
        types: Vec<String>,
        /// Events in one delivery
        #[arg(long, value_name = "EVENTS")]
        batch: Option<u32>,
        /// Attempts in all, the first included
        #[arg(long, value_name = "ATTEMPTS")]
        attempts: Option<u32>,
        /// Events with the same value at this attribute or path come one after the other
        #[arg(long, value_name = "PATH")]
        order_by: Option<String>,
        /// Seconds that whoever asks has to answer
        #[arg(long, value_name = "SECONDS")]
        lease: Option<u32>,
    },
    /// List the workers that were declared
    #[command(after_long_help = "Examples:\n  windlass worker list")]
    List,
    /// Forget a worker; what was delivered to it waits until one of that name is declared again
    #[command(after_long_help = "Examples:\n  windlass worker delete mail")]
    Delete { name: String },
}

const COLUMNS: &[Column] = &[
    plain("name", "name"),
    plain("types", "types"),
    plain("batch", "batch_max"),
    plain("attempts", "attempts_max"),
    plain("order by", "order_by"),
    plain("lease s", "lease_seconds"),
    time("updated", "updated_at"),
];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::Declare { name, types, batch, attempts, order_by, lease } => {
            let ask = Ask::put(format!("/workers/{}", segment(&name)));
            let ask = ask.json(&json!({
                "types": types,
                "batch_max": batch,
                "attempts_max": attempts,
                "order_by": order_by,
                "lease_seconds": lease,
            }));
            change(context, ask, COLUMNS, "ask for its deliveries: POST /api/v1/workers/NAME/poll")
                .await
                .map(drop)
        }
        Verb::List => {
            let page = ListArgs { limit: None, cursor: None, all: false };
            list(context, &page, COLUMNS, || Ask::get("/workers")).await
        }
        Verb::Delete { name } => {
            context.client.ask(Ask::delete(format!("/workers/{}", segment(&name)))).await?;
            context.out.note(&format!("{name} is forgotten"));
            Ok(())
        }
    }
}
