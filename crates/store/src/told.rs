//! The signal by which a wait is told about an event: the same from every adapter.

use crate::rows::SignalRow;
use machine::{
    Data, Time,
    command::{RUNTIME_PROVIDER, SignalEnvelope, SignalType},
};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// Waits that one event is told to; an event that more want is refused.
pub(crate) const TOLD_MAX: usize = 10_000;
/// Events of one type that are kept; beyond it the oldest are kept no longer.
pub(crate) const KEPT_PER_TYPE_MAX: usize = 1_000;
/// Different places that waits look for their value in, per event type.
pub(crate) const PATHS_MAX: usize = 100;

/// One wait that is told about one event.
pub(crate) struct Told<'a> {
    pub(crate) tenant: &'a str,
    pub(crate) instance: Uuid,
    pub(crate) token: u64,
    pub(crate) event: Uuid,
    pub(crate) at: Time,
    /// The wait was there when the event came.
    pub(crate) direct: bool,
}

impl Told<'_> {
    /// Scope and key of the record that the instance was told.
    pub(crate) fn note(&self) -> (String, String) {
        (format!("event:{}", self.instance.simple()), self.event.simple().to_string())
    }

    /// The signal; it names the event and does not carry it.
    pub(crate) fn signal(&self, visible_at: Time) -> SignalRow {
        let digest = Sha256::new()
            .chain_update(self.instance.as_bytes())
            .chain_update(self.token.to_be_bytes())
            .chain_update(self.event.as_bytes())
            .finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        let signal_id = uuid::Builder::from_custom_bytes(bytes).into_uuid();
        let payload = Data::map([
            ("eventId".to_owned(), Data::text(self.event.to_string())),
            ("direct".to_owned(), Data::bool(self.direct)),
        ]);
        let envelope = SignalEnvelope {
            signal_id,
            workflow_instance_id: self.instance,
            runtime_provider: RUNTIME_PROVIDER.to_owned(),
            signal_type: SignalType::ExternalSignal,
            expected_version: 0,
            waiting_token: Some(self.token.to_string()),
            occurred_at_utc: self.at.rfc3339(),
            due_at_utc: None,
            payload,
            tenant_id: Some(self.tenant.to_owned()),
            trace_id: None,
            correlation_id: None,
        };
        SignalRow {
            id: signal_id,
            instance: self.instance,
            signal_type: "ExternalSignal".to_owned(),
            envelope: serde_json::to_vec(&envelope).unwrap_or_default(),
            created_at: visible_at,
            visible_at,
            attempt: 0,
            owner: None,
            taken_over: 0,
        }
    }
}
