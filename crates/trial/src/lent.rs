//! The store that tests of nodes run on is chosen by whoever runs them: the same tests hold on both adapters.

use crate::tap::Tap;
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, OnceLock, mpsc},
};
use store::{
    Store,
    postgres::{Options, Postgres, migrate},
};
use tokio::runtime::Runtime;

/// `sqlite`, which is what is used unless it is set, or `postgres`.
pub const VARIABLE: &str = "WINDLASS_TEST_STORE";

/// Whose clock leases count by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    Database,
    /// The test owns the time.
    Caller,
}

/// A store and what has to live as long.
#[derive(Clone)]
pub struct Lent {
    pub store: Arc<dyn Store>,
    database: Option<Arc<scratch::Database>>,
}

impl Lent {
    pub fn is_postgres(&self) -> bool {
        self.database.is_some()
    }
}

impl From<Arc<dyn Store>> for Lent {
    fn from(store: Arc<dyn Store>) -> Lent {
        Lent { store, database: None }
    }
}

/// True if [`VARIABLE`] asks for PostgreSQL.
pub fn wants_postgres() -> bool {
    match std::env::var(VARIABLE).as_deref() {
        Err(_) | Ok("" | "sqlite") => false,
        Ok("postgres") => true,
        Ok(other) => panic!("{VARIABLE} is sqlite or postgres, not {other:?}"),
    }
}

/// A fresh store: on PostgreSQL if that is asked for, else what `sqlite` makes.
pub fn store(clock: Clock, sqlite: impl FnOnce() -> Arc<dyn Store>) -> Lent {
    if !wants_postgres() {
        return sqlite().into();
    }
    let (tell, told) = mpsc::channel();
    // Whoever asks may be the only thread of a runtime whose time is paused: others connect for it.
    connecting().spawn(async move {
        let _ = tell.send(open(clock).await);
    });
    told.recv().expect("PostgreSQL was asked for, and there is one")
}

async fn open(clock: Clock) -> Lent {
    let copied = tokio::task::spawn_blocking(|| scratch::copy_of(&template(), fill)).await.unwrap();
    let database = copied.expect("PostgreSQL was asked for, and there is one");
    let options = Options { database_clock: clock == Clock::Database, ..Options::default() };
    let store = Arc::new(Postgres::open_with(&database.url, options).await.unwrap());
    Lent { store: Arc::new(Tap::timeless(store)), database: Some(Arc::new(database)) }
}

/// Makes the tables that all others are copies of.
fn fill(database: &scratch::Database) {
    let (owner, application) = (database.owner_url.clone(), database.application);
    connecting().block_on(async { migrate(&owner, Some(application)).await }).unwrap();
}

/// A name that no other program uses: it may know other migrations.
fn template() -> String {
    let program = std::env::current_exe().unwrap();
    let mut hasher = DefaultHasher::new();
    (&program, std::fs::metadata(&program).unwrap().modified().unwrap()).hash(&mut hasher);
    format!("template_{:x}", hasher.finish())
}

fn connecting() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let build = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    RUNTIME.get_or_init(|| build().unwrap())
}
