//! The outside: the worker that has effects, the bus that takes events, the sandbox that evaluates.

use super::{
    chaos::Chaos,
    faults::REFUSED,
    seen::{Attempt, Place, Seen},
    tally, time,
};
use async_trait::async_trait;
use bus::{Carried, Carrier, Parcel};
use machine::{Data, Fault, TenantId, expr::Evaluation};
use parking_lot::Mutex;
use runtime::{engine::Evaluate, sandbox::NotRun};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;
use worker::{Class, Context, Outcome};

/// Attempts that the worker's policy allows.
pub(crate) const ATTEMPTS_MAX: u32 = 4;

/// Answers what it is told to `give`; `slow` is how many milliseconds it may take.
pub(crate) struct Effect {
    pub(crate) chaos: Arc<Chaos>,
    pub(crate) seen: Arc<Mutex<Seen>>,
}

#[async_trait]
impl worker::Worker for Effect {
    async fn handle(&self, context: &Context, input: Data) -> Outcome {
        let place = (context.instance.clone(), context.step.clone());
        self.chaos
            .note(format_args!("effect {} {} attempt {}", context.instance, context.step, context.attempt));
        let attempt =
            Attempt { key: context.key.clone(), input: input.to_json(), began: time::now(), failed: false };
        let mine = {
            let mut seen = self.seen.lock();
            let attempts = seen.attempts.entry(place.clone()).or_default();
            attempts.push(attempt);
            attempts.len() - 1
        };
        let slow = input.get("slow").and_then(|slow| slow.as_i64()).unwrap_or(30) as u64;
        sleep(Duration::from_millis(self.chaos.below(slow))).await;
        let outcome = self.outcome(&place, input);
        let last = context.attempt >= ATTEMPTS_MAX;
        let failed = match &outcome {
            Outcome::Done(data) => data.has_no_json_form(),
            Outcome::Retry { .. } => last,
            Outcome::Fail(_) => true,
        };
        if failed && let Some(attempts) = self.seen.lock().attempts.get_mut(&place) {
            attempts[mine].failed = true;
        }
        outcome
    }
}

impl Effect {
    fn outcome(&self, place: &Place, input: Data) -> Outcome {
        let levels = &self.chaos.levels;
        // What the store refuses once it refuses again, until the chaos ends.
        if self.chaos.lasts() && self.seen.lock().refused.contains(place) {
            return Outcome::Done(Data::text(REFUSED));
        }
        if self.chaos.strikes(levels.worker_retries) {
            return Outcome::retry("simulated");
        }
        if self.chaos.strikes(levels.worker_fails) {
            return Outcome::fail(Class::Validation, "simulated");
        }
        if self.chaos.strikes(levels.worker_poison) {
            return Outcome::Done(Data(machine::data::not_a_number()));
        }
        if self.chaos.strikes(levels.worker_refused) {
            self.seen.lock().refused.insert(place.clone());
            return Outcome::Done(Data::text(REFUSED));
        }
        Outcome::Done(input.get("give").unwrap_or_default())
    }
}

/// Takes events; now and then it does not say so, or does not take them at all.
pub(crate) struct Bus {
    pub(crate) chaos: Arc<Chaos>,
    pub(crate) seen: Arc<Mutex<Seen>>,
}

#[async_trait]
impl Carrier for Bus {
    fn place(&self) -> String {
        "simulated".to_owned()
    }

    async fn carry(&self, parcels: &[Parcel]) -> Vec<Carried> {
        sleep(Duration::from_millis(self.chaos.below(5))).await;
        let levels = &self.chaos.levels;
        let carried = parcels.iter().map(|parcel| {
            if self.chaos.strikes(levels.worker_retries) {
                return Carried::Failed("simulated".to_owned());
            }
            let key = parcel.key.clone().unwrap_or_default();
            if parcel.tenant == tally::tenant() {
                return Carried::Confirmed;
            }
            self.seen.lock().published.entry(key).or_default().push(parcel.id.clone());
            match self.chaos.strikes(levels.worker_retries) {
                true => Carried::Failed("the answer is lost".to_owned()),
                false => Carried::Confirmed,
            }
        });
        carried.collect()
    }
}

/// Evaluates as the sandbox process would, after a while.
pub(crate) struct Sandbox(pub(crate) Arc<Chaos>);

#[async_trait]
impl Evaluate for Sandbox {
    async fn evaluate(&self, _: &TenantId, evaluation: Evaluation) -> Result<Result<Data, Fault>, NotRun> {
        sleep(Duration::from_millis(self.0.below(20))).await;
        Ok(evaluation.run())
    }
}
