//! What a schema cannot see: names, references, jumps, versions.

use super::{Format, HEAD, accepted, compile_text, refused, show_all, tasks, yaml};

fn used(declared: &str, task: &str) -> String {
    format!("{}use:\n{declared}\n", tasks(task))
}

#[test]
fn header() {
    let header = |dsl: &str, namespace: &str, name: &str, version: &str| {
        format!(
            "document:\n  dsl: {dsl}\n  namespace: {namespace}\n  name: {name}\n  version: {version}\ndo: [ {{ a: {{ set: {{ x: 1 }} }} }} ]"
        )
    };
    refused(
        &header("1.0.4", "n", "w", "1.0.0"),
        "2:8 /document/dsl unknown-dsl: version 1.0.4 of the language is newer than 1.0.3, the newest known here => write `dsl: '1.0.3'` and use only what that version has",
    );
    refused(
        &header("2.0.0-alpha1", "n", "w", "1.0.0"),
        "2:8 /document/dsl unknown-dsl: version 2.0.0-alpha1 of the language is newer than 1.0.3, the newest known here => write `dsl: '1.0.3'` and use only what that version has",
    );
    refused(
        &header("0.8.0", "n", "w", "1.0.0"),
        "2:8 /document/dsl unknown-dsl: version 0.8.0 of the language is older than 1.0.0, the oldest known here => convert the document and write `dsl: '1.0.3'`",
    );
    refused(
        &header("'1.0'", "n.o", "my_flow", "v1"),
        r#"
            2:8 /document/dsl bad-version: the version of the language, `1.0`, is not a semantic version => write `dsl: '1.0.3'`
            3:14 /document/namespace bad-name: the namespace `n.o` is not a DNS label => use at most 63 letters, digits and `-`, with a letter or digit at both ends
            4:9 /document/name bad-name: the name `my_flow` is not a DNS label => use at most 63 letters, digits and `-`, with a letter or digit at both ends
            5:12 /document/version bad-version: the version `v1` is not a semantic version => write three numbers, such as `1.0.0`
        "#,
    );
    refused(
        &header("1.0.0", "-n", &"x".repeat(64), "1.0"),
        r#"
            3:14 /document/namespace bad-name: the namespace `-n` is not a DNS label => use at most 63 letters, digits and `-`, with a letter or digit at both ends
            4:9 /document/name bad-name: the name `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx` is not a DNS label => use at most 63 letters, digits and `-`, with a letter or digit at both ends
            5:12 /document/version wrong-type: `version` must be text, but is a number => put the value in quotes
        "#,
    );
    for dsl in ["1.0.0-alpha5", "1.0.0", "1.0.1", "'1.0.3'"] {
        yaml(&header(dsl, "N", "w-1", "1.2.3-rc.1+build.5"));
    }
}

#[test]
fn task_names() {
    refused(
        &tasks("  - a: { set: { x: 1 } }\n  - b: { set: { x: 1 } }\n  - a: { set: { x: 2 } }"),
        "5:5 /do/2/a duplicate-task: a task of this list is already called `a` (line 3) => names must be unique within a list; rename one of the two",
    );
    refused(
        &tasks("  - end: { set: { x: 1 } }"),
        "3:5 /do/0/end reserved-name: a task cannot be called `end`: `then` could not lead to it => choose another name",
    );
    // The same name in another list is another task.
    yaml(&tasks("  - a: { do: [ { a: { set: { x: 1 } } } ] }"));
}

