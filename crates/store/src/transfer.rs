//! Moves tenants from one store to another: copies their rows, compares what arrived, and only then removes them where
//! they came from. Both stores must be at rest.
//!
//! The way in: [`move_tenant`]. [`Side`] is what a store must be able to do for it; [`table`] says which rows a tenant has.
//! A move that was cut off is gone on with where it stopped: rows are copied in the order of their keys, and a tenant is
//! there for nodes only once its own row is, which comes last.

mod table;

use crate::port::{Error, Result};
use async_trait::async_trait;
use machine::TenantId;
use sha2::{Digest, Sha256};
pub use table::{Kind, TABLES, Table};

/// Rows read or written at a time.
const PAGE: usize = 500;

/// One value of a row, as both stores know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A row and where it stands in the order in which rows are read.
#[derive(Clone, Debug)]
pub struct Copied {
    pub cells: Vec<Cell>,
    pub mark: Vec<Cell>,
}

/// One end of a move.
#[async_trait]
pub trait Side: Send + Sync {
    /// Refuses if a node works on this store.
    async fn at_rest(&self) -> Result<()>;
    /// Tenants that are wholly there.
    async fn tenants(&self) -> Result<Vec<TenantId>>;
    /// Rows of a table after `after`, in order.
    async fn read(
        &self,
        table: &Table,
        tenant: &TenantId,
        after: &[Cell],
        limit: usize,
    ) -> Result<Vec<Copied>>;
    /// How far a copy has come: the mark of the last row, if rows are read by their keys.
    async fn last(&self, table: &Table, tenant: &TenantId) -> Result<Vec<Cell>>;
    /// Inserts rows in the order given; those that are there are left as they are.
    async fn write(&self, table: &Table, tenant: &TenantId, rows: &[Vec<Cell>]) -> Result<()>;
    /// Deletes all rows of a tenant, or none.
    async fn remove(&self, tenant: &TenantId) -> Result<()>;
    /// Secrets of the deployment as a whole, by name.
    async fn deployment_keys(&self) -> Result<Vec<(String, Vec<u8>)>>;
    async fn keep_deployment_key(&self, name: &str, value: &[u8]) -> Result<()>;
}

/// What a move of one tenant came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    pub rows: u64,
    pub instances: u64,
    pub secrets: u64,
    /// Hash over the hashes of its instances.
    pub hash: [u8; 32],
    /// It was there already, the same in every row.
    pub was_there: bool,
}

/// Copies a tenant, compares every row, and removes it where it came from unless `keep`. `told` is told how many rows are
/// through, now and then.
pub async fn move_tenant(
    from: &dyn Side,
    to: &dyn Side,
    tenant: &TenantId,
    keep: bool,
    told: &(dyn Fn(u64) + Sync),
) -> Result<Moved> {
    from.at_rest().await?;
    to.at_rest().await?;
    let was_there = to.tenants().await?.contains(tenant);
    if !was_there {
        for table in TABLES {
            copy(from, to, table, tenant, told).await?;
        }
    }
    let compared = compare(from, to, tenant, told).await?;
    from.at_rest().await?;
    to.at_rest().await?;
    if !keep {
        from.remove(tenant).await?;
    }
    Ok(Moved { was_there, ..compared })
}

/// Hands over the deployment's own secrets that the other side has not. Answers the names of those that are others there:
/// whatever was made with the old ones is not understood any more.
pub async fn hand_over_keys(from: &dyn Side, to: &dyn Side) -> Result<Vec<String>> {
    let there = to.deployment_keys().await?;
    let mut others = Vec::new();
    for (name, value) in from.deployment_keys().await? {
        match there.iter().find(|(known, _)| *known == name) {
            None => to.keep_deployment_key(&name, &value).await?,
            Some((_, same)) if *same == value => {}
            Some(_) => others.push(name),
        }
    }
    Ok(others)
}

