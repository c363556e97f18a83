//! What SQLite's result codes mean to the caller of the port.

use crate::port::Error;
use rusqlite::{ErrorCode, ffi};

/// The answer for an error that concerns the whole call, not one commit of it.
pub(super) fn error(err: rusqlite::Error) -> Error {
    let text = err.to_string();
    // The WAL's index could not grow: a full disk in the guise of an I/O error.
    if err.sqlite_error().is_some_and(|err| err.extended_code == ffi::SQLITE_IOERR_SHMSIZE) {
        return Error::Full(text);
    }
    match err.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Error::Full(text),
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::OperationInterrupted
            | ErrorCode::OutOfMemory
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied,
        ) => Error::Unavailable(text),
        // An I/O error is fatal: after a failed fsync the kernel may have dropped the pages, so that trying again
        // "succeeds" without having written anything. The same goes for damage and for statements that do not fit
        // the schema.
        _ => Error::Corrupt(text),
    }
}

/// Why these rows are refused for good, if the error is about them and not about the store.
pub(super) fn rejection(err: &rusqlite::Error) -> Option<String> {
    match err.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch) => {
            Some(err.to_string())
        }
        _ => None,
    }
}