#[test]
fn jumps() {
    refused(
        &tasks("  - first: { set: { x: 1 }, then: secnd }\n  - second: { set: { x: 1 } }"),
        "3:35 /do/0/first/then unknown-target: `then` leads to `secnd`, but no task of this list is called that => did you mean `second`?",
    );
    refused(
        &tasks("  - first: { set: { x: 1 }, then: elsewhere }"),
        "3:35 /do/0/first/then unknown-target: `then` leads to `elsewhere`, but no task of this list is called that => it can lead to first, continue, exit, end",
    );
    // Only the same list counts.
    refused(
        &tasks(
            "  - outer:\n      do:\n        - inner: { set: { x: 1 }, then: other }\n  - other: { set: { x: 1 } }",
        ),
        "5:41 /do/0/outer/do/0/inner/then unknown-target: `then` leads to `other`, but no task of this list is called that => it can lead to inner, continue, exit, end",
    );
    refused(
        &tasks("  - s:\n      switch:\n        - c: { when: .x, then: nowhere }"),
        "5:32 /do/0/s/switch/0/c/then unknown-target: `then` leads to `nowhere`, but no task of this list is called that => it can lead to s, continue, exit, end",
    );
    refused(
        &tasks(
            "  - f:\n      fork:\n        branches:\n          - one: { set: { x: 1 }, then: two }\n          - two: { set: { x: 1 } }",
        ),
        "6:41 /do/0/f/fork/branches/0/one/then unknown-target: `then` leads to `two`, which is another branch of the same fork => branches run side by side; put both tasks into one branch with `do`",
    );
}

#[test]
fn switch_cases() {
    refused(
        &tasks(
            "  - s:\n      switch:\n        - c: { then: end }\n        - d: { when: .x, then: end }\n        - e: { then: exit }",
        ),
        "7:11 /do/0/s/switch/2/e two-defaults: `e` is a second default case; `c` has no `when` either => give one of them a `when`",
    );
    refused(
        &tasks(
            "  - s:\n      switch:\n        - c: { when: .x, then: end }\n        - c: { when: .y, then: exit }",
        ),
        "6:11 /do/0/s/switch/1/c duplicate-case: two cases of this switch are called `c` => rename one of them",
    );
}

#[test]
fn references() {
    refused(
        &tasks("  - a: { raise: { error: missing } }"),
        "3:26 /do/0/a/raise/error unknown-reference: `missing` is not declared in `use.errors` => declare it under `use.errors`",
    );
    refused(
        &used(
            "  errors:\n    notFound: { type: https://a.b/c, status: 404 }",
            "  - a: { raise: { error: notfound } }",
        ),
        "3:26 /do/0/a/raise/error unknown-reference: `notfound` is not declared in `use.errors` => did you mean `notFound`?",
    );
    refused(
        &tasks("  - a: { set: { x: 1 }, timeout: short }"),
        "3:34 /do/0/a/timeout unknown-reference: `short` is not declared in `use.timeouts` => declare it under `use.timeouts`",
    );
    refused(
        &format!("timeout: short\n{}", tasks("  - a: { set: { x: 1 } }")),
        "1:10 /timeout unknown-reference: `short` is not declared in `use.timeouts` => declare it under `use.timeouts`",
    );
    refused(
        &tasks("  - a:\n      try: [ { b: { set: { x: 1 } } } ]\n      catch: { retry: often }"),
        "5:23 /do/0/a/catch/retry unknown-reference: `often` is not declared in `use.retries` => declare it under `use.retries`",
    );
    let call = |authentication: &str| {
        tasks(&format!(
            "  - a:\n      call: http\n      with:\n        method: get\n        endpoint:\n          uri: https://a.b\n          authentication: {authentication}"
        ))
    };
    refused(
        &call("{ use: mine }"),
        "9:34 /do/0/a/with/endpoint/authentication/use unknown-reference: `mine` is not declared in `use.authentications` => declare it under `use.authentications`",
    );
    refused(
        &call("{ bearer: { use: token } }"),
        "9:44 /do/0/a/with/endpoint/authentication/bearer/use unknown-reference: the secret `token` is not declared in `use.secrets` => add `- token` to `use.secrets`",
    );
}

