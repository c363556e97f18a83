//! `windlass tenant`: create, change, suspend, degrade, resume, delete, restore and list tenants. Needs a platform key.

use super::{Context, ListArgs, change, duration, list};
use crate::{
    client::{Ask, segment},
    failure::Failure,
    view::{self, Column, plain, state, time},
};
use clap::Subcommand;
use serde_json::{Value, json};
use std::time::Duration;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Create a tenant
    #[command(after_long_help = "Examples:\n  windlass tenant create acme --title 'Acme Ltd'")]
    Create {
        /// 1 to 63 of a-z, 0-9 and '-'
        #[arg(value_name = "ID")]
        id: String,
        /// The id unless given
        #[arg(long)]
        title: Option<String>,
    },
    /// Change a tenant's title or weight
    ///
    /// Where tenants wait for the same thing, one of weight 2 is given twice as much as one of weight 1. A change counts at
    /// once, for what is queued already too.
    #[command(after_long_help = "Examples:\n  windlass tenant change acme --weight 5")]
    Change {
        /// The tenant's id
        #[arg(value_name = "ID")]
        id: String,
        /// The new title
        #[arg(long, required_unless_present = "weight")]
        title: Option<String>,
        /// 1 to 1000; 1 unless changed
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
        weight: Option<u32>,
    },
    /// Show a tenant
    #[command(after_long_help = "Examples:\n  windlass tenant show acme -o json")]
    Show {
        /// The tenant's id
        #[arg(value_name = "ID")]
        id: String,
    },
    /// List tenants by id
    #[command(after_long_help = "Examples:\n  windlass tenant list -o id")]
    List {
        #[command(flatten)]
        page: ListArgs,
    },
    /// Set limits; they count at once, on every node
    #[command(after_long_help = "Examples:\n  \
        windlass tenant limit acme --open 10000 --starts-per-second 50\n  \
        windlass tenant limit acme --concurrency 0\n\n\
        A limit of 0 is none. Starts per second and concurrency are counted by each node.")]
    Limit {
        /// The tenant's id
        #[arg(value_name = "ID")]
        id: String,
        /// Instances that have not ended
        #[arg(long, value_name = "COUNT", required_unless_present_any = ["starts_per_second", "concurrency"])]
        open: Option<u32>,
        /// Starts in a second
        #[arg(long, value_name = "COUNT")]
        starts_per_second: Option<u32>,
        /// Calls and deliveries under way at once
        #[arg(long, value_name = "COUNT")]
        concurrency: Option<u32>,
    },
    /// Stop a tenant: it can be read, nothing can be changed, and its work waits
    ///
    /// What is under way comes to its end. Timers, calls, deliveries, signals and schedules wait until it is resumed.
    #[command(after_long_help = "Examples:\n  windlass tenant suspend acme")]
    Suspend {
        /// The tenant's id
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Let a tenant finish what it has, and take hardly anything new
    #[command(after_long_help = "Examples:\n  \
        windlass tenant degrade acme\n  windlass tenant degrade acme --per-second 5")]
    Degrade {
        /// The tenant's id
        #[arg(value_name = "ID")]
        id: String,
        /// Starts and published events in a second that each node still takes; as before unless given, 0 at first
        #[arg(long, value_name = "COUNT")]
        per_second: Option<u32>,
    },
    /// Let a tenant that was suspended or degraded go on
    #[command(after_long_help = "Examples:\n  windlass tenant resume acme")]
    Resume {
        /// The tenant's id
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Delete a tenant: suspended at once, and gone with all it has when the time of grace is over
    #[command(after_long_help = "Examples:\n  \
        windlass tenant delete acme\n  windlass tenant delete acme --grace 30d")]
    Delete {
        /// The tenant's id
        #[arg(value_name = "ID")]
        id: String,
        /// How long it can be restored, such as 12h or 30d; 7d unless given
        #[arg(long, value_name = "TIME", value_parser = duration)]
        grace: Option<Duration>,
    },
    /// Take a deletion back, while the time of grace lasts
    #[command(after_long_help = "Examples:\n  windlass tenant restore acme")]
    Restore {
        /// The tenant's id
        #[arg(value_name = "ID")]
        id: String,
    },
}

const COLUMNS: &[Column] = &[
    plain("id", "id"),
    plain("title", "title"),
    state("status", "status"),
    plain("weight", "weight"),
    time("created", "created_at"),
];

const FIELDS: &[Column] = &[
    plain("id", "id"),
    plain("title", "title"),
    state("status", "status"),
    plain("weight", "weight"),
    plain("open", "open_max"),
    plain("starts per second", "starts_per_second"),
    plain("concurrency", "concurrency_max"),
    plain("per second if degraded", "degraded_per_second"),
    time("gone", "purge_at"),
    time("created", "created_at"),
];

fn place(id: &str) -> String {
    format!("/tenants/{}", segment(id))
}

/// Changes what is given; answers the tenant as it is then.
async fn patch(context: &Context, id: &str, fields: &[(&str, Option<Value>)]) -> Result<(), Failure> {
    let mut body = json!({});
    for (name, value) in fields {
        if let Some(value) = value {
            body[*name] = value.clone();
        }
    }
    let next = format!("windlass tenant show {id}");
    change(context, Ask::patch(place(id)).json(&body), FIELDS, &next).await.map(drop)
}

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    let number = |value: Option<u32>| value.map(Value::from);
    match verb {
        Verb::Create { id, title } => {
            let mut body = json!({ "id": id });
            if let Some(title) = title {
                body["title"] = title.into();
            }
            let next =
                format!("make its first key: windlass key create --tenant {id} --name admin --role admin");
            let fields = [plain("id", "id"), plain("title", "title")];
            change(context, Ask::post("/tenants").json(&body), &fields, &next).await.map(drop)
        }
        Verb::Change { id, title, weight } => {
            patch(context, &id, &[("title", title.map(Value::from)), ("weight", number(weight))]).await
        }
        Verb::Show { id } => {
            let answer = context.client.ask(Ask::get(place(&id))).await?;
            view::object(&context.out, &answer.body, FIELDS)
        }
        Verb::List { page } => list(context, &page, COLUMNS, || Ask::get("/tenants")).await,
        Verb::Limit { id, open, starts_per_second, concurrency } => {
            let limits = [
                ("open_max", number(open)),
                ("starts_per_second", number(starts_per_second)),
                ("concurrency_max", number(concurrency)),
            ];
            patch(context, &id, &limits).await
        }
        Verb::Suspend { id } => patch(context, &id, &[("status", Some("suspended".into()))]).await,
        Verb::Degrade { id, per_second } => {
            let degraded = [("status", Some("degraded".into())), ("degraded_per_second", number(per_second))];
            patch(context, &id, &degraded).await
        }
        Verb::Resume { id } => patch(context, &id, &[("status", Some("active".into()))]).await,
        Verb::Delete { id, grace } => {
            let seconds = grace.map(|grace| grace.as_secs().to_string());
            let ask = Ask::delete(place(&id)).query_if("grace_seconds", seconds);
            change(context, ask, FIELDS, &format!("windlass tenant restore {id}")).await.map(drop)
        }
        Verb::Restore { id } => {
            let ask = Ask::post(format!("{}/restore", place(&id)));
            change(context, ask, FIELDS, &format!("windlass tenant show {id}")).await.map(drop)
        }
    }
}
