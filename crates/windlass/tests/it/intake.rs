//! A08, A09, A11, P3, P6: commands and events that come in over real servers. Each is acknowledged after its commit, has its
//! effect once, is the tenant's whose place it came to, and is a dead letter if nothing can be made of it.

use crate::engine::{Engine, PATIENCE, POLL};
use scratch::{Broker, Kind};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;
use tokio::time::timeout;

const WAITS: &str = "
document: { dsl: 1.0.3, namespace: test, name: waits, version: 1.0.0 }
do:
  - hear: { listen: { to: { one: { with: { type: go } } } } }
  - fail: { switch: [ { bad: { when: '${ .[0].fail == true }', then: boom } }, { fine: { then: end } } ] }
  - boom: { raise: { error: { type: 'https://a.b/c', status: 500, title: boom } } }
";
const HEARS: &str = "
document: { dsl: 1.0.3, namespace: test, name: hears, version: 1.0.0 }
schedule: { on: { one: { with: { type: order.placed } } } }
do: [ { a: { set: { x: 1 } } } ]
";

struct Hearing {
    engine: Engine,
    platform: String,
    home: TempDir,
    kind: Kind,
}

impl Hearing {
    async fn start(broker: &Broker, kind: Kind) -> Hearing {
        let home = TempDir::new().unwrap();
        let config = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n[buses.main]\nurl = \"{}\"\ntypes = []\ncommands = true\n\
             events = [\"windlass.{{tenant}}.in\"]\nclaim_seconds = 1\n",
            broker.url()
        );
        std::fs::write(home.path().join("windlass.toml"), config).unwrap();
        let engine = launch(home.path()).await;
        let platform = engine.line["platform_key"].as_str().unwrap().to_owned();
        let mut hearing = Hearing { engine, platform, home, kind };
        hearing.engine.key = hearing.tenant("acme").await;
        hearing.engine.deploy(WAITS).await;
        hearing.engine.deploy(HEARS).await;
        hearing
    }

    /// Makes a tenant while the engine runs, and waits until its places are heard. Answers its key.
    async fn tenant(&self, name: &str) -> String {
        let before = self.subscriptions().await;
        let ask =
            |path: &str, body: Value| self.engine.request_as(&self.platform, "POST", path).json(&body).send();
        assert_eq!(ask("/tenants", json!({ "id": name })).await.unwrap().status(), 201);
        let mut cli = crate::engine::binary(self.home.path());
        cli.env("WINDLASS_URL", &self.engine.url).env("WINDLASS_KEY", &self.platform);
        cli.args(["key", "create", "--tenant", name, "--name", "a", "--role", "admin", "-o", "json"]);
        let key = crate::engine::said(cli).await.json()["secret"].as_str().unwrap().to_owned();
        let looking = async {
            let mut pace = tokio::time::interval(POLL);
            while self.subscriptions().await < before + 2 {
                pace.tick().await;
            }
        };
        timeout(PATIENCE, looking).await.expect("a new tenant is heard without a restart");
        key
    }

    async fn subscriptions(&self) -> i64 {
        let bus = self.engine.request_as(&self.platform, "GET", "/buses/main").send().await.unwrap();
        bus.json::<Value>().await.unwrap()["subscriptions"].as_i64().unwrap()
    }

    async fn again(self) -> Hearing {
        self.engine.kill().await;
        let mut engine = launch(self.home.path()).await;
        engine.key = self.engine.key.clone();
        Hearing { engine, ..self }
    }

    /// Sends as another program would.
    async fn send(&self, broker: &Broker, place: &str, body: &Value) {
        match self.kind {
            Kind::Redis => {
                let client = redis::Client::open(broker.url()).unwrap();
                let mut line = client.get_multiplexed_async_connection().await.unwrap();
                let mut add = redis::cmd("XADD");
                add.arg(place).arg("*").arg("body").arg(body.to_string());
                add.query_async::<String>(&mut line).await.unwrap();
            }
            Kind::Nats => {
                let context = async_nats::jetstream::new(async_nats::connect(broker.url()).await.unwrap());
                let sending = async {
                    // The stream is made with the subscription.
                    while context
                        .publish(place.to_owned(), body.to_string().into())
                        .await
                        .unwrap()
                        .await
                        .is_err()
                    {
                        tokio::task::yield_now().await;
                    }
                };
                timeout(PATIENCE, sending).await.expect("it is taken");
            }
            Kind::Kafka => crate::topics::send(broker, place, body.to_string().as_bytes(), &[]).await,
        }
    }

    /// How many instances of the definition there are, once there are enough.
    async fn instances(&self, name: &str, enough: usize) -> Vec<Value> {
        let path = format!("/instances?namespace=test&name={name}&limit=200");
        let page = self.engine.until(&path, |page| page["items"].as_array().unwrap().len() >= enough).await;
        page["items"].as_array().unwrap().clone()
    }
}

