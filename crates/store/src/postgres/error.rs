//! What PostgreSQL's error codes mean to the caller of the port.

use crate::port::Error;
use tokio_postgres::{Error as PgError, error::SqlState};

/// The answer for an error that concerns the whole call, not one commit of it.
pub(super) fn error(err: PgError) -> Error {
    let text = said(&err);
    let Some(code) = err.code() else { return Error::Unavailable(text) };
    if *code == SqlState::DISK_FULL {
        return Error::Full(text);
    }
    if let Some(remedy) = remedy(code) {
        return Error::Misconfigured(format!("{text}: {remedy}"));
    }
    match &code.code()[..2] {
        // The connection, resources, an operator or a timeout, a conflict between transactions, a system error of the
        // server, or a standby: it may be otherwise the next time.
        "08" | "53" | "57" | "40" | "55" | "58" | "25" | "28" => Error::Unavailable(text),
        // Damage, and statements that do not fit the schema.
        _ => Error::Corrupt(text),
    }
}

/// The answer for a COMMIT that failed. One that was not answered may have landed; one that was refused by a living server
/// has not.
pub(super) fn unknown(err: PgError) -> Error {
    match err.as_db_error() {
        Some(db) if db.severity() == "ERROR" => error(err),
        _ => Error::Unknown(said(&err)),
    }
}

/// What an operator does about it, if the code says that nothing is wrong but how the database is used.
fn remedy(code: &SqlState) -> Option<&'static str> {
    const POOLER: &str =
        "if a transaction pooler stands in between, add pooled=true to the address of the database";
    const RIGHTS: &str =
        "run `windlass migrate` as the owner of the tables, with the role of the nodes as --app-role";
    match code.code() {
        // A statement that was prepared is not there, or is there already: it was prepared over another connection.
        "26000" | "42P05" => Some(POOLER),
        "42501" => Some(RIGHTS),
        _ => None,
    }
}

/// Why these rows are refused for good, if the error is about them and not about the store.
pub(super) fn rejection(err: &PgError) -> Option<String> {
    // Bytes that are no text never leave this process.
    let code = err.code()?.code();
    matches!(&code[..2], "22" | "23" | "54").then(|| said(err))
}

/// True if another transaction stood in the way and the whole may be tried again at once.
pub(super) fn is_rivalry(err: &PgError) -> bool {
    err.code().is_some_and(|code| {
        *code == SqlState::T_R_DEADLOCK_DETECTED || *code == SqlState::T_R_SERIALIZATION_FAILURE
    })
}

/// The server's own words; tokio-postgres says only "db error".
pub(super) fn said(err: &PgError) -> String {
    match err.as_db_error() {
        Some(db) => format!("{} ({})", db.message(), db.code().code()),
        None => {
            let cause = std::error::Error::source(err).map(|cause| format!(": {cause}")).unwrap_or_default();
            format!("{err}{cause}")
        }
    }
}
