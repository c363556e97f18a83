//! Secrets and authentication: what is stored of a call holds marks, and no data can hold one.

use super::{bench, data};
use crate::{Data, command::Call};

/// The first call of a definition that declares the secrets `a` and `b`.
fn call(with: &str, input: &str) -> Call {
    calling(&format!("call: http\n      with: {with}"), input)
}

fn calling(step: &str, input: &str) -> Call {
    let bench = bench(&format!("use: {{ secrets: [ a, b ] }}\ndo:\n  - c:\n      {step}\n"));
    bench.start(input).calls.remove(0)
}

fn mark(call: &Call, path: &str) -> String {
    let found = call.secrets.iter().find(|known| known.path.join(".") == path);
    found.unwrap_or_else(|| panic!("no mark for {path}: {:?}", call.secrets)).mark.clone()
}

fn member(call: &Call, path: &str) -> Data {
    path.split('.').try_fold(call.input.clone(), |value, key| value.get(key)).unwrap_or_default()
}

#[test]
fn a_mark_stands_for_every_secret_wherever_it_is_used() {
    let call = call(
        "{ method: post, endpoint: '${ \"https://x.y/\\($secrets.a)\" }', query: { q: '${ $secrets.a }' }, body: { k: ['${ $secrets.b.key }', '${ .n }'] } }",
        r#"{"n":1}"#,
    );
    let (a, key) = (mark(&call, "a"), mark(&call, "b.key"));
    assert_ne!(a, key);
    assert_eq!(member(&call, "url").to_text(), format!("https://x.y/{a}?q={a}"));
    assert_eq!(member(&call, "body.k").to_text(), format!("[\"{key}\",1]"));
    assert_eq!(call.secrets.len(), 2);
}

#[test]
fn a_call_without_secrets_has_no_marks() {
    assert_eq!(call("{ method: get, endpoint: https://x.y }", "{}").secrets, []);
}

#[test]
fn the_same_decision_makes_the_same_marks_and_other_data_makes_others() {
    let with = "{ method: post, endpoint: https://x.y, body: '${ { text: .text, token: $secrets.a } }' }";
    let made = |text: &str| mark(&call(with, &format!(r#"{{"text":"{text}"}}"#)), "a");
    let first = made("");
    assert_eq!(first, made(""), "deciding twice gives the same");
    // Whoever knows the mark of one call and sends it as data gets another mark: it stays data.
    let second = made(&first);
    assert_ne!(first, second);
    let forged = call(with, &format!(r#"{{"text":"{first}"}}"#));
    assert_eq!(member(&forged, "body").to_text(), format!(r#"{{"text":"{first}","token":"{second}"}}"#));
    assert!(!forged.secrets.iter().any(|known| known.mark == first));
}

#[test]
fn data_that_the_expression_does_not_use_changes_the_mark_too() {
    let with =
        "{ method: post, endpoint: https://x.y, headers: { T: '${ $secrets.a }' }, body: '${ $context }' }";
    let run = |seen: &str| {
        let bench = bench(&format!(
            "use: {{ secrets: [ a ] }}\ndo:\n  - s: {{ set: {{ y: 1 }}, export: {{ as: '${{ $workflow.input }}' }} }}\n  - c:\n      call: http\n      with: {with}\n"
        ));
        mark(&bench.start(&format!(r#"{{"seen":"{seen}"}}"#)).calls[0], "a")
    };
    assert_ne!(run("one"), run("two"));
}

#[test]
fn authentication_is_kept_apart_and_never_becomes_a_header() {
    let with = |policy: &str| {
        format!("{{ method: get, endpoint: {{ uri: https://x.y, authentication: {policy} }} }}")
    };
    let basic = call(&with("{ basic: { username: ann, password: '${ $secrets.a }' } }"), "{}");
    assert_eq!(member(&basic, "headers"), Data::NULL);
    assert_eq!(member(&basic, "authentication.scheme").to_text(), "basic");
    let wanted = format!(r#"{{"username":"ann","password":"{}"}}"#, mark(&basic, "a"));
    assert_eq!(member(&basic, "authentication.credentials.with").to_text(), wanted);
    let named = call(&with("{ bearer: { use: b } }"), "{}");
    assert_eq!(member(&named, "authentication"), data(r#"{"scheme":"bearer","credentials":{"secret":"b"}}"#));
    assert_eq!(named.secrets, []);
    let token = call(
        &with(
            "{ oauth2: { authority: 'https://id.x/{realm}', grant: client_credentials, scopes: [ r ], client: { id: i, secret: '${ $secrets.a }' } } }",
        ),
        r#"{"realm":"one two"}"#,
    );
    assert_eq!(
        member(&token, "authentication.credentials.with.authority").to_text(),
        "https://id.x/one%20two"
    );
    assert_eq!(member(&token, "authentication.credentials.with.client.secret").to_text(), mark(&token, "a"));
}

#[test]
fn an_operation_is_one_call_with_its_description() {
    let call = calling(
        "call: openapi\n      with: { document: { endpoint: 'https://x.y/{v}.json' }, operationId: find, parameters: { id: '${ .id }', key: '${ $secrets.a }' }, output: response }",
        r#"{"v":"v2","id":7}"#,
    );
    assert_eq!(call.target, "openapi");
    let parameters = format!(r#"{{"id":7,"key":"{}"}}"#, mark(&call, "a"));
    assert_eq!(member(&call, "document").to_text(), "https://x.y/v2.json");
    assert_eq!(member(&call, "operation").to_text(), "find");
    assert_eq!(member(&call, "parameters").to_text(), parameters);
}

#[test]
fn an_expression_for_the_sandbox_sees_marks_only() {
    let with =
        "{ method: post, endpoint: https://x.y, body: '${ [range(.n)] | { all: ., token: $secrets.a } }' }";
    let call = call(with, r#"{"n":3}"#);
    assert_eq!(
        member(&call, "body").to_text(),
        format!(r#"{{"all":[0,1,2],"token":"{}"}}"#, mark(&call, "a"))
    );
}
