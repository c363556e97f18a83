//! A disk without room: writes are refused, reads work, nothing acknowledged is lost, and it goes on once there is room.

use crate::engine::{Engine, PATIENCE, POLL};
use reqwest::StatusCode;
use serde_json::{Value, json};
use std::{path::Path, process::Command};

const DEFINITION: &str = "document: { dsl: '1.0.3', namespace: test, name: rests, version: '1.0.0' }
do: [ { rest: { wait: { hours: 1 } } } ]";

/// A small file system of its own, gone when dropped.
struct SmallDisk<'a>(&'a Path);

impl SmallDisk<'_> {
    /// `None` where mounting is not allowed.
    fn mount(path: &Path) -> Option<SmallDisk<'_>> {
        SmallDisk::of(path, "16m")
    }

    fn of<'a>(path: &'a Path, size: &str) -> Option<SmallDisk<'a>> {
        let options = format!("size={size},mode=755");
        mount(&["-t", "tmpfs", "-o", &options, "tmpfs"], path).then_some(SmallDisk(path))
    }

    fn grow(&self) {
        self.grow_to("64m");
    }

    fn grow_to(&self, size: &str) {
        assert!(mount(&["-o", &format!("remount,size={size}")], self.0));
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

fn mount(args: &[&str], path: &Path) -> bool {
    let mounted = Command::new("mount").args(args).arg(path).output();
    mounted.is_ok_and(|output| output.status.success())
}

/// A text that no store can make smaller.
fn noise(length: usize) -> String {
    let mut state = std::process::id();
    let letter = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'!' + (state >> 24) as u8 % 64).to_ascii_lowercase()
    };
    (0..length).map(letter).filter(|letter| *letter != '\'').collect()
}

async fn start(engine: &Engine) -> (StatusCode, Value) {
    let definition = json!({ "namespace": "test", "name": "rests", "version": "1.0.0" });
    let body = json!({ "definition": definition, "input": noise(200_000) });
    let answer = engine.request("POST", "/instances").json(&body).send().await.unwrap();
    (answer.status(), answer.json().await.unwrap())
}

async fn readiness(engine: &Engine) -> u16 {
    reqwest::get(format!("{}/readyz", engine.url)).await.unwrap().status().as_u16()
}

/// Starts until ten in a row are refused, and gives those that were not.
///
/// One refusal is not the end: folding the log into the file makes room for a few more, and what is small,
/// such as a renewal of the lease, may still find room and make the node ready for a moment.
async fn fill(engine: &Engine) -> Vec<String> {
    let (mut acknowledged, mut refused, mut unready) = (Vec::new(), 0, 0);
    while refused < 10 {
        let (status, answer) = start(engine).await;
        if status == StatusCode::CREATED {
            acknowledged.push(answer["id"].as_str().unwrap().to_owned());
            assert!(acknowledged.len() < 1000, "the disk never filled");
            refused = 0;
            continue;
        }
        assert_eq!((status.as_u16(), &answer["code"]), (507, &json!("store-full")), "{answer}");
        refused += 1;
        unready += usize::from(readiness(engine).await == 503);
    }
    assert!(unready > 0, "a node that cannot write is not ready");
    acknowledged
}

