//! What comes in over Redis streams: a consumer group for every tenant's place, acknowledged after the commit. What a
//! consumer that died had taken is claimed by the others.

use crate::{
    intake::{Incoming, Inlet, Intake, Source, Taken, UNDER_WAY_MAX},
    redis as line,
};
use async_trait::async_trait;
use futures_util::future::join_all;
use machine::TenantId;
use redis::{
    AsyncConnectionConfig, Client, RedisResult,
    aio::MultiplexedConnection,
    streams::{StreamAutoClaimReply, StreamId, StreamReadReply},
};
use std::time::Duration;
use tokio::time::Instant;

/// The group that all nodes share.
const GROUP: &str = "windlass";
/// How long one request for messages stands, and how much longer its answer may take.
const ASK_MAX: Duration = Duration::from_secs(5);
const ANSWER_MAX: Duration = Duration::from_secs(15);
/// How long one waits before it tries again what could not be taken.
const LATER: Duration = Duration::from_secs(2);

/// A Redis server that messages come in from.
pub(crate) struct StreamsSource {
    client: Client,
    /// What this process is called in the group.
    consumer: String,
    /// What a consumer has held for longer than this is claimed by another.
    claim_after: Duration,
}

impl StreamsSource {
    pub(crate) fn new(
        url: &url::Url,
        consumer: String,
        claim_after: Duration,
    ) -> Result<StreamsSource, String> {
        Ok(StreamsSource { client: line::client(url)?, consumer, claim_after })
    }

    async fn listen(&self, tenant: &TenantId, inlet: &Inlet, intake: &dyn Intake) -> RedisResult<()> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(line::ANSWER_MAX))
            .set_response_timeout(Some(ANSWER_MAX));
        // Of its own: while one asks and waits, nobody else is answered on a connection.
        let mut line = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        let key = inlet.subject.of(tenant, "");
        let place = Place { key, tenant, inlet, intake };
        let mut make = redis::cmd("XGROUP");
        make.arg("CREATE").arg(&place.key).arg(GROUP).arg("0").arg("MKSTREAM");
        let made = make.query_async::<()>(&mut line).await;
        made.or_else(|error| if error.code() == Some("BUSYGROUP") { Ok(()) } else { Err(error) })?;
        let mut claim_at = Instant::now();
        loop {
            if Instant::now() >= claim_at {
                self.claim(&mut line, &place).await?;
                claim_at = Instant::now() + self.claim_after / 2;
            }
            let mut ask = redis::cmd("XREADGROUP");
            ask.arg("GROUP").arg(GROUP).arg(&self.consumer).arg("COUNT").arg(UNDER_WAY_MAX);
            let wait = ASK_MAX.min(self.claim_after / 2).as_millis() as u64;
            ask.arg("BLOCK").arg(wait).arg("STREAMS").arg(&place.key).arg(">");
            let read: Option<StreamReadReply> = ask.query_async(&mut line).await?;
            let entries = read.into_iter().flat_map(|read| read.keys).flat_map(|key| key.ids).collect();
            place.take(&mut line, entries, false).await?;
        }
    }

    /// Takes what others had and did not acknowledge in time, and forgets consumers that are long gone.
    async fn claim(&self, line: &mut MultiplexedConnection, place: &Place<'_>) -> RedisResult<()> {
        let mut from = "0-0".to_owned();
        loop {
            let mut ask = redis::cmd("XAUTOCLAIM");
            ask.arg(&place.key).arg(GROUP).arg(&self.consumer).arg(self.claim_after.as_millis() as u64);
            let claimed: StreamAutoClaimReply =
                ask.arg(&from).arg("COUNT").arg(UNDER_WAY_MAX).query_async(line).await?;
            place.take(line, claimed.claimed, true).await?;
            if claimed.next_stream_id == "0-0" {
                return Ok(());
            }
            from = claimed.next_stream_id;
        }
    }
}

/// A tenant's place.
struct Place<'a> {
    key: String,
    tenant: &'a TenantId,
    inlet: &'a Inlet,
    intake: &'a dyn Intake,
}

impl Place<'_> {
    /// Takes entries side by side and acknowledges those that are done.
    async fn take(
        &self,
        line: &mut MultiplexedConnection,
        entries: Vec<StreamId>,
        again: bool,
    ) -> RedisResult<()> {
        let taken = join_all(entries.iter().map(|entry| self.take_one(entry, again))).await;
        let (mut done, mut later) = (Vec::new(), false);
        for (entry, taken) in entries.iter().zip(taken) {
            match taken {
                Taken::Done => done.push(entry.id.as_str()),
                // It stays with this consumer until its time is over, and is claimed then.
                Taken::Later(_) => later = true,
            }
        }
        if !done.is_empty() {
            let mut acknowledge = redis::cmd("XACK");
            acknowledge.arg(&self.key).arg(GROUP).arg(&done).query_async::<i64>(line).await?;
        }
        if later {
            tokio::time::sleep_until(Instant::now() + LATER).await;
        }
        Ok(())
    }

    async fn take_one(&self, entry: &StreamId, again: bool) -> Taken {
        // Whatever the field is called, if there is one only.
        let body = ["event", "command", "body"].iter().find_map(|name| entry.get::<Vec<u8>>(name));
        let alone =
            || entry.map.keys().next().filter(|_| entry.map.len() == 1).and_then(|name| entry.get(name));
        let incoming = Incoming {
            tenant: self.tenant.clone(),
            channel: self.inlet.channel,
            id: format!("redis/{}/{}", self.key, entry.id),
            again,
            body: body.or_else(alone).unwrap_or_default(),
        };
        self.intake.take(incoming).await
    }
}

#[async_trait]
impl Source for StreamsSource {
    async fn hear(&self, tenant: &TenantId, inlet: &Inlet, intake: &dyn Intake) -> String {
        match self.listen(tenant, inlet, intake).await {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        }
    }
}