#[test]
fn functions() {
    refused(
        &tasks("  - a: { call: sendMail }"),
        "3:16 /do/0/a/call unknown-reference: there is no function `sendMail` => declare it in `use.functions`, or call a worker: `sendMail:1.0.0@default`",
    );
    refused(
        &tasks("  - a: { call: htpp, with: {} }"),
        "3:16 /do/0/a/call unknown-reference: there is no function `htpp` => did you mean `http`?",
    );
    refused(
        &tasks("  - a: { call: 'send-mail:1.0.0' }"),
        "3:16 /do/0/a/call unknown-reference: there is no function `send-mail:1.0.0` => name the catalog too: `send-mail:1.0.0@default`",
    );
    refused(
        &tasks("  - a: { call: 'send-mail:1@default' }"),
        "3:16 /do/0/a/call bad-function: `send-mail:1@default` is not a function of the default catalog => write `<name>:<version>@default`, such as `send-mail:1.0.0@default`",
    );
    refused(
        &tasks("  - a: { call: 'send-mail:1.0.0@acme' }"),
        "3:16 /do/0/a/call unknown-reference: `acme` is not declared in `use.catalogs` => declare it under `use.catalogs`",
    );
    refused(
        &used("  functions:\n    f: { call: g }\n    g: { call: f }", "  - a: { call: f }"),
        r#"
            7:16 /use/functions/g/call function-cycle: the function `f` calls itself: f -> g -> f => use `for` to repeat something
        "#,
    );
    refused(
        &used("  functions:\n    f: { set: { x: 1 }, then: elsewhere }", "  - a: { call: f }"),
        "6:31 /use/functions/f/then unknown-target: `then` leads to `elsewhere`, but no task of this list is called that => it can lead to continue, exit, end",
    );
    refused(
        &used("  catalogs:\n    default: { endpoint: https://a.b }", "  - a: { set: { x: 1 } }"),
        "6:5 /use/catalogs/default reserved-name: the catalog `default` is the engine's own and cannot be declared => choose another name",
    );
}

#[test]
fn variables() {
    let with_for = |each: &str| {
        tasks(&format!(
            "  - a:\n      for: {{ {each}, in: .x }}\n      do: [ {{ b: {{ set: {{ x: 1 }} }} }} ]"
        ))
    };
    refused(
        &with_for("each: $pet"),
        "4:20 /do/0/a/for/each bad-name: `$pet` cannot be the name of a variable => write it without the `$`: `pet`",
    );
    refused(
        &with_for("each: my-pet"),
        "4:20 /do/0/a/for/each bad-name: `my-pet` cannot be the name of a variable => use letters, digits and `_`, not starting with a digit",
    );
    refused(
        &with_for("each: context"),
        "4:20 /do/0/a/for/each reserved-name: `$context` is already an argument of every expression => choose another name",
    );
    refused(
        &with_for("each: index"),
        "4:20 /do/0/a/for/each duplicate-variable: the element and its index are both called `$index` => name them apart",
    );
    refused(
        &tasks("  - a:\n      try: [ { b: { set: { x: 1 } } } ]\n      catch: { as: task }"),
        "5:20 /do/0/a/catch/as reserved-name: `$task` is already an argument of every expression => choose another name",
    );
}

#[test]
fn methods() {
    refused(
        &tasks("  - a: { call: http, with: { method: '${ .m }', endpoint: https://a.b } }"),
        "3:38 /do/0/a/with/method bad-value: `${ .m }` is not an HTTP method => write one such as get, post, put or delete",
    );
}

#[test]
fn expressions() {
    refused(
        &tasks("  - a:\n      set:\n        x: ${ .a + }"),
        "5:19 /do/0/a/set/x bad-expression: the expression does not compile: expected term but found the end",
    );
    refused(
        &tasks("  - a:\n      set:\n        x: '${ $item }'"),
        "5:16 /do/0/a/set/x bad-expression: the expression does not compile: $item is not defined here => known here: $context, $input, $output, $secrets, $authorization, $task, $workflow, $runtime",
    );
    refused(
        &tasks("  - a:\n      if: .a ==\n      set: { x: 1 }"),
        "4:16 /do/0/a/if bad-expression: the expression does not compile: expected term but found the end",
    );
    refused(
        &tasks("  - a:\n      set: { x: 1 }\n      output:\n        as: \"$contxt.a\""),
        "6:14 /do/0/a/output/as bad-expression: the expression does not compile: $contxt is not defined here, did you mean $context?",
    );
    refused(
        &tasks("  - a:\n      set:\n        x: |\n          ${ .a\n             + }"),
        "6:11 /do/0/a/set/x bad-expression: the expression does not compile: expected term but found the end",
    );
    refused(
        &tasks("  - a:\n      set:\n        x: ${ .a } and ${ .b }"),
        r#"5:18 /do/0/a/set/x bad-expression: the expression does not compile: expected token but found `} and ${ .b` => only a whole text can be an expression; build texts inside it with "\(.x)""#,
    );
    // A loop variable is known inside its loop only.
    refused(
        &tasks(
            "  - a:\n      for: { each: pet, in: .pets }\n      do:\n        - b: { set: { x: '${ $pet }' } }\n  - c:\n      set: { x: '${ $pet }' }",
        ),
        "8:17 /do/1/c/set/x bad-expression: the expression does not compile: $pet is not defined here => known here: $context, $input, $output, $secrets, $authorization, $task, $workflow, $runtime",
    );
    // A function does not see the variables of its caller.
    refused(
        &used(
            "  functions:\n    f: { set: { x: '${ $pet }' } }",
            "  - a:\n      for: { each: pet, in: .pets }\n      do: [ { b: { call: f } } ]",
        ),
        "8:20 /use/functions/f/set/x bad-expression: the expression does not compile: $pet is not defined here => known here: $context, $input, $output, $secrets, $authorization, $task, $workflow, $runtime",
    );
    assert!(HEAD.ends_with("do:\n"));
}

