//! `windlass def diff`, `def preflight` and `instance migrate`: versions and the instances in them.

use super::{Context, def, fmt};
use crate::{
    client::{Ask, segment},
    failure::{Exit, Failure, flaw_lines},
    out::Format,
    view,
};
use machine::{ir, language, version};
use serde_json::{Value, json};
use std::path::Path;

#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    windlass def diff examples/order-approval@1.0.0 examples/order-approval@1.1.0\n  \
    windlass def diff order-approval@1.0.0 order.yaml\n  \
    windlass def diff old.yaml new.yaml -o json")]
pub(crate) struct DiffArgs {
    /// The older one: a file, or namespace/name@version
    #[arg(value_name = "A")]
    old: String,
    /// The newer one
    #[arg(value_name = "B")]
    new: String,
}

#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    windlass def preflight order.yaml\n  \
    windlass def preflight examples/order-approval@1.1.0 --from 1.0.0\n  \
    windlass def preflight order.yaml --map /do/0/ask=/do/0/question")]
pub(crate) struct PreflightArgs {
    /// A file, or namespace/name@version
    #[arg(value_name = "FILE|DEF")]
    new: String,
    /// Only instances of this version
    #[arg(long, value_name = "VERSION")]
    from: Option<String>,
    /// What a step of the old version is in the new one; may be given several times
    #[arg(long = "map", value_name = "OLD=NEW")]
    mapping: Vec<String>,
}

#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    windlass instance migrate ins_0192… --to 1.1.0\n  \
    windlass instance migrate ins_0192… --to 1.1.0 --map /do/0/ask=/do/0/question --dry-run\n  \
    windlass instance migrate --definition examples/order-approval --from 1.0.0 --to 1.1.0")]
pub(crate) struct MigrateArgs {
    /// One instance; without it all that --definition names
    #[arg(value_name = "ID", required_unless_present = "definition")]
    pub(crate) id: Option<String>,
    /// The version to go on in
    #[arg(long, value_name = "VERSION")]
    to: String,
    /// All live instances of this definition
    #[arg(long, value_name = "DEF", conflicts_with = "id")]
    definition: Option<String>,
    /// Only instances of this version
    #[arg(long, value_name = "VERSION", requires = "definition")]
    from: Option<String>,
    /// What a step of the old version is in the new one; may be given several times
    #[arg(long = "map", value_name = "OLD=NEW")]
    mapping: Vec<String>,
    /// Say whether it would work, change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn diff(context: &Context, args: &DiffArgs) -> Result<(), Failure> {
    let old = workflow(context, &args.old).await?;
    let new = workflow(context, &args.new).await?;
    let diff = version::diff(&old, &new);
    let out = &context.out;
    if matches!(out.format, Format::Json | Format::Jsonl) {
        let text = serde_json::to_string(&diff).map_err(|error| Failure::failed(error.to_string()))?;
        return out.line(&text);
    }
    for change in &diff.definition {
        out.line(&format!("changed\t{}\t{}", change.what, sides(change)))?;
    }
    for step in &diff.steps {
        let place = match (&step.from, &step.to) {
            (Some(from), Some(to)) if from != to => format!("{from} -> {to}"),
            (from, to) => to.as_ref().or(from.as_ref()).cloned().unwrap_or_default(),
        };
        out.line(&format!("{}\t{place}\t{}", step.change, step.kind))?;
        for change in &step.changes {
            out.line(&format!("\t{}\t{}", change.what, sides(change)))?;
        }
    }
    if diff.is_empty() {
        out.note("the two are the same");
    }
    Ok(())
}

fn sides(change: &version::Change) -> String {
    const SHOWN_CHARS_MAX: usize = 120;
    let show = |side: &Option<machine::Data>| match side {
        None => "-".to_owned(),
        Some(data) => {
            let text = data.to_text().replace('\n', " ");
            match text.char_indices().nth(SHOWN_CHARS_MAX) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        }
    };
    format!("{} -> {}", show(&change.from), show(&change.to))
}

fn is_file(text: &str) -> bool {
    let named = [".yaml", ".yml", ".json"].iter().any(|end| text.to_ascii_lowercase().ends_with(end));
    named || Path::new(text).is_file()
}

fn read(file: &str) -> Result<Vec<u8>, Failure> {
    std::fs::read(file).map_err(|error| Failure::usage(format!("cannot read {file}: {error}")))
}

/// The definition of a file or of a deployed version.
async fn workflow(context: &Context, text: &str) -> Result<ir::Workflow, Failure> {
    let (source, format) = match is_file(text) {
        true => (read(text)?, fmt::format_of(Path::new(text))),
        false => (def::source(context, text).await?, language::Format::Yaml),
    };
    language::compile(&source, format).map(|compiled| compiled.workflow).map_err(|problems| {
        let flaws: Vec<_> = problems.iter().map(fmt::flaw).collect();
        flaw_lines(&flaws, Some(text)).iter().for_each(|line| context.out.note(line));
        Failure::failed(format!("{text} is not valid"))
    })
}

fn mapping(pairs: &[String]) -> Result<Value, Failure> {
    let pair = |pair: &String| match pair.split_once('=') {
        Some((old, new)) if old.starts_with('/') && new.starts_with('/') => {
            Ok((old.to_owned(), Value::from(new)))
        }
        _ => Err(Failure::usage(format!("{pair:?} is no mapping: write /do/0/old=/do/0/new"))),
    };
    pairs.iter().map(pair).collect::<Result<serde_json::Map<_, _>, _>>().map(Value::Object)
}

