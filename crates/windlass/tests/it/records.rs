//! Records through the binary: kinds, grants, a key that acts for somebody, and why somebody may not.

use crate::engine::{Engine, binary, said};
use serde_json::{Value, json};

#[tokio::test]
async fn records_are_kept_listed_and_shown_to_those_who_may() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    engine.cli(&["record-kind", "set", "order", "--list-by", "total=/total"]).await.ok();
    engine.cli(&["group", "set", "sales", "--member", "ann", "--role", "seller"]).await.ok();
    let grants = r#"{"grants": [{"to": "role:seller", "rights": ["read"]}]}"#;
    let folder = ["record", "create", "--kind", "order", "--id", "year", "--body", "{}", "--acl", grants];
    engine.cli(&folder).await.ok();
    for (id, body) in [("o1", r#"{"total": 9}"#), ("o2", r#"{"total": 30}"#)] {
        let order = ["record", "create", "--kind", "order", "--id", id, "--parent", "year", "--body", body];
        engine.cli(&order).await.ok();
    }
    let filter = r#"{"total": {">": 1}}"#;
    let list = ["record", "list", "--kind", "order", "--filter", filter, "--sort", "-total", "-o", "id"];
    assert_eq!(engine.cli(&list).await.ok(), "o2\no1\n");
    let late = engine.cli(&["record", "set", "o1", "--body", "{}", "--if-version", "7"]).await;
    assert_eq!(late.code, Some(5), "{}", late.stderr);

    let create = ["key", "create", "--name", "ann", "--role", "worker", "--acts-for", "ann", "-o", "json"];
    let key: Value = serde_json::from_str(&engine.cli(&create).await.ok()).unwrap();
    let as_ann = async |args: &[&str]| {
        let mut command = binary(home.path());
        command.env("WINDLASS_URL", &engine.url).env("WINDLASS_KEY", key["secret"].as_str().unwrap());
        command.args(args);
        said(command).await
    };
    assert_eq!(as_ann(&["record", "list", "-o", "id"]).await.ok(), "o1\no2\nyear\n");
    assert_eq!(as_ann(&["record", "set", "o1", "--body", "[]"]).await.code, Some(4));

    engine.cli(&["record", "set", "year", "--acl", r#"{"grants": []}"#]).await.ok();
    engine.until("/acl/propagation", |far| far["pending"] == json!(false)).await;
    assert_eq!(as_ann(&["record", "show", "o1"]).await.code, Some(3));
    let why = engine.cli(&["acl", "explain", "o1", "--user", "ann", "-o", "json"]).await.json();
    assert_eq!((&why["allowed"], &why["verdict"]), (&json!(false), &json!("nothing-said")));
    let far = engine.cli(&["acl", "status", "-o", "json"]).await.json();
    assert_eq!((&far["records"], &far["failed"]), (&json!(0), &json!(0)));
}
