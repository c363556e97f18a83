//! Calls that were not begun: nothing went out, so that no attempt is counted and nobody is told of a failure.

use crate::{
    calls,
    dead_letters::{self, Reason},
    engine::Engine,
    held::Hold,
    lost, newer,
};
use machine::{Command, Fault, TenantId, command::Call, fault::Kind, newer::says_unknown, time::Span};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use store::rows::CallRow;

/// How long a call waits at first when the store did not say what it needs.
const STORE_WAIT: Span = Span::from_millis(500);

/// Why nothing was begun.
pub(crate) enum Unbegun {
    /// The store could not be asked for a secret.
    Away(store::Error),
    /// A newer build wrote something that this one does not know.
    Newer(String),
    /// What had to be read first took so long that the lease may be over by now.
    Late,
}

impl Unbegun {
    /// Sees to what the store says, if it is that.
    pub(crate) fn heed(&self, engine: &Engine) {
        if let Unbegun::Away(error) = self {
            engine.tasks.heed(error);
        }
    }
}

/// Why nothing comes of an attempt.
pub(crate) enum Stop {
    Fault(Fault),
    Unbegun(Unbegun),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Fault(fault)
    }
}

impl From<Unbegun> for Stop {
    fn from(unbegun: Unbegun) -> Stop {
        Stop::Unbegun(unbegun)
    }
}

/// What a call to a part of the engine holds; `what` is what it should be.
pub(crate) fn read<T: DeserializeOwned>(call: &Call, what: &str) -> Result<T, Stop> {
    serde_json::from_value(call.input.to_json()).map_err(|error| match says_unknown(&error) {
        true => Unbegun::Newer(error.to_string()).into(),
        false => Fault::new(Kind::Runtime, format!("not {what}: {error}")).into(),
    })
}

/// Makes backlog of the call again.
pub(crate) async fn put_back(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    row: &CallRow,
    unbegun: Unbegun,
    hold: Hold,
) {
    engine.slots.forget(&(tenant.clone(), row.instance));
    unbegun.heed(engine);
    match unbegun {
        Unbegun::Away(error) => {
            calls::try_again(engine, tenant, row, STORE_WAIT, row.attempt, error.to_string()).await;
        }
        Unbegun::Newer(detail) => {
            if !newer::leave_call(engine, tenant, row, &detail).await {
                let mut work = calls::work(tenant, row, Command::Pause, hold);
                return dead_letters::bury(engine, &mut work, Reason::Deserialization, &detail);
            }
        }
        Unbegun::Late => {
            lost::release(engine, tenant, &[row.key()]).await;
            engine.wake.at(engine.now());
        }
    }
    drop(hold);
}