async fn launch(home: &Path) -> Engine {
    Engine::start(home, &["serve", "--config", "windlass.toml", "-o", "json"]).await
}

fn start(id: &str) -> Value {
    json!({ "kind": "start", "id": id, "definition": { "namespace": "test", "name": "waits" }, "input": { "of": id } })
}

async fn commands_and_events_come_in(kind: Kind) {
    let Some(broker) = scratch::broker(kind) else { return };
    let hearing = Hearing::start(&broker, kind).await;
    let (engine, commands) = (&hearing.engine, "windlass-wf-acme");
    // Twice the same command is one instance.
    hearing.send(&broker, commands, &start("a")).await;
    hearing.send(&broker, commands, &start("a")).await;
    hearing.send(&broker, commands, &start("b")).await;
    let started = hearing.instances("waits", 2).await;
    let ids: Vec<&str> = started.iter().map(|one| one["id"].as_str().unwrap()).collect();
    let signal = |fail: bool, id: &str| json!({ "kind": "signal", "id": "s1", "instance": id, "name": "go", "data": { "fail": fail } });
    hearing.send(&broker, commands, &signal(false, ids[0])).await;
    hearing.send(&broker, commands, &signal(true, ids[1])).await;
    assert_eq!(engine.result(ids[0]).await["status"], "completed");
    assert_eq!(engine.result(ids[1]).await["status"], "faulted");
    hearing.send(&broker, commands, &json!({ "kind": "retry", "instance": ids[1] })).await;
    let retried = |history: &Value| history.to_string().contains("workflow.retried");
    engine.until(&format!("/instances/{}/history", ids[1]), retried).await;
    // What nothing can be made of is kept, and holds up nothing.
    hearing.send(&broker, commands, &json!({ "kind": "dance" })).await;
    hearing
        .send(
            &broker,
            commands,
            &json!({ "kind": "start", "definition": { "namespace": "test", "name": "none" } }),
        )
        .await;
    let letters =
        engine.until("/dead-letters?source=bus", |page| page["items"].as_array().unwrap().len() == 2).await;
    let letters = letters["items"].to_string();
    assert!(
        letters.contains("dance") && letters.contains("deserialization") && letters.contains("refused"),
        "{letters}"
    );
    // The same event twice starts one instance; one of another tenant's place none.
    let event = json!({ "specversion": "1.0", "id": "1", "source": "shop", "type": "order.placed" });
    hearing.tenant("zoo").await;
    hearing.send(&broker, "windlass.zoo.in", &event).await;
    hearing.send(&broker, "windlass.acme.in", &event).await;
    hearing.send(&broker, "windlass.acme.in", &event).await;
    let mut second = event.clone();
    second["id"] = json!("2");
    hearing.send(&broker, "windlass.acme.in", &second).await;
    assert_eq!(hearing.instances("hears", 2).await.len(), 2);
    assert_eq!(hearing.instances("waits", 2).await.len(), 2);
}

#[tokio::test]
async fn commands_and_events_come_in_over_nats() {
    commands_and_events_come_in(Kind::Nats).await;
}

#[tokio::test]
async fn commands_and_events_come_in_over_kafka() {
    commands_and_events_come_in(Kind::Kafka).await;
}

#[tokio::test]
async fn commands_and_events_come_in_over_redis() {
    commands_and_events_come_in(Kind::Redis).await;
}

