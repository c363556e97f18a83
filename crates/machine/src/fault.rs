//! Errors of the definition language: RFC 7807 objects that a workflow can raise and catch.

use crate::data::Data;
use serde::{Deserialize, Serialize};

/// The standard error kinds of the language, with their fixed statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Configuration,
    Validation,
    Expression,
    Authentication,
    Authorization,
    Timeout,
    Communication,
    Runtime,
}

impl Kind {
    pub fn word(self) -> &'static str {
        match self {
            Kind::Configuration => "configuration",
            Kind::Validation => "validation",
            Kind::Expression => "expression",
            Kind::Authentication => "authentication",
            Kind::Authorization => "authorization",
            Kind::Timeout => "timeout",
            Kind::Communication => "communication",
            Kind::Runtime => "runtime",
        }
    }

    pub fn status(self) -> u16 {
        match self {
            Kind::Configuration | Kind::Validation | Kind::Expression => 400,
            Kind::Authentication => 401,
            Kind::Authorization => 403,
            Kind::Timeout => 408,
            Kind::Communication | Kind::Runtime => 500,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Kind::Configuration => "Configuration Error",
            Kind::Validation => "Validation Error",
            Kind::Expression => "Expression Error",
            Kind::Authentication => "Authentication Error",
            Kind::Authorization => "Authorization Error",
            Kind::Timeout => "Timeout Error",
            Kind::Communication => "Communication Error",
            Kind::Runtime => "Runtime Error",
        }
    }
}

/// The base under which standard error types are raised.
pub const TYPE_BASE: &str = "https://serverlessworkflow.io/spec/1.0.0/errors/";

/// One error of the language.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    #[serde(rename = "type")]
    pub error_type: String,
    pub status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// JSON pointer of the step that raised it; filled in by the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
}

/// Its members as they are stored.
const MEMBERS: [&str; 5] = ["type", "status", "title", "detail", "instance"];

impl Fault {
    pub fn new(kind: Kind, detail: impl Into<String>) -> Fault {
        Fault {
            error_type: format!("{TYPE_BASE}{}", kind.word()),
            status: kind.status(),
            title: Some(kind.title().to_owned()),
            detail: Some(storable(detail.into())),
            instance: None,
        }
    }

    /// A stored fault as far as this build knows it, for whoever only looks: it is not written back.
    pub fn shown(stored: &[u8]) -> Option<Fault> {
        let mut members: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(stored).ok()?;
        members.retain(|name, _| MEMBERS.contains(&name.as_str()));
        serde_json::from_value(members.into()).ok()
    }

    /// The fault as the object that `catch.as` binds and the API shows.
    pub fn to_data(&self) -> Data {
        Data::from_json(serde_json::to_value(self).expect("a fault is plain JSON"))
    }

    /// True if `wanted` names the same error type. The four historical spellings of standard types are equal
    /// ({serverlessworkflow.io, open-workflow-specification.org} x {/spec/1.0.0/errors/, /dsl/errors/types/}).
    pub fn is_type(&self, wanted: &str) -> bool {
        self.error_type == wanted
            || matches!((standard_word(&self.error_type), standard_word(wanted)), (Some(a), Some(b)) if a == b)
    }
}

/// A text of whoever failed, as it can be stored: databases keep no NUL, so each is replaced by U+FFFD.
pub fn storable(text: String) -> String {
    match text.contains('\0') {
        true => text.replace('\0', "\u{fffd}"),
        false => text,
    }
}

fn standard_word(error_type: &str) -> Option<&str> {
    let rest = error_type.strip_prefix("https://")?;
    let rest = rest
        .strip_prefix("serverlessworkflow.io")
        .or_else(|| rest.strip_prefix("open-workflow-specification.org"))?;
    let word =
        rest.strip_prefix("/spec/1.0.0/errors/").or_else(|| rest.strip_prefix("/dsl/errors/types/"))?;
    Some(word.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_a_newer_build_is_shown_as_far_as_it_is_known_and_read_by_nobody() {
        let fault = Fault { instance: Some("/do/0/a".to_owned()), ..Fault::new(Kind::Timeout, "late") };
        let mut json = serde_json::to_value(&fault).expect("plain JSON");
        assert_eq!(Fault::shown(json.to_string().as_bytes()), Some(fault.clone()));
        json["dreams"] = 1.into();
        assert_eq!(Fault::shown(json.to_string().as_bytes()), Some(fault));
        let error = serde_json::from_value::<Fault>(json).expect_err("a member is not known");
        assert!(crate::newer::says_unknown(&error), "{error}");
    }
}
