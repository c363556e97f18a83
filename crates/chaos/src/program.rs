//! Random programs: a tree of steps that becomes a definition, and of which [`Program::expect`] says what must come out.
//!
//! The data of every step is `{ "n": … }`. The expectation is reckoned from the tree alone: it never asks the engine.

mod document;
#[cfg(test)]
mod tests;

use crate::record::{Expected, Wait};
use rand::{Rng, rngs::StdRng};

pub(crate) const NAMESPACE: &str = "chaos";
/// The type of the events that an instance emits and waits for.
pub(crate) const MEETING: &str = "chaos.meet";
/// The type of those that nobody waits for.
const TELLING: &str = "chaos.told";
/// Where events of programs say they are from.
pub(crate) const SOURCE: &str = "https://chaos.example";
pub(crate) const VERSION: &str = "1.0.0";
/// Branches are added up below this, so that numbers stay small.
const MODULUS: i64 = 10_007;
/// How deep lists of steps lie in each other.
const DEPTH_MAX: u32 = 3;

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    steps: Vec<Numbered>,
    /// It ends with an error of its own.
    faults: bool,
}

/// A step, and the number that makes its name one of a kind in its program.
#[derive(Clone, Debug)]
struct Numbered {
    number: u32,
    step: Step,
}

#[derive(Clone, Debug)]
enum Step {
    Add(i64),
    /// A request to the sink, which refuses it so often before it takes it.
    Effect {
        add: i64,
        fails: u32,
    },
    /// Effect, wait, effect.
    Timer {
        ms: u64,
    },
    Group(Vec<Numbered>),
    Loop {
        times: u32,
        body: Vec<Numbered>,
    },
    /// The first list if `n` is odd, the second if it is even.
    Branch {
        odd: Vec<Numbered>,
        even: Vec<Numbered>,
    },
    Fork {
        left: Vec<Numbered>,
        right: Vec<Numbered>,
    },
    Listen {
        add: i64,
    },
    /// Emits an event in one branch and waits for it in another: whichever is first, they must meet.
    Meet {
        add: i64,
    },
    /// Emits so many events in one go.
    Tell {
        count: u32,
    },
    /// Another program, as an instance of its own.
    Child(Box<Program>),
}

/// All programs of a run: children first, each of which is deployed too.
pub(crate) fn draw_all(rng: &mut StdRng, count: usize) -> Vec<Program> {
    let children: Vec<Program> =
        (0..3).map(|at| Draw::new(rng, &[]).program(format!("child-{at}"), false)).collect();
    let mut all = children.clone();
    for at in 0..count {
        let mut draw = Draw::new(rng, &children);
        all.push(draw.program(format!("program-{at}"), true));
    }
    all
}

/// Makes one program.
struct Draw<'a> {
    rng: &'a mut StdRng,
    children: &'a [Program],
    number: u32,
    /// Steps that may still be drawn: a program ends in seconds when nothing harms it.
    left: u32,
    listens: bool,
}

impl<'a> Draw<'a> {
    fn new(rng: &'a mut StdRng, children: &'a [Program]) -> Draw<'a> {
        let left = if children.is_empty() { 4 } else { rng.random_range(4..12) };
        Draw { rng, children, number: 0, left, listens: false }
    }

    /// Children are not sent signals: nobody outside knows their ids.
    fn program(&mut self, name: String, listens: bool) -> Program {
        self.listens = listens;
        let mut steps = self.list(0);
        while self.left > 0 {
            steps.extend(self.list(0));
        }
        Program { name, steps, faults: listens && self.rng.random_ratio(1, 8) }
    }

    fn list(&mut self, depth: u32) -> Vec<Numbered> {
        let count = self.rng.random_range(1..=3);
        (0..count).map(|_| self.numbered(depth)).collect()
    }

    fn numbered(&mut self, depth: u32) -> Numbered {
        self.number += 1;
        let number = self.number;
        Numbered { number, step: self.step(depth) }
    }

    fn step(&mut self, depth: u32) -> Step {
        self.left = self.left.saturating_sub(1);
        let add = self.rng.random_range(1..100);
        let nests = depth < DEPTH_MAX && self.left > 0;
        match self.rng.random_range(0..20) {
            0..=2 => Step::Add(add),
            3..=4 => Step::Effect { add, fails: self.rng.random_range(1..=2) },
            5..=6 => Step::Timer { ms: self.rng.random_range(50..1500) },
            7..=8 if self.listens => Step::Listen { add },
            9..=10 if !self.children.is_empty() => {
                let at = self.rng.random_range(0..self.children.len());
                Step::Child(Box::new(self.children[at].clone()))
            }
            11..=12 if nests => {
                Step::Loop { times: self.rng.random_range(2..=3), body: self.list(depth + 1) }
            }
            13..=14 if nests => Step::Branch { odd: self.list(depth + 1), even: self.list(depth + 1) },
            15..=16 if nests => Step::Fork { left: self.list(depth + 1), right: self.list(depth + 1) },
            17 if nests => Step::Group(self.list(depth + 1)),
            18 => Step::Meet { add },
            19 if self.rng.random() => Step::Tell { count: self.rng.random_range(1..=4) },
            _ => Step::Effect { add, fails: 0 },
        }
    }
}

