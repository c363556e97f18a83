//! Workers in Rust that are somewhere else, against the real server: attempts, classes, heartbeats, batches, a delivery that
//! somebody else has ended, and a graceful end.

use crate::engine::{Engine, PATIENCE, POLL};
use machine::{Data, time::Span};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::{
    sync::{Semaphore, oneshot},
    task::JoinHandle,
    time::timeout,
};
use worker::{
    Class, Declaration, Delivery, Emit, Handled, Handler, RetryPolicy, async_trait,
    remote::{Client, Remote, Trouble},
};

/// Does what the event says, and notes each attempt.
#[derive(Clone)]
struct Acts {
    seen: Arc<Mutex<Vec<(String, u32)>>>,
    /// `wait` waits for a permit.
    gate: Arc<Semaphore>,
}

impl Acts {
    fn new() -> Acts {
        Acts { seen: Arc::default(), gate: Arc::new(Semaphore::new(0)) }
    }

    fn attempts(&self, subject: &str) -> Vec<u32> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|(one, _)| one == subject).map(|(_, attempt)| *attempt).collect()
    }

    async fn act(&self, delivery: &Delivery) -> Handled {
        let subject = delivery.attribute("subject").unwrap();
        self.seen.lock().unwrap().push((subject.clone(), delivery.attempt));
        assert_eq!(delivery.tenant.as_str(), "demo");
        assert_eq!(delivery.key.len(), 64);
        match delivery.data().get("act").unwrap_or_default().to_text().as_str() {
            "retry" if delivery.attempt == 1 => Handled::retry("not now"),
            "bad" => Handled::fail(Class::Validation, "no good"),
            "panic" => panic!("on purpose"),
            "wait" => {
                self.gate.acquire().await.unwrap().forget();
                Handled::emit([Emit::new("acted", Data::text(&*subject)).subject(subject)])
            }
            _ => Handled::emit([Emit::new("acted", Data::text(&*subject)).subject(subject)]),
        }
    }
}

#[async_trait]
impl Handler for Acts {
    async fn handle(&self, deliveries: &[Delivery]) -> Vec<Handled> {
        let mut handled = vec![];
        for delivery in deliveries {
            handled.push(self.act(delivery).await);
        }
        handled
    }
}

struct Working {
    engine: Engine,
    client: Client,
    acts: Acts,
    stop: Option<oneshot::Sender<()>>,
    ended: JoinHandle<Result<(), Trouble>>,
    _home: TempDir,
}

impl Working {
    async fn start(change: impl FnOnce(Declaration) -> Declaration) -> Working {
        let home = TempDir::new().unwrap();
        let engine = Engine::up(home.path()).await;
        let acts = Acts::new();
        let retry = RetryPolicy { base: Span::from_millis(50), ..RetryPolicy::default() };
        let worker = change(Declaration::on("acts", ["act"], acts.clone()).retry(retry));
        let (stop, stopped) = oneshot::channel::<()>();
        let remote = Remote::new(Client::new(&engine.url, &engine.key).unwrap()).worker(worker);
        let run = remote.lease_seconds(1).poll_seconds(1).run(async { drop(stopped.await) });
        let ended = tokio::spawn(run);
        let client = Client::new(&engine.url, &engine.key).unwrap();
        engine.until("/workers", |page| page.to_string().contains("\"acts\"")).await;
        Working { engine, client, acts, stop: Some(stop), ended, _home: home }
    }

    async fn publish(&self, events: &[(&str, &str)]) {
        let event = |(subject, act): &(&str, &str)| json!({ "id": subject, "source": "test", "type": "act", "subject": subject, "data": { "act": act } });
        let events: Vec<Value> = events.iter().map(event).collect();
        assert_eq!(self.client.publish(&events).await.unwrap().len(), events.len());
    }

    /// Subjects of what the worker has emitted, once there are so many.
    async fn acted(&self, count: usize) -> Vec<String> {
        let enough = |page: &Value| page["items"].as_array().unwrap().len() >= count;
        let page = self.engine.until("/events?type=acted&limit=100", enough).await;
        let mut subjects = vec![];
        for item in page["items"].as_array().unwrap() {
            let shown = self.engine.get(&format!("/events/{}", item["id"].as_str().unwrap())).await;
            subjects.push(shown["event"]["subject"].as_str().unwrap().to_owned());
        }
        subjects.sort();
        subjects
    }

