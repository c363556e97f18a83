//! Retry policies, errors and limits: inline, and by the name that `use` gives them.

use super::{bench, check};
use crate::state::{RETRIES_MAX, Status};

/// The delays in milliseconds that a policy puts between attempts that all fail.
fn delays(policy: &str, attempts: usize) -> Vec<i64> {
    let body = format!(
        "use: {{ retries: {{ named: {policy} }} }}\ndo:\n- t: {{ try: [ {{ c: {{ call: 'w:1.0.0@default' }} }} ], catch: {{ retry: POLICY }} }}"
    );
    let run = |policy: &str| {
        let mut run = bench(&body.replace("POLICY", policy)).start("{}");
        let mut delays = Vec::new();
        while run.state().status == Status::Open && delays.len() < attempts {
            run.failed(503);
            let Some((_, due)) = run.timers.first().copied() else { break };
            delays.push(due.since(run.now).as_millis());
            run.tick();
        }
        delays
    };
    let (named, inline) = (run("named"), run(policy));
    assert_eq!(named, inline, "a policy means the same by name and on the spot");
    named
}

#[test]
fn delays_grow_as_the_policy_says() {
    for (backoff, expected) in [
        ("", [1000, 1000, 1000, 1000]),
        (", backoff: { constant: {} }", [1000, 1000, 1000, 1000]),
        (", backoff: { linear: {} }", [1000, 2000, 3000, 4000]),
        (", backoff: { exponential: {} }", [1000, 2000, 4000, 8000]),
        (", backoff: { exponential: { factor: 3 } }", [1000, 3000, 9000, 27000]),
        (", backoff: { exponential: { factor: 3, maxDelay: PT5S } }", [1000, 3000, 5000, 5000]),
    ] {
        assert_eq!(delays(&format!("{{ delay: PT1S{backoff} }}"), 4), expected, "{backoff}");
    }
}

#[test]
fn jitter_is_added_within_its_bounds_and_is_the_same_every_time() {
    let found =
        delays("{ delay: PT1S, jitter: { from: { milliseconds: 100 }, to: { milliseconds: 300 } } }", 8);
    assert!(found.iter().all(|delay| (1100..=1300).contains(delay)), "{found:?}");
    assert!(found.windows(2).any(|pair| pair[0] != pair[1]), "{found:?}");
}

#[test]
fn limits_count_retries_and_time() {
    assert_eq!(delays("{ delay: PT1S, limit: { attempt: { count: 2 } } }", 9).len(), 2);
    assert_eq!(delays("{ delay: PT1S, limit: { attempt: { count: 0 } } }", 9).len(), 0);
    assert_eq!(delays("{ delay: PT10S, limit: { duration: PT35S } }", 9).len(), 3);
    assert_eq!(delays("{ limit: { attempt: { duration: PT1S } } }", 999).len(), RETRIES_MAX as usize);
}

#[test]
fn conditions_of_the_policy_decide_about_each_retry() {
    assert_eq!(delays("{ when: '$error.status == 503' }", 2).len(), 2);
    assert_eq!(delays("{ when: '$error.status == 500' }", 2).len(), 0);
    assert_eq!(delays("{ exceptWhen: '$error.status == 503' }", 2).len(), 0);
}

#[test]
fn errors_are_raised_by_name() {
    let body = r"
        use: { errors: { gone: { type: 'https://a.b/gone', status: 410, title: Gone, detail: '${ .why }' } } }
        do:
        - t:
            try: [ { r: { raise: { error: gone } } } ]
            catch: { as: e, do: [ { keep: { set: { e: '${ $e }' } } } ] }";
    let expected = r#"{"e":{"type":"https://a.b/gone","status":410,"title":"Gone","detail":"sold","instance":"/do/0/t/try/0/r"}}"#;
    check(body, r#"{"why":"sold"}"#, expected);
}

#[test]
fn limits_of_steps_and_of_the_workflow_go_by_name() {
    let body = "use: { timeouts: { short: { after: PT5S } } }\ndo:\n- c: { call: 'w:1.0.0@default', timeout: short }";
    let mut run = bench(body).start("{}");
    run.tick();
    run.faults_with("timeout", 408, "/do/0/c");
    let body = body.replace("\ndo:", "\ntimeout: short\ndo:").replace(", timeout: short }", " }");
    let mut run = bench(&body).start("{}");
    run.tick();
    run.faults_with("timeout", 408, "/");
}
