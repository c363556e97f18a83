//! Scripts: what is handed to the sandbox, and what comes of the answer.

use super::{bench, data};
use crate::command::{SCRIPT, ScriptRequest};

const RUN: &str = "
    do:
      - compute:
          run:
            script:
              language: javascript
              arguments: [ a, '${ .n }' ]
              environment: { who: '${ .who }' }
              stdin: ${ .text }
              code: |
                console.log('${ not an expression }')
            return: all
      - after: { set: { code: '${ .code }' } }
";

#[test]
fn a_script_is_a_call_with_everything_computed() {
    let mut bench = bench(RUN).start(r#"{"n":7,"who":"me","text":"in"}"#);
    let call = bench.calls[0].clone();
    assert_eq!((call.target.as_str(), call.step.as_str()), (SCRIPT, "/do/0/compute"));
    let request: ScriptRequest = serde_json::from_value(call.input.to_json()).unwrap();
    assert_eq!(request.code, "console.log('${ not an expression }')\n");
    assert_eq!(request.arguments, ["a", "7"]);
    assert_eq!(request.environment, [("who".to_owned(), "me".to_owned())]);
    assert_eq!((request.stdin.as_str(), request.returned.word()), ("in", "all"));
    bench.done(r#"{"code":0,"stdout":"","stderr":""}"#);
    bench.completes_with(r#"{"code":0}"#);
}

#[test]
fn a_script_that_is_not_awaited_holds_nothing_up() {
    let mut bench = bench(
        "
        do:
          - fire: { run: { script: { language: js, code: '1' }, await: false } }
          - next: { wait: PT1S }
        ",
    )
    .start(r#"{"x":1}"#);
    let call = bench.calls.remove(0);
    assert!(
        !bench.tell(crate::Command::CallDone { token: call.token, result: data("9") }),
        "nobody waits for it"
    );
    bench.tick();
    bench.completes_with(r#"{"x":1}"#);
}
