//! `windlass webhook`: events, signed and sent to addresses of the tenant.

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
    /// Make a webhook, or change it; one that was disabled is sent to again
    #[command(after_long_help = "Examples:\n  \
        echo whsec_$(head -c 32 /dev/urandom | base64) | windlass secret set hook-key\n  \
        windlass webhook set shop --url https://shop.example/hooks --on 'order.*' --secret hook-key\n  \
        windlass webhook set shop --url https://shop.example/hooks --on 'order.*' --secret new --secret old")]
    Set {
        name: String,
        /// Where messages are sent
        #[arg(long)]
        url: String,
        /// Type of events, or the beginning of one with a * at its end; may be given several times
        #[arg(long = "on", value_name = "TYPE", required = true)]
        types: Vec<String>,
        /// Name of a secret that signs; twice while a new one takes the place of the old
        #[arg(long = "secret", value_name = "NAME", required = true)]
        secrets: Vec<String>,
        /// Attempts in all, the first included
        #[arg(long, value_name = "ATTEMPTS")]
        attempts: Option<u32>,
        /// Keep it and send nothing
        #[arg(long)]
        disabled: bool,
    },
    /// List the webhooks
    #[command(after_long_help = "Examples:\n  windlass webhook list")]
    List,
    /// Forget a webhook
    #[command(after_long_help = "Examples:\n  windlass webhook delete shop")]
    Delete { name: String },
}

const COLUMNS: &[Column] = &[
    plain("name", "name"),
    plain("url", "url"),
    plain("types", "types"),
    plain("secrets", "secrets"),
    plain("attempts", "attempts_max"),
    plain("enabled", "enabled"),
    plain("disabled", "disabled"),
    time("updated", "updated_at"),
];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::Set { name, url, types, secrets, attempts, disabled } => {
            let ask = Ask::put(format!("/webhooks/{}", segment(&name)));
            let ask = ask.json(&json!({
                "url": url,
                "types": types,
                "secrets": secrets,
                "attempts_max": attempts,
                "enabled": !disabled,
            }));
            let next = format!("what could not be sent: windlass dlq list --worker webhook:{name}");
            change(context, ask, COLUMNS, &next).await.map(drop)
        }
        Verb::List => {
            let page = ListArgs { limit: None, cursor: None, all: false };
            list(context, &page, COLUMNS, || Ask::get("/webhooks")).await
        }
        Verb::Delete { name } => {
            context.client.ask(Ask::delete(format!("/webhooks/{}", segment(&name)))).await?;
            context.out.note(&format!("{name} is forgotten"));
            Ok(())
        }
    }
}
