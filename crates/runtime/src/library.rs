//! Compiles a document together with those it refers to, which are fetched for it.
//!
//! They are fetched by the egress client, under its rules, each time a document is deployed or looked at; what was
//! fetched for a version that is deployed is part of that version.

use crate::{
    api::Refusal,
    engine::Engine,
    handle::{Answer, count},
};
use machine::language::{self, Compilation, Format, Library, Problem, Wanted};
use std::time::Duration;

/// How many documents one definition may refer to, directly or through others.
const DOCUMENTS_MAX: usize = 32;
/// How long fetching all of them may take.
const FETCHING_MAX: Duration = Duration::from_secs(60);

pub(crate) async fn compile(engine: &Engine, source: &[u8], format: Format) -> Answer<Compilation> {
    let compiled = tokio::time::timeout(FETCHING_MAX, fetch_and_compile(engine, source, format)).await;
    compiled.unwrap_or_else(|_| {
        let detail =
            format!("what the definition refers to was not there within {} s", FETCHING_MAX.as_secs());
        Err(Refusal::Invalid { code: "definition-invalid", detail, problems: vec![] })
    })
}

async fn fetch_and_compile(engine: &Engine, source: &[u8], format: Format) -> Answer<Compilation> {
    let mut library = Library::default();
    loop {
        let compiled = language::compile_with(source, format, &library).map_err(invalid)?;
        if compiled.wanted.is_empty() || !compiled.unsupported.is_empty() {
            return Ok(compiled);
        }
        for Wanted { url, problem } in compiled.wanted {
            let because = |reason: String| {
                let message = format!("{} ({reason})", problem.message);
                invalid(vec![Problem { message, ..problem.clone() }])
            };
            if library.len() >= DOCUMENTS_MAX {
                return Err(because(format!("a definition may refer to at most {DOCUMENTS_MAX} documents")));
            }
            let text =
                engine.egress.text(&url).await.map_err(|fault| because(fault.detail.unwrap_or_default()))?;
            library.insert(url, text);
        }
    }
}

/// The same, refused unless this node can and may execute it.
pub(crate) async fn executable(engine: &Engine, source: &[u8], format: Format) -> Answer<Compilation> {
    let compiled = compile(engine, source, format).await?;
    let not_allowed = if engine.options.scripts { &[][..] } else { &compiled.scripts };
    let problems = [&compiled.unsupported, not_allowed].concat();
    let (code, what) = match (compiled.unsupported.is_empty(), problems.is_empty()) {
        (false, _) => ("definition-unsupported", "the definition uses what this engine does not execute:"),
        (true, false) => ("definition-not-allowed", "the definition has what is not allowed here:"),
        (true, true) => return Ok(compiled),
    };
    Err(Refusal::Invalid { code, detail: count(&problems, what), problems })
}

fn invalid(problems: Vec<Problem>) -> Refusal {
    let detail = count(&problems, "the definition has");
    Refusal::Invalid { code: "definition-invalid", detail, problems }
}
