//! The servers that the suite runs over, behind one shape.

use crate::gate::Gate;
use async_trait::async_trait;
use bus::Address;
use scratch::{Broker, Database, Kind};
use std::sync::Arc;
use store::{
    Hints,
    postgres::{Options, Postgres, migrate},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A server that carries hints, and what can happen to it.
#[async_trait]
pub(crate) trait Place: Send {
    /// A node of the deployment with this number.
    async fn node(&self, deployment: usize) -> Arc<dyn Hints>;
    /// Words that no node said, to the first deployment.
    async fn garbage(&self, words: &str);
    async fn down(&mut self);
    async fn up(&mut self);
}

/// Redis or NATS; `None`, said loudly, if it is not on this machine.
pub(crate) fn broker(kind: Kind) -> Option<Box<dyn Place>> {
    scratch::broker(kind).map(|broker| Box::new(Served { kind, broker }) as Box<dyn Place>)
}

struct Served {
    kind: Kind,
    broker: Broker,
}

#[async_trait]
impl Place for Served {
    async fn node(&self, deployment: usize) -> Arc<dyn Hints> {
        let address = Address::parse(&self.broker.url(), &format!("deployment-{deployment}")).unwrap();
        Arc::new(address.open().unwrap())
    }

    async fn garbage(&self, words: &str) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.broker.port())).await.unwrap();
        let channel = "windlass.hints.deployment-0";
        let said = match self.kind {
            Kind::Redis => format!("PUBLISH {channel} \"{words}\"\r\n"),
            Kind::Nats => {
                let length = words.len();
                format!("CONNECT {{\"verbose\":false}}\r\nPUB {channel} {length}\r\n{words}\r\nPING\r\n")
            }
            Kind::Kafka => unreachable!("it carries no hints"),
        };
        stream.write_all(said.as_bytes()).await.unwrap();
        // NATS greets first; the answer to what was said comes last: `:1` or `PONG`.
        let mut answer = String::new();
        while !answer.contains("PONG") && !answer.starts_with(':') {
            let mut bytes = [0; 1024];
            let read = stream.read(&mut bytes).await.unwrap();
            assert_ne!(read, 0, "the server said: {answer}");
            answer += &String::from_utf8_lossy(&bytes[..read]);
        }
    }

    async fn down(&mut self) {
        self.broker.kill();
    }

    async fn up(&mut self) {
        self.broker.resume().unwrap();
    }
}

/// Two databases, each behind a gate: other tests use the server as well. `None`, said loudly, without PostgreSQL.
pub(crate) async fn postgres() -> Option<Box<dyn Place>> {
    let mut deployments = Vec::new();
    for _ in 0..2 {
        let database = scratch::database()?;
        migrate(&database.owner_url, Some(database.application)).await.unwrap();
        let (before, rest) = database.url.rsplit_once(':').unwrap();
        let (port, name) = rest.split_once('/').unwrap();
        let gate = Gate::open_to(([127, 0, 0, 1], port.parse().unwrap()).into()).await;
        let listen_url = Some(format!("{before}:{}/{name}", gate.port()));
        let options = Options { listen_url, ..Options::default() };
        let store = Postgres::open_with(&database.url, options).await.unwrap();
        deployments.push(Deployment { store, gate, database });
    }
    Some(Box::new(Databases(deployments)))
}

struct Deployment {
    store: Postgres,
    gate: Gate,
    database: Database,
}

struct Databases(Vec<Deployment>);

#[async_trait]
impl Place for Databases {
    async fn node(&self, deployment: usize) -> Arc<dyn Hints> {
        Arc::new(self.0[deployment].store.hints())
    }

    async fn garbage(&self, words: &str) {
        self.0[0].database.ask(&format!("NOTIFY windlass_hints, '{words}'")).unwrap();
    }

    async fn down(&mut self) {
        self.0[0].gate.shut().await;
    }

    async fn up(&mut self) {
        self.0[0].gate.reopen().await;
    }
}
