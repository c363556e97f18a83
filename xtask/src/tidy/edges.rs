//! Crates depend on each other only one way, by the table of ARCHITECTURE.md.
//!
//! A new crate or a new edge is a line here and a decision record.

use super::{Finding, Tree};

/// A crate, what it may depend on, and what its tests may depend on besides.
struct Allowed {
    name: &'static str,
    normal: &'static [&'static str],
    dev: &'static [&'static str],
}

const TABLE: &[Allowed] = &[
    Allowed { name: "machine", normal: &[], dev: &[] },
    Allowed { name: "render", normal: &["machine"], dev: &[] },
    Allowed { name: "store", normal: &["machine"], dev: &["scratch"] },
    // The store only for the port of hints, which the adapter over NOTIFY shares.
    Allowed { name: "bus", normal: &["machine", "store"], dev: &["scratch"] },
    Allowed { name: "worker", normal: &["machine"], dev: &[] },
    Allowed { name: "runtime", normal: &["machine", "store", "bus", "worker"], dev: &["scratch", "trial"] },
    // Tests of the server start a runtime with workers of their own, on either store.
    Allowed { name: "server", normal: &["machine", "render", "store", "runtime"], dev: &["worker", "trial"] },
    Allowed {
        name: "windlass",
        normal: &["machine", "store", "bus", "worker", "runtime", "server"],
        dev: &["scratch", "trial"],
    },
    // The conformance suite of workers and what tests of nodes are made with: no part of the product.
    Allowed { name: "trial", normal: &["machine", "store", "worker", "runtime", "scratch"], dev: &[] },
    // Servers for tests: no part of the product.
    Allowed { name: "scratch", normal: &[], dev: &[] },
    // A black box knows the product by its binary and its API alone.
    Allowed { name: "chaos", normal: &["scratch"], dev: &[] },
    Allowed { name: "xtask", normal: &["scratch"], dev: &[] },
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in &tree.members {
        let manifest = manifest(&member.name);
        let Some(allowed) = TABLE.iter().find(|allowed| allowed.name == member.name) else {
            let message =
                format!("crate {} has no line in the table of xtask/src/tidy/edges.rs", member.name);
            findings.push(Finding::new(&manifest, 0, &member.name, message));
            continue;
        };
        for dependency in &member.dependencies {
            let ours = tree.members.iter().any(|other| other.name == dependency.name);
            let fine = allowed.normal.contains(&dependency.name.as_str())
                || (dependency.dev && allowed.dev.contains(&dependency.name.as_str()));
            if ours && !fine {
                let message = format!("{} must not depend on {}", member.name, dependency.name);
                findings.push(Finding::new(&manifest, 0, &dependency.name, message));
            }
        }
    }
    findings
}

/// Where a crate's manifest lies.
pub(crate) fn manifest(name: &str) -> String {
    if name == "xtask" { "xtask/Cargo.toml".into() } else { format!("crates/{name}/Cargo.toml") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(tree: &Tree) -> Vec<String> {
        check(tree).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn only_listed_edges() {
        let tree = Tree::default()
            .with_member("machine", &["serde"])
            .with_member("store", &["machine", "worker"])
            .with_member("worker", &["machine", "dev:runtime"])
            .with_member("runtime", &["machine", "store", "worker"])
            .with_member("server", &["runtime", "dev:worker"]);
        assert_eq!(messages(&tree), ["store must not depend on worker", "worker must not depend on runtime"]);
    }

    #[test]
    fn a_new_crate_needs_a_line() {
        let messages = messages(&Tree::default().with_member("utils", &[]));
        assert!(messages[0].contains("crate utils has no line"));
    }
}
