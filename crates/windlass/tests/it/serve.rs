//! `windlass serve`: configuration, the first key, the first tenant.

use crate::engine::{Engine, Said, binary, said};
use std::path::Path;

async fn run(home: &Path, env: &[(&str, &str)], args: &[&str]) -> Said {
    let mut command = binary(home);
    command.args(args).envs(env.iter().copied());
    said(command).await
}

#[tokio::test]
async fn the_first_key_makes_tenants_and_is_shown_once() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(
        home.path().join("windlass.toml"),
        "[server]\nlisten = '127.0.0.1:0'\n[store]\ndata = 'data'\n",
    )
    .unwrap();
    let args = ["serve", "--config", "windlass.toml", "-o", "json"];
    let mut engine = Engine::start(home.path(), &args).await;
    engine.key = engine.line["platform_key"].as_str().expect("a platform key").to_owned();
    engine.cli(&["tenant", "create", "acme", "--title", "Acme"]).await.ok();
    assert_eq!(engine.cli(&["tenant", "create", "acme"]).await.code, Some(5));
    let made = engine
        .cli(&["key", "create", "--tenant", "acme", "--name", "admin", "--role", "admin", "-o", "json"])
        .await;
    let secret = made.json()["secret"].as_str().unwrap().to_owned();
    let platform = std::mem::replace(&mut engine.key, secret);
    assert_eq!(engine.cli(&["def", "list"]).await.ok(), "", "no demo things");
    assert_eq!(engine.cli(&["tenant", "list"]).await.code, Some(4));
    engine.key = platform;
    assert_eq!(engine.cli(&["tenant", "list", "-o", "id"]).await.ok(), "acme\nplatform\n");
    let (status, _) = engine.terminate().await;
    assert_eq!(status.code(), Some(0));

    let engine = Engine::start(home.path(), &args).await;
    assert!(engine.line["platform_key"].is_null(), "shown once");
    engine.terminate().await;
    let engine = Engine::start(home.path(), &[&args[..], &["--new-platform-key"]].concat()).await;
    assert!(engine.line["platform_key"].is_string(), "a lost key can be replaced by whoever has the data");
}

#[tokio::test]
async fn the_effective_configuration_is_shown() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("windlass.toml"), "[runtime]\nmax_poison_retries = 2\n").unwrap();
    let env = [("WINDLASS_RUNTIME_MAX_CONCURRENT_HANDLERS", "17"), ("WINDLASS_CONFIG", "windlass.toml")];
    let printed = run(home.path(), &env, &["serve", "--print-config"]).await.ok();
    let lines = [
        "max_poison_retries = 2",
        "max_concurrent_handlers = 17",
        "dequeue_wait_seconds = 30",
        "dead_letter_policy = \"keep\"",
    ];
    for line in lines {
        assert!(printed.lines().any(|printed| printed == line), "{line} is not in:\n{printed}");
    }
    let json = run(home.path(), &env, &["serve", "--print-config", "-o", "json"]).await.json();
    assert_eq!(json["runtime"]["max_concurrent_handlers"], 17);
    // What is printed is itself a configuration.
    std::fs::write(home.path().join("again.toml"), &printed).unwrap();
    let again = run(home.path(), &[], &["serve", "--config", "again.toml", "--print-config"]).await.ok();
    assert_eq!(again, printed);
}

#[tokio::test]
async fn a_wrong_configuration_is_refused_by_name() {
    let home = tempfile::tempdir().unwrap();
    let cases = [
        ("[runtime]\nmax_poison_retires = 2\n", "max_poison_retires"),
        ("[runtime]\nmax_concurrent_handlers = 0\n", "runtime.max_concurrent_handlers is 0"),
        ("[store]\ndata = '<your folder>'\n", "store.data still holds a placeholder"),
    ];
    for (text, expected) in cases {
        std::fs::write(home.path().join("windlass.toml"), text).unwrap();
        let said = run(home.path(), &[], &["serve", "--config", "windlass.toml"]).await;
        assert_eq!(said.code, Some(2), "{}", said.stderr);
        assert!(said.stderr.contains(expected), "{}", said.stderr);
    }
    let said = run(home.path(), &[], &["serve", "--config", "absent.toml"]).await;
    assert_eq!(said.code, Some(2), "{}", said.stderr);
}
