//! `windlass batch`: acts on all that a query finds, as objects that are followed, paused and cancelled.

use super::{Context, ListArgs, change, list, read_json};
use crate::{
    client::{Ask, segment},
    failure::{Exit, Failure},
    out::Format,
    view::{self, Column, plain, state, time},
};
use clap::Subcommand;
use machine::id::Kind;
use serde_json::{Value, json};
use std::{
    io::{BufRead, IsTerminal, Write},
    time::Duration,
};

/// How often a batch that is followed is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Act on all that a query finds
    ///
    /// Instances: cancel, pause, resume, retry, signal, migrate. Dead letters: replay, discard. It prints how many there are
    /// and a few of them, and asks; --yes does not ask, --dry-run does nothing else.
    #[command(after_long_help = "Examples:\n  \
        windlass batch create cancel -q 'definition:order* started:<-7d status:waiting' --why 'a bad release'\n  \
        windlass batch create retry -q 'status:faulted error~timeout' --rate 20 --yes --follow\n  \
        windlass batch create signal -q 'definition:order waiting:event' --name cancel-order --data '{}'\n  \
        windlass batch create migrate -q 'definition:shop/order@1.*' --version 2.0.0 --dry-run\n  \
        windlass batch create replay -q 'worker:mail failed:>-1d' --ramp")]
    Create(CreateArgs),
    /// List batches, newest first
    #[command(after_long_help = "Examples:\n  windlass batch list --status running")]
    List {
        /// running, paused, halted, done or cancelled
        #[arg(long)]
        status: Option<String>,
        /// cancel, pause, resume, retry, signal, migrate, replay or discard
        #[arg(long)]
        act: Option<String>,
        #[command(flatten)]
        page: ListArgs,
    },
    /// Show a batch and how far it is
    #[command(after_long_help = "Examples:\n  windlass batch show bat_0192…")]
    Show {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Follow a batch to its end; exit code 1 if anything failed or it was halted or cancelled
    #[command(after_long_help = "Examples:\n  windlass batch watch bat_0192…")]
    Watch {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// List the items of a batch and what became of each
    #[command(after_long_help = "Examples:\n  windlass batch items bat_0192… --outcome failed")]
    Items {
        #[arg(value_name = "ID")]
        id: String,
        /// waiting, sent, done, failed or skipped
        #[arg(long)]
        outcome: Option<String>,
        #[command(flatten)]
        page: ListArgs,
    },
    /// Stop a batch until it is resumed
    #[command(after_long_help = "Examples:\n  windlass batch pause bat_0192…")]
    Pause {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Let a batch go on that is paused, or halted because items failed again
    #[command(after_long_help = "Examples:\n  windlass batch resume bat_0192…")]
    Resume {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Change how many items a batch acts on in a second
    #[command(after_long_help = "Examples:\n  windlass batch rate bat_0192… 200")]
    Rate {
        #[arg(value_name = "ID")]
        id: String,
        #[arg(value_name = "N", value_parser = rate)]
        rate: u32,
    },
    /// End a batch; what is done stays done
    #[command(after_long_help = "Examples:\n  windlass batch cancel bat_0192…")]
    Cancel {
        #[arg(value_name = "ID")]
        id: String,
    },
}

#[derive(clap::Args)]
pub(crate) struct CreateArgs {
    /// cancel, pause, resume, retry, signal or migrate; replay or discard
    #[arg(value_name = "ACT")]
    act: String,
    /// What it acts on (docs/queries.md)
    #[arg(long, short, value_name = "QUERY")]
    query: String,
    /// For signal: the type of the event
    #[arg(long)]
    name: Option<String>,
    /// For signal: its data as JSON, @file or @- for stdin
    #[arg(long, value_name = "JSON|@FILE")]
    data: Option<String>,
    /// For migrate: the version to go on in
    #[arg(long)]
    version: Option<String>,
    /// For migrate: old step references to new ones as JSON or @file
    #[arg(long, value_name = "JSON|@FILE")]
    mapping: Option<String>,
    /// For replay: one first, then ten, then a hundred, then the rest, each when those before went well
    #[arg(long)]
    ramp: bool,
    #[command(flatten)]
    pace: PaceArgs,
}

/// How a batch is made and followed.
#[derive(clap::Args)]
pub(crate) struct PaceArgs {
    /// Items in a second, 1 to 10000; `50/s` is the same as 50
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<u32>,
    /// Why; kept with the batch and in history
    #[arg(long)]
    why: Option<String>,
    /// Only count what it would act on
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Follow it to its end
    #[arg(long)]
    follow: bool,
    /// Sending the same request again with this key answers the same batch
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

fn rate(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix("/s").unwrap_or(text).parse::<u32>().ok();
    number
        .filter(|rate| (1..=10_000).contains(rate))
        .ok_or_else(|| "give 1 to 10000 items in a second".to_owned())
}

const COLUMNS: &[Column] = &[
    plain("id", "id"),
    plain("act", "act"),
    state("status", "status"),
    plain("matched", "counts.matched"),
    plain("done", "counts.done"),
    plain("failed", "counts.failed"),
    plain("skipped", "counts.skipped"),
    plain("by", "by"),
    time("created", "created_at"),
    plain("query", "q"),
];

const FIELDS: &[Column] = &[
    plain("id", "id"),
    plain("act", "act"),
    plain("query", "q"),
    plain("with", "with"),
    state("status", "status"),
    plain("detail", "detail"),
    plain("rate", "rate"),
    plain("matched", "counts.matched"),
    plain("waiting", "counts.waiting"),
    plain("sent", "counts.sent"),
    plain("done", "counts.done"),
    plain("failed", "counts.failed"),
    plain("skipped", "counts.skipped"),
    plain("by", "by"),
    plain("why", "why"),
    time("created", "created_at"),
    time("ended", "ended_at"),
];

const ITEMS: &[Column] =
    &[plain("id", "id"), plain("outcome", "outcome"), plain("detail", "detail"), time("at", "at")];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::Create(args) => {
            let body = request(&args)?;
            create(context, body, &args.pace).await
        }
        Verb::List { status, act, page } => {
            let ask = || Ask::get("/batches").query_if("status", status.clone()).query_if("act", act.clone());
            list(context, &page, COLUMNS, ask).await
        }
        Verb::Show { id } => {
            let (id, answer) = look(context, &whole(context, &id).await?).await?;
            view::object(&context.out, &answer, FIELDS)?;
            if view::value(&answer)?["status"] == "halted" {
                context.out.hint(&format!("what failed: windlass batch items {id} --outcome failed"));
            }
            Ok(())
        }
        Verb::Watch { id } => follow(context, &whole(context, &id).await?).await,
        Verb::Items { id, outcome, page } => {
            let path = format!("/batches/{}/items", segment(&whole(context, &id).await?));
            list(context, &page, ITEMS, || Ask::get(&path).query_if("outcome", outcome.clone())).await
        }
        Verb::Pause { id } => order(context, &id, "pause", "go on with: windlass batch resume").await,
        Verb::Resume { id } => order(context, &id, "resume", "follow it: windlass batch watch").await,
        Verb::Cancel { id } => order(context, &id, "cancel", "what was done: windlass batch items").await,
        Verb::Rate { id, rate } => {
            let id = whole(context, &id).await?;
            let ask = Ask::patch(format!("/batches/{}", segment(&id))).json(&json!({ "rate": rate }));
            change(context, ask, FIELDS, "").await.map(drop)
        }
    }
}

fn request(args: &CreateArgs) -> Result<Value, Failure> {
    let mut body = json!({ "act": args.act, "q": args.query });
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            body[key] = value;
        }
    };
    put("name", args.name.clone().map(Value::from));
    put("data", args.data.as_deref().map(|data| read_json(data, "--data")).transpose()?);
    put("version", args.version.clone().map(Value::from));
    put("mapping", args.mapping.as_deref().map(|mapping| read_json(mapping, "--mapping")).transpose()?);
    put("ramp", args.ramp.then_some(Value::Bool(true)));
    Ok(body)
}

