//! Remembers. The `Store` port, its adapters, migrations and all SQL of the product.
//!
//! The way in: [`Store`] (the port and its contract), [`commit::Commit`] (what one write is), [`rows`] (what a row
//! holds), [`views`] (what people read). Adapters sit beside the port: [`sqlite`], [`postgres`]. [`hint`] is a port of its
//! own: how nodes wake each other. [`Audit`] is the part of the port about the audit trail.
//! [`transfer`] moves tenants from one store to another, [`doctor`] says what a check found.
//! Nothing here decides: no state transition happens in SQL, only guarded writes.

pub mod audit;
pub mod commit;
pub mod datasets;
pub mod doctor;
pub mod feed;
pub mod hint;
pub mod postgres;
pub mod records;
pub mod rows;
pub mod sqlite;
pub mod transfer;
pub mod views;

mod filter;
mod port;
mod share;
mod told;
pub use audit::Audit;
pub use commit::{Commit, Conflict, Outcome, TenantChange, Write};
pub use hint::{Hint, Hints, NoHints};
pub use port::{Error, HostLock, Outlook, Renewed, Result, Store};
pub use records::{RecordWrite, Records};
pub use sqlite::by_preference;
