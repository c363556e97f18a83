//! The two forms that an event comes in: a CloudEvent, which is what is stored, and the envelope that products with a
//! catalogue of their own send (`eventId`, `eventType`, `payload`).
//!
//! [`MAPPING`] is the whole translation but for the trace; [`to_cloud_event`] and [`to_envelope`] are each other's inverse,
//! except that data without a `datacontenttype` gets the one it has by default.

use crate::data::Data;
use sha2::{Digest, Sha256};

/// Attributes of a CloudEvent and what the envelope calls them.
pub const MAPPING: &[(&str, &str)] = &[
    ("id", "eventId"),
    ("type", "eventType"),
    ("source", "source"),
    ("subject", "subject"),
    ("tenantid", "tenantId"),
    ("projectid", "projectId"),
    ("moduleid", "moduleId"),
    ("correlationid", "correlationId"),
    ("causationid", "causationId"),
    ("agentid", "agentId"),
    ("skillid", "skillId"),
    ("artifactid", "artifactId"),
    ("environment", "environment"),
    ("version", "version"),
    ("time", "occurredAt"),
    ("data", "payload"),
];

/// The source of an envelope that names none.
pub const SOURCE: &str = "envelope";
/// Where attributes stand that the envelope has no name for.
const EXTENSIONS: &str = "extensions";
const JSON: &str = "application/json";

/// Whether this is an envelope rather than a CloudEvent, which has a `specversion`.
pub fn is_envelope(event: &Data) -> bool {
    event.get("specversion").is_none() && (event.get("eventId").is_some() || event.get("eventType").is_some())
}

/// The CloudEvent that an envelope stands for, or what is wrong with it.
pub fn to_cloud_event(envelope: &Data) -> Result<Data, String> {
    let mut attributes = vec![("specversion".to_owned(), Data::text("1.0"))];
    let mut trace = None;
    for (key, value) in envelope.entries().unwrap_or_default() {
        if value.is_null() && key != "payload" {
            continue;
        }
        match (key.as_str(), MAPPING.iter().find(|(_, name)| *name == key)) {
            (_, Some((attribute, _))) => attributes.push(((*attribute).to_owned(), value)),
            ("traceId", _) => trace = Some(value),
            (EXTENSIONS, _) => attributes.extend(extensions(&value)?),
            _ => {
                return Err(format!(
                    "the envelope has no `{}`; other attributes stand in `extensions`",
                    key.chars().take(64).collect::<String>()
                ));
            }
        }
    }
    let has = |attributes: &[(String, Data)], name: &str| attributes.iter().any(|(key, _)| key == name);
    let id = attributes.iter().find(|(key, _)| key == "id").and_then(|(_, value)| value.as_str());
    let Some(id) = id.map(str::to_owned) else {
        return Err("the envelope needs `eventId`, a text".to_owned());
    };
    if !has(&attributes, "type") {
        return Err("the envelope needs `eventType`, a text".to_owned());
    }
    if !has(&attributes, "source") {
        attributes.push(("source".to_owned(), Data::text(SOURCE)));
    }
    if !has(&attributes, "datacontenttype") && has(&attributes, "data") {
        attributes.push(("datacontenttype".to_owned(), Data::text(JSON)));
    }
    if let Some(trace) = trace.filter(|_| !has(&attributes, "traceparent")) {
        attributes.push(match trace.as_str().filter(|trace| is_trace(trace)) {
            Some(trace) => ("traceparent".to_owned(), Data::text(traceparent(trace, &id))),
            None => ("traceid".to_owned(), trace),
        });
    }
    Ok(Data::map(attributes))
}

/// The envelope that a CloudEvent is offered as.
pub fn to_envelope(event: &Data) -> Data {
    let mut entries = Vec::new();
    let mut others = Vec::new();
    let id = event.get("id");
    let id = id.as_ref().and_then(Data::as_str).unwrap_or_default();
    for (attribute, value) in event.entries().unwrap_or_default() {
        match (attribute.as_str(), MAPPING.iter().find(|(name, _)| *name == attribute)) {
            (_, Some((_, name))) => entries.push(((*name).to_owned(), value)),
            ("specversion", _) => {}
            ("datacontenttype", _) if value.as_str() == Some(JSON) => {}
            ("traceid", _) => entries.push(("traceId".to_owned(), value)),
            ("traceparent", _) => {
                let parent = value.as_str().unwrap_or_default();
                let trace = parent.split('-').nth(1).filter(|trace| is_trace(trace));
                // Another span than the one that follows from the id would be lost.
                if trace.is_none_or(|trace| traceparent(trace, id) != parent) {
                    others.push((attribute, value.clone()));
                }
                entries.extend(trace.map(|trace| ("traceId".to_owned(), Data::text(trace))));
            }
            _ => others.push((attribute, value)),
        }
    }
    if !others.is_empty() {
        entries.push((EXTENSIONS.to_owned(), Data::map(others)));
    }
    Data::map(entries)
}

fn extensions(value: &Data) -> Result<Vec<(String, Data)>, String> {
    let entries = value.entries().ok_or("`extensions` is an object")?;
    let is_taken = |name: &str| name == "specversion" || MAPPING.iter().any(|(known, _)| *known == name);
    match entries.iter().find(|(name, _)| is_taken(name) || !is_attribute(name)) {
        Some((name, _)) if is_taken(name) => Err(format!("`{name}` has a place of its own in the envelope")),
        Some((name, _)) => Err(format!(
            "`{}` is no name of an attribute: lower-case letters and digits",
            name.chars().take(64).collect::<String>()
        )),
        None => Ok(entries),
    }
}

/// Whether CloudEvents allow an attribute of that name, or this is where data stands that is no text.
pub fn is_attribute(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name == "data_base64" || (!name.is_empty() && name.bytes().all(plain))
}

fn is_trace(text: &str) -> bool {
    let hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 32 && text.bytes().all(hexadecimal) && text.bytes().any(|byte| byte != b'0')
}

/// A span that follows from the event's id, so that the same envelope is always the same event.
fn traceparent(trace: &str, id: &str) -> String {
    let hash: [u8; 32] = Sha256::digest(id.as_bytes()).into();
    let span = u64::from_be_bytes(hash[..8].try_into().expect("eight bytes")).max(1);
    format!("00-{trace}-{span:016x}-01")
}

#[cfg(test)]
mod tests;
