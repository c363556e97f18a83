//! Signals by token: whoever has the token reaches its instance, and nobody else does.

use crate::harness::World;
use serde_json::json;

const WAIT: &str = "  - token:
      call: signal-token:1.0.0@default
      export: { as: '{ token: .token, url: .url }' }
  - show:
      emit: { event: { with: { source: https://a.b, type: shown, data: '${ $context }' } } }
  - hear:
      listen:
        to:
          one:
            with: { type: paid }
            correlate: { token: { from: .data.token, expect: '${ $context.token }' } }";

#[tokio::test]
async fn a_token_signals_its_instance_without_a_key() {
    let world = World::new().await;
    world.deploy("wait", WAIT).await;
    let id = world.start("wait", json!({})).await;
    let view = world.get(&format!("/api/v1/instances/{id}")).await.ok(200);
    let token = view["context"]["token"].as_str().unwrap().to_owned();
    let url = view["context"]["url"].as_str().unwrap().to_owned();
    assert!(url.ends_with(&format!("/api/v1/signals/{token}")), "{url}");
    let forged = format!("/api/v1/signals/{}A", &token[..token.len() - 1]);
    world.ask("POST", &forged, None, "{}").await.problem(404, "not-found");
    world.ask("POST", "/api/v1/signals/x", None, "{}").await.problem(404, "not-found");
    let path = format!("/api/v1/signals/{token}?name=paid");
    assert!(
        world.ask("POST", &path, None, r#"{"amount":420,"token":"lie"}"#).await.ok(202)["id"].is_string()
    );
    let result = world.result(&id).await;
    assert_eq!(result["output"], json!([{ "amount": 420, "token": token }]));
    world.ask("POST", &path, None, "{}").await.problem(409, "instance-ended");
    world
        .ask("POST", &format!("/api/v1/signals/{token}?x=1"), None, "{}")
        .await
        .problem(400, "unknown-parameter");
}
