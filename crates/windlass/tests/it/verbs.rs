//! What the client verbs do beyond showing answers.

use crate::engine::{Engine, PATIENCE, binary, said};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::process::Stdio;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    time::timeout,
};

const FAILING: &str = "
document: { dsl: 1.0.3, namespace: test, name: failing, version: 1.0.0 }
do:
  - try: { call: 'broken:1.0.0@default', with: {} }
";

#[tokio::test]
async fn the_five_minutes_of_the_readme() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    let input = concat!("@", env!("CARGO_MANIFEST_DIR"), "/../../examples/order-approval.input.json");
    let id = engine
        .cli(&["instance", "start", "examples/order-approval", "--input", input, "-o", "id"])
        .await
        .ok();
    let id = id.trim();
    engine
        .until(&format!("/tasks?instance={id}"), |tasks| !tasks["items"].as_array().unwrap().is_empty())
        .await;
    let task = engine.cli(&["task", "list", "--instance", id, "-o", "id"]).await.ok();
    let task = task.trim();
    let claimed = engine.cli(&["task", "claim", task]).await;
    assert!(claimed.stderr.contains("→ complete it"), "the next step is suggested: {}", claimed.stderr);
    engine.cli(&["task", "complete", task, "--result", r#"{"approved": true}"#]).await.ok();
    let watched = engine.cli(&["instance", "watch", id]).await.ok();
    assert!(watched.contains("step.completed") && watched.ends_with("completed\n"), "{watched}");
    let result = engine.cli(&["instance", "result", id, "--wait", "30s", "-o", "json"]).await.json();
    assert_eq!(result["output"]["status"], "shipped");

    let input = concat!("@", env!("CARGO_MANIFEST_DIR"), "/../../examples/provisioning.input.json");
    let id = engine.cli(&["instance", "start", "provisioning", "--input", input, "-o", "id"]).await.ok();
    let id = id.trim();
    engine.cli(&["instance", "signal", id, "dns-ready", "--data", r#"{"address":"192.0.2.10"}"#]).await.ok();
    let result = engine.result(id).await;
    assert_eq!(
        result["output"]["dns"]["state"], "ready",
        "a signal may come before the instance listens: {result}"
    );
}

#[tokio::test]
async fn watching_ends_with_the_instances_outcome() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    engine.deploy(FAILING).await;
    let input = concat!("@", env!("CARGO_MANIFEST_DIR"), "/../../examples/invoice-run.input.json");
    let good = engine.cli(&["instance", "start", "invoice-run", "--input", input, "--watch"]).await;
    assert!(good.stderr.contains("started ins_"));
    assert!(good.ok().ends_with("completed\n"));
    let bad = engine.cli(&["instance", "start", "failing", "--watch"]).await;
    assert_eq!(bad.code, Some(1), "{}", bad.stderr);
    assert!(
        bad.stdout.ends_with("faulted\n") && bad.stderr.contains("the instance faulted"),
        "{}",
        bad.stderr
    );
}

#[tokio::test]
async fn dead_letters_are_shown_replayed_and_discarded() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    engine.deploy(FAILING).await;
    let id = engine.start_instance("failing", json!({})).await;
    assert_eq!(engine.result(&id).await["status"], "faulted");
    let letters =
        |count: usize| move |list: &serde_json::Value| list["items"].as_array().unwrap().len() == count;
    let path = format!("/dead-letters?instance={id}");
    let first = engine.until(&path, letters(1)).await["items"][0]["id"].clone();
    let first = first.as_str().unwrap();
    let shown = engine.cli(&["dlq", "show", first]).await.ok();
    assert!(shown.contains("retries-exhausted") && shown.contains("never succeeds"), "{shown}");
    let groups = engine.cli(&["error", "list", "--worker", "broken", "-o", "json"]).await.json();
    let group = groups["items"][0]["id"].as_str().unwrap().to_owned();
    let errors = engine.cli(&["error", "show", &group]).await.ok();
    assert!(errors.contains("never succeeds") && errors.contains(&id), "{errors}");
    let counted = engine.cli(&["dlq", "groups"]).await.ok();
    assert!(counted.contains(&group) && counted.contains("broken"), "{counted}");
    assert_eq!(engine.cli(&["dlq", "list", "--group", &group, "-o", "id"]).await.ok().trim(), first);
    engine.cli(&["dlq", "replay", first]).await.ok();
    assert_eq!(engine.cli(&["dlq", "replay", first]).await.code, Some(3), "only once");
    let again = |list: &serde_json::Value| {
        list["items"].as_array().unwrap().iter().any(|letter| letter["id"] != first)
    };
    let second = engine.until(&path, again).await["items"][0]["id"].clone();
    let second = second.as_str().unwrap();
    let changed = engine.cli(&["dlq", "replay", second, "--data", "1"]).await;
    assert!(
        changed.code != Some(0) && changed.stderr.contains("only what a worker was given"),
        "{}",
        changed.stderr
    );
    engine.cli(&["dlq", "discard", second, "--reason", "a test"]).await.ok();
    engine.until(&path, letters(0)).await;
    let history = engine.get(&format!("/instances/{id}/history")).await.to_string();
    assert!(history.contains("a test"), "{history}");
}

#[tokio::test]
async fn orders_change_an_instance() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    let tasks = engine.until("/tasks", |tasks| !tasks["items"].as_array().unwrap().is_empty()).await;
    let id = tasks["items"][0]["instance"].as_str().unwrap();
    for (verb, status) in [("pause", "paused"), ("resume", "waiting"), ("cancel", "cancelled")] {
        let said = engine.cli(&["instance", verb, id, "-o", "json"]).await.json();
        assert_eq!(said["status"], status, "{verb}");
    }
}

