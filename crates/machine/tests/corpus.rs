//! Every published example document and every document of the conformance kit compiles, and comes back the same.
//!
//! The documents are third-party files that lie beside the workspace; without them these tests say so and pass.

// Skipping must be seen.
#![allow(clippy::print_stderr)]

use machine::language::{Compilation, Format, Library, Problem, compile, compile_with, decompile, format};
use std::path::{Path, PathBuf};

/// Documents of the corpus that are wrong by upstream's own mistake, with the code that says so.
const WRONG: &[(&str, &str)] = &[];

/// Connectors that this engine refuses, as it says so, and the examples that need them.
const CONNECTORS: &[(&str, &[&str])] = &[
    ("no connector for `call: asyncapi`", &["call-asyncapi-"]),
    ("no connector for `call: grpc`", &["call-grpc"]),
    ("does not start containers", &["run-container", "run-return-"]),
    ("does not run commands", &["run-shell-"]),
];

/// What stands at the URLs that examples name, as this machine cannot ask them.
const ELSEWHERE: &[(&str, &str)] = &[(
    "https://raw.githubusercontent.com/serverlessworkflow/catalog/main/functions/log/1.0.0/function.yaml",
    "set: { logged: '${ .message }' }",
)];

/// The connector without which the example cannot be deployed.
fn connector(name: &str) -> Option<&'static str> {
    let needs = |starts: &&[&str]| starts.iter().any(|start| name.starts_with(start));
    CONNECTORS.iter().find(|(_, starts)| needs(starts)).map(|(connector, _)| *connector)
}

/// An example can be deployed, or is refused for exactly the connector it needs.
fn refused_rightly(name: &str, unsupported: &[Problem]) -> Option<String> {
    let wrong = match connector(name) {
        Some(connector) => {
            unsupported.is_empty() || unsupported.iter().any(|problem| !problem.message.contains(connector))
        }
        None => !unsupported.is_empty(),
    };
    wrong.then(|| format!("{name} is refused for:{}", show(unsupported)))
}

fn corpus(folder: &str) -> Option<Vec<PathBuf>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/ows").join(folder);
    let Ok(entries) = std::fs::read_dir(&path) else {
        eprintln!("SKIPPED: {} is missing, so the corpus was not compiled", path.display());
        return None;
    };
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("the folder can be listed").path()).collect();
    files.sort();
    Some(files)
}

fn show(problems: &[Problem]) -> String {
    let line = |p: &Problem| format!("\n  {}:{} {} {}: {}", p.line, p.column, p.pointer, p.code, p.message);
    problems.iter().map(line).collect()
}

fn check(name: &str, text: &str) -> Option<Compilation> {
    let wrong = WRONG.iter().find(|(document, _)| *document == name);
    let mut library = Library::default();
    ELSEWHERE.iter().for_each(|(url, text)| library.insert((*url).to_owned(), text.as_bytes().to_vec()));
    match (compile_with(text.as_bytes(), Format::Yaml, &library), wrong) {
        (Ok(compilation), None) => {
            assert!(compilation.wanted.is_empty(), "{name} wants {:?}", compilation.wanted);
            let written = decompile(&compilation.workflow);
            match compile(written.as_bytes(), Format::Yaml) {
                Ok(again) => {
                    assert_eq!(again.workflow, compilation.workflow, "{name} comes back as:\n{written}")
                }
                Err(problems) => panic!("{name} comes back as:\n{written}\n{}", show(&problems)),
            }
            formats(name, text, &library, &compilation);
            Some(compilation)
        }
        (Err(problems), Some((_, code))) if problems.iter().any(|problem| problem.code == *code) => None,
        (Err(problems), _) => panic!("{name} does not compile:{}", show(&problems)),
        (Ok(_), Some(_)) => panic!("{name} compiles; remove it from the list"),
    }
}

/// Formatting keeps the meaning and every comment, and is done after the first time.
fn formats(name: &str, text: &str, library: &Library, compilation: &Compilation) {
    let formatted = format(text.as_bytes(), Format::Yaml).unwrap_or_else(|p| panic!("{name}:{}", show(&p)));
    let again = compile_with(formatted.as_bytes(), Format::Yaml, library).map(|again| again.workflow);
    assert_eq!(again.as_ref(), Ok(&compilation.workflow), "{name} is formatted as:\n{formatted}");
    assert_eq!(format(formatted.as_bytes(), Format::Yaml).as_ref(), Ok(&formatted), "{name}");
}

#[test]
fn examples_compile() {
    let Some(files) = corpus("examples") else { return };
    assert!(files.len() >= 65, "only {} documents", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let compilation = check(&name, &std::fs::read_to_string(&file).unwrap());
        if let Some(Compilation { workflow, warnings, unsupported, .. }) = compilation {
            wrong.extend(refused_rightly(&name, &unsupported));
            println!("{name}: {} steps{}{}", workflow.steps.len(), show(&warnings), show(&unsupported));
            let json = serde_json::to_vec(&workflow).unwrap();
            assert_eq!(serde_json::from_slice::<machine::ir::Workflow>(&json).unwrap(), workflow, "{name}");
            if let Err(error) = machine::Program::new(workflow) {
                panic!("{name}: {error}");
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn our_own_examples_can_be_deployed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut count = 0;
    for file in entries.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")) {
        let name = file.display().to_string();
        let compilation = check(&name, &std::fs::read_to_string(&file).unwrap()).unwrap();
        assert!(compilation.unsupported.is_empty(), "{name}:{}", show(&compilation.unsupported));
        assert!(compilation.warnings.is_empty(), "{name}:{}", show(&compilation.warnings));
        count += 1;
    }
    assert!(count >= 3, "only {count} documents");
}

#[test]
fn conformance_kit_compiles() {
    let Some(files) = corpus("ctk") else { return };
    let mut count = 0;
    for file in files {
        for document in definitions(&std::fs::read_to_string(&file).unwrap()) {
            count += 1;
            let name = format!("{} #{count}", file.file_name().unwrap().to_string_lossy());
            check(&name, &document);
        }
    }
    assert!(count >= 12, "only {count} documents");
}

/// The doc strings of a feature that follow "a workflow with definition".
fn definitions(feature: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = feature.lines();
    while let Some(line) = lines.next() {
        if !line.trim().ends_with("a workflow with definition:") {
            continue;
        }
        let fence = lines.next().unwrap_or_default();
        let indent = fence.len() - fence.trim_start().len();
        let body = lines.by_ref().take_while(|line| line.trim() != "\"\"\"");
        found.push(body.map(|line| format!("{}\n", line.get(indent..).unwrap_or_default())).collect());
    }
    found
}
