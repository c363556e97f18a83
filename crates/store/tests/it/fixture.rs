//! Rows to test with. Every builder gives the plainest row; tests change what they are about.

use machine::{
    TenantId, Time,
    audit::{Entry, Hash, Object, Who, content_hash, export::Checkpoint, link},
    time::Span,
};
use store::{datasets::*, rows::*, *};
use uuid::Uuid;

pub(crate) const LEASE_MS: i64 = 10_000;

pub(crate) fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

pub(crate) fn acme() -> TenantId {
    tenant("acme")
}

/// An id that sorts by `number`.
pub(crate) fn id(number: u128) -> Uuid {
    Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 + number)
}

pub(crate) fn node(number: u128) -> Uuid {
    Uuid::from_u128(0xF000_0000_0000_7000_8000_0000_0000_0000 + number)
}

pub(crate) fn commit(writes: Vec<Write>) -> Commit {
    Commit { tenant: acme(), writes }
}

pub(crate) fn instance(number: u128) -> InstanceRow {
    InstanceRow {
        id: id(number),
        namespace: "shop".into(),
        name: "order".into(),
        version: "1.0.0".into(),
        business_key: None,
        business_parts: None,
        status: "running".into(),
        input: b"{}".to_vec(),
        output: None,
        error: None,
        context: None,
        traceparent: None,
        parent: None,
        correlation_id: None,
        created_at: Time(1_000 + number as i64),
        updated_at: Time(1_000 + number as i64),
        ended_at: None,
    }
}

/// The snapshot at `version`, replacing the one before it.
pub(crate) fn state(number: u128, version: i64) -> StateRow {
    StateRow {
        instance: id(number),
        expected_version: version - 1,
        state_version: version,
        snapshot_schema_version: 1,
        runtime_status: "Open".into(),
        waiting_kind: None,
        waiting_token: None,
        waiting_until: None,
        active_task_id: None,
        resume_pointer_json: None,
        last_signal_id: None,
        last_error_code: None,
        last_error_json: None,
        last_executed_by: node(1),
        last_executed_on: Time(1_000 + version),
        state_json: format!("{{\"v\":{version}}}").into_bytes(),
    }
}

pub(crate) fn create(number: u128) -> Write {
    create_row(instance(number))
}

pub(crate) fn create_row(row: InstanceRow) -> Write {
    let mut state = state(1, 1);
    state.instance = row.id;
    Write::CreateInstance { instance: Box::new(row), state: Box::new(state) }
}

pub(crate) fn update(number: u128, version: i64) -> Write {
    Write::UpdateState(Box::new(state(number, version)))
}

/// Leaves everything but the status as it is.
pub(crate) fn change(number: u128, status: &str) -> InstanceChange {
    InstanceChange {
        id: id(number),
        status: status.into(),
        output: None,
        error: None,
        context: None,
        updated_at: Time(9_000),
        ended_at: None,
    }
}

pub(crate) fn history(number: u128, version: i64) -> Write {
    let events = format!("[{{\"e\":{version}}}]").into_bytes();
    Write::History(HistoryRow { instance: id(number), version, at: Time(version), events })
}

pub(crate) fn signal(number: u128, visible_at: i64, owner: Option<Uuid>) -> SignalRow {
    SignalRow {
        id: id(number),
        instance: id(1),
        signal_type: "approve".into(),
        envelope: b"{\"a\":1}".to_vec(),
        created_at: Time(1),
        visible_at: Time(visible_at),
        attempt: 0,
        owner,
        taken_over: 0,
    }
}

pub(crate) fn timer(token: u64, due_at: i64, owner: Option<Uuid>) -> TimerRow {
    TimerRow {
        instance: id(1),
        token,
        due_at: Time(due_at),
        envelope: b"{\"t\":1}".to_vec(),
        attempt: 0,
        owner,
        taken_over: 0,
    }
}

pub(crate) fn call(token: u64, visible_at: i64, owner: Option<Uuid>) -> CallRow {
    CallRow {
        instance: id(1),
        token,
        target: "http".into(),
        envelope: b"{\"c\":1}".to_vec(),
        created_at: Time(1),
        visible_at: Time(visible_at),
        attempt: 0,
        last_error: None,
        owner,
        taken_over: 0,
    }
}