const TRIP: &str = "
document: { dsl: 1.0.3, namespace: test, name: trip, version: 1.0.0 }
use: { functions: { hold: { wait: PT1H } } }
do:
  - trip:
      call: saga:1.0.0@default
      with:
        steps:
          - { name: hotel, do: 'echo:1.0.0@default', undo: 'noop:1.0.0@default', with: { city: '${ .city }' } }
          - { name: flight, do: 'echo:1.0.0@default', undo: 'noop:1.0.0@default', with: { to: '${ $steps.hotel.city }' } }
          - { name: rest, do: hold }
";

#[tokio::test]
async fn a_saga_shows_what_a_cancel_would_undo_and_then_undoes_it() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    engine.deploy(TRIP).await;
    let id = engine.start_instance("trip", json!({ "city": "Oslo" })).await;
    engine.until(&format!("/instances/{id}"), |instance| instance["status"] == "waiting").await;
    let undos = engine.cli(&["instance", "compensation", &id, "-o", "json"]).await.json();
    let place = "/do/0/trip";
    let undo = |name: &str, position: usize, input: serde_json::Value| {
        json!({ "saga": place, "name": name, "step": format!("{place}/with/steps/{position}/undo"),
            "input": input, "output": input, "interrupted": false, "undoing": false })
    };
    let wanted = [undo("flight", 1, json!({ "to": "Oslo" })), undo("hotel", 0, json!({ "city": "Oslo" }))];
    assert_eq!(undos["items"], json!(wanted));
    let shown = engine.cli(&["instance", "compensation", &id]).await.ok();
    assert!(shown.find("flight").unwrap() < shown.find("hotel").unwrap(), "{shown}");
    let said = engine.cli(&["instance", "cancel", &id, "-o", "json"]).await.json();
    assert_eq!(said["status"], "cancelling");
    assert_eq!(engine.result(&id).await["status"], "cancelled");
    let left = engine.get(&format!("/instances/{id}/compensation")).await;
    assert_eq!(left["items"], json!([]));
    let listed = engine.get("/instances?status=cancelling").await;
    assert_eq!(listed["items"], json!([]), "the word filters lists too");
}

