//! Every example of `docs/language.md` does what its comments say.

use super::{bench, data};
use crate::{Command, token::Origin};

/// The fenced examples with the line they begin on.
fn examples(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line.trim() == "```yaml" {
            let body = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```");
            found.push((number + 2, body.collect::<Vec<_>>().join("\n")));
        }
    }
    found
}

#[test]
fn the_manual_is_right() {
    let page = include_str!("../../../../../docs/language.md");
    let mut count = 0;
    for (line, body) in examples(page) {
        let comment = |key: &str| {
            let wanted = format!("# {key}: ");
            body.lines()
                .filter_map(move |line| line.strip_prefix(&wanted).map(str::to_owned))
                .collect::<Vec<_>>()
        };
        let Some(output) = comment("output").pop() else { continue };
        count += 1;
        let mut run = bench(&body);
        run.subject.origin = Some(Origin { key: [5; 32], public_url: String::new() }.into());
        let mut run = run.start(comment("input").first().map_or("{}", String::as_str));
        let token = run.state().context.get("token").map(|token| token.to_text()).unwrap_or_default();
        for signal in comment("signal") {
            let (name, payload) = signal.split_once(' ').unwrap_or((&signal, "null"));
            assert!(run.signal(name, &payload.replace("$token", &token)), "line {line}: {signal}");
        }
        for result in comment("task") {
            let token = run.tasks.remove(0).token;
            assert!(run.tell(Command::TaskDone { token, result: data(&result) }), "line {line}");
        }
        let state = run.state();
        assert_eq!(state.output, Some(data(&output)), "line {line}: {:?} {:?}", state.status, state.error);
    }
    assert!(count >= 8, "only {count} examples");
}
