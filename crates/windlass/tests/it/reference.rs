//! The language reference, executed: every example of its pages does what the comments in it say.
//!
//! A page's first section explains the comments. Each example has a tenant of its own on one engine, so nothing that
//! one example does (definitions, secrets, the clock) is seen by another, and all of them go side by side.

mod example;
mod play;
mod web;

use crate::conformance::scene::{Home, Place};
use example::Example;
use futures_util::{StreamExt, stream};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use web::Web;

/// Examples under way at once: they mostly wait.
const AT_ONCE: usize = 8;
/// What the pages have at least.
const EXAMPLES_MIN: usize = 170;

/// `docs/language.md` and the pages in `docs/language`, if there are any.
fn pages() -> Vec<PathBuf> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut pages = vec![docs.join("language.md")];
    let further = std::fs::read_dir(docs.join("language")).into_iter().flatten();
    pages.extend(further.map(|entry| entry.unwrap().path()));
    pages.sort();
    pages
}

fn examples() -> Vec<Example> {
    let mut all = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let name = page.file_name().unwrap().to_string_lossy();
        let found = example::read(&name, &text);
        let fences = text.lines().filter(|line| line.trim_start().starts_with("```yaml")).count();
        assert_eq!(found.len(), fences, "{name}: an example was not found");
        all.extend(found);
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_example_does_what_it_says() {
    let examples = examples();
    let count = examples.len();
    assert!(count >= EXAMPLES_MIN, "only {count} examples");
    let web = Web::of(&examples);
    let folder = tempfile::tempdir().unwrap();
    let flags = web.flags(folder.path()).await;
    let home =
        Home::with(folder, flags, Place::Own, true).await.expect("a home of its own needs no database");
    let home = Arc::new(home);
    let plays = stream::iter(examples.into_iter().enumerate()).map(|(number, example)| {
        let (home, web) = (home.clone(), web.clone());
        async move { play::play(home, &web, number, &example).await.err() }
    });
    let failed: Vec<String> =
        plays.buffer_unordered(AT_ONCE).filter_map(async |failure| failure).collect().await;
    assert!(failed.is_empty(), "{} of {count} examples failed:\n\n{}\n", failed.len(), failed.join("\n\n"));
}

/// What is no example must not pass for one.
#[test]
fn an_example_says_what_it_expects() {
    let problem = |body: &str| example::read("page", &format!("```yaml\n{body}\n```\n"))[0].check().err();
    let none = problem("do: [ { a: { set: { n: 1 } } } ]").unwrap();
    assert!(none.contains("page:1") && none.contains("without an expectation"), "{none}");
    let unknown = problem("# ouput: 1\n# output: 1\ndo: []").unwrap();
    assert!(unknown.contains("page:2") && unknown.contains("ouput"), "{unknown}");
    assert_eq!(problem("# input: 1\n# output: 1\ndo: []"), None);
}
