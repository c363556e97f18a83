//! Both ways through the mapping.

use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn cloud_event(envelope: Value) -> Value {
    to_cloud_event(&Data::from_json(envelope)).expect("an envelope").to_json()
}

fn refused(envelope: Value) -> String {
    to_cloud_event(&Data::from_json(envelope)).expect_err("no envelope")
}

#[test]
fn every_field_has_its_attribute() {
    let event = cloud_event(json!({
        "eventId": "evt-1", "eventType": "OrderPlaced", "tenantId": "acme", "projectId": "p", "moduleId": "m",
        "traceId": TRACE, "correlationId": "c", "causationId": "evt-0", "occurredAt": "2026-05-09T10:00:00Z",
        "payload": { "order": 1 },
    }));
    let traceparent = event["traceparent"].as_str().expect("a trace").to_owned();
    assert!(
        traceparent.starts_with(&format!("00-{TRACE}-")) && traceparent.ends_with("-01"),
        "{traceparent}"
    );
    let expected = json!({
        "specversion": "1.0", "id": "evt-1", "type": "OrderPlaced", "source": SOURCE, "tenantid": "acme",
        "projectid": "p", "moduleid": "m", "correlationid": "c", "causationid": "evt-0",
        "time": "2026-05-09T10:00:00Z", "data": { "order": 1 }, "datacontenttype": "application/json",
        "traceparent": traceparent,
    });
    assert_eq!(event, expected);
}

#[test]
fn a_trace_that_is_none_of_w3c_is_kept_as_it_is() {
    let envelope = json!({ "eventId": "1", "eventType": "T", "source": "s", "traceId": "order-7" });
    let event = cloud_event(envelope.clone());
    assert_eq!((&event["traceid"], event.get("traceparent")), (&json!("order-7"), None));
    assert_eq!(to_envelope(&Data::from_json(event)).to_json(), envelope);
}

#[test]
fn a_cloud_event_is_no_envelope() {
    assert!(!is_envelope(&Data::from_json(json!({ "specversion": "1.0", "id": "1", "eventId": "x" }))));
    assert!(is_envelope(&Data::from_json(json!({ "eventType": "T" }))));
    assert!(!is_envelope(&Data::from_json(json!([1]))));
}

#[test]
fn what_is_no_envelope_is_refused_by_name() {
    for (envelope, said) in [
        (json!({ "eventType": "T" }), "needs `eventId`"),
        (json!({ "eventId": 7, "eventType": "T" }), "needs `eventId`"),
        (json!({ "eventId": "1" }), "needs `eventType`"),
        (json!({ "eventId": "1", "eventType": "T", "eventTime": "now" }), "no `eventTime`"),
        (
            json!({ "eventId": "1", "eventType": "T", "extensions": { "id": "2" } }),
            "`id` has a place of its own",
        ),
        (
            json!({ "eventId": "1", "eventType": "T", "extensions": { "Sku": "2" } }),
            "no name of an attribute",
        ),
        (json!({ "eventId": "1", "eventType": "T", "extensions": 1 }), "is an object"),
    ] {
        let detail = refused(envelope);
        assert!(detail.contains(said), "{detail}");
    }
}

fn text() -> impl Strategy<Value = Value> {
    "[a-zA-Z0-9 .:-]{1,12}".prop_map(Value::String)
}

proptest! {
    #[test]
    fn a_cloud_event_comes_back_as_it_was(
        attributes in proptest::collection::btree_map(
            prop_oneof![
                Just("source".to_owned()), Just("subject".to_owned()), Just("tenantid".to_owned()),
                Just("correlationid".to_owned()), Just("version".to_owned()), Just("time".to_owned()), "x[a-z0-9]{1,6}",
            ],
            text(), 0..7),
        trace in proptest::option::of(prop_oneof![
            Just(format!("00-{TRACE}-00f067aa0ba902b7-00")), Just("no trace at all".to_owned()),
        ]),
        kind in proptest::option::of(Just("application/json")),
    ) {
        let mut event = json!({ "specversion": "1.0", "id": "1", "type": "T", "source": "s" });
        for (name, value) in attributes {
            event[name] = value;
        }
        if let Some(trace) = trace {
            event["traceparent"] = trace.into();
        }
        if let Some(kind) = kind {
            event["data"] = json!([1]);
            event["datacontenttype"] = kind.into();
        }
        let event = Data::from_json(event);
        let back = to_cloud_event(&to_envelope(&event));
        prop_assert_eq!(back.map(|back| back.to_json()), Ok(event.to_json()));
    }
}
