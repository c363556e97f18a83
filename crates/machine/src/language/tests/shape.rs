//! What the upstream schema forbids, and the nearest right word.

use super::{refused, tasks};

#[test]
fn unknown_and_missing_keys() {
    refused(
        "documnt: {}\nversion: 1",
        r#"
            1:1 /documnt unknown-key: `documnt` is not known here => did you mean `document`?
            1:1  missing-key: the document needs `document` => add `document:`
            1:1  missing-key: the document needs `do` => add `do:`
            2:1 /version unknown-key: `version` is not known here => known here: document, input, use, do, timeout, output, schedule, evaluate
        "#,
    );
    refused(
        "document: { dsl: 1.0.3, name: a, version: 1.0.0, nmae: b }\ndo: []",
        r#"
            1:11 /document missing-key: `document` needs `namespace` => add `namespace:`
            1:50 /document/nmae unknown-key: `nmae` is not known here => did you mean `name`?
            2:5 /do empty-list: `do` is an empty list => add at least one element
        "#,
    );
    refused(
        &tasks("  - a:\n      set: { x: 1 }\n      thn: end"),
        "5:7 /do/0/a/thn unknown-key: `thn` is not known here => did you mean `then`?",
    );
    refused(
        &tasks("  - a:\n      call: http\n      with: { method: get, endpont: https://a.b }"),
        r#"
            5:13 /do/0/a/with missing-key: `with` needs `endpoint` => add `endpoint:`
            5:28 /do/0/a/with/endpont unknown-key: `endpont` is not known here => did you mean `endpoint`?
        "#,
    );
    refused(&tasks("  - a:\n      call: http"), "4:7 /do/0/a missing-key: `a` needs `with` => add `with:`");
    refused(
        &tasks("  - a:\n      try:\n        - b: { set: { x: 1 } }"),
        "4:7 /do/0/a missing-key: `a` needs `catch` => add `catch:`",
    );
    refused(
        &tasks("  - a:\n      for: { each: x }"),
        r#"
            4:7 /do/0/a missing-key: `a` needs `do` => add `do:`
            4:12 /do/0/a/for missing-key: `for` needs `in` => add `in:`
        "#,
    );
    refused(
        &tasks("  - a:\n      try: [ { b: { set: { x: 1 } } } ]\n      catch: { then: end }"),
        "5:16 /do/0/a/catch/then unknown-key: `then` is not known here => `then` belongs to the task itself; move it up",
    );
}

#[test]
fn wrong_types() {
    refused(
        "document: text\ndo: {}",
        r#"
            1:11 /document wrong-type: `document` must be an object, but is text
            2:5 /do wrong-type: `do` must be a list, but is an object
        "#,
    );
    refused(
        "document: { dsl: 1.0, namespace: n, name: 7, version: 1.0.0 }\ndo:\n  - a: { set: { x: 1 } }",
        r#"
            1:18 /document/dsl wrong-type: `dsl` must be text, but is a number => put the value in quotes
            1:43 /document/name wrong-type: `name` must be text, but is a number => put the value in quotes
        "#,
    );
    refused(
        &tasks("  - a:\n      if: true\n      set: { x: 1 }"),
        "4:11 /do/0/a/if wrong-type: `if` must be text: an expression, but is a boolean => put the value in quotes",
    );
    refused(
        &tasks("  - a:\n      set: [1]"),
        "4:12 /do/0/a/set wrong-type: `set` must be an object, but is a list",
    );
    refused(&tasks("  - a:\n      set: {}"), "4:12 /do/0/a/set bad-value: `set` must not be empty");
    refused(
        &tasks("  - a:\n      set: .x"),
        "4:12 /do/0/a/set wrong-type: `set` must be an object or an expression in ${ }, but is text => wrap the expression: `${ <expression> }`",
    );
    refused(
        &tasks("  - a:\n      fork: { compete: yes, branches: [ { b: { set: { x: 1 } } } ] }"),
        "4:24 /do/0/a/fork/compete wrong-type: `compete` must be true or false, but is text",
    );
    refused(
        &tasks("  - a:\n      call: http\n      with: { method: get, endpoint: /pets, query: { a: 1 } }"),
        r#"
            5:38 /do/0/a/with/endpoint bad-value: `endpoint` must be a URI such as https://example.com/path, but is `/pets`
            5:57 /do/0/a/with/query/a wrong-type: `a` must be text, but is a number => put the value in quotes
        "#,
    );
    refused(
        &tasks("  - a:\n      call: send:1.0.0@default\n      with: ${ . }"),
        "5:13 /do/0/a/with wrong-type: `with` must be an object, but is text",
    );
    refused(
        &tasks("  - a:\n"),
        "3:5 /do/0/a wrong-type: `a` must be a task, that is an object, but is nothing",
    );
    refused(
        &tasks("  - just text"),
        "3:5 /do/0 wrong-type: item 1 must be an object with one key, its name, but is text",
    );
}

