//! Lists by query: every field of the grammar means the same in every store.

use super::Opened;
use crate::fixture::*;
use machine::{
    Time,
    query::{self, Subject},
};
use store::{rows::*, views::*, *};
use uuid::Uuid;

const SECOND: i64 = 1_000_000;
/// What the queries are reckoned from.
const NOW: Time = Time(1_000_000 * SECOND);

fn ago(seconds: i64) -> Time {
    Time(NOW.0 - seconds * SECOND)
}

fn wanted(numbers: &[u128]) -> Vec<Uuid> {
    numbers.iter().map(|number| id(*number)).collect()
}

async fn instances(opened: &Opened, text: &str, page: Page) -> Vec<Uuid> {
    let conditions = query::parse(Subject::Instances, text, NOW).expect(text);
    let filter = InstanceFilter { conditions, ..InstanceFilter::default() };
    let found = opened.store.instances(&acme(), &filter, &page).await.expect(text);
    found.into_iter().map(|view| view.row.id).collect()
}

/// Seven instances of one tenant, and one of another that would meet most queries.
async fn seed(opened: &Opened) {
    let waiting = StateRow { waiting_kind: Some("TaskCompletion".into()), instance: id(5), ..state(1, 1) };
    let error = br#"{"type":"timeout","title":"Request TIMED out"}"#.to_vec();
    let row = |number| InstanceRow { created_at: ago(10 * number as i64), ..instance(number) };
    let other = Commit { tenant: tenant("other"), writes: vec![create_row(row(8))] };
    assert_eq!(opened.commit(vec![other]).await, [Outcome::Committed]);
    opened
        .put(vec![
            create_row(InstanceRow { business_key: Some("o-1".into()), ..row(1) }),
            create_row(InstanceRow {
                business_key: Some("o-\u{10ffff}".into()),
                name: "refund".into(),
                ..row(2)
            }),
            create_row(InstanceRow { version: "1.1.0".into(), namespace: "test".into(), ..row(3) }),
            create_row(InstanceRow {
                status: "faulted".into(),
                error: Some(error),
                ended_at: Some(ago(1)),
                updated_at: ago(1),
                version: "2.0.0".into(),
                ..row(4)
            }),
            Write::CreateInstance {
                instance: Box::new(InstanceRow {
                    status: "waiting".into(),
                    business_parts: Some(br#"{"region":"eu","no":"42"}"#.to_vec()),
                    ..row(5)
                }),
                state: Box::new(waiting),
            },
            create_row(InstanceRow {
                parent: Some(ParentRow { instance: id(1), token: 1, item: None }),
                status: "cancelling".into(),
                ..row(6)
            }),
            create_row(InstanceRow { business_key: Some("p\"1 ?".into()), ..row(7) }),
            Write::Call(CallRow { target: "charge".into(), ..call(1, 10, None) }),
        ])
        .await;
}

pub(crate) async fn instances_are_found_by_every_field(opened: &Opened) {
    seed(opened).await;
    let whole = format!("id:ins_{}", id(3).simple());
    let parent = format!("parent:ins_{}", id(1).simple());
    let cases: &[(&str, &[u128])] = &[
        ("", &[7, 6, 5, 4, 3, 2, 1]),
        ("status:faulted", &[4]),
        ("status:faulted,waiting", &[5, 4]),
        ("-status:running", &[6, 5, 4]),
        ("status:running -key:o-1", &[7, 3, 2]),
        ("definition:order", &[7, 6, 5, 4, 3, 1]),
        ("definition:shop/order@1.*", &[7, 6, 5, 1]),
        ("definition:ref*,test/order", &[3, 2]),
        ("-definition:order", &[2]),
        ("namespace:te*", &[3]),
        ("name:refund", &[2]),
        ("version:1.1.0,2.*", &[4, 3]),
        ("key:o-1", &[1]),
        ("key:o-*", &[2, 1]),
        ("key:*", &[7, 2, 1]),
        ("-key:*", &[6, 5, 4, 3]),
        ("o-*", &[2, 1]),
        (r#"key:"p\"1 ?""#, &[7]),
        ("part.region:eu", &[5]),
        ("part.region:e* part.no:42", &[5]),
        ("part.region:us", &[]),
        ("-part.region:eu", &[7, 6, 4, 3, 2, 1]),
        (&whole, &[3]),
        ("id:ins_0190", &[7, 6, 5, 4, 3, 2, 1]),
        ("id:ins_0191", &[]),
        (&parent, &[6]),
        ("-parent:ins_0190", &[7, 5, 4, 3, 2, 1]),
        ("waiting:task-completion", &[5]),
        ("waiting:timer", &[]),
        ("worker:charge", &[1]),
        ("worker:ch*", &[1]),
        ("-worker:charge status:running", &[7, 3, 2]),
        ("started:>-35s", &[3, 2, 1]),
        ("started:>=-30s started:<-10s", &[3, 2]),
        ("age:>50s", &[7, 6]),
        ("ended:<=now", &[4]),
        ("-ended:<=now status:running", &[7, 3, 2, 1]),
        ("changed:>-2s", &[4]),
        ("error~\"timed OUT\" status:faulted", &[4]),
        ("error~nothing status:faulted", &[]),
        ("-error~timed status:faulted,waiting", &[5]),
    ];
    for (text, numbers) in cases {
        let found = instances(opened, text, Page { after: None, limit: PAGE_MAX }).await;
        assert_eq!(found, wanted(numbers), "{text}");
    }
}

pub(crate) async fn a_query_is_paged_like_any_list(opened: &Opened) {
    seed(opened).await;
    for text in ["key:*", "status:running,waiting -key:o-1", "definition:order"] {
        let all = instances(opened, text, Page { after: None, limit: PAGE_MAX }).await;
        let (mut found, mut after) = (Vec::<Uuid>::new(), None);
        loop {
            let page = instances(opened, text, Page { after, limit: 2 }).await;
            found.extend(&page);
            after = page.last().copied();
            if page.len() < 2 {
                break;
            }
        }
        assert_eq!(found, all, "{text}");
    }
}

pub(crate) async fn dead_letters_are_found_by_every_field(opened: &Opened) {
    let row = |number| DeadLetterRow { failed_at: ago(10 * number as i64), ..dead_letter(number) };
    let rows = [
        DeadLetterRow { source: "timer".into(), reason: "poison".into(), attempts: 9, ..row(1) },
        DeadLetterRow {
            source: "delivery".into(),
            origin: br#"{"name":"mail"}"#.to_vec(),
            group: Some(id(70)),
            attempts: 1,
            detail: "transient: Connection refused".into(),
            instance: None,
            ..row(2)
        },
        DeadLetterRow {
            source: "call".into(),
            origin: br#"{"name":"mail"}"#.to_vec(),
            attempts: 3,
            ..row(3)
        },
    ];
    opened.put(rows.iter().map(|row| Write::DeadLetter(Box::new(row.clone()))).collect()).await;
    let group = format!("group:err_{}", id(70).simple());
    let instance = format!("instance:ins_{}", rows[0].instance.unwrap().simple());
    let cases: &[(&str, &[u128])] = &[
        ("", &[3, 2, 1]),
        ("source:timer,call", &[3, 1]),
        ("reason:poison", &[1]),
        ("worker:mail", &[3, 2]),
        ("mail", &[3, 2]),
        ("-worker:mail", &[1]),
        ("worker:m* source:call", &[3]),
        (&group, &[2]),
        (&instance, &[3, 1]),
        ("attempts:>=3", &[3, 1]),
        ("attempts:9", &[1]),
        ("failed:>-25s", &[2, 1]),
        ("age:>25s", &[3]),
        ("worker:mail error~refused", &[2]),
        ("id:dl_0190 -source:timer", &[3, 2]),
    ];
    for (text, numbers) in cases {
        let conditions = query::parse(Subject::DeadLetters, text, NOW).expect(text);
        let filter = DeadLetterFilter { conditions, ..DeadLetterFilter::default() };
        let page = Page { after: None, limit: PAGE_MAX };
        let found = opened.store.dead_letters(&acme(), &filter, &page).await.expect(text);
        let found: Vec<Uuid> = found.into_iter().map(|row| row.id).collect();
        assert_eq!(found, wanted(numbers), "{text}");
    }
}

pub(crate) async fn deliveries_are_found_by_every_field(opened: &Opened) {
    let row =
        |number, worker| DeliveryRow { created_at: ago(10 * number as i64), ..delivery(number, worker, 10) };
    let rows = [
        DeliveryRow { order_key: Some("k-1".into()), attempt: 2, ..row(1, "mail") },
        DeliveryRow { last_error: Some(b"it Broke".to_vec()), visible_at: ago(-60), ..row(2, "mail") },
        row(3, "ship"),
    ];
    opened.put(rows.iter().map(|row| Write::Delivery(Box::new(row.clone()))).collect()).await;
    let cases: &[(&str, &[u128])] = &[
        ("", &[1, 2, 3]),
        ("worker:mail", &[1, 2]),
        ("ship", &[3]),
        ("key:k-*", &[1]),
        ("attempts:>1", &[1]),
        ("created:>-25s", &[1, 2]),
        ("due:>now", &[2]),
        ("age:>25s", &[3]),
        ("worker:mail error~broke", &[2]),
        ("-worker:mail", &[3]),
        ("id:dlv_0190", &[1, 2, 3]),
    ];
    for (text, numbers) in cases {
        let conditions = query::parse(Subject::Deliveries, text, NOW).expect(text);
        let filter = DeliveryFilter { conditions, ..DeliveryFilter::default() };
        let found = opened.store.deliveries(&acme(), &filter, None, PAGE_MAX).await.expect(text);
        let found: Vec<Uuid> = found.into_iter().map(|row| row.id).collect();
        assert_eq!(found, wanted(numbers), "{text}");
    }
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn traced(trace: Option<&str>, correlation: Option<&str>) -> Traced {
    Traced { trace_id: trace.map(str::to_owned), correlation_id: correlation.map(str::to_owned) }
}

pub(crate) async fn events_are_found_by_every_field(opened: &Opened) {
    let row = |number: u128, kind: &str| EventRow {
        received_at: ago(10 * number as i64),
        ..event(number, kind, "1")
    };
    let rows = [
        EventRow { traced: traced(Some(TRACE), Some("c-1")), ..row(1, "order.paid") },
        EventRow { traced: traced(Some(TRACE), None), source: "bank".into(), ..row(2, "order.paid") },
        EventRow { traced: traced(None, Some("c-2")), ..row(3, "order.left") },
        row(4, "order.left"),
    ];
    opened.put(rows.iter().map(|row| Write::Publish(Box::new(row.clone()))).collect()).await;
    let other = Commit { tenant: tenant("other"), writes: vec![Write::Publish(Box::new(rows[0].clone()))] };
    assert_eq!(opened.commit(vec![other]).await, [Outcome::Committed]);
    let (of_trace, not_of_trace) = (format!("trace:{TRACE}"), format!("-trace:{TRACE}"));
    let begun = format!("trace:{}", id(4).simple());
    let both = format!("trace:{TRACE},{} source:s", id(4).simple());
    let cases: &[(&str, &[u128])] = &[
        ("", &[4, 3, 2, 1]),
        ("type:order.paid", &[2, 1]),
        ("type:order.*", &[4, 3, 2, 1]),
        ("source:bank", &[2]),
        ("event:e3", &[3]),
        ("e3", &[3]),
        (&of_trace, &[2, 1]),
        (&not_of_trace, &[4, 3]),
        (&begun, &[4]),
        (&both, &[4, 1]),
        ("correlation:c-1", &[1]),
        ("correlation:c-*", &[3, 1]),
        ("-correlation:*", &[4, 2]),
        ("received:>-25s", &[2, 1]),
        ("age:>25s", &[4, 3]),
    ];
    for (text, numbers) in cases {
        let conditions = query::parse(Subject::Events, text, NOW).expect(text);
        let filter = EventFilter { conditions, ..EventFilter::default() };
        let found =
            opened.store.events(&acme(), &filter, &Page { after: None, limit: 10 }).await.expect(text);
        assert_eq!(found.iter().map(|row| row.id).collect::<Vec<_>>(), wanted(numbers), "{text}");
    }
    let found = opened.store.event(&acme(), id(1)).await.unwrap();
    assert_eq!(found.map(|row| row.traced), Some(rows[0].traced.clone()));
}

pub(crate) async fn instances_and_deliveries_are_found_by_trace_and_correlation(opened: &Opened) {
    let traceparent = Some(format!("00-{TRACE}-00f067aa0ba902b7-01"));
    let long = "x".repeat(3000);
    opened
        .put(vec![
            create_row(InstanceRow { traceparent, correlation_id: Some("c-1".into()), ..instance(1) }),
            create_row(InstanceRow { correlation_id: Some(long.clone()), ..instance(2) }),
            create_row(instance(3)),
        ])
        .await;
    let (of_trace, begun) = (format!("trace:{TRACE}"), format!("trace:{}", id(3).simple()));
    let page = || Page { after: None, limit: 10 };
    for (text, numbers) in [
        (of_trace.as_str(), &[1_u128][..]),
        (&begun, &[3]),
        ("correlation:c-1", &[1]),
        ("-correlation:c-1", &[3, 2]),
        ("status:running correlation:c-*", &[1]),
    ] {
        assert_eq!(instances(opened, text, page()).await, wanted(numbers), "{text}");
    }
    // The first has one event of the trace, the second two of which one is, the third the one that began another.
    let is_of = traced(Some(TRACE), Some("c-1"));
    let events = [
        EventRow { traced: is_of.clone(), ..event(11, "a", "1") },
        EventRow { traced: traced(None, Some("c-1")), ..event(12, "a", "1") },
        event(13, "a", "1"),
    ];
    let of = |numbers: &[u128], row: DeliveryRow| DeliveryRow {
        events: numbers.iter().map(|number| id(*number)).collect(),
        ..row
    };
    let rows = [
        of(&[11], DeliveryRow { traced: is_of.clone(), ..delivery(1, "mail", 10) }),
        of(&[12, 11], DeliveryRow { traced: traced(Some(""), Some("c-1")), ..delivery(2, "mail", 10) }),
        of(&[13], delivery(3, "mail", 10)),
        of(&[13], DeliveryRow { traced: Traced::default().by_event(), ..delivery(4, "mail", 10) }),
    ];
    let mut writes: Vec<Write> = events.into_iter().map(|row| Write::Publish(Box::new(row))).collect();
    writes.extend(rows.iter().map(|row| Write::Delivery(Box::new(row.clone()))));
    opened.put(writes).await;
    let begun = format!("trace:{}", id(13).simple());
    for (text, numbers) in [
        (of_trace.as_str(), &[1_u128, 2][..]),
        (&format!("{of_trace} worker:ship"), &[]),
        (&format!("-{of_trace}"), &[3, 4]),
        (&begun, &[3, 4]),
        ("correlation:c-1", &[1, 2]),
    ] {
        let conditions = query::parse(Subject::Deliveries, text, NOW).expect(text);
        let filter = DeliveryFilter { conditions, ..DeliveryFilter::default() };
        let found = opened.store.deliveries(&acme(), &filter, None, PAGE_MAX).await.expect(text);
        let found: Vec<Uuid> = found.into_iter().map(|row| row.id).collect();
        assert_eq!(found, wanted(numbers), "{text}");
    }
    let found = opened.store.delivery(&acme(), id(2)).await.unwrap();
    assert_eq!(found.map(|row| row.traced), Some(rows[1].traced.clone()));
}
