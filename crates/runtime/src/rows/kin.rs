//! Rows between parent and child: the word of an end, the word of a parent that no longer waits, and datasets.

use super::{Born, Change, to_json};
use crate::fanout;
use machine::{
    Data, TenantId, Time,
    child::{Outcome, Parent, Tally, to_data},
    command::{ENVELOPE_MAX, RUNTIME_PROVIDER, SignalEnvelope, SignalType},
    id,
};
use store::{
    Write,
    datasets::{DatasetRow, ItemsRow},
    rows::SignalRow,
};
use uuid::Uuid;

/// What the signals between parent and child are derived from, far from any token.
const ENDED: u64 = u64::MAX;
const CLOSED: u64 = u64::MAX - 1;
/// How much of one item's error goes with the count; the whole is among the results.
const FAULT_CHARS_MAX: usize = 1000;

impl Change<'_> {
    /// A child's end: its result among those of the step, and a word to the parent.
    pub(super) fn tell_parent(
        &self,
        told: &(Parent, Outcome),
        version: i64,
        writes: &mut Vec<Write>,
        born: &mut Born,
    ) {
        let (parent, outcome) = told;
        let child = Data::text(id::show(id::Kind::Instance, self.subject.instance));
        let mut payload = vec![("child".to_owned(), child.clone())];
        match &parent.item {
            Some(item) => {
                let result = fanout::result(u64::from(item.index), outcome);
                writes.push(Write::Items(ItemsRow {
                    dataset: item.results,
                    first: u64::from(item.index),
                    round: item.round,
                    count: 1,
                    items: to_json(&[result]),
                }));
                let mut tally = Tally::default();
                tally.count(outcome);
                if let Some(detail) = tally.fault.as_mut().and_then(|fault| fault.detail.as_mut()) {
                    *detail = detail.chars().take(FAULT_CHARS_MAX).collect();
                }
                payload.push(("tally".to_owned(), to_data(&tally)));
            }
            None => payload.push(("outcome".to_owned(), to_data(outcome))),
        }
        let mut envelope = SignalEnvelope {
            signal_id: id::derive(self.subject.instance, ENDED),
            workflow_instance_id: parent.instance,
            waiting_token: Some(parent.token.to_string()),
            payload: Data::map(payload),
            ..self.envelope(SignalType::SubWorkflowCompleted, parent.token, version, None)
        };
        let mut bytes = to_json(&envelope);
        if bytes.len() > ENVELOPE_MAX {
            // The parent's turn reads it from the child's row.
            envelope.payload = Data::map([("child".to_owned(), child)]);
            bytes = to_json(&envelope);
        }
        let row = SignalRow {
            id: envelope.signal_id,
            instance: parent.instance,
            signal_type: "SubWorkflowCompleted".to_owned(),
            envelope: bytes,
            created_at: self.now,
            visible_at: self.now,
            attempt: 0,
            owner: None,
            taken_over: 0,
        };
        writes.push(self.signal(row, born));
    }

    pub(super) fn dataset(&self, id: Uuid, count: u64, items: &[Data], writes: &mut Vec<Write>) {
        if !items.is_empty() {
            let length = items.len() as u64;
            let items = to_json(&items);
            writes.push(Write::Items(ItemsRow { dataset: id, first: 0, round: 0, count: length, items }));
        }
        writes.push(Write::Dataset(DatasetRow {
            id,
            count,
            owner: Some(self.subject.instance),
            created_at: self.now,
        }));
    }
}

/// The signal that tells a child that its parent no longer waits for it.
pub(crate) fn parent_closed(tenant: &TenantId, child: Uuid, now: Time) -> SignalRow {
    let signal_id = id::derive(child, CLOSED);
    let envelope = SignalEnvelope {
        signal_id,
        workflow_instance_id: child,
        runtime_provider: RUNTIME_PROVIDER.to_owned(),
        signal_type: SignalType::ParentClosed,
        expected_version: 0,
        waiting_token: None,
        occurred_at_utc: now.rfc3339(),
        due_at_utc: None,
        payload: Data::object(),
        tenant_id: Some(tenant.to_string()),
        trace_id: None,
        correlation_id: None,
    };
    SignalRow {
        id: signal_id,
        instance: child,
        signal_type: "ParentClosed".to_owned(),
        envelope: to_json(&envelope),
        created_at: now,
        visible_at: now,
        attempt: 0,
        owner: None,
        taken_over: 0,
    }
}
