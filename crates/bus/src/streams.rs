//! Events over Redis streams: XADD of the event with its id, type and key as fields. Redis knows no ids of ours, so what
//! is carried again is there twice, with the same id.

mod source;

pub(crate) use source::StreamsSource;

use crate::{
    Outlet,
    carrier::{CARRY_MAX, Carried, Carrier, Parcel, all},
    redis::{self as line, ANSWER_MAX},
};
use async_trait::async_trait;
use futures_util::future::join_all;
use redis::{Client, Cmd, ErrorKind, RedisError, ServerErrorKind, aio::MultiplexedConnection};
use tokio::{sync::Mutex, time::timeout};

/// What a server says that has no room, or may not go on without its disk or its replicas.
const FULL: [&str; 3] = ["OOM", "MISCONF", "NOREPLICAS"];

pub(crate) struct Streams {
    outlet: Outlet,
    client: Client,
    line: Mutex<Option<MultiplexedConnection>>,
}

impl Streams {
    pub(crate) fn new(outlet: Outlet) -> Result<Streams, String> {
        let client = line::client(&outlet.server.url)?;
        Ok(Streams { outlet, client, line: Mutex::new(None) })
    }

    async fn line(&self) -> Result<MultiplexedConnection, String> {
        let mut kept = self.line.lock().await;
        if let Some(line) = kept.as_ref() {
            return Ok(line.clone());
        }
        let line = line::connect(&self.client).await.map_err(|error| error.to_string())?;
        *kept = Some(line.clone());
        Ok(line)
    }

    fn command(&self, parcel: &Parcel) -> Cmd {
        let mut add = redis::cmd("XADD");
        add.arg(self.outlet.subject.of(&parcel.tenant, &parcel.event_type));
        if self.outlet.length_max > 0 {
            add.arg("MAXLEN").arg("~").arg(self.outlet.length_max);
        }
        add.arg("*").arg("id").arg(&parcel.id).arg("type").arg(&parcel.event_type);
        if let Some(key) = &parcel.key {
            add.arg("key").arg(key);
        }
        add.arg("event").arg(&parcel.event);
        add
    }

    async fn carry_over(&self, mut line: MultiplexedConnection, parcels: &[Parcel]) -> Vec<Carried> {
        // All are on their way before the first is answered.
        let added = parcels.iter().map(|parcel| {
            let (add, mut line) = (self.command(parcel), line.clone());
            async move { add.query_async::<String>(&mut line).await }
        });
        let mut answers: Vec<Carried> =
            join_all(added).await.into_iter().map(|added| carried(added.err())).collect();
        if let Err(why) = self.replicated(&mut line).await {
            for answer in &mut answers {
                if *answer == Carried::Confirmed {
                    *answer = Carried::Away(why.clone());
                }
            }
        }
        answers
    }

    /// Whether as many replicas as the operator wants have everything so far.
    async fn replicated(&self, line: &mut MultiplexedConnection) -> Result<(), String> {
        let wanted = self.outlet.replicas;
        if wanted == 0 {
            return Ok(());
        }
        let patience = (ANSWER_MAX / 2).as_millis() as u64;
        let asked = redis::cmd("WAIT").arg(wanted).arg(patience).query_async::<u32>(line).await;
        match asked {
            Ok(have) if have >= wanted => Ok(()),
            Ok(have) => Err(format!("{have} replicas have it, not {wanted}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn carried(error: Option<RedisError>) -> Carried {
    let Some(error) = error else { return Carried::Confirmed };
    let said = error.to_string();
    match error.kind() {
        // A key of that name holds something else. It concerns this tenant or type alone.
        ErrorKind::Extension if error.code() == Some("WRONGTYPE") => Carried::Refused(said),
        ErrorKind::Server(ServerErrorKind::ResponseError) if said.contains("too large") => {
            Carried::Refused(said)
        }
        // The whole server takes nothing now.
        ErrorKind::Extension if error.code().is_some_and(|code| FULL.contains(&code)) => Carried::Away(said),
        ErrorKind::Server(
            ServerErrorKind::BusyLoading
            | ServerErrorKind::ReadOnly
            | ServerErrorKind::MasterDown
            | ServerErrorKind::ClusterDown,
        ) => Carried::Away(said),
        ErrorKind::Extension | ErrorKind::Server(_) => Carried::Failed(said),
        _ => Carried::Away(said),
    }
}

#[async_trait]
impl Carrier for Streams {
    fn place(&self) -> String {
        self.outlet.server.to_string()
    }

    async fn carry(&self, parcels: &[Parcel]) -> Vec<Carried> {
        let carrying = async {
            let line = self.line().await?;
            Ok(self.carry_over(line, parcels).await)
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