#[tokio::test]
async fn an_interrupt_has_its_own_exit_code() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    let tasks = engine.until("/tasks", |tasks| !tasks["items"].as_array().unwrap().is_empty()).await;
    let id = tasks["items"][0]["instance"].as_str().unwrap();
    let mut command = binary(home.path());
    command.env("WINDLASS_URL", &engine.url).env("WINDLASS_KEY", &engine.key);
    let mut watching = command.args(["instance", "watch", id]).stdout(Stdio::piped()).spawn().unwrap();
    // Its first line says that it has begun to watch.
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    timeout(PATIENCE, lines.next_line()).await.expect("a line in time").unwrap();
    let pid = Pid::from_raw(watching.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let status = timeout(PATIENCE, watching.wait()).await.expect("ends in time").unwrap();
    assert_eq!(status.code(), Some(130));
}

#[tokio::test]
async fn completion_and_help_need_no_engine() {
    let home = tempfile::tempdir().unwrap();
    let run = async |args: &[&str]| {
        let mut command = binary(home.path());
        command.args(args);
        said(command).await
    };
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completion", shell]).await.ok();
        assert!(script.contains("windlass") && script.contains("replay"), "{shell}");
        assert!(!script.contains("sandbox-evaluator"), "{shell} offers the hidden command");
    }
    let help = run(&["instance", "start", "--help"]).await.ok();
    assert!(help.contains("Examples:") && help.contains("--watch"), "{help}");
    assert!(run(&["--help"]).await.ok().contains("124 wait timed out"));
    assert_eq!(run(&["version"]).await.ok().trim(), concat!("windlass ", env!("CARGO_PKG_VERSION")));
    let said = run(&["version", "-o", "json"]).await.ok();
    assert_eq!(said.trim(), concat!("{\"version\":\"", env!("CARGO_PKG_VERSION"), "\"}"));
    assert_eq!(run(&[]).await.code, Some(2));
}

#[tokio::test]
async fn a_reader_that_goes_away_ends_the_command_quietly() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    let mut command = tokio::process::Command::new("sh");
    let pipe = format!("{} instance list --all -o jsonl | true", env!("CARGO_BIN_EXE_windlass"));
    command.args(["-c", &pipe]).env("WINDLASS_URL", &engine.url).env("WINDLASS_KEY", &engine.key);
    let said = said(command).await;
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn the_beginning_of_an_id_will_do() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    let ids = engine.cli(&["instance", "list", "-o", "id"]).await.ok();
    let id = ids.lines().next().unwrap();
    let begun = &id[..id.len() - 1];
    assert_eq!(engine.cli(&["instance", "show", begun, "-o", "id"]).await.ok().trim(), id);
    assert_eq!(
        engine.cli(&["instance", "pause", &begun[4..]]).await.code,
        Some(0),
        "the mark may be left out"
    );
    let several = engine.cli(&["instance", "show", "ins_0"]).await;
    assert_eq!(several.code, Some(2));
    assert!(several.stderr.contains("several ids begin with ins_0: ins_"), "{}", several.stderr);
    let none = engine.cli(&["instance", "show", "ins_ffff"]).await;
    assert_eq!(none.code, Some(3));
    assert!(none.stderr.contains("no id here begins with ins_ffff"), "{}", none.stderr);
    let task = engine.until("/tasks", |tasks| !tasks["items"].as_array().unwrap().is_empty()).await;
    let task = task["items"][0]["id"].as_str().unwrap();
    assert_eq!(engine.cli(&["task", "show", &task[..20], "-o", "id"]).await.ok().trim(), task);
    let refused = engine.request("GET", "/instances?id=ins_").send().await.unwrap();
    assert_eq!(refused.status(), 400);
}

