//! Keys sort as their values do.

use super::*;
use proptest::prelude::*;

fn key(json: serde_json::Value) -> Vec<u8> {
    sortable(&Data::from_json(json)).unwrap()
}

#[test]
fn values_of_different_kinds_have_an_order() {
    use serde_json::json;
    let sorted =
        [json!(null), json!(false), json!(true), json!(-3.5), json!(0), json!(2), json!(""), json!("a")];
    let keys: Vec<Vec<u8>> = sorted.into_iter().map(key).collect();
    assert!(keys.is_sorted());
    assert_eq!(key(json!(0.0)), key(json!(-0.0)));
    assert!(sortable(&Data::from_json(json!([]))).is_err());
    assert!(sortable(&Data::text("x".repeat(2_000))).is_err());
}

#[test]
fn a_key_is_read_from_its_place_and_null_where_there_is_nothing() {
    let total = KeyDeclaration { name: "total".into(), path: "/order/total".into() };
    let body = Data::from_json(serde_json::json!({"order": {"total": 7}}));
    assert_eq!(total.of(&body), Ok(key(serde_json::json!(7))));
    assert_eq!(total.of(&Data::object()), Ok(vec![0]));
    assert!(
        total
            .of(&Data::from_json(serde_json::json!({"order": {"total": []}})))
            .unwrap_err()
            .contains("total")
    );
}

#[test]
fn ids_are_plain_words() {
    assert_eq!(id_problem("customer:4711"), None);
    for wrong in ["", "a/b", "a b", "..", "ü"] {
        assert!(id_problem(wrong).is_some(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn integers_keep_their_order(a in any::<i64>(), b in any::<i64>()) {
        prop_assert_eq!(a.cmp(&b), key(a.into()).cmp(&key(b.into())));
    }

    #[test]
    fn texts_keep_their_order(a in "[a-c]{0,4}", b in "[a-c]{0,4}") {
        prop_assert_eq!(a.as_bytes().cmp(b.as_bytes()), key(a.clone().into()).cmp(&key(b.into())));
    }
}
