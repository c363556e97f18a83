//! `windlass task`: the work that waits for people.

use super::{Context, ListArgs, change, list, read_json};
use crate::{
    client::{Ask, segment},
    failure::Failure,
    view::{self, Column, plain, state, time},
};
use clap::Subcommand;
use machine::id::Kind;
use serde_json::json;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// List tasks, newest first; those that wait unless told otherwise
    #[command(after_long_help = "Examples:\n  \
        windlass task list\n  \
        windlass task list --group order-managers\n  \
        windlass task list --status all -o json")]
    List {
        /// Comma-separated: open, claimed, completed, cancelled; or all
        #[arg(long, default_value = "open,claimed")]
        status: String,
        /// Only tasks of this person
        #[arg(long)]
        assignee: Option<String>,
        /// Only tasks for any of these groups, comma-separated
        #[arg(long)]
        group: Option<String>,
        /// Only tasks of this instance
        #[arg(long, value_name = "ID")]
        instance: Option<String>,
        #[command(flatten)]
        page: ListArgs,
    },
    /// Show a task: what is asked, of whom, and its form
    #[command(after_long_help = "Examples:\n  windlass task show tsk_0192…")]
    Show {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Take an open task
    #[command(after_long_help = "Examples:\n  windlass task claim tsk_0192…")]
    Claim {
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        seen: Seen,
    },
    /// Give a claimed task back
    #[command(after_long_help = "Examples:\n  windlass task release tsk_0192…")]
    Release {
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        seen: Seen,
    },
    /// Give a task to somebody
    #[command(after_long_help = "Examples:\n  windlass task assign tsk_0192… --to ada")]
    Assign {
        #[arg(value_name = "ID")]
        id: String,
        /// Whom
        #[arg(long)]
        to: String,
        #[command(flatten)]
        seen: Seen,
    },
    /// Complete a task; its instance goes on with the result
    #[command(after_long_help = "Examples:\n  \
        windlass task complete tsk_0192… --result '{\"approved\": true}'\n  \
        windlass task complete tsk_0192… --result @answer.json")]
    Complete {
        #[arg(value_name = "ID")]
        id: String,
        /// Result as JSON, @file or @- for stdin
        #[arg(long, value_name = "JSON|@FILE")]
        result: Option<String>,
        #[command(flatten)]
        seen: Seen,
    },
}

/// The version the person looked at.
#[derive(clap::Args)]
pub(crate) struct Seen {
    /// Only if the task is still at this version
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
}

impl Seen {
    fn header(&self) -> Option<String> {
        self.if_version.map(|version| format!("\"{version}\""))
    }
}

impl Verb {
    /// The task it is about, as typed.
    fn id(&mut self) -> Option<&mut String> {
        match self {
            Verb::Show { id }
            | Verb::Claim { id, .. }
            | Verb::Release { id, .. }
            | Verb::Assign { id, .. }
            | Verb::Complete { id, .. } => Some(id),
            Verb::List { .. } => None,
        }
    }
}

const COLUMNS: &[Column] = &[
    plain("id", "id"),
    state("status", "status"),
    plain("title", "title"),
    plain("assignee", "assignee"),
    plain("groups", "candidate_groups"),
    time("due", "due_at"),
    time("since", "created_at"),
];

const FIELDS: &[Column] = &[
    plain("id", "id"),
    plain("title", "title"),
    state("status", "status"),
    plain("assignee", "assignee"),
    plain("users", "candidate_users"),
    plain("groups", "candidate_groups"),
    plain("instance", "instance"),
    plain("step", "step"),
    time("due", "due_at"),
    time("since", "created_at"),
    time("ended", "ended_at"),
    plain("version", "version"),
    plain("data", "payload"),
    plain("form", "form"),
    plain("result", "result"),
];

const CHANGED: &[Column] = &[plain("id", "id"), state("status", "status"), plain("assignee", "assignee")];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    let mut verb = verb;
    if let Some(id) = verb.id() {
        *id = super::whole_id(context, "/tasks", Kind::Task, id).await?;
    }
    match verb {
        Verb::List { status, assignee, group, instance, page } => {
            let status = (status != "all").then_some(status);
            let ask = || {
                Ask::get("/tasks")
                    .query_if("status", status.clone())
                    .query_if("assignee", assignee.clone())
                    .query_if("group", group.clone())
                    .query_if("instance", instance.clone())
            };
            list(context, &page, COLUMNS, ask).await
        }
        Verb::Show { id } => {
            let answer = context.client.ask(Ask::get(format!("/tasks/{}", segment(&id)))).await?;
            view::object(&context.out, &answer.body, FIELDS)
        }
        Verb::Claim { id, seen } => {
            let next = format!("complete it: windlass task complete {id} --result '{{…}}'");
            change(context, act(&id, "claim", &seen), CHANGED, &next).await.map(drop)
        }
        Verb::Release { id, seen } => {
            change(context, act(&id, "release", &seen), CHANGED, "").await.map(drop)
        }
        Verb::Assign { id, to, seen } => {
            change(context, act(&id, "assign", &seen).json(&json!({ "to": to })), CHANGED, "").await.map(drop)
        }
        Verb::Complete { id, result, seen } => {
            let result = result.as_deref().map(|result| read_json(result, "--result")).transpose()?;
            let ask = act(&id, "complete", &seen).json(&json!({ "result": result }));
            let answer = change(context, ask, CHANGED, "").await?;
            let task = view::value(&answer.body)?;
            if let Some(instance) = task["instance"].as_str() {
                context.out.hint(&format!("see how it goes on: windlass instance watch {instance}"));
            }
            Ok(())
        }
    }
}

fn act(id: &str, verb: &str, seen: &Seen) -> Ask {
    Ask::post(format!("/tasks/{}/{verb}", segment(id))).header_if("If-Match", seen.header())
}
