//! Exit codes and what is said on stderr.

use crate::engine::{Engine, binary, said};

const BROKEN_YAML: &str = "document:\n  dsl: 1.0.3\n  name: [broken\ndo: []\n";
const BROKEN_FLOW: &str = "document:
  dsl: 1.0.3
  namespace: test
  name: broken
  version: 1.0.0
do:
  - first:
      set: { a: 1 }
      then: nowhere
";

#[tokio::test]
async fn every_exit_code() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    let tasks = engine.until("/tasks", |tasks| !tasks["items"].as_array().unwrap().is_empty()).await;
    let (task, waiting) =
        (tasks["items"][0]["id"].as_str().unwrap(), tasks["items"][0]["instance"].as_str().unwrap());
    let nobody = "ins_00000000000000000000000000000000";
    let cases: &[(&[&str], i32, &str)] = &[
        (&["version"], 0, ""),
        (&["instance", "list"], 0, ""),
        (&["instance", "frobnicate"], 2, "unrecognized subcommand"),
        (&["instance", "show", "nonsense"], 2, "invalid-id"),
        (&["instance", "start", "order-approval", "--input", "{"], 2, "--input:1:1: this is not JSON"),
        (&["instance", "start", "order-approval", "--input", "@absent.json"], 2, "cannot read absent.json"),
        (&["def", "deploy", "absent.yaml"], 2, "cannot read absent.yaml"),
        (&["instance", "show", nobody], 3, "request id: req_"),
        (&["instance", "start", "no-such-definition"], 3, "windlass def list"),
        (&["instance", "start", "examples/no-such-definition"], 3, "no-such-definition"),
        (&["task", "release", task], 5, "error:"),
        (&["task", "claim", task, "--if-version", "99"], 5, "(stale)"),
        (&["instance", "resume", waiting], 5, "error:"),
        (&["--url", "http://127.0.0.1:1", "instance", "list"], 6, "cannot connect to http://127.0.0.1:1"),
        (&["instance", "result", waiting], 124, "it is waiting"),
        (&["instance", "result", waiting, "--wait", "1s"], 124, "it is waiting"),
    ];
    for (args, code, text) in cases {
        let said = engine.cli(args).await;
        assert_eq!(said.code, Some(*code), "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains(text), "{args:?}: {}", said.stderr);
    }
    let mut command = binary(home.path());
    command.env("WINDLASS_URL", &engine.url).env("WINDLASS_KEY", "wlk_0000_0000").args(["def", "list"]);
    assert_eq!(said(command).await.code, Some(4), "an unknown key");
    let made =
        engine.cli(&["key", "create", "--name", "reader", "--role", "viewer", "-o", "json"]).await.ok();
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    let mut command = binary(home.path());
    command.env("WINDLASS_URL", &engine.url).env("WINDLASS_KEY", made["secret"].as_str().unwrap());
    command.args(["tenant", "list"]);
    let refused = said(command).await;
    assert_eq!(refused.code, Some(4), "a key that may not: {}", refused.stderr);
    assert!(refused.stderr.contains("tenants:read"), "{}", refused.stderr);
    engine.cli(&["instance", "cancel", waiting]).await.ok();
    assert_eq!(engine.cli(&["instance", "result", waiting]).await.code, Some(1), "a cancelled instance");
    assert_eq!(engine.cli(&["instance", "watch", waiting]).await.code, Some(1));
}

#[tokio::test]
async fn mistakes_are_shown_where_they_are() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    std::fs::write(home.path().join("yaml.yaml"), BROKEN_YAML).unwrap();
    std::fs::write(home.path().join("flow.yaml"), BROKEN_FLOW).unwrap();

    for verb in ["deploy", "validate"] {
        let said = engine.cli(&["def", verb, "yaml.yaml"]).await;
        assert_eq!(said.code, Some(1), "{}", said.stderr);
        assert!(said.stderr.lines().any(|line| line.starts_with("yaml.yaml:4:")), "{}", said.stderr);

        let said = engine.cli(&["def", verb, "flow.yaml"]).await;
        assert_eq!(said.code, Some(1), "{}", said.stderr);
        let found =
            said.stderr.lines().any(|line| line.starts_with("flow.yaml:9:13: ") && line.contains("nowhere"));
        assert!(found, "{}", said.stderr);
        assert_eq!(said.stdout, "");
    }
    let several = engine.cli(&["def", "deploy", "yaml.yaml", "flow.yaml"]).await;
    assert_eq!(several.code, Some(1));
    assert!(
        several.stderr.contains("yaml.yaml:4:") && several.stderr.contains("flow.yaml:9:13"),
        "{}",
        several.stderr
    );
    let listed = engine.cli(&["def", "list", "-o", "id"]).await.ok();
    assert_eq!(listed.lines().count(), 3, "nothing was stored: {listed}");

    // Scripts get the problem itself.
    let said = engine.cli(&["def", "deploy", "flow.yaml", "-o", "json"]).await;
    let problem: serde_json::Value =
        serde_json::from_str(&said.stderr).expect("the problem as JSON on stderr");
    assert_eq!(problem["code"], "definition-invalid");
}

#[tokio::test]
async fn keys_are_never_echoed() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    let secret = engine.key.rsplit('_').next().unwrap().to_owned();
    let key = engine.key.as_str();
    let commands: &[&[&str]] = &[
        &["--trace", "def", "list"],
        &["--trace", "--key", key, "tenant", "list"],
        &["--key", key, "instance", "frobnicate"],
        &["--key", key, "instance", "list", "--help"],
        &["--key", key, "--url", "http://127.0.0.1:1", "def", "list"],
    ];
    for args in commands {
        let said = engine.cli(args).await;
        assert!(
            !said.stderr.contains(&secret) && !said.stdout.contains(&secret),
            "{args:?}: {}",
            said.stderr
        );
    }
    let traced = engine.cli(&["--trace", "def", "list"]).await;
    assert!(
        traced.stderr.contains("authorization: Bearer wlk_") && traced.stderr.contains("****"),
        "{}",
        traced.stderr
    );
    let confused = engine.cli(&["instance", "start", "order-approval", "--key", "order-1"]).await;
    assert_eq!(confused.code, Some(2));
    assert!(confused.stderr.contains("--business-key"), "{}", confused.stderr);
}
