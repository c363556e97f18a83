//! What an operator says of a bus that events go out over, checked before anything is connected to.

use crate::{
    Carrier, Kind, Server, Source, Template,
    jetstream::{JetStream, JetStreamSource},
    kafka::{KafkaSource, Topics},
    streams::{Streams, StreamsSource},
};
use std::{sync::Arc, time::Duration};

/// How events go out over a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlet {
    pub server: Server,
    /// Where they go.
    pub subject: Template,
    /// NATS: the stream that keeps them.
    pub stream: String,
    /// NATS: makes the stream if it is not there. Kafka: lets the cluster make topics.
    pub create: bool,
    /// NATS: how long a stream that is made here keeps what it has; zero is for ever.
    pub keep: Duration,
    /// Redis: about how many events a stream keeps; zero is all.
    pub length_max: u64,
    /// Redis: replicas that have to have an event before it counts as carried.
    pub replicas: u32,
}

impl Outlet {
    /// With the names and limits that hold where nothing else is said.
    pub fn new(server: Server) -> Outlet {
        let subject = Outlet::subject_of(server.kind());
        Outlet {
            server,
            subject: Template::parse(subject).expect("the default is a template"),
            stream: "windlass-events".to_owned(),
            create: true,
            keep: Duration::from_secs(7 * 86_400),
            length_max: 0,
            replicas: 0,
        }
    }

    /// Where events go unless something else is said.
    pub fn subject_of(kind: Kind) -> &'static str {
        match kind {
            // Subjects are cheap, and a subscriber can choose among them.
            Kind::Nats => "windlass.{tenant}.events.{type}",
            Kind::Redis | Kind::Kafka => "windlass.{tenant}.events",
        }
    }

    /// What does not fit together, if anything.
    pub fn flaw(&self) -> Option<String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        match self.server.kind() {
            Kind::Nats if self.stream.is_empty() || !self.stream.chars().all(is_plain) => {
                Some(format!("the stream {:?} must be of letters, digits, - and _", self.stream))
            }
            Kind::Nats if self.create => self.subject.pattern().err(),
            // Topics are dear, and a type may hold what no topic may be called.
            Kind::Kafka if self.subject.is_by_type() => {
                Some("the topic of a tenant has no {type}".to_owned())
            }
            _ => None,
        }
    }

    /// Connects when there is something to carry.
    pub fn carrier(&self) -> Result<Arc<dyn Carrier>, String> {
        if let Some(flaw) = self.flaw() {
            return Err(flaw);
        }
        Ok(match self.server.kind() {
            Kind::Nats => Arc::new(JetStream::new(self.clone())),
            Kind::Redis => Arc::new(Streams::new(self.clone())?),
            Kind::Kafka => Arc::new(Topics::new(self.clone())),
        })
    }
}

/// How messages come in over a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intakes {
    pub server: Server,
    /// NATS: makes streams that are not there. Kafka: lets the cluster make topics.
    pub create: bool,
    /// What a consumer has held for longer than this, or that has been silent for so long, goes to another.
    pub claim_after: Duration,
    /// What this process is called among the consumers.
    pub consumer: String,
}

impl Intakes {
    /// Connects when it is to hear something.
    pub fn source(&self) -> Result<Arc<dyn Source>, String> {
        Ok(match self.server.kind() {
            Kind::Nats => Arc::new(JetStreamSource {
                server: self.server.clone(),
                create: self.create,
                acknowledge_within: self.claim_after,
            }),
            Kind::Redis => {
                Arc::new(StreamsSource::new(&self.server.url, self.consumer.clone(), self.claim_after)?)
            }
            Kind::Kafka => Arc::new(KafkaSource {
                server: self.server.clone(),
                create: self.create,
                claim_after: self.claim_after,
            }),
        })
    }
}
