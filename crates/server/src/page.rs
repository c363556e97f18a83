//! Pages of lists: how long they are and where they begin.
//!
//! A cursor is opaque to clients. It is bound to the tenant and the list it came from, so that using it elsewhere is
//! refused rather than answered with a page from the wrong place.

use crate::{
    auth::Caller,
    code,
    problem::Problem,
    query::{self, Parameters},
};
use machine::id::Kind;
use serde::Serialize;
use sha2::{Digest, Sha256};
use store::views::PAGE_MAX;
use utoipa::ToSchema;
use uuid::Uuid;

/// How many items a page has when the client does not say.
const PAGE_DEFAULT: usize = 50;

/// The parameter of lists that says where a page begins.
const CURSOR: &str = "cursor";

/// One page.
#[derive(Serialize, ToSchema)]
pub(crate) struct Page<T> {
    pub items: Vec<T>,
    /// Give this as `cursor` for the next page; null on the last one.
    pub next: Option<String>,
}

/// The parameter `limit`.
pub(crate) fn limit(parameters: &Parameters) -> Result<usize, Problem> {
    let Some(text) = parameters.text("limit") else { return Ok(PAGE_DEFAULT) };
    let too_large =
        || Problem::at(code::PAGE_TOO_LARGE, "limit", format!("at most {PAGE_MAX} items fit a page"));
    match text.parse::<usize>() {
        Ok(limit @ 1..=PAGE_MAX) => Ok(limit),
        Ok(1..) => Err(too_large()),
        Err(_) if text.bytes().all(|b| b.is_ascii_digit()) => Err(too_large()),
        _ => Err(crate::query::invalid("limit", format!("this must be a number from 1 to {PAGE_MAX}"))),
    }
}

/// How many rows to ask for so that a further page is noticed where the store allows it.
pub(crate) fn rows_for(limit: usize) -> usize {
    (limit + 1).min(PAGE_MAX)
}

/// Cuts `rows` to the page; says whether more may follow.
pub(crate) fn cut<T>(rows: &mut Vec<T>, limit: usize) -> bool {
    let more = rows.len() > limit || (limit == PAGE_MAX && rows.len() == limit);
    rows.truncate(limit);
    more
}

/// The parameter `id`: the beginning of an id, as people type it. Lists run by id, so that what begins alike lies together.
pub(crate) struct Beginning {
    lowest: u128,
    highest: u128,
}

impl Beginning {
    /// Everything, if the parameter is not given.
    pub(crate) fn read(parameters: &Parameters, kind: Kind) -> Result<Beginning, Problem> {
        const DIGITS: usize = 32;
        let Some(text) = parameters.text("id") else {
            return Ok(Beginning { lowest: 0, highest: u128::MAX });
        };
        let digits = text.strip_prefix(kind.prefix()).and_then(|rest| rest.strip_prefix('_')).unwrap_or(text);
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(digits, 16).ok().filter(|_| is_hex && digits.len() <= DIGITS);
        let Some(number) = number else {
            let wanted = format!("this must be an id or how it begins, such as {}_0192", kind.prefix());
            return Err(query::invalid("id", wanted));
        };
        let open = 4 * (DIGITS - digits.len()) as u32;
        let lowest = number << open;
        Ok(Beginning { lowest, highest: lowest | ((1 << open) - 1) })
    }

    /// Where the list begins: after the cursor, else before the newest id that begins so.
    pub(crate) fn after(&self, cursor: Option<Uuid>) -> Option<Uuid> {
        cursor.or_else(|| self.highest.checked_add(1).map(Uuid::from_u128))
    }

    /// True once the list has gone past what begins so.
    pub(crate) fn is_past(&self, id: Uuid) -> bool {
        id.as_u128() < self.lowest
    }
}

/// Makes and reads the cursors of one list.
pub(crate) struct Cursors {
    mark: [u8; 4],
}

impl Cursors {
    /// `list` names the list, and what it is a list of.
    pub(crate) fn new(caller: &Caller, list: &str) -> Cursors {
        let mut hash = Sha256::new();
        hash.update(caller.tenant.as_str());
        hash.update([0]);
        hash.update(list);
        let digest = hash.finalize();
        Cursors { mark: [digest[0], digest[1], digest[2], digest[3]] }
    }

    /// A cursor that begins after `position`.
    pub(crate) fn write(&self, position: &[u8]) -> String {
        let mut text = String::with_capacity(2 * (4 + position.len()));
        for byte in self.mark.iter().chain(position) {
            text.push_str(&format!("{byte:02x}"));
        }
        text
    }

    /// The position that the parameter `cursor` names, if it is given.
    pub(crate) fn read(&self, parameters: &Parameters) -> Result<Option<Vec<u8>>, Problem> {
        self.read_from(parameters, CURSOR)
    }

    /// The same for a parameter of another name.
    pub(crate) fn read_from(&self, parameters: &Parameters, name: &str) -> Result<Option<Vec<u8>>, Problem> {
        let Some(text) = parameters.text(name) else { return Ok(None) };
        let bytes = from_hex(text).filter(|bytes| bytes.starts_with(&self.mark));
        bytes.map(|bytes| Some(bytes[4..].to_vec())).ok_or_else(|| refused_at(name))
    }

    /// The same for lists that are paged by id.
    pub(crate) fn read_id(&self, parameters: &Parameters) -> Result<Option<Uuid>, Problem> {
        let Some(position) = self.read(parameters)? else { return Ok(None) };
        Uuid::from_slice(&position).map(Some).map_err(|_| refused())
    }
}

pub(crate) fn refused() -> Problem {
    refused_at(CURSOR)
}

/// The same for a parameter of another name.
pub(crate) fn refused_at(name: &str) -> Problem {
    Problem::at(code::INVALID_CURSOR, name, "this is no cursor of this list; leave it out to begin again")
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}
