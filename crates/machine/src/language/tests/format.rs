//! What `format` does to a text.

use super::show_all;
use crate::{
    ir,
    language::{Format, compile, format},
};

/// Formatting keeps what the document means. Every document of the other tests passes through this.
#[track_caller]
pub(super) fn assert_keeps(document: &str, workflow: &ir::Workflow) {
    match format(document.as_bytes(), Format::Yaml) {
        Ok(text) => match compile(text.as_bytes(), Format::Yaml) {
            Ok(again) => assert_eq!(again.workflow, *workflow, "formatted as:\n{text}"),
            Err(problems) => panic!("formatted as:\n{text}\n{}", show_all(&problems)),
        },
        Err(problems) => {
            let told = &problems[0].message;
            let refused = ["anchors", "aliases", "tags"].iter().any(|what| told.contains(what));
            assert!(refused, "{document}\n{}", show_all(&problems));
        }
    }
}

#[track_caller]
fn formatted(source: &str, expected: &str) {
    let found =
        format(source.as_bytes(), Format::Yaml).unwrap_or_else(|problems| panic!("{}", show_all(&problems)));
    assert!(found == expected, "found:\n{found}\nexpected:\n{expected}");
    let again =
        format(found.as_bytes(), Format::Yaml).unwrap_or_else(|problems| panic!("{}", show_all(&problems)));
    assert!(again == found, "formatting twice:\n{again}\nonce:\n{found}");
}

#[test]
fn comments_stay_where_they_belong() {
    let source = "\
# the head
document:   {dsl: 1.0.3,   namespace: test} # behind
do:   # what to do


# before the first
- one:
        # inside
        set: { a: 1 }   # behind set
        # below one
    # below the list's first
- two:
     with: { # opens
        a: 1, # behind a
        # before b
        b: [ 1,
          2 ]
     }
- # lonely dash
  three: 'x'
# at the end

# far below
";
    let expected = "\
# the head
document: { dsl: 1.0.3, namespace: test } # behind
do: # what to do
  # before the first
  - one:
      # inside
      set: { a: 1 } # behind set
      # below one
  # below the list's first
  - two:
      with: # opens
        a: 1 # behind a
        # before b
        b:
          - 1
          - 2
  # lonely dash
  - three: 'x'
# at the end

# far below
";
    formatted(source, expected);
}

#[test]
fn texts_keep_their_form() {
    let source = "\
plain: one
   and two

   after a gap
quoted: \"a # b
     c\"
block: |   # said of the block
      first
        deeper # no comment

      last


folded: >-
  one
  two
kept: |+
  a

ind: |1
  a
  b
empty:
tilde: ~
next: 'it''s'
";
    let expected = "\
plain: one
  and two

  after a gap
quoted: \"a # b
  c\"
block: | # said of the block
  first
    deeper # no comment

  last

folded: >-
  one
  two
kept: |+
  a

ind: |2
   a
   b
empty:
tilde: ~
next: 'it''s'
";
    formatted(source, expected);
}

#[test]
fn lines_that_are_too_long_become_blocks() {
    let long = "x".repeat(60);
    formatted(
        &format!("a: {{ one: {long}, two: {long}, three: [] }}\nb: [ {long} ]\nc: []\n"),
        &format!("a:\n  one: {long}\n  two: {long}\n  three: []\nb: [{long}]\nc: []\n"),
    );
}

#[test]
fn json_is_laid_out_too() {
    let found = format(br#"{"b":[1,{"a":"x"}],"a":{}}"#, Format::Json).unwrap();
    assert_eq!(found, "{\n  \"b\": [\n    1,\n    {\n      \"a\": \"x\"\n    }\n  ],\n  \"a\": {}\n}\n");
}

#[test]
fn what_cannot_be_formatted_is_said() {
    for (text, code) in
        [("a: &x 1\nb: *x\n", "not-formatted"), ("a: [1\n", "syntax"), ("a: 1\na: 2\n", "duplicate-key")]
    {
        let problems = format(text.as_bytes(), Format::Yaml).expect_err(text);
        assert_eq!(problems[0].code, code, "{text}");
    }
}
