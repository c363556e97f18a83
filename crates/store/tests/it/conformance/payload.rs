//! Bytes in, the same bytes out; rows that name nothing are refused.

use super::Opened;
use crate::fixture::*;
use machine::Time;
use store::{rows::*, *};
use uuid::Uuid;

/// What wedges stores that look into payloads: NUL bytes, invalid UTF-8, lone surrogates, duplicate keys, nothing.
const CORPUS: [&[u8]; 7] = [
    b"",
    b"\x00",
    b"{\"a\":\"\\u0000\"}",
    b"\xFF\xFE\x00\x80 not utf-8",
    b"{\"a\":1,\"a\":2}",
    b"\"\\ud800\"",
    "{\"ключ\": \"знак 🛶\"}".as_bytes(),
];

pub(crate) async fn bytes_are_kept_as_given(opened: &Opened) {
    for (n, bytes) in CORPUS.into_iter().enumerate() {
        let (number, bytes) = (n as u128 + 1, bytes.to_vec());
        let mut state = state(number, 1);
        state.state_json = bytes.clone();
        let instance = InstanceRow { input: bytes.clone(), context: Some(bytes.clone()), ..instance(number) };
        let mut signal = signal(number, 0, None);
        signal.envelope = bytes.clone();
        let dead_letter =
            DeadLetterRow { envelope: bytes.clone(), origin: bytes.clone(), ..dead_letter(number) };
        let events = HistoryRow { instance: id(number), version: 1, at: Time(1), events: bytes.clone() };
        let key = InboxRow { answer: bytes.clone(), request_hash: bytes.clone(), ..inbox(&format!("k{n}")) };
        opened
            .put(vec![
                Write::ClaimKey(key.clone()),
                Write::CreateInstance { instance: Box::new(instance.clone()), state: Box::new(state) },
                Write::History(events.clone()),
                Write::Signal(signal),
                Write::DeadLetter(Box::new(dead_letter.clone())),
            ])
            .await;
        let t = acme();
        assert_eq!(opened.store.load(&t, id(number)).await.unwrap().unwrap().state_json, bytes);
        assert_eq!(opened.store.instance(&t, id(number)).await.unwrap().unwrap().row, instance);
        assert_eq!(opened.store.history(&t, id(number), 0, 9).await.unwrap(), [events]);
        assert_eq!(opened.store.dead_letter(&t, id(number)).await.unwrap(), Some(dead_letter));
        assert_eq!(opened.store.inbox(&t, "start", &key.key).await.unwrap(), Some(key));
        let claimed = opened.store.claim_signals(node(1), Time(0), 9).await.unwrap();
        assert_eq!(claimed[0].row.envelope, bytes);
    }
    // Text columns take any text, a NUL among it.
    let odd = DeadLetterRow { detail: "a\0b '; DROP TABLE wf_dlq; --".into(), ..dead_letter(99) };
    opened.put(vec![Write::DeadLetter(Box::new(odd.clone()))]).await;
    assert_eq!(opened.store.dead_letter(&acme(), id(99)).await.unwrap(), Some(odd));
}

pub(crate) async fn large_payload(opened: &Opened) {
    let bytes: Vec<u8> = (0..1 << 20).map(|n: u32| (n % 251) as u8).collect();
    let row = InstanceRow { input: bytes.clone(), ..instance(1) };
    let mut first = state(1, 1);
    first.state_json = bytes.clone();
    let created = Write::CreateInstance { instance: Box::new(row.clone()), state: Box::new(first) };
    opened.put(vec![created]).await;
    assert_eq!(opened.store.load(&acme(), id(1)).await.unwrap().unwrap().state_json, bytes);
    assert_eq!(opened.store.instance(&acme(), id(1)).await.unwrap().unwrap().row, row);
}

pub(crate) async fn empty_ids_are_refused(opened: &Opened) {
    let bad: Vec<Write> = vec![
        create_row(InstanceRow { id: Uuid::nil(), ..instance(1) }),
        create_row(InstanceRow { namespace: String::new(), ..instance(1) }),
        create_row(InstanceRow { name: String::new(), ..instance(1) }),
        create_row(InstanceRow { version: String::new(), ..instance(1) }),
        create_row(InstanceRow { business_key: Some(String::new()), ..instance(1) }),
        Write::ClaimKey(InboxRow { key: String::new(), ..inbox("k") }),
        Write::ClaimKey(InboxRow { scope: String::new(), ..inbox("k") }),
        Write::Signal(SignalRow { id: Uuid::nil(), ..signal(1, 0, None) }),
        Write::Signal(SignalRow { instance: Uuid::nil(), ..signal(1, 0, None) }),
        Write::Timer(TimerRow { instance: Uuid::nil(), ..timer(1, 0, None) }),
        Write::Call(CallRow { instance: Uuid::nil(), ..call(1, 0, None) }),
        Write::Call(CallRow { target: String::new(), ..call(1, 0, None) }),
        Write::History(HistoryRow { instance: Uuid::nil(), version: 1, at: Time(1), events: vec![] }),
        Write::CreateTask(Box::new(TaskRow { id: Uuid::nil(), ..task(1) })),
        Write::DeadLetter(Box::new(DeadLetterRow { id: Uuid::nil(), ..dead_letter(1) })),
        Write::Outbox(OutboxRow { id: Uuid::nil(), ..outbox(1) }),
        Write::CreateDefinition(Box::new(definition("", "1.0.0"))),
        Write::CreateDefinition(Box::new(definition("order", ""))),
        Write::CreateKey(KeyRow { id: String::new(), ..key("k") }),
        Write::CreateKey(KeyRow { hash: vec![], ..key("k") }),
    ];
    for write in bad {
        let outcomes = opened.commit(vec![commit(vec![write.clone()])]).await;
        assert!(matches!(outcomes[..], [Outcome::Rejected(_)]), "{write:?}: {outcomes:?}");
    }
    assert_eq!(opened.store.counts(None).await.unwrap(), views::Counts::default());
}
