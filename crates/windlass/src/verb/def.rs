//! `windlass def`: deploy, validate, list, show, draw, format and compare definitions.

use super::{Context, ListArgs, fmt, graph, list, version};
use crate::{
    client::{Answer, Ask, segment},
    failure::{Failure, Flaw, flaw_lines},
    out::Format,
    view::{self, Column, Page, plain, time},
};
use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use std::path::{Path, PathBuf};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Make documents definition versions
    ///
    /// Deploying the same document again changes nothing; another document under the same version is refused, so
    /// raise `document.version`. With several files every file is tried; the exit code tells if one failed.
    #[command(after_long_help = "Examples:\n  \
        windlass def deploy my-flow.yaml\n  \
        windlass def deploy flows/*.yaml\n  \
        windlass def deploy my-flow.yaml --dry-run")]
    Deploy {
        /// YAML or JSON documents
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Check only, store nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Check documents and say everything that is wrong with them
    ///
    /// Each problem is printed as file:line:column: message, with what to do about it. Nothing is stored.
    #[command(after_long_help = "Examples:\n  \
        windlass def validate my-flow.yaml\n  \
        windlass def validate flows/*.yaml -o json")]
    Validate {
        /// YAML or JSON documents
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// List definitions, each with its newest version
    #[command(after_long_help = "Examples:\n  \
        windlass def list\n  \
        windlass def list --namespace examples -o id")]
    List {
        /// Only this namespace
        #[arg(long)]
        namespace: Option<String>,
        #[command(flatten)]
        page: ListArgs,
    },
    /// Draw a definition as a graph, or what changed between two versions of it
    #[command(after_long_help = "Examples:\n  \
        windlass def graph examples/order-approval > order.svg\n  \
        windlass def graph order-approval --to order.png --theme dark\n  \
        windlass def graph order-approval@1.1.0 --from 1.0.0 --to change.svg")]
    Graph {
        /// namespace/name, namespace/name@version, or the name alone if it is unique
        #[arg(value_name = "DEF")]
        definition: String,
        /// An older version: both in one picture, with what changed marked
        #[arg(long, value_name = "VERSION")]
        from: Option<String>,
        #[command(flatten)]
        picture: graph::Args,
    },
    /// Show a definition, its versions or its document
    #[command(after_long_help = "Examples:\n  \
        windlass def show examples/order-approval\n  \
        windlass def show examples/order-approval@1.0.0 --source > order.yaml\n  \
        windlass def show order-approval --versions")]
    Show {
        /// namespace/name, namespace/name@version, or the name alone if it is unique
        #[arg(value_name = "DEF")]
        definition: String,
        /// The document as it was deployed, byte for byte
        #[arg(long)]
        source: bool,
        /// The document as YAML written from what is executed
        #[arg(long, conflicts_with = "source")]
        decompiled: bool,
        /// List the versions, newest first
        #[arg(long, conflicts_with_all = ["source", "decompiled"])]
        versions: bool,
    },
    /// Lay documents out: indentation, spacing, blank lines; comments stay
    ///
    /// Keys keep their order, texts their quotes, and a list or object that fits on its one line stays on it.
    /// Nothing is written unless the result means the same and has every comment.
    Fmt(fmt::Args),
    /// Say what changed between two documents or versions
    Diff(version::DiffArgs),
    /// Say which live instances could go on in a version
    ///
    /// Exit code 5 if some cannot.
    Preflight(version::PreflightArgs),
}

const COLUMNS: &[Column] = &[
    plain("definition", "namespace/name"),
    plain("version", "version"),
    plain("title", "title"),
    time("deployed", "created_at"),
];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::Deploy { files, dry_run } => deploy(context, &files, dry_run).await,
        Verb::Validate { files } => validate(context, &files).await,
        Verb::List { namespace, page } => {
            list(context, &page, COLUMNS, || {
                Ask::get("/definitions").query_if("namespace", namespace.clone())
            })
            .await
        }
        Verb::Show { definition, source, decompiled, versions } => {
            let form = if decompiled { Some("decompiled") } else { source.then_some("source") };
            show(context, &definition, form, versions).await
        }
        Verb::Graph { definition, from, picture } => draw(context, &definition, from, &picture).await,
        Verb::Fmt(args) => fmt::run(&args, context),
        Verb::Diff(args) => version::diff(context, &args).await,
        Verb::Preflight(args) => version::preflight(context, &args).await,
    }
}

async fn deploy(context: &Context, files: &[PathBuf], dry_run: bool) -> Result<(), Failure> {
    let out = &context.out;
    let bar = progress(files.len() as u64, "deploying");
    let mut failed = None;
    for file in files {
        let answer = send(context, file, dry_run).await;
        let shown = answer.and_then(|answer| bar.suspend(|| show_deployed(context, file, &answer, dry_run)));
        bar.inc(1);
        match shown {
            Ok(()) => {}
            Err(failure) if files.len() == 1 => return Err(failure),
            Err(failure) => {
                bar.suspend(|| crate::out::failure(&failure, out.format));
                failed.get_or_insert(failure.exit());
            }
        }
    }
    bar.finish_and_clear();
    if let Some(exit) = failed {
        return Err(Failure::silent(exit));
    }
    if !dry_run {
        out.hint("start one with: windlass instance start NAMESPACE/NAME --input '{}' --watch");
    }
    Ok(())
}

async fn send(context: &Context, file: &Path, dry_run: bool) -> Result<Answer, Failure> {
    let ask = document(Ask::post("/definitions").query_if("dry_run", dry_run.then_some("true")), file)?;
    let answer = context.client.ask(ask).await;
    answer.map_err(|failure| failure.in_file(&file.display().to_string()))
}

fn show_deployed(context: &Context, file: &Path, answer: &Answer, dry_run: bool) -> Result<(), Failure> {
    let found: Found = read(&answer.body)?;
    for line in flaw_lines(&found.warnings, Some(&file.display().to_string())) {
        context.out.note(&format!("warning: {line}"));
    }
    if context.out.format != Format::Table {
        return view::object(&context.out, &answer.body, &[]);
    }
    let state = match (dry_run, answer.status) {
        (true, _) => "valid",
        (false, 201) => "deployed",
        _ => "unchanged",
    };
    let Found { namespace, name, version, .. } = found;
    context.out.line(&format!("{namespace}/{name}@{version}\t{state}"))
}

/// The members of a deployment's or a validation's answer.
#[derive(Deserialize)]
struct Found {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    valid: bool,
    #[serde(default)]
    problems: Vec<Flaw>,
    #[serde(default)]
    warnings: Vec<Flaw>,
}

async fn validate(context: &Context, files: &[PathBuf]) -> Result<(), Failure> {
    let mut failure = None;
    for file in files {
        let shown = file.display().to_string();
        let ask = document(Ask::post("/definitions/validate"), file)?;
        let answer = context.client.ask(ask).await.map_err(|failure| failure.in_file(&shown))?;
        let found: Found = read(&answer.body)?;
        for line in flaw_lines(&found.warnings, Some(&shown)) {
            context.out.note(&format!("warning: {line}"));
        }
        match context.out.format {
            Format::Table | Format::Id if found.valid => context.out.line(&format!("{shown}\tvalid"))?,
            Format::Table | Format::Id => {
                flaw_lines(&found.problems, Some(&shown)).iter().for_each(|line| context.out.note(line));
            }
            Format::Json | Format::Jsonl => view::object(&context.out, &answer.body, &[])?,
        }
        if !found.valid {
            let count = found.problems.len();
            let title = format!("{shown} has {count} problem{}", if count == 1 { "" } else { "s" });
            failure = Some(Failure::failed(title));
        }
    }
    failure.map_or(Ok(()), Err)
}

fn read<T: for<'a> Deserialize<'a>>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body)
        .map_err(|error| Failure::failed(format!("the answer is not understood: {error}")))
}

/// Adds a document to a request; its name tells YAML from JSON.
fn document(ask: Ask, file: &Path) -> Result<Ask, Failure> {
    let bytes = std::fs::read(file)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?;
    let is_json = file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    Ok(ask.body(if is_json { "application/json" } else { "application/yaml" }, bytes))
}

/// The document of a deployed version, byte for byte.
pub(crate) async fn source(context: &Context, definition: &str) -> Result<Vec<u8>, Failure> {
    let Reference { namespace, name, version } = resolve(context, definition).await?;
    let ask = Ask::get(path(&namespace, &name, version.as_deref())).header("Accept", "application/yaml");
    Ok(context.client.ask(ask).await?.body)
}

fn path(namespace: &str, name: &str, version: Option<&str>) -> String {
    let base = format!("/definitions/{}/{}", segment(namespace), segment(name));
    match version {
        Some(version) => format!("{base}/versions/{}", segment(version)),
        None => base,
    }
}

async fn show(
    context: &Context,
    definition: &str,
    form: Option<&str>,
    versions: bool,
) -> Result<(), Failure> {
    let Reference { namespace, name, version } = resolve(context, definition).await?;
    let base = path(&namespace, &name, None);
    if versions {
        let page = ListArgs { limit: None, cursor: None, all: true };
        return list(context, &page, COLUMNS, || Ask::get(format!("{base}/versions"))).await;
    }
    let path = path(&namespace, &name, version.as_deref());
    if let Some(form) = form {
        let ask = Ask::get(path).query("form", form).header("Accept", "application/yaml");
        return context.out.data(&context.client.ask(ask).await?.body);
    }
    let answer = context.client.ask(Ask::get(path)).await?;
    let fields = [
        plain("definition", "namespace/name@version"),
        plain("title", "title"),
        time("deployed", "created_at"),
        plain("media type", "media_type"),
    ];
    view::object(&context.out, &answer.body, &fields)?;
    context.out.hint("the document: --source; all versions: --versions");
    Ok(())
}

async fn draw(
    context: &Context,
    definition: &str,
    from: Option<String>,
    picture: &graph::Args,
) -> Result<(), Failure> {
    let Reference { namespace, name, version } = resolve(context, definition).await?;
    let version = match version {
        Some(version) => version,
        None => {
            read::<Found>(&context.client.ask(Ask::get(path(&namespace, &name, None))).await?.body)?.version
        }
    };
    let address = format!("{}/graph", path(&namespace, &name, Some(&version)));
    graph::draw(context, &address, picture, from).await
}

/// A definition as the command line names it.
#[derive(Debug, PartialEq)]
pub(crate) struct Reference {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) version: Option<String>,
}

/// Splits `[namespace/]name[@version]`.
fn split(text: &str) -> (Option<&str>, &str, Option<&str>) {
    let (path, version) = match text.split_once('@') {
        Some((path, version)) => (path, Some(version)),
        None => (text, None),
    };
    match path.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name, version),
        None => (None, path, version),
    }
}

/// Finds out which definition is meant. A name alone is that of the namespace `default`, or of the only namespace
/// that has it.
pub(crate) async fn resolve(context: &Context, text: &str) -> Result<Reference, Failure> {
    let (namespace, name, version) = split(text);
    if name.is_empty() || namespace == Some("") || version == Some("") || name.contains('/') {
        return Err(Failure::usage(format!(
            "{text:?} is no definition: write namespace/name or namespace/name@version"
        )));
    }
    let namespace = match namespace {
        Some(namespace) => namespace.to_owned(),
        None => namespace_of(context, name).await?,
    };
    Ok(Reference { namespace, name: name.to_owned(), version: version.map(str::to_owned) })
}

async fn namespace_of(context: &Context, name: &str) -> Result<String, Failure> {
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let ask = Ask::get("/definitions").query("limit", "200").query_if("cursor", cursor);
        let Page { items, next } = Page::read(&context.client.ask(ask).await?.body)?;
        for item in &items {
            let item = view::value(item.get().as_bytes())?;
            if item["name"] == name {
                found.extend(item["namespace"].as_str().map(str::to_owned));
            }
        }
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    if found.iter().any(|namespace| namespace == "default") {
        return Ok("default".to_owned());
    }
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Failure::new(crate::failure::Exit::NotFound, format!("no definition is named {name:?}"))
            .hint("`windlass def list` shows what is deployed")),
        many => Err(Failure::usage(format!("{name:?} is in several namespaces: {}", many.join(", ")))
            .hint(format!("say which: {}/{name}", many[0]))),
    }
}

/// A bar on stderr; drawn on a terminal only, and not for a single thing.
pub(crate) fn progress(total: u64, what: &'static str) -> ProgressBar {
    if total < 2 {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {bar:32} {pos}/{len}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total).with_style(style).with_message(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_named_in_three_ways() {
        assert_eq!(split("a/b@1.0.0"), (Some("a"), "b", Some("1.0.0")));
        assert_eq!(split("a/b"), (Some("a"), "b", None));
        assert_eq!(split("b@2.0.0-rc.1"), (None, "b", Some("2.0.0-rc.1")));
        assert_eq!(split("b"), (None, "b", None));
    }
}