/// The same where the tables of a database are on such a disk.
#[tokio::test]
async fn a_database_without_room_refuses_writes_and_loses_nothing() {
    if scratch::programs().is_none() {
        drop(scratch::database());
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::of(place.path(), "40m") else {
        return eprintln!(
            "SKIPPED a_database_without_room_refuses_writes_and_loses_nothing: mounting is not allowed here"
        );
    };
    let server = scratch::Server::start(scratch::Durability::Default).unwrap();
    let database = server.database_in(place.path()).unwrap();
    let home = tempfile::tempdir().unwrap();
    let args = ["up", "--port", "0", "-o", "json", "--store", &database.owner_url];
    let engine = Engine::start(home.path(), &args).await;
    engine.deploy(DEFINITION).await;
    let acknowledged = fill(&engine).await;
    let first = engine.get(&format!("/instances/{}", acknowledged[0])).await;
    assert_eq!(first["status"], "waiting", "reads work");
    disk.grow_to("400m");
    let (status, said) = start(&engine).await;
    assert_eq!(status.as_u16(), 201, "there is room: it goes on by itself: {said}");
    assert_eq!(readiness(&engine).await, 200);
    for id in &acknowledged {
        assert_eq!(engine.get(&format!("/instances/{id}")).await["status"], "waiting");
    }
    engine.terminate().await;
    // The server goes before its disk does.
    drop((database, server, disk));
}

/// The disk of the database's own log is full: PostgreSQL stops in the middle of a commit and does not come back by itself.
/// The node lives on, acknowledges nothing, and goes on once somebody has made room and started the server.
#[tokio::test]
async fn a_database_whose_log_has_no_room_stops_and_nothing_acknowledged_is_lost() {
    if scratch::programs().is_none() {
        drop(scratch::database());
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::of(place.path(), "20m") else {
        return eprintln!(
            "SKIPPED a_database_whose_log_has_no_room_stops_and_nothing_acknowledged_is_lost: mounting is not allowed here"
        );
    };
    let mut server = scratch::Server::start_with_log_in(place.path()).unwrap();
    let database = server.database().unwrap();
    let home = tempfile::tempdir().unwrap();
    let args = ["up", "--port", "0", "-o", "json", "--store", &database.owner_url];
    let engine = Engine::start(home.path(), &args).await;
    engine.deploy(DEFINITION).await;
    let (mut acknowledged, mut refused) = (Vec::new(), 0);
    while refused < 3 {
        let (status, answer) = start(&engine).await;
        if status == StatusCode::CREATED {
            acknowledged.push(answer["id"].as_str().unwrap().to_owned());
            assert!(acknowledged.len() < 1000, "the disk never filled");
            continue;
        }
        assert!([503, 504, 507].contains(&status.as_u16()), "{answer}");
        refused += 1;
    }
    assert!(!acknowledged.is_empty());
    let log = std::fs::read_to_string(server.log().unwrap()).unwrap();
    assert!(log.contains("PANIC") && log.contains("No space left on device"), "{log}");
    assert_eq!(readiness(&engine).await, 503);
    let alive = reqwest::get(format!("{}/healthz", engine.url)).await.unwrap();
    assert_eq!(alive.status().as_u16(), 200, "a database that is gone is no reason to end");
    disk.grow_to("400m");
    server.start_over().unwrap();
    let goes_on = async {
        let mut pace = tokio::time::interval(POLL);
        while start(&engine).await.0 != StatusCode::CREATED || readiness(&engine).await != 200 {
            pace.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, goes_on).await.expect("it goes on by itself");
    for id in &acknowledged {
        assert_eq!(engine.get(&format!("/instances/{id}")).await["status"], "waiting");
    }
    engine.terminate().await;
    drop((database, server, disk));
}

#[tokio::test]
async fn a_full_disk_refuses_writes_and_loses_nothing() {
    let home = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(home.path()) else {
        return eprintln!(
            "SKIPPED a_full_disk_refuses_writes_and_loses_nothing: mounting is not allowed here"
        );
    };
    let engine = Engine::up(home.path()).await;
    let deployed = engine.request("POST", "/definitions").header("content-type", "application/yaml");
    assert_eq!(deployed.body(DEFINITION).send().await.unwrap().status(), 201);
    let acknowledged = fill(&engine).await;
    assert_eq!(
        engine.get(&format!("/instances/{}", acknowledged[0])).await["status"],
        "waiting",
        "reads work"
    );
    disk.grow();
    assert_eq!(start(&engine).await.0.as_u16(), 201, "there is room: it goes on by itself");
    assert_eq!(readiness(&engine).await, 200);
    for id in &acknowledged {
        assert_eq!(engine.get(&format!("/instances/{id}")).await["status"], "waiting");
    }
    engine.terminate().await;
}
