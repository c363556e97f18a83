//! `def fmt`, `def diff`, `def preflight` and `instance migrate` as people use them.

use crate::engine::{Engine, binary, said};
use serde_json::json;

const OLD: &str = "# kept
document: {dsl: 1.0.3, namespace: test, name: flow, version: 1.0.0}
do:
- hear:   # behind
    listen: { to: { one: { with: { type: go } } } }
- done: { set: { version: old } }
";

#[tokio::test]
async fn documents_are_formatted_in_place() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("flow.yaml");
    std::fs::write(&file, OLD).unwrap();
    let run = async |args: &[&str]| {
        let mut command = binary(home.path());
        command.args(args);
        said(command).await
    };
    let check = run(&["def", "fmt", "--check", "flow.yaml"]).await;
    assert_eq!((check.code, check.stdout.as_str()), (Some(1), "flow.yaml\twould change\n"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), OLD);
    run(&["def", "fmt", "flow.yaml"]).await.ok();
    let expected = "# kept
document: { dsl: 1.0.3, namespace: test, name: flow, version: 1.0.0 }
do:
  - hear: # behind
      listen: { to: { one: { with: { type: go } } } }
  - done: { set: { version: old } }
";
    assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
    assert_eq!(run(&["def", "fmt", "--check", "flow.yaml"]).await.ok(), "");
    std::fs::write(&file, "a: [1\n").unwrap();
    let broken = run(&["def", "fmt", "flow.yaml"]).await;
    assert_eq!(broken.code, Some(1));
    assert!(broken.stderr.contains("flow.yaml:2:1"), "{}", broken.stderr);
}

#[tokio::test]
async fn an_instance_is_moved_from_the_command_line() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    engine.deploy(OLD).await;
    let id = engine.start_instance("flow", json!({})).await;
    let new = OLD
        .replace("1.0.0", "1.1.0")
        .replace("version: old", "version: new")
        .replace("- hear", "- zero: { set: { z: 1 } }\n- hear");
    std::fs::write(home.path().join("new.yaml"), &new).unwrap();
    let diff = engine.cli(&["def", "diff", "test/flow@1.0.0", "new.yaml"]).await.ok();
    assert!(diff.contains("added\t/do/0/zero\tset\n"), "{diff}");
    assert!(diff.contains("\tset.version\told -> new\n"), "{diff}");
    let preflight = engine.cli(&["def", "preflight", "new.yaml"]).await.ok();
    assert!(preflight.contains("safe\t1\n"), "{preflight}");
    engine.deploy(&new).await;
    let decompiled = engine.cli(&["def", "show", "test/flow@1.1.0", "--decompiled"]).await.ok();
    assert!(decompiled.contains("- zero:\n      set:\n        z: 1\n"), "{decompiled}");
    let dry = engine.cli(&["instance", "migrate", &id, "--to", "1.1.0", "--dry-run"]).await.ok();
    assert_eq!(dry, "dry run\tfits 1.1.0\n");
    let many = ["instance", "migrate", "--definition", "test/flow", "--to", "1.1.0", "--dry-run"];
    assert_eq!(engine.cli(&many).await.ok(), "would migrate\t1\nrefused\t0\n");
    let shown = engine.cli(&["instance", "show", &id, "-o", "json"]).await.json();
    assert_eq!(shown["definition"]["version"], "1.0.0", "a dry run changes nothing");
    engine.cli(&["instance", "migrate", &id, "--to", "1.1.0"]).await.ok();
    engine.cli(&["instance", "signal", &id, "go"]).await.ok();
    assert_eq!(engine.result(&id).await["output"], json!({"version": "new"}));
    let none = engine
        .cli(&["instance", "migrate", "--definition", "test/flow", "--to", "1.1.0", "-o", "json"])
        .await
        .json();
    assert_eq!(none["migrated"], 0);
}
