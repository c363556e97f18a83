//! Two versions in one picture.

use super::{corpus, geometry};
use render::{Change, Options, diff, layout};

const HEAD: &str = "document: { dsl: '1.0.3', namespace: a, name: b, version: '1.0.0' }\n";

fn compile(list: &str) -> machine::ir::Workflow {
    corpus::compile(&format!("{HEAD}do:\n{list}")).unwrap()
}

#[test]
fn what_was_added_removed_and_changed_is_marked() {
    let old = compile(
        "  - a: { set: { n: 1 } }\n  - gone: { wait: { seconds: 1 } }\n  - c: { do: [ { d: { set: { n: 2 } } } ] }\n",
    );
    let new = compile(
        "  - first: { set: { x: 1 } }\n  - a: { set: { n: 7 } }\n  - c: { do: [ { d: { set: { n: 2 } } } ] }\n",
    );
    let found = diff(&old, &new);
    let change = |id: &str| found.overlay.marks.get(id).and_then(|mark| mark.change);
    assert_eq!(change("/do/0/first"), Some(Change::Added));
    assert_eq!(change("/do/1/a"), Some(Change::Changed));
    assert_eq!(change("removed:/do/1/gone"), Some(Change::Removed));
    assert_eq!(change("/do/2/c"), None);
    assert_eq!(change("/do/2/c/do/0/d"), None);
    let edge = |from: &str, to: &str| found.overlay.edges.get(&(from.to_owned(), to.to_owned())).copied();
    assert_eq!(edge("#start", "/do/0/first"), Some(Change::Added));
    assert_eq!(edge("#start", "/do/1/a"), Some(Change::Removed));
    assert_eq!(edge("/do/1/a", "removed:/do/1/gone"), Some(Change::Removed));
    assert_eq!(edge("/do/1/a", "/do/2/c"), Some(Change::Added));
    let drawing = layout(&found.graph, &Options::default());
    assert_eq!(geometry::problems(&drawing), Vec::<String>::new());
}

#[test]
fn a_version_does_not_differ_from_itself() {
    for name in ["order-approval.yaml", "invoice-run.yaml", "provisioning.yaml", "shop/fulfil.yaml"] {
        let workflow = corpus::own(name);
        let found = diff(&workflow, &workflow);
        assert_eq!(found.overlay, render::Overlay::default(), "{name}");
        assert_eq!(found.graph, render::graph(&workflow), "{name}");
    }
}

#[test]
fn a_group_that_is_gone_is_put_back_whole() {
    let old = compile(
        "  - a: { set: { n: 1 } }\n  - g: { do: [ { x: { set: { n: 2 } } }, { y: { wait: PT1S } } ] }\n",
    );
    let new = compile("  - a: { set: { n: 1 } }\n");
    let found = diff(&old, &new);
    let group = found.graph.groups.iter().position(|group| group.id == "removed:/do/1/g").unwrap();
    let inside = found.graph.nodes.iter().filter(|node| node.group == Some(group)).count();
    assert_eq!(inside, 2);
    let drawing = layout(&found.graph, &Options::default());
    assert_eq!(geometry::problems(&drawing), Vec::<String>::new());
}
