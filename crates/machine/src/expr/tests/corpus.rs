//! Every expression of the public example documents compiles and is bounded.

use super::compile;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Outside the repository: the specification's examples, kept beside it.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/ows/examples")
}

/// `${ ... }` texts and the bare expressions of fields that take them.
fn expressions(document: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in document.lines() {
        if let Some((_, rest)) = line.split_once("${") {
            if let Some((inside, _)) = rest.rsplit_once('}') {
                found.insert(inside.trim().to_owned());
            }
            continue;
        }
        for field in ["if: ", "when: ", "while: ", "in: ", "from: "] {
            if let Some(bare) = line.trim_start_matches([' ', '-']).strip_prefix(field) {
                found.insert(bare.trim().trim_matches('\'').to_owned());
            }
        }
    }
    found
}

#[test]
fn the_example_documents_compile() {
    let Ok(files) = std::fs::read_dir(folder()) else {
        println!("SKIPPED: no example documents at {}", folder().display());
        return;
    };
    let mut all = BTreeSet::new();
    for file in files {
        let path = file.expect("the folder is readable").path();
        all.extend(expressions(&std::fs::read_to_string(path).expect("the example is text")));
    }
    assert!(all.len() > 30, "found only {}", all.len());
    let locals = ["pet", "message", "event", "error", "reading"].map(str::to_owned);
    for source in all {
        match super::Compiled::new(&source, &locals) {
            Ok(compiled) => assert!(compiled.bounded, "{source}"),
            Err(error) => panic!("{source}: {error}"),
        }
    }
    assert!(compile(".").is_ok());
}
