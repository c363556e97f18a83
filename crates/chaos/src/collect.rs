//! The end state, read through the API of every node: each instance, its history, and what became of its signals.

use crate::{
    client::{Ask, Client, Said},
    clock::sleep_ms,
    driver::{Tenant, versions},
    program::MEETING,
    record::Final,
};
use anyhow::{Result, bail};
use serde_json::Value;

/// After healing a read is repeated this often before the run gives up.
const TRIES_MAX: u32 = 40;
/// Pages of one list.
const PAGES_MAX: u32 = 1000;

/// Every instance of these tenants.
pub(crate) async fn all(client: &Client, tenants: &[Tenant]) -> Result<Vec<Final>> {
    let mut found = Vec::new();
    for tenant in tenants {
        let ids = pages(client, tenant, "/api/v1/instances?limit=200").await?;
        let ids: Vec<String> = ids.iter().filter_map(|item| item["id"].as_str().map(str::to_owned)).collect();
        for some in ids.chunks(16) {
            let mut reading = tokio::task::JoinSet::new();
            for id in some {
                let (client, tenant, id) = (client.clone(), tenant.clone(), id.clone());
                reading.spawn(async move { one(&client, &tenant, &id).await });
            }
            while let Some(read) = reading.join_next().await {
                found.push(read??);
            }
        }
    }
    found.sort_by(|one: &Final, other| one.id.cmp(&other.id));
    Ok(found)
}

/// Ids and status words of the instances that have not ended.
pub(crate) async fn unfinished(client: &Client, tenants: &[Tenant]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for tenant in tenants {
        let path = "/api/v1/instances?limit=200&status=pending,running,waiting,paused,cancelling";
        for item in pages(client, tenant, path).await? {
            found.push(format!("{} {} {}", tenant.name, item["id"], item["status"]));
        }
    }
    Ok(found)
}

async fn one(client: &Client, tenant: &Tenant, id: &str) -> Result<Final> {
    let detail = get(client, tenant, &format!("/api/v1/instances/{id}")).await?;
    let history = pages(client, tenant, &format!("/api/v1/instances/{id}/history?limit=200")).await?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let is_meeting = |item: &&Value| item["detail"]["type"] == MEETING;
    let met = history.iter().filter(is_meeting).filter(|item| item["kind"] == "signal.received").count();
    let signals = history.iter().filter(|item| !is_meeting(item)).filter_map(|item| {
        let kind = item["kind"].as_str().filter(|kind| kind.starts_with("signal."))?;
        Some((kind.to_owned(), text(&item["detail"]["signal"])?))
    });
    Ok(Final {
        id: id.to_owned(),
        tenant: tenant.name.clone(),
        key: text(&detail["input"]["key"]).unwrap_or_default(),
        parent: text(&detail["parent"]["id"]),
        status: text(&detail["status"]).unwrap_or_default(),
        version: detail["version"].as_i64().unwrap_or_default(),
        n: detail["output"]["n"].as_i64(),
        error: Some(detail["error"].clone()).filter(|error| !error.is_null()),
        versions: versions(&Value::from(history.clone())),
        signals: signals.collect(),
        met: u32::try_from(met)?,
    })
}

/// All items of a list.
pub(crate) async fn pages(client: &Client, tenant: &Tenant, path: &str) -> Result<Vec<Value>> {
    let mut items = Vec::new();
    let mut cursor = String::new();
    for _ in 0..PAGES_MAX {
        let page = get(client, tenant, &format!("{path}{cursor}")).await?;
        items.extend(page["items"].as_array().cloned().unwrap_or_default());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(items),
        }
    }
    bail!("{path} has no end")
}

/// From any node that answers: one after the other.
pub(crate) async fn get(client: &Client, tenant: &Tenant, path: &str) -> Result<Value> {
    let mut last = None;
    for at in 0..TRIES_MAX {
        let node = (at as usize + path.len()) % client.nodes();
        match client.ask(node, &tenant.secret, Ask::get(path.to_owned())).await {
            Said::Answer(200, body) => return Ok(body),
            said => last = Some(said),
        }
        sleep_ms(500).await;
    }
    bail!("no node answers {path}: {last:?}")
}
