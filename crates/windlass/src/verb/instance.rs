//! `windlass instance`: list, show, follow, signal and order about instances.

use super::{
    Context, ListArgs, QueryArgs, change, delivery, duration, graph, list, read_json, start, version, watch,
};
use crate::{
    client::{Ask, segment},
    failure::{Exit, Failure},
    out::Format,
    view::{self, Column, counts, plain, state, time},
};
use clap::Subcommand;
use machine::id::Kind;
use runtime::clock::{Clock, SystemClock};
use std::time::Duration;

/// The longest the server is asked to hold one request.
const WAIT_MAX: Duration = Duration::from_secs(30);

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Start an instance of a definition
    Start(start::Args),
    /// List instances, newest first
    #[command(after_long_help = "Examples:\n  \
        windlass instance list\n  \
        windlass instance list --status faulted,waiting --definition examples/order-approval\n  \
        windlass instance list --parent ins_0192… --status faulted\n  \
        windlass instance list -q 'status:faulted definition:order* started:>-1h'\n  \
        windlass instance list --all -o id")]
    List {
        #[command(flatten)]
        query: QueryArgs,
        /// Comma-separated: pending, running, waiting, paused, cancelling, completed, faulted, cancelled
        #[arg(long)]
        status: Option<String>,
        /// Only instances of namespace/name or namespace/name@version
        #[arg(long, value_name = "DEF")]
        definition: Option<String>,
        /// Only instances that hold or held this business key
        #[arg(long, value_name = "KEY")]
        business_key: Option<String>,
        /// Only instances that this one started
        #[arg(long, value_name = "ID")]
        parent: Option<String>,
        #[command(flatten)]
        page: ListArgs,
    },
    /// Show an instance: where it stands, its input and output
    #[command(
        after_long_help = "Examples:\n  windlass instance show ins_0192…\n  windlass instance show ins_0192… -o json"
    )]
    Show {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Follow an instance to its end; the exit code is its outcome
    #[command(
        after_long_help = "Examples:\n  windlass instance watch ins_0192…\n  windlass instance watch ins_0192… -o jsonl"
    )]
    Watch {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Send a signal: an event of type NAME to the instance's listen steps
    ///
    /// A signal may come before the instance listens: it is kept until then.
    #[command(after_long_help = "Examples:\n  \
        windlass instance signal ins_0192… dns-ready --data '{\"address\":\"192.0.2.10\"}'\n  \
        windlass instance signal ins_0192… paid --data @payment.json --signal-id 0192f0c4-…")]
    Signal {
        #[arg(value_name = "ID")]
        id: String,
        #[arg(value_name = "NAME")]
        name: String,
        /// Data as JSON, @file or @- for stdin
        #[arg(long, value_name = "JSON|@FILE")]
        data: Option<String>,
        /// Your own id, a UUID: sending again with it has no second effect
        #[arg(long, value_name = "UUID")]
        signal_id: Option<String>,
    },
    /// Send a signal to the instance that gave out TOKEN
    ///
    /// A definition gets a token from `signal-token:1.0.0@default`. The token comes with the data.
    #[command(after_long_help = "Examples:\n  \
        windlass instance signal-by-token AZLw… --name paid --data '{\"amount\":420}'")]
    SignalByToken {
        #[arg(value_name = "TOKEN")]
        token: String,
        /// Type of the event; `signal` unless given
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// Data as JSON, @file or @- for stdin
        #[arg(long, value_name = "JSON|@FILE")]
        data: Option<String>,
        /// Your own id, a UUID: sending again with it has no second effect
        #[arg(long, value_name = "UUID")]
        signal_id: Option<String>,
    },
    /// End an instance; what it waits for is dropped, after its sagas are undone
    #[command(after_long_help = "Examples:\n  windlass instance cancel ins_0192…")]
    Cancel {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Hold an instance: nothing new begins until it is resumed
    #[command(after_long_help = "Examples:\n  windlass instance pause ins_0192…")]
    Pause {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Let a paused instance go on
    #[command(after_long_help = "Examples:\n  windlass instance resume ins_0192…")]
    Resume {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Do the faulted step of an instance again
    #[command(after_long_help = "Examples:\n  windlass instance retry ins_0192…")]
    Retry {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Let instances go on in another version of their definition
    ///
    /// What is under way (calls, timers, tasks) comes back to them there. `windlass def preflight` says before
    /// which instances fit. Exit code 5 if one was refused.
    Migrate(version::MigrateArgs),
    /// Show how an instance ended
    ///
    /// Exit code 0 if it completed, 1 if it faulted or was cancelled, 124 if it goes on.
    #[command(
        after_long_help = "Examples:\n  windlass instance result ins_0192… --wait 30s\n  windlass instance result ins_0192… -o json"
    )]
    Result {
        #[arg(value_name = "ID")]
        id: String,
        /// Wait this long for the end
        #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0s")]
        wait: Duration,
    },
    /// Say why an instance does not go on: what it waits for, who holds it, what is in its way
    #[command(after_long_help = "Examples:\n  windlass instance explain ins_0192…")]
    Explain {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Draw an instance: its definition as a graph, with where its steps stand
    #[command(after_long_help = "Examples:\n  \
        windlass instance graph ins_0192… > instance.svg\n  \
        windlass instance graph ins_0192… --to instance.png --theme dark")]
    Graph {
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        picture: graph::Args,
    },
    /// List what a cancel would undo now, in order
    #[command(after_long_help = "Examples:\n  windlass instance compensation ins_0192…")]
    Compensation {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// List what happened to an instance, step by step, oldest first
    #[command(
        after_long_help = "Examples:\n  windlass instance history ins_0192…\n  windlass instance history ins_0192… --all -o jsonl"
    )]
    History {
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        page: ListArgs,
    },
}

impl Verb {
    /// The instance it is about, as typed.
    fn id(&mut self) -> Option<&mut String> {
        match self {
            Verb::Show { id }
            | Verb::Watch { id }
            | Verb::Signal { id, .. }
            | Verb::Cancel { id }
            | Verb::Pause { id }
            | Verb::Resume { id }
            | Verb::Retry { id }
            | Verb::Result { id, .. }
            | Verb::Compensation { id }
            | Verb::Explain { id }
            | Verb::Graph { id, .. }
            | Verb::History { id, .. } => Some(id),
            Verb::Migrate(args) => args.id.as_mut(),
            Verb::Start(_) | Verb::List { .. } | Verb::SignalByToken { .. } => None,
        }
    }
}

const COLUMNS: &[Column] = &[
    plain("id", "id"),
    state("status", "status"),
    plain("definition", "definition.namespace/definition.name@definition.version"),
    plain("waits for", "waiting.kind"),
    plain("key", "key"),
    time("started", "created_at"),
];

const FIELDS: &[Column] = &[
    plain("id", "id"),
    plain("definition", "definition.namespace/definition.name@definition.version"),
    state("status", "status"),
    plain("waits for", "waiting.kind"),
    time("waits until", "waiting.until"),
    plain("task", "waiting.task"),
    plain("calls", "calls"),
    plain("key", "key"),
    plain("parts", "parts"),
    plain("parent", "parent.id"),
    counts("children", "children"),
    plain("version", "version"),
    time("started", "created_at"),
    time("changed", "updated_at"),
    time("ended", "ended_at"),
    plain("input", "input"),
    plain("context", "context"),
    plain("output", "output"),
    plain("error", "error"),
];

const EVENTS: &[Column] = &[
    plain("version", "version"),
    time("time", "time"),
    plain("kind", "kind"),
    plain("step", "step"),
    plain("iteration", "iteration"),
];

const UNDOS: &[Column] = &[
    plain("saga", "saga"),
    plain("step", "name"),
    plain("undo", "step"),
    plain("input", "input"),
    plain("output", "output"),
    plain("interrupted", "interrupted"),
    plain("undoing", "undoing"),
];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    let mut verb = verb;
    if let Some(id) = verb.id() {
        *id = super::whole_id(context, "/instances", Kind::Instance, id).await?;
    }
    match verb {
        Verb::Start(args) => start::run(args, context).await,
        Verb::List { query, status, definition, business_key, parent, page } => {
            let (namespace, name, version) = match definition.as_deref() {
                Some(text) => {
                    let reference = super::def::resolve(context, text).await?;
                    (Some(reference.namespace), Some(reference.name), reference.version)
                }
                None => (None, None, None),
            };
            let ask = || {
                Ask::get("/instances")
                    .query_if("q", query.text())
                    .query_if("status", status.clone())
                    .query_if("namespace", namespace.clone())
                    .query_if("name", name.clone())
                    .query_if("version", version.clone())
                    .query_if("key", business_key.clone())
                    .query_if("parent", parent.clone())
            };
            list(context, &page, COLUMNS, ask).await
        }
        Verb::Show { id } => show(context, &id).await,
        Verb::Explain { id } => {
            delivery::explain(context, &format!("/instances/{}/explain", segment(&id))).await
        }
        Verb::Graph { id, picture } => {
            graph::draw(context, &format!("/instances/{}/graph", segment(&id)), &picture, None).await
        }
        Verb::Watch { id } => watch::follow(context, &id).await,
        Verb::Signal { id, name, data, signal_id } => {
            let data = data.as_deref().map(|data| read_json(data, "--data")).transpose()?;
            let path = format!("/instances/{}/signals/{}", segment(&id), segment(&name));
            let ask = Ask::post(path).header_if("Signal-Id", signal_id).json(&data.unwrap_or_default());
            let next = format!("see what it does: windlass instance watch {id}");
            change(context, ask, &[plain("signal", "id")], &next).await.map(drop)
        }
        Verb::SignalByToken { token, name, data, signal_id } => {
            let data = data.as_deref().map(|data| read_json(data, "--data")).transpose()?;
            let ask = Ask::post(format!("/signals/{}", segment(&token))).query_if("name", name);
            let ask = ask.header_if("Signal-Id", signal_id).json(&data.unwrap_or_default());
            change(context, ask, &[plain("signal", "id")], "").await.map(drop)
        }
        Verb::Cancel { id } => order(context, &id, "cancel", "").await,
        Verb::Pause { id } => {
            order(context, &id, "pause", &format!("go on with: windlass instance resume {id}")).await
        }
        Verb::Resume { id } => {
            order(context, &id, "resume", &format!("follow it: windlass instance watch {id}")).await
        }
        Verb::Retry { id } => {
            order(context, &id, "retry", &format!("follow it: windlass instance watch {id}")).await
        }
        Verb::Migrate(args) => version::migrate(context, &args).await,
        Verb::Result { id, wait } => result(context, &id, wait).await,
        Verb::Compensation { id } => {
            let ask = || Ask::get(format!("/instances/{}/compensation", segment(&id)));
            list(context, &ListArgs::whole(), UNDOS, ask).await
        }
        Verb::History { id, page } => {
            list(context, &page, EVENTS, || Ask::get(format!("/instances/{}/history", segment(&id)))).await
        }
    }
}

async fn show(context: &Context, id: &str) -> Result<(), Failure> {
    let answer = context.client.ask(Ask::get(format!("/instances/{}", segment(id)))).await?;
    view::object(&context.out, &answer.body, FIELDS)?;
    let shown = view::value(&answer.body)?;
    if let Some(task) = shown["waiting"]["task"].as_str() {
        context.out.hint(&format!("it waits for a person: windlass task show {task}"));
    }
    Ok(())
}

async fn order(context: &Context, id: &str, verb: &str, next: &str) -> Result<(), Failure> {
    let ask = Ask::post(format!("/instances/{}/{verb}", segment(id)));
    if context.out.format == Format::Id {
        context.client.ask(ask).await?;
        return context.out.line(id);
    }
    change(context, ask, &[state("status", "status")], next).await.map(drop)
}

async fn result(context: &Context, id: &str, wait: Duration) -> Result<(), Failure> {
    let micros = |wait: Duration| i64::try_from(wait.as_micros()).unwrap_or(i64::MAX);
    let deadline = SystemClock.now().after(machine::time::Span(micros(wait)));
    loop {
        let left = Duration::from_micros(deadline.since(SystemClock.now()).0.max(0).unsigned_abs());
        let ask = Ask::get(format!("/instances/{}/result", segment(id)));
        let ask = if left.is_zero() { ask } else { ask.wait(left.min(WAIT_MAX)) };
        let answer = context.client.ask(ask).await?;
        let result = view::value(&answer.body)?;
        if answer.status != 202 {
            let fields = [state("status", "status"), plain("output", "output"), plain("error", "error")];
            view::object(&context.out, &answer.body, &fields)?;
            return watch::outcome(&result);
        }
        if SystemClock.now() >= deadline {
            view::object(&context.out, &answer.body, &[state("status", "status")])?;
            let status = result["status"].as_str().unwrap_or("going on");
            let failure = Failure::new(Exit::TimedOut, format!("the instance has not ended: it is {status}"));
            return Err(failure.hint("give it time with --wait 30s"));
        }
    }
}
