//! Documents made to hurt: they are refused in time, and nothing panics.

use super::{Format, compile_text, refused, tasks};
use proptest::prelude::*;

#[test]
fn as_many_steps_as_there_may_be_and_one_more() {
    let steps = |count: usize| -> String {
        (0..count).map(|n| format!("  - s{n}: {{ set: {{ x: 1 }} }}\n")).collect()
    };
    assert!(compile_text(tasks(&steps(5_000)).as_bytes(), Format::Yaml).is_ok());
    refused(
        &tasks(&steps(5_001)),
        "5003:5 /do/5000/s5000 too-large: the definition has more than 5000 steps, counting each call of a function => split it into several definitions",
    );
}

#[test]
fn as_many_expressions_as_there_may_be_and_one_more() {
    let expressions = |count: usize| -> String {
        let members: Vec<String> = (0..count).map(|n| format!("x{n}: '${{ .x{n} }}'")).collect();
        format!("  - a: {{ set: {{ {} }} }}", members.join(", "))
    };
    assert!(compile_text(tasks(&expressions(5_000)).as_bytes(), Format::Yaml).is_ok());
    let problems =
        compile_text(tasks(&expressions(5_010)).as_bytes(), Format::Yaml).expect_err("some too many");
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!((problems[0].code, problems[0].pointer.as_str()), ("too-large", "/do/0/a/set/x5000"));
    assert_eq!(problems[0].message, "the document has more than 5000 different expressions");
}

#[test]
fn functions_that_multiply() {
    // Each function calls the next twice: 2^20 steps if nobody counted.
    let function = |n: usize| {
        format!("    f{n}: {{ do: [ {{ a: {{ call: f{} }} }}, {{ b: {{ call: f{} }} }} ] }}\n", n + 1, n + 1)
    };
    let mut declared: String = (0..15).map(function).collect();
    declared += "    f15: { set: { x: 1 } }\n";
    let document = format!("use:\n  functions:\n{declared}{}", tasks("  - a: { call: f0 }"));
    let problems = compile_text(document.as_bytes(), Format::Yaml).expect_err("it is too large");
    assert!(problems.iter().all(|problem| problem.code == "too-large"), "{problems:?}");
}

#[test]
fn functions_that_call_ever_deeper() {
    let mut declared: String = (0..40).map(|n| format!("    f{n}: {{ call: f{} }}\n", n + 1)).collect();
    declared += "    f40: { set: { x: 1 } }\n";
    let document = format!("use:\n  functions:\n{declared}{}", tasks("  - a: { call: f0 }"));
    let problems = compile_text(document.as_bytes(), Format::Yaml).expect_err("it is too deep");
    assert!(problems.iter().all(|problem| problem.code == "too-deep"), "{problems:?}");
}

#[test]
fn problems_are_capped() {
    let keys: String = (0..5_000).map(|n| format!("      k{n}: 1\n")).collect();
    let document = tasks(&format!("  - a:\n      set: {{ x: 1 }}\n{keys}"));
    let problems = compile_text(document.as_bytes(), Format::Yaml).expect_err("the keys are unknown");
    assert_eq!(problems.len(), 100);
}

#[test]
fn long_keys_and_messages() {
    refused(
        &tasks(&format!("  - {}: {{ set: {{ x: 1 }} }}", "k".repeat(300))),
        "3:5  too-large: the key has 300 bytes, more than the allowed 256 => choose a shorter key",
    );
    let problems = compile_text(
        tasks(&format!("  - a: {{ set: {{ x: 1 }}, then: {} }}", "n".repeat(5_000))).as_bytes(),
        Format::Yaml,
    );
    assert!(problems.expect_err("it leads nowhere")[0].message.len() < 500);
}

const DOCUMENT: &str = "document: { dsl: 1.0.3, namespace: test, name: tested, version: 1.0.0 }\nuse:\n  functions:\n    f: { call: http, with: { method: get, endpoint: https://a.b } }\ndo:\n  - a: &a\n      if: .x\n      try: [ { b: { call: f } } ]\n      catch: { retry: { delay: PT1S }, do: [ { c: { set: { x: '${ $error }' } } } ] }\n  - d: *a\n  - e: { for: { in: .x }, do: [ { g: { wait: { seconds: 1 } } } ], then: a }\n";

proptest! {
    #[test]
    fn any_text_is_answered(text in "[\\PC\n\t]{0,200}") {
        let _ = compile_text(text.as_bytes(), Format::Yaml);
        let _ = compile_text(text.as_bytes(), Format::Json);
    }

    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = compile_text(&bytes, Format::Yaml);
        let _ = compile_text(&bytes, Format::Json);
    }

    /// A document with a piece cut out and another put in is answered with places that lie in it.
    #[test]
    fn any_edit_is_answered(start in 0..DOCUMENT.len(), length in 0_usize..40, piece in "[ \\-\\[\\]{}:,'\"&*$|>#a-z0-9\n]{0,6}") {
        let end = (start + length).min(DOCUMENT.len());
        let text = format!("{}{piece}{}", &DOCUMENT[..start], &DOCUMENT[end..]);
        if let Err(problems) = compile_text(text.as_bytes(), Format::Yaml) {
            prop_assert!(!problems.is_empty());
            for problem in problems {
                prop_assert!(problem.line >= 1 && problem.column >= 1);
                prop_assert!(problem.line as usize <= text.lines().count() + 1, "{problem:?}");
            }
        }
    }
}
