//! `windlass delivery`: deliveries that are not done yet.

use super::{Context, ListArgs, QueryArgs, list};
use crate::{
    client::{Ask, segment},
    failure::Failure,
    out::Format,
    view::{self, Column, plain, time},
};
use clap::Subcommand;
use serde_json::Value;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// List deliveries that are not done yet, oldest first
    #[command(
        after_long_help = "Examples:\n  windlass delivery list --worker mail\n  windlass delivery list -q 'worker:mail attempts:>3'"
    )]
    List {
        #[command(flatten)]
        query: QueryArgs,
        /// Those of this worker only
        #[arg(long, value_name = "NAME")]
        worker: Option<String>,
        #[command(flatten)]
        page: ListArgs,
    },
    /// Show a delivery
    #[command(after_long_help = "Examples:\n  windlass delivery show dlv_0192…")]
    Show {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Say why a delivery is not done yet
    #[command(after_long_help = "Examples:\n  windlass delivery explain dlv_0192…")]
    Explain {
        #[arg(value_name = "ID")]
        id: String,
    },
}

const COLUMNS: &[Column] = &[
    plain("id", "id"),
    plain("worker", "worker"),
    plain("attempts", "attempts"),
    time("visible", "visible_at"),
    time("created", "created_at"),
    plain("last error", "last_error"),
];
const FIELDS: &[Column] = &[
    plain("id", "id"),
    plain("worker", "worker"),
    plain("events", "events"),
    plain("order key", "order_key"),
    plain("attempts", "attempts"),
    time("visible", "visible_at"),
    time("created", "created_at"),
    plain("last error", "last_error"),
];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::List { query, worker, page } => {
            let ask =
                || Ask::get("/deliveries").query_if("q", query.text()).query_if("worker", worker.clone());
            list(context, &page, COLUMNS, ask).await
        }
        Verb::Show { id } => {
            let answer = context.client.ask(Ask::get(format!("/deliveries/{}", segment(&id)))).await?;
            view::object(&context.out, &answer.body, FIELDS)
        }
        Verb::Explain { id } => explain(context, &format!("/deliveries/{}/explain", segment(&id))).await,
    }
}

/// Shows why something does not go on: the sentence, then each reason in a line.
pub(super) async fn explain(context: &Context, path: &str) -> Result<(), Failure> {
    let answer = context.client.ask(Ask::get(path)).await?;
    if context.out.format != Format::Table {
        return view::object(&context.out, &answer.body, &[]);
    }
    let explanation = view::value(&answer.body)?;
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    context.out.line(&text(&explanation, "summary"))?;
    for reason in explanation["reasons"].as_array().into_iter().flatten() {
        let place = match text(reason, "step").as_str() {
            "" => String::new(),
            step => format!(" at {step}"),
        };
        context.out.line(&format!("- {}{place}: {}", text(reason, "kind"), text(reason, "text")))?;
    }
    Ok(())
}
