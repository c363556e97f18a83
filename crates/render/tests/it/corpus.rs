//! Every published example, every example of our own and every one in our documentation draws well, whichever way.
//!
//! The published documents are third-party files that lie beside the workspace; without them the test says so and passes.

use super::geometry;
use machine::{
    ir::Workflow,
    language::{Format, Library, compile_with},
};
use render::{Direction, Effort, Options};
use std::path::{Path, PathBuf};

/// What stands at the URLs that examples name.
const ELSEWHERE: &[(&str, &str)] = &[(
    "https://raw.githubusercontent.com/serverlessworkflow/catalog/main/functions/log/1.0.0/function.yaml",
    "set: { logged: '${ .message }' }",
)];

/// What an example of the documentation begins with unless it says otherwise.
const HEAD: &str = "document: { dsl: '1.0.3', namespace: docs, name: example, version: '1.0.0' }\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn compile(text: &str) -> Option<Workflow> {
    let mut library = Library::default();
    ELSEWHERE.iter().for_each(|(url, text)| library.insert((*url).to_owned(), text.as_bytes().to_vec()));
    compile_with(text.as_bytes(), Format::Yaml, &library).ok().map(|compilation| compilation.workflow)
}

pub(crate) fn own(name: &str) -> Workflow {
    let text = std::fs::read_to_string(root().join("examples").join(name)).unwrap();
    compile(&text).unwrap_or_else(|| panic!("{name} does not compile"))
}

/// Draws it both ways and with every effort, twice, and answers what is wrong.
fn check(name: &str, workflow: &Workflow) -> Vec<String> {
    let graph = render::graph(workflow);
    let mut found = Vec::new();
    for direction in [Direction::LeftRight, Direction::TopBottom] {
        for effort in [Effort::Draft, Effort::Balanced, Effort::Best] {
            let options = Options { direction, effort };
            let drawing = render::layout(&graph, &options);
            let problems = geometry::problems(&drawing).into_iter();
            found.extend(problems.map(|problem| format!("{name}, {direction:?}, {effort:?}: {problem}")));
            if render::layout(&render::graph(workflow), &options) != drawing {
                found.push(format!("{name}, {direction:?}, {effort:?}: drawn differently the second time"));
            }
        }
    }
    found
}

fn yaml_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(yaml_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn assert_fine(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} problems:\n{}", wrong.len(), wrong.join("\n"));
}

fn check_files(files: &[PathBuf]) {
    let mut wrong = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy();
        match compile(&std::fs::read_to_string(file).unwrap()) {
            Some(workflow) => wrong.extend(check(&name, &workflow)),
            None => wrong.push(format!("{name} does not compile")),
        }
    }
    assert_fine(&wrong);
}

#[test]
fn published_examples_draw_well() {
    let folder = root().join("../shared/data/ows/examples");
    let files = yaml_files(&folder);
    if files.is_empty() {
        return eprintln!("SKIPPED: {} is missing, so no published example was drawn", folder.display());
    }
    assert!(files.len() >= 65, "only {} documents", files.len());
    check_files(&files);
}

#[test]
fn our_own_examples_draw_well() {
    let files = yaml_files(&root().join("examples"));
    assert!(files.len() >= 4, "only {} documents", files.len());
    check_files(&files);
}

#[test]
fn examples_of_the_documentation_draw_well() {
    let mut pages = vec![root().join("docs/language.md")];
    let further = std::fs::read_dir(root().join("docs/language")).unwrap();
    pages.extend(further.map(|entry| entry.unwrap().path()));
    pages.sort();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for (at, fence) in text.split("```yaml\n").skip(1).enumerate() {
            let body = fence.split("```").next().unwrap_or_default();
            for document in body.split("\n---\n") {
                let head = if document.contains("document:") { "" } else { HEAD };
                // Some show what is refused; those have no graph.
                let Some(workflow) = compile(&format!("{head}{document}")) else { continue };
                count += 1;
                let name = format!("{} example {at}", page.file_name().unwrap().to_string_lossy());
                wrong.extend(check(&name, &workflow));
            }
        }
    }
    assert!(count >= 150, "only {count} documents");
    assert_fine(&wrong);
}