async fn copy(
    from: &dyn Side,
    to: &dyn Side,
    table: &Table,
    tenant: &TenantId,
    told: &(dyn Fn(u64) + Sync),
) -> Result<()> {
    let mut mark = to.last(table, tenant).await?;
    loop {
        let page = from.read(table, tenant, &mark, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        mark.clone_from(&last.mark);
        let count = page.len();
        let rows: Vec<Vec<Cell>> = page.into_iter().map(|row| row.cells).collect();
        to.write(table, tenant, &rows).await?;
        told(count as u64);
        if count < PAGE {
            return Ok(());
        }
    }
}

/// Reads both sides side by side and compares hash with hash: of an instance's rows where a table is kept by instance, of
/// the row elsewhere.
async fn compare(
    from: &dyn Side,
    to: &dyn Side,
    tenant: &TenantId,
    told: &(dyn Fn(u64) + Sync),
) -> Result<Moved> {
    let mut moved = Moved::default();
    let mut all = Sha256::new();
    for table in TABLES {
        let (mut here, mut there) = (Groups::new(from, table, tenant), Groups::new(to, table, tenant));
        loop {
            let (one, other) = (here.next().await?, there.next().await?);
            if one != other {
                let what = one.or(other).map_or_else(String::new, |group| group.name);
                return Err(Error::Corrupt(format!(
                    "{} {what} of tenant {tenant} is not the same in both stores; nothing was removed",
                    table.name
                )));
            }
            let Some(group) = one else { break };
            moved.rows += group.rows;
            match table.name {
                "wf_instances" => moved.instances += 1,
                "secrets" => moved.secrets += 1,
                _ => {}
            }
            all.update(group.hash);
            told(group.rows);
        }
    }
    moved.hash = all.finalize().into();
    Ok(moved)
}

/// Rows that are compared as one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    name: String,
    rows: u64,
    hash: [u8; 32],
}

/// The groups of a table, in order.
struct Groups<'a> {
    side: &'a dyn Side,
    table: &'a Table,
    tenant: &'a TenantId,
    page: std::vec::IntoIter<Copied>,
    mark: Vec<Cell>,
    /// The page was the last one.
    ended: bool,
    /// Read already, of the next group.
    ahead: Option<Vec<Cell>>,
}

impl<'a> Groups<'a> {
    fn new(side: &'a dyn Side, table: &'a Table, tenant: &'a TenantId) -> Groups<'a> {
        Groups { side, table, tenant, page: Vec::new().into_iter(), mark: vec![], ended: false, ahead: None }
    }

    async fn row(&mut self) -> Result<Option<Vec<Cell>>> {
        if let Some(row) = self.ahead.take() {
            return Ok(Some(row));
        }
        loop {
            if let Some(row) = self.page.next() {
                self.mark = row.mark;
                return Ok(Some(row.cells));
            }
            if self.ended {
                return Ok(None);
            }
            let page = self.side.read(self.table, self.tenant, &self.mark, PAGE).await?;
            self.ended = page.len() < PAGE;
            self.page = page.into_iter();
        }
    }

    async fn next(&mut self) -> Result<Option<Group>> {
        let Some(first) = self.row().await? else { return Ok(None) };
        let key = self.table.group(&first).to_vec();
        let mut group = Group { name: shown(&key), rows: 1, hash: [0; 32] };
        let mut hash = Sha256::new();
        digest(&mut hash, &first);
        while let Some(row) = self.row().await? {
            if self.table.group(&row) != key {
                self.ahead = Some(row);
                break;
            }
            digest(&mut hash, &row);
            group.rows += 1;
        }
        group.hash = hash.finalize().into();
        Ok(Some(group))
    }
}

fn digest(hash: &mut Sha256, row: &[Cell]) {
    for cell in row {
        let (kind, bytes): (u8, &[u8]) = match cell {
            Cell::Null => (0, &[]),
            Cell::Int(value) => (1, &value.to_be_bytes()),
            Cell::Text(value) => (2, value.as_bytes()),
            Cell::Bytes(value) => (3, value),
        };
        hash.update([kind]);
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    }
}

/// A key as people read it.
fn shown(key: &[Cell]) -> String {
    let cells = key.iter().map(|cell| match cell {
        Cell::Null => "null".to_owned(),
        Cell::Int(value) => value.to_string(),
        Cell::Text(value) => value.clone(),
        Cell::Bytes(value) => match uuid::Uuid::from_slice(value) {
            Ok(id) => id.simple().to_string(),
            Err(_) => format!("{} bytes", value.len()),
        },
    });
    cells.collect::<Vec<_>>().join("/")
}
