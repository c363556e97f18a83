//! Expressions that must be refused, sent to the sandbox, or stopped.

use super::{compile, data, eval};
use crate::expr::{Args, Evaluation, FUEL_IN_PROCESS};
use std::time::{Duration, Instant};

#[test]
fn what_reads_outside_is_refused_by_name() {
    let rows = [
        "env",
        "$ENV",
        "input",
        "inputs",
        "halt",
        "halt_error",
        "debug",
        "stderr",
        "now",
        "localtime",
        "input_filename",
        "input_line_number",
        "get_search_list",
        "$__loc__",
    ];
    for name in rows {
        let source = format!("[1] | map({name})");
        let error = compile(&source).err().unwrap_or_else(|| panic!("{name} compiles"));
        assert_eq!(error.message, format!("{name} is not available in definitions"));
        assert_eq!(error.offset, 10, "{name}");
    }
    let rows = [
        ("halt(7)", "halt is not available in definitions"),
        ("halt_error(1)", "halt_error is not available in definitions"),
        ("debug(1)", "debug is not available in definitions"),
        (r#"strflocaltime("%H")"#, "strflocaltime is not available in definitions"),
        (r#"import "a" as a; ."#, "import is not available in definitions"),
        (r#"include "a"; ."#, "include is not available in definitions"),
        ("a::b", "modules are not available in definitions: a::b"),
    ];
    for (source, expected) in rows {
        let error = compile(source).err().unwrap_or_else(|| panic!("{source} compiles"));
        assert_eq!(error.message, expected);
    }
}

#[test]
fn mistakes_are_named_and_placed() {
    let rows = [
        ("$contxt.x", "$contxt is not defined here, did you mean $context?", 0),
        ("1 + $foo", "$foo is not defined here", 4),
        (".a | lenght", "unknown function lenght, did you mean length?", 5),
        (".a | frobnicate", "unknown function frobnicate", 5),
        ("map", "map takes 1 arguments, not 0", 0),
        ("[1,", "expected closing bracket but found the end", 3),
        (".a +", "expected term but found the end", 4),
        ("", "expected term but found the end", 0),
        (".a b", "expected nothing but found `b`", 3),
        ("break $x", "there is no `label $x` around this `break`", 6),
        ("windlass_main", "unknown function windlass_main", 0),
        ("error_empty", "unknown function error_empty", 0),
        ("def windlass_tick: 1; 2", "names that begin with windlass_ are reserved", 4),
        ("reduce .[] as $x (0)", "reduce needs `(start; update)` behind its variable", 0),
        ("{a: 1 b: 2}", "expected comma or right brace but found `b`", 6),
        (r#""\(1"#, "expected closing parenthesis but found the end", 4),
    ];
    for (source, message, offset) in rows {
        let error = compile(source).err().unwrap_or_else(|| panic!("{source} compiles"));
        assert_eq!((error.message.as_str(), error.offset), (message, offset), "{source}");
    }
}

#[test]
fn only_what_ends_by_itself_is_bounded() {
    let bounded = [
        ".a.b",
        "map(.x) | add",
        "reduce .[] as $x (0; . + $x)",
        "[range(10)]",
        "[range(0; 10000)]",
        "[limit(3; .[])]",
        ".. | numbers",
        "walk(.)",
        "[paths]",
        r#""x" * 3"#,
        ".price * .quantity",
        r#"test("a+")"#,
        "first(.[])",
        "to_entries",
        "flatten",
    ];
    for source in bounded {
        assert!(compile(source).expect(source).bounded, "{source}");
    }
    let unbounded = [
        "def f: 1; f",
        "range(.n)",
        "[range(1e9)]",
        "last(range(1e12))",
        "range(0; 10; 0)",
        "recurse(.a)",
        "recurse(.a; . != null)",
        "repeat(1)",
        "[limit(1e9; repeat(1))]",
        "until(false; .)",
        "while(true; .)",
        "combinations",
        r#""x" * 500000000"#,
    ];
    for source in unbounded {
        assert!(!compile(source).expect(source).bounded, "{source}");
    }
}

/// Each does not compile, or is for the sandbox, or ends soon; none takes the process with it.
#[test]
#[expect(clippy::disallowed_methods, reason = "the time an evaluation takes is what is tested")]
fn the_hostile_corpus_is_stopped() {
    let doubling = vec!["[.[],.[]]"; 40].join(" | ");
    let sharing = vec!["[.,.]"; 40].join(" | ");
    let merging = format!("{} | . * .", vec!["{a:.,b:.}"; 40].join(" | "));
    let texts = vec!["(. + .)"; 60].join(" | ");
    let quoting = vec!["tojson"; 40].join(" | ");
    let squares = format!("12345678901234567890 | {} | [.]", vec!["(. * .)"; 40].join(" | "));
    let nested = format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000));
    let minus = format!("{}1", "-".repeat(16_000));
    let fewer = format!("{}1", "-".repeat(3900));
    let pipes = vec!["."; 3000].join("|");
    let tries = format!("{}1", "try ".repeat(3900));
    let product = format!("[{} 1]", ".[] as $x | ".repeat(12));
    let sources = [
        "def f: 1 + f; f",
        "def f: [f]; f",
        "def f: f; f",
        "def f: f, f; [f]",
        "def a(x): a(x); a(0)",
        "def f: try f catch f; f",
        "def f(g): f(g | g); f(.)",
        "[range(1e9)]",
        "last(range(1e12))",
        "[range(0; 1; 0)]",
        "until(false; .)",
        "[repeat(1)]",
        "[limit(1e9; repeat(1))]",
        "[recurse([.])] | length",
        "last(recurse(.))",
        r#""x" * 500000000"#,
        r#"["x" * 100000 | . * 100000]"#,
        r#"reduce range(100) as $i ("ab"; . + .)"#,
        "reduce range(10000) as $i ([]; [.])",
        "reduce range(10000) as $i ({}; {a: .})",
        "[range(10000)] | [.[] as $a | .[] as $b | $a + $b]",
        "[range(10000)] | map([range(10000)])",
        "[range(9999)] | combinations(9999)",
        r#"[range(5000)] | map("a") | add | indices("aaaa" * 1000)"#,
        r#"("a" * 20000) | [match("(?:.*z)|a"; "g")] | length"#,
        r#"("a" * 20000) | test("(a?){200}a{200}b")"#,
        r#"("a" * 100000) | gsub(""; "b" * 1000)"#,
        r#"("[" * 100000) | fromjson"#,
        r#"("1" * 1000000) | tonumber | tostring"#,
        r#"[limit(100000; repeat("x"))] | join("y" * 1000)"#,
        r#"[range(10000)] | map([range(10000)]) | sort"#,
        r#".[100000000] = 1"#,
        "[range(9000)] | contains([range(9000)] | map(-. - 1))",
        "halt(7)",
        "env",
        "$ENV",
        "input",
        "now",
        r#"[-9223372036854775808] | .[0] % -1, ([9e18, 127, 1, 1, 1, 1] | mktime)"#,
        &doubling,
        &sharing,
        &merging,
        &format!("{sharing} | tojson"),
        &format!("{sharing} | . == ."),
        &format!("{sharing} | {sharing} | [., .] | sort"),
        &format!(r#""ab" | {texts}"#),
        &format!(r#""\"" | {quoting}"#),
        &squares,
        &nested,
        &minus,
        &fewer,
        &pipes,
        &tries,
        &product,
    ];
    let many = format!("[{}1]", "1,".repeat(5000));
    for source in sources {
        let shown: String = source.chars().take(60).collect();
        let Ok(compiled) = compile(source) else { continue };
        // Endless chains of function arguments overflow the stack when they are dropped: only a sandbox bears it.
        if source.contains("def ") {
            assert!(!compiled.bounded, "{shown}");
            continue;
        }
        let input = data(if source.starts_with(".[1") { "[]" } else { &many });
        let started = Instant::now();
        // A fifth of the fuel, because an unoptimised build is that much slower.
        let result = compiled.interpret(&input, &Args::default(), FUEL_IN_PROCESS / 5);
        let elapsed = started.elapsed();
        println!("{elapsed:>10.1?} {} {shown}", if result.0.is_ok() { "ended" } else { "fault" });
        assert!(elapsed < Duration::from_secs(10), "{shown} took {elapsed:?}");
    }
}

/// What holds up a thread for tens of milliseconds is bounded all the same, but not for this process to evaluate.
#[test]
fn what_is_bounded_but_long_is_left_to_the_sandbox() {
    let pairs = |count: usize| format!("[range({count})] | [.[] as $a | .[] as $b | $a * $b] | add");
    for (count, here) in [(10, true), (60, true), (300, false), (600, false)] {
        let compiled = compile(&pairs(count)).unwrap();
        assert!(compiled.bounded, "{count}");
        let result = compiled.eval(&data("null"), &Args::default());
        assert_eq!(result.is_some(), here, "{count}: {result:?}");
    }
    assert_eq!(eval(&pairs(300), "null").unwrap(), data("2011522500"));
}

#[test]
fn a_stop_cannot_be_caught() {
    let rows = [
        "try ([range(1e9)]) catch 1",
        "[.[]? , (range(1e9) | empty)] | 1",
        "([range(1e9)])? // 1",
        "first(range(1e9; 0; -1) | select(. == 5))",
        "def f: f; try f catch 1",
        "def f: 1 + f; try f catch 1",
    ];
    for source in rows {
        let fault = eval(source, "[]").expect_err(source);
        assert!(fault.detail.as_deref().unwrap_or("").contains("was stopped"), "{source}: {fault:?}");
    }
}

#[test]
fn results_are_limited() {
    let rows = [
        ("range(10000) | 1, 1", "the expression has more than 10000 outputs"),
        (r#"[range(10)] | map("x" * 200000)"#, "the result is larger than 1048576 bytes"),
        ("reduce range(100) as $i (1; [.])", "the result is nested deeper than 64 levels"),
    ];
    for (source, expected) in rows {
        let fault = eval(source, "null").expect_err(source);
        assert_eq!(fault.detail.as_deref(), Some(expected), "{source}");
    }
}

#[test]
fn an_evaluation_runs_what_was_handed_out() {
    let run = |source: &str| {
        let names = vec!["item".to_owned()];
        let args = Args { locals: vec![data("5")], ..Args::default() };
        Evaluation { source: source.to_owned(), local_names: names, input: data("1"), args }.run()
    };
    assert_eq!(run("def f: if . < 1000 then . + $item | f else . end; f").expect("runs"), data("1001"));
    assert_eq!(run("[limit(3; repeat(.))]").expect("runs"), data("[1,1,1]"));
    assert!(run("def f: 1 + f; f").is_err());
    assert!(run("nonsense").is_err());
}
