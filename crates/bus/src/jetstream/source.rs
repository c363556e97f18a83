//! What comes in over NATS JetStream: a durable pull consumer for every tenant's place, acknowledged after the commit.

use super::{context, told_by};
use crate::{
    Server,
    intake::{Incoming, Inlet, Intake, Source, Taken, UNDER_WAY_MAX},
};
use async_nats::jetstream::{
    AckKind, Message,
    consumer::{AckPolicy, pull},
    stream,
};
use async_trait::async_trait;
use futures_util::{StreamExt, stream::FuturesUnordered};
use machine::TenantId;
use std::time::Duration;

/// The consumer that all nodes share.
const CONSUMER: &str = "windlass";
/// How long a message that cannot be taken now stays away.
const LATER: Duration = Duration::from_secs(2);
const HEARTBEAT: Duration = Duration::from_secs(5);
/// How long one request for messages stands.
const ASK_MAX: Duration = Duration::from_secs(30);

/// A NATS server that messages come in from.
pub(crate) struct JetStreamSource {
    pub(crate) server: Server,
    /// Makes streams that are not there.
    pub(crate) create: bool,
    /// After this long without an acknowledgement a message is given to another.
    pub(crate) acknowledge_within: Duration,
}

impl JetStreamSource {
    async fn listen(&self, tenant: &TenantId, inlet: &Inlet, intake: &dyn Intake) -> Result<(), String> {
        let context = context(&self.server.url, |_| {}).await?;
        let subject = inlet.subject.of(tenant, "");
        let name = subject.replace('.', "_");
        let failed = |what: &str, error: &dyn std::error::Error| format!("{what} {name}: {}", told_by(error));
        let stream = match self.create {
            true => {
                let wanted = stream::Config {
                    name: name.clone(),
                    subjects: vec![subject.clone()],
                    // What was taken is in the store.
                    retention: stream::RetentionPolicy::WorkQueue,
                    ..stream::Config::default()
                };
                context.get_or_create_stream(wanted).await.map_err(|error| failed("the stream", &error))?
            }
            false => context.get_stream(&name).await.map_err(|error| failed("the stream", &error))?,
        };
        let config = pull::Config {
            durable_name: Some(CONSUMER.to_owned()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.acknowledge_within,
            max_ack_pending: 1_024,
            ..pull::Config::default()
        };
        let consumer = stream.get_or_create_consumer(CONSUMER, config).await;
        let consumer = consumer.map_err(|error| failed("the consumer of", &error))?;
        let asked = consumer
            .stream()
            .max_messages_per_batch(UNDER_WAY_MAX)
            .heartbeat(HEARTBEAT)
            .expires(ASK_MAX)
            .messages()
            .await;
        let mut messages = asked.map_err(|error| failed("the consumer of", &error))?;
        let place = Place { stream: &name, tenant, inlet, intake };
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                message = messages.next(), if under_way.len() < UNDER_WAY_MAX => match message {
                    Some(Ok(message)) => under_way.push(place.take(message)),
                    Some(Err(error)) => return Err(told_by(&error)),
                    None => return Err("the server ended the subscription".to_owned()),
                },
                Some(taken) = under_way.next(), if !under_way.is_empty() => taken?,
            }
        }
    }
}

/// A tenant's place.
struct Place<'a> {
    stream: &'a str,
    tenant: &'a TenantId,
    inlet: &'a Inlet,
    intake: &'a dyn Intake,
}

impl Place<'_> {
    async fn take(&self, message: Message) -> Result<(), String> {
        let (sequence, delivered) = {
            let info = message.info().map_err(|error| error.to_string())?;
            (info.stream_sequence, info.delivered)
        };
        let incoming = Incoming {
            tenant: self.tenant.clone(),
            channel: self.inlet.channel,
            id: format!("nats/{}/{sequence}", self.stream),
            again: delivered > 1,
            body: message.payload.to_vec(),
        };
        let answer = match self.intake.take(incoming).await {
            Taken::Done => AckKind::Ack,
            Taken::Later(_) => AckKind::Nak(Some(LATER)),
        };
        message.ack_with(answer).await.map_err(|error| error.to_string())
    }
}

#[async_trait]
impl Source for JetStreamSource {
    async fn hear(&self, tenant: &TenantId, inlet: &Inlet, intake: &dyn Intake) -> String {
        match self.listen(tenant, inlet, intake).await {
            Ok(()) => String::new(),
            Err(why) => why,
        }
    }
}