#[test]
fn secrets_stay_in_calls() {
    refused(
        &tasks("  - a:\n      set: { x: '${ $secrets.key }' }"),
        "4:17 /do/0/a/set/x secret-exposed: `$secrets` may only be used in `with` of a call that leaves the engine, and in authentication => hand it to the call that needs it",
    );
}

#[test]
fn secrets_go_to_workers_but_not_to_people_or_functions() {
    let call = |name: &str| {
        format!(
            "use: {{ secrets: [ key ], functions: {{ f: {{ set: {{ x: 1 }} }} }} }}\n{}",
            tasks(&format!("  - a:\n      call: {name}\n      with: {{ data: '${{ $secrets.key }}' }}"))
        )
    };
    accepted(&call("send-mail:1.0.0@default"));
    for name in ["human-task:1.0.0@default", "f"] {
        refused(
            &call(name),
            "6:21 /do/0/a/with/data secret-exposed: `$secrets` may only be used in `with` of a call that leaves the engine, and in authentication => hand it to the call that needs it",
        );
    }
}

#[test]
fn secrets_are_declared_and_not_computed_with() {
    let call = |with: &str| {
        let with = format!("{{ method: get, endpoint: https://a.b, {with} }}");
        format!(
            "use: {{ secrets: [ key ] }}\n{}",
            tasks(&format!("  - a:\n      call: http\n      with: {with}"))
        )
    };
    accepted(&call(
        "headers: { X-Key: '${ $secrets.key }' }, body: { k: '${ \"<\\($secrets.key.part)>\" }' }",
    ));
    refused(
        &call("headers: { X-Key: '${ $secrets.kye }' }"),
        "6:69 /do/0/a/with/headers/X-Key unknown-reference: the secret `kye` is not declared in `use.secrets` => add `- kye` to `use.secrets`",
    );
    refused(
        &call("headers: { X-Key: '${ $secrets.key | @base64 }' }"),
        "6:69 /do/0/a/with/headers/X-Key bad-expression: the expression does not compile: a secret can only be put in as it is: `$secrets.name`, or inside a text: `\"Bearer \\($secrets.name)\"`",
    );
}

#[test]
fn urls_that_could_never_be_called() {
    let call = |url: &str| {
        tasks(&format!("  - a:\n      call: http\n      with: {{ method: get, endpoint: '{url}' }}"))
    };
    for url in ["https://a.b/{x}", "http://a.b/{x,y}?z={z}"] {
        accepted(&call(url));
    }
    refused(
        &call("ftp://a.b/x"),
        "5:38 /do/0/a/with/endpoint bad-value: `ftp://a.b/x` cannot be called: it is neither http nor https => write the whole URL, such as `https://api.example.com/orders`",
    );
    refused(
        &call("https://u:p@a.b/x"),
        "5:38 /do/0/a/with/endpoint bad-value: the URL holds a user name or password => use `authentication` instead",
    );
    for url in ["https://a.b/{+x}", "https://a.b/{x*}", "https://a.b/{}"] {
        refused(
            &call(url),
            &format!(
                "5:38 /do/0/a/with/endpoint bad-value: `{url}` is not a URL template => only `{{name}}` is expanded, to a top-level field of the data; for more use an expression"
            ),
        );
    }
}