    async fn until_seen(&self, subject: &str, count: usize) {
        let looking = async {
            let mut pace = tokio::time::interval(POLL);
            while self.acts.attempts(subject).len() < count {
                pace.tick().await;
            }
        };
        timeout(PATIENCE, looking).await.expect("it is handed over");
    }

    async fn end(&mut self) {
        drop(self.stop.take());
        timeout(PATIENCE, &mut self.ended).await.expect("it ends").unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_in_rust_handles_retries_and_gives_up() {
    let mut working = Working::start(|worker| worker).await;
    working.publish(&[("fine", ""), ("again", "retry"), ("bad", "bad"), ("breaks", "panic")]).await;
    assert_eq!(working.acted(2).await, ["again", "fine"]);
    let letters = working
        .engine
        .until("/dead-letters?worker=acts", |page| page["items"].as_array().unwrap().len() == 2);
    let letters = letters.await.to_string();
    assert!(letters.contains("\"refused\"") && letters.contains("\"poison\""), "{letters}");
    assert_eq!((working.acts.attempts("again"), working.acts.attempts("bad")), (vec![1, 2], vec![1]));
    working.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_takes_long_is_kept_and_what_was_begun_is_finished() {
    let mut working = Working::start(|worker| worker.concurrency_max(1)).await;
    working.publish(&[("long", "wait")]).await;
    working.until_seen("long", 1).await;
    // Three leases long it says that it goes on; it is handed over once.
    let mut pace = tokio::time::interval(std::time::Duration::from_secs(3));
    pace.tick().await;
    pace.tick().await;
    drop(working.stop.take());
    pace.tick().await;
    assert!(!working.ended.is_finished(), "it finishes what it has begun");
    working.acts.gate.add_permits(1);
    working.end().await;
    assert_eq!(working.acted(1).await, ["long"]);
    assert_eq!(working.acts.attempts("long"), [1]);
    // What comes now is nobody's.
    working.publish(&[("later", "")]).await;
    let waits = working.engine.get("/deliveries?worker=acts").await;
    assert_eq!(waits["items"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_lost_a_delivery_drops_it_and_goes_on() {
    let mut working = Working::start(|worker| worker.concurrency_max(1)).await;
    working.publish(&[("lost", "wait")]).await;
    working.until_seen("lost", 1).await;
    let page = working.engine.get("/deliveries?worker=acts").await;
    let path = format!("/deliveries/{}/complete", page["items"][0]["id"].as_str().unwrap());
    let body = json!({ "attempt": 1, "emit": [{ "type": "acted", "subject": "by another" }] });
    let answer = working.engine.request("POST", &path).json(&body).send().await.unwrap();
    assert_eq!(answer.status(), 204);
    working.acts.gate.add_permits(1);
    working.publish(&[("next", "")]).await;
    assert_eq!(working.acted(2).await, ["by another", "next"]);
    working.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_are_answered_one_by_one() {
    let mut working = Working::start(|worker| worker.batch_max(10)).await;
    working.publish(&[("a", ""), ("b", "bad"), ("c", "retry"), ("d", "")]).await;
    assert_eq!(working.acted(3).await, ["a", "c", "d"]);
    assert_eq!((working.acts.attempts("a"), working.acts.attempts("c")), (vec![1], vec![1, 2]));
    working.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_is_said_and_a_server_that_is_away_is_waited_for() {
    let home = TempDir::new().unwrap();
    let engine = Engine::up(home.path()).await;
    let worker = |name: &str| Declaration::on(name, ["act"], Acts::new());
    let run = |url: &str, key: &str, worker| {
        Remote::new(Client::new(url, key).unwrap()).worker(worker).run(std::future::pending())
    };
    let refused = |trouble: Result<(), Trouble>| match trouble {
        Err(Trouble::Refused { status, .. }) => status,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(run(&engine.url, "wlk_no_key", worker("a")).await), 401);
    assert_eq!(refused(run(&engine.url, &engine.key, worker("a b")).await), 400);
    assert!(matches!(run(&engine.url, &engine.key, worker("")).await, Err(Trouble::Invalid(_))));
    assert!(Client::new("ftp://nowhere", "k").is_err() && Client::new(&engine.url, "").is_err());
    // Nobody listens there: it tries until it is told to end.
    let away = Remote::new(Client::new("http://127.0.0.1:1", "k").unwrap()).worker(worker("a"));
    let told =
        async { drop(timeout(std::time::Duration::from_millis(500), std::future::pending::<()>()).await) };
    assert_eq!(timeout(PATIENCE, away.run(told)).await.expect("it ends"), Ok(()));
}
