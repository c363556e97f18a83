//! A program as a document of the definition language.

use super::{MEETING, MODULUS, NAMESPACE, Numbered, Program, SOURCE, Step, TELLING, VERSION};
use serde_json::{Value, json};

impl Program {
    /// Effects go to the sink on this port of this machine.
    pub(crate) fn document(&self, sink: u16) -> Value {
        let writer = Writer { sink };
        let mut tasks = vec![json!({ "begin": { "set": { "n": "${ .n }" } } })];
        tasks.extend(writer.list(&self.steps, &[]));
        if self.faults {
            let error = json!({ "type": "https://example.com/chaos", "status": 418 });
            tasks.push(json!({ "fail": { "raise": { "error": error } } }));
        }
        json!({
            "document": { "dsl": "1.0.3", "namespace": NAMESPACE, "name": self.name, "version": VERSION },
            "do": tasks,
        })
    }
}

struct Writer {
    sink: u16,
}

impl Writer {
    /// `loops` are the names of the positions in the loops around the list.
    fn list(&self, steps: &[Numbered], loops: &[String]) -> Vec<Value> {
        steps.iter().map(|step| self.task(step, loops)).collect()
    }

    fn task(&self, Numbered { number, step }: &Numbered, loops: &[String]) -> Value {
        let name = format!("s{number}");
        let body = match step {
            Step::Add(add) => json!({ "set": { "n": format!("${{ .n + {add} }}") } }),
            Step::Effect { add, fails: 0 } => self.effect(&name, loops, *add, 0),
            Step::Effect { add, fails } => json!({
                "try": [{ "ask": self.effect(&name, loops, *add, *fails) }],
                "catch": { "retry": {
                    "delay": { "milliseconds": 30 },
                    "limit": { "attempt": { "count": fails + 5 } },
                } },
            }),
            Step::Timer { ms } => json!({ "do": [
                { "before": self.effect(&format!("{name}a"), loops, 0, 0) },
                { "rest": { "wait": { "milliseconds": ms } } },
                { "after": self.effect(&format!("{name}b"), loops, 0, 0) },
            ] }),
            Step::Group(steps) => json!({ "do": self.list(steps, loops) }),
            Step::Loop { times, body } => {
                let at = format!("at{number}");
                let inner: Vec<String> = loops.iter().cloned().chain([at.clone()]).collect();
                json!({
                    "for": { "each": format!("item{number}"), "at": at, "in": format!("${{ [range({times})] }}") },
                    "do": self.list(body, &inner),
                })
            }
            Step::Branch { odd, even } => json!({ "do": [
                { "choose": { "switch": [
                    { "isOdd": { "when": ".n % 2 == 1", "then": "odd" } },
                    { "isEven": { "then": "even" } },
                ] } },
                { "odd": { "do": self.list(odd, loops), "then": "exit" } },
                { "even": { "do": self.list(even, loops) } },
            ] }),
            Step::Fork { left, right } => json!({
                "fork": { "branches": [
                    { "left": { "do": self.list(left, loops) } },
                    { "right": { "do": self.list(right, loops) } },
                ] },
                "output": { "as": format!("{{ n: ((.[0].n + .[1].n) % {MODULUS}) }}") },
            }),
            Step::Listen { .. } => json!({
                "listen": { "to": { "one": { "with": { "type": format!("go-{number}") } } } },
                "output": { "as": "{ n: ($input.n + .[0].add) }" },
            }),
            Step::Meet { add } => meet(&outside(&name, loops), *add),
            Step::Tell { count } => {
                let one = |at: u32| {
                    let id = outside(&format!("{name}-{at}"), loops);
                    let event = json!({ "id": id, "source": SOURCE, "type": TELLING });
                    let emit = json!({ "event": { "with": event } });
                    json!({ format!("tell{at}"): { "emit": emit, "output": { "as": "$input" } } })
                };
                json!({ "do": (0..*count).map(one).collect::<Vec<_>>() })
            }
            Step::Child(program) => json!({ "run": { "workflow": {
                "namespace": NAMESPACE, "name": program.name, "version": VERSION,
                "input": { "key": outside(&name, loops), "n": "${ .n }" },
            } } }),
        };
        json!({ name: body })
    }

    fn effect(&self, name: &str, loops: &[String], add: i64, fails: u32) -> Value {
        let body = json!({ "id": outside(name, loops), "n": "${ .n }", "add": add, "fails": fails });
        let endpoint = format!("http://127.0.0.1:{}/effect", self.sink);
        json!({ "call": "http", "with": { "method": "post", "endpoint": endpoint, "body": body } })
    }
}

/// Every meeting is of one type of event: what begins to wait and what is published lock it against each other.
fn meet(subject: &str, add: i64) -> Value {
    let event = json!({
        "id": subject, "source": SOURCE, "type": MEETING, "subject": subject, "data": { "add": add },
    });
    let wanted = json!({ "type": MEETING, "subject": subject });
    json!({
        "fork": { "branches": [
            { "tell": { "emit": { "event": { "with": event } } } },
            { "hear": {
                "listen": { "to": { "one": { "with": wanted } } },
                "output": { "as": "{ n: ($input.n + .[0].add) }" },
            } },
        ] },
        "output": { "as": ".[1]" },
    })
}

/// The step's name in the outside world: the instance's key, the step, the positions in the loops around it.
fn outside(name: &str, loops: &[String]) -> String {
    let place: String = loops.iter().map(|at| format!(".\\(${at})")).collect();
    format!("${{ $workflow.input.key + \"/{name}{place}\" }}")
}
