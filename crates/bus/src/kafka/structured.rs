//! CloudEvents in Kafka's binary form, attributes in headers and data in the value, as the JSON that is taken everywhere.

use base64::Engine as _;
use krafka::consumer::ConsumerRecord;
use serde_json::{Map, Value, value::RawValue};

/// What a record says: its value as it is, or the event that its headers and its value make together.
pub(super) fn body(record: &ConsumerRecord) -> Vec<u8> {
    let value = record.value.as_deref().unwrap_or_default();
    let headers: Vec<(&str, &[u8])> =
        record.headers.iter().filter_map(|(name, text)| Some((name.as_str(), text.as_deref()?))).collect();
    event(&headers, value).unwrap_or_else(|| value.to_vec())
}

fn event(headers: &[(&str, &[u8])], value: &[u8]) -> Option<Vec<u8>> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut event: Map<String, Value> = headers
        .iter()
        .filter_map(|(name, bytes)| Some((name.strip_prefix("ce_")?.to_owned(), Value::from(text(bytes)))))
        .collect();
    event.get("specversion")?;
    let kind = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let kind = kind.map(|(_, bytes)| text(bytes));
    if let Some(kind) = &kind {
        event.insert("datacontenttype".to_owned(), Value::from(kind.clone()));
    }
    let is_json = kind.as_deref().is_none_or(|kind| {
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        kind == "application/json" || kind.ends_with("+json")
    });
    // As it was written: numbers that a parser would round stay whole.
    let data = match serde_json::from_slice::<&RawValue>(value) {
        _ if value.is_empty() => None,
        Ok(data) if is_json => Some(("data", data.get().to_owned())),
        _ if is_json => return None,
        _ => match std::str::from_utf8(value) {
            Ok(text) => Some(("data", Value::from(text).to_string())),
            Err(_) => {
                let packed = base64::engine::general_purpose::STANDARD.encode(value);
                Some(("data_base64", Value::from(packed).to_string()))
            }
        },
    };
    let mut whole = Value::Object(event).to_string();
    if let Some((name, data)) = data {
        whole.truncate(whole.len() - 1);
        whole.push_str(&format!(",\"{name}\":{data}}}"));
    }
    Some(whole.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn headers_and_value_are_one_event() {
        let head: &[(&str, &[u8])] =
            &[("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"s"), ("ce_type", b"t")];
        let of = |kind: &'static [u8], value: &[u8]| {
            let headers = [head, &[("content-type", kind)]].concat();
            serde_json::from_slice::<Value>(&event(&headers, value).unwrap()).unwrap()
        };
        let json = of(b"application/json; charset=utf-8", b"{\"n\": 1}");
        assert_eq!((&json["id"], &json["data"]), (&json!("1"), &json!({ "n": 1 })));
        assert_eq!(of(b"text/plain", b"hello")["data"], "hello");
        assert_eq!(of(b"application/octet-stream", &[0xff, 0])["data_base64"], "/wA=");
        let whole = event(head, b"{\"n\": 123456789012345678901234567890}").unwrap();
        assert!(String::from_utf8(whole).unwrap().contains("123456789012345678901234567890"));
        assert_eq!(event(head, b"{no json"), None, "it is taken as it is, and found to be no event");
        assert_eq!(event(&[("content-type", b"application/cloudevents+json")], b"{}"), None);
        let bare: Value = serde_json::from_slice(&event(head, b"").unwrap()).unwrap();
        assert_eq!(bare.get("data"), None);
    }
}
