//! `windlass audit`: what people, keys and workers did; exports of it, and their check without a server.

use super::{Context, ListArgs, QueryArgs, list};
use crate::{
    client::Ask,
    failure::Failure,
    out::Out,
    view::{Column, plain, time},
};
use clap::Subcommand;
use machine::audit::{Hash, Verified, hex, unhex, verify};
use serde_json::json;
use std::path::PathBuf;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// List what was done, newest first
    #[command(after_long_help = "Examples:\n  \
        windlass audit list\n  \
        windlass audit list -q 'who:ann act:instance.* at:>-1d'\n  \
        windlass audit list -q 'object:ins_0192… age:<7d' --all")]
    List {
        #[command(flatten)]
        query: QueryArgs,
        #[command(flatten)]
        page: ListArgs,
    },
    /// Write a contiguous range of the chain, signed, as NDJSON
    #[command(after_long_help = "Examples:\n  \
        windlass audit export > audit.ndjson\n  \
        windlass audit export --from 10001 --file audit-2.ndjson")]
    Export {
        /// The place in the chain to begin at; the first that is kept unless given
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        from: Option<u64>,
        /// At most so many entries, 1 to 10000
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
        limit: Option<u16>,
        /// Write to this file instead of stdout
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Check exports; no server is asked
    ///
    /// Finds whatever was edited, deleted, moved or cut off. Several files must follow one another without a gap.
    #[command(after_long_help = "Examples:\n  \
        windlass audit verify audit.ndjson\n  \
        windlass audit verify audit-1.ndjson audit-2.ndjson --signed-by 4f8c…\n\n\
        Without --signed-by the export's own key is believed: keep the key that the first check prints.")]
    Verify {
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        /// The public key that all of it must be signed with, in hex
        #[arg(long = "signed-by", value_name = "HEX")]
        key: Option<String>,
    },
}

const COLUMNS: &[Column] = &[
    plain("seq", "seq"),
    time("at", "at"),
    plain("who", "who.subject"),
    plain("act", "act"),
    plain("object", "object.id"),
    plain("request", "request"),
];

/// What needs a server.
pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::List { query, page } => {
            list(context, &page, COLUMNS, || Ask::get("/audit").query_if("q", query.text())).await
        }
        Verb::Export { from, limit, file } => {
            let ask = Ask::get("/audit/export");
            let ask = ask.query_if("from", from.map(|from| from.to_string()));
            let answer =
                context.client.ask(ask.query_if("limit", limit.map(|limit| limit.to_string()))).await?;
            let whole = check("the export", &answer.body, None)?;
            match file {
                Some(path) => std::fs::write(&path, &answer.body)
                    .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?,
                None => context.out.data(&answer.body)?,
            }
            context.out.note(&format!(
                "entries {} to {}; more, if there are, with --from {}",
                whole.from,
                whole.to,
                whole.to + 1
            ));
            Ok(())
        }
        Verb::Verify { files, key } => verify_files(&files, key.as_deref(), &context.out),
    }
}

/// Checks files, each by itself and each after the one before it.
pub(crate) fn verify_files(files: &[PathBuf], key: Option<&str>, out: &Out) -> Result<(), Failure> {
    let key = match key {
        Some(text) => {
            let wrong = || Failure::usage("--signed-by is 64 digits of hex, in small letters");
            Some(unhex::<32>(text).ok_or_else(wrong)?)
        }
        None => None,
    };
    let mut before: Option<Verified> = None;
    for path in files {
        let name = path.display().to_string();
        let bytes =
            std::fs::read(path).map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
        let whole = check(&name, &bytes, key)?;
        if let Some(last) = &before
            && (last.tenant != whole.tenant || (last.to + 1, last.last) != (whole.from, whole.prev))
        {
            let why = format!("{name} does not follow the file before it, which ends at entry {}", last.to);
            return Err(Failure::failed(why));
        }
        let said = json!({
            "file": name,
            "tenant": whole.tenant.as_str(),
            "from": whole.from,
            "to": whole.to,
            "prev": hex(&whole.prev),
            "last": hex(&whole.last),
            "checkpoints": whole.checkpoints,
            "signed_by": whole.keys.iter().map(|key| hex(key)).collect::<Vec<_>>(),
        });
        out.line(&said.to_string())?;
        before = Some(whole);
    }
    out.note("nothing was changed");
    Ok(())
}

fn check(name: &str, bytes: &[u8], key: Option<Hash>) -> Result<Verified, Failure> {
    let whole = verify(bytes, &runtime::audit::is_signed)
        .map_err(|broken| Failure::failed(format!("{name} was changed")).detail(broken.to_string()))?;
    if let Some(other) = whole.keys.iter().find(|signed| key.is_some_and(|key| key != **signed)) {
        return Err(Failure::failed(format!("{name} is signed with another key: {}", hex(other))));
    }
    Ok(whole)
}
