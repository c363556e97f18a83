//! `windlass key`: API keys of a tenant.

use super::{Context, ListArgs, change, duration, list};
use crate::{
    client::{Ask, segment},
    failure::Failure,
    view::{Column, plain, time},
};
use clap::Subcommand;
use machine::time::Span;
use runtime::clock::{Clock, SystemClock};
use serde_json::json;
use std::time::Duration;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Make a key; its secret is shown this once
    #[command(after_long_help = "Examples:\n  \
        windlass key create --name deploy-bot --role developer\n  \
        windlass key create --tenant acme --name admin --role admin\n\n\
        Roles: admin, operator, developer, worker, viewer; and with a platform key: platform, monitor.")]
    Create {
        /// Who or what uses it; acts are recorded under this name
        #[arg(long)]
        name: String,
        /// What it may do; may be given several times
        #[arg(long = "role", required = true, value_delimiter = ',')]
        roles: Vec<String>,
        /// Good for this long, such as 12h or 90d; for ever unless given
        #[arg(long, value_name = "TIME", value_parser = duration)]
        expires_in: Option<Duration>,
        /// The user it acts for: of records it reaches what that user may
        #[arg(long, value_name = "USER")]
        acts_for: Option<String>,
        #[command(flatten)]
        whose: Whose,
    },
    /// List keys, without their secrets
    #[command(after_long_help = "Examples:\n  windlass key list\n  windlass key list --tenant acme")]
    List {
        #[command(flatten)]
        whose: Whose,
    },
    /// Revoke a key
    #[command(after_long_help = "Examples:\n  windlass key revoke 3f6a…")]
    Revoke {
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        whose: Whose,
    },
}

/// Another tenant than the key's own.
#[derive(clap::Args)]
pub(crate) struct Whose {
    /// Another tenant than your own; needs a platform key
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
}

const COLUMNS: &[Column] = &[
    plain("id", "id"),
    plain("name", "name"),
    plain("roles", "roles"),
    plain("acts for", "subject"),
    time("created", "created_at"),
    time("expires", "expires_at"),
    time("revoked", "revoked_at"),
];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::Create { name, roles, expires_in, acts_for, whose } => {
            let until =
                |length: Duration| SystemClock.now().after(Span::from_millis(length.as_millis() as i64));
            let expires_at = expires_in.map(|length| until(length).rfc3339());
            let ask = Ask::post("/keys").header_if("Tenant", whose.tenant);
            let ask = ask.json(
                &json!({ "name": name, "roles": roles, "expires_at": expires_at, "subject": acts_for }),
            );
            let fields = [
                plain("id", "id"),
                plain("name", "name"),
                plain("roles", "roles"),
                plain("expires", "expires_at"),
                plain("key", "secret"),
            ];
            let next = "keep the key now, it is not shown again: export WINDLASS_KEY=…";
            change(context, ask, &fields, next).await.map(drop)
        }
        Verb::List { whose } => {
            let page = ListArgs { limit: None, cursor: None, all: false };
            list(context, &page, COLUMNS, || Ask::get("/keys").header_if("Tenant", whose.tenant.clone()))
                .await
        }
        Verb::Revoke { id, whose } => {
            let ask = Ask::delete(format!("/keys/{}", segment(&id))).header_if("Tenant", whose.tenant);
            context.client.ask(ask).await?;
            context.out.note(&format!("{id} is revoked"));
            Ok(())
        }
    }
}
