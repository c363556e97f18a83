//! The tutorial, executed: every `sh` block in order, and what the `text` block after it says comes out.

use crate::engine::{Engine, shell};
use std::path::Path;

/// Between the outputs of two blocks.
const MARK: &str = "@@@@";

/// The `sh` blocks with the `text` block that follows each, if one does.
fn blocks(page: &str) -> Vec<(String, Option<String>)> {
    let mut found: Vec<(String, Option<String>)> = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else { continue };
        let body: String =
            lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
        match kind {
            "sh" => found.push((body, None)),
            "text" => found.last_mut().expect("a command before its output").1 = Some(body),
            _ => {}
        }
    }
    found
}

/// True if the words are the same; `…` is any rest of a word, and by itself any words.
fn matches(said: &str, expected: &str) -> bool {
    let (mut said, mut expected) =
        (said.split_whitespace().peekable(), expected.split_whitespace().peekable());
    while let Some(word) = expected.next() {
        if word == "…" {
            let next = expected.peek().copied();
            while said.peek().is_some_and(|word| Some(*word) != next) {
                said.next();
            }
            continue;
        }
        let same = match (said.next(), word.strip_suffix('…')) {
            (Some(said), Some(start)) => said.starts_with(start),
            (Some(said), None) => said == word,
            (None, _) => false,
        };
        if !same {
            return false;
        }
    }
    said.next().is_none()
}

/// Runs the blocks of a page in one shell and compares what each says.
async fn works_as_written(name: &str, blocks_min: usize) {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = source.join("docs").join(name);
    let blocks = blocks(&std::fs::read_to_string(page).unwrap());
    assert!(blocks.len() >= blocks_min && blocks.iter().all(|(_, expected)| expected.is_some()));
    let source = source.canonicalize().unwrap().display().to_string();
    let exports = format!(
        "export WINDLASS_SOURCE='{source}' PYTHONPATH='{source}/sdk/python' PYTHONDONTWRITEBYTECODE=1\n"
    );
    let script: String = blocks.iter().map(|(block, _)| format!("{block}echo {MARK}\n")).collect();
    let output = shell(home.path(), &engine.url, &engine.key, &[exports, script].concat()).await.ok();
    for ((block, expected), said) in blocks.iter().zip(output.split(MARK)) {
        let mut lines = said.lines();
        for expected in expected.iter().flat_map(|expected| expected.lines()) {
            assert!(lines.any(|line| matches(line, expected)), "{block}says\n{said}\nnot {expected}");
        }
    }
}

#[tokio::test]
async fn the_tutorial_works_as_written() {
    works_as_written("first-workflow.md", 8).await;
}

#[tokio::test]
async fn the_tutorial_of_workers_works_as_written() {
    works_as_written("first-worker.md", 8).await;
}
