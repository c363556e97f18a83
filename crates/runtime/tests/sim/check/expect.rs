//! What each definition has to give, computed here and compared with what is stored.

use super::{Failures, Story};
use serde_json::{Value, json};

pub(super) fn check(story: &Story<'_>, failures: &mut Failures) {
    let row = &story.view.row;
    let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    let input = read(&row.input);
    let output = row.output.as_deref().map(read).unwrap_or_default();
    if !is_right(story, &input, &output) {
        failures.push(format!("{} {} of {input} gave {output}", story.shown, row.name));
    }
}

fn is_right(story: &Story<'_>, input: &Value, output: &Value) -> bool {
    let client = &input["client"];
    match story.definition.name {
        "steps" => *output == json!(client.as_i64().unwrap_or(0) + 1),
        "signals" => {
            let mut used = output.as_array().cloned().unwrap_or_default();
            used.sort_by_key(Value::as_i64);
            used == [json!(0), json!(1), json!(2)]
        }
        "fork" => *output == json!(["a", [0], { "client": client }, answer(story)]),
        "limits" => output == "limits",
        "loop" => *output == json!({ "sum": 6 }),
        "race" => raced(story, output),
        "raise" => *output == json!({ "status": 418, "detail": format!("client {client}") }),
        "sums" => *output == json!({ "n": 10, "m": 40, "status": 400 }),
        "patient" => match output == "ok" {
            true => failed(story, "/c") < 3 || succeeded(story, "/c"),
            false => *output == json!({ "fell": true }) && failed(story, "/c") >= 3,
        },
        "approval" => approved(story, output),
        "bounded" => match timed_out(story, "/slow") {
            true => *output == json!({ "late": true }),
            false => output == "done",
        },
        "nest" => *output == json!(client.as_i64().unwrap_or(0) + 1),
        "keep" => output == client,
        "many" => *output == json!({ "n": 7, "results": [0, 10, 20, 30, 40, 50, 60] }),
        "leaf" => *output == input["n"],
        "item" => *output == json!(input["n"].as_i64().unwrap_or(-1) * 10),
        "saga" => {
            *output == json!({ "fell": true }) || *output == json!({ "a": "a", "b": "b", "c": "c", "d": "d" })
        }
        "trip" => *output == json!([{ "a": "a", "b": "b", "c": "c", "d": "d" }, "e"]),
        "rival" => output == "waited" || *output == json!({ "a": "a", "b": "b", "c": "c" }),
        "long" => *output == json!(1009),
        _ => false,
    }
}

/// What the person said whose answer counts.
fn answer(story: &Story<'_>) -> Value {
    let done = story.tasks.iter().find(|task| task.status == "completed");
    let result = done.and_then(|task| task.result.as_deref());
    result.and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default()
}

fn timed_out(story: &Story<'_>, step: &str) -> bool {
    let mut faulted = story.lines_of("step.faulted");
    faulted.any(|line| {
        let error = &line.detail["error"];
        error["status"] == 408 && error["instance"].as_str().is_some_and(|at| at.ends_with(step))
    })
}

/// Attempts at a step that failed for good, and whether any did not.
fn failed(story: &Story<'_>, step: &str) -> usize {
    let attempts = story
        .seen
        .attempts
        .iter()
        .filter(|((instance, at), _)| *instance == story.shown && at.ends_with(step));
    attempts.flat_map(|(_, attempts)| attempts).filter(|attempt| attempt.failed).count()
}

fn succeeded(story: &Story<'_>, step: &str) -> bool {
    let attempts = story
        .seen
        .attempts
        .iter()
        .filter(|((instance, at), _)| *instance == story.shown && at.ends_with(step));
    attempts.flat_map(|(_, attempts)| attempts).any(|attempt| !attempt.failed)
}

/// The output is that of the branch which ended first, and only one did.
fn raced(story: &Story<'_>, output: &Value) -> bool {
    let ended: Vec<&str> = story
        .lines_of("step.completed")
        .filter_map(|line| line.step.rsplit('/').next())
        .filter(|name| *name != "all")
        .collect();
    match ended.as_slice() {
        ["quick"] => output == "called",
        ["slow"] => output == "waited",
        ["heard"] => *output == json!(0),
        _ => false,
    }
}

/// Either the person was in time and the answer is theirs, or the call of the escalation is.
fn approved(story: &Story<'_>, output: &Value) -> bool {
    let answered = story.tasks.iter().any(|task| task.status == "completed");
    match timed_out(story, "/decide") {
        true => output == "escalated" && !answered,
        false => *output == answer(story) && answered,
    }
}
