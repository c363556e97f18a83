//! `windlass event type`: the JSON Schema that the data of a type of events has to fit.

use super::{Context, ListArgs, change, list, read_json};
use crate::{
    client::{Ask, segment},
    failure::Failure,
    view::{self, Column, plain, time},
};
use clap::Subcommand;
use serde_json::json;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Set the schema of a type: events of it whose data does not fit are refused
    #[command(after_long_help = "Examples:\n  \
        windlass event type set order.paid --schema @order-paid.schema.json\n  \
        windlass event type set order.paid --schema '{\"type\": \"object\", \"required\": [\"order\"]}'\n\n\
        Events that were published before stay as they are.")]
    Set {
        #[arg(value_name = "TYPE")]
        event_type: String,
        /// JSON Schema as JSON, @file or @- for stdin
        #[arg(long, value_name = "JSON|@FILE")]
        schema: String,
    },
    /// List the types that have a schema
    #[command(after_long_help = "Examples:\n  windlass event type list")]
    List,
    /// Show a type and its schema
    #[command(after_long_help = "Examples:\n  windlass event type show order.paid")]
    Show {
        #[arg(value_name = "TYPE")]
        event_type: String,
    },
    /// Forget the schema of a type: its data may be anything again
    #[command(after_long_help = "Examples:\n  windlass event type delete order.paid")]
    Delete {
        #[arg(value_name = "TYPE")]
        event_type: String,
    },
}

const COLUMNS: &[Column] = &[
    plain("type", "type"),
    plain("version", "version"),
    time("created", "created_at"),
    time("updated", "updated_at"),
];

const FIELDS: &[Column] = &[
    plain("type", "type"),
    plain("version", "version"),
    time("created", "created_at"),
    time("updated", "updated_at"),
    plain("schema", "schema"),
];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    let path = |event_type: &str| format!("/event-types/{}", segment(event_type));
    match verb {
        Verb::Set { event_type, schema } => {
            let schema = read_json(&schema, "--schema")?;
            let ask = Ask::put(path(&event_type)).json(&json!({ "schema": schema }));
            change(context, ask, FIELDS, "events of this type whose data does not fit are refused now")
                .await
                .map(drop)
        }
        Verb::List => {
            let page = ListArgs { limit: None, cursor: None, all: false };
            list(context, &page, COLUMNS, || Ask::get("/event-types")).await
        }
        Verb::Show { event_type } => {
            let answer = context.client.ask(Ask::get(path(&event_type))).await?;
            view::object(&context.out, &answer.body, FIELDS)
        }
        Verb::Delete { event_type } => {
            context.client.ask(Ask::delete(path(&event_type))).await?;
            context.out.note(&format!("{event_type} has no schema any more"));
            Ok(())
        }
    }
}
