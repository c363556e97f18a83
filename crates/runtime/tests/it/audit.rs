//! P6, P13, P21, T12: an act of somebody and its audit entry land together; one chain for each tenant, whatever happens.

use crate::support::*;
use futures_util::future::join_all;
use machine::{
    Time,
    audit::{Entry, Verified, export::Checkpoint, verify},
};
use runtime::{
    acting::{self, Act},
    api::{Order, Refusal},
    audit::is_signed,
};
use serde_json::json;
use store::{HostLock, rows::*, views::Page};

/// Does `work` as Ann.
async fn as_ann<T>(node: &Up, name: &'static str, work: impl Future<Output = T>) -> T {
    let act = Act {
        name,
        object: None,
        kind: "key",
        key: Some("k1".to_owned()),
        subject: Some("ann".to_owned()),
        home: None,
        request: Some("req_1".to_owned()),
        trace: None,
    };
    acting::within(Some(node.handle.acting(act)), work).await
}

async fn entries(world: &World) -> Vec<Entry> {
    let page = Page { after: None, limit: 200 };
    let rows = world.store.audit().entries(&world.tenant, &[], &page).await.unwrap();
    rows.iter().rev().map(|row| Entry::read(&row.body).unwrap()).collect()
}

async fn export(world: &World, node: &Up) -> (Verified, Vec<u8>) {
    let exported = node.handle.export_audit(&world.tenant, 1, 10_000).await.unwrap();
    (verify(&exported.bytes, &is_signed).unwrap(), exported.bytes)
}

const WAITS: &str = "do: [ { a: { wait: { days: 1 } } } ]";

#[tokio::test(start_paused = true)]
async fn an_act_says_who_what_and_from_what_to_what() {
    let world = World::new();
    let node = world.build().start().await;
    node.deploy("d", WAITS).await;
    let id = node.start("d", json!({})).await;
    assert_eq!(entries(&world).await, [], "what nobody asked for is nobody's act");
    let order = node.handle.order(&world.tenant, id, Order::Pause, "ann");
    as_ann(&node, "instance.pause", order).await.unwrap();
    let order = node.handle.order(&world.tenant, id, Order::Resume, "ann");
    as_ann(&node, "instance.resume", order).await.unwrap();
    let again = node.handle.order(&world.tenant, id, Order::Resume, "ann");
    assert!(as_ann(&node, "instance.resume", again).await.is_err());
    let all = entries(&world).await;
    let acts: Vec<&str> = all.iter().map(|entry| entry.act.as_str()).collect();
    assert_eq!(acts, ["instance.pause", "instance.resume"], "what was refused has not happened");
    let shown = machine::id::show(machine::id::Kind::Instance, id);
    assert!(all.iter().all(|entry| entry.object.id == shown && entry.who.key.as_deref() == Some("k1")));
    assert!(all[0].before.is_some() && all[0].before != all[0].after);
    assert_eq!(all[0].after, all[1].before, "each begins where the one before it ended");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_node_that_ended_left_is_sealed_by_the_next() {
    let world = World::new();
    let node = world.build().start().await;
    node.deploy("d", WAITS).await;
    let id = node.start("d", json!({})).await;
    // Somebody else has the lock, and ends without sealing.
    let other = uuid::Uuid::from_u128(7);
    world.store.join(other, world.now(), 60_000).await.unwrap();
    assert!(world.store.hold(HostLock::Audit, other, world.now(), 60_000).await.unwrap());
    let order = node.handle.order(&world.tenant, id, Order::Cancel, "ann");
    as_ann(&node, "instance.cancel", order).await.unwrap();
    node.crash().await;
    assert_eq!(world.store.audit().tail(&world.tenant).await.unwrap().seq, 0, "it was not sealed yet");
    let next = world.build().start().await;
    pass(secs(8_000)).await;
    let tail = world.store.audit().tail(&world.tenant).await.unwrap();
    assert_eq!((tail.seq, tail.checkpoint.map(|one| one.seq)), (1, Some(1)));
    let (whole, _) = export(&world, &next).await;
    assert_eq!((whole.from, whole.to, whole.checkpoints), (1, 1, 1));
    assert_eq!(entries(&world).await[0].act, "instance.cancel");
    next.stop().await;
}

#[tokio::test(start_paused = true)]
async fn acts_on_two_nodes_make_one_chain_without_a_gap() {
    const ACTS: usize = 40;
    let world = World::new();
    let nodes = [world.build().start().await, world.build().start().await];
    let acts = (0..ACTS).map(|number| {
        let node = &nodes[number % 2];
        let name = format!("t-{number}");
        let world = &world;
        async move {
            let schema = machine::Data::parse(b"{}").unwrap();
            let put = node.handle.put_event_type(&world.tenant, &name, &schema);
            as_ann(node, "event-type.put", put).await.unwrap();
        }
    });
    join_all(acts).await;
    pass(secs(120)).await;
    let (whole, bytes) = export(&world, &nodes[1]).await;
    assert_eq!((whole.from, whole.to), (1, ACTS as u64));
    let text = String::from_utf8(bytes).unwrap();
    for number in 0..ACTS {
        let object = format!("\"id\":\"t-{number}\"");
        assert_eq!(text.matches(&object).count(), 1, "{object}");
    }
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_chain_whose_signed_end_is_gone_is_not_exported() {
    let world = World::new();
    let node = world.build().start().await;
    let schema = machine::Data::parse(b"{}").unwrap();
    let put = node.handle.put_event_type(&world.tenant, "t", &schema);
    as_ann(&node, "event-type.put", put).await.unwrap();
    let (whole, _) = export(&world, &node).await;
    // As if entries up to the ninth had been there, been signed, and been taken away.
    let (hash, key, signature) = ([9; 32], [1; 32], [2; 64]);
    let signed = Checkpoint { seq: 9, hash, at: Time(1), key, signature };
    let seal = Seal { rows: vec![], checkpoint: Some(signed) };
    assert!(world.store.audit().seal(&world.tenant, &seal).await.unwrap());
    let refused = node.handle.export_audit(&world.tenant, 1, 10).await.err();
    assert!(matches!(refused, Some(Refusal::Conflict { code: "audit-broken", .. })), "{refused:?}");
    assert_eq!(whole.to, 1);
    node.stop().await;
}