#[test]
fn tasks_that_do_nothing_or_too_much() {
    refused(
        &tasks("  - a: {}"),
        "3:5 /do/0/a bad-task: the task `a` does not say what to do => add one of `call`, `for`, `do`, `emit`, `fork`, `listen`, `raise`, `run`, `set`, `switch`, `try`, `wait`",
    );
    refused(
        &tasks("  - a:\n      sett: { x: 1 }"),
        "3:5 /do/0/a bad-task: the task `a` does not say what to do => did you mean `set` instead of `sett`?",
    );
    refused(
        &tasks("  - a:\n      set: { x: 1 }\n      wait: PT1S"),
        "3:5 /do/0/a bad-task: the task `a` has `set` and `wait`, but a task does one thing => split it into several tasks",
    );
    refused(
        &tasks("  - a:\n    set: { x: 1 }"),
        "3:5 /do/0 bad-item: item 1 must have exactly one key, its name, but has 2 => indent what belongs to the name by two more spaces",
    );
    refused(
        "document: { dsl: 1.0.3, namespace: n, name: w, version: 1.0.0 }\ndo: []",
        "2:5 /do empty-list: `do` is an empty list => add at least one element",
    );
    refused(
        &tasks("  - a:\n      do: []"),
        "4:11 /do/0/a/do empty-list: `do` is an empty list => add at least one element",
    );
    refused(
        &tasks("  - a:\n      switch: []"),
        "4:15 /do/0/a/switch empty-list: `switch` is an empty list => add at least one element",
    );
}

#[test]
fn words_out_of_a_list() {
    refused(
        &tasks("  - a:\n      listen: { to: { one: { with: { type: t } } }, read: envelop }"),
        "4:59 /do/0/a/listen/read bad-value: `read` cannot be `envelop`; it is one of `data`, `envelope`, `raw` => did you mean `envelope`?",
    );
    refused(
        &tasks("  - a:\n      call: http\n      with: { method: get, endpoint: https://a.b, output: json }"),
        "5:59 /do/0/a/with/output bad-value: `output` cannot be `json`; it is one of `raw`, `content`, `response`",
    );
}

