//! How far workers have come: read before a delivery is handed over, moved in the commit of its effects.

use crate::{engine::Engine, patience::Patience};
use machine::{Data, TenantId, Time};
use std::sync::Arc;
use store::{Write, rows::WatermarkRow};
use worker::{Declaration, Delivery, Move, Watermark};

/// The watermarks of these names; null and version 0 for those that were never moved.
pub(crate) async fn read(
    engine: &Engine,
    tenant: &TenantId,
    worker: &str,
    names: &[String],
) -> Result<Vec<Watermark>, store::Error> {
    if names.is_empty() {
        return Ok(vec![]);
    }
    let rows = engine.store.watermarks(tenant, worker).await?;
    let of_name = |name: &String| match rows.iter().find(|row| row.name == *name) {
        Some(row) => Watermark {
            name: name.clone(),
            value: Data::parse(&row.value).unwrap_or_default(),
            version: row.version,
        },
        None => Watermark { name: name.clone(), value: Data::NULL, version: 0 },
    };
    Ok(names.iter().map(of_name).collect())
}

/// Gives them to the deliveries of a worker that names any. `false` if the node stops first.
pub(super) async fn give(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    worker: &Declaration,
    deliveries: &mut [Delivery],
) -> bool {
    let names = worker.on.as_ref().map(|on| on.terms.watermarks.as_slice()).unwrap_or_default();
    if names.is_empty() || deliveries.is_empty() {
        return true;
    }
    let mut patience = Patience::new();
    loop {
        match read(engine, tenant, &worker.name, names).await {
            Ok(found) => {
                deliveries.iter_mut().for_each(|delivery| delivery.watermarks = found.clone());
                return true;
            }
            Err(error) => {
                engine.tasks.heed(&error);
                if !patience.wait(engine).await {
                    return false;
                }
            }
        }
    }
}

/// The write that moves one.
pub(super) fn moved(worker: &str, to: &Move, now: Time) -> Write {
    Write::MoveWatermark {
        worker: worker.to_owned(),
        row: WatermarkRow {
            name: to.name.clone(),
            value: to.value.to_bytes(),
            version: to.version + 1,
            updated_at: now,
        },
        expected_version: to.version,
    }
}