pub(crate) fn task(number: u128) -> TaskRow {
    TaskRow {
        id: id(number),
        instance: id(1),
        token: 7,
        step: "approve".into(),
        title: "Approve".into(),
        status: "open".into(),
        assignee: None,
        candidate_users: b"[]".to_vec(),
        candidate_groups: b"[]".to_vec(),
        payload: b"{}".to_vec(),
        form: None,
        result: None,
        priority: 0,
        due_at: None,
        version: 1,
        created_at: Time(1),
        updated_at: Time(1),
        ended_at: None,
    }
}

pub(crate) fn task_event(number: u128, sequence: i64, kind: &str) -> Write {
    Write::TaskEvent(TaskEventRow {
        task: id(number),
        sequence,
        kind: kind.into(),
        actor: "ann".into(),
        at: Time(sequence),
        detail: b"{}".to_vec(),
    })
}

pub(crate) fn outbox(number: u128) -> OutboxRow {
    OutboxRow {
        id: id(number),
        key: "order-1".into(),
        event_type: "order.placed".into(),
        event: b"{\"specversion\":\"1.0\"}".to_vec(),
        created_at: Time(number as i64),
    }
}

pub(crate) fn inbox(key: &str) -> InboxRow {
    InboxRow {
        scope: "start".into(),
        key: key.into(),
        request_hash: vec![7; 32],
        answer: b"{\"id\":1}".to_vec(),
        created_at: Time(1),
    }
}

pub(crate) fn dead_letter(number: u128) -> DeadLetterRow {
    DeadLetterRow {
        group: None,
        id: id(number),
        source: "signal".into(),
        reason: "deserialization".into(),
        detail: "expected value at line 1".into(),
        instance: Some(id(1)),
        envelope: b"\x00\xFF not json".to_vec(),
        origin: b"{}".to_vec(),
        attempts: 3,
        last_node: node(1),
        failed_at: Time(5),
    }
}

pub(crate) fn definition(name: &str, version: &str) -> DefinitionRow {
    DefinitionRow {
        namespace: "shop".into(),
        name: name.into(),
        version: version.into(),
        title: Some(format!("{name} {version}")),
        source: b"document: {}\n".to_vec(),
        media_type: "application/yaml".into(),
        ir: b"{}".to_vec(),
        created_at: Time(1),
    }
}

pub(crate) fn tenant_row(name: &str) -> TenantRow {
    let (id, title) = (tenant(name), name.to_uppercase());
    TenantRow {
        id,
        title,
        status: "active".into(),
        weight: 1,
        limits: LimitsRow::default(),
        purge_at: None,
        created_at: Time(1),
    }
}

pub(crate) fn key(name: &str) -> KeyRow {
    KeyRow {
        id: name.into(),
        name: format!("key {name}"),
        hash: vec![1; 32],
        roles: b"[\"admin\"]".to_vec(),
        created_at: Time(1),
        expires_at: None,
        revoked_at: None,
        subject: None,
    }
}

pub(crate) fn event(number: u128, kind: &str, data: &str) -> EventRow {
    EventRow {
        id: id(number),
        source: "s".into(),
        event_id: format!("e{number}"),
        event_type: kind.into(),
        received_at: Time(10),
        visible_at: Time(10),
        kept_until: Some(Time(1_000)),
        expires_at: Time(5_000),
        told: 0,
        taken: 0,
        started: 0,
        collected: 0,
        delivered: 0,
        emitted_by: None,
        traced: Traced::default(),
        event: format!("{{\"type\":\"{kind}\",\"data\":{data}}}").into_bytes(),
    }
}

pub(crate) fn schedule(number: u128, due_at: Option<i64>) -> ScheduleRow {
    ScheduleRow {
        id: id(number),
        namespace: "shop".into(),
        name: format!("s{number}"),
        version: "1.0.0".into(),
        kind: "every".into(),
        spec: "PT1H".into(),
        time_zone: "UTC".into(),
        missed: "latest".into(),
        status: "active".into(),
        anchor: Time(1),
        last_slot: None,
        next_slot: due_at.map(Time),
        due_at: due_at.map(Time),
        instance: None,
        row_version: 1,
        created_at: Time(1),
        updated_at: Time(1),
    }
}

pub(crate) fn slot(number: u128, at: i64) -> SlotRow {
    SlotRow {
        schedule: id(number),
        slot: Time(at),
        outcome: "fired".into(),
        count: 1,
        instance: Some(id(99)),
        late: Span(5),
        at: Time(at + 5),
        detail: None,
    }
}