#[test]
fn durations() {
    refused(
        &tasks("  - a: { wait: 30 }"),
        "3:16 /do/0/a/wait bad-duration: `wait` must be a duration => write an object such as `{ minutes: 5 }`, or ISO 8601 such as PT5M",
    );
    refused(
        &tasks("  - a: { wait: 30s }"),
        "3:16 /do/0/a/wait bad-duration: `wait` is not an ISO 8601 duration: `30s` => write an object such as `{ minutes: 5 }`, or ISO 8601 such as PT5M",
    );
    refused(
        &tasks("  - a: { wait: {} }"),
        "3:16 /do/0/a/wait bad-duration: `wait` names no unit => write an object such as `{ minutes: 5 }`, or ISO 8601 such as PT5M",
    );
    refused(
        &tasks("  - a: { wait: { second: 3 } }"),
        "3:18 /do/0/a/wait/second unknown-key: `second` is not known here => did you mean `seconds`?",
    );
    refused(
        &tasks("  - a: { wait: { seconds: 1.5 } }"),
        "3:16 /do/0/a/wait bad-duration: `wait` needs an integer for `seconds` => write an object such as `{ minutes: 5 }`, or ISO 8601 such as PT5M",
    );
    refused(
        &tasks("  - a: { wait: { seconds: -1 } }"),
        "3:16 /do/0/a/wait bad-duration: `wait` has a negative number of seconds => write an object such as `{ minutes: 5 }`, or ISO 8601 such as PT5M",
    );
    refused(
        &tasks("  - a: { wait: P1M }"),
        "3:16 /do/0/a/wait bad-duration: `wait` counts in years or months, whose length depends on the calendar => write an object such as `{ minutes: 5 }`, or ISO 8601 such as PT5M",
    );
    refused(
        &tasks("  - a: { wait: P1.5D }"),
        "3:16 /do/0/a/wait bad-duration: `wait` has a fraction where only hours, minutes and seconds may => write an object such as `{ minutes: 5 }`, or ISO 8601 such as PT5M",
    );
    refused(
        &tasks("  - a: { wait: PT }"),
        "3:16 /do/0/a/wait bad-duration: `wait` is not an ISO 8601 duration: `PT` => write an object such as `{ minutes: 5 }`, or ISO 8601 such as PT5M",
    );
    refused(
        &tasks("  - a: { wait: pt5m }"),
        "3:16 /do/0/a/wait bad-duration: `wait` is not an ISO 8601 duration: `pt5m` => write an object such as `{ minutes: 5 }`, or ISO 8601 such as PT5M",
    );
    refused(
        &tasks("  - a: { wait: PT1S1M }"),
        "3:16 /do/0/a/wait bad-duration: `wait` is not an ISO 8601 duration: `PT1S1M` => write an object such as `{ minutes: 5 }`, or ISO 8601 such as PT5M",
    );
    refused(
        &tasks("  - a: { wait: { days: 40000 } }"),
        "3:16 /do/0/a/wait bad-duration: `wait` is longer than 100 years => write an object such as `{ minutes: 5 }`, or ISO 8601 such as PT5M",
    );
    refused(
        &tasks("  - a: { wait: P40000D }"),
        "3:16 /do/0/a/wait bad-duration: `wait` is longer than 100 years => write an object such as `{ minutes: 5 }`, or ISO 8601 such as PT5M",
    );
    refused(
        &tasks("  - a:\n      wait: |\n        ${ .x |\n        .y }"),
        "5:9 /do/0/a/wait bad-value: the expression in `wait` spans several lines => write it on one line, or fold it with `>-`",
    );
    refused(
        &tasks("  - a:\n      timeout: { after: soon }\n      set: { x: 1 }"),
        "4:25 /do/0/a/timeout/after bad-duration: `after` is not an ISO 8601 duration: `soon` => write an object such as `{ minutes: 5 }`, or ISO 8601 such as PT5M",
    );
}

#[test]
fn one_of_several_keys() {
    refused(
        &tasks("  - a:\n      run: { shell: { command: ls }, script: { language: js, code: x } }"),
        "
        4:12 /do/0/a/run conflicting-keys: `run` has `script` and `shell`, but takes only one of them => keep one and remove the others
        4:14 /do/0/a/run/shell configuration: this engine does not run commands => do it in a worker, and call that
        ",
    );
    refused(
        &tasks("  - a:\n      run: { await: true }"),
        "4:12 /do/0/a/run missing-key: `run` needs one of `container`, `script`, `shell`, `workflow` => add one of them",
    );
    refused(
        &tasks("  - a:\n      listen: { to: { one: { with: { type: t } }, until: .x } }"),
        "4:21 /do/0/a/listen/to bad-value: `until` goes with `any` only => remove it, or use `any`",
    );
    refused(
        "document: { dsl: 1.0.3, namespace: n, name: w, version: 1.0.0 }\nschedule: { every: PT1H, cron: '0 0 * * *' }\ndo: [ { a: { set: { x: 1 } } } ]",
        "2:11 /schedule conflicting-keys: `schedule` has `every` and `cron`, but takes only one of them => keep one and remove the others",
    );
    refused(
        &tasks(
            "  - a:\n      call: http\n      with: { method: get, endpoint: { uri: https://a.b, authentication: { basic: { username: u } } } }",
        ),
        "5:83 /do/0/a/with/endpoint/authentication/basic missing-key: `basic` needs `password` => add `password:`",
    );
}

