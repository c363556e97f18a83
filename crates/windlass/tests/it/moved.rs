//! F19: the clock of the database is moved under two nodes. Timers come early or late by that, and once; it is logged; and
//! whoever waits for a time looks again as soon as a node knows.

use crate::{
    engine::{Engine, PATIENCE, POLL},
    nodes::Cluster,
};
use serde_json::{Value, json};
use tokio::time::timeout;

const TEN_MINUTES: i64 = 600;
const INSTANCES: usize = 20;
/// No test takes so long: who completes has been told of a time that has come by the database's clock only.
const DOCUMENT: &str = "
document: { dsl: 1.0.3, namespace: test, name: rests, version: 1.0.0 }
do:
  - rest: { wait: { minutes: 9 } }
  - last: { set: { n: '${ $workflow.input.n }' } }
";

/// Starts as many as there are, on both nodes in turn, each until it is taken: a node that was taken over comes back.
async fn start(cluster: &Cluster) -> Vec<String> {
    let starting = async {
        let mut ids = Vec::new();
        let mut pace = tokio::time::interval(POLL);
        for node in cluster.nodes.iter().cycle() {
            if ids.len() == INSTANCES {
                break;
            }
            match begin(node, ids.len()).await {
                Some(id) => ids.push(id),
                None => drop(pace.tick().await),
            }
        }
        ids
    };
    timeout(PATIENCE, starting).await.expect("nodes take starts")
}

async fn begin(node: &Engine, n: usize) -> Option<String> {
    let body = json!({ "definition": { "namespace": "test", "name": "rests" }, "input": { "n": n } });
    let answer = node.request("POST", "/instances").json(&body).send().await.unwrap();
    let answer: Value = if answer.status() == 201 { answer.json().await.unwrap() } else { return None };
    Some(answer["id"].as_str().unwrap().to_owned())
}

/// Waits until both nodes have logged that the clock was moved forward, or back. From then on they go by it.
async fn logged(cluster: &Cluster, back: bool) {
    let is_said = |line: &str| {
        line.contains("the clock of the database was moved") && line.contains("seconds=-") == back
    };
    let looking = async {
        let mut pace = tokio::time::interval(POLL);
        while !cluster.logs().iter().all(|log| log.lines().any(is_said)) {
            pace.tick().await;
        }
    };
    timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("{:?}", cluster.logs()));
}

/// What a node answers, as soon as it does: when leases have ended with the time that was left out, it joins anew.
async fn ask(node: &Engine, path: &str) -> Value {
    let asking = async {
        let mut pace = tokio::time::interval(POLL);
        loop {
            pace.tick().await;
            let answer = node.request("GET", path).send().await.unwrap();
            if answer.status() == 200 {
                return answer.json().await.unwrap();
            }
            assert_eq!(answer.status(), 503, "{path}");
        }
    };
    timeout(PATIENCE, asking).await.expect("nodes answer")
}

/// Waits until none of these waits any more, by the database, and looks that each went on once.
async fn complete(cluster: &Cluster, ids: &[String]) {
    let sql = "SELECT count(*) FROM wf_instances WHERE name = 'rests' AND status = 'waiting'";
    let looking = async {
        let mut pace = tokio::time::interval(POLL);
        while cluster.database.ask(sql).unwrap() != "0" {
            pace.tick().await;
        }
    };
    timeout(PATIENCE, looking).await.expect("timers that are due fire");
    for (n, id) in ids.iter().enumerate() {
        let ended = ask(&cluster.nodes[0], &format!("/instances/{id}")).await;
        assert_eq!((&ended["status"], &ended["output"]), (&json!("completed"), &json!({ "n": n })), "{id}");
        let history = ask(&cluster.nodes[0], &format!("/instances/{id}/history?limit=200")).await;
        let steps = history["items"].as_array().unwrap().iter();
        let steps: Vec<&Value> =
            steps.filter(|item| item["kind"] == "step.completed").map(|item| &item["step"]).collect();
        assert_eq!(steps.len(), 2, "{id}: each step once: {steps:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stderr, reason = "skipping must be seen")]
async fn when_the_clock_of_the_database_is_moved_timers_come_early_or_late_and_once() {
    let (Some(library), Some(_)) = (scratch::faketime(), scratch::programs()) else {
        return eprintln!(
            "SKIPPED: libfaketime or PostgreSQL is not installed; `cargo xtask test` installs it"
        );
    };
    let mut server = scratch::Server::start_with_clock(&library).unwrap();
    let cluster = Cluster::over(server.database().unwrap(), None).await;
    cluster.nodes[0].deploy(DOCUMENT).await;
    let early = start(&cluster).await;
    server.move_clock(TEN_MINUTES).unwrap();
    logged(&cluster, false).await;
    complete(&cluster, &early).await;
    // What begins now is due in 9 minutes by a clock that is then put back by 10.
    let late = start(&cluster).await;
    server.move_clock(0).unwrap();
    logged(&cluster, true).await;
    // Whatever begins after that goes by the clock as it is now: nobody waits for the time that was.
    let ids = cluster.start().await;
    cluster.check(&ids).await;
    let waiting = cluster.database.ask("SELECT count(*) FROM wf_instances WHERE status = 'waiting'").unwrap();
    assert_eq!(waiting, INSTANCES.to_string(), "late by as much as the clock was put back");
    server.move_clock(2 * TEN_MINUTES).unwrap();
    complete(&cluster, &late).await;
}
