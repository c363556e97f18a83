//! Documents that a definition refers to by URL.

use super::{same, show, show_all, tasks};
use crate::language::{Compilation, Format, Library, Problem, compile_with};

const URL: &str = "https://acme.example/hello.yaml";

fn with(document: &str, library: &[(&str, &str)]) -> Result<Compilation, Vec<Problem>> {
    let mut known = Library::default();
    for (url, text) in library {
        known.insert((*url).to_owned(), text.as_bytes().to_vec());
    }
    compile_with(document.as_bytes(), Format::Yaml, &known)
}

/// Without a library, this is what is asked for.
#[track_caller]
fn wants(document: &str, expected: &str) {
    let compiled = with(document, &[]).unwrap_or_else(|problems| panic!("{}", show_all(&problems)));
    let wanted = compiled.wanted.iter().map(|wanted| format!("{} for {}", wanted.url, show(&wanted.problem)));
    same(&wanted.collect::<Vec<_>>().join("\n"), expected);
    assert!(compiled.unsupported.is_empty(), "{}", show_all(&compiled.unsupported));
}

#[test]
fn what_is_lacking_is_asked_for() {
    wants(
        &tasks(
            "  - a: { call: https://acme.example/hello.yaml }\n  - b: { call: https://acme.example/hello.yaml }",
        ),
        "https://acme.example/hello.yaml for 3:16 /do/0/a/call not-fetched: the function `https://acme.example/hello.yaml` stands in another document, which is fetched at deploy: https://acme.example/hello.yaml",
    );
    let catalog = "use: { catalogs: { acme: { endpoint: { uri: https://acme.example/c } } } }\n";
    wants(
        &format!("{catalog}{}", tasks("  - a: { call: 'hello:1.0.0@acme' }")),
        "https://acme.example/c/functions/hello/1.0.0/function.yaml for 4:16 /do/0/a/call not-fetched: the function `hello:1.0.0@acme` stands in another document, which is fetched at deploy: https://acme.example/c/functions/hello/1.0.0/function.yaml",
    );
    wants(
        &format!(
            "input: {{ schema: {{ resource: {{ endpoint: {URL} }} }} }}\n{}",
            tasks("  - a: { set: { x: 1 } }")
        ),
        "https://acme.example/hello.yaml for 1:20 /input/schema/resource not-fetched: the schema stands in another document, which is fetched at deploy: https://acme.example/hello.yaml",
    );
}

/// A fetched function is the same as one that is declared.
#[test]
fn a_function_is_inlined() {
    let function = "set: { hello: '${ .name }' }";
    let there =
        with(&tasks(&format!("  - a: {{ call: {URL}, with: {{ name: x }} }}")), &[(URL, function)]).unwrap();
    assert!(there.wanted.is_empty());
    let declared = format!(
        "{}use: {{ functions: {{ '{URL}': {{ {function} }} }} }}\n",
        tasks(&format!("  - a: {{ call: '{URL}', with: {{ name: x }} }}"))
    );
    let here = with(&declared, &[]).unwrap();
    assert_eq!(there.workflow.steps, here.workflow.steps);
    let call = tasks(&format!("  - a: {{ call: {URL}, with: {{ name: x }} }}"));
    for written in [format!("{{ {function} }}"), r#"{"set": {"hello": "${ .name }"}}"#.to_owned()] {
        let braces =
            with(&call, &[(URL, &written)]).unwrap_or_else(|problems| panic!("{}", show_all(&problems)));
        assert_eq!(braces.workflow.steps, here.workflow.steps, "YAML may begin with a brace");
    }
}

#[test]
fn a_schema_is_taken_over() {
    let document = format!(
        "input: {{ schema: {{ resource: {{ endpoint: {URL} }} }} }}\n{}",
        tasks("  - a: { set: { x: 1 } }")
    );
    let compiled = with(&document, &[(URL, "{\"type\": \"object\", \"required\": [\"a\"]}")]).unwrap();
    let schema = compiled.workflow.input_schema.unwrap();
    assert_eq!(schema.to_json()["required"][0], "a");
}

/// Whatever is wrong in another document is told with its URL.
#[test]
fn problems_name_the_other_document() {
    let document = tasks(&format!("  - a: {{ call: {URL} }}"));
    let check = |text: &str, expected: &str| match with(&document, &[(URL, text)]) {
        Ok(_) => panic!("it compiles, but should not"),
        Err(problems) => assert!(show(&problems[0]).starts_with(expected), "{}", show_all(&problems)),
    };
    check("set:\n  a: '${ .b | nosuch }'", "2:15 https://acme.example/hello.yaml#/set/a bad-expression: ");
    check("nothing: 1", "1:1 https://acme.example/hello.yaml# ");
    check("a: [", "2:1 https://acme.example/hello.yaml# syntax: ");
    check(&format!("call: {URL}"), "1:7 https://acme.example/hello.yaml#/call function-cycle: ");
}

/// A function from elsewhere sees nothing of the document that calls it: no secrets, nothing that is declared.
#[test]
fn a_function_from_elsewhere_sees_nothing_of_its_caller() {
    let declared = "use: { secrets: [ hook ], functions: { own: { set: { x: 1 } } }, authentications: { api: { bearer: { token: t } } } }\n";
    let document = format!("{declared}{}", tasks(&format!("  - a: {{ call: {URL} }}")));
    let refused = |text: &str| show_all(&with(&document, &[(URL, text)]).unwrap_err());
    let leak = "call: http\nwith: { method: get, endpoint: 'https://x.example', headers: { A: '${ $secrets.hook }' } }";
    assert!(refused(leak).contains("secret-exposed: a function from elsewhere cannot use the secret `hook`"));
    let policy = |policy: &str| {
        refused(&format!(
            "call: http\nwith: {{ method: get, endpoint: {{ uri: 'https://x.example', authentication: {policy} }} }}"
        ))
    };
    assert!(policy("{ bearer: { use: hook } }").contains("secret-exposed"));
    assert!(policy("{ use: api }").contains("unknown-reference"));
    assert!(refused("call: own").contains("unknown-reference: there is no function `own`"));
}

#[test]
fn what_cannot_be_known_at_deploy_is_refused() {
    let catalog = |endpoint: &str| {
        let call = tasks("  - a: { call: 'f:1.0.0@acme' }");
        let document = format!("use: {{ catalogs: {{ acme: {{ endpoint: {endpoint} }} }} }}\n{call}");
        show_all(&with(&document, &[]).unwrap().unsupported)
    };
    same(
        &catalog("'${ \"https://a.b\" }'"),
        "1:38 /use/catalogs/acme/endpoint unsupported: this engine does not support a computed address where something is fetched at deploy yet",
    );
    same(
        &catalog("{ uri: https://a.b, authentication: { bearer: { token: x } } }"),
        "1:58 /use/catalogs/acme/endpoint/authentication unsupported: this engine does not support authentication where something is fetched at deploy yet",
    );
}