#[test]
fn cron_expressions() {
    let with_cron = |cron: &str| {
        format!(
            "document: {{ dsl: 1.0.3, namespace: n, name: w, version: 1.0.0 }}\nschedule: {{ cron: '{cron}' }}\ndo: [ {{ a: {{ set: {{ x: 1 }} }} }} ]"
        )
    };
    refused(
        &with_cron("every day"),
        "2:19 /schedule/cron bad-cron: the cron expression `every day` has 2 fields instead of 5 => write minute, hour, day of month, month and day of week, such as `0 8 * * 1-5`",
    );
    refused(
        &with_cron("61 * * * *"),
        "2:19 /schedule/cron bad-cron: the cron expression `61 * * * *` has `61` as its minute, which takes 0 to 59 => write minute, hour, day of month, month and day of week, such as `0 8 * * 1-5`",
    );
    refused(
        &with_cron("* * 5-2 * *"),
        "2:19 /schedule/cron bad-cron: the cron expression `* * 5-2 * *` has `5-2` as its day of month, which takes 1 to 31 => write minute, hour, day of month, month and day of week, such as `0 8 * * 1-5`",
    );
    refused(
        &with_cron("*/0 * * * *"),
        "2:19 /schedule/cron bad-cron: the cron expression `*/0 * * * *` has `*/0` as its minute, which takes 0 to 59 => write minute, hour, day of month, month and day of week, such as `0 8 * * 1-5`",
    );
    for right in ["0 0 * * *", "*/15 8-18 1,15 JAN-MAR mon-fri", "5/10 * * * 7"] {
        super::yaml(&with_cron(right));
    }
}

#[test]
fn errors_and_retries() {
    refused(
        &tasks("  - a: { raise: { error: { type: not-found, status: 404 } } }"),
        "3:34 /do/0/a/raise/error/type bad-value: `type` must be a URI such as https://example.com/path, but is `not-found`",
    );
    refused(
        &tasks("  - a: { raise: { error: { type: https://a.b/c, status: 42 } } }"),
        "3:57 /do/0/a/raise/error/status bad-value: `status` must be from 100 to 599, but is 42",
    );
    refused(
        &tasks("  - a: { raise: { error: { type: https://a.b/c, status: '${ .s }' } } }"),
        "3:57 /do/0/a/raise/error/status wrong-type: `status` must be an integer, but is text",
    );
    let with_retry = |retry: &str| {
        tasks(&format!(
            "  - a:\n      try: [ {{ b: {{ set: {{ x: 1 }} }} }} ]\n      catch:\n        retry: {retry}"
        ))
    };
    refused(
        &with_retry("{ backoff: { exponential: { factor: 0.5, max: PT1M } } }"),
        r#"
            6:52 /do/0/a/catch/retry/backoff/exponential/factor bad-value: `factor` must be at least 1, but is 0.5
            6:57 /do/0/a/catch/retry/backoff/exponential/max unknown-key: `max` is not known here => known here: factor, maxDelay
        "#,
    );
    refused(
        &with_retry("{ backoff: { constant: {}, linear: {} } }"),
        "6:27 /do/0/a/catch/retry/backoff conflicting-keys: `backoff` has `constant` and `linear`, but takes only one of them => keep one and remove the others",
    );
    refused(
        &with_retry("{ limit: { attempt: { count: -1 } } }"),
        "6:45 /do/0/a/catch/retry/limit/attempt/count bad-value: `count` must be from 0 to 4294967295, but is -1",
    );
    refused(
        &with_retry("{ jitter: { from: PT1S } }"),
        "6:26 /do/0/a/catch/retry/jitter missing-key: `jitter` needs `to` => add `to:`",
    );
    refused(
        &with_retry("{ jitter: { from: PT2S, to: PT1S } }"),
        "6:26 /do/0/a/catch/retry/jitter bad-duration: `jitter` starts after it ends: `from` is longer than `to` => swap the two",
    );
    refused(
        &tasks("  - a:\n      try: [ { b: { set: { x: 1 } } } ]\n      catch: { errors: { with: {} } }"),
        "5:32 /do/0/a/catch/errors/with bad-value: `with` must not be empty",
    );
}

#[test]
fn all_problems_in_document_order() {
    refused(
        &tasks("  - a:\n      wait: soon\n      then: nowhere\n  - a:\n      set: { x: 1 }\n      thn: end"),
        r#"
            4:13 /do/0/a/wait bad-duration: `wait` is not an ISO 8601 duration: `soon` => write an object such as `{ minutes: 5 }`, or ISO 8601 such as PT5M
            5:13 /do/0/a/then unknown-target: `then` leads to `nowhere`, but no task of this list is called that => it can lead to a, continue, exit, end
            6:5 /do/1/a duplicate-task: a task of this list is already called `a` (line 3) => names must be unique within a list; rename one of the two
            8:7 /do/1/a/thn unknown-key: `thn` is not known here => did you mean `then`?
        "#,
    );
}