/// Counts, asks, makes the batch, and follows it if so wanted.
pub(crate) async fn create(context: &Context, mut body: Value, pace: &PaceArgs) -> Result<(), Failure> {
    let act = body["act"].as_str().unwrap_or_default().to_owned();
    body["dry_run"] = Value::Bool(true);
    if pace.dry_run || !pace.yes {
        let answer = context.client.ask(Ask::post("/batches").json(&body)).await?;
        if pace.dry_run {
            let fields = [plain("matched", "matched"), plain("more", "more"), plain("samples", "samples")];
            return view::object(&context.out, &answer.body, &fields);
        }
        confirm(&act, &view::value(&answer.body)?)?;
    }
    if let Some(members) = body.as_object_mut() {
        members.remove("dry_run");
    }
    body["rate"] = pace.rate.map_or(Value::Null, Value::from);
    body["why"] = pace.why.clone().map_or(Value::Null, Value::from);
    if let Some(members) = body.as_object_mut() {
        members.retain(|key, value| key == "data" || !value.is_null());
    }
    let ask = Ask::post("/batches").header_if("Idempotency-Key", pace.idempotency_key.clone()).json(&body);
    let answer = context.client.ask(ask).await?;
    let id = view::id_of(&view::value(&answer.body)?);
    if pace.follow {
        return follow(context, &id).await;
    }
    view::object(&context.out, &answer.body, &[plain("batch", "id")])?;
    context.out.hint(&format!("follow it: windlass batch watch {id}"));
    Ok(())
}