#[tokio::test]
async fn subscriptions_end_and_begin_with_their_tenant() {
    let Some(broker) = scratch::broker(Kind::Redis) else { return };
    let hearing = Hearing::start(&broker, Kind::Redis).await;
    let zoo = hearing.tenant("zoo").await;
    let all = hearing.subscriptions().await;
    let order = async |word: &str| {
        let ask = hearing.engine.request_as(&hearing.platform, "PATCH", "/tenants/zoo");
        let answer = ask.json(&json!({ "status": word })).send().await.unwrap();
        assert!(answer.status().is_success(), "{word}: {}", answer.text().await.unwrap());
    };
    let until_heard = async |count: i64| {
        let looking = async {
            let mut pace = tokio::time::interval(POLL);
            while hearing.subscriptions().await != count {
                pace.tick().await;
            }
        };
        timeout(PATIENCE, looking).await.expect("subscriptions follow their tenant");
    };
    let event = |id: i64| json!({ "specversion": "1.0", "id": id.to_string(), "source": "s", "type": "x" });
    for cycle in 0..10 {
        order("suspended").await;
        until_heard(all - 2).await;
        hearing.send(&broker, "windlass.zoo.in", &event(cycle)).await;
        order("active").await;
        until_heard(all).await;
    }
    // What came while it was suspended is taken afterwards, and is no dead letter.
    let looking = async {
        let mut pace = tokio::time::interval(POLL * 5);
        loop {
            pace.tick().await;
            let page = hearing.engine.request_as(&zoo, "GET", "/events?limit=100").send().await.unwrap();
            if page.json::<Value>().await.unwrap()["items"].as_array().unwrap().len() == 10 {
                return;
            }
        }
    };
    timeout(PATIENCE, looking).await.expect("every event is taken");
    let letters = hearing.engine.request_as(&zoo, "GET", "/dead-letters").send().await.unwrap();
    assert_eq!(letters.json::<Value>().await.unwrap()["items"], json!([]));
}

#[tokio::test]
async fn a_hundred_tenants_that_come_and_go_leave_nothing_behind() {
    let Some(broker) = scratch::broker(Kind::Redis) else { return };
    let hearing = Hearing::start(&broker, Kind::Redis).await;
    let client = redis::Client::open(broker.url()).unwrap();
    let mut line = client.get_multiplexed_async_connection().await.unwrap();
    let mut connections = async || {
        let listed: String = redis::cmd("CLIENT").arg("LIST").query_async(&mut line).await.unwrap();
        listed.lines().count()
    };
    let (subscriptions, before) = (hearing.subscriptions().await, connections().await);
    let until_heard = async |count: i64| {
        let looking = async {
            let mut pace = tokio::time::interval(POLL);
            while hearing.subscriptions().await != count {
                pace.tick().await;
            }
        };
        timeout(PATIENCE, looking).await.expect("subscriptions follow their tenant");
    };
    for number in 0..100 {
        let id = format!("guest-{number}");
        let ask = hearing.engine.request_as(&hearing.platform, "POST", "/tenants").json(&json!({ "id": id }));
        assert_eq!(ask.send().await.unwrap().status(), 201);
        until_heard(subscriptions + 2).await;
        let ask = hearing.engine.request_as(&hearing.platform, "DELETE", &format!("/tenants/{id}"));
        assert!(ask.send().await.unwrap().status().is_success());
        until_heard(subscriptions).await;
    }
    let looking = async {
        let mut pace = tokio::time::interval(POLL * 5);
        while connections().await > before {
            pace.tick().await;
        }
    };
    timeout(PATIENCE, looking).await.expect("no connection is left");
}

#[tokio::test]
async fn a_killed_engine_and_an_outage_neither_lose_nor_double_a_command() {
    let Some(mut broker) = scratch::broker(Kind::Redis) else { return };
    let mut hearing = Hearing::start(&broker, Kind::Redis).await;
    for round in 0..4 {
        for number in 0..10 {
            hearing.send(&broker, "windlass-wf-acme", &start(&format!("{round}-{number}"))).await;
        }
        match round {
            2 => {
                broker.kill();
                broker.resume().unwrap();
            }
            _ => hearing = hearing.again().await,
        }
    }
    hearing.instances("waits", 40).await;
    // Everything is acknowledged in the end, and nothing came of what was given out twice.
    let client = redis::Client::open(broker.url()).unwrap();
    let mut line = client.get_multiplexed_async_connection().await.unwrap();
    let looking = async {
        let mut pace = tokio::time::interval(POLL * 5);
        loop {
            pace.tick().await;
            let mut ask = redis::cmd("XPENDING");
            let (pending, _, _, _): (i64, redis::Value, redis::Value, redis::Value) =
                ask.arg("windlass-wf-acme").arg("windlass").query_async(&mut line).await.unwrap();
            if pending == 0 {
                return;
            }
        }
    };
    timeout(PATIENCE, looking).await.expect("all are acknowledged");
    assert_eq!(hearing.instances("waits", 40).await.len(), 40);
}