pub(crate) async fn preflight(context: &Context, args: &PreflightArgs) -> Result<(), Failure> {
    let mut body = json!({ "mapping": mapping(&args.mapping)?, "from": args.from });
    let path = match is_file(&args.new) {
        true => {
            body["document"] = String::from_utf8_lossy(&read(&args.new)?).into();
            "/definitions/preflight".to_owned()
        }
        false => {
            let reference = def::resolve(context, &args.new).await?;
            let Some(version) = reference.version else {
                return Err(Failure::usage("name the version: namespace/name@version"));
            };
            let (namespace, name) = (segment(&reference.namespace), segment(&reference.name));
            format!("/definitions/{namespace}/{name}/versions/{}/preflight", segment(&version))
        }
    };
    let mut total = Value::Null;
    loop {
        let answer = context.client.ask(Ask::post(&path).json(&body)).await?;
        let page = view::value(&answer.body)?;
        body["cursor"] = page["next"].clone();
        let last = page["next"].is_null();
        total = add(total, page);
        if last {
            break;
        }
    }
    show_preflight(context, &total)?;
    let breaks = total["breaks"].as_u64().unwrap_or(0);
    match breaks {
        0 => Ok(()),
        count => Err(Failure::new(Exit::Conflict, format!("{count} instances cannot go on in this version"))),
    }
}

/// Adds up the pages of a pre-flight: numbers are summed, lists joined.
fn add(total: Value, page: Value) -> Value {
    let (Value::Object(mut sum), Value::Object(page)) = (total, page.clone()) else { return page };
    for (key, value) in page {
        let entry = sum.entry(key).or_insert(Value::Null);
        *entry = match (entry.take(), value) {
            (Value::Array(mut items), Value::Array(more)) => {
                items.extend(more);
                Value::Array(items)
            }
            (Value::Number(a), Value::Number(b)) => {
                (a.as_u64().unwrap_or(0) + b.as_u64().unwrap_or(0)).into()
            }
            (_, value) => value,
        };
    }
    Value::Object(sum)
}

fn show_preflight(context: &Context, total: &Value) -> Result<(), Failure> {
    let out = &context.out;
    if out.format != Format::Table {
        return out.line(&total.to_string());
    }
    for key in ["checked", "safe", "needs_mapping", "breaks"] {
        out.line(&format!("{}\t{}", key.replace('_', " "), total[key]))?;
    }
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    for need in total["needs"].as_array().into_iter().flatten() {
        let (old, new) = (text(&need["reference"]), text(&need["suggestion"]));
        out.line(&format!("map\t{old}={new}\t{} instances: {}", need["instances"], text(&need["why"])))?;
    }
    for reason in total["reasons"].as_array().into_iter().flatten() {
        out.line(&format!("breaks\t{}\t{} instances", text(&reason["reason"]), reason["instances"]))?;
    }
    for example in total["examples"].as_array().into_iter().flatten() {
        out.line(&format!(
            "example\t{}\t{}\t{}",
            text(&example["id"]),
            text(&example["version"]),
            text(&example["fit"])
        ))?;
    }
    Ok(())
}

pub(crate) async fn migrate(context: &Context, args: &MigrateArgs) -> Result<(), Failure> {
    let mut body = json!({ "version": args.to, "mapping": mapping(&args.mapping)?, "dry_run": args.dry_run });
    if let Some(id) = &args.id {
        let ask = Ask::post(format!("/instances/{}/migrate", segment(id))).json(&body);
        if args.dry_run {
            return show_fit(context, ask, &args.to).await;
        }
        let next = format!("follow it: windlass instance watch {id}");
        return super::change(context, ask, &[view::state("status", "status")], &next).await.map(drop);
    }
    let definition = args.definition.as_deref().unwrap_or_default();
    let reference = def::resolve(context, definition).await?;
    body["namespace"] = reference.namespace.into();
    body["name"] = reference.name.into();
    body["from"] = json!(args.from.clone().or(reference.version));
    let mut total = Value::Null;
    loop {
        let page = view::value(&context.client.ask(Ask::post("/instances/migrate").json(&body)).await?.body)?;
        body["cursor"] = page["next"].clone();
        let last = page["next"].is_null();
        total = add(total, page);
        if last {
            break;
        }
        context.out.note(&format!("{} migrated, {} refused so far", total["migrated"], total["refused"]));
    }
    show_moves(context, &total, args.dry_run)
}

/// What a dry run found out about one instance; if it does not fit, the answer is the reason.
async fn show_fit(context: &Context, ask: Ask, version: &str) -> Result<(), Failure> {
    let answer = context.client.ask(ask).await?;
    if context.out.format != Format::Table {
        return view::object(&context.out, &answer.body, &[]);
    }
    context.out.line(&format!("dry run\tfits {version}"))?;
    context.out.hint("nothing was changed; without --dry-run it is moved");
    Ok(())
}

fn show_moves(context: &Context, total: &Value, dry_run: bool) -> Result<(), Failure> {
    let out = &context.out;
    if out.format != Format::Table {
        out.line(&total.to_string())?;
    } else {
        let moved = if dry_run { "would migrate" } else { "migrated" };
        out.line(&format!("{moved}\t{}", total["migrated"]))?;
        out.line(&format!("refused\t{}", total["refused"]))?;
        for example in total["examples"].as_array().into_iter().flatten() {
            let text = |key: &str| example[key].as_str().unwrap_or_default();
            out.line(&format!("refused\t{}\t{}", text("id"), text("why")))?;
        }
    }
    if dry_run {
        out.hint("nothing was changed; without --dry-run they are moved");
    }
    match total["refused"].as_u64() {
        None | Some(0) => Ok(()),
        Some(count) => Err(Failure::new(Exit::Conflict, format!("{count} instances were refused"))),
    }
}
