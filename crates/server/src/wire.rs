//! Small pieces that several resources show the same way.

use machine::Time;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema, schema::SchemaType},
};

/// A stored JSON value, passed on byte for byte.
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub(crate) struct Stored(Box<RawValue>);

impl Stored {
    /// `None` if the bytes are not JSON.
    pub(crate) fn read(bytes: &[u8]) -> Option<Stored> {
        serde_json::from_slice::<Box<RawValue>>(bytes).ok().map(Stored)
    }

    pub(crate) fn null() -> Stored {
        Stored(RawValue::NULL.to_owned())
    }

    /// Stored bytes that must be JSON; anything else is shown as null.
    pub(crate) fn of(bytes: &[u8]) -> Stored {
        Stored::read(bytes).unwrap_or_else(Stored::null)
    }
}

impl ToSchema for Stored {}

impl PartialSchema for Stored {
    fn schema() -> RefOr<Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(SchemaType::AnyValue)
            .description(Some("any JSON value"))
            .into()
    }
}

/// The list of names in stored JSON.
pub(crate) fn names(bytes: &[u8]) -> Vec<String> {
    serde_json::from_slice(bytes).unwrap_or_default()
}

pub(crate) fn time(at: Time) -> String {
    at.rfc3339()
}

pub(crate) fn time_if(at: Option<Time>) -> Option<String> {
    at.map(Time::rfc3339)
}

/// Answer of an act that leaves nothing to say but the status word.
#[derive(Serialize, ToSchema)]
pub(crate) struct Status {
    pub status: String,
}
