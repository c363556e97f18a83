//! Events over the protocol of Kafka: produced with their order key as the record's, by a producer whose repetitions the
//! server drops, and confirmed once all replicas that are in sync have them.
//!
//! A producer that failed is given up after everything it held has failed as well, so that nothing comes late from an old
//! one.

mod source;
mod structured;

pub(crate) use source::KafkaSource;

use crate::{
    Outlet, Server,
    carrier::{CARRY_MAX, Carried, Carrier, Parcel, all},
};
use async_trait::async_trait;
use futures_util::future::join_all;
use krafka::{
    CloseOptions, Kafka, Record,
    auth::{AuthConfig, TlsConfig},
    error::{ErrorCode, KrafkaError},
    producer::{Acks, Producer},
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::Mutex, time::timeout};

/// How long a connection, and one request, may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);
const REQUEST_MAX: Duration = Duration::from_secs(8);
/// How long a record may take with all its repetitions; shorter than a call, so that nothing is left of it afterwards.
const CONFIRM_MAX: Duration = Duration::from_secs(10);
/// The largest event: what servers take unless they are told otherwise.
const EVENT_BYTES_MAX: usize = 1_000_000;
/// How long leaving may take.
const CLOSE_MAX: Duration = Duration::from_secs(5);

pub(crate) struct Topics {
    outlet: Outlet,
    line: Mutex<Option<Arc<Line>>>,
}

/// One producer and its connections.
struct Line {
    producer: Arc<Producer>,
    _kafka: Kafka,
}

impl Drop for Line {
    fn drop(&mut self) {
        let producer = self.producer.clone();
        later(async move {
            let _ = producer.close_with(CloseOptions::new().timeout(CLOSE_MAX)).await;
        });
    }
}

/// Does what cannot be waited for where something ends; without a runtime nothing is left to be ended.
fn later(ending: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(ending);
    }
}

/// A connection to the cluster; the error says what is wrong.
async fn connect(server: &Server, create: bool) -> Result<Kafka, String> {
    let url = &server.url;
    let host = url.host_str().unwrap_or_default();
    let first = format!("{host}:{}", url.port().unwrap_or(9092));
    let servers = [&[first], server.more.as_slice()].concat().join(",");
    let mut builder = Kafka::builder(servers)
        .client_id("windlass")
        .connect_timeout(CONNECT_MAX)
        .request_timeout(REQUEST_MAX)
        .allow_auto_create_topics(create);
    if let Some(security) = security(server)? {
        builder = builder.security(security);
    }
    builder.connect().await.map_err(|error| error.to_string())
}

/// Who this is, and whether it is said over TLS.
pub(crate) fn security(server: &Server) -> Result<Option<AuthConfig>, String> {
    let url = &server.url;
    let read = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let (user, password) = (read(url.username()), read(url.password().unwrap_or_default()));
    let said = url.query_pairs().find(|(name, _)| name == "sasl").map(|(_, value)| value.into_owned());
    let sasl = match (user.is_empty(), said.as_deref()) {
        (true, None) => None,
        (true, Some(_)) => return Err("sasl needs a user and a password in the URL".to_owned()),
        (false, None | Some("plain")) => Some(AuthConfig::sasl_plain(user, password)),
        (false, Some("scram-sha-256")) => Some(AuthConfig::sasl_scram_sha256(user, password)),
        (false, Some("scram-sha-512")) => Some(AuthConfig::sasl_scram_sha512(user, password)),
        (false, Some(other)) => {
            return Err(format!("sasl is {other:?}; it is plain, scram-sha-256 or scram-sha-512"));
        }
    };
    let tls = (url.scheme() == "kafkas").then(|| TlsConfig::new().with_native_roots());
    Ok(match (sasl, tls) {
        (Some(sasl), Some(tls)) => Some(sasl.with_tls(tls)),
        (None, Some(tls)) => Some(AuthConfig::ssl(tls)),
        (sasl, None) => sasl,
    })
}

impl Topics {
    pub(crate) fn new(outlet: Outlet) -> Topics {
        Topics { outlet, line: Mutex::new(None) }
    }

    /// The producer, made if there is none.
    async fn line(&self) -> Result<Arc<Line>, String> {
        let mut kept = self.line.lock().await;
        if let Some(line) = kept.as_ref() {
            return Ok(line.clone());
        }
        let kafka = connect(&self.outlet.server, self.outlet.create).await?;
        let producer = kafka
            .producer()
            .acks(Acks::All)
            .idempotent(true)
            .linger(Duration::ZERO)
            .max_block(REQUEST_MAX)
            .delivery_timeout(CONFIRM_MAX)
            .metrics_push(false)
            .build()
            .await
            .map_err(|error| error.to_string())?;
        let line = Arc::new(Line { producer: Arc::new(producer), _kafka: kafka });
        *kept = Some(line.clone());
        Ok(line)
    }

    fn record(&self, parcel: &Parcel) -> Record {
        let topic = self.outlet.subject.of(&parcel.tenant, &parcel.event_type);
        let record = Record::new(topic, parcel.event.clone())
            .header("content-type", "application/cloudevents+json; charset=UTF-8")
            .header("windlass-id", parcel.id.clone())
            .header("windlass-type", parcel.event_type.clone());
        match &parcel.key {
            Some(key) => record.key(key.clone()),
            None => record,
        }
    }

    async fn carry_over(&self, line: &Line, parcels: &[Parcel]) -> Vec<Carried> {
        // Side by side: a topic that is not there yet holds up no other.
        let sent = parcels.iter().map(|parcel| async {
            if parcel.event.len() > EVENT_BYTES_MAX {
                let size = parcel.event.len();
                return Carried::Refused(format!("the event has {size} bytes, more than {EVENT_BYTES_MAX}"));
            }
            carried(line.producer.send(self.record(parcel)).await.err())
        });
        join_all(sent).await
    }
}

fn carried(error: Option<KrafkaError>) -> Carried {
    let Some(error) = error else { return Carried::Confirmed };
    let said = error.to_string();
    match error {
        KrafkaError::Broker {
            code:
                ErrorCode::MessageTooLarge
                | ErrorCode::RecordListTooLarge
                | ErrorCode::InvalidRecord
                | ErrorCode::InvalidTopic,
            ..
        } => Carried::Refused(said),
        // What a broker says is about the topic.
        KrafkaError::Broker { .. } => Carried::Failed(said),
        _ => Carried::Away(said),
    }
}

#[async_trait]
impl Carrier for Topics {
    fn place(&self) -> String {
        self.outlet.server.to_string()
    }

    async fn carry(&self, parcels: &[Parcel]) -> Vec<Carried> {
        let carrying = async {
            let line = self.line().await?;
            Ok(self.carry_over(&line, parcels).await)
        };
        let late = || Err(format!("no answer within {} s", CARRY_MAX.as_secs()));
        let answers = timeout(CARRY_MAX, carrying).await.unwrap_or_else(|_| late());
        let answers = answers.unwrap_or_else(|error: String| all(parcels, &Carried::Away(error)));
        if answers.iter().any(Carried::is_open) {
            *self.line.lock().await = None;
        }
        answers
    }
}
