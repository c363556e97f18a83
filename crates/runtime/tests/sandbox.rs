//! The sandbox with real evaluator processes.
//!
//! There is no test harness: this program is its own evaluator when it is started with `sandbox-evaluator`.

#![allow(clippy::print_stdout, reason = "it is a test harness of its own")]

use machine::{
    Data, Fault, TenantId, Time,
    command::ScriptRequest,
    expr::{Args, Evaluation},
    ir::Returned,
};
use runtime::sandbox::{NotRun, Options, Sandbox, ScriptCall, evaluator_main};
use std::{sync::Arc, time::Duration};

const ARGUMENT: &str = "sandbox-evaluator";

const CHECKS: [&str; 8] = [
    "answers_what_it_is_asked",
    "survives_the_hostile_corpus",
    "kills_at_the_deadline",
    "kills_at_the_memory_limit",
    "more_evaluations_than_processes_wait",
    "a_program_that_is_no_evaluator_is_a_fault",
    "scripts_answer_as_processes_do",
    "scripts_are_held_to_their_limits",
];

/// Speaks as much of the harness's language as cargo test and nextest use: `--list`, and names to run.
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    if has(ARGUMENT) {
        return evaluator_main();
    }
    let wanted: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let runs = |check: &&str| wanted.is_empty() || wanted.iter().any(|part| check.contains(part.as_str()));
    if has("--list") {
        let listed = CHECKS.iter().filter(|_| !has("--ignored"));
        return listed.for_each(|check| println!("{check}: test"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let checks: Vec<&str> = CHECKS.into_iter().filter(runs).collect();
    for check in &checks {
        runtime.block_on(run(check));
        println!("test {check} ... ok");
    }
    println!("test result: ok. {} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out", checks.len());
}

async fn run(check: &str) {
    match check {
        "answers_what_it_is_asked" => answers_what_it_is_asked().await,
        "survives_the_hostile_corpus" => survives_the_hostile_corpus().await,
        "kills_at_the_deadline" => kills_at_the_deadline().await,
        "kills_at_the_memory_limit" => kills_at_the_memory_limit().await,
        "more_evaluations_than_processes_wait" => more_evaluations_than_processes_wait().await,
        "a_program_that_is_no_evaluator_is_a_fault" => a_program_that_is_no_evaluator_is_a_fault().await,
        "scripts_answer_as_processes_do" => scripts_answer_as_processes_do().await,
        "scripts_are_held_to_their_limits" => scripts_are_held_to_their_limits().await,
        other => panic!("no check is called {other}"),
    }
}

fn options() -> Options {
    Options::new(std::env::current_exe().expect("this test has a path"), vec![ARGUMENT.to_owned()])
}

fn evaluation(source: &str) -> Evaluation {
    let input = Data::parse(br#"[1,2,{"a":"b"}]"#).expect("JSON");
    let args = Args { locals: vec![Data::int(7)], ..Args::default() };
    Evaluation { source: source.to_owned(), local_names: vec!["item".to_owned()], input, args }
}

fn tenant(name: &str) -> TenantId {
    TenantId::new(name).expect("a name")
}

async fn evaluate(sandbox: &Sandbox, evaluation: Evaluation) -> Result<Data, Fault> {
    sandbox.evaluate(&tenant("acme"), evaluation).await.expect("it may wait")
}

fn detail(result: Result<Data, Fault>) -> String {
    result.expect_err("it ends in a fault").detail.expect("the fault has a detail")
}

async fn answers_what_it_is_asked() {
    let sandbox = Sandbox::new(Options { evaluations_max: 3, ..options() });
    for _ in 0..10 {
        let result = evaluate(&sandbox, evaluation("def twice(f): f | f; $item | twice(. * 2)")).await;
        assert_eq!(result, Ok(Data::int(28)));
    }
    let result = evaluate(&sandbox, evaluation("[limit(3; repeat(.[2].a))]")).await;
    assert_eq!(result, Ok(Data::array(["b", "b", "b"].map(Data::text))));
    assert_eq!(detail(evaluate(&sandbox, evaluation(r#"error("no")"#)).await), "no");
    assert!(
        detail(evaluate(&sandbox, evaluation("nonsense")).await).starts_with("unknown function nonsense")
    );
}

async fn survives_the_hostile_corpus() {
    let doubling = vec!["[.[],.[]]"; 40].join(" | ");
    let merging = format!("{} | . * .", vec!["{a:.,b:.}"; 40].join(" | "));
    let sources = [
        "def f: 1 + f; f",
        "def f: [f]; f",
        "def f: f; f",
        "def f: f, f; [f]",
        "def a(x): a(x); a(0)",
        "def f(g): f(g | g); f(.)",
        "def f: try f catch f; f",
        "def f: {a: f}; f",
        "def f($n): [$n, f($n + 1)]; f(0)",
        "[range(1e9)]",
        "last(range(1e12))",
        "until(false; .)",
        "[limit(1e9; repeat(1))]",
        "[repeat(\"x\" * 1000)]",
        "last(recurse(.))",
        "[recurse([.])] | length",
        "reduce range(1e6) as $i ([]; [.])",
        "reduce range(1e6) as $i (\"x\"; . + .)",
        r#""x" * 500000000"#,
        r#"[range(1e6) | tostring * 1000]"#,
        "[range(1e5)] | combinations(1e5)",
        r#"("a" * 200000) | [match("(?:.*z)|a"; "g")] | length"#,
        "halt(7)",
        "env",
        "$ENV",
        "input",
        "now",
        &doubling,
        &merging,
    ];
    let sandbox = Sandbox::new(options());
    for source in sources {
        let shown: String = source.chars().take(50).collect();
        let fault = evaluate(&sandbox, evaluation(source)).await.expect_err(source);
        println!("{shown}: {}", fault.detail.as_deref().unwrap_or(""));
        assert!(fault.error_type.ends_with("/expression"), "{shown}: {fault:?}");
        let after = evaluate(&sandbox, evaluation("$item + 1")).await;
        assert_eq!(after, Ok(Data::int(8)), "after {shown}");
    }
}

async fn kills_at_the_deadline() {
    let sandbox = Sandbox::new(Options { deadline: Duration::from_millis(20), ..options() });
    assert_eq!(
        detail(evaluate(&sandbox, evaluation("last(range(1e12))")).await),
        "the expression was stopped: it ran longer than 20 ms"
    );
}

async fn kills_at_the_memory_limit() {
    let sandbox = Sandbox::new(Options { memory_max_bytes: 4 << 20, ..options() });
    let found = detail(evaluate(&sandbox, evaluation(r#"[range(1e6) | tostring * 50]"#)).await);
    assert!(found.starts_with("the expression was stopped: it used more than 4 MiB of memory"), "{found}");
}

async fn more_evaluations_than_processes_wait() {
    let sandbox = Arc::new(Sandbox::new(options()));
    let many: Vec<_> = (0..20)
        .map(|_| {
            let sandbox = sandbox.clone();
            tokio::spawn(
                async move { evaluate(&sandbox, evaluation("[limit(2; repeat($item))] | add")).await },
            )
        })
        .collect();
    for one in many {
        assert_eq!(one.await.expect("the task ends"), Ok(Data::int(14)));
    }
    let small = Sandbox::new(Options { processes_max: 1, waiting_max: 1, ..options() });
    let (one, other) = (tenant("one"), tenant("other"));
    let (first, waiting, crowded, elsewhere) = tokio::join!(
        small.evaluate(&one, evaluation("last(range(1e12))")),
        small.evaluate(&one, evaluation("1")),
        small.evaluate(&one, evaluation("2")),
        small.evaluate(&other, evaluation("3")),
    );
    assert!(first.expect("it ran").is_err());
    assert_eq!(waiting, Ok(Ok(Data::int(1))));
    let why = "the expression did not run: too many of this tenant wait for the sandbox";
    assert_eq!(crowded, Err(NotRun(why.to_owned())));
    assert_eq!(
        elsewhere,
        Ok(Ok(Data::int(3))),
        "what one tenant may have waiting is no other tenant's matter"
    );
}

async fn a_program_that_is_no_evaluator_is_a_fault() {
    let missing = Sandbox::new(Options::new("/nonexistent/evaluator".into(), Vec::new()));
    assert!(detail(evaluate(&missing, evaluation("1")).await).contains("the sandbox cannot start"));
    let other = Sandbox::new(Options::new("/bin/true".into(), Vec::new()));
    assert!(detail(evaluate(&other, evaluation("1")).await).starts_with("the expression was stopped"));
}

async fn script(sandbox: &Sandbox, code: &str, returned: Returned) -> Result<Data, Fault> {
    let request = ScriptRequest {
        code: code.to_owned(),
        arguments: vec!["hello".to_owned(), "é😀".to_owned()],
        environment: vec![("foo".to_owned(), "bar".to_owned())],
        stdin: "Hello Workflow".to_owned(),
        returned,
    };
    let call = ScriptCall { request, key: "key".to_owned(), now: Time(1_700_000_000_000_000) };
    sandbox.script(&tenant("acme"), call).await.expect("a process can be had")
}

async fn scripts_answer_as_processes_do() {
    let sandbox = Sandbox::new(options());
    let json = |text: &str| Data::parse(text.as_bytes()).expect("JSON");
    let example = "import { readFileSync } from 'node:fs';
        const stdin = readFileSync(process.stdin.fd, 'utf8');
        console.log('stdin >', stdin);
        const [_, __, arg] = process.argv;
        console.log('arg >', arg);
        console.error('env >', process.env.foo);";
    let stdout = "stdin > Hello Workflow\narg > hello\n";
    for (code, returned, expected) in [
        (example, Returned::Stdout, Data::text(stdout)),
        (example, Returned::Stderr, Data::text("env > bar\n")),
        (example, Returned::Code, json("0")),
        (example, Returned::None, Data::NULL),
        ("console.log(process.argv[3])", Returned::Stdout, Data::text("é😀\n")),
        ("process.exit(3); console.log('no')", Returned::Code, json("3")),
        (
            "console.error('bad'); process.exit(4)",
            Returned::All,
            json(r#"{"code":4,"stdout":"","stderr":"bad\n"}"#),
        ),
        ("console.log({ a: [1, null] }, 2, true)", Returned::Stdout, Data::text("{\"a\":[1,null]} 2 true\n")),
        ("console.log(await Promise.resolve(5))", Returned::Stdout, Data::text("5\n")),
        // What is left for later is done too.
        (
            "async function main() { await null; console.log('x') } main()",
            Returned::Stdout,
            Data::text("x\n"),
        ),
        ("Promise.resolve(1).then((one) => console.log(one))", Returned::Stdout, Data::text("1\n")),
        ("Promise.reject(1).catch(() => console.log('ok'))", Returned::Stdout, Data::text("ok\n")),
        ("async function main() { await null; process.exit(5) } main()", Returned::Code, json("5")),
        (
            "console.log(Date.now(), new Date().getUTCFullYear())",
            Returned::Stdout,
            Data::text("1700000000000 2023\n"),
        ),
        (
            "console.log([typeof fetch, typeof setTimeout, typeof require, typeof std, typeof host].join())",
            Returned::Stdout,
            Data::text("undefined,undefined,undefined,undefined,undefined\n"),
        ),
    ] {
        assert_eq!(script(&sandbox, code, returned).await, Ok(expected), "{code}");
    }
    // Chance comes from the call, so an attempt computes what the one before did.
    let draw = "console.log(Math.random(), Math.random())";
    let first = script(&sandbox, draw, Returned::Stdout).await.expect("a number");
    assert_eq!(script(&sandbox, draw, Returned::Stdout).await, Ok(first.clone()));
    let numbers: Vec<f64> =
        first.to_text().split_whitespace().map(|number| number.parse().expect("a number")).collect();
    assert!(
        numbers[0] != numbers[1] && numbers.iter().all(|number| (0.0..1.0).contains(number)),
        "{numbers:?}"
    );
}

async fn stops(sandbox: &Sandbox, code: &str, expected: &str) {
    let fault = script(sandbox, code, Returned::Stdout).await.expect_err(code);
    let detail = fault.detail.clone().unwrap_or_default();
    assert!(detail.contains(expected), "{code}: {detail}");
    assert!(fault.error_type.ends_with("/runtime") && fault.status == 500, "{fault:?}");
}

async fn scripts_are_held_to_their_limits() {
    // Long enough that on a busy machine too a script meets the limit that is meant, and not its time.
    let sandbox = Sandbox::new(Options { script_deadline: Duration::from_secs(120), ..options() });
    for (code, expected) in [
        (
            "const a = 1;\nlet b = ;",
            "SyntaxError: unexpected token in expression: ';' (line 2 of the script)",
        ),
        ("\n\nthrow new TypeError('oops')", "TypeError: oops (line 3 of the script)"),
        ("throw 'plain'", "the script threw plain"),
        ("async function main() { throw new Error('lost') } main()", "Error: lost (line 1 of the script)"),
        ("Promise.reject('lost')", "the script threw lost"),
        ("const again = () => Promise.resolve().then(again); again()", "ran out of memory"),
        ("process.exit(2)", "the script ended with code 2"),
        ("function f() { return 1 + f() } f()", "Maximum call stack size exceeded"),
        ("const a = []; while (true) a.push('x'.repeat(1e5) + a.length)", "out of memory"),
        ("while (true) console.log('x'.repeat(1000))", "its output is larger than 1048576 bytes"),
        ("try { while (true) console.log('x'.repeat(1000)) } catch {}", "its output is larger than"),
        ("import http from 'node:http'", "node:http"),
        ("await new Promise(() => {})", "never comes"),
        ("import { readFileSync } from 'node:fs'; readFileSync('/etc/passwd')", "there are no files here"),
    ] {
        stops(&sandbox, code, expected).await;
    }
    let hasty = Sandbox::new(Options { script_deadline: Duration::from_millis(1500), ..options() });
    stops(&hasty, "while (true) {}", "the script was stopped: it ran longer than 1500 ms").await;
    // The next one is not hurt.
    assert_eq!(script(&sandbox, "console.log(1)", Returned::Stdout).await, Ok(Data::text("1\n")));
}