#[test]
fn token_policies_say_what_they_lack() {
    let call = |policy: &str| {
        let endpoint = format!("{{ uri: https://a.b, authentication: {policy} }}");
        tasks(&format!("  - a:\n      call: http\n      with: {{ method: get, endpoint: {endpoint} }}"))
    };
    accepted(&call(
        "{ oauth2: { authority: https://a.b, grant: client_credentials, client: { id: i, secret: s } } }",
    ));
    accepted(&call("{ oidc: { authority: https://a.b } }"));
    accepted(&call("{ digest: { username: u, password: p } }"));
    let place = "5:76 /do/0/a/with/endpoint/authentication/oauth2 missing-key:";
    for (policy, said) in [
        (
            "{ oauth2: { grant: password } }",
            "`oauth2` authentication with the grant `password` needs `authority`",
        ),
        (
            "{ oauth2: { authority: https://a.b, grant: password } }",
            "`oauth2` authentication with the grant `password` needs `username` and `password`",
        ),
        (
            "{ oauth2: { authority: https://a.b, grant: refresh_token } }",
            "`oauth2` authentication with the grant `refresh_token` needs `subject`, the token to exchange",
        ),
        (
            "{ oauth2: { authority: https://a.b, client: { id: i, authentication: private_key_jwt } } }",
            "`private_key_jwt` needs `client.assertion`, the signed token",
        ),
    ] {
        refused(&call(policy), &format!("{place} {said}"));
    }
}

#[test]
fn wanted_attributes_that_nothing_can_fit() {
    let listen = |filter: &str| {
        tasks(&format!("  - a: {{ listen: {{ to: {{ one: {{ with: {{ {filter} }} }} }} }} }}"))
    };
    accepted(&listen("type: 'com.example.(paid|refunded)'"));
    let problems = compile_text(listen("type: 'com(('").as_bytes(), Format::Yaml).unwrap_err();
    assert!(show_all(&problems).starts_with(
        "3:47 /do/0/a/listen/to/one/with/type bad-pattern: the wanted `type` is not a regular expression: "
    ), "{}", show_all(&problems));
}

#[test]
fn what_a_map_is_given() {
    let map = |with: &str| {
        let workflow = "workflow: { namespace: n, name: w, version: 1.0.0 }";
        tasks(&format!("  - a: {{ call: 'map:1.0.0@default', with: {{ items: [1], {workflow}, {with} }} }}"))
    };
    accepted(&map("concurrency: 10000, batchSize: 1, onError: collect, toleratedFailures: 0"));
    refused(
        &map("concurrency: 0"),
        "3:123 /do/0/a/with/concurrency bad-value: `concurrency` is a whole number from 1 to 10000",
    );
    refused(
        &map("batchSize: 1001"),
        "3:121 /do/0/a/with/batchSize bad-value: `batchSize` is a whole number from 1 to 1000",
    );
    refused(
        &map("toleratedFailures: 3"),
        "3:110 /do/0/a/with/toleratedFailures bad-value: `toleratedFailures` means nothing unless `onError` is `collect` => add `onError: collect`",
    );
}

#[test]
fn what_a_task_for_a_person_is_given() {
    let task =
        |with: &str| tasks(&format!("  - a: {{ call: 'human-task:1.0.0@default', with: {{ {with} }} }}"));
    accepted(&task(
        "title: '${ .t }', candidateGroups: [ a ], priority: 3, dueDate: '2026-01-31T12:00:00Z', data: 1",
    ));
    refused(
        &task("candidategroups: [ a ]"),
        "3:52 /do/0/a/with/candidategroups unknown-key: `human-task` has no argument `candidategroups` => did you mean `candidateGroups`?",
    );
    refused(
        &task("candidateGroups: fin"),
        "3:69 /do/0/a/with/candidateGroups wrong-type: `candidateGroups` must be a list of texts",
    );
    refused(
        &task("priority: high"),
        "3:62 /do/0/a/with/priority wrong-type: `priority` must be a whole number",
    );
    refused(
        &task("dueDate: tomorrow"),
        "3:61 /do/0/a/with/dueDate wrong-type: `dueDate` must be a time such as 2026-01-31T12:00:00Z",
    );
}