impl Program {
    /// What an instance with this key must come to.
    pub(crate) fn expect(&self, tenant: &str, key: &str, n: i64) -> Expected {
        let mut reckoning =
            Reckoning { key: key.to_owned(), told: Vec::new(), expected: Expected::default() };
        let n = reckoning.list(&self.steps, n, "");
        reckoning.close();
        let status = if self.faults { "faulted" } else { "completed" };
        Expected {
            key: key.to_owned(),
            tenant: tenant.to_owned(),
            program: self.name.clone(),
            status: status.to_owned(),
            n,
            ..reckoning.expected
        }
    }
}

/// Walks a program as the engine must.
struct Reckoning {
    key: String,
    /// Events of the branch that is walked.
    told: Vec<String>,
    expected: Expected,
}

impl Reckoning {
    fn list(&mut self, steps: &[Numbered], n: i64, place: &str) -> i64 {
        steps.iter().fold(n, |n, step| self.step(step, n, place))
    }

    /// `place` is the position in the loops around the step, as its name in the outside world has it.
    fn step(&mut self, Numbered { number, step }: &Numbered, n: i64, place: &str) -> i64 {
        let name = |part: &str| format!("{}/s{number}{part}{place}", self.key);
        match step {
            Step::Add(add) => n + add,
            Step::Effect { add, .. } => {
                self.expected.effects.insert(name(""));
                n + add
            }
            Step::Timer { ms } => {
                let (before, after) = (name("a"), name("b"));
                self.expected.effects.extend([before.clone(), after.clone()]);
                self.expected.waits.push(Wait { before, after, ms: *ms });
                n
            }
            Step::Group(steps) => self.list(steps, n, place),
            Step::Loop { times, body } => {
                (0..*times).fold(n, |n, at| self.list(body, n, &format!("{place}.{at}")))
            }
            Step::Branch { odd, even } => self.list(if n % 2 == 1 { odd } else { even }, n, place),
            Step::Fork { left, right } => {
                let outer = std::mem::take(&mut self.told);
                let (left, right) = (self.branch(left, n, place), self.branch(right, n, place));
                self.told = outer;
                (left + right) % MODULUS
            }
            Step::Listen { add } => {
                self.expected.signals.push((format!("go-{number}"), *add));
                n + add
            }
            Step::Meet { add } => {
                self.expected.meets += 1;
                self.told.push(name(""));
                n + add
            }
            Step::Tell { count } => {
                self.told.extend((0..*count).map(|at| name(&format!("-{at}"))));
                n
            }
            Step::Child(program) => self.child(program, name(""), n),
        }
    }

    /// What branches emit has no order between them.
    fn branch(&mut self, steps: &[Numbered], n: i64, place: &str) -> i64 {
        let n = self.list(steps, n, place);
        self.close();
        n
    }

    /// Nothing more is told in the branch that is walked.
    fn close(&mut self) {
        let told = std::mem::take(&mut self.told);
        self.expected.told.extend(Some(told).filter(|told| !told.is_empty()));
    }

    fn child(&mut self, program: &Program, key: String, n: i64) -> i64 {
        let Expected { n, effects, waits, told, .. } = program.expect("", &key, n);
        self.expected.told.extend(told);
        self.expected.effects.extend(effects);
        self.expected.waits.extend(waits);
        self.expected.children.insert(key, n);
        n
    }
}
