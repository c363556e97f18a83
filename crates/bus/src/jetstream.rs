//! Events over NATS JetStream: published with their id as the message's, so that the server drops what comes twice within
//! its window, and confirmed by the stream that keeps them.
//!
//! A connection that failed is given up with whatever it still held, so that nothing is kept in memory and nothing comes
//! late from an old one.

mod source;

pub(crate) use source::JetStreamSource;

use crate::{
    Outlet,
    carrier::{CARRY_MAX, Carried, Carrier, Parcel, all},
    nats,
};
use async_nats::{
    Event, HeaderMap,
    header::NATS_MESSAGE_ID,
    jetstream::{
        self, Context,
        context::{ContextBuilder, PublishError, PublishErrorKind},
        stream,
    },
};
use async_trait::async_trait;
use futures_util::future::join_all;
use std::{
    error::Error as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Mutex, time::timeout};

/// How long the stream may take to confirm.
const CONFIRM_MAX: Duration = Duration::from_secs(10);
/// How long the server may take to say that it is there.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// Messages sent and not confirmed; more wait.
const UNCONFIRMED_MAX: usize = 4_096;
/// What the server says of a message that is larger than its stream takes.
const TOO_LARGE: u64 = 10_054;

pub(crate) struct JetStream {
    outlet: Outlet,
    line: Mutex<Option<Arc<Line>>>,
}

/// One connection.
struct Line {
    context: Context,
    lost: Arc<AtomicBool>,
}

impl JetStream {
    pub(crate) fn new(outlet: Outlet) -> JetStream {
        JetStream { outlet, line: Mutex::new(None) }
    }

    /// The connection, made if there is none that works.
    async fn line(&self) -> Result<Arc<Line>, String> {
        let mut kept = self.line.lock().await;
        if let Some(line) = kept.as_ref().filter(|line| !line.lost.load(Ordering::Acquire)) {
            return Ok(line.clone());
        }
        *kept = None;
        let line = Arc::new(self.connect().await?);
        *kept = Some(line.clone());
        Ok(line)
    }

    async fn connect(&self) -> Result<Line, String> {
        let lost = Arc::new(AtomicBool::new(false));
        let told = lost.clone();
        let context = context(&self.outlet.server.url, move |event| {
            if matches!(event, Event::Disconnected | Event::Closed) {
                told.store(true, Ordering::Release);
            }
        })
        .await?;
        if self.outlet.create {
            let wanted = stream::Config {
                name: self.outlet.stream.clone(),
                subjects: vec![self.outlet.subject.pattern()?],
                max_age: self.outlet.keep,
                description: Some("events out of Windlass".to_owned()),
                ..stream::Config::default()
            };
            let made = context.get_or_create_stream(wanted).await;
            made.map_err(|error| format!("the stream {}: {}", self.outlet.stream, told_by(&error)))?;
        }
        Ok(Line { context, lost })
    }

    async fn carry_over(&self, line: &Line, parcels: &[Parcel]) -> Vec<Carried> {
        let mut asked = Vec::with_capacity(parcels.len());
        for parcel in parcels {
            let subject = self.outlet.subject.of(&parcel.tenant, &parcel.event_type);
            let mut headers = HeaderMap::new();
            headers.insert(NATS_MESSAGE_ID, parcel.id.as_str());
            headers.insert("Content-Type", "application/cloudevents+json");
            if let Some(key) = parcel.key.as_deref().filter(|key| !key.contains(['\r', '\n'])) {
                headers.insert("Windlass-Key", key);
            }
            asked
                .push(line.context.publish_with_headers(subject, headers, parcel.event.clone().into()).await);
        }
        let confirmed = asked.into_iter().map(|asked| async {
            match asked {
                Ok(asked) => asked.await,
                Err(error) => Err(error),
            }
        });
        let answers: Vec<Carried> =
            join_all(confirmed).await.into_iter().map(|answer| self.carried(answer.err())).collect();
        let is_silent = answers.iter().all(|answer| matches!(answer, Carried::Away(_)));
        match is_silent && !answers.is_empty() && line.answers().await {
            true => answers.into_iter().map(at_fault).collect(),
            false => answers,
        }
    }

    fn carried(&self, error: Option<PublishError>) -> Carried {
        let Some(error) = error else { return Carried::Confirmed };
        let said = told_by(&error);
        let source = error.source().and_then(|source| source.downcast_ref::<jetstream::Error>());
        match error.kind() {
            PublishErrorKind::MaxPayloadExceeded => Carried::Refused(said),
            PublishErrorKind::StreamNotFound => {
                Carried::Failed("no stream takes the subject; make one, or set stream and create".to_owned())
            }
            _ if source.is_some_and(|source| source.error_code().0 == TOO_LARGE) => Carried::Refused(said),
            PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe => Carried::Away(said),
            _ => Carried::Failed(said),
        }
    }
}

impl Line {
    /// Whether the server is there: it says nothing at all to whoever may not publish to a subject.
    async fn answers(&self) -> bool {
        !self.lost.load(Ordering::Acquire)
            && matches!(timeout(ANSWER_MAX, self.context.query_account()).await, Ok(Ok(_)))
    }
}

/// The server is there, so it is the subject that gets no answer.
fn at_fault(answer: Carried) -> Carried {
    match answer {
        Carried::Away(why) => Carried::Failed(format!("{why}; may this user publish to the subject?")),
        other => other,
    }
}

/// A connection to JetStream that does not connect again by itself.
pub(crate) async fn context(
    url: &url::Url,
    told: impl Fn(Event) + Send + Sync + 'static,
) -> Result<Context, String> {
    let client = nats::connect(url, told).await?;
    Ok(ContextBuilder::new()
        .timeout(CONFIRM_MAX)
        .ack_timeout(CONFIRM_MAX)
        .max_ack_inflight(UNCONFIRMED_MAX)
        .build(client))
}

/// An error with what is behind it.
pub(crate) fn told_by(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(behind) = source {
        let more = behind.to_string();
        if !said.contains(&more) {
            said = format!("{said}: {more}");
        }
        source = behind.source();
    }
    said
}

#[async_trait]
impl Carrier for JetStream {
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
