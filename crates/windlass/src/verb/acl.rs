//! `windlass acl` and `windlass group`: who may do what with records, why, and who belongs together.

use super::{Context, ListArgs, change, list};
use crate::{
    client::{Ask, segment},
    failure::Failure,
    view::{self, Column, plain, time},
};
use clap::Subcommand;
use serde_json::json;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Say why somebody may do something with a record, or may not
    #[command(after_long_help = "Examples:\n  \
        windlass acl explain o-1 --user ann\n  windlass acl explain o-1 --user ann --right write")]
    Explain {
        record: String,
        /// Whose rights; the key's own unless given
        #[arg(long)]
        user: Option<String>,
        /// read, write or share
        #[arg(long, default_value = "read")]
        right: String,
    },
    /// Show how far changes have been handed down to the records below
    #[command(after_long_help = "Examples:\n  windlass acl status")]
    Status,
}

#[derive(Subcommand)]
pub(crate) enum GroupVerb {
    /// Make or replace a group
    #[command(
        after_long_help = "Examples:\n  windlass group set sales --member ann --member bob --role seller"
    )]
    Set {
        name: String,
        /// A user; may be given several times
        #[arg(long = "member", value_name = "USER")]
        members: Vec<String>,
        /// A role that its members have; may be given several times
        #[arg(long = "role", value_name = "ROLE")]
        roles: Vec<String>,
    },
    /// List groups
    #[command(after_long_help = "Examples:\n  windlass group list\n  windlass group list --member ann")]
    List {
        /// Only those that this user is in
        #[arg(long, value_name = "USER")]
        member: Option<String>,
    },
    /// Delete a group: nobody is in it any more
    #[command(after_long_help = "Examples:\n  windlass group delete sales")]
    Delete { name: String },
}

const WHY: &[Column] = &[
    plain("record", "record"),
    plain("right", "right"),
    plain("allowed", "allowed"),
    plain("verdict", "verdict"),
    plain("decided by", "decided_by"),
    plain("decided at", "decided_at"),
    plain("becomes", "becomes"),
    plain("names", "names"),
    plain("path", "path"),
];

const STATUS: &[Column] = &[
    plain("pending", "pending"),
    plain("records", "records"),
    plain("revoking", "revoking"),
    plain("failed", "failed"),
    plain("lag ms", "lag_ms"),
    plain("work", "work"),
];

const GROUP: &[Column] = &[
    plain("name", "name"),
    plain("members", "members"),
    plain("roles", "roles"),
    plain("version", "version"),
    time("updated", "updated_at"),
];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::Explain { record, user, right } => {
            let ask = Ask::get(format!("/records/{}/explain", segment(&record)));
            let answer = context.client.ask(ask.query_if("user", user).query("right", right)).await?;
            view::object(&context.out, &answer.body, WHY)
        }
        Verb::Status => {
            let answer = context.client.ask(Ask::get("/acl/propagation")).await?;
            view::object(&context.out, &answer.body, STATUS)
        }
    }
}

pub(crate) async fn group(verb: GroupVerb, context: &Context) -> Result<(), Failure> {
    let path = |name: &str| format!("/groups/{}", segment(name));
    match verb {
        GroupVerb::Set { name, members, roles } => {
            let ask = Ask::put(path(&name)).json(&json!({ "members": members, "roles": roles }));
            change(context, ask, GROUP, "").await.map(drop)
        }
        GroupVerb::List { member } => {
            let ask = || Ask::get("/groups").query_if("member", member.clone());
            list(context, &ListArgs::whole(), GROUP, ask).await
        }
        GroupVerb::Delete { name } => {
            context.client.ask(Ask::delete(path(&name))).await?;
            context.out.note(&format!("{name} is gone"));
            Ok(())
        }
    }
}