/// Says what would be done and asks. Who cannot be asked has to say --yes.
#[allow(clippy::print_stderr, reason = "a question is no data")]
fn confirm(act: &str, found: &Value) -> Result<(), Failure> {
    let more = if found["more"] == true { "+" } else { "" };
    let matched = format!("{}{more}", found["matched"]);
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(format!("{act} of {matched} items has to be confirmed"))
            .hint("add --yes, or --dry-run to see what it would act on"));
    }
    for sample in found["samples"].as_array().into_iter().flatten() {
        eprintln!("  {}", sample.as_str().unwrap_or_default());
    }
    eprint!("{act} {matched} items? [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    match answer.trim().eq_ignore_ascii_case("y") || answer.trim().eq_ignore_ascii_case("yes") {
        true => Ok(()),
        false => Err(Failure::new(Exit::Failed, "nothing was done")),
    }
}

async fn whole(context: &Context, id: &str) -> Result<String, Failure> {
    super::whole_id(context, "/batches", Kind::Batch, id).await
}

async fn look(context: &Context, id: &str) -> Result<(String, Vec<u8>), Failure> {
    let answer = context.client.ask(Ask::get(format!("/batches/{}", segment(id)))).await?;
    Ok((id.to_owned(), answer.body.to_vec()))
}

async fn order(context: &Context, id: &str, verb: &str, next: &str) -> Result<(), Failure> {
    let id = whole(context, id).await?;
    let ask = Ask::post(format!("/batches/{}/{verb}", segment(&id)));
    if context.out.format == Format::Id {
        context.client.ask(ask).await?;
        return context.out.line(&id);
    }
    change(context, ask, FIELDS, &format!("{next} {id}")).await.map(drop)
}

/// Shows how far a batch is until it ends or stops.
pub(crate) async fn follow(context: &Context, id: &str) -> Result<(), Failure> {
    let bar = super::def::progress(u64::MAX, "items");
    loop {
        let (_, body) = look(context, id).await?;
        let batch = view::value(&body)?;
        let count = |key: &str| batch["counts"][key].as_u64().unwrap_or_default();
        bar.set_length(count("matched"));
        bar.set_position(count("done") + count("failed") + count("skipped"));
        let status = batch["status"].as_str().unwrap_or_default();
        if status == "running" {
            let _ = tokio::time::timeout(LOOK_EVERY, std::future::pending::<()>()).await;
            continue;
        }
        bar.finish_and_clear();
        view::object(&context.out, &body, FIELDS)?;
        return match (status, count("failed")) {
            ("done", 0) => Ok(()),
            ("done", failed) => Err(Failure::failed(format!("{failed} items failed"))
                .hint(format!("which: windlass batch items {id} --outcome failed"))),
            (_, _) => Err(Failure::failed(format!("the batch is {status}"))
                .detail(batch["detail"].as_str().unwrap_or_default().to_owned())
                .hint(format!("go on with: windlass batch resume {id}"))),
        };
    }
}