#[tokio::test]
async fn events_are_followed_in_the_order_of_their_commits() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    for (kind, id) in [("paid", "p-1"), ("sent", "s-1"), ("paid", "p-2")] {
        engine.cli(&["event", "publish", kind, "--id", id, "--source", "shop"]).await.ok();
    }
    let lines = async |args: &[&str]| -> Vec<serde_json::Value> {
        let all = [&["event", "tail", "--no-follow", "-o", "jsonl"], args].concat();
        let said = engine.cli(&all).await.ok();
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let ids = |items: &[serde_json::Value]| -> Vec<String> {
        items.iter().map(|item| item["event_id"].as_str().unwrap().to_owned()).collect()
    };
    let all = lines(&[]).await;
    assert_eq!(ids(&all), ["p-1", "s-1", "p-2"]);
    let cursor = all[0]["cursor"].as_str().unwrap();
    assert_eq!(ids(&lines(&["--after", cursor]).await), ["s-1", "p-2"]);
    assert_eq!(ids(&lines(&["--after", cursor, "--type", "paid"]).await), ["p-2"]);
    let wrong = engine.cli(&["event", "tail", "--after", "00"]).await;
    assert!(wrong.code == Some(2) || wrong.code == Some(1), "{:?}", wrong.code);
    assert!(wrong.stderr.contains("invalid-cursor"), "{}", wrong.stderr);
    // It goes on when there is something to go on with.
    let mut command = binary(home.path());
    command.env("WINDLASS_URL", &engine.url).env("WINDLASS_KEY", &engine.key);
    let last = all[2]["cursor"].as_str().unwrap();
    let following = command.args(["event", "tail", "--after", last]).stdout(Stdio::piped());
    let mut following = following.spawn().unwrap();
    let mut printed = BufReader::new(following.stdout.take().unwrap()).lines();
    engine.cli(&["event", "publish", "late", "--id", "l-1", "--source", "shop"]).await.ok();
    let line = timeout(PATIENCE, printed.next_line()).await.expect("a line in time").unwrap().unwrap();
    assert!(line.contains("late") && line.ends_with("shop/l-1"), "{line}");
    following.kill().await.unwrap();
}

#[tokio::test]
async fn the_schema_of_a_type_of_events_is_set_shown_and_held_to() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    let schema = r#"{"type": "object", "required": ["order"]}"#;
    engine.cli(&["event", "type", "set", "order.paid", "--schema", schema]).await.ok();
    let publish = |data: &'static str| ["event", "publish", "order.paid", "--data", data];
    let refused = engine.cli(&publish("{}")).await;
    assert!(refused.stderr.contains("/0/data: lacks order"), "{}", refused.stderr);
    engine.cli(&publish(r#"{"order": "o-1"}"#)).await.ok();
    let shown = engine.cli(&["event", "type", "show", "order.paid", "-o", "json"]).await.json();
    assert_eq!(shown["schema"]["required"], json!(["order"]));
    assert!(engine.cli(&["event", "type", "list"]).await.ok().contains("order.paid"));
    engine.cli(&["event", "type", "delete", "order.paid"]).await.ok();
    engine.cli(&publish("{}")).await.ok();
}

#[tokio::test]
async fn events_are_published_line_by_line_and_shown_by_their_name() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    let line = |id: usize| {
        json!({ "specversion": "1.0", "id": format!("l-{id}"), "source": "lines", "type": "line.read" })
            .to_string()
    };
    let mut lines: Vec<String> = (1..=1200).map(line).collect();
    let file = home.path().join("events.ndjson");
    std::fs::write(&file, lines.join("\n")).unwrap();
    let file = file.to_str().unwrap();
    let all = engine.cli(&["event", "publish", "--lines", file, "-o", "id"]).await.ok();
    assert_eq!(all.lines().count(), 1200);
    // A second time nothing new is there, and what is refused is named by its line.
    lines[700] = "{}".to_owned();
    std::fs::write(file, lines.join("\n")).unwrap();
    let again = engine.cli(&["event", "publish", "--lines", file, "-o", "json"]).await;
    assert!(again.code != Some(0) && again.stderr.contains("line 701: invalid-event"), "{}", again.stderr);
    let said: serde_json::Value = serde_json::from_str(again.stdout.trim()).unwrap();
    assert_eq!(
        (&said["accepted"], &said["refused"], &said["lines"][0]["line"]),
        (&json!(1199), &json!(1), &json!(701))
    );
    let shown = engine.cli(&["event", "show", "l-7", "--source", "lines"]).await.ok();
    assert!(shown.contains("no worker wants this type"), "{shown}");
}
