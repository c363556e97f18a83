//! `map:1.0.0@default`: one child per item, a bounded number at once.
//!
//! Items and results are outside the instance, in datasets; the frame holds a cursor and counters. Children are
//! started in batches: each is one call, and the commit that takes the call's row creates the children of the batch
//! and moves the counters. A child that ends later says so by a signal; many of them are counted in one turn.

use super::{
    Ran, Turn,
    body::kind_of,
    child::{invalid, workflow_of},
    eval::Stop,
};
use crate::{
    child::*,
    command::Effect,
    data::Data,
    fault::{Fault, Kind},
    id,
    state::{Body, Next, Wait, WaitKind},
};
use uuid::Uuid;

const CONCURRENCY: u64 = 100;
const BATCH: u64 = 100;

impl Turn<'_> {
    pub(super) fn begin_map(&mut self, branch: u32, with: &Data) -> Result<(), Stop> {
        self.depth_below()?;
        let workflow = workflow_of(with)?;
        let number = |key: &str, default: u64, least: u64, max: u64| match with.get(key) {
            None => Ok(default),
            Some(value) => {
                let number = value.as_i64().and_then(|n| u64::try_from(n).ok());
                number.filter(|n| (least..=max).contains(n)).ok_or_else(|| {
                    invalid(format!("{key} must be a whole number from {least} to {max}, it is {value:?}"))
                })
            }
        };
        let tolerated = match with.get("onError") {
            None => 0,
            Some(word) if word.as_str() == Some("fail") => 0,
            Some(word) if word.as_str() == Some("collect") => {
                number("toleratedFailures", u64::MAX, 0, i64::MAX as u64)?
            }
            Some(word) => {
                return Err(invalid(format!("onError must be fail or collect, it is {word:?}")).into());
            }
        };
        let (items, total) = self.items_of(with)?;
        let results = self.dataset_id();
        let map = Map {
            workflow,
            items,
            results,
            total: None,
            cursor: 0,
            running: 0,
            succeeded: 0,
            failed: 0,
            concurrency: number("concurrency", CONCURRENCY, 1, CONCURRENCY_MAX)?,
            batch: number("batchSize", BATCH, 1, BATCH_MAX)?,
            tolerated,
            rounds: vec![],
            fault: None,
        };
        self.top_mut(branch).body = Body::Map(Box::new(map));
        self.begin_round(branch);
        if let Some(total) = total {
            self.count_items(branch, total);
        }
        self.map_on(branch).map_err(Stop::Needs)
    }

    /// The dataset of the items, and how many there are if they came as an array.
    fn items_of(&mut self, with: &Data) -> Result<(Uuid, Option<u64>), Fault> {
        let given = with.get("items").unwrap_or_default();
        if let Some(text) = given.as_str() {
            let id =
                id::parse(id::Kind::Dataset, text).map_err(|error| invalid(format!("items: {error}")))?;
            return Ok((id, None));
        }
        let Some(items) = given.items() else {
            let found = kind_of(&given);
            return Err(invalid(format!("items must be an array or the id of a dataset, it is {found}")));
        };
        let items: Vec<Data> = items.collect();
        if items.len() > INLINE_ITEMS_MAX || given.to_bytes().len() > INLINE_BYTES_MAX {
            return Err(invalid(format!(
                "items has {} elements; beyond {INLINE_ITEMS_MAX} elements or {} KiB, upload them as a dataset \
                 and give its id",
                items.len(),
                INLINE_BYTES_MAX / 1024
            )));
        }
        let (id, total) = (self.dataset_id(), items.len() as u64);
        self.effects.push(Effect::Dataset { id, count: total, items });
        Ok((id, Some(total)))
    }

    fn dataset_id(&mut self) -> Uuid {
        let sequence = self.state.next_sequence();
        id::derive(self.subject.instance, sequence)
    }

    /// Makes the wait that stands for all children of a round.
    fn begin_round(&mut self, branch: u32) {
        let token = self.add_wait(branch, WaitKind::Map, None);
        self.mark_begun(branch, token);
        if let Body::Map(map) = &mut self.top_mut(branch).body {
            map.rounds.push(token);
        }
    }

    fn map(&self, branch: u32) -> Option<&Map> {
        match &self.state.branch(branch)?.frames.last()?.body {
            Body::Map(map) => Some(map),
            _ => None,
        }
    }

    fn map_mut(&mut self, branch: u32) -> Option<&mut Map> {
        match &mut self.state.branch_mut(branch)?.frames.last_mut()?.body {
            Body::Map(map) => Some(map),
            _ => None,
        }
    }

    /// It is known how many items there are; a batch that was begun before may have been shorter.
    fn count_items(&mut self, branch: u32, total: u64) {
        let Some(map) = self.map_mut(branch).filter(|map| map.total.is_none()) else { return };
        map.total = Some(total);
        map.running -= map.cursor.saturating_sub(total).min(map.running);
        map.cursor = map.cursor.min(total);
        let id = map.results;
        self.effects.push(Effect::Dataset { id, count: total, items: vec![] });
    }

    /// Starts the items that have no result yet again. `false` if that was done too often.
    pub(super) fn map_again(&mut self, branch: u32) -> Result<(), Stop> {
        let Some(map) = self.map_mut(branch) else { return Ok(()) };
        if map.rounds.len() >= ROUNDS_MAX {
            let detail = format!("the failed items were started again {ROUNDS_MAX} times");
            return Err(Stop::Fault(Fault::new(Kind::Runtime, detail)));
        }
        (map.cursor, map.running, map.succeeded, map.failed) = (0, 0, 0, 0);
        map.fault = None;
        self.begin_round(branch);
        self.map_on(branch).map_err(Stop::Needs)
    }

    /// Some children were started or have ended.
    pub(super) fn items(&mut self, token: u64, tally: &Tally) -> Ran<bool> {
        let Some(position) = self.state.waits.iter().position(|wait| wait.token == token) else {
            return Ok(false);
        };
        let Wait { kind, branch, .. } = self.state.waits[position];
        if self.map(branch).is_none() {
            return Ok(false);
        }
        // The wait for a batch ends with it; the wait for the children stays.
        if kind == WaitKind::Call {
            self.state.waits.remove(position);
        }
        if let Some(total) = tally.total {
            self.count_items(branch, total);
        }
        if let Some(map) = self.map_mut(branch) {
            map.running -= (tally.succeeded + tally.failed).min(map.running);
            map.succeeded += tally.succeeded;
            map.failed += tally.failed;
            map.fault = map.fault.take().or_else(|| tally.fault.clone());
        }
        self.map_on(branch)?;
        Ok(true)
    }

    /// Faults, starts more, or ends the step, as the counters say.
    fn map_on(&mut self, branch: u32) -> Ran<()> {
        let Some(map) = self.map(branch) else { return Ok(()) };
        if map.failed > map.tolerated {
            let fault = too_many_failed(map);
            return self.fail(branch, fault);
        }
        while let Some((first, count)) = self.next_batch(branch) {
            if let Err(Stop::Fault(fault)) = self.start_batch(branch, first, count) {
                return self.fail(branch, fault);
            }
        }
        match self.map(branch) {
            Some(map) if map.total.is_some_and(|total| map.cursor >= total) && map.running == 0 => {
                self.map_done(branch);
            }
            _ => {}
        }
        Ok(())
    }

    /// Items that may be started now: as many as there is room for, and not too few at a time.
    fn next_batch(&self, branch: u32) -> Option<(u64, u64)> {
        let frame = self.top(branch);
        let Body::Map(map) = &frame.body else { return None };
        let of_frame = |wait: &&Wait| wait.frame == frame.sequence && wait.kind == WaitKind::Call;
        let starting = self.state.waits.iter().filter(of_frame).count();
        let starting_max = if map.total.is_some() { STARTING_MAX } else { 1 };
        let left = map.total.map_or(u64::MAX, |total| total - map.cursor);
        let room = map.concurrency.saturating_sub(map.running);
        let count = map.batch.min(room).min(left);
        let enough = map.batch.min(map.concurrency).div_ceil(4).min(left);
        (starting < starting_max && count > 0 && count >= enough).then_some((map.cursor, count))
    }

    fn start_batch(&mut self, branch: u32, first: u64, count: u64) -> Result<(), Stop> {
        let depth = self.depth_below()?;
        let Some(map) = self.map_mut(branch) else { return Ok(()) };
        map.cursor += count;
        map.running += count;
        let call = StartItemsCall {
            workflow: map.workflow.clone(),
            items: map.items,
            first,
            count,
            depth,
            results: map.results,
            rounds: map.rounds.clone(),
        };
        self.call_engine(branch, START_ITEMS, to_data(&call));
        Ok(())
    }

    /// Hands something to the engine and waits for its answer.
    fn call_engine(&mut self, branch: u32, target: &str, input: Data) {
        let Some(step) = self.top(branch).step.map(|step| self.program.step(step)) else { return };
        let key = self.effect_key(branch, step);
        let token = self.add_wait(branch, WaitKind::Call, None);
        self.effects.push(self.own_call(token, target, key, &step.reference, input));
    }

    /// Every item has ended. Few results come with the answer, many by reference only.
    fn map_done(&mut self, branch: u32) {
        let Some(map) = self.map(branch).cloned() else { return };
        if let Some(token) = map.rounds.last() {
            self.take_wait(*token, WaitKind::Map);
        }
        let total = map.total.unwrap_or(0);
        let output = Data::map([
            ("succeeded".to_owned(), Data::int(map.succeeded as i64)),
            ("failed".to_owned(), Data::int(map.failed as i64)),
            ("resultsRef".to_owned(), Data::text(id::show(id::Kind::Dataset, map.results))),
        ]);
        match total as usize <= INLINE_ITEMS_MAX {
            true => {
                let call = ResultsCall { results: map.results, total, output };
                self.call_engine(branch, RESULTS, to_data(&call));
            }
            false => self.push(branch, Next::Complete { output, then: None }),
        }
    }

    /// The step no longer waits for its children: they are cancelled, a page at a time.
    pub(super) fn close_items(&mut self, wait: &Wait) {
        let token = self.state.next_sequence();
        let key = id::derive(self.subject.instance, token).simple().to_string();
        let input = to_data(&CloseItemsCall { token: wait.token });
        self.effects.push(self.own_call(token, CLOSE_ITEMS, key, "", input));
    }
}

fn too_many_failed(map: &Map) -> Fault {
    let first = map.fault.clone();
    if map.tolerated == 0 && map.failed == 1 {
        return first.unwrap_or_else(|| Fault::new(Kind::Runtime, "an item failed"));
    }
    let mut fault = first.unwrap_or_else(|| Fault::new(Kind::Runtime, String::new()));
    let detail = fault.detail.take().or(fault.title.clone()).unwrap_or_else(|| fault.error_type.clone());
    let Map { failed, tolerated, .. } = map;
    fault.detail = Some(format!("{failed} items failed, {tolerated} are tolerated; one of them: {detail}"));
    fault.instance = None;
    fault
}
