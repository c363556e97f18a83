//! Values on their way to the server: one alone, or a column of an array parameter, each with its type.

use bytes::BytesMut;
use std::error::Error;
use tokio_postgres::{
    Error as PgError, Row,
    types::{IsNull, ToSql, Type, to_sql_checked},
};
use uuid::Uuid;

/// PostgreSQL's text holds no NUL. It is stored as this and a `0`; this itself, as this and a `1`.
const ESCAPE: char = '\u{1a}';

/// A text on its way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Text<'a>(pub(super) &'a str);

impl ToSql for Text<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        if !self.0.contains(['\0', ESCAPE]) {
            return self.0.to_sql(kind, out);
        }
        let mut escaped = String::with_capacity(self.0.len() + 8);
        for letter in self.0.chars() {
            match letter {
                '\0' => escaped.extend([ESCAPE, '0']),
                ESCAPE => escaped.extend([ESCAPE, '1']),
                other => escaped.push(other),
            }
        }
        escaped.as_str().to_sql(kind, out)
    }

    fn accepts(kind: &Type) -> bool {
        <&str as ToSql>::accepts(kind)
    }

    to_sql_checked!();
}

/// What a column of an answer is read as.
pub(super) trait Get: Sized {
    fn get(row: &Row, at: usize) -> Result<Self, PgError>;
}

/// The value at a place of a row.
pub(super) fn get<T: Get>(row: &Row, at: usize) -> Result<T, PgError> {
    T::get(row, at)
}

macro_rules! as_it_is {
    ($($kind:ty)*) => {
        $(impl Get for $kind {
            fn get(row: &Row, at: usize) -> Result<$kind, PgError> {
                row.try_get(at)
            }
        })*
    };
}

as_it_is! { i64 Option<i64> bool Uuid Option<Uuid> Vec<u8> Option<Vec<u8>> }

impl Get for String {
    fn get(row: &Row, at: usize) -> Result<String, PgError> {
        row.try_get::<_, &str>(at).map(plain)
    }
}

impl Get for Option<String> {
    fn get(row: &Row, at: usize) -> Result<Option<String>, PgError> {
        row.try_get::<_, Option<&str>>(at).map(|text| text.map(plain))
    }
}

/// A text as it was before it was stored.
fn plain(stored: &str) -> String {
    if !stored.contains(ESCAPE) {
        return stored.to_owned();
    }
    let mut text = String::with_capacity(stored.len());
    let mut letters = stored.chars();
    while let Some(letter) = letters.next() {
        match (letter, letter == ESCAPE) {
            (_, true) => text.push(if letters.next() == Some('0') { '\0' } else { ESCAPE }),
            (letter, false) => text.push(letter),
        }
    }
    text
}

/// One value of a row.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Text(Option<Text<'a>>),
    Bytes(Option<&'a [u8]>),
    Id(Option<Uuid>),
    Int(Option<i64>),
    Flag(bool),
    Texts(&'a [Text<'a>]),
    Ints(&'a [i64]),
    Ids(&'a [Uuid]),
}

impl Value<'_> {
    pub(super) fn param(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Value::Text(value) => (value, Type::TEXT),
            Value::Bytes(value) => (value, Type::BYTEA),
            Value::Id(value) => (value, Type::UUID),
            Value::Int(value) => (value, Type::INT8),
            Value::Flag(value) => (value, Type::BOOL),
            Value::Texts(value) => (value, Type::TEXT_ARRAY),
            Value::Ints(value) => (value, Type::INT8_ARRAY),
            Value::Ids(value) => (value, Type::UUID_ARRAY),
        }
    }
}

/// The same place of many rows.
#[derive(Debug)]
pub(super) enum Column<'a> {
    Text(Vec<Option<Text<'a>>>),
    Bytes(Vec<Option<&'a [u8]>>),
    Id(Vec<Option<Uuid>>),
    Int(Vec<Option<i64>>),
    Flag(Vec<bool>),
}

impl<'a> Column<'a> {
    /// An empty column for values like this one.
    pub(super) fn like(value: &Value<'a>) -> Column<'a> {
        match value {
            Value::Text(_) => Column::Text(Vec::new()),
            Value::Bytes(_) => Column::Bytes(Vec::new()),
            Value::Id(_) => Column::Id(Vec::new()),
            Value::Int(_) => Column::Int(Vec::new()),
            Value::Flag(_) => Column::Flag(Vec::new()),
            Value::Texts(_) | Value::Ints(_) | Value::Ids(_) => unreachable!("an array is no value of a row"),
        }
    }

    pub(super) fn push(&mut self, value: Value<'a>) {
        match (self, value) {
            (Column::Text(column), Value::Text(value)) => column.push(value),
            (Column::Bytes(column), Value::Bytes(value)) => column.push(value),
            (Column::Id(column), Value::Id(value)) => column.push(value),
            (Column::Int(column), Value::Int(value)) => column.push(value),
            (Column::Flag(column), Value::Flag(value)) => column.push(value),
            _ => unreachable!("rows of one statement have values of the same kinds"),
        }
    }

    pub(super) fn param(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Column::Text(values) => (values, Type::TEXT_ARRAY),
            Column::Bytes(values) => (values, Type::BYTEA_ARRAY),
            Column::Id(values) => (values, Type::UUID_ARRAY),
            Column::Int(values) => (values, Type::INT8_ARRAY),
            Column::Flag(values) => (values, Type::BOOL_ARRAY),
        }
    }
}

pub(super) fn text(value: &str) -> Value<'_> {
    Value::Text(Some(Text(value)))
}

pub(super) fn maybe_text(value: Option<&str>) -> Value<'_> {
    Value::Text(value.map(Text))
}

pub(super) fn bytes(value: &[u8]) -> Value<'_> {
    Value::Bytes(Some(value))
}

pub(super) fn maybe_bytes(value: &Option<Vec<u8>>) -> Value<'_> {
    Value::Bytes(value.as_deref())
}

pub(super) fn id(value: Uuid) -> Value<'static> {
    Value::Id(Some(value))
}

pub(super) fn maybe_id(value: Option<Uuid>) -> Value<'static> {
    Value::Id(value)
}

pub(super) fn int(value: i64) -> Value<'static> {
    Value::Int(Some(value))
}

/// PostgreSQL has no unsigned integers. Tokens are only compared for equality, so the bits are what counts.
pub(super) fn token(value: u64) -> Value<'static> {
    Value::Int(Some(value.cast_signed()))
}

pub(super) fn time(value: machine::Time) -> Value<'static> {
    Value::Int(Some(value.0))
}

pub(super) fn maybe_time(value: Option<machine::Time>) -> Value<'static> {
    Value::Int(value.map(|time| time.0))
}
