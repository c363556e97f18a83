//! What the decompiler writes: it compiles to the same IR, and reads as people write.
//!
//! Every document of the other tests of this crate passes through [`assert_comes_back`] too.

use super::{HEAD, yaml};
use crate::{
    data::Data,
    ir,
    language::{Format, compile, decompile, yaml as writer},
};
use proptest::prelude::*;

/// Compiling what the decompiler writes gives an equal IR.
#[track_caller]
pub(crate) fn assert_comes_back(workflow: &ir::Workflow) {
    let written = decompile(workflow);
    match compile(written.as_bytes(), Format::Yaml) {
        Ok(again) => assert_eq!(again.workflow, *workflow, "comes back as:\n{written}"),
        Err(problems) => panic!("comes back as:\n{written}\n{}", super::show_all(&problems)),
    }
}

#[track_caller]
fn written(document: &str, expected: &str) {
    let found = decompile(&yaml(document).workflow);
    assert!(found == expected, "found:\n{found}\nexpected:\n{expected}");
}

#[test]
fn a_document_reads_as_people_write_it() {
    let source = "\
document: { dsl: 1.0.3, namespace: test, name: tested, version: 1.0.0, title: 'It''s: a \"test\"', tags: { 'yes': '012' } }
input: { from: '${ .order }' }
timeout: { after: PT1H30M }
do:
  - check:
      if: ${ .total > 10 }
      switch:
        - large: { when: .total > 100, then: ask }
        - other: { then: end }
  - ask:
      try:
        - call: { call: http, with: { method: POST, endpoint: 'https://example.com/{id}', body: { a: '${ .a }', b: [] } } }
      catch:
        errors: { with: { status: 503 } }
        retry: { delay: PT0.5S, backoff: { exponential: { maxDelay: PT1M } }, limit: { attempt: { count: 3 } } }
      then: exit
      metadata: { lane: left }
  - text: { set: { code: \"a\\nb\\n\", empty: '', bell: \"\\a\" } }
";
    let expected = "\
document:
  dsl: 1.0.3
  namespace: test
  name: tested
  version: 1.0.0
  title: 'It''s: a \"test\"'
  tags:
    'yes': '012'
input:
  from: .order
timeout:
  after:
    hours: 1
    minutes: 30
do:
  - check:
      if: .total > 10
      switch:
        - large:
            when: .total > 100
            then: ask
        - other:
            then: end
  - ask:
      try:
        - call:
            call: http
            with:
              method: post
              endpoint: https://example.com/{id}
              body:
                a: ${ .a }
                b: []
      catch:
        errors:
          with:
            status: 503
        retry:
          delay:
            milliseconds: 500
          backoff:
            exponential:
              maxDelay:
                minutes: 1
          limit:
            attempt:
              count: 3
      then: exit
      metadata:
        lane: left
  - text:
      set:
        code: |
          a
          b
        empty: ''
        bell: \"\\x07\"
";
    written(source, expected);
}

#[test]
fn functions_are_declared_again() {
    let source = "\
document: { dsl: 1.0.3, namespace: test, name: tested, version: 1.0.0 }
use:
  functions:
    plain: { set: { got: '${ . }' } }
    careful: { if: .go, do: [{ inner: { call: plain, with: { x: 1 } } }], input: { from: .a } }
do:
  - one: { call: careful, with: { a: '${ .b }', go: true } }
  - two: { call: plain }
";
    let expected = "\
document:
  dsl: 1.0.3
  namespace: test
  name: tested
  version: 1.0.0
use:
  functions:
    careful:
      if: .go
      input:
        from: .a
      do:
        - inner:
            call: plain
            with:
              x: 1
    plain:
      set:
        got: ${ . }
do:
  - one:
      call: careful
      with:
        a: ${ .b }
        go: true
  - two:
      call: plain
";
    written(source, expected);
}

#[test]
fn what_is_not_executed_is_written_as_given() {
    let document = "\
document: { dsl: 1.0.3, namespace: test, name: tested, version: 1.0.0 }
use: { catalogs: { theirs: { endpoint: https://example.com } } }
do:
  - one: { call: 'log:1.0.0@theirs', with: { message: '${ .x }' }, then: end }
";
    let text = decompile(&yaml(document).workflow);
    assert!(text.contains("theirs:\n      endpoint: https://example.com\n"), "{text}");
    assert!(text.contains("message: ${ .x }\n      then: end\n"), "{text}");
}

/// Texts of the characters that mean something in YAML, and some others.
fn texts() -> impl Strategy<Value = String> {
    let odd = "[-?:,\\[\\]{}#&*!|>'\"%@`= \n\t~.0-9a-eTZtxyno_+\u{85}\u{2028}\u{feff}é\u{1F600}\\\\]{0,12}";
    prop_oneof![odd, "(true|yes|NULL|~|0x1f|1_000|12:30|2001-01-01|<<|---|\\.\\.\\.)( #x)?", "[ -~]{0,20}"]
}

fn values() -> impl Strategy<Value = Data> {
    let leaf = prop_oneof![
        Just(Data::NULL),
        any::<bool>().prop_map(Data::bool),
        any::<i64>().prop_map(Data::int),
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(|number| Data::from_json(number.into())),
        texts().prop_map(Data::text),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let keys = texts().prop_filter("a key is short", |key| !key.contains('\0'));
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Data::array),
            prop::collection::vec((keys, inner), 0..5).prop_map(Data::map),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Any data stands in `set` and `metadata` and comes back.
    #[test]
    fn any_data_comes_back(value in values()) {
        let written = writer::write(&Data::map([("k".to_owned(), value.clone())]));
        let mut report = crate::language::report::Report::default();
        let tree = crate::language::source::read(written.as_bytes(), Format::Yaml, &mut report)
            .map_err(|problem| TestCaseError::fail(format!("{written}\n{}", problem.message)))?;
        let read = tree.root().get("k").expect("the key is there").to_data();
        prop_assert_eq!(read, value, "{}", written);
    }
}

#[test]
fn the_head_comes_back() {
    assert_comes_back(&yaml(&format!("{HEAD}  - one: {{ set: {{ a: 1 }} }}\n")).workflow);
}