pub(crate) fn secret(name: &str, sealed: &[u8]) -> SecretRow {
    SecretRow {
        name: name.into(),
        version: 1,
        key_id: "k1".into(),
        sealed: sealed.to_vec(),
        hosts: b"[]".to_vec(),
        created_at: Time(1),
        updated_at: Time(1),
    }
}

pub(crate) fn delivery(number: u128, worker: &str, at: i64) -> DeliveryRow {
    DeliveryRow {
        id: id(number),
        worker: worker.into(),
        events: [id(number + 1_000)].into_iter().collect(),
        order_key: None,
        created_at: Time(at),
        visible_at: Time(at),
        attempt: 0,
        last_error: None,
        owner: None,
        taken_over: 0,
        traced: Traced::default(),
    }
}

pub(crate) fn worker(name: &str, row_version: i64) -> WorkerRow {
    let declaration = format!("{{\"types\":[\"{name}\"]}}").into_bytes();
    WorkerRow { name: name.into(), declaration, row_version, created_at: Time(1), updated_at: Time(1) }
}

pub(crate) fn event_type(name: &str, row_version: i64) -> EventTypeRow {
    let schema = format!("{{\"title\":\"{name}\"}}").into_bytes();
    EventTypeRow { name: name.into(), schema, row_version, created_at: Time(1), updated_at: Time(1) }
}

pub(crate) fn dataset(number: u128) -> DatasetRow {
    DatasetRow { id: id(number), count: 2, owner: None, created_at: Time(1) }
}

pub(crate) fn items(number: u128, round: u32) -> ItemsRow {
    ItemsRow { dataset: id(number), first: 0, round, count: 2, items: format!("[1,{round}]").into_bytes() }
}

/// A wait of an instance for events of that kind.
pub(crate) fn wait(instance: u128, token: u64, kind: &str) -> Write {
    let subscriber = Subscriber::Listen { instance: id(instance), token };
    let wants = vec![SubscriptionRow { event_type: Some(kind.into()), key: None }];
    Write::Subscribe { subscriber, wants, now: Time(20), visible_at: Time(20) }
}

/// A batch that has something to do at 100.
pub(crate) fn batch(number: u128) -> BatchRow {
    BatchRow {
        id: id(number),
        act: "cancel".into(),
        query: "status:running".into(),
        arguments: b"{\"act\":\"cancel\"}".to_vec(),
        actor: "ann".into(),
        why: Some("a test".into()),
        status: "running".into(),
        detail: None,
        rate: 50,
        cursor: None,
        selected_at: None,
        matched: 0,
        counts: BatchCounts::default(),
        forgiven: 0,
        due_at: Some(Time(100)),
        row_version: 1,
        created_at: Time(10),
        updated_at: Time(10),
        ended_at: None,
    }
}

/// What Ann did.
pub(crate) fn audit_entry(tenant: &TenantId, number: u128) -> AuditRow {
    let entry = Entry {
        id: id(number),
        tenant: tenant.clone(),
        at: 1_000 + number as i64,
        act: if number.is_multiple_of(2) { "instance.cancel" } else { "key.create" }.into(),
        who: Who {
            kind: "key".into(),
            key: Some("k1".into()),
            subject: Some("ann".into()),
            home: None,
            node: node(1),
        },
        object: Object { kind: "instance".into(), id: format!("o{number}") },
        before: None,
        after: None,
        request: None,
        trace: None,
    };
    let body = entry.bytes();
    AuditRow {
        id: entry.id,
        at: Time(entry.at),
        act: entry.act,
        key_id: entry.who.key,
        subject: entry.who.subject,
        object_kind: entry.object.kind,
        object_id: entry.object.id,
        content_hash: content_hash(&body),
        body,
    }
}

/// Seals these entries after `tail`, with a checkpoint at their end.
pub(crate) fn sealed_after((seq, hash): (u64, Hash), rows: &[AuditRow]) -> Seal {
    let (mut seq, mut prev) = (seq, hash);
    let mut seal = Seal::default();
    for row in rows {
        seq += 1;
        let hash = link(&prev, seq, &row.content_hash);
        seal.rows.push(SealRow { id: row.id, seq, prev, hash });
        prev = hash;
    }
    let (key, signature) = ([1; 32], [2; 64]);
    seal.checkpoint = Some(Checkpoint { seq, hash: prev, at: Time(7), key, signature });
    seal
}
